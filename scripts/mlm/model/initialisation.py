"""Initial weights: random, with neighbour heads, which look at neighbours from step one, or those
of a published encoder (`model.start_from`).

A small masked language model stays near the unigram loss until some heads have learned to attend to
the neighbours (Chen et al., "Sudden drops in the loss", 2023). As mimetic initialization does
(Trockman and Kolter, 2023), attention starts from the shape that training gives it:

- The first 2P columns of the position table hold sines and cosines of P frequencies whose cosines
  peak at distance 0. Word embeddings are nearly zero there, and elsewhere as wide as the positions.
- Each head of the first two layers scores the neighbour at its own offset (-1, +1, -2, +2, and so
  on) `_GAP` nats above the others.
- The first layer adds a part of the neighbours' word vectors to a token's: each head's value
  projection has orthonormal columns, and its output projection is `_COPIED` times the transpose.
"""

import math
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from mlm.config.families import FAMILIES
from mlm.config.model import Model, unfit_neighbour_heads
from mlm.foundations.atomic import read_json
from mlm.foundations.errors import MlmError
from mlm.model.architecture import Architecture, parameter_shapes
from mlm.model.model_files import Checkpoint, fitting
from mlm.tokenizer.pieces import pieces_by_id

#: Found by experiment (docs/learning.md): how many layers begin so, the score of a head's own
#: neighbour in nats of attention above the others, the share of a word vector that is copied, the
#: noise relative to what it is added to, and deviations or amplitudes of embeddings.
_LAYERS, _GAP, _COPIED, _NOISE = 2, 8.0, 0.5, 0.02
_WORD_DEVIATION, _POSITION_AMPLITUDE = 0.1, 0.14
#: The neighbours that heads look at, by turns.
OFFSETS = (-1, 1, -2, 2)


def initial_parameters(architecture: Architecture, seed: int) -> dict[str, np.ndarray]:
    """Weights float32 by name, a function of `seed`: norms 1, biases 0, the rest normal with
    initializer_range, in what ModernBERT adds to the residual, and its head, over √(2 · layers)."""
    a, weights = architecture, {}
    smaller = (a.names.attended, a.names.output, a.names.head_dense) if a.gated else ()
    for number, (name, shape) in enumerate(parameter_shapes(a).items(), start=1):
        if len(shape) == 1:
            weights[name] = np.full(shape, 0 if name.endswith("bias") else 1, np.float32)
            continue
        ends = name.endswith(tuple(f"{part}.weight" for part in smaller))
        deviation = a.initializer_range / (math.sqrt(2 * a.layers) if ends else 1)
        weights[name] = normal(seed, number, shape, deviation)
    return weights


def normal(seed: int, number: int, shape: tuple[int, ...], deviation: float) -> np.ndarray:
    """Normal numbers, float32 of `shape`, from the stream `number` of `seed`."""
    random = np.random.Generator(np.random.Philox(key=[seed, number]))
    return random.standard_normal(shape, np.float32) * np.float32(deviation)


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


