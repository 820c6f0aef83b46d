"""The states of one fold's trainings, so that a kill costs at most an epoch.

A state is `epoch-0002.safetensors`: the parameters, the optimizer's moments and the step as
arrays, the epochs' rows as metadata; and `epoch-0002.json`, written last, with its size and
sha256. Read back, it continues with the same bits. What is incomplete or damaged is passed over.
"""

import fcntl
import json
import re
import shutil
import sys
from pathlib import Path

import numpy as np

from mlm.foundations.atomic import read_json, replacing, write_json
from mlm.foundations.digests import file_sha256
from mlm.foundations.errors import MlmError

_STATE = re.compile(r"epoch-(\d{4,})\.safetensors")
#: States kept of a training: the newest, and one to fall back to.
_KEPT = 2


class TrainingStates:
    """The states of one training in `directory`, by the number of epochs done."""

    def __init__(self, directory: str | Path):
        self._directory = Path(directory)

    def _epochs(self) -> list[int]:
        names = (path.name for path in self._directory.glob("epoch-*"))
        return sorted((int(m[1]) for name in names if (m := _STATE.fullmatch(name))), reverse=True)

    def _files(self, epochs: int) -> tuple[Path, Path]:
        stem = f"epoch-{epochs:04d}"
        return self._directory / f"{stem}.safetensors", self._directory / f"{stem}.json"

    def save(self, state, rows: list[dict]) -> None:
        """Keep `state` (a tree of arrays) and the rows of the epochs so far.

        The state before it stays as well; older ones are dropped, and those of later epochs,
        which were passed over.
        """
        import jax
        from safetensors.numpy import save_file

        leaves = jax.tree_util.tree_leaves(state)
        arrays = {f"{i:06d}": np.asarray(leaf) for i, leaf in enumerate(leaves)}
        file, marker = self._files(len(rows))
        marker.unlink(missing_ok=True)
        with replacing(file) as temporary:
            save_file(arrays, temporary, metadata={"rows": json.dumps(rows)})
        write_json(marker, {"size": file.stat().st_size, "sha256": file_sha256(file)})
        found = self._epochs()
        kept = [epochs for epochs in found if epochs <= len(rows)][:_KEPT]
        for epochs in found:
            if epochs not in kept:
                for path in self._files(epochs):
                    path.unlink(missing_ok=True)

    def restore(self, like):
        """The newest whole state in the form of `like`, and its rows; None where there is none.

        States that are damaged are named on stderr and passed over.
        """
        import jax
        from safetensors import safe_open

        leaves, tree = jax.tree_util.tree_flatten(like)
        found = self._epochs()
        for epochs in found:
            file, marker = self._files(epochs)
            if fault := _fault(file, marker):
                print(f"Warning: state {file} is passed over: {fault}", file=sys.stderr)
                continue
            with safe_open(file, framework="numpy") as opened:
                arrays = [opened.get_tensor(name) for name in sorted(opened.keys())]
                rows = json.loads(opened.metadata()["rows"])
            if [a.shape for a in arrays] == [np.shape(leaf) for leaf in leaves]:
                return jax.tree_util.tree_unflatten(tree, arrays), rows
            print(f"Warning: state {file} is passed over: it has other shapes", file=sys.stderr)
        if found:
            print("Warning: no whole state is left; this training starts anew", file=sys.stderr)
        return None


def _fault(file: Path, marker: Path) -> str | None:
    """What is wrong with a state, in words, or None."""
    if not marker.is_file():
        return "it was never completed"
    try:
        expected = read_json(marker)
        size, sha256 = expected["size"], expected["sha256"]
    except (ValueError, KeyError, TypeError):
        return f"{marker.name} is damaged"
    if file.stat().st_size != size or file_sha256(file) != sha256:
        return "it is damaged"
    return None


class FoldStates:
    """The states of a fold's trainings below `directory`, locked for this process."""

    def __init__(self, directory: str | Path):
        self._directory = Path(directory)
        self._directory.mkdir(parents=True, exist_ok=True)
        self._lock = open(self._directory / "lock", "a")
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            raise MlmError(
                f"{directory} is in use: another process trains this very fold. Wait for it or "
                "stop it; two writers would spoil each other's state"
            ) from error

    def training(self, number: int) -> TrainingStates:
        """The states of one of the trainings, from 0 on."""
        return TrainingStates(self._directory / f"seed-{number}")

    def remove(self) -> None:
        """Drop the states: the fold is done and its results are written."""
        shutil.rmtree(self._directory, ignore_errors=True)
        self._lock.close()
