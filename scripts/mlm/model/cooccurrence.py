"""Initial word embeddings and output bias from the train split's own counts.

Words that stand in the same company begin alike. Each token is counted with its left and with
its right neighbour. The positive pointwise mutual information of both tables, side by side, is
a sparse matrix whose leading left singular vectors, each times a power of its singular value,
are the word vectors (Levy, Goldberg and Dagan, "Improving Distributional Similarity with
Lessons Learned from Word Embeddings", 2015). A random rotation spreads them over the columns,
and so over the heads. The output bias begins at the logarithm of the tokens' frequencies.

The counting and the factorisation run in a process of their own with one thread: the bytes are
the same whatever number of threads the training has, and their memory is given back.
"""

import io
import json
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import asdict, dataclass

import numpy as np

from mlm.corpus.counts import COUNTED_TOKENS, ContextCounts, TokenCounts, count_tokens
from mlm.foundations.child_process import child_environment
from mlm.foundations.errors import MlmError
from mlm.foundations.progress_line import Progress
from mlm.model.initialisation import (
    StartingWeights,
    columns_of_words,
    positions_apart_from_words,
)
from mlm.samples.holes import Holes
from mlm.samples.object_storage import local_copy
from mlm.samples.tfrecord import SampleError, decode_samples, read_records

#: Variables that set the number of threads of the linear algebra below NumPy and SciPy.
_THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
_BATCH = 1024
#: Directions beyond those asked for, and rounds, of the subspace iteration.
_OVERSAMPLING, _ROUNDS = 16, 8
#: Directions whose singular value is a smaller share of the first are noise.
_LEAST = 1e-4


@dataclass(frozen=True)
class Strengths:
    """Settings of the initialisation; the defaults were found by experiment (docs/learning.md).

    `power` is that of the singular values; `counted` and `random` are the parts of the word
    vectors and of the family's own random embeddings in the sum of both.
    """

    power: float = 0.25
    counted: float = 0.9
    random: float = 0.3
    distances: tuple[float, ...] = (1.0, 0.5)


@dataclass(frozen=True)
class Request:
    """What is to be counted: the shards of the train split, but for `holes`, each (sample, begin,
    end), and the size of the result."""

    files: tuple[str, ...]
    num_samples: int
    sequence_length: int
    vocabulary: int
    special_ids: tuple[int, ...]
    columns: int
    power: float
    distances: tuple[float, ...]
    seed: int
    holes: tuple[tuple[int, int, int], ...] = ()


def begin_at_counts(weights: StartingWeights, run) -> None:
    """`start_from_counts` of the train split of `run`, a Run, beside positions that differ in
    columns of their own, if the family can have that."""
    if run.model.initialisation.attention == "neighbour_heads":
        columns = columns_of_words(run.model_config)
    else:
        columns = positions_apart_from_words(weights, run.model_config, run.seed)
    special, holes = run.plan.special_ids, run.plan.holes
    start_from_counts(weights, run.train, special, columns, run.seed, holes=holes)


def start_from_counts(
    weights: StartingWeights,
    shards,
    special_ids: tuple[int, ...],
    columns: int | None,
    seed: int,
    strengths: Strengths | None = None,
    holes: Holes | None = None,
) -> None:
    """Overwrite the last `columns` columns of a model's word embeddings (None: all of them) and
    its output bias, in place, by counts of the train split without what stands in `holes`.

    `shards` is the split's ShardFiles. Tokens that were counted beside no other, such as the
    special ones, keep their embeddings. Raises MlmError where the shards cannot be read.
    """
    strengths = strengths or Strengths()
    words = weights.words
    columns = columns or words.shape[1]
    request = Request(
        files=shards.files,
        num_samples=shards.num_samples,
        sequence_length=shards.sequence_length,
        vocabulary=len(words),
        special_ids=special_ids,
        columns=columns,
        power=strengths.power,
        distances=tuple(strengths.distances),
        seed=seed,
        holes=() if holes is None else tuple(map(tuple, holes.spans)),
    )
    vectors, log_frequencies = _counted(request)
    usual = words[:, -columns:]
    counted = strengths.counted * usual.std() * vectors + strengths.random * usual
    words[:, -columns:] = np.where(vectors.any(axis=1, keepdims=True), counted, usual)
    weights.words = words
    weights.set_output_bias(log_frequencies)


