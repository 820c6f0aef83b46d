import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[2] / "scripts" / "to_onnx.py"


@pytest.mark.parametrize(
    "files, words",
    [
        ((), "model.safetensors not found. The directory of a trained model is expected"),
        # The project's own environment has no PyTorch.
        (("config.json", "model.safetensors"), "pip install torch transformers onnx onnxscript"),
    ],
)
def test_what_is_missing_is_said_in_one_sentence(tmp_path, files, words):
    for name in files:
        (tmp_path / name).touch()
    command = [sys.executable, SCRIPT, tmp_path, tmp_path / "model.onnx"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 1 and words in done.stderr
    assert len(done.stderr.splitlines()) == 1
    assert {path.name for path in tmp_path.iterdir()} == set(files)
