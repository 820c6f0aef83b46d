import pytest
from hypothesis import given
from hypothesis import strategies as st

from mlm.accelerators.artefacts import Memory
from mlm.accelerators.batch_search import CANDIDATES, largest_batch
from mlm.accelerators.compiler import COMPILED, NO_MEMORY, UNKNOWN_TARGET, Compilation

#: Bytes of a replica.
MEMORY = 10_000


def compiler(limit: int, full: int | None = None, says="never"):
    """A compiler for which batches up to `limit` fit; in full compilations, up to `full`. It says
    how much a batch needs "never", if it "fits", or "always"."""

    def compiled(batch: int, quick: bool) -> Compilation:
        fits = batch <= (limit if quick or full is None else full)
        memory = None
        if says == "always" or (says == "fits" and fits):
            needed = int(1000 + (MEMORY - 1000) * batch // (limit + 1 / 2))
            memory = Memory(0, 0, 0, 0, 0, needed, needed)
        return Compilation(COMPILED if fits else NO_MEMORY, memory=memory)

    return compiled


@given(
    limit=st.integers(0, 300),
    count=st.integers(1, len(CANDIDATES)),
    says=st.sampled_from(["never", "fits", "always"]),
)
def test_the_search_finds_the_largest_batch(limit, count, says):
    largest = max((b for b in CANDIDATES[:count] if b <= limit), default=0)
    assert largest_batch(CANDIDATES[:count], compiler(limit, says=says), MEMORY) == largest
    assert largest_batch(CANDIDATES[:count], lambda *_: Compilation(UNKNOWN_TARGET), MEMORY) is None


@pytest.mark.parametrize("full", [80, 0])
def test_a_full_compilation_has_the_last_word(full):
    assert largest_batch(CANDIDATES, compiler(100, full=full), MEMORY) == full
