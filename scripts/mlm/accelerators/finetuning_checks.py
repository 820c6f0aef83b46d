"""Preflight of a fine-tuning: the step compiled for TPU targets before there are weights.

The same questions as of pretraining's step, as far as they can be asked: whether the compiler
takes it, whether its memory suffices, and what it costs. Shapes cannot change from batch to batch:
passages are padded to one length, and the last batch is filled up.
"""

from collections.abc import Callable
from functools import partial

from mlm.accelerators.artefacts import Lowering, Preflight, Step
from mlm.accelerators.checks import (
    Load,
    PreflightSettings,
    compile_all,
    report_on,
    verdict_on,
)
from mlm.accelerators.compiler import Compilation
from mlm.accelerators.findings import ERROR, Finding
from mlm.accelerators.finetuning_compilation import compile_ahead
from mlm.finetuning.examples import classes_of, read_examples


def preflight_finetuning(
    settings: PreflightSettings,
    lowering: str,
    examples: str,
    section: dict,
    precision: str,
    compiler: Callable[..., Compilation] = compile_ahead,
    at_once: int = 1,
) -> Preflight:
    """Compile the step of one fold for every target; the verdict.

    `lowering` is pretraining's lowering.json, `examples` the table of the passages, and `section`
    is `finetune` of the configuration. Figures are those of one fold.
    """
    pretraining = Lowering.read(lowering)
    passages, folds = read_examples(examples)
    config = pretraining.model_configuration
    outputs = len(classes_of(passages, section["task"])) or 1
    learned = len(passages) - min(map(folds.count, set(folds)))
    batch = section["per_device_batch_size"]
    quick = settings.quick(large=True)
    findings, reports = [], []
    if config is None:
        message = "the model could not be built; the preflight of its pretraining says why"
        findings.append(Finding("settings", ERROR, message))
    else:
        compiled = partial(
            compiler,
            config=config,
            section=section,
            labels=outputs,
            bfloat16=precision == "bfloat16",
            quick=quick,
        )
        load = Load(
            batch,
            1,
            lambda size: section["epochs"] * -(-learned // size),
            batch_key="finetune.per_device_batch_size",
            precision=precision,
        )
        answers = compile_all(settings.targets, compiled, at_once)
        for target, found in zip(settings.targets, answers, strict=True):
            reports.append(report_on(target, found, load))
        findings += [f for r in reports for f in r.findings]
    step = Step(
        model_type=pretraining.model_type,
        precision=precision,
        per_replica_batch_size=batch,
        sequence_length=section["max_length"],
        outputs=outputs,
        examples=learned,
    )
    name = f"{pretraining.run}, a fold of fine-tuning"
    return verdict_on(name, step, quick, settings.targets, findings, reports, rules=[])
