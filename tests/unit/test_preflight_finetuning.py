"""The verdict on a fine-tuning's step, with a compiler whose answers are known."""

from mlm.accelerators.artefacts import Lowering, PreflightVerdict, Step
from mlm.accelerators.compiler import COMPILED, NO_MEMORY, Compilation
from mlm.accelerators.preflight import preflight_finetuning
from mlm.accelerators.table import table
from mlm.config.accelerator import Preflight
from mlm.config.finetune import Finetune
from mlm.finetuning.tables import Example, write_examples

SECTION = Finetune.of_param(
    {"task": "classification", "epochs": 3, "per_device_batch_size": 8, "max_length": 64}
)


def judge(tmp_path, compiler, config=None, targets=("v5e:2x2",)):
    """The verdict on 100 examples of three classes in five folds."""
    step = Step(precision="bfloat16", model_type="roberta")
    lowering = Lowering("base", step, [], config)
    examples = [Example(str(i), "A passage.", "abc"[i % 3], fold=i % 5) for i in range(100)]
    write_examples(tmp_path / "examples.csv", examples)
    asked = Preflight.of_param({"targets": list(targets), "effort": "full"})
    table = tmp_path / "examples.csv"
    verdict = preflight_finetuning(asked, SECTION, lowering, table, "bfloat16", compiler)
    verdict.write(tmp_path / "preflight_finetune.json")
    return verdict


def test_a_step_that_fits_passes_with_the_figures_of_one_fold(tmp_path):
    asked = []

    def compiler(target, program, quick):
        asked.append((target, program["outputs"], program["precision"], program["config"]))
        shape = {"replicas": 4, "chips": 4, "hosts": 1}
        return [Compilation(COMPILED, **shape, peak=2**30, flops=1e12)]

    report = judge(tmp_path, compiler, config={"model_type": "roberta"})
    assert report.passed
    assert asked == [("v5e:2x2", 3, "bfloat16", {"model_type": "roberta"})]
    (target,) = report.targets
    # 80 of 100 examples are learned from, 32 in a step, in 3 epochs.
    assert target.estimate.steps == 3 * 3
    assert target.flops_per_run == 1e12 * 4 * 9
    written = PreflightVerdict.read(tmp_path / "preflight_finetune.json")
    assert "base, a fold of fine-tuning: passed" in table(written)


def test_a_batch_that_does_not_fit_fails_for_its_target_alone(tmp_path):
    def compiler(target, program, quick):
        shape = {"replicas": 4, "chips": 4, "hosts": 1}
        if target == "v5e:2x2":
            return [Compilation(NO_MEMORY, "too large", **shape)]
        return [Compilation(COMPILED, **shape, peak=2**30, flops=1e12)]

    targets = ("v5e:2x2", "v6e:2x2")
    report = judge(tmp_path, compiler, config={}, targets=targets)
    assert not report.passed
    assert [t.fits for t in report.targets] == [False, True]


def test_a_model_that_could_not_be_built_is_an_answer(tmp_path):
    report = judge(tmp_path, compiler=None)
    assert [f.rule for f in report.findings] == ["settings"]
    assert report.targets == []
