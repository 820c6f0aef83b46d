"""Logits of exported models by classes of transformers, in .venv-pytorch or .venv-transformers4.

python logits.py pytorch|tensorflow|flax DIRECTORY: for each model in DIRECTORY/*/, reads inputs.npz
beside it and writes {framework}.npy. With PyTorch, whose class its config.json names, also the
model as PyTorch saves it, to saved/.
"""

import json
import os
import re
import sys
from pathlib import Path

os.environ["TF_USE_LEGACY_KERAS"] = "1"

import numpy as np
import transformers

CLASSES = {"tensorflow": "TFAutoModelForMaskedLM", "flax": "FlaxAutoModelForMaskedLM"}
#: Of ESM: constants, and a head for contacts, which is not trained here.
_OF_ESM = re.compile(r"^esm\.(contact_head|rotary_embeddings)\.")


def main(framework: str, root: Path) -> None:
    inputs = dict(np.load(root / "inputs.npz"))
    if framework == "pytorch":
        import torch

        torch.set_grad_enabled(False)
        inputs = {k: torch.tensor(v.astype(np.int64)) for k, v in inputs.items()}
    for config in sorted(root.glob("*/config.json")):
        (name,) = json.loads(config.read_text())["architectures"]
        opened = getattr(transformers, CLASSES.get(framework, name))
        how = {} if framework == "flax" else {"output_loading_info": True}
        model = opened.from_pretrained(config.parent, **how)
        if how:
            model, loading = model
            loading["missing_keys"] = {n for n in loading["missing_keys"] if not _OF_ESM.search(n)}
            if problems := {kind: sorted(names) for kind, names in loading.items() if names}:
                sys.exit(f"{config.parent.name}: {problems}")
        if framework == "pytorch":
            model.save_pretrained(config.parent / "saved")
            model.eval()
        np.save(config.with_name(f"{framework}.npy"), np.asarray(model(**inputs).logits))


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
