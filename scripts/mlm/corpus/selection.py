"""Documents of the train split that a run forgets: found by number, group, file or pattern."""

import difflib
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path

from mlm.config.pretraining import KINDS, Forgotten
from mlm.corpus.artefacts import CorpusSplit, FilesSource
from mlm.corpus.file_patterns import matched_files
from mlm.corpus.filters import Filters
from mlm.corpus.groups import OWN
from mlm.corpus.parts import whole
from mlm.corpus.sources import open_source
from mlm.corpus.split_documents import SplitDocuments
from mlm.foundations.errors import MlmError

#: Documents that are in memory at a time.
_BATCH = 1024


class TrainDocuments:
    """The documents of the train split, as the corpus stage wrote and described them.

    `record` is results/corpus/train.json, beside the files that it describes, `settings` those that
    the corpus was made with (`mlm.corpus.file_patterns.used_settings`). Some texts at a time are in
    memory.
    """

    def __init__(self, record: str | Path, settings: dict):
        self._record, self._settings = Path(record), settings
        self._documents = SplitDocuments.described(record)
        self._described = CorpusSplit.read(record)
        self._count = len(self._documents)

    def selected(self, whats: Iterable[Forgotten]) -> dict[str, list[int]]:
        """By each of `whats`, as it was written, the numbers of its documents, ascending.

        Raises MlmError for one that finds no document, saying what there is, and where all of them
        together leave nothing.
        """
        found = {str(what): self._one(what) for what in whats}
        documents = {number for numbers in found.values() for number in numbers}
        if len(documents) == self._count:
            raise MlmError(
                f"{', '.join(found)}: these are all {self._count:,} documents of the train "
                "split, and nothing is left to train on. Name fewer"
            )
        return found

    def texts(self, numbers: Iterable[int]) -> dict[int, str]:
        """The texts of the documents `numbers`, by these."""
        wanted = set(numbers)
        return {n: text for n, text in enumerate(self._all_texts()) if n in wanted}

    def _one(self, what: Forgotten) -> list[int]:
        ways: dict[str, Callable[[str], list[int]]] = {
            "document": self._document,
            "group": self._group,
            "file": self._of_file,
            "pattern": self._pattern,
        }
        assert ways.keys() == KINDS.keys()
        return ways[what.kind](what.value)

    def _document(self, value: str) -> list[int]:
        if int(value) >= self._count:
            raise MlmError(
                f"document:{value}: the train split has {self._count:,} documents, 0 to "
                f"{self._count - 1}"
            )
        return [int(value)]

    def _group(self, value: str) -> list[int]:
        described = self._described
        if described.group_by == OWN:
            raise MlmError(
                f"group:{value}: the documents of this corpus have no groups (corpus.group_by, "
                "corpus.group_per). Name document:, file: or pattern:"
            )
        groups = self._documents.column("group").to_pylist()
        if found := [number for number, group in enumerate(groups) if group == value]:
            return found
        raise MlmError(
            f"group:{value}: no {described.group_by} of the train split is called so"
            f"{_nearest(value, groups, 'group')}{self._held_out(value)}"
        )

    def _held_out(self, value: str) -> str:
        """Where a group is that train does not have, if it is in a split carved from train."""
        for split in ("validation", "test"):
            record = self._record.with_name(f"{split}.json")
            if not record.exists():
                continue
            documents = SplitDocuments.described(record)
            if documents.are_there() and value in documents.column("group").to_pylist():
                return f"; it is in the {split} split, which no run is trained on"
        return ""

    def _of_file(self, value: str) -> list[int]:
        described = self._described
        source = described.source
        if not isinstance(source, FilesSource):
            group = "" if described.group_by == OWN else "group:, "
            raise MlmError(
                f"file:{value}: the corpus comes from no files (corpus.source: {source.kind}). "
                f"Name {group}document: or pattern:"
            )
        names = [file.path for file in source.files]
        if value not in names:
            raise MlmError(
                f"file:{value}: no file of the train split is called so"
                f"{_nearest(value, names, 'file')}"
            )
        if len(names) == 1:
            return list(range(self._count))
        if described.group_by == "file":
            digest = next(file.sha256 for file in source.files if file.path == value)
            mine = {value, f"{value} {digest[:16]}"}
            groups = self._documents.column("group").to_pylist()
            return self._some(value, [i for i, group in enumerate(groups) if group in mine])
        texts = self._texts_of(value)
        return self._some(value, [i for i, text in enumerate(self._all_texts()) if text in texts])

    def _some(self, value: str, found: list[int]) -> list[int]:
        if not found:
            raise MlmError(
                f"file:{value}: none of its documents is in the train split: all were left out by "
                "filters, stand in another file as well, or were held out"
            )
        return found

    def _texts_of(self, value: str) -> set[str]:
        """The documents of a file of the corpus, as the corpus has them."""
        patterns = {"train": self._settings["files"]["train"]}
        # An absolute path is recorded by its last part alone.
        paths = [
            path
            for path in matched_files(patterns)["train"]
            if value == (Path(path).name if Path(path).is_absolute() else Path(path).as_posix())
        ]
        if not paths:
            raise MlmError(f"file:{value}: is in the corpus, but no longer where it was read from")
        filters = Filters(**self._settings["filters"])
        stream = open_source(self._settings, whole({"train": paths})).streams["train"]()
        return {filters.prepared(document.text).text for document in stream}

    def _pattern(self, value: str) -> list[int]:
        pattern = re.compile(value)
        if found := [n for n, text in enumerate(self._all_texts()) if pattern.search(text)]:
            return found
        raise MlmError(
            f"pattern:{value}: matches nothing in the {self._count:,} documents of the train "
            "split. Upper and lower case differ; (?i) at its beginning makes them alike"
        )

    def _all_texts(self) -> Iterator[str]:
        for texts in self._documents.texts(_BATCH):
            yield from texts


def _nearest(value: str, names: Sequence, kind: str) -> str:
    """The names most like `value`, as the end of a message."""
    known = sorted({str(name) for name in names})
    close = difflib.get_close_matches(value, known, n=3, cutoff=0.5)
    inside = [name for name in known if value.lower() in name.lower()]
    shown = list(dict.fromkeys([*close, *inside]))[:5] or known[:3]
    words = ", ".join(f"{kind}:{name}" for name in shown)
    return f". {'Nearest' if close or inside else 'There are'}: {words}" if shown else ""
