"""The artefact of a run's masks."""

from dataclasses import dataclass

from mlm.foundations.artefacts import Artefact


@dataclass(frozen=True)
class PreviewToken:
    """A token's text; `masked` is what the model sees in its place, None if it is not chosen."""

    text: str
    masked: str | None


@dataclass(frozen=True)
class PreviewSample:
    """Sample `index` of the split, plain and masked; number `turn`, from 1, of the first epoch."""

    index: int
    turn: int
    text: str
    masked: str
    tokens: tuple[PreviewToken, ...]


@dataclass(frozen=True)
class Preview(Artefact):
    """results/runs/{run}/preview.json: train samples as the run's training first sees them."""

    run: str
    samples: list[PreviewSample]
