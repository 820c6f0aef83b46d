"""The basis of a saved state: settings, data, code, packages and devices, which decide its bits."""

from mlm.foundations.code_digests import SCRIPTS, code_digests
from mlm.foundations.digests import file_sha256
from mlm.foundations.environment import package_versions
from mlm.training.devices import Devices
from mlm.training.run import Run, RunFiles
from mlm.training.training_log import Row

#: The modules that decide the bits of the weights, in both engines and in each: the model and
#: where it starts, the order of the samples, their masks, the step, the optimizer. An edit
#: elsewhere keeps the states; what the modules that read settings and data come to is held by its
#: values.
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
        "mlm.model.ops",
        "mlm.model.sampled_softmax",
        "mlm.model.warm_start",
        "mlm.model.weights",
        "mlm.training.engine",
        "mlm.training.learning_rate",
        "mlm.training.optimizers",
        "mlm.training.run",
        "mlm.training.train_step",
    ),
    "tensorflow": (
        "mlm.foundations.tensorflow_setup",
        "mlm.model.tensorflow_ops",
        "mlm.samples.input_pipeline",
        "mlm.training.in_tensorflow.engine",
        "mlm.training.in_tensorflow.train_step",
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
