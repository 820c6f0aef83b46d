"""The stretch of a text that is nearest to a sentence, by the words that both have."""

import math
import re
from collections import Counter
from collections.abc import Hashable, Mapping, Sequence

import numpy as np

_WORD = re.compile(r"\w+")
#: So many documents are looked at closely.
_LOOKED_AT = 200


def words_of(text: str) -> list[tuple[str, int, int]]:
    """The words of `text`, whatever their case, and the characters [start, end) of each."""
    return [(found[0].casefold(), *found.span()) for found in _WORD.finditer(text)]


def weights_of(having: np.ndarray) -> list[float]:
    """The weight of each word: the fewer documents have it, the more it says.

    `having` is bool [words, documents]. The inverse document frequency of Spärck Jones, "A
    statistical interpretation of term specificity" (1972), of numbers one larger.
    """
    documents = having.shape[1]
    return [math.log((documents + 1) / (n + 1)) + 1 for n in having.sum(axis=1).tolist()]


def best_stretch(
    items: Sequence[Hashable], wanted: Sequence[Hashable], weights: Mapping[Hashable, float]
) -> tuple[int, int, int, float]:
    """Of all stretches of `items` as long as `wanted`, the one that shares the most with it.

    Shared items count by `weights`, those without one as the lightest, and each of `wanted` once.
    Gives the stretch's start and end, from its first shared item to behind the last, how many it
    shares, and their weight; of equals the first. All 0 where nothing is shared.
    """
    asked, inside = Counter(wanted), Counter()
    lightest = min(weights.values(), default=1.0)
    score, best, start = 0.0, 0.0, 0
    for end, item in enumerate(items):
        if item in asked:
            inside[item] += 1
            if inside[item] <= asked[item]:
                score += weights.get(item, lightest)
        gone = items[end - len(wanted)] if end >= len(wanted) else None
        if gone in asked:
            if inside[gone] <= asked[gone]:
                score -= weights.get(gone, lightest)
            inside[gone] -= 1
        # By more than sums of floating point numbers are off.
        if score > best + 1e-9:
            best, start = score, max(0, end + 1 - len(wanted))
    if not best:
        return 0, 0, 0, 0.0
    end = min(start + len(wanted), len(items))
    common = [place for place in range(start, end) if items[place] in asked]
    shared = (Counter(items[start:end]) & asked).total()
    return common[0], common[-1] + 1, shared, best


def likeliest(having: np.ndarray) -> list[int]:
    """The documents to look at closely, in order: those that have the most of the wanted words, by
    their weight.

    `having` is bool [words, documents].
    """
    scores = np.zeros(having.shape[1])
    # One after the other: the sums are the same however many documents there are.
    for weight, of_word in zip(weights_of(having), having, strict=True):
        scores[of_word] += weight
    if len(scores) > _LOOKED_AT:
        least = np.partition(scores, -_LOOKED_AT)[-_LOOKED_AT]
        above, equal = np.flatnonzero(scores > least), np.flatnonzero(scores == least)
        best = np.concatenate((above, equal[: _LOOKED_AT - len(above)]))
    else:
        best = np.arange(len(scores))
    return np.sort(best[scores[best] > 0]).tolist()