def neighbour_heads(weights: dict[str, np.ndarray], architecture: Architecture, seed: int) -> None:
    """Overwrite embeddings and the attention of the first layers of a fresh model, in place."""
    a, names = architecture, architecture.names
    random = np.random.Generator(np.random.Philox(key=seed))
    frequencies = _set_embeddings(weights, a, random)
    width, heads, words = a.width, a.heads, columns_of_words(a)

    def set_kernel(layer: int, name: str, kernel: np.ndarray) -> None:
        name = f"{a.layer_prefix(layer)}{name}.weight"
        weights[name] = np.ascontiguousarray(kernel.T, np.float32)

    for layer in range(min(_LAYERS, a.layers)):
        kernels = _comparing_kernels(random, a, frequencies)
        for name, kernel in zip(names.projections, kernels, strict=False):
            set_kernel(layer, name, kernel)
    bases = [np.linalg.qr(random.normal(size=(words, width // heads)))[0] for _ in range(heads)]
    copied = np.pad(np.concatenate(bases, axis=1), [(width - words, 0), (0, 0)])
    value, noise = (random.normal(0, _NOISE, (width, width)) for _ in range(2))
    set_kernel(0, names.projections[2], copied + value)
    set_kernel(0, names.attended, _COPIED * copied.T + noise)


def positions_apart_from_words(
    weights: dict[str, np.ndarray], architecture: Architecture, seed: int
) -> int | None:
    """Give a fresh model the embeddings alone that go with neighbour heads; how many of the last
    columns tell words apart, or None, with nothing changed, if it cannot have them."""
    if unfit_neighbour_heads(architecture.family, vars(architecture)):
        return None
    _set_embeddings(weights, architecture, np.random.Generator(np.random.Philox(key=seed)))
    return columns_of_words(architecture)


def columns_of_words(architecture: Architecture) -> int:
    """So many of the last columns of the word embeddings tell words apart, the others positions."""
    return architecture.width - 2 * position_pairs(architecture)


def _set_embeddings(
    weights: dict[str, np.ndarray], architecture: Architecture, random: np.random.Generator
) -> np.ndarray:
    a = architecture
    words, positions = f"{a.names.words}.weight", f"{a.names.positions}.weight"
    frequencies = peaked_frequencies(a.longest_row or 0, position_pairs(a))
    placed = 2 * len(frequencies)
    table = random.normal(0, _WORD_DEVIATION, weights[words].shape)
    table[:, :placed] *= _NOISE
    # If PyTorch's class of the family treats the pad token's row as empty, it stays so.
    if a.padding is not None:
        table[a.padding] = 0
    weights[words] = table.astype(np.float32)
    table = random.normal(0, _NOISE * _WORD_DEVIATION, weights[positions].shape)
    # Columns 2i and 2i + 1 are sine and cosine of frequency i.
    angles = np.arange(len(table))[:, np.newaxis] * frequencies
    waves = np.stack([np.sin(angles), np.cos(angles)], axis=2).reshape(len(table), -1)
    table[:, :placed] += _POSITION_AMPLITUDE * waves
    weights[positions] = table.astype(np.float32)
    return frequencies


def _comparing_kernels(
    random: np.random.Generator, architecture: Architecture, frequencies: np.ndarray
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


@dataclass(frozen=True)
class Begun:
    """The names of weights that a run's checkpoint lacks, and of those that its model lacks."""

    missing: list[str]
    unexpected: list[str]


@dataclass(frozen=True)
class WarmStart:
    """The checkpoint that a run begins with."""

    name: str
    checkpoint: Checkpoint

    @classmethod
    def of(cls, model: Model, tokenizer_json: str) -> "WarmStart | None":
        """Return that of a run with section `model` and this tokenizer; None if it starts from
        scratch. Raises MlmError if the checkpoint cannot be read or has another vocabulary."""
        if not model.start_from:
            return None
        checkpoint = Checkpoint.read(model.start_from)
        if checkpoint.fields.get("tie_word_embeddings") is False:
            raise MlmError(
                f"model.start_from: {model.start_from} has tie_word_embeddings: false, which no "
                "model that is trained here has. Choose another checkpoint"
            )
        if not checkpoint.tokenizer.is_file():
            raise MlmError(
                f"model.start_from: {model.start_from} holds no tokenizer.json, so that nobody "
                "knows what its embeddings are of. Put it into the same directory"
            )
        files = checkpoint.tokenizer, tokenizer_json
        old, new = (pieces_by_id(read_json(file)) for file in files)
        if old != new:
            raise MlmError(
                f"model.start_from: {model.start_from} has another vocabulary ({len(old):,} ids) "
                f"than this run's tokenizer ({len(new):,}). Set tokenizer.kind: pretrained and "
                f"tokenizer.pretrained.path: {model.start_from}"
            )
        # Of a directory, the place is nobody's business.
        place = Path(model.start_from)
        return cls(place.name if place.is_dir() else model.start_from, checkpoint)

    def over(
        self, fresh: dict[str, np.ndarray], architecture: Architecture
    ) -> tuple[dict[str, np.ndarray], Begun]:
        """The `fresh` weights under the checkpoint's, which may lack a head, or MlmError."""
        names, stored = architecture.names, dict(self.checkpoint.weights)
        prefix = FAMILIES[architecture.family].encoder_prefix
        for name in (f"{names.words}.weight", names.decoder_bias):
            if name in stored:
                # Published tables may be padded to a round number of rows.
                stored[name] = stored[name][: len(fresh[name])]
        missing = sorted(fresh.keys() - stored.keys())
        heads = [name for name in missing if not name.startswith(prefix)]
        weights = fitting(stored, architecture, f"model.start_from: {self.name}", heads)
        unexpected = sorted(stored.keys() - fresh.keys())
        return fresh | weights, Begun(missing, unexpected)
