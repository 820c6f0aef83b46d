"""Convert a trained model to ONNX. Needs torch, transformers, onnx and onnxscript, nothing else.

    python to_onnx.py results/runs/base/model model.onnx

The inputs are input_ids and attention_mask, int64 [batch, tokens], of any size; the output is
logits, float32 [batch, tokens, vocabulary].
"""

import argparse
import sys
from importlib.util import find_spec
from pathlib import Path

NEEDED = ("torch", "transformers", "onnx", "onnxscript")


def main() -> None:
    """Write the ONNX file, or end with what stands in the way."""
    parser = argparse.ArgumentParser(prog="to_onnx.py", description=__doc__.split("\n")[0])
    parser.add_argument("model", type=Path, help="the directory of the model")
    parser.add_argument("onnx", type=Path, help="the file to write")
    given = parser.parse_args()
    missing = [n for n in ("config.json", "model.safetensors") if not (given.model / n).is_file()]
    if missing:
        sys.exit(
            f"to_onnx.py: {given.model}: {' and '.join(missing)} not found. The directory of a "
            "trained model is expected, such as results/runs/base/model"
        )
    if not given.onnx.parent.is_dir():
        sys.exit(f"to_onnx.py: {given.onnx.parent}: no such directory")
    if absent := [package for package in NEEDED if find_spec(package) is None]:
        sys.exit(
            f"to_onnx.py: {', '.join(absent)} not installed in {sys.prefix}. Install what is "
            f"missing, in an environment of its own: pip install {' '.join(NEEDED)}"
        )
    export(given.model, given.onnx)


def export(model_directory: Path, file: Path) -> None:
    """Write the model in `model_directory` to `file`, its weights included."""
    import torch
    from transformers import AutoModelForMaskedLM

    # "eager": attention in plain products, which any version of ONNX has.
    model = AutoModelForMaskedLM.from_pretrained(model_directory, attn_implementation="eager")

    class Logits(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.model = model

        def forward(self, input_ids, attention_mask):
            return self.model(input_ids=input_ids, attention_mask=attention_mask).logits

    names, sizes = ("input_ids", "attention_mask"), ("batch", "tokens")
    # Sizes of 1 would be taken for constants.
    example = torch.full((2, 8), model.config.pad_token_id + 1)
    torch.onnx.export(
        Logits().eval(),
        (example, torch.ones_like(example)),
        file,
        input_names=names,
        output_names=["logits"],
        dynamic_shapes={name: dict(enumerate(sizes)) for name in names},
        external_data=False,
        dynamo=True,
    )


if __name__ == "__main__":
    main()
