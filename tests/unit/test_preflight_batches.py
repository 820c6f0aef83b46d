"""The search of the largest batch, against memories that are known."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from small_pretraining import write_manifest_of

from mlm.accelerators import batch_search
from mlm.accelerators.artefacts import Batches, Trial
from mlm.accelerators.batch_search import candidates, find_batches, first_guess, search
from mlm.accelerators.compiler import COMPILED, NO_MEMORY, UNKNOWN_TARGET, Compilation


def memory_of(limit: int):
    """Batches up to `limit` fit; those above 3/4 of it are rematerialised."""

    def attempt(batch: int) -> Trial:
        if batch > limit:
            return Trial(batch, fits=False)
        return Trial(batch, True, batch * 10, 110.0 if batch > 0.75 * limit else 100.0)

    return attempt


@given(
    limit=st.integers(0, 300),
    guess=st.integers(1, 400),
    largest=st.integers(1, 256),
    stride=st.integers(1, 9),
)
def test_the_search_finds_the_largest_batch_from_any_guess(limit, guess, largest, stride):
    batches = candidates(largest)
    found = search(batches, guess, memory_of(limit), stride)
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


def test_every_target_and_precision_is_searched_up_to_the_size_of_the_split(tmp_path, monkeypatch):
    """With a compiler that holds 20 samples in float32 and 40 in bfloat16, of 36 for each of four
    replicas."""

    def compiler(target, program, quick):
        precision, batch = program.stem.split("-")
        if target == "v5e:6x6":
            return Compilation(UNKNOWN_TARGET)
        if int(batch) > {"float32": 20, "bfloat16": 40}[precision]:
            return Compilation(NO_MEMORY, replicas=4, chips=4)
        return Compilation(COMPILED, replicas=4, chips=4, temporaries=2**29 * int(batch), flops=8)

    def lowered(programs, precision, batch):
        assert batch <= 36
        return tmp_path / f"{precision}-{batch}.stablehlo"

    monkeypatch.setattr(batch_search, "compile_step", compiler)
    monkeypatch.setattr(batch_search.Programs, "path", lowered)
    request = {
        "settings": {"pretraining": {"optimizer": {"gradient_accumulation_steps": 1}}},
        "files": {"manifests": {"train": write_manifest_of(tmp_path / "train.json", samples=144)}},
    }
    find_batches(request, ["v5e:2x2", "v5e:6x6"], 8, 1024, tmp_path / "batches.json")
    found = Batches.read(tmp_path / "batches.json").targets
    largest = {k: (v.largest, v.too_large) for k, v in found["v5e:2x2"].items()}
    assert largest == {"float32": (16, 24), "bfloat16": (32, None)}
    assert found["v5e:6x6"] == {"float32": None, "bfloat16": None}


@pytest.mark.parametrize("largest", [1, 3, 8, 100])
def test_candidates_end_at_the_largest(largest):
    assert candidates(largest)[0] == 1
    assert candidates(largest)[-1] <= largest
