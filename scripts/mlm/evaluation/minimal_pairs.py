"""Minimal pairs: does the model prefer the acceptable sentence?

A sentence's score is its pseudo-log-likelihood, the sum of the log-probabilities of its tokens,
each masked in turn (Salazar, Liang, Nguyen and Kirchhoff, "Masked Language Model Scoring", 2020)
with the later tokens of its word, which would give it away (Kauf and Ivanova, "A Better Way to Do
Masked Language Model Scoring", 2023).
"""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from mlm.evaluation.artefacts import MinimalPairs, PairFigures
from mlm.evaluation.hidden_sets import positions_of
from mlm.evaluation.intervals import mean_of
from mlm.evaluation.minimal_pair_files import Pair
from mlm.evaluation.model_answers import Scorer
from mlm.evaluation.ngram_baselines import NeighbourMixtures
from mlm.foundations.errors import MlmError
from mlm.foundations.terminal import Progress
from mlm.tokenizer.pieces import word_numbers

#: Pairs that are encoded together, and ids of masked rows that are held at once.
_PAIRS, _CELLS = 8192, 2**23
#: The word of what is no token of the sentence: special tokens around it, and padding.
_NO_WORD = -1


def score_pairs(
    pairs: Sequence[Pair], scorer: Scorer, mixtures: NeighbourMixtures
) -> MinimalPairs | None:
    """The figures of `pairs` by file and phenomenon, beside the bigram of the fitted `mixtures`,
    with intervals over pairs; None without pairs. Pairs that are too long or have a sentence
    without a token are left out; MlmError if none is left."""
    if not pairs:
        return None
    scores, progress = np.empty((len(pairs), 2, 2)), Progress("minimal pairs", len(pairs), "pairs")
    for start in range(0, len(pairs), _PAIRS):
        part = pairs[start : start + _PAIRS]
        scores[start : start + len(part)] = _scores_of(part, scorer, mixtures)
        progress.to(start + len(part))
    fits = np.isfinite(scores).all(axis=(1, 2))
    if not fits.any():
        raise MlmError(
            "evaluation.minimal_pair_files: no pair fits in a sample; expected sentences of at "
            f"most {scorer.length} tokens, special ones included. Raise shards.sequence_length"
        )
    groups: dict[tuple[str, str | None], list[int]] = {}
    for number in np.flatnonzero(fits).tolist():
        groups.setdefault((pairs[number].file, pairs[number].phenomenon), []).append(number)
    return MinimalPairs(
        total=_figures(None, None, scores[fits]),
        phenomena=[_figures(*names, scores[rows]) for names, rows in groups.items()],
        num_left_out=int(np.sum(~fits)),
    )


def _scores_of(pairs: Sequence[Pair], scorer: Scorer, mixtures: NeighbourMixtures) -> np.ndarray:
    """What the model and the bigram give the two sentences of each pair: [pairs, 2, 2]; NaN for a
    sentence that is too long or has no token."""
    texts = [text for pair in pairs for text in (pair.acceptable, pair.unacceptable)]
    # The same tokens get one score, so that a tie is exact.
    words: dict[tuple[int, ...], list[int]] = {}
    sentences = []
    for encoding in scorer.tokenizer(texts).encodings:
        sentences.append(tuple(encoding.ids))
        words.setdefault(sentences[-1], _words(encoding, scorer.tokenizer))
    number_of = {ids: number for number, ids in enumerate(words)}
    distinct, scores = list(words.items()), np.full((len(words), 2), np.nan)
    for rows, length in _blocks([len(ids) for ids in words], scorer.length):
        ids = np.full((len(rows), length), scorer.tokenizer.pad_token_id, np.int32)
        of_words = np.full_like(ids, _NO_WORD)
        for row, number in enumerate(rows):
            size = len(distinct[number][0])
            ids[row, :size], of_words[row, :size] = distinct[number]
        scores[rows] = _block_scores(ids, of_words, scorer, mixtures)
    return scores[[number_of[ids] for ids in sentences]].reshape(-1, 2, 2)


def _words(encoding: Any, tokenizer: Any) -> list[int]:
    """The number of each token's word, `_NO_WORD` of special tokens around the sentence."""
    frame = {tokenizer.cls_token_id, tokenizer.sep_token_id, tokenizer.pad_token_id}
    numbers = word_numbers(encoding.tokens, encoding.word_ids)
    return [_NO_WORD if i in frame else w for i, w in zip(encoding.ids, numbers, strict=True)]


def _blocks(sizes: list[int], longest: int) -> Iterator[tuple[list[int], int]]:
    """Numbers of sentences of `sizes` tokens, up to `longest`, that are padded to one length, a
    power of two: few shapes to compile. Masked rows of a block hold about `_CELLS` ids."""
    padded = np.array([min(max(8, 1 << (size - 1).bit_length()), longest) for size in sizes])
    padded[np.array(sizes) > longest] = 0
    for length in np.unique(padded[padded > 0]).tolist():
        rows, size = np.flatnonzero(padded == length).tolist(), max(1, _CELLS // length**2)
        for start in range(0, len(rows), size):
            yield rows[start : start + size], length


def _block_scores(
    ids: np.ndarray, words: np.ndarray, scorer: Scorer, mixtures: NeighbourMixtures
) -> np.ndarray:
    """Scores [sentences, 2] of `ids` and `words` [sentences, length], NaN without a token."""
    sentence, place = np.nonzero(words >= 0)
    columns = np.arange(ids.shape[1])
    target = columns == place[:, np.newaxis]
    same = words[sentence] == words[sentence, place][:, np.newaxis]
    hidden = target | (same & (columns > place[:, np.newaxis]))
    shown = np.where(hidden, np.int32(scorer.tokenizer.mask_token_id), ids[sentence])
    attention = (ids != scorer.tokenizer.pad_token_id).astype(np.int32)[sentence]
    question = {
        "input_ids": shown,
        "attention_mask": attention,
        "positions": place[:, np.newaxis].astype(np.int32),
        "labels": ids[sentence, place][:, np.newaxis],
    }
    positions, scores = positions_of(ids[sentence], attention, shown, target), []
    for answers in (scorer.log_probabilities(question), mixtures.log_probabilities(positions)):
        scores.append(np.bincount(sentence, answers, len(ids)))
    empty = np.bincount(sentence, minlength=len(ids)) == 0
    return np.where(empty[:, np.newaxis], np.nan, np.column_stack(scores))


def _figures(file: str | None, phenomenon: str | None, scores: np.ndarray) -> PairFigures:
    """Of `scores` [pairs, 2, 2], the sentences first and then the scorers."""
    margins = scores[:, 0] - scores[:, 1]
    correct, pair = (1 + np.sign(margins)) / 2, np.arange(len(scores))
    accuracy, margin = mean_of(pair, correct[:, 0]), mean_of(pair, margins[:, 0])
    return PairFigures(
        file=file,
        phenomenon=phenomenon,
        num_pairs=len(scores),
        num_ties=int(np.sum(margins[:, 0] == 0)),
        accuracy=accuracy.value,
        accuracy_interval=accuracy.share_interval,
        margin=margin.value,
        margin_interval=margin.interval,
        bigram_accuracy=float(np.mean(correct[:, 1])),
    )
