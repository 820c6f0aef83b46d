"""The documents of the corpus as its stage recorded them, and where each came from."""

import os
from collections.abc import Sequence

from mlm.asking.documents import Documents, Stretch
from mlm.asking.past_run import PastRun
from mlm.asking.training_records import RESULTS
from mlm.config.resolution import Settings
from mlm.corpus.artefacts import CorpusSplit, FilesSource
from mlm.corpus.document_groups import OWN
from mlm.corpus.file_patterns import corpus_settings, matched_files
from mlm.corpus.filters import Filters
from mlm.corpus.parts import whole
from mlm.corpus.sources import open_source
from mlm.corpus.split_documents import SplitDocuments
from mlm.foundations.artefacts import settings_digests
from mlm.foundations.errors import SAME_COMMAND, MlmError, remedy

#: Source files of more bytes together are not read through for a document.
_READ_THROUGH = 100_000_000


def checked_texts(
    split: str, settings: Settings, past: PastRun
) -> tuple[CorpusSplit, SplitDocuments]:
    """The split as results/corpus/{split}.json describes it, and its documents; MlmError if a file
    is missing or damaged, if the corpus was made with other settings, or if the shards were made
    from another text."""
    path = RESULTS / "corpus" / f"{split}.json"
    described = CorpusSplit.read(path)
    now = settings_digests({"settings": corpus_settings(settings)})["settings"]
    if described.made_from.settings.get("settings", now) != now:
        raise MlmError(
            f"{path}: was made with another section corpus than that of the configuration. Give "
            f"the one that it was made with: --configfile FILE"
        )
    documents = SplitDocuments.described(path)
    for file, recorded in zip(documents.paths, described.files, strict=True):
        there = file.exists()
        if not there or past.memory.sha256(file) != recorded.sha256:
            fault = "damaged: it is not what was written beside" if there else "missing beside"
            raise MlmError(f"{file} is {fault} {path}. {remedy(file)} {file}")
    if split in past.manifests and described.sha256 != past.manifests[split].corpus_sha256:
        raise MlmError(
            f"{documents.named}: is not the text that the {split} shards were made from. To "
            f"have them made from it: {SAME_COMMAND}"
        )
    return described, documents


def sources_of(
    stretches: Sequence[Stretch], documents: Documents, splits: dict[str, CorpusSplit], used: dict
) -> list[str]:
    """The source of each document in words; `used` are the settings of the corpus."""
    sources, files = [], {}
    for split, described in splits.items():
        texts = {one.text for one in stretches if one.split == split}
        if isinstance(described.source, FilesSource) and described.group_by != "file":
            files[split] = _files_of(texts, described.source, split, used) if texts else {}
    for one in stretches:
        described = splits[one.split]
        place = files.get(one.split, {}).get(one.text) or str(described.source)
        if described.group_by != OWN:
            group = str(documents.group(one.split, one.document))
            # A file that is the group needs no second name.
            of_file = described.group_by == "file"
            place = group if of_file else f"{described.group_by} {group}, {place}"
        sources.append(place)
    return sources


def _files_of(texts: set[str], source: FilesSource, split: str, used: dict) -> dict[str, str]:
    """The first file that holds each of `texts`, if the files are here and small, or it is one."""
    if len(source.files) == 1:
        return dict.fromkeys(texts, source.files[0].path)
    split = source.carved_from or split
    try:
        paths = matched_files({split: used["files"][split]})[split]
    except MlmError:
        return {}  # moved away since: the corpus is there all the same
    files: dict[str, str] = {}
    if sum(map(os.path.getsize, paths)) > _READ_THROUGH:
        return files
    filters = Filters(used["filters"])
    for path in paths:
        for raw, _ in open_source(used, whole({"train": [path]})).streams["train"]():
            if (text := filters.judged(raw).text) in texts:
                files.setdefault(text, path)
        if len(files) == len(texts):
            break
    return files
