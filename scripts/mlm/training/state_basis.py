"""The basis of a saved state: settings, data, code, packages and devices, which decide its bits.

A run may also begin with a state of another one (`pretraining.continue_from`): up to that step both
are the same training, bit for bit, and may differ in how the learning rate falls later.
"""

import numpy as np

from mlm.foundations.code_digests import SCRIPTS, code_digests
from mlm.foundations.digests import differences, file_sha256
from mlm.foundations.environment import package_versions
from mlm.foundations.errors import MlmError
from mlm.training.devices import Devices
from mlm.training.loop import Row
from mlm.training.optimizers import learning_rate
from mlm.training.run import Run, RunFiles

#: The modules that decide the bits of the weights, in both engines and in each. An edit elsewhere
#: keeps the states; of the modules that read settings and data, the basis has the values.
COMPUTING_MODULES = {
    "both": (
        "mlm.samples.masking",
        "mlm.samples.random_bits",
        "mlm.samples.shuffling",
        "mlm.samples.stored_batches",
        "mlm.samples.token_counts",
        "mlm.config.families",
        "mlm.model.architecture",
        "mlm.model.checkpoints",
        "mlm.model.cooccurrence",
        "mlm.model.initialisation",
        "mlm.model.masked_loss",
        "mlm.model.model_configuration",
        "mlm.model.network",
        "mlm.model.warm_start",
        "mlm.model.weights",
        "mlm.training.engine",
        "mlm.training.optimizers",
        "mlm.training.run",
        "mlm.training.train_step",
    ),
    "tensorflow": (
        "mlm.foundations.tensorflow_setup",
        "mlm.model.tensorflow_ops",
        "mlm.training.in_tensorflow.engine",
    ),
    "jax": (
        "mlm.model.jax_ops",
        "mlm.training.in_jax.engine",
        "mlm.training.in_jax.devices",
        "mlm.training.in_jax.train_step",
    ),
}

#: Packages whose versions are part of a state: others may compute other bits.
COMPUTING_PACKAGES = {
    "tensorflow": ("numpy", "scipy", "tensorflow", "transformers"),
    "jax": ("jax", "jaxlib", "numpy", "scipy", "transformers"),
}


def state_basis(run: Run, files: RunFiles, devices: Devices) -> dict:
    """What a saved state must have been made from for this run to resume from it."""
    modules = COMPUTING_MODULES["both"] + COMPUTING_MODULES[devices.framework]
    code = code_digests(SCRIPTS, modules)
    return {
        "pretraining.engine": devices.framework,
        "settings": run.basis(),
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
        "code": {name: code[name] for name in modules},
        "columns": list(Row.__dataclass_fields__),
    }


#: What may differ between a branch and its parent, below `settings`. The learning rate before the
#: branch is compared step by step.
_SCHEDULE = {"schedule_steps", "warmup_steps", "decay", "decay_steps", "min_lr_ratio"}


def check_branch(run: Run, parent: Run, step: int) -> None:
    """Raise MlmError unless `run` and `parent` are the same training up to `step` updates."""
    shared = (_shared_settings(r, step) for r in (parent, run))
    if problems := differences(*shared) or _other_rates(run, parent, step):
        raise MlmError(
            f"pretraining.continue_from: run {run.name!r} cannot continue run {parent.name!r} from "
            f"step {step}: up to there they are not the same training. {'; '.join(problems)}"
        )


def _shared_settings(run: Run, step: int) -> dict:
    basis = run.basis()
    del basis["steps"]
    optimizer = {k: v for k, v in basis["optimizer"].items() if k not in _SCHEDULE}
    phases = [[min(step, p.end), *p.values[1:]] for p in run.phases if p.first < step]
    return basis | {"optimizer": optimizer, "phases": phases}


def _other_rates(run: Run, parent: Run, step: int) -> list[str]:
    """In words, the first of `step` updates with another learning rate, if there is one."""
    steps = np.arange(step, dtype=np.float32)
    then, now = (learning_rate(r.optimizer, steps, np) for r in (parent, run))
    return [
        f"learning rate of step {first + 1}: {then[first]:.4g} then, {now[first]:.4g} now (set "
        f"warmup_steps, and let the rate fall after step {step} only)"
        for first in (then != now).nonzero()[0][:1]
    ]
