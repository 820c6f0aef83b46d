"""From what is to be forgotten to the holes that it leaves in the samples of the train split."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from mlm.config.pretraining import parsed
from mlm.corpus.selection import TrainDocuments
from mlm.corpus.split_documents import SplitDocuments
from mlm.foundations.digests import file_sha256
from mlm.foundations.errors import MlmError
from mlm.samples.artefacts import HolesOfRun, LeftOut
from mlm.samples.document_spans import document_spans, merged_spans
from mlm.samples.manifests import Manifest, shards_root
from mlm.tokenizer.encoding import Encoder


@dataclass(frozen=True)
class TrainSplit:
    """The files of the train split: the description of its texts, which lie beside it, the
    manifest, and the tokenizer of its shards; and the settings that the corpus was made with."""

    described: str | Path
    manifest: str | Path
    tokenizer: str | Path
    settings: dict


def holes_of(run: str, forget: Sequence[str], split: TrainSplit) -> HolesOfRun:
    """The holes that the items of `forget` leave.

    Raises MlmError for an item that names nothing, shards that came without text, and files that do
    not belong together.
    """
    try:
        whats = [parsed(what) for what in dict.fromkeys(forget)]
    except ValueError as error:
        raise MlmError(f"{error}") from None
    manifest = Manifest.read(split.manifest)
    if manifest.corpus_sha256 is None:
        raise MlmError(
            f"{split.manifest}: its shards came without text, so that no document can be found in "
            "them. A run can forget only what was packed here"
        )
    texts = SplitDocuments.described(split.described)
    if texts.sha256() != manifest.corpus_sha256:
        raise MlmError(
            f"{texts.named}: is not the text that the train shards were made from. The same "
            "snakemake command makes them from it"
        )
    documents = TrainDocuments(split.described, split.settings)
    selected = documents.selected(whats)
    numbers = sorted({number for found in selected.values() for number in found})
    spans = document_spans(
        manifest,
        shards_root(manifest, split.manifest),
        Encoder.load(split.tokenizer),
        documents.texts(numbers),
    )
    lengths = {n: sum(end - begin for _, begin, end in of_one) for n, of_one in spans.items()}
    merged = merged_spans([span for of_one in spans.values() for span in of_one])
    return HolesOfRun(
        run=run,
        forget=[
            LeftOut(what, len(found), sum(lengths[number] for number in found))
            for what, found in selected.items()
        ],
        documents=len(numbers),
        tokens=sum(lengths.values()),
        samples=len({sample for sample, _, _ in merged}),
        manifest=file_sha256(split.manifest),
        holes=merged,
    )
