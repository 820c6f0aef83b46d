import pytest
from hypothesis import given
from hypothesis import strategies as st

from mlm.accelerators.batch_search import CANDIDATES, largest_batch
from mlm.accelerators.compiler import COMPILED, NO_MEMORY, UNKNOWN_TARGET, Compilation


def memory_of(limit: int, full: int | None = None):
    """A compiler that says that batches up to `limit` fit; in full compilations, up to `full`."""

    def compiled(batch: int, quick: bool) -> Compilation:
        fits = batch <= (limit if quick or full is None else full)
        return Compilation(COMPILED if fits else NO_MEMORY)

    return compiled


@given(limit=st.integers(0, 300), count=st.integers(1, len(CANDIDATES)))
def test_the_search_finds_the_largest_batch(limit, count):
    batches = CANDIDATES[:count]
    fitting = [b for b in batches if b <= limit]
    assert largest_batch(batches, memory_of(limit)) == max(fitting, default=0)


def test_a_full_compilation_has_the_last_word():
    assert largest_batch(CANDIDATES, memory_of(100, full=80)) == 80
    assert largest_batch(CANDIDATES, memory_of(100, full=0)) == 0


@pytest.mark.parametrize("batches", [CANDIDATES, CANDIDATES[:1]])
def test_a_target_that_the_compiler_does_not_know_has_no_largest_batch(batches):
    assert largest_batch(batches, lambda *_: Compilation(UNKNOWN_TARGET)) is None
