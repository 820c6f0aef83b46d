"""Files about what a training was shown: `results/index/{split}.json`, the record of a split's
index, and `results/runs/{run}/asked.json`, on the texts that the run's report shows."""

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


@dataclass(frozen=True)
class AskedWord:
    """A target, how often it `stands` in the passage, and how often it was `hidden` there."""

    word: str
    stands: int
    hidden: int


@dataclass(frozen=True)
class SeenPassage:
    """A stretch of the train split with `shared` of a text's words; `uses` steps saw it, in
    `epochs` passes over the split."""

    text: str
    document: int
    exact: bool
    shared: int
    uses: int
    epochs: int
    words: tuple[AskedWord, ...]


@dataclass(frozen=True)
class AskedText:
    """A prompt with the model's first answer; `words` counts its words, `asked` are the targets."""

    text: str
    words: int
    asked: tuple[str, ...]
    passages: tuple[SeenPassage, ...]


@dataclass(frozen=True)
class Asked(Artefact):
    """What a run's training was shown near the texts of its report; `too_large` is the size in
    bytes of a train split that is not searched."""

    run: str
    steps: int
    texts: tuple[AskedText, ...]
    too_large: int | None
