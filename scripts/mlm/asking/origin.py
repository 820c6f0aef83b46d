"""Which file or source a document of the corpus came from."""

from collections.abc import Iterable, Sequence
from pathlib import Path

from mlm.asking.documents import Documents, Stretch
from mlm.corpus.artefacts import CorpusSplit, EmbeddedSource, HubSource, MixSource
from mlm.corpus.file_patterns import matched_files
from mlm.corpus.filters import Filters
from mlm.corpus.groups import OWN
from mlm.corpus.parts import whole
from mlm.corpus.sources import open_source
from mlm.corpus.split_documents import SplitDocuments
from mlm.foundations.artefacts import settings_digests
from mlm.foundations.digests import FileMemory
from mlm.foundations.errors import MlmError, remedy

#: Source files of more bytes together are not read through for a document.
_READ_THROUGH = 100_000_000


def check_corpus(path: Path, described: CorpusSplit, used: dict) -> None:
    """Raise MlmError where the corpus was made with other settings than `used`.

    These are of `file_patterns.corpus_settings`.
    """
    now = settings_digests({"settings": used})["settings"]
    then = described.made_from.settings.get("settings", now)
    if then != now:
        raise MlmError(
            f"{path}: was made with another section corpus than that of the configuration. Give "
            f"the one that it was made with (--configfile). {remedy(path)}"
        )


def check_text(
    described: Path, documents: SplitDocuments, memory: FileMemory, command: str
) -> None:
    """Raise MlmError where a file of the split is not what `described` recorded.

    `command` is the snakemake command of the configuration, without targets.
    """
    for path, recorded in zip(documents.paths, CorpusSplit.read(described).files, strict=True):
        if (found := memory.sha256(path)) != recorded.sha256:
            raise MlmError(
                f"{path} is damaged: it is not what was written beside {described} (sha256 "
                f"{found[:12]}…, recorded {recorded.sha256[:12]}…). To have it made again: "
                f"rm {path}, then {with_targets(command, [str(path)])}"
            )


def with_targets(command: str, targets: Sequence[str]) -> str:
    """`command` with the targets where Snakemake takes no option's value for them."""
    program, options = command.split(" --cores ", 1)
    cores, *rest = options.split(" ", 1)
    return " ".join([program, "--cores", cores, *targets, *rest])


class Origins:
    """Says where documents came from.

    `described` are the splits as the corpus stage describes them, `used` the settings that it was
    made with.
    """

    def __init__(self, documents: Documents, described: dict[str, CorpusSplit], used: dict):
        self._documents, self._described, self._used = documents, described, used

    def of(self, stretches: Iterable[Stretch]) -> list[str]:
        """The source of each document, in words."""
        stretches, files = list(stretches), {}
        for split, described in self._described.items():
            texts = {s.text for s in stretches if s.split == split}
            if texts and described.source.kind == "files" and described.group_by != "file":
                files[split] = self._files_of(texts, described.source.carved_from or split)
        return [self._in_words(s, files.get(s.split, {}).get(s.text)) for s in stretches]

    def _in_words(self, stretch: Stretch, file: str | None) -> str:
        described = self._described[stretch.split]
        source = described.source
        if isinstance(source, EmbeddedSource):
            place = source.package
        elif isinstance(source, HubSource):
            place = f"{source.dataset}, split {source.split}, revision {source.revision}"
        elif isinstance(source, MixSource):
            place = f"one of the sources {', '.join(one.name for one in source.sources)}"
        else:
            names = [f.path for f in source.files]
            file = file or (names[0] if len(names) == 1 else None)
            place = file or f"one of {len(names)} files: {names[0]} to {names[-1]}"
        if described.group_by == OWN:
            return place
        group = self._documents.group(stretch.split, stretch.document)
        # A file that is the group needs no second name.
        return (
            str(group) if described.group_by == "file" else f"{described.group_by} {group}, {place}"
        )

    def _files_of(self, texts: set[str], split: str) -> dict[str, str]:
        """The first file of `split` that holds each of `texts` as a document, where the files are
        here, several, and not too large."""
        try:
            paths = matched_files({split: self._used["files"][split]})[split]
        except MlmError:
            return {}  # moved away since: the corpus is there all the same
        if len(paths) < 2 or sum(Path(path).stat().st_size for path in paths) > _READ_THROUGH:
            return {}
        filters, found = Filters(**self._used["filters"]), {}
        for path in paths:
            for raw, _ in open_source(self._used, whole({"train": [path]})).streams["train"]():
                text = filters.judged(raw).text
                if text in texts:
                    found.setdefault(text, path)
            if len(found) == len(texts):
                break
        return found
