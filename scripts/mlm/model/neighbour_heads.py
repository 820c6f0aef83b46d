"""Initial weights with which the first layer looks at neighbouring tokens from step one.

A small masked language model stays near the unigram loss until some heads have learned to attend to
the neighbours (Chen et al., "Sudden drops in the loss", 2023). As mimetic initialization does
(Trockman and Kolter, 2023), attention starts from the shape that training gives it:

- The first 2P columns of the position table hold sines and cosines of P frequencies whose cosines
  peak at distance 0. Word embeddings are nearly zero there, and elsewhere as wide as the positions.
- With rotary positions (Su et al., "RoFormer", 2021) a constant in one column takes the table's
  place, and non-negative least squares chooses each frequency's strength. Bases for long texts have
  no peak: 100 suits 64 positions.
- Each head of the first two layers scores the neighbour at its own offset (-1, +1, -2, +2, and so
  on) `_GAP` nats above the others.
- The first layer adds a part of the neighbours' word vectors to a token's: each head's value
  projection has orthonormal columns, and its output projection is `_COPIED` times the transpose.
"""

from functools import partial

import numpy as np

from mlm.config.families import FAMILIES
from mlm.config.model import unfit_neighbour_heads
from mlm.foundations.errors import MlmError
from mlm.model.architecture import Architecture
from mlm.model.initialisation import StartingWeights

#: Found by experiment (docs/learning.md): how many layers begin so, the score of a head's own
#: neighbour in nats of attention above the others, the share of a word vector that is copied, the
#: noise relative to what it is added to, and deviations or amplitudes of embeddings.
_LAYERS, _GAP, _COPIED, _NOISE = 2, 8.0, 0.5, 0.02
_WORD_DEVIATION, _POSITION_AMPLITUDE = 0.1, 0.14
#: Rotary positions whose peak is lower, as a share of the sum of strengths, tell none apart.
_LOWEST_PEAK = 0.02
#: The neighbours that heads look at, by turns.
OFFSETS = (-1, 1, -2, 2)


def position_pairs(architecture: Architecture) -> int:
    """Pairs of columns, sine and cosine, that neighbour heads tell positions by."""
    return architecture.width // architecture.heads // 2


def peaked_frequencies(length: int, pairs: int) -> np.ndarray:
    """[pairs] angular frequencies whose cosines add up to a peak at distance 0 alone: the midpoints
    of (0, pi) cut into `pairs` parts, for longer sequences each moved within its part by the
    fractions of i^2 times the golden ratio (evenly spread, by Weyl's theorem)."""
    part = np.arange(pairs)
    within = 0.5 if length <= 4 * pairs else (part**2 * (np.sqrt(5) - 1) / 2) % 1
    return np.pi * (part + within) / pairs


def position_waves(length: int, frequencies: np.ndarray) -> np.ndarray:
    """[length, 2 * pairs]; columns 2i and 2i + 1 are sine and cosine of frequency i."""
    angles = np.arange(length)[:, np.newaxis] * frequencies[np.newaxis, :]
    return np.stack([np.sin(angles), np.cos(angles)], axis=2).reshape(length, -1)


