"""What a saved state must have been made from for a run to go on from it."""

from pathlib import Path

from mlm.foundations.code_digests import code_digests
from mlm.foundations.digests import file_sha256
from mlm.foundations.environment import package_versions
from mlm.foundations.framework import tf, tf_keras
from mlm.pretraining.accelerators import Accelerator
from mlm.pretraining.resolved_run import Pretraining
from mlm.pretraining.run_inputs import RunFiles
from mlm.pretraining.training_log import Row

SCRIPTS = Path(__file__).parents[2]

#: Modules that decide the bits of the weights: the model and where it starts, the order of the
#: samples, their masks, the step, the optimizer. An edit elsewhere keeps the states; what the
#: modules that read settings and data come to is held by its values.
COMPUTING_MODULES = (
    "mlm.config.families",
    "mlm.corpus.counts",
    "mlm.foundations.framework",
    "mlm.pretraining.activations",
    "mlm.pretraining.adamw",
    "mlm.pretraining.cooccurrence",
    "mlm.pretraining.engine",
    "mlm.pretraining.initialisation",
    "mlm.batches.input_pipeline",
    "mlm.batches.sample_order",
    "mlm.batches.keyed_random",
    "mlm.batches.masking",
    "mlm.pretraining.models",
    "mlm.pretraining.muon",
    "mlm.pretraining.optimisation",
    "mlm.pretraining.prediction",
    "mlm.pretraining.resolved_run",
    "mlm.pretraining.train_step",
)

#: Packages whose versions are part of a state: others may compute other bits.
COMPUTING_PACKAGES = ("numpy", "scipy", "tensorflow", "tf-keras", "transformers")


def state_basis(run: Pretraining, files: RunFiles, accelerator: Accelerator) -> dict:
    """What a saved state must have been made from for this run to go on from it.

    The run's resolved settings, what the device came to, manifests, tokenizer, the packages and
    the modules that compute, and the columns of the log, whose rows a state holds. Where and how
    often states are saved, which TPU it is, and code that logs, reports or uploads is left out.
    """
    code = code_digests(SCRIPTS, COMPUTING_MODULES)
    return {
        "settings": run.basis(),
        "device": {
            "kind": accelerator.kind,
            "strategy": accelerator.name,
            "replicas": accelerator.replicas,
            "precision": accelerator.precision,
            "policy": tf_keras.mixed_precision.global_policy().name,
            "intra_op_threads": tf.config.threading.get_intra_op_parallelism_threads(),
            "inter_op_threads": tf.config.threading.get_inter_op_parallelism_threads(),
        },
        "packages": package_versions(COMPUTING_PACKAGES),
        "manifests": {s: file_sha256(p) for s, p in files.manifests.items()},
        "tokenizer": file_sha256(files.tokenizer),
        "code": {name: code[name] for name in COMPUTING_MODULES},
        "columns": list(Row.__dataclass_fields__),
    }
