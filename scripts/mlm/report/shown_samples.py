"""Samples of text as coloured pieces: what was hidden, what stood there, what was guessed."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

from mlm.evaluation.artefacts import PredictedSample, PredictedToken
from mlm.report.report_inputs import Results
from mlm.report.visible_text import spaced
from mlm.samples.artefacts import PreviewSample, PreviewToken

SampleToken = TypeVar("SampleToken", PreviewToken, PredictedToken)

#: Shown in place of a token that is nothing but a space.
_BLANK = "␠"


@dataclass(frozen=True)
class TextPiece:
    """A run of text of one kind.

    `state` is plain or special; in a preview masked, random or kept; in a prediction right or
    wrong. `shown` is what the model saw, or its guess. `probability` is that of the guess.
    """

    text: str
    state: str = "plain"
    shown: str | None = None
    probability: float | None = None
    space: str = ""


@dataclass(frozen=True)
class ShownSample:
    """A sample's number in its split and its text in pieces; loss and accuracy if known, and its
    turn in the first pass of a training."""

    index: int
    pieces: tuple[TextPiece, ...]
    loss: float | None = None
    accuracy: float | None = None
    turn: int | None = None


def preview_pieces(sample: PreviewSample, special: dict[str, str]) -> ShownSample:
    """A sample of preview.json: each chosen token with what the model is shown instead."""

    def chosen(token: PreviewToken, text: str) -> TextPiece | None:
        if (shown := token.masked) is None:
            return None
        kept = "kept" if shown == token.text else "random"
        return _chosen(text, "masked" if shown == special["mask"] else kept, shown)

    return ShownSample(sample.index, _pieces(sample.tokens, special, chosen), turn=sample.turn)


def prediction_pieces(sample: PredictedSample, special: dict[str, str]) -> ShownSample:
    """A sample of evaluation.json: each predicted token with the model's first guess."""

    def chosen(token: PredictedToken, text: str) -> TextPiece | None:
        if (guess := token.predicted) is None:
            return None
        state = "right" if guess.correct else "wrong"
        return _chosen(text, state, guess.text, guess.probability)

    pieces = _pieces(sample.tokens, special, chosen)
    return ShownSample(sample.index, pieces, sample.loss, sample.accuracy)


def special_tokens(results: Results) -> dict[str, str]:
    """Text of the special tokens by name, from the configuration of the tokenizer."""
    return results.config["tokenizer"]["special_tokens"]


def _pieces(
    tokens: Sequence[SampleToken],
    special: dict[str, str],
    chosen: Callable[[SampleToken, str], TextPiece | None],
) -> tuple[TextPiece, ...]:
    """The tokens without padding; neighbours that are plain are one piece."""
    end = len(tokens)
    while end and tokens[end - 1].text == special["pad"]:
        end -= 1
    pieces: list[TextPiece] = []
    for token, text in zip(tokens[:end], spaced([t.text for t in tokens[:end]]), strict=True):
        state = "special" if text.strip() in special.values() else "plain"
        piece = chosen(token, text) or TextPiece(text, state)
        if pieces and piece.state == pieces[-1].state and piece.state in ("plain", "special"):
            pieces[-1] = TextPiece(pieces[-1].text + piece.text, piece.state)
        else:
            pieces.append(piece)
    if pieces:
        pieces[0] = replace(pieces[0], text=pieces[0].text.lstrip(" "), space="")
    return tuple(pieces)


def _bare(text: str) -> str:
    """A single token's text without its mark of a word's beginning or continuation."""
    if text != text.strip():
        return text.strip() or _BLANK
    for mark in ("▁", "Ġ"):
        text = text.replace(mark, " ")
    text = text.removeprefix("##") if len(text) > 2 else text
    return text.strip() or _BLANK


def _chosen(text: str, state: str, shown: str, probability: float | None = None) -> TextPiece:
    bare = text.lstrip(" ")
    space = text[: len(text) - len(bare)]
    return TextPiece(bare.strip() or _BLANK, state, _bare(shown), probability, space)
