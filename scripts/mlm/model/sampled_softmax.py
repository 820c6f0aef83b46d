"""Which classes the softmax of a training step adds up.

Some classes and their weights estimate the sum over the vocabulary (Bengio and Senécal, 2008; Jean
et al., "On Using Very Large Target Vocabulary", 2015, arXiv 1412.2007). A trained vocabulary is
ordered by frequency: its ids are cut into strata, single ids for the smallest and then growing in
proportion to the id. Each step draws one class of each, which counts for all of them. The label is
a class of its own beside these.
"""

from bisect import bisect_right

import numpy as np

from mlm.samples.masking import FIXED_EPOCH
from mlm.samples.random_bits import below, threefry

#: What stands for the epoch in the key of the classes: no training and no evaluation reaches it.
_EPOCH = FIXED_EPOCH - 1


def strata(vocabulary: int, classes: int | None) -> tuple[np.ndarray, np.ndarray]:
    """First id (int32) and number of ids (float32) of at most `classes` strata, ascending, that
    together are all ids of the `vocabulary`; without `classes`, one stratum an id."""
    if classes is None or classes >= vocabulary:
        starts = list(range(vocabulary))
    else:
        # Of `n` single ids, the more the more strata: at most `classes` in all.
        n = bisect_right(range(1, classes), classes, key=lambda n: len(_starts(vocabulary, n)))
        starts = _starts(vocabulary, max(n, 1))
    sizes = np.diff(np.array([*starts, vocabulary]))
    return np.array(starts, np.int32), sizes.astype(np.float32)


def drawn_classes(seed: int, step: int, starts: np.ndarray, sizes: np.ndarray) -> np.ndarray:
    """One class of each of the strata, int32 [classes], by the generator of the masks as a function
    of (seed, step) alone."""
    key = (np.array([seed], np.uint32), np.array([_EPOCH], np.uint32))
    stratum = np.arange(len(starts), dtype=np.uint32)
    bits, _ = threefry(key, (np.array([step], np.uint32), stratum))
    return starts + below(bits, sizes.astype(np.uint32)).astype(np.int32)


def head_in_words(vocabulary: int, classes: int | None) -> str:
    """The head of masked positions, for the log and the report."""
    drawn, words = len(strata(vocabulary, classes)[0]), "vocabulary projection at masked positions"
    if drawn == vocabulary:
        return f"{words} only"
    return (
        f"{words}; in training, softmax over {drawn:,} of {vocabulary:,} classes, drawn each step"
    )


def _starts(vocabulary: int, single: int) -> list[int]:
    starts = [0]
    while (following := starts[-1] + max(1, starts[-1] // single)) < vocabulary:
        starts.append(following)
    return starts
