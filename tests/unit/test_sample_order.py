import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mlm.samples import sample_order
from mlm.samples.sample_order import KeyedPermutation, SampleOrder


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch):
    monkeypatch.setattr(sample_order, "BLOCK_SAMPLES", 4)


#: Time is no claim here.
thorough = settings(max_examples=50, deadline=None)
orders = st.builds(
    SampleOrder,
    st.lists(st.integers(0, 23), min_size=1, max_size=6).map(tuple).filter(sum),
    seed=st.integers(0, 3),
    window=st.integers(1, 40),
)


@thorough
@given(st.integers(1, 600), st.lists(st.integers(0, 2**63), max_size=3))
def test_a_permutation_has_every_item_once_and_an_inverse(size, key):
    permutation = KeyedPermutation(size, *key)
    items = permutation.items(np.arange(size))
    assert sorted(items) == list(range(size))
    assert (permutation.places(items) == np.arange(size)).all()


@thorough
@given(orders, st.integers(1, 8), st.integers(1, 3))
def test_no_sample_is_lost_or_doubled_whatever_the_batch(order, batch, epochs):
    steps = -(-order.num_samples * epochs // batch)
    stream = [order.samples(step * batch + np.arange(batch)) for step in range(steps)]
    parts = zip(*stream, strict=True)
    found, indices = (np.concatenate(part)[: order.num_samples * epochs] for part in parts)
    assert (found == np.repeat(np.arange(epochs), order.num_samples)).all()
    for epoch in range(epochs):
        assert sorted(indices[found == epoch]) == list(range(order.num_samples))


@thorough
@given(orders, st.integers(0, 3))
def test_the_steps_of_a_sample_are_those_at_which_it_is_used(order, epoch):
    places = np.arange(order.num_samples) + epoch * order.num_samples
    _, indices = order.samples(places)
    assert (order.places(indices, epoch) == places).all()


def test_seeds_and_epochs_have_orders_of_their_own():
    def order(seed, epoch):
        places = np.arange(100) + 100 * epoch
        return tuple(SampleOrder((60, 40), seed, 1000).samples(places)[1])

    assert len({order(seed, epoch) for seed in range(5) for epoch in range(5)}) == 25


def neighbours_apart(periods: np.ndarray, batch: int) -> float:
    """Mean distance, in periods, of two samples of one batch."""
    batches = periods[: len(periods) // batch * batch].reshape(-1, batch)
    return float(np.abs(batches[:, 1:] - batches[:, :-1]).mean())


def test_a_sorted_corpus_is_nearly_as_mixed_as_by_a_full_shuffle(monkeypatch):
    """A group of a sixteenth of the corpus, whose samples are sorted by period."""
    monkeypatch.setattr(sample_order, "BLOCK_SAMPLES", 64)
    order = SampleOrder((16_384, 16_384), seed=0, window=2048)
    _, indices = order.samples(np.arange(order.num_samples))
    shuffled = np.random.default_rng(0).permutation(order.num_samples)
    ratio = neighbours_apart(indices, 32) / neighbours_apart(shuffled, 32)
    assert 0.9 < ratio < 1.02
