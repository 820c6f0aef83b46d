"""Preflight's verdict: every fault named, every target answered, nothing measured."""

from dataclasses import replace
from unittest import mock

import pytest
from small_pretraining import write_manifest_of

from mlm.accelerators.artefacts import (
    ADVICE,
    ERROR,
    Batches,
    Collective,
    Finding,
    ForwardRows,
    Lowering,
    Memory,
    PreflightVerdict,
    Step,
    Target,
)
from mlm.accelerators.compiler import COMPILED, HOST_MEMORY, NO_MEMORY, UNKNOWN_TARGET, Compilation
from mlm.accelerators.preflight import check_data, is_quick, preflight, preflight_finetuning
from mlm.accelerators.verdict_table import row, show_and_require, table
from mlm.config.accelerator import Preflight
from mlm.config.finetune import Finetune
from mlm.config.pretraining import Pretraining
from mlm.finetuning.tables import Example, write_rows
from mlm.foundations.errors import MlmError
from mlm.samples.manifests import Manifest


def answer(outcome=COMPILED, peak=2**30, flops=1e12, **figures):
    """The compiler's answer for four chips of one host."""
    shape = {"replicas": 4, "hosts": 1, "chips": 4} if outcome in (COMPILED, NO_MEMORY) else {}
    if outcome == COMPILED:
        shape |= {"memory": Memory(1000, 0, 0, 0, 0, peak, 1000), "flops": flops}
    return Compilation(outcome, message=f"says {outcome}", **(shape | figures))


def judge(tmp_path, *found, findings=(), forward=(), searched=None, samples=200, **step):
    """The preflight.json for what the compiler answers: `found` for v5e:2x2, or all by target."""
    answers = found[0] if isinstance(found[0], dict) else {"v5e:2x2": found[0]}
    rows = ForwardRows(8, {4: 16}) if forward else None
    sizes = {"parameters": 10, "per_replica_batch_size": 8, "forward_rows": rows}
    program = tmp_path / "program"
    program.write_bytes(b"" if any(f.severity == ERROR for f in findings) else b"{}")

    def compiled(target, *programs, quick):
        return [answers[target], *forward]

    with mock.patch("mlm.accelerators.preflight.compile_for", compiled):
        verdict = preflight(
            Preflight.of_param({"targets": list(answers), "effort": "full"}),
            Pretraining.of_param({"steps": 100, "epochs": None, "tokens": None}),
            Lowering("base", Step(precision="bfloat16", **sizes | step), list(findings)),
            Manifest.read(write_manifest_of(tmp_path / "train.json", samples=samples)),
            dict.fromkeys(("training", "validation"), str(program)),
            {4: str(program)},
            state_directory="state",
            gpu_precision="float32",
            batches=Batches("estimate", dict.fromkeys(answers, searched)) if searched else None,
        )
    verdict.write(tmp_path / "preflight.json")
    return verdict


def errors(report):
    return {(f.rule, f.target) for f in report.findings if f.severity == ERROR}


def test_tiles_are_a_matter_of_tpus(tmp_path):
    advice = Finding("tile_sizes", ADVICE, "try 128")
    answers = {"h100": answer(replicas=1, chips=1)}
    assert judge(tmp_path, answers, findings=[advice], engine="jax").findings == []
    answers["v5e:2x2"] = answer()
    assert judge(tmp_path, answers, findings=[advice], engine="jax").findings == [advice]


def test_a_step_that_fits_passes_with_figures_labelled_as_estimates(tmp_path):
    advice = Finding("tile_sizes", ADVICE, "try 128")
    report = judge(tmp_path, answer(), findings=[advice])
    (target,) = report.targets
    assert report.passed
    assert target.fits and target.hbm_per_replica == 16 * 2**30
    assert target.flops_per_run == 4 * 100 * 1e12
    assert target.estimate.label == "compiler and datasheet estimate, not measured"
    fastest, slowest = target.estimate.step_seconds
    assert slowest == pytest.approx(3 * fastest, rel=1e-3)
    assert "not measured" in table(report, {})
    assert "advice: tile_sizes: try 128" in table(report, {})


def test_an_hour_of_every_card_has_its_price(tmp_path):
    answers = {"h100:4": answer(), "t4": answer(replicas=1, chips=1)}
    report = judge(tmp_path, answers, engine="jax")
    for target in report.targets:
        target.estimate = replace(target.estimate, run_seconds=(3600.0, 10800.0))
    cells = [row(target, {"h100": 2.5})[-1] for target in report.targets]
    assert cells == ["10.00 to 30.00", "-"]


