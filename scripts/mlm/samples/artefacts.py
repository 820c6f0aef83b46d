"""What `results/runs/{run}/preview.json` shows of a run's masks."""

from dataclasses import dataclass

from mlm.foundations.typed_artefacts import Artefact


@dataclass(frozen=True)
class PreviewToken:
    """A token's text; `masked` is what the model is shown in its place, None if not chosen."""

    text: str
    masked: str | None


@dataclass(frozen=True)
class PreviewSample:
    """Sample `index` of the split: its text, the text as masked, and every token.

    `turn` is its number, from 1, in the order in which the first epoch uses the samples.
    """

    index: int
    turn: int
    text: str
    masked: str
    tokens: tuple[PreviewToken, ...]


@dataclass(frozen=True)
class Preview(Artefact):
    """A few samples of the train split as the run's training meets them first."""

    run: str
    samples: list[PreviewSample]


@dataclass(frozen=True)
class LeftOut:
    """What one item of `pretraining.forget` names: documents of the train split, their tokens."""

    what: str
    documents: int
    tokens: int


@dataclass(frozen=True)
class HolesOfRun(Artefact):
    """What `results/holes/{run}.json` says: which tokens of the train split a run is to be trained
    without.

    `documents`, `tokens` and `samples` count each once, though several items name it. `holes` are
    (sample, begin, end), in ascending order. `manifest` is the sha256 of the manifest whose samples
    they are in.
    """

    run: str
    forget: list[LeftOut]
    documents: int
    tokens: int
    samples: int
    manifest: str
    holes: list[tuple[int, int, int]]
