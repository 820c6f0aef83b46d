"""Initial word embeddings and output bias from the train split's own counts.

The positive pointwise mutual information of tokens with their neighbours is a sparse matrix, whose
leading left singular vectors, each times a power of its singular value, are the word vectors (Levy,
Goldberg and Dagan, "Improving Distributional Similarity with Lessons Learned from Word Embeddings",
2015), spread over the heads by a random rotation. The output bias begins at the logarithm of the
tokens' frequencies. All of it runs in a process of its own with one thread, for the same bytes.
"""

import subprocess
import sys
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Any

import numpy as np
from pydantic import TypeAdapter
from safetensors.numpy import load, save

from mlm.config.families import Names
from mlm.foundations.environment import child_environment
from mlm.foundations.errors import MlmError
from mlm.foundations.terminal import Progress
from mlm.model.initialisation import columns_of_words, positions_apart_from_words
from mlm.samples.ngram_counts import ContextCounts, TokenCounts, count_tokens, counted_samples
from mlm.samples.shard_reading import ShardFiles, samples_in_order

#: Variables that set the number of threads of the linear algebra below NumPy and SciPy.
_THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
#: Directions beyond the columns, and rounds, of the subspace iteration.
_OVERSAMPLING, _ROUNDS = 16, 8
#: Directions whose singular value is a smaller share of the first are noise.
_LEAST = 1e-4
#: By experiment (docs/learning.md): the power of the singular values, the parts of the word vectors
#: and of the family's random embeddings in their sum, and the weights of distances.
_POWER, _COUNTED, _RANDOM, _DISTANCES = 0.25, 0.9, 0.3, (1.0, 0.5)
#: Those of `vectors_and_frequencies`.
_ARGUMENTS = TypeAdapter(tuple[ShardFiles, tuple[int, ...], int, int, int])


def start_from_counts(engine: Any, run: Any) -> None:
    """Begin the training `engine` of `run` with `overwrite_with_counts` of its train split, beside
    positions that differ in columns of their own, if the family can have that; after a warm start
    without an output bias, with that alone. Only rank 0 counts."""
    weights, begun, a = engine.weights(), engine.begun, engine.architecture
    if engine.devices.group.is_rank0 and (not begun or a.names.decoder_bias in begun.missing):
        columns = None
        if run.model.initialisation.attention == "neighbour_heads":
            columns = columns_of_words(a)
        elif begun is None:
            columns = positions_apart_from_words(weights, a, run.seed)
        sizes = a.vocabulary, columns or a.embedding
        counts = in_one_thread(run.train, run.plan.special_ids, *sizes, run.seed)
        overwrite_with_counts(weights, a.names, *counts, words=begun is None)
    engine.begin_with(weights)


def overwrite_with_counts(
    weights: dict[str, np.ndarray],
    names: Names,
    vectors: np.ndarray,
    log_frequencies: np.ndarray,
    words: bool = True,
) -> None:
    """Overwrite the output bias and, with `words`, the last columns of the word embeddings, in
    place. Tokens counted beside no other keep their embeddings."""
    if words:
        table = weights[f"{names.words}.weight"].copy()
        usual = table[:, -vectors.shape[1] :]
        counted = _COUNTED * usual.std() * vectors + _RANDOM * usual
        usual[:] = np.where(vectors.any(axis=1, keepdims=True), counted, usual)
        weights[f"{names.words}.weight"] = table
    # A ModernBERT may be without.
    if names.decoder_bias in weights:
        weights[names.decoder_bias] = log_frequencies


def in_one_thread(*arguments) -> tuple[np.ndarray, np.ndarray]:
    """Return `vectors_and_frequencies` of the arguments, from a process with one thread."""
    ran = subprocess.run(
        [sys.executable, "-m", "mlm.model.cooccurrence"],
        input=_ARGUMENTS.dump_json(arguments),
        stdout=subprocess.PIPE,
        env=child_environment() | dict.fromkeys(_THREADS, "1"),
    )
    if ran.returncode:
        raise MlmError(
            "model.initialisation.embeddings: cooccurrence: the train split could not be counted "
            f"(exit status {ran.returncode}; the reason is above). Set random to do without"
        )
    arrays = load(ran.stdout)
    return arrays["vectors"], arrays["log_frequencies"]


def vectors_and_frequencies(
    shards: ShardFiles, special_ids: Sequence[int], vocabulary: int, columns: int, seed: int
) -> dict[str, np.ndarray]:
    """Return `word_vectors` of the split, and each log((c + 1) / (N + V)), float32 [vocabulary]."""
    counts = count_tokens(counted_batches(shards), vocabulary, special_ids, len(_DISTANCES))
    frequencies = counts.unigram + 1.0
    return {
        "vectors": word_vectors(counts, columns, seed),
        "log_frequencies": np.log(frequencies / frequencies.sum()).astype(np.float32),
    }