def test_a_run_that_memory_bounds_is_told_and_a_column_of_nothing_left_out(tmp_path):
    answers = {"h100": answer(replicas=1, chips=1, bytes_accessed=335.2e9)}
    report = judge(tmp_path, answers, engine="jax")
    (advice,) = report.findings
    # 0.1 s a step at 3.352 TB/s, 100 steps.
    assert advice.in_words().endswith("moving the run's data through memory takes 10.0 s at least")
    heading = table(report, {}).splitlines()[1]
    assert "time of the run" in heading and "cost" not in heading and "collectives" not in heading
    assert "cost" in table(report, {"h100": 1.0}).splitlines()[1]


def test_accumulated_batches_are_counted_and_muons_products_once(tmp_path):
    """The compiler counts what a loop does once."""
    answers = {"v5e:2x2": answer(flops=5e11), "v4:2x2x1": answer(flops=6e11)}
    report = judge(tmp_path, answers, gradient_accumulation_steps=4, muon_flops=10**11)
    assert [t.flops_per_step for t in report.targets] == [4 * 4e11 + 1e11, 4 * 5e11 + 1e11]
    assert [t.muon_share for t in report.targets] == [pytest.approx(1 / 17), pytest.approx(1 / 21)]
    assert "Muon's update: 4.8 to 5.9 % of the step's FLOPs" in table(report, {})
    assert [t.global_batch_size for t in report.targets] == [4 * 8 * 4] * 2
    # What is counted of a step in JAX has all of its loops.
    in_jax = judge(
        tmp_path, answers, gradient_accumulation_steps=4, muon_flops=10**11, engine="jax"
    )
    assert [t.flops_per_step for t in in_jax.targets] == [5e11, 6e11]
    (as_much,) = judge(tmp_path, answer(flops=17e11)).targets
    assert report.targets[0].estimate.step_seconds == as_much.estimate.step_seconds


@pytest.mark.parametrize(
    ("name", "forward", "advice"),
    [
        ("validation of 8", (NO_MEMORY, COMPILED), "Lower pretraining.per_replica_batch_size"),
        ("evaluation of 16", (COMPILED, NO_MEMORY), "Lower evaluation.batch_size"),
    ],
)
def test_a_step_without_gradients_that_does_not_fit_is_told(tmp_path, name, forward, advice):
    answers = [answer(outcome, peak=3 * 2**20) for outcome in forward]
    report = judge(tmp_path, answer(), forward=answers)
    assert errors(report) == {("fits", "v5e:2x2")}
    (message,) = (f.message for f in report.findings)
    assert message.startswith(f"{name} samples a replica: says out_of_hbm. {advice}")
    assert not report.passed and report.targets[0].fits
    # The table has the memory of the other one.
    assert "does not fit" in table(report, {}) and "3 MiB" in table(report, {})


def test_what_no_compiler_answered_is_unknown(tmp_path):
    unknown = answer(HOST_MEMORY)
    (target,) = judge(tmp_path, unknown, forward=[unknown] * 2).targets
    assert row(target, {})[4:7] == ("?", "?", "?")


def test_one_target_that_fails_leaves_the_others_their_answer(tmp_path):
    answers = {
        "v5p:2x2x1": answer(UNKNOWN_TARGET),
        "v5e:2x2": answer(NO_MEMORY),
        # More than the datasheet has.
        "v5e:2x4": answer(peak=17 * 2**30),
        "v4:2x2x1": answer(HOST_MEMORY),
        "v6e:2x2": answer(),
    }
    report = judge(tmp_path, answers)
    rules = ("compiles", "fits", "fits", "compiles")
    assert errors(report) == set(zip(rules, answers, strict=False))
    assert [t.fits for t in report.targets] == [None, False, False, None, True]


def test_a_step_that_breaks_a_rule_is_not_compiled(tmp_path):
    fault = Finding("no_host_ops", ERROR, "prints", op="PrintV2", source="step.py:3, in step")
    report = judge(tmp_path, answer(), findings=[fault])
    assert not report.passed and report.targets == []
    assert errors(report) == {("no_host_ops", "")}


def test_fewer_samples_than_one_global_batch_are_caught(tmp_path):
    report = judge(tmp_path, answer(), samples=31)
    assert errors(report) == {("full_global_batch", "v5e:2x2")}
    assert "per_replica_batch_size to 7 or less" in report.findings[0].message
    few = judge(tmp_path, answer(), samples=15, gradient_accumulation_steps=4)
    assert "the train split has 15. Not even a batch of 1 is filled" in few.findings[0].message


