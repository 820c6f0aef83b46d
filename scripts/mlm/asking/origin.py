"""Which file or source a document of the corpus came from."""

from collections.abc import Sequence
from pathlib import Path

from mlm.asking.documents import Documents, Stretch
from mlm.corpus.artefacts import CorpusSource, CorpusSplit, EmbeddedSource, HubSource, MixSource
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


def sources_of(
    stretches: Sequence[Stretch], documents: Documents, splits: dict[str, CorpusSplit], used: dict
) -> list[str]:
    """The source of each document, in words.

    `splits` are as the corpus stage describes them, `used` the settings that it was made with.
    """
    files = {}
    for split, described in splits.items():
        texts = {s.text for s in stretches if s.split == split}
        if texts and described.source.kind == "files" and described.group_by != "file":
            files[split] = _files_of(texts, described.source.carved_from or split, used)
    found = []
    for one in stretches:
        described = splits[one.split]
        place = _in_words(described.source, files.get(one.split, {}).get(one.text))
        if described.group_by != OWN:
            group = documents.group(one.split, one.document)
            # A file that is the group needs no second name.
            of_file = described.group_by == "file"
            place = str(group) if of_file else f"{described.group_by} {group}, {place}"
        found.append(place)
    return found


def _in_words(source: CorpusSource, file: str | None) -> str:
    if isinstance(source, EmbeddedSource):
        return source.package
    if isinstance(source, HubSource):
        return f"{source.dataset}, split {source.split}, revision {source.revision}"
    if isinstance(source, MixSource):
        return f"one of the sources {', '.join(one.name for one in source.sources)}"
    names = [f.path for f in source.files]
    if file is None and len(names) > 1:
        return f"one of {len(names)} files: {names[0]} to {names[-1]}"
    return file or names[0]


def _files_of(texts: set[str], split: str, used: dict) -> dict[str, str]:
    """The first file of `split` that holds each of `texts` as a document, if the files are here,
    several, and not too large."""
    try:
        paths = matched_files({split: used["files"][split]})[split]
    except MlmError:
        return {}  # moved away since: the corpus is there all the same
    if len(paths) < 2 or sum(Path(path).stat().st_size for path in paths) > _READ_THROUGH:
        return {}
    filters, found = Filters(**used["filters"]), {}
    for path in paths:
        for raw, _ in open_source(used, whole({"train": [path]})).streams["train"]():
            text = filters.judged(raw).text
            if text in texts:
                found.setdefault(text, path)
        if len(found) == len(texts):
            break
    return found
