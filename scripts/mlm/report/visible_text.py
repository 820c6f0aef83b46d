"""Text of a corpus as HTML that shows it: nothing of it runs, hides or reorders the page."""

import itertools
import re
import unicodedata

from markupsafe import Markup, escape

from mlm.foundations.errors import HIDDEN

#: Longer than any word: nothing but a line that may end inside keeps it on the page.
_ENDLESS = re.compile(r"([!-~]{6})(?=[!-~])")
_WORD_LIKE = re.compile(r"[!-~]{30,}")
#: Where the line of a path or a key may end.
_JOINTS = re.compile(r"(?<=[/_.=:@-])(?=[^/_.=:@-])")


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
            pieces.append(_with_breaks("".join(run)))
            continue
        for character in run:
            name = escape(unicodedata.name(character, "control character"))
            point = f"U+{ord(character):04X}"
            pieces.append(f'<span class="control" title="{name}">{point}</span>')
    return Markup("".join(pieces))


def _with_breaks(text: str) -> str:
    """`text` escaped; a line may end inside what is too long for any line."""
    if len(text) < 30 or not _WORD_LIKE.search(text):
        return str(escape(text))
    broken = _WORD_LIKE.sub(lambda word: _ENDLESS.sub("\\1\0", word[0]), text)
    return str(escape(broken)).replace("\0", "<wbr>")


def breakable(text: object) -> Markup:
    """A path, a key or a digest as `visible` shows it, with places where its line may end."""
    return Markup("<wbr>").join(visible(part) for part in _JOINTS.split(str(text)))


def plain(text: object) -> str:
    """`text` with the same characters replaced by `‹U+202E›`: for attributes and SVG."""
    return "".join(f"‹U+{ord(c):04X}›" if is_shown_by_name(c) else c for c in str(text))


def spaced(tokens: list[str]) -> list[str]:
    """The texts of a sample's tokens with the spaces between them as the reader sees them.

    Tokenizers mark where a word begins (`▁`, `Ġ`) or where one goes on (`##`); tokens that
    carry their spaces themselves are left as they are.
    """
    if any(token != token.strip() for token in tokens):
        return list(tokens)
    for mark in ("▁", "Ġ"):
        if any(token.startswith(mark) for token in tokens):
            return [token.replace(mark, " ") for token in tokens]
    if any(token.startswith("##") for token in tokens):
        return [t[2:] if t.startswith("##") and len(t) > 2 else f" {t}" for t in tokens]
    return [f" {token}" for token in tokens]
