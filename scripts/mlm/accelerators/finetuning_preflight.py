"""Preflight of a fine-tuning: the step of a fold, compiled before there are weights.

Nothing is allocated: parameters and optimizer state are shapes (`jax.eval_shape`), on a mesh of
described devices. Shapes cannot change from batch to batch: passages are padded to one length, and
the last batch is filled up.
"""

from collections import Counter
from collections.abc import Callable
from functools import partial

from mlm.accelerators.artefacts import Lowering, PreflightVerdict, Step
from mlm.accelerators.checks import Load, compile_all, is_quick, report_on, verdict_on
from mlm.accelerators.compiler import REFUSED, Compilation, answer, ask, compile_here
from mlm.accelerators.findings import ERROR, Finding
from mlm.config.accelerator import Preflight
from mlm.config.finetune import Finetune
from mlm.finetuning.tables import classes_of, read_examples
from mlm.foundations.errors import MlmError
from mlm.training.in_jax.framework import AXIS, prepare_jax


def compile_ahead(
    target: str, config: dict, section: Finetune, outputs: int, precision: str, quick: bool = False
) -> Compilation:
    """What the compiler says of a fold's step on all devices of the topology `target`.

    `config` is the content of a config.json, `outputs` is 1 for a regression, and `quick` as in
    `compile_for`. A process of its own compiles. The figures are those of one device.
    """
    request = {
        "target": target,
        "config": config,
        "section": section.model_dump(),
        "outputs": outputs,
        "precision": precision,
        "quick": quick,
    }
    return ask("mlm.accelerators.finetuning_preflight", [request])[0]


def preflight_finetuning(
    asked: Preflight,
    section: Finetune,
    lowering: str,
    examples: str,
    precision: str,
    compiler: Callable[..., Compilation] = compile_ahead,
) -> PreflightVerdict:
    """Compile the step of one fold for every target; the verdict, with the figures of one fold.

    `lowering` is pretraining's lowering.json and `examples` the table of the passages.
    """
    pretraining = Lowering.read(lowering)
    passages = read_examples(examples)
    outputs = len(classes_of(passages, section.task)) or 1
    learned = len(passages) - min(Counter(e.fold for e in passages).values())
    batch, quick = section.per_device_batch_size, is_quick(asked, large=True)
    findings, reports = [], []
    if pretraining.model_configuration is None:
        message = "the model could not be built; the preflight of its pretraining says why"
        findings.append(Finding("settings", ERROR, message))
    else:
        compiled = partial(
            compiler,
            config=pretraining.model_configuration,
            section=section,
            outputs=outputs,
            precision=precision,
            quick=quick,
        )
        load = Load(
            batch,
            1,
            lambda size: section.epochs * -(-learned // size),
            batch_key="finetune.per_device_batch_size",
            precision=precision,
        )
        answers = compile_all(asked.targets, compiled, at_once=1)
        reports = [report_on(*pair, load) for pair in zip(asked.targets, answers, strict=True)]
        findings += [f for r in reports for f in r.findings]
    step = Step(
        model_type=pretraining.model_type,
        precision=precision,
        per_replica_batch_size=batch,
        sequence_length=section.max_length,
        outputs=outputs,
        examples=learned,
    )
    name = f"{pretraining.run}, a fold of fine-tuning"
    return verdict_on(name, step, quick, asked.targets, findings, reports, rules=[])


def _compiled(devices, config: dict, section: dict, outputs: int, precision: str, quick: bool):
    import jax
    import jax.numpy as jnp
    import numpy as np
    from jax.sharding import Mesh

    from mlm.finetuning.fold_engine import adamw, first_state, lowered_fold
    from mlm.finetuning.sequence_model import sequence_model

    asked = Finetune.of_param(section)
    model = sequence_model(config, outputs, asked.dropout, jnp.dtype(precision))
    optimizer = adamw(asked, 1000)
    parameters = jax.eval_shape(partial(model.random_parameters, seed=0))
    state = jax.eval_shape(partial(first_state, optimizer=optimizer, seed=0), parameters)
    size = asked.per_device_batch_size * len(devices), model.length(asked.max_length)
    trained, _ = lowered_fold(Mesh(np.array(devices), (AXIS,)), model, optimizer, state, *size)
    if quick:
        jax.config.update("jax_exec_time_optimization_effort", -1.0)
    return trained.compile().runtime_executable()


def _answer(request: dict) -> Compilation:
    target = request.pop("target")
    try:
        return compile_here(target, lambda devices: _compiled(devices, **request))
    except MlmError as error:
        return Compilation(REFUSED, str(error))


if __name__ == "__main__":
    prepare_jax("cpu", 1, None)
    answer(_answer)
