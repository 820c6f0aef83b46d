"""Initial word embeddings and output bias from the train split's own counts.

The positive pointwise mutual information of tokens with their neighbours is a sparse matrix, whose
leading left singular vectors, each times a power of its singular value, are the word vectors (Levy,
Goldberg and Dagan, "Improving Distributional Similarity with Lessons Learned from Word Embeddings",
2015), spread over the heads by a random rotation. The output bias begins at the logarithm of the
tokens' frequencies. All of it runs in a process of its own with one thread, for the same bytes.
"""

import pickle
import subprocess
import sys
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Any

import numpy as np

from mlm.foundations.environment import child_environment
from mlm.foundations.errors import MlmError
from mlm.foundations.terminal import Progress
from mlm.model.initialisation import StartingWeights
from mlm.model.neighbour_heads import columns_of_words, positions_apart_from_words
from mlm.model.warm_start import Begun
from mlm.samples.ngram_counts import ContextCounts, TokenCounts, count_tokens, counted_samples
from mlm.samples.shard_reading import ShardFiles, samples_in_order

#: Variables that set the number of threads of the linear algebra below NumPy and SciPy.
_THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
#: Directions beyond the columns, and rounds, of the subspace iteration.
_OVERSAMPLING, _ROUNDS = 16, 8
#: Directions whose singular value is a smaller share of the first are noise.
_LEAST = 1e-4
#: Found by experiment (docs/learning.md): the power of the singular values, the parts of the word
#: vectors and of the family's own random embeddings in their sum, and the weights of distances.
STRENGTHS = {"power": 0.25, "counted": 0.9, "random": 0.3, "distances": (1.0, 0.5)}


def start_from_counts(engine: Any, run: Any) -> None:
    """Begin the training `engine` of `run` with `overwrite_with_counts` of its train split, beside
    positions that differ in columns of their own, if the family can have that; after a warm start
    without an output bias, with that alone. Only rank 0 counts."""
    by_name, begun = engine.weights(), engine.begun
    weights, columns = StartingWeights(by_name, engine.architecture), None
    if engine.devices.group.is_rank0 and not (begun and begun.biased):
        if run.model.initialisation.attention == "neighbour_heads":
            columns = columns_of_words(engine.architecture)
        elif begun is None:
            columns = positions_apart_from_words(weights, run.seed)
        overwrite_with_counts(weights, run.train, run.plan.special_ids, columns, run.seed, begun)
    engine.begin_with(by_name)


def overwrite_with_counts(
    weights: StartingWeights,
    shards: ShardFiles,
    special_ids: Sequence[int],
    columns: int | None,
    seed: int,
    begun: Begun | None = None,
) -> None:
    """Overwrite the last `columns` columns of the word embeddings (None: all) and the output bias,
    in place, by counts of the train split. Tokens counted beside no other keep their embeddings,
    as do all after a warm start. Raises MlmError if the shards cannot be read."""
    words = weights.table("words")
    columns = int(columns or words.shape[1])
    statistics = in_one_thread(shards, special_ids, len(words), columns, STRENGTHS, seed)
    vectors, log_frequencies = statistics
    usual = words[:, -columns:]
    counted = STRENGTHS["counted"] * usual.std() * vectors + STRENGTHS["random"] * usual
    chosen = vectors.any(axis=1, keepdims=True) & (begun is None)
    words[:, -columns:] = np.where(chosen, counted, usual)
    weights.set_table("words", words)
    if begun is None or not begun.biased:
        weights.set_output_bias(log_frequencies)


def in_one_thread(*arguments) -> tuple[np.ndarray, np.ndarray]:
    """`vectors_and_frequencies` of the arguments, from a process with one thread."""
    ran = subprocess.run(
        [sys.executable, "-m", "mlm.model.cooccurrence"],
        input=pickle.dumps(arguments),
        stdout=subprocess.PIPE,
        env=child_environment() | dict.fromkeys(_THREADS, "1"),
    )
    if ran.returncode:
        raise MlmError(
            "model.initialisation.embeddings: cooccurrence: the train split could not be counted "
            f"(exit status {ran.returncode}; the reason is above). Set random to do without"
        )
    return pickle.loads(ran.stdout)


def vectors_and_frequencies(
    shards: ShardFiles,
    special_ids: Sequence[int],
    vocabulary: int,
    columns: int,
    strengths: dict,
    seed: int,
) -> tuple[np.ndarray, np.ndarray]:
    """`word_vectors` of the split, and each log((c + 1) / (N + V)), float32 [vocabulary]."""
    samples, distances = counted_batches(shards), strengths["distances"]
    counts = count_tokens(samples, vocabulary, special_ids, len(distances))
    vectors = word_vectors(counts, columns, strengths["power"], distances, seed)
    seen = counts.unigram + 1.0
    return vectors, np.log(seen / seen.sum()).astype(np.float32)


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


def word_vectors(
    counts: TokenCounts, columns: int, power: float, distances: tuple[float, ...], seed: int
) -> np.ndarray:
    """Vectors of the tokens, float32 [vocabulary, columns], of a deviation of about 1; zeros for
    tokens without a neighbour that is more frequent beside them than by chance."""
    parts = [
        np.float32(distances[abs(offset) - 1]) * positive_pmi(pairs, len(counts.unigram))
        for offset, pairs in counts.beside.items()
    ]
    directions, values = _leading_directions(parts, columns)
    vectors = np.zeros((len(directions), columns))
    vectors[:, : len(values)] = directions * values**power
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
    """Leading left singular vectors [tokens, n] and values [n], n <= `columns`, of `parts`
    [context, token], transposed and side by side, by a randomised subspace iteration (Halko,
    Martinsson and Tropp, "Finding structure with randomness", 2011); the largest entry of a vector
    is positive."""
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
        statistics = vectors_and_frequencies(*pickle.load(sys.stdin.buffer))
    except MlmError as error:
        sys.exit(str(error))
    pickle.dump(statistics, sys.stdout.buffer)
