"""JAX on the CPU with one thread, before anything imports it."""

import sys
from pathlib import Path

from mlm.finetuning.jax_framework import prepare

prepare("cpu", 1, None)

# The tokenizer of the tests of evaluation serves here too.
sys.path.append(str(Path(__file__).parents[1] / "unit"))
