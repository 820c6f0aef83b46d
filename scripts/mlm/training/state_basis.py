"""The basis of a saved state: settings, data, code, packages and devices, which decide its bits.

Snakemake reruns a training if an input or a param of the rule changed; another device or package
is no reason. The training then resumes from its saved states if their basis is still the same, and
else starts over. Of devices, the basis has the kind, not the model: whoever resumes on another card
or processor gets its rounding from there on.

A run may also begin with a state of another one (`pretraining.continue_from`): up to that step both
are the same training, bit for bit, and may differ in how the learning rate falls later.
"""

import json
from dataclasses import asdict

import numpy as np

from mlm.foundations.code_digests import SCRIPTS, code_digests
from mlm.foundations.digests import differences, file_sha256, value_sha256
from mlm.foundations.environment import package_versions
from mlm.foundations.errors import MlmError
from mlm.samples.masking import MaskingPlan
from mlm.training.devices import Devices
from mlm.training.loop import Row, TrainingLog
from mlm.training.optimizers import learning_rate
from mlm.training.resolved_run import Run, RunFiles

#: Modules that decide the bits of the weights, together with all that they import.
_COMPUTING = {
    "tensorflow": ("mlm.training.in_tensorflow.engine", "mlm.model.tensorflow_ops"),
    "jax": ("mlm.training.in_jax.engine", "mlm.model.jax_ops"),
}
#: Prefixes of modules among these that compute no bits, or whose values the basis has instead: an
#: edit of them keeps the states. Exceptions are in `_COMPUTE_NEVERTHELESS`.
_COMPUTE_NO_BITS = (
    *("mlm.config.", "mlm.foundations.", "mlm.tokenizer.", "mlm.samples.manifests"),
    *("mlm.samples.tfrecord", "mlm.training.devices", "mlm.training.processes"),
)
_COMPUTE_NEVERTHELESS = (
    "mlm.config.families",
    "mlm.config.model",
    "mlm.foundations.tensorflow_setup",
)

#: Packages whose versions are part of the basis: other versions may compute other bits.
COMPUTING_PACKAGES = {
    "tensorflow": ("numpy", "scipy", "tensorflow", "transformers"),
    "jax": ("jax", "jaxlib", "numpy", "scipy", "transformers"),
}


def computing_code(framework: str, *modules: str) -> dict[str, str]:
    """Return the digests of the modules, with `modules`, that decide the bits in `framework`."""
    roots = (*_COMPUTING[framework], "mlm.model.cooccurrence", *modules)
    return {
        name: digest
        for name, digest in code_digests(SCRIPTS, roots).items()
        if name in _COMPUTE_NEVERTHELESS or not name.startswith(_COMPUTE_NO_BITS)
    }


def state_basis(run: Run, files: RunFiles, devices: Devices) -> dict:
    """Return what a saved state must have been made from for this run to resume from it."""
    return {
        "pretraining.engine": devices.framework,
        "settings": deciding_settings(run),
        "device": {
            "kind": devices.kind,
            "strategy": devices.name,
            "replicas": devices.replicas,
            "precision": devices.precision,
            **devices.arithmetic,
        },
        "packages": package_versions(COMPUTING_PACKAGES[devices.framework]),
        "manifests": {s: file_sha256(p) for s, p in files.manifests.items()},
        "tokenizer": file_sha256(files.tokenizer),
        "code": computing_code(devices.framework),
        "log": [*TrainingLog.__dataclass_fields__, *Row.__dataclass_fields__],
    }


def deciding_settings(run: Run) -> dict:
    """Return the resolved settings of `run` that decide the bits of a state, JSON-like."""
    model = json.loads(run.model_config.to_json_string())
    model.pop("transformers_version", None)
    # `state_basis` has the engine; `steps` has what epochs or tokens came to.
    values = run.pretraining.model_dump(exclude={"engine", "epochs", "tokens"}) | {
        "model": model,
        "initialisation": run.model.initialisation.model_dump(),
        "masking": _plan_basis(run.plan),
        "validation_masking": _plan_basis(run.validation_plan),
        "phases": run.pretraining.phases and [phase.values for phase in run.phases],
    }
    if run.warm_start is not None:
        values["start_from"] = run.warm_start.checkpoint.sha256
    # With lists for tuples, as in the saved basis that it is compared with.
    return json.loads(json.dumps(values))


def _plan_basis(plan: MaskingPlan) -> dict:
    starts = plan.word_starts
    return asdict(plan) | {
        "slots": plan.slots,
        "word_starts": None if starts is None else value_sha256([bool(s) for s in starts]),
    }


#: What may differ between a branch and its parent, below `settings`. The learning rate before the
#: branch is compared step by step.
_SCHEDULE = {"schedule_steps", "warmup_steps", "decay", "decay_steps", "min_lr_ratio"}


def check_branch(run: Run, parent: Run, step: int) -> None:
    """Raise MlmError unless `run` and `parent` are the same training up to `step` updates."""
    before, now = (_shared_settings(r, step) for r in (parent, run))
    if problems := differences(before, now) or _other_rates(run, parent, step):
        raise MlmError(
            f"pretraining.continue_from: run {run.name!r} cannot continue run {parent.name!r} from "
            f"step {step}: up to there they are not the same training. {'; '.join(problems)}"
        )


def _shared_settings(run: Run, step: int) -> dict:
    """Return the settings that must agree up to `step`: neither the schedule nor what is later."""
    basis = deciding_settings(run)
    del basis["steps"]
    optimizer = {k: v for k, v in basis["optimizer"].items() if k not in _SCHEDULE}
    phases = [[min(step, p.end), *p.values[1:]] for p in run.phases if p.first < step]
    return basis | {"optimizer": optimizer, "phases": phases}


def _other_rates(run: Run, parent: Run, step: int) -> list[str]:
    """Return a line about the first of `step` updates whose learning rates differ, if any."""
    steps = np.arange(step, dtype=np.float32)
    then, now = (learning_rate(r.optimizer, steps, np) for r in (parent, run))
    advice = f"set warmup_steps, and let the rate fall after step {step} only"
    return [
        f"learning rate of step {i + 1}: {then[i]:.4g} then, {now[i]:.4g} now ({advice})"
        for i in (then != now).nonzero()[0][:1]
    ]
