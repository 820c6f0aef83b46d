"""`results/index/{split}.json`, the record of a split's index."""

from dataclasses import dataclass

from mlm.foundations.typed_artefacts import Artefact


@dataclass(frozen=True)
class IndexRecord(Artefact):
    """The corpus that an index was made from, its sizes, and its own digest."""

    split: str
    corpus_sha256: str
    documents: int
    num_bytes: int
    sha256: str
