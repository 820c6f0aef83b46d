"""The verdict on a fine-tuning's step, with a compiler whose answers are known."""

from mlm.accelerators.artefacts import Lowering, Memory, PreflightVerdict, Step
from mlm.accelerators.compiler import COMPILED, NO_MEMORY, Compilation
from mlm.accelerators.preflight import preflight_finetuning
from mlm.accelerators.verdict_table import table
from mlm.config.accelerator import Preflight
from mlm.config.finetune import Finetune
from mlm.finetuning.tables import Example, write_rows

SECTION = Finetune.of_param(
    {"task": "classification", "epochs": 3, "per_device_batch_size": 8, "max_length": 64}
)


def judge(tmp_path, compiler, config=None, targets=("v5e:2x2",)):
    """The verdict on 100 examples of three classes in five folds."""
    step = Step(precision="bfloat16", model_type="roberta")
    lowering = Lowering("base", step, [], config)
    examples = [Example(str(i), "A passage.", "abc"[i % 3], fold=i % 5) for i in range(100)]
    write_rows(tmp_path / "examples.csv", examples)
    asked = Preflight.of_param({"targets": list(targets), "effort": "full"})
    table = tmp_path / "examples.csv"
    verdict = preflight_finetuning(asked, SECTION, lowering, table, "bfloat16", compiler)
    verdict.write(tmp_path / "preflight_finetune.json")
    return verdict


def compiler_of(outcomes, asked):
    """A compiler whose answers by target are `outcomes`; it adds to `asked` what it is given."""

    def compiler(target, program, quick):
        asked.append((target, program["outputs"], program["precision"], program["config"]))
        shape = {"replicas": 4, "chips": 4, "hosts": 1}
        if outcomes[target] == COMPILED:
            shape |= {"memory": Memory(0, 0, 0, 0, 0, 2**30, 0), "flops": 1e12}
        return [Compilation(outcomes[target], **shape)]

    return compiler


def test_a_step_that_fits_passes_with_the_figures_of_one_fold(tmp_path):
    asked, config = [], {"model_type": "roberta"}
    report = judge(tmp_path, compiler_of({"v5e:2x2": COMPILED}, asked), config)
    assert report.passed
    assert asked == [("v5e:2x2", 3, "bfloat16", config)]
    (target,) = report.targets
    # 80 of 100 examples are learned from, 32 in a step, in 3 epochs.
    assert target.estimate.steps == 3 * 3
    assert target.flops_per_run == 1e12 * 4 * 9
    written = PreflightVerdict.read(tmp_path / "preflight_finetune.json")
    assert "base, a fold of fine-tuning: passed" in table(written)


def test_a_batch_that_does_not_fit_fails_for_its_target_alone(tmp_path):
    outcomes = {"v5e:2x2": NO_MEMORY, "v6e:2x2": COMPILED}
    report = judge(tmp_path, compiler_of(outcomes, []), {}, tuple(outcomes))
    assert not report.passed
    assert [t.fits for t in report.targets] == [False, True]


def test_a_model_that_could_not_be_built_is_an_answer(tmp_path):
    report = judge(tmp_path, compiler=None)
    assert [f.rule for f in report.findings] == ["settings"]
    assert report.targets == []
