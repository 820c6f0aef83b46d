"""The steps without gradients, lowered as the train step is: validation and evaluation.

They hold no gradients and no moments, but may take more samples at once, or logits for more
positions, than a train step; training dies on them as surely.
"""

import sys
from dataclasses import dataclass, replace

from mlm.accelerators.artefacts import ForwardRows
from mlm.accelerators.findings import Finding
from mlm.accelerators.lowering import lower, one_of_many
from mlm.evaluation.in_tensorflow import masked_answers
from mlm.evaluation.scoring import rows_of_a_replica
from mlm.foundations.atomic import replacing
from mlm.foundations.framework import tf, tf_keras
from mlm.training.in_tensorflow.engine import validation_batches
from mlm.training.in_tensorflow.model import build_model
from mlm.training.in_tensorflow.train_step import replica_validation_step
from mlm.training.run import Run


@dataclass(frozen=True)
class ForwardSteps:
    """What is lowered and where to: a StableHLO file for validation, and for evaluation one for
    each number of replicas, since `evaluation.batch_size` is that of all replicas together.

    `section` is `evaluation` of the configuration.
    """

    section: dict
    validation: str
    evaluation: dict[int, str]

    @property
    def files(self) -> list[str]:
        return [self.validation, *self.evaluation.values()]


def lower_forward(run: Run, model, steps: ForwardSteps) -> tuple[ForwardRows, list[Finding]]:
    """Write the programs of `steps`; the rows that a replica gets in each, and what was found.

    `model` is the one that trains. Evaluation has one of its own, in float32 as `evaluate` does;
    Keras' precision policy is float32 afterwards.
    """
    print(f"{run.name}: tracing the steps of validation and evaluation", file=sys.stderr)
    signature = validation_batches(run, run.validation_batch_size).element_spec
    step = one_of_many(replica_validation_step(model))
    findings = _write("validation", steps.validation, step, signature)

    tf_keras.mixed_precision.set_global_policy("float32")
    model = build_model(run.model_config, "standard", run.seed)
    asked = ("mlm_probability", "mask_token", "random_token")
    plan = replace(run.validation_plan, **{key: steps.section[key] for key in asked})
    answers = masked_answers(model)
    rows = {}
    for replicas, path in steps.evaluation.items():
        batch_size, vocabulary = steps.section["batch_size"], run.model_config.vocab_size
        rows[replicas] = rows_of_a_replica(batch_size, replicas, plan.slots, vocabulary)
        whole, asked = ((rows[replicas], n) for n in (plan.sequence_length, plan.slots))
        sizes = {
            "input_ids": whole,
            "attention_mask": whole,
            "positions": asked,
            "labels": asked,
        }
        signature = {name: tf.TensorSpec(size, tf.int32) for name, size in sizes.items()}
        findings += _write("evaluation", path, lambda batch: answers(**batch), signature)
    return ForwardRows(run.pretraining.per_replica_batch_size, rows), findings


def _write(name: str, path: str, step, signature) -> list[Finding]:
    """Lower one step to `path`, an empty file where that fails; what was found."""
    lowered = lower(step, signature)
    with replacing(path) as temporary:
        temporary.write_bytes(lowered.program or b"")
    return [replace(f, message=f"{name}: {f.message}") for f in lowered.findings]
