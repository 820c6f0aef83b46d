"""What `results/index/{split}.json` says of a split's index, and `results/runs/{run}/asked.json` of
what a run was shown of the texts that its report shows."""

from dataclasses import dataclass
from typing import Literal

from mlm.foundations.typed_artefacts import Artefact


@dataclass(frozen=True)
class IndexRecord(Artefact):
    """What an index was made from, its sizes, and the digest of the file beside the record.

    `corpus_sha256` is that of the split's parquet file, `manifest_sha256` that of the split's
    manifest.
    """

    split: str
    corpus_sha256: str
    manifest_sha256: str
    documents: int
    num_bytes: int
    sha256: str


@dataclass(frozen=True)
class AskedWord:
    """A word that the model was asked for, how often it stands in the passage, and how often it was
    hidden there: asked for, and not left in sight."""

    word: str
    stands: int
    hidden: int


@dataclass(frozen=True)
class SeenPassage:
    """A stretch of the train split near to a text, which has `shared` of the text's words.

    `uses` are the steps that were shown it, `epochs` so many different passes over the split.
    """

    text: str
    document: int
    exact: bool
    shared: int
    uses: int
    epochs: int
    words: tuple[AskedWord, ...]


@dataclass(frozen=True)
class AskedText:
    """A text that the report shows: a prompt with the model's first answer in place of the mask, or
    sample `index` of the test split, one of the best or the worst.

    `words` is how many words it has, `asked` which different ones, or parts of them, the model was
    asked for.
    """

    kind: Literal["prompt", "best", "worst"]
    text: str
    index: int | None
    words: int
    asked: tuple[str, ...]
    passages: tuple[SeenPassage, ...]


@dataclass(frozen=True)
class Asked(Artefact):
    """What a run's training was shown near the texts that its report shows.

    `too_large` is the size [bytes] of a train split that is not searched, else None.
    """

    run: str
    steps: int
    texts: tuple[AskedText, ...]
    too_large: int | None
