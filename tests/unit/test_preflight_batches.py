"""The search of the largest batch, against memories that are known."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mlm.batch_search import Trial, candidates, first_guess, search
from mlm.tpu_compiler import COMPILED, Compilation


def memory_of(limit: int):
    """Batches up to `limit` fit; those above 3/4 of it are rematerialised."""

    def attempt(batch: int) -> Trial:
        if batch > limit:
            return Trial(batch, fits=False)
        return Trial(batch, True, batch * 10, 110.0 if batch > 0.75 * limit else 100.0)

    return attempt


@given(limit=st.integers(0, 300), guess=st.integers(1, 400), largest=st.integers(1, 256))
def test_the_search_finds_the_largest_batch_from_any_guess(limit, guess, largest):
    batches = candidates(largest)
    found = search(batches, guess, memory_of(limit))
    assert found.largest == max((b for b in batches if b <= limit), default=0)
    assert found.too_large == min((b for b in batches if b > limit), default=None)


def test_a_good_guess_needs_two_compilations():
    found = search(candidates(1024), 48, memory_of(50))
    assert [t.batch for t in found.trials] == [48, 56]


def test_a_bad_guess_costs_the_logarithm():
    assert len(search(candidates(1024), 1, memory_of(500)).trials) <= 14


def test_where_values_are_computed_twice_is_named():
    found = search(candidates(128), 8, memory_of(100))
    assert found.largest == 96
    assert found.rematerialises_from in {t.batch for t in found.trials if t.batch > 75}


def test_the_guess_fills_what_the_weights_leave():
    answer = Compilation(COMPILED, arguments=1000, outputs=900, aliased=900, temporaries=500)
    assert first_guess(answer, batch=16, hbm=11_000) == 320


@pytest.mark.parametrize("largest", [1, 3, 8, 100])
def test_candidates_end_at_the_largest(largest):
    assert candidates(largest)[0] == 1
    assert candidates(largest)[-1] <= largest