@pytest.mark.parametrize(
    ("searched", "advice"),
    [
        (None, "preflight.find_batch: true finds the largest that fits"),
        ({"bfloat16": 6, "float32": 0}, "fits: bfloat16 6, float32 none"),
        ({"bfloat16": None, "float32": None}, "preflight.find_batch"),
    ],
)
def test_a_batch_that_does_not_fit_is_named_with_the_largest_that_does(tmp_path, searched, advice):
    (finding,) = judge(tmp_path, answer(NO_MEMORY), searched=searched).findings
    assert "pretraining.per_replica_batch_size is 8" in finding.message
    assert advice in finding.message


def test_the_time_of_collectives_is_that_of_a_ring_at_the_datasheets_bandwidth(tmp_path):
    """A v5e sends 200 GB a second; of four on a ring, each sends an array 2 · 3/4 times."""
    summed = [Collective("all-reduce", 4, count=2, bytes=4 * 10**9)]
    report = judge(tmp_path, answer(collectives=summed))
    (target,) = report.targets
    assert target.collectives == summed
    assert target.estimate.collective_seconds == 0.03
    assert "30 ms" in table(report, {})


@pytest.mark.parametrize(
    ("hosts", "engine", "bucket", "rules"),
    [
        (1, "tensorflow", False, []),
        (2, "tensorflow", True, [("engine_for_hosts", ERROR)]),
        (2, "jax", False, [("readable_paths", "warning")]),
        (16, "jax", True, []),
    ],
)
def test_several_hosts_need_jax_and_paths_that_all_can_read(tmp_path, hosts, engine, bucket, rules):
    place = "gs://bucket/" if bucket else ""
    manifest = Manifest.read(write_manifest_of(tmp_path / "train.json"))
    step = Step(precision="float32", engine=engine, per_replica_batch_size=1)
    target = Target("v3:2x2", COMPILED, replicas=8, hosts=hosts, global_batch_size=8)
    found = check_data(manifest, step, target, f"{place}state")
    assert [(f.rule, f.severity) for f in found] == rules


def test_the_gate_opens_for_a_passed_preflight_only(tmp_path, capsys):
    marker, report = tmp_path / "passed.txt", str(tmp_path / "preflight.json")
    judge(tmp_path, answer(NO_MEMORY))
    with pytest.raises(MlmError, match="v5e:2x2: fits: says out_of_hbm"):
        show_and_require([report], str(marker), {})
    assert not marker.exists()
    judge(tmp_path, answer())
    show_and_require([report], str(marker), {})
    assert "v5e:2x2  fits" in marker.read_text()
    assert marker.read_text() in capsys.readouterr().out


@pytest.mark.parametrize(
    "effort, small, large", [("auto", False, True), ("quick", True, True), ("full", False, False)]
)
def test_the_effort_follows_the_size_where_it_is_left_open(effort, small, large):
    settings = Preflight.of_param({"targets": ["v5e:2x2"], "effort": effort})
    assert is_quick(settings, large=False) is small
    assert is_quick(settings, large=True) is large


def test_a_fold_of_a_fine_tuning_is_judged_like_a_step_of_its_model(tmp_path):
    examples = [Example(str(i), "A passage.", "abc"[i % 3], fold=i % 5) for i in range(100)]
    write_rows(tmp_path / "examples.csv", examples)
    answers, asked = {"v5e:2x2": answer(), "v6e:2x2": answer(NO_MEMORY)}, []
    section = {"task": "classification", "epochs": 3, "per_device_batch_size": 8, "max_length": 64}

    def compiled(target, program, quick):
        asked.append(program)
        return [answers[target]]

    def judged(config):
        with mock.patch("mlm.accelerators.preflight.compile_for", compiled):
            return preflight_finetuning(
                Preflight.of_param({"targets": list(answers), "effort": "full"}),
                Finetune.of_param(section),
                Lowering("base", Step(precision="bfloat16"), [], config),
                tmp_path / "examples.csv",
                {"tpu": "bfloat16", "gpu": "float32"},
            )

    config = {"model_type": "roberta"}
    judged(config).write(tmp_path / "preflight_finetune.json")
    report = PreflightVerdict.read(tmp_path / "preflight_finetune.json")
    assert [(p["outputs"], p["precision"], p["config"]) for p in asked] == [
        (3, "bfloat16", config)
    ] * 2
    assert [t.fits for t in report.targets] == [True, False]
    # 80 of 100 examples are learned from, 32 in a step, in 3 epochs.
    assert report.targets[0].estimate.steps == 3 * 3
    assert report.targets[0].flops_per_run == 1e12 * 4 * 9
    assert "base, a fold of fine-tuning: FAILED" in table(report, {})
    without_model = judged(None)
    assert [f.rule for f in without_model.findings] == ["settings"]
    assert without_model.targets == []
