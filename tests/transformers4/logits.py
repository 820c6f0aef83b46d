"""Logits of exported models by transformers 4's classes of TensorFlow or Flax.

python logits.py tensorflow|flax DIRECTORY: for each model in DIRECTORY/*/, reads inputs.npz beside
it and writes tensorflow.npy or flax.npy, the logits of its class for masked language modelling.
"""

import os
import sys
from pathlib import Path

os.environ["TF_USE_LEGACY_KERAS"] = "1"

import numpy as np
import transformers

CLASSES = {"tensorflow": "TFAutoModelForMaskedLM", "flax": "FlaxAutoModelForMaskedLM"}


def main(framework: str, root: Path) -> None:
    inputs = dict(np.load(root / "inputs.npz"))
    for place in sorted(p.parent for p in root.glob("*/config.json")):
        opened = getattr(transformers, CLASSES[framework])
        how = {"output_loading_info": True} if framework == "tensorflow" else {}
        model = opened.from_pretrained(place, **how)
        if framework == "tensorflow":
            model, loading = model
            if problems := {kind: names for kind, names in loading.items() if names}:
                sys.exit(f"{place.name}: {problems}")
        np.save(place / f"{framework}.npy", np.asarray(model(**inputs).logits))


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