def neighbour_heads(weights: StartingWeights, seed: int) -> None:
    """Overwrite embeddings and the attention of the first layers of a fresh model, in place;
    MlmError for families whose attention cannot have it."""
    a = weights.architecture
    if problem := _unfit(a):
        raise MlmError(f"model.initialisation.attention: {problem}")
    random = np.random.Generator(np.random.Philox(key=seed))
    width, heads, words = a.width, a.heads, columns_of_words(a)
    if a.thetas:
        comparing = partial(_rotary_kernels, random, a, _set_constant(weights, random))
    else:
        comparing = partial(_comparing_kernels, random, a, _set_embeddings(weights, random))
    for layer in range(min(_LAYERS, a.layers)):
        query, key = comparing()
        weights.set_attention(layer, query=query, key=key)
    bases = [np.linalg.qr(random.normal(size=(words, width // heads)))[0] for _ in range(heads)]
    copied = np.pad(np.concatenate(bases, axis=1), [(width - words, 0), (0, 0)])
    value, noise = (random.normal(0, _NOISE, (width, width)) for _ in range(2))
    weights.set_attention(0, value=copied + value, output=_COPIED * copied.T + noise)


def positions_apart_from_words(weights: StartingWeights, seed: int) -> int | None:
    """Give a fresh model the embeddings alone that go with neighbour heads; how many of the last
    columns tell words apart, or None, with nothing changed, if it cannot have them."""
    a = weights.architecture
    if _unfit(a) or a.thetas:
        return None
    _set_embeddings(weights, np.random.Generator(np.random.Philox(key=seed)))
    return columns_of_words(a)


def columns_of_words(architecture: Architecture) -> int:
    """So many of the last columns of the word embeddings tell words apart, the others positions."""
    return architecture.width - (1 if architecture.thetas else 2 * position_pairs(architecture))


def _unfit(architecture: Architecture) -> str | None:
    return unfit_neighbour_heads(architecture.family, vars(architecture))


def _set_embeddings(weights: StartingWeights, random) -> np.ndarray:
    a, shape = weights.architecture, weights.table("positions").shape
    frequencies = peaked_frequencies(a.longest_row or 0, position_pairs(a))
    placed = 2 * len(frequencies)
    words = random.normal(0, _WORD_DEVIATION, weights.table("words").shape)
    words[:, :placed] *= _NOISE
    # If PyTorch's class of the family treats the pad token's row as empty, it stays so.
    if a.padding is not None:
        words[a.padding] = 0
    weights.set_table("words", words)
    table = random.normal(0, _NOISE * _WORD_DEVIATION, shape)
    table[:, :placed] += _POSITION_AMPLITUDE * position_waves(len(table), frequencies)
    weights.set_table("positions", table)
    return frequencies


def _comparing_kernels(
    random, architecture: Architecture, frequencies: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Query and key kernels [width, width], head h in columns h * head_width and on.

    The product of a query rotated by the head's offset d and a key is the sum of cos(f (s - t - d))
    over the frequencies f, which is largest where the key's position s is t + d.
    """
    pairs, width = len(frequencies), architecture.width
    head_width = width // architecture.heads
    words = (width - 2 * pairs) * _WORD_DEVIATION**2
    waves = pairs * _POSITION_AMPLITUDE**2
    # What LayerNorm makes of the waves' amplitude, and the factor in query and in key that
    # turns a sum of `pairs` such products, divided by sqrt(head_width), into the gap.
    amplitude = _POSITION_AMPLITUDE / np.sqrt((words + waves) / width)
    factor = np.sqrt(_GAP * np.sqrt(head_width) / pairs) / amplitude
    query = random.normal(0, _NOISE, (width, width))
    key = random.normal(0, _NOISE, (width, width))
    for head in range(width // head_width):
        offset = OFFSETS[head % len(OFFSETS)]
        cosines, sines = np.cos(offset * frequencies), np.sin(offset * frequencies)
        rows = np.arange(0, 2 * pairs, 2)
        columns = head * head_width + rows
        key[rows, columns] += factor
        key[rows + 1, columns + 1] += factor
        # sin(f (t + d)) and cos(f (t + d)) from sin(f t) and cos(f t).
        query[rows, columns] += factor * cosines
        query[rows + 1, columns] += factor * sines
        query[rows, columns + 1] -= factor * sines
        query[rows + 1, columns + 1] += factor * cosines
    return query, key


def _set_constant(weights: StartingWeights, random) -> float:
    """Sets column 0 of the word embeddings to a constant; what LayerNorm makes of it."""
    a = weights.architecture
    words = random.normal(0, _WORD_DEVIATION, weights.table("words").shape)
    # As strong as the waves of a table.
    constant = np.sqrt(position_pairs(a)) * _POSITION_AMPLITUDE
    words[:, 0] = constant
    weights.set_table("words", words)
    return constant / np.sqrt(((a.width - 1) * _WORD_DEVIATION**2 + constant**2) / a.width)


def _rotary_kernels(
    random, architecture: Architecture, constant: float
) -> tuple[np.ndarray, np.ndarray]:
    """Query and key kernels [width, width] that read the constant in column 0. The columns i and
    i + pairs of a head are turned together, by frequency i."""
    a, pairs, width = architecture, position_pairs(architecture), architecture.width
    head_width = width // a.heads
    frequencies = (a.global_theta or 1.0) ** (-np.arange(pairs) / pairs)
    strength, peak = rotary_strengths(a.positions, frequencies)
    if peak < _LOWEST_PEAK * strength.sum():
        field = FAMILIES[a.family].fields["global_theta"].name
        raise MlmError(
            f"model.initialisation.attention: neighbour_heads needs rotary positions that tell "
            f"{a.positions} places apart, which those of {field} {a.global_theta:g} do not. Set "
            f"model.config.{field}: 100.0, or standard"
        )
    factor = np.sqrt(strength * _GAP * np.sqrt(head_width) / peak) / constant
    query = random.normal(0, _NOISE, (width, width))
    key = random.normal(0, _NOISE, (width, width))
    for head in range(width // head_width):
        offset = OFFSETS[head % len(OFFSETS)]
        columns = head * head_width + np.arange(pairs)
        key[0, columns] += factor
        query[0, columns] += factor * np.cos(offset * frequencies)
        query[0, columns + pairs] += factor * np.sin(offset * frequencies)
    return query, key


def rotary_strengths(length: int, frequencies: np.ndarray) -> tuple[np.ndarray, float]:
    """Strengths [pairs], none negative, whose weighted cosines of `frequencies` peak at distance 0,
    and the peak's height above the sum at any other of `length` distances."""
    from scipy.optimize import nnls

    waves = np.cos(np.arange(length)[:, np.newaxis] * frequencies)
    # A constant, of either sign, changes no share of attention.
    constant = np.ones((length, 1))
    wanted = np.arange(length) == 0
    weight = np.where(wanted, 3.0, 1.0)
    system = np.concatenate([waves, constant, -constant], axis=1) * weight[:, np.newaxis]
    strength = nnls(system, wanted * weight)[0][: len(frequencies)]
    sums = waves @ strength
    return strength, sums[0] - sums[1:].max()
