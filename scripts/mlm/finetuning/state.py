"""The state of one fold's fine-tuning, so that a kill costs at most an epoch.

One safetensors file, replaced after each epoch: the parameters, the optimizer's moments and
the step as arrays, the epochs' rows as metadata. Read back, it continues with the same bits.
"""

import fcntl
import json
import shutil
from pathlib import Path

import numpy as np

from mlm.atomic import replacing
from mlm.errors import MlmError


class FoldState:
    """The state kept in `directory`, locked for this process while it is open."""

    def __init__(self, directory: str | Path):
        self._directory = Path(directory)
        self._file = self._directory / "state.safetensors"
        self._directory.mkdir(parents=True, exist_ok=True)
        self._lock = open(self._directory / "lock", "a")
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            raise MlmError(
                f"{directory} is in use: another process trains this very fold. Wait for it or "
                "stop it; two writers would spoil each other's state"
            ) from error

    def save(self, state, rows: list[dict]) -> None:
        """Keep `state` (a tree of arrays) and the rows of the epochs so far."""
        import jax
        from safetensors.numpy import save_file

        leaves = jax.tree_util.tree_leaves(state)
        arrays = {f"{i:06d}": np.asarray(leaf) for i, leaf in enumerate(leaves)}
        with replacing(self._file) as temporary:
            save_file(arrays, temporary, metadata={"rows": json.dumps(rows)})

    def restore(self, like):
        """The saved state in the form of `like`, and its rows; None where there is none."""
        import jax
        from safetensors import safe_open

        if not self._file.is_file():
            return None
        leaves, tree = jax.tree_util.tree_flatten(like)
        with safe_open(self._file, framework="numpy") as opened:
            found = [opened.get_tensor(name) for name in sorted(opened.keys())]
            rows = json.loads(opened.metadata()["rows"])
        if [f.shape for f in found] != [np.shape(leaf) for leaf in leaves]:
            return None
        return jax.tree_util.tree_unflatten(tree, found), rows

    def remove(self) -> None:
        """Drop the state: the fold is done and its results are written."""
        shutil.rmtree(self._directory, ignore_errors=True)
        self._lock.close()