def counted_batches(shards: ShardFiles) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Ids and attention mask, [batch, sequence], of as many evenly spread samples as count."""
    every = counted_samples(shards.num_samples, shards.num_samples * shards.sequence_length).step
    progress = Progress("counting neighbours", shards.num_samples, "samples")
    blocks = samples_in_order(shards, np.arange(0, shards.num_samples, every))
    # So many blocks have as many of the samples as one block has of all.
    while some := list(islice(blocks, every)):
        index, records = (np.concatenate(parts) for parts in zip(*some, strict=True))
        input_ids, attention_mask = shards.decoded(records)
        yield input_ids, attention_mask
        progress.to(int(index[-1]) + 1)


def word_vectors(counts: TokenCounts, columns: int, seed: int) -> np.ndarray:
    """Vectors of the tokens, float32 [vocabulary, columns], of a deviation of about 1; zeros for
    tokens without a neighbour that is more frequent beside them than by chance."""
    parts = [
        np.float32(_DISTANCES[abs(offset) - 1]) * positive_pmi(pairs, len(counts.unigram))
        for offset, pairs in counts.beside.items()
    ]
    directions, values = _leading_directions(parts, columns)
    vectors = np.zeros((len(directions), columns))
    vectors[:, : len(values)] = directions * values**_POWER
    vectors[sum(part.sum(axis=0) for part in parts) == 0] = 0
    random = np.random.Generator(np.random.Philox(key=seed))
    vectors = vectors @ np.linalg.qr(random.normal(size=(columns, columns)))[0]
    norms = np.linalg.norm(vectors, axis=1, keepdims=True)
    if not norms.any():
        return vectors.astype(np.float32)
    # Of one length, except words too rare to have statistics.
    lengths = np.minimum(1, 0.5 + norms / np.median(norms[norms > 0]))
    vectors *= np.sqrt(columns) * lengths / np.where(norms > 0, norms, 1)
    return vectors.astype(np.float32)


def positive_pmi(pairs: ContextCounts, vocabulary: int):
    """max(0, log(p(c, w) / (p(c) p(w)))), sparse [contexts, vocabulary]; one is added to the counts
    of contexts and of tokens, which lowers the rarest."""
    from scipy.sparse import csr_array

    total = float(pairs.counts.sum())
    contexts = np.repeat(np.arange(len(pairs.contexts)), np.diff(pairs.starts))
    of_context = np.bincount(contexts, pairs.counts) + 1
    of_token = np.bincount(pairs.tokens, pairs.counts, vocabulary) + 1
    pmi = np.log(pairs.counts * total / (of_context[contexts] * of_token[pairs.tokens]))
    matrix = csr_array(
        (np.maximum(pmi, 0).astype(np.float32), pairs.tokens, pairs.starts),
        shape=(len(pairs.contexts), vocabulary),
    )
    matrix.eliminate_zeros()
    return matrix


def _leading_directions(parts: list, columns: int) -> tuple[np.ndarray, np.ndarray]:
    """Return leading left singular vectors [tokens, n] and values [n], n <= `columns`, of `parts`
    [context, token], transposed and side by side, by a subspace iteration (Halko et al., "Finding
    structure with randomness", 2011); the largest entry of a vector is positive."""
    size = parts[0].shape[1]
    rank = min(columns + _OVERSAMPLING, size)
    start = np.random.Generator(np.random.Philox(key=0)).standard_normal((size, rank), np.float32)
    basis = np.linalg.qr(start)[0]
    for _ in range(_ROUNDS):
        basis = np.linalg.qr(sum(part.T @ (part @ basis) for part in parts))[0]
    gram = np.zeros((rank, rank))
    for part in parts:
        projected = part @ basis
        gram += projected.T @ projected
    squares, directions = np.linalg.eigh(gram)
    squares, directions = squares[::-1][:columns], directions[:, ::-1][:, :columns]
    values = np.sqrt(np.maximum(squares, 0))
    vectors = basis @ directions[:, values > _LEAST * values[0]].astype(np.float32)
    values = values[: vectors.shape[1]]
    largest = np.abs(vectors).argmax(axis=0)
    return vectors * np.sign(vectors[largest, np.arange(len(values))]), values


if __name__ == "__main__":
    try:
        arguments = _ARGUMENTS.validate_json(sys.stdin.buffer.read())
        sys.stdout.buffer.write(save(vectors_and_frequencies(*arguments)))
    except MlmError as error:
        sys.exit(str(error))