def word_vectors(
    counts: TokenCounts, columns: int, power: float, distances: tuple[float, ...], seed: int
) -> np.ndarray:
    """Vectors of the tokens, float32 [vocabulary, columns], whose numbers have a deviation of
    about 1; zeros for tokens without a neighbour that is more frequent beside them than by chance.

    With fewer independent directions than columns, the rotation spreads those there are.
    """
    parts = [
        np.float32(distances[abs(offset) - 1]) * positive_pmi(pairs, len(counts.unigram))
        for offset, pairs in counts.beside.items()
    ]
    vectors, values = _leading_directions(parts, columns)
    found = np.zeros((len(vectors), columns))
    found[:, : len(values)] = vectors * values**power
    found[sum(part.sum(axis=0) for part in parts) == 0] = 0
    random = np.random.Generator(np.random.Philox(key=seed))
    rotation = np.linalg.qr(random.normal(size=(columns, columns)))[0]
    found = found @ rotation
    norms = np.linalg.norm(found, axis=1, keepdims=True)
    if not norms.any():
        return found.astype(np.float32)
    # Of one length, but for words too rare to have statistics.
    lengths = np.minimum(1, 0.5 + norms / np.median(norms[norms > 0]))
    found *= np.sqrt(columns) * lengths / np.where(norms > 0, norms, 1)
    return found.astype(np.float32)


def log_frequencies(counts: TokenCounts) -> np.ndarray:
    """log((c + 1) / (N + V)) of every token, float32 [vocabulary]."""
    seen = counts.unigram + 1.0
    return np.log(seen / seen.sum()).astype(np.float32)


def positive_pmi(pairs: ContextCounts, vocabulary: int):
    """max(0, log(p(c, w) / (p(c) p(w)))) of contexts c and tokens w, sparse [contexts, vocabulary].

    One is added to the counts of contexts and of tokens, which lowers the rarest.
    """
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
    """Leading left singular vectors [tokens, n] and values [n], n at most `columns`, of the
    matrices [context, token] in `parts`, transposed and side by side.

    A randomised subspace iteration (Halko, Martinsson and Tropp, "Finding structure with
    randomness", 2011), in which the contexts are never dense for more than one part. The sign of
    a vector makes its largest entry positive.
    """
    size = parts[0].shape[1]
    asked = min(columns + _OVERSAMPLING, size)
    start = np.random.Generator(np.random.Philox(key=0)).standard_normal((size, asked), np.float32)
    basis = np.linalg.qr(start)[0]
    for _ in range(_ROUNDS):
        basis = np.linalg.qr(sum(part.T @ (part @ basis) for part in parts))[0]
    gram = np.zeros((asked, asked))
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


def _counted(request: Request) -> tuple[np.ndarray, np.ndarray]:
    """Word vectors and logarithms of the frequencies, from a process with one thread."""
    ran = subprocess.run(
        [sys.executable, "-m", "mlm.model.cooccurrence"],
        input=json.dumps(asdict(request)).encode(),
        stdout=subprocess.PIPE,
        env=child_environment() | dict.fromkeys(_THREADS, "1"),
    )
    if ran.returncode:
        raise MlmError(
            "model.initialisation.embeddings: cooccurrence: the train split could not be counted "
            f"(exit status {ran.returncode}; the reason stands above). Set random to do without"
        )
    found = np.load(io.BytesIO(ran.stdout), allow_pickle=False)
    return found["vectors"], found["log_frequencies"]


def _read(request: Request) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Ids and attention mask, [batch, sequence], of as many evenly spread samples as count."""
    every = max(1, -(-request.num_samples * request.sequence_length // COUNTED_TOKENS))
    progress = Progress("counting neighbours", request.num_samples, "samples")
    holes = Holes.of(request.holes, padding_id=0)
    index, waiting = 0, []
    for path in request.files:
        with local_copy(path) as copy, open(copy, "rb") as stream:
            for record in read_records(stream, path):
                if index % every == 0:
                    waiting.append((index, record))
                index += 1
                if len(waiting) == _BATCH:
                    yield _decoded(waiting, request, path, holes)
                    progress.to(index)
                    waiting = []
        if waiting:
            yield _decoded(waiting, request, path, holes)
            waiting = []


def _decoded(
    waiting: list[tuple[int, bytes]], request: Request, path: str, holes: Holes
) -> tuple[np.ndarray, np.ndarray]:
    indices, records = zip(*waiting, strict=True)
    try:
        ids, mask = decode_samples(records, request.sequence_length)
    except SampleError as error:
        raise MlmError(f"{path}: a sample {error}") from None
    return ids, np.where(holes.within(np.array(indices), request.sequence_length), 0, mask)


def _main() -> None:
    request = Request(**json.load(sys.stdin))
    try:
        counts = count_tokens(
            _read(request), request.vocabulary, request.special_ids, len(request.distances)
        )
    except MlmError as error:
        sys.exit(str(error))
    vectors = word_vectors(counts, request.columns, request.power, request.distances, request.seed)
    written = io.BytesIO()
    np.savez(written, vectors=vectors, log_frequencies=log_frequencies(counts))
    sys.stdout.buffer.write(written.getvalue())


if __name__ == "__main__":
    _main()
