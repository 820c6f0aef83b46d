import pytest
from hypothesis import given
from hypothesis import strategies as st

from mlm.accelerators.artefacts import Memory
from mlm.accelerators.batch_search import CANDIDATES, largest_batch
from mlm.accelerators.compiler import COMPILED, NO_MEMORY, UNKNOWN_TARGET, Compilation

#: Bytes of a replica.
MEMORY = 10_000


def memory_of(limit: int, full: int | None = None, told="never", asked=None):
    """A compiler that says that batches up to `limit` fit; in full compilations, up to `full`. It
    tells what a batch needs "never", if it "fits", or "always"."""

    def compiled(batch: int, quick: bool) -> Compilation:
        fits = batch <= (limit if quick or full is None else full)
        if asked is not None:
            asked.append(batch)
        memory = None
        if told == "always" or (told == "fits" and fits):
            needed = 1000 + (MEMORY - 1000) * batch // (limit + 1 / 2)
            memory = Memory(0, 0, 0, 0, 0, int(needed), int(needed))
        return Compilation(COMPILED if fits else NO_MEMORY, memory=memory)

    return compiled


@given(
    limit=st.integers(0, 300),
    count=st.integers(1, len(CANDIDATES)),
    told=st.sampled_from(["never", "fits", "always"]),
)
def test_the_search_finds_the_largest_batch(limit, count, told):
    batches = CANDIDATES[:count]
    fitting = [b for b in batches if b <= limit]
    found = largest_batch(batches, memory_of(limit, told=told), MEMORY)
    assert found == max(fitting, default=0)


@pytest.mark.parametrize("limit", [3, 50, 500, 2000])
def test_known_needs_lead_to_the_largest_batch_in_few_compilations(limit):
    asked = []
    largest_batch(CANDIDATES, memory_of(limit, told="always", asked=asked), MEMORY)
    # The smallest, one in the middle, those on both sides of the limit, and the confirmation.
    assert len(asked) <= 6


def test_a_full_compilation_has_the_last_word():
    assert largest_batch(CANDIDATES, memory_of(100, full=80), MEMORY) == 80
    assert largest_batch(CANDIDATES, memory_of(100, full=0), MEMORY) == 0


@pytest.mark.parametrize("batches", [CANDIDATES, CANDIDATES[:1]])
def test_a_target_that_the_compiler_does_not_know_has_no_largest_batch(batches):
    assert largest_batch(batches, lambda *_: Compilation(UNKNOWN_TARGET), MEMORY) is None
