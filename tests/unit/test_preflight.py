"""Preflight's verdict: every fault named, every target answered, nothing measured."""

from unittest import mock

import pytest
import small_run

from mlm.foundations.errors import MlmError
from mlm.preflight.artefacts import Memory, PreflightVerdict, show_and_require, table
from mlm.preflight.compiler import COMPILED, HOST_MEMORY, NO_MEMORY, UNKNOWN_TARGET, Compilation
from mlm.preflight.judging import preflight


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    root = tmp_path_factory.mktemp("run")
    small_run.write_inputs(root)
    return root


def answer(outcome=COMPILED, peak=2**30, flops=1e12, **figures):
    """The compiler's answer for four chips of one host."""
    if outcome == COMPILED:
        figures |= {"memory": Memory(1000, 0, 0, 0, 0, peak, 1000), "flops": flops}
    return Compilation(outcome, message=f"says {outcome}", **figures)


def judged(root, *answers, engine="jax", model=(), vocabulary=None, log=None, **pretraining):
    """The verdict where the compiler answers, for v5e:2x2 or by target, of each phase's step. The
    described steps go into the `log`."""
    by_target = answers[0] if isinstance(answers[0], dict) else {"v5e:2x2": answers}
    overrides = {"pretraining": {"engine": engine} | pretraining, "model": dict(model)}
    config, files = small_run.small_job(root, "base", overrides)
    config = config.model_copy(
        update={"accelerator": config.accelerator.model_copy(update={"precision": "auto"})}
    )

    def compiled(target, *steps):
        if log is not None:
            log.extend(steps)
        return by_target[target]

    with mock.patch("mlm.preflight.judging.compile_for", compiled):
        verdict = preflight(list(by_target), config, vocabulary or files)
    verdict.write(root / "preflight.json")
    return verdict


def errors(verdict):
    return {(f.rule, f.target) for f in verdict.findings}


def test_a_step_that_fits_passes_with_figures_labelled_as_estimates(root):
    # At 27 % of a v5e's 197 · 10^12 FLOPs a second, a step takes 10 ms.
    verdict = judged(root, answer(flops=0.27 * 197e10))
    (target,) = verdict.targets
    assert verdict.passed and target.fits and target.hbm_per_replica == 16 * 2**30
    assert target.global_batch_size == 32
    assert target.run_seconds == 0.4
    lines = table(verdict).splitlines()
    assert "not measured" in lines[0] and lines[2].endswith("0.4 s")
    assert "27 %" in lines[-2]
    assert PreflightVerdict.read(root / "preflight.json") == verdict


def test_a_step_that_does_not_fit_is_named_with_its_setting(root):
    verdict = judged(root, answer(NO_MEMORY))
    assert errors(verdict) == {("fits", "v5e:2x2")} and not verdict.passed
    (finding,) = verdict.findings
    assert "training of 8" in finding.message
    assert "lower pretraining.per_replica_batch_size" in finding.message
    assert "does not fit" in table(verdict)


def test_one_target_that_fails_leaves_the_others_their_answer(root):
    answers = {
        "v5p:2x2x1": [answer(UNKNOWN_TARGET)],
        "v5e:2x2": [answer(NO_MEMORY)],
        # More than the datasheet has.
        "v5e:2x4": [answer(peak=17 * 2**30)],
        "v4:2x2x1": [answer(HOST_MEMORY)],
        "v6e:2x2": [answer()],
    }
    verdict = judged(root, answers)
    rules = ("compiles", "fits", "fits", "compiles")
    assert errors(verdict) == set(zip(rules, answers, strict=False))
    assert len([f for f in verdict.findings if f.target == "v5p:2x2x1"]) == 1
    assert [t.fits for t in verdict.targets] == [None, False, False, None, True]
    # What no compiler answered is unknown.
    assert table(verdict).splitlines()[2].split()[-2:] == ["?"] * 2


def test_of_phases_the_step_that_needs_most_is_reported(root):
    short, length = {"share": 0.25}, 4 * small_run.LENGTH
    long, steps = {"share": 0.5, "sequence_length": length, "per_replica_batch_size": 2}, []
    answers = answer(peak=2**31), answer(peak=2**32, flops=2e12), answer(peak=2**30)
    verdict = judged(root, *answers, log=steps, phases=[short, long, short])
    (target,) = verdict.targets
    assert [step["plan"]["sequence_length"] for step in steps] == [length // 4, length, length // 4]
    assert [step["samples"] for step in steps] == [8, 2, 8]
    assert (target.memory.peak, target.flops_per_step) == (2**32, 2e12)
    assert target.global_batch_size == 2 * 4
    # 20 of the 40 steps take 2e12, the others 1e12.
    assert target.run_seconds == pytest.approx(60e12 / (0.27 * 197e12), rel=1e-3)
    few = {"steps": None, "epochs": 0.5, "phases": [{"share": 0.9}, {"share": 0.1}]}
    assert errors(judged(root, answer(), answer(), **few)) == {("settings", "v5e:2x2")}
    wide = {"share": 0.5, "per_replica_batch_size": 51}
    verdict = judged(root, answer(), answer(NO_MEMORY), phases=[wide, long])
    assert errors(verdict) == {("full_global_batch", "v5e:2x2"), ("fits", "v5e:2x2")}
    keys = [f"pretraining.phases[{n}].per_replica_batch_size" for n in (0, 1)]
    assert all(key in f.message for key, f in zip(keys, verdict.findings, strict=True))


def test_a_faulty_setting_is_a_verdict_and_compiles_nothing(root):
    verdict = judged(root, answer(), model={"config": {"vocab_size": 99}})
    assert not verdict.passed and verdict.targets == []
    assert errors(verdict) == {("settings", "")}
    assert "vocab_size" in verdict.findings[0].message


def test_fewer_samples_than_one_global_batch_are_caught(root):
    verdict = judged(root, answer(), per_replica_batch_size=51)
    assert errors(verdict) == {("full_global_batch", "v5e:2x2")}
    assert "per_replica_batch_size to 50 or less" in verdict.findings[0].message
    assert verdict.targets[0].fits and verdict.targets[0].run_seconds is None


def test_with_tensorflow_the_rows_are_said_to_be_of_jax_and_several_hosts_are_refused(root):
    verdict = judged(root, {"v5e:2x2": [answer()], "v4:2x2x2": [answer()]}, engine="tensorflow")
    assert errors(verdict) == {("engine_for_hosts", "v4:2x2x2")}
    assert "JAX engine's program" in table(verdict) and verdict.targets[0].fits


def test_without_data_the_steps_are_those_of_data_with_as_many_ids(root):
    made, unmade = [], []
    judged(root, answer(), log=made)
    verdict = judged(root, answer(), log=unmade, vocabulary=small_run.VOCABULARY)
    assert unmade == made and len(made) == 1 and verdict.passed
    assert f"{small_run.VOCABULARY:,} ids" in table(verdict)


def test_the_gate_opens_for_a_passed_preflight_only(root, tmp_path, capsys):
    marker, report = tmp_path / "passed.txt", str(root / "preflight.json")
    judged(root, answer(NO_MEMORY))
    with pytest.raises(MlmError, match=r"v5e:2x2: .* says out_of_hbm"):
        show_and_require([report], str(marker))
    assert not marker.exists()
    judged(root, answer())
    show_and_require([report], str(marker))
    assert "v5e:2x2  fits" in marker.read_text()
    assert marker.read_text() in capsys.readouterr().out
