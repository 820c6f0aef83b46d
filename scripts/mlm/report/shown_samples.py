"""Samples of text as coloured pieces: what was hidden, what stood there, what was guessed."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

from mlm.evaluation.artefacts import PredictedSample, PredictedToken
from mlm.report.report_inputs import Results
from mlm.report.visible_text import spaced
from mlm.samples.artefacts import PreviewSample, PreviewToken

T = TypeVar("T", PreviewToken, PredictedToken)

#: Shown in place of a token that is nothing but a space.
_BLANK = "␠"


@dataclass(frozen=True)
class Piece:
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
    pieces: tuple[Piece, ...]
    loss: float | None = None
    accuracy: float | None = None
    turn: int | None = None


def preview_pieces(sample: PreviewSample, special: dict[str, str]) -> ShownSample:
    """A sample of preview.json: each chosen token with what the model is shown instead."""
    tokens = _without_padding(sample.tokens, special)
    pieces = []
    for token, text in zip(tokens, spaced([t.text for t in tokens]), strict=True):
        shown = token.masked
        if shown is None:
            pieces.append(_plain(text, special))
            continue
        if shown == special["mask"]:
            state = "masked"
        else:
            state = "kept" if shown == token.text else "random"
        pieces.append(_chosen(text, state, _bare(shown)))
    return ShownSample(sample.index, _joined(pieces), turn=sample.turn)


def prediction_pieces(sample: PredictedSample, special: dict[str, str]) -> ShownSample:
    """A sample of evaluation.json: each predicted token with the model's first guess."""
    tokens = _without_padding(sample.tokens, special)
    pieces = []
    for token, text in zip(tokens, spaced([t.text for t in tokens]), strict=True):
        guess = token.predicted
        if guess is None:
            pieces.append(_plain(text, special))
            continue
        state = "right" if guess.correct else "wrong"
        pieces.append(_chosen(text, state, _bare(guess.text), guess.probability))
    return ShownSample(sample.index, _joined(pieces), sample.loss, sample.accuracy)


def special_tokens(results: Results) -> dict[str, str]:
    """Text of the special tokens by name, from the configuration of the tokenizer."""
    return results.config["tokenizer"]["special_tokens"]


def _without_padding(tokens: Sequence[T], special: dict[str, str]) -> Sequence[T]:
    end = len(tokens)
    while end and tokens[end - 1].text == special["pad"]:
        end -= 1
    return tokens[:end]


def _bare(text: str) -> str:
    """A single token's text without its mark of a word's beginning or continuation."""
    if text != text.strip():
        return text.strip() or _BLANK
    for mark in ("▁", "Ġ"):
        text = text.replace(mark, " ")
    text = text.removeprefix("##") if len(text) > 2 else text
    return text.strip() or _BLANK


def _plain(text: str, special: dict[str, str]) -> Piece:
    kind = "special" if text.strip() in special.values() else "plain"
    return Piece(text, kind)


def _chosen(text: str, state: str, shown: str, probability: float | None = None) -> Piece:
    bare = text.lstrip(" ")
    return Piece(bare.strip() or _BLANK, state, shown, probability, text[: len(text) - len(bare)])


def _joined(pieces: list[Piece]) -> tuple[Piece, ...]:
    """`pieces` with neighbours that are plain put together, and no space before the first."""
    joined: list[Piece] = []
    for piece in pieces:
        if joined and piece.state == joined[-1].state and piece.state in ("plain", "special"):
            joined[-1] = Piece(joined[-1].text + piece.text, piece.state)
        else:
            joined.append(piece)
    if joined:
        joined[0] = replace(joined[0], text=joined[0].text.lstrip(" "), space="")
    return tuple(joined)
