"""Documents of the train split that a run forgets: found by number, group, file or pattern."""

import difflib
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path

from mlm.config.pretraining import Forgotten
from mlm.corpus.artefacts import CorpusSplit, FilesSource
from mlm.corpus.document_groups import OWN
from mlm.corpus.file_patterns import matched_files, recorded_path
from mlm.corpus.filters import Filters
from mlm.corpus.parts import whole
from mlm.corpus.sources import open_source
from mlm.corpus.split_documents import SplitDocuments
from mlm.foundations.errors import MlmError

#: Documents that are in memory at a time.
_BATCH = 1024


def texts_of_file(path: str, settings: dict) -> Iterator[str]:
    """The documents of a source file, as the filters leave each by itself."""
    filters = Filters(settings["filters"])
    for raw, _ in open_source(settings, whole({"train": [path]})).streams["train"]():
        yield filters.judged(raw).text


class TrainDocuments:
    """The train split that `record` describes, made with `settings` (of `used_settings`)."""

    def __init__(self, record: str | Path, settings: dict):
        self._settings = settings
        self._documents = SplitDocuments.described(record)
        self._described = CorpusSplit.read(record)
        self._count = len(self._documents)

    def selected(self, whats: Iterable[Forgotten]) -> dict[str, list[int]]:
        """By each of `whats`, as written, the numbers of its documents, ascending; MlmError for one
        that finds none, and if nothing is left."""
        finders: dict[str, Callable[[str], list[int]]] = {
            "document": self._document,
            "group": self._of_group,
            "file": self._of_file,
            "pattern": self._matching,
        }
        found = {str(what): finders[what.kind](what.value) for what in whats}
        documents = {number for numbers in found.values() for number in numbers}
        if len(documents) == self._count:
            raise MlmError(
                f"{', '.join(found)}: these are all {self._count:,} documents of train. Name fewer"
            )
        return found

    def texts(self, numbers: Iterable[int]) -> dict[int, str]:
        """The texts of the documents `numbers`, by these."""
        wanted = set(numbers)
        return {n: text for n, text in self._numbered() if n in wanted}

    def _numbered(self) -> Iterator[tuple[int, str]]:
        return enumerate(text for texts in self._documents.texts(_BATCH) for text in texts)

    def _in_groups(self, groups: set[str]) -> list[int]:
        column = self._documents.column("group").to_pylist()
        return [number for number, group in enumerate(column) if group in groups]

    def _document(self, value: str) -> list[int]:
        if int(value) >= self._count:
            raise MlmError(f"document:{value}: train has the documents 0 to {self._count - 1}")
        return [int(value)]

    def _of_group(self, value: str) -> list[int]:
        group_by = self._described.group_by
        if group_by == OWN:
            raise MlmError(
                f"group:{value}: this corpus has no groups (corpus.group_by, corpus.group_per). "
                "Name document:, file: or pattern:"
            )
        if found := self._in_groups({value}):
            return found
        nearest = _nearest(value, self._documents.column("group").to_pylist(), "group")
        raise MlmError(f"group:{value}: no {group_by} of the train split is called so{nearest}")

    def _of_file(self, value: str) -> list[int]:
        group_by, source = self._described.group_by, self._described.source
        if not isinstance(source, FilesSource):
            raise MlmError(
                f"file:{value}: the corpus comes from no files (corpus.source: {source.kind}). "
                "Name document:, group: or pattern:"
            )
        digests = {file.path: file.sha256 for file in source.files}
        if value not in digests:
            nearest = _nearest(value, list(digests), "file")
            raise MlmError(f"file:{value}: no file of the train split is called so{nearest}")
        if len(source.files) == 1:
            return list(range(self._count))
        if group_by == "file":
            found = self._in_groups({value, f"{value} {digests[value][:16]}"})
        else:
            patterns = {"train": self._settings["files"]["train"]}
            paths = [p for p in matched_files(patterns)["train"] if recorded_path(p) == value]
            texts = {text for path in paths for text in texts_of_file(path, self._settings)}
            found = [number for number, text in self._numbered() if text in texts]
        if not found:
            raise MlmError(
                f"file:{value}: none of its documents is in train: all were left out or held out, "
                "or the file was moved"
            )
        return found

    def _matching(self, value: str) -> list[int]:
        pattern = re.compile(value)
        if found := [number for number, text in self._numbered() if pattern.search(text)]:
            return found
        raise MlmError(
            f"pattern:{value}: matches nothing in the {self._count:,} documents of train. Upper "
            "and lower case differ; (?i) at its beginning makes them alike"
        )


def _nearest(value: str, names: Sequence, kind: str) -> str:
    """The names most like `value`, as the end of a message."""
    known = sorted({str(name) for name in names})
    close = difflib.get_close_matches(value, known, n=3, cutoff=0.5)
    close += [name for name in known if value.lower() in name.lower()]
    shown = list(dict.fromkeys(close))[:5] or known[:3]
    return f". Nearest: {', '.join(f'{kind}:{name}' for name in shown)}"
