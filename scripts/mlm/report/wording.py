"""The words of the page: text of a corpus as HTML that shows it, so that nothing of it runs, hides
or reorders the page; numbers and settings as a reader writes them; and the names of its figures.

Samples are shown as coloured pieces: what was hidden, and what was shown instead.
"""

import itertools
import math
import re
import unicodedata
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from markupsafe import Markup, escape

from mlm.foundations.errors import HIDDEN

if TYPE_CHECKING:  # The plan imports this module, without NumPy.
    from mlm.samples.preview import PreviewSample

#: Longer than any word: nothing but a line that may end inside keeps it on the page.
_ENDLESS = re.compile(r"([!-~]{6})(?=[!-~])")
_WORD_LIKE = re.compile(r"[!-~]{30,}")
#: Where the line of a path or a key may end.
_JOINTS = re.compile(r"(?<=[/_.=:@-])(?=[^/_.=:@-])(?!(?<=\.)\d)")
#: White space by its name, shown in place of a token that is nothing else.
_BLANKS = {"\n": "‹line break›", "\t": "‹tab›"}
#: Items of a list, or shards of a split, that the page shows; report.json has all.
MOST_SHOWN = 250
#: Shown where there is no figure.
NONE = "–"


@dataclass(frozen=True)
class FigureName:
    """A figure's chapter, heading, and the entry of the glossary for what it shows."""

    chapter: str
    heading: str
    term: str


FIGURES = {
    "training_loss": FigureName("Training", "Loss during training", "visible"),
    "training_accuracy": FigureName("Training", "Accuracy during training", "visible"),
    "test_loss": FigureName("Evaluation", "Test loss against the baselines", "loss"),
    "test_accuracy": FigureName("Evaluation", "Test accuracy against the baselines", "accuracy"),
    "frequency_bands": FigureName("Evaluation", "Accuracy by frequency of the token", "accuracy"),
}


def is_shown_by_name(character: str) -> bool:
    """Whether `character` is shown as its code point, not as itself: controls and the like."""
    return HIDDEN.fullmatch(character) is not None


def visible(text: object) -> Markup:
    """`text` escaped for HTML, with control characters shown as their code points.

    Bidirectional controls, see Unicode Standard Annex 9 and CVE-2021-42574, would otherwise
    reorder the words around them.
    """
    pieces = []
    for by_name, run in itertools.groupby(str(text), is_shown_by_name):
        if not by_name:
            # A line may end inside what is too long for any line.
            broken = _WORD_LIKE.sub(lambda word: _ENDLESS.sub("\\1\0", word[0]), "".join(run))
            pieces.append(str(escape(broken)).replace("\0", "<wbr>"))
            continue
        for character in run:
            name = escape(unicodedata.name(character, "control character"))
            point = f"U+{ord(character):04X}"
            pieces.append(f'<span class="control" title="{name}">{point}</span>')
    return Markup("".join(pieces))


def breakable(text: object) -> Markup:
    """A path, a key or a digest as `visible` shows it, with places where its line may end."""
    return Markup("<wbr>").join(visible(part) for part in _JOINTS.split(str(text)))


def plain(text: object) -> str:
    """`text` with the same characters replaced by `‹U+202E›`: for attributes and SVG."""
    return "".join(f"‹U+{ord(c):04X}›" if is_shown_by_name(c) else c for c in str(text))


@dataclass(frozen=True)
class TextPiece:
    """A run of text; its `state` is plain, special, masked, random or kept."""

    text: str
    state: str = "plain"
    shown: str | None = None
    space: str = ""


def pieces_of(sample: "PreviewSample", special: dict[str, str]) -> tuple[TextPiece, ...]:
    """A sample's text without padding: each chosen token with what the model was shown; plain
    neighbours are one piece. `special` has the texts of the special tokens by name."""
    tokens = list(sample.tokens)
    while tokens and tokens[-1].text == special["pad"]:
        tokens.pop()
    pieces: list[TextPiece] = []
    for token in tokens:
        text, shown = token.text, token.masked
        if shown is not None:
            state = "kept" if shown == text else "random"
            state = "masked" if shown == special["mask"] else state
            space = text[: len(text) - len(text.lstrip(" "))]
            pieces.append(TextPiece(_bare(text), state, _bare(shown), space))
            continue
        state = "special" if text.strip() in special.values() else "plain"
        if pieces and pieces[-1].state == state:
            text = pieces.pop().text + text
        pieces.append(TextPiece(text, state))
    if pieces:
        pieces[0] = replace(pieces[0], text=pieces[0].text.lstrip(" "), space="")
    return tuple(pieces)


def _bare(text: str) -> str:
    return text.strip() or _BLANKS.get(text[:1], "‹space›")


def visible_token(text: str) -> Markup:
    """A token as `visible` shows it; white space alone is named."""
    return visible(_bare(text))


def count(number: float | None) -> str:
    """A whole number with a comma between thousands."""
    return NONE if number is None else f"{round(number):,}"


def decimal(number: float | None, digits: int = 3) -> str:
    """A number with `digits` decimals, as many as a loss has, and a comma between thousands."""
    return NONE if number is None else f"{number:z,.{digits}f}".replace("-", "−")


def percent(share: float | None, digits: int = 1) -> str:
    """A share between 0 and 1 in percent; number and sign stay on one line."""
    return NONE if share is None else f"{share * 100:.{digits}f}\u00a0%"


def rate(share: float | None) -> str:
    """A small share in percent, with enough digits to be told from zero."""
    if not share:
        return NONE if share is None else "0\u00a0%"
    digits = max(1, 1 - math.floor(math.log10(share * 100)))
    return f"{share * 100:.{min(digits, 6)}f}\u00a0%"


def short(number: float) -> str:
    """A large number in thousands (k), millions (M) or billions (B)."""
    for unit, factor in (("B", 1e9), ("M", 1e6), ("k", 1e3)):
        if number >= factor:
            return f"{number / factor:.3g}\u00a0{unit}"
    return f"{number:,.0f}"


def value(setting: object) -> str:
    """A setting as text: what is not set, true, false, numbers and lists."""
    if setting is None:
        return "not set"
    if isinstance(setting, bool):
        return "yes" if setting else "no"
    if isinstance(setting, float):
        return f"{setting:g}"
    if isinstance(setting, int):
        return f"{setting:,}" if abs(setting) >= 10_000 else str(setting)
    if isinstance(setting, dict):
        return ", ".join(f"{k} {value(v)}" for k, v in setting.items()) or "none"
    if isinstance(setting, list | tuple):
        shown = [value(x) for x in setting[:MOST_SHOWN]]
        if len(setting) > MOST_SHOWN:
            shown.append(f"and {len(setting) - MOST_SHOWN:,} more")
        return ", ".join(shown) or "none"
    return str(setting)
