"""What `results/runs/{run}/preview.json` shows of a run's masks."""

from dataclasses import dataclass

from mlm.results.typed_artefacts import Artefact


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
