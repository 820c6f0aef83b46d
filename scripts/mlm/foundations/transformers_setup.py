"""transformers as the whole project uses it: import it from here, never directly."""

import importlib.util
import os

os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")
os.environ.setdefault("TRANSFORMERS_NO_ADVISORY_WARNINGS", "1")
os.environ.setdefault("USE_TORCH", "0")
# It looks for TensorFlow once, and does not know the name of the package of TPU VMs.
if importlib.util.find_spec("tensorflow") is not None:
    os.environ.setdefault("FORCE_TF_AVAILABLE", "1")

import transformers

__all__ = ["transformers"]
