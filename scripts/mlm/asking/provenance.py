"""The documents of the corpus as its stage recorded them, and where each came from."""

from collections.abc import Sequence

from mlm.asking.documents import Documents, Stretch
from mlm.asking.past_run import PastRun
from mlm.asking.training_records import RESULTS
from mlm.config.configuration import Configuration, corpus_configuration
from mlm.config.corpus import UNGROUPED
from mlm.corpus.artefacts import CorpusSplit, FilesSource
from mlm.corpus.split_documents import SplitDocuments
from mlm.foundations.artefacts import settings_digests
from mlm.foundations.errors import SAME_COMMAND, MlmError, remedy


def checked_texts(
    split: str, settings: Configuration, past: PastRun
) -> tuple[CorpusSplit, SplitDocuments]:
    """The split as results/corpus/{split}.json describes it, and its documents; MlmError if a file
    is missing or damaged, if the corpus was made with other settings, or if the shards were made
    from another text."""
    path = RESULTS / "corpus" / f"{split}.json"
    described = CorpusSplit.read(path)
    now = settings_digests({"corpus": corpus_configuration(settings).as_param()})["corpus"]
    if described.made_from.settings.get("corpus", now) != now:
        raise MlmError(
            f"{path}: section corpus had other settings when it was made than the configuration. "
            "Give the configuration that it was made with: --configfile FILE"
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
    stretches: Sequence[Stretch], documents: Documents, splits: dict[str, CorpusSplit]
) -> list[str]:
    """The source of each document in words: of the group, if it is the file, else of the split."""
    sources = []
    for one in stretches:
        described = splits[one.split]
        place = str(described.source)
        if isinstance(described.source, FilesSource) and len(described.source.files) == 1:
            place = described.source.files[0].path
        if described.group_by != UNGROUPED:
            group = str(documents.group(one.split, one.document))
            # A file that is the group needs no second name.
            of_file = described.group_by == "file"
            place = group if of_file else f"{described.group_by} {group}, {place}"
        sources.append(place)
    return sources
