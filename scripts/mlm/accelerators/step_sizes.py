"""Sizes of a run's steps that follow from its settings, for either engine."""

import math
from collections.abc import Sequence
from dataclasses import replace

from mlm.accelerators.artefacts import ForwardRows
from mlm.config.evaluation import Evaluation
from mlm.evaluation.scoring import rows_of_a_replica
from mlm.model.architecture import Architecture, parameter_shapes
from mlm.samples.masking import MaskingPlan
from mlm.training.in_jax.optimizers import hidden_parts
from mlm.training.muon import orthogonalising_flops
from mlm.training.run import Run


def evaluation_plan(run: Run, section: Evaluation) -> MaskingPlan:
    """How the evaluation masks."""
    asked = ("mlm_probability", "mask_token", "random_token")
    return replace(run.validation_plan, **{key: getattr(section, key) for key in asked})


def forward_rows(run: Run, section: Evaluation, replicas: Sequence[int]) -> ForwardRows:
    """The samples that a replica gets in the steps without gradients.

    They may take more samples at once, or logits for more positions, than a train step.
    """
    plan = evaluation_plan(run, section)
    sizes = section.batch_size, plan.slots, plan.vocabulary_size
    evaluation = {n: rows_of_a_replica(sizes[0], n, *sizes[1:]) for n in replicas}
    return ForwardRows(run.pretraining.per_replica_batch_size, evaluation)


def model_figures(run: Run) -> dict:
    """The fields `parameters` and `muon_flops` (None with adamw) of `Step`."""
    architecture = Architecture.of(run.model_config.to_dict())
    shapes, flops = parameter_shapes(architecture), None
    if run.pretraining.optimizer.kind.orthogonal:
        matrices = [
            (shapes[name][0] // parts, shapes[name][1])
            for name, parts in hidden_parts(architecture).items()
            for _ in range(parts)
        ]
        flops = orthogonalising_flops(matrices)
    return {"parameters": sum(map(math.prod, shapes.values())), "muon_flops": flops}
