"""Logits of exported models by PyTorch's transformers; run in .venv-pytorch.

python logits.py DIRECTORY: for each model in DIRECTORY/*/, reads inputs.npz beside it and
writes pytorch.npy, the logits of the class that its config.json names, and the model as PyTorch
saves it to saved/.
"""

import json
import re
import sys
from pathlib import Path

import numpy as np
import torch
import transformers

_OF_ESM = re.compile(r"^esm\.(contact_head|rotary_embeddings)\.")


def main(root: Path) -> None:
    inputs = dict(np.load(root / "inputs.npz"))
    inputs = {k: torch.tensor(v.astype(np.int64)) for k, v in inputs.items()}
    for place in sorted(p.parent for p in root.glob("*/config.json")):
        (name,) = json.loads((place / "config.json").read_text())["architectures"]
        opened = getattr(transformers, name)
        model, loading = opened.from_pretrained(place, output_loading_info=True)
        # Of ESM: constants, and a head for contacts, which is not trained here.
        loading["missing_keys"] = {n for n in loading["missing_keys"] if not _OF_ESM.search(n)}
        problems = {k: sorted(v) for k, v in loading.items() if v}
        if problems:
            sys.exit(f"{place.name}: {problems}")
        model.save_pretrained(place / "saved")
        model.eval()
        with torch.no_grad():
            np.save(place / "pytorch.npy", model(**inputs).logits.numpy())


if __name__ == "__main__":
    main(Path(sys.argv[1]))
