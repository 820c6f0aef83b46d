"""A model folder as sentence-transformers and ONNX Runtime have it; run in .venv-pytorch.

python opened_model.py MODEL ONNX TEXT ...: prints as JSON the largest difference of the vectors of
sentence-transformers from the means of token vectors, that of ONNX's logits from PyTorch's, and
how many tokens a text may have.
"""

import json
import sys

import numpy as np
import onnxruntime
import torch
from sentence_transformers import SentenceTransformer
from transformers import AutoModelForMaskedLM, AutoTokenizer


def main(place: str, onnx: str, *texts: str) -> None:
    encoder = SentenceTransformer(place)
    tokenizer = AutoTokenizer.from_pretrained(place)
    model = AutoModelForMaskedLM.from_pretrained(place).eval()
    inputs = tokenizer(list(texts), padding=True, return_tensors="pt")
    inputs = {name: inputs[name] for name in ("input_ids", "attention_mask")}
    with torch.no_grad():
        states = model.base_model(**inputs).last_hidden_state
        logits = model(**inputs).logits.numpy()
    counted = inputs["attention_mask"][..., None]
    means = ((states * counted).sum(1) / counted.sum(1)).numpy()
    given = {name: tensor.numpy() for name, tensor in inputs.items()}
    (found,) = onnxruntime.InferenceSession(onnx).run(["logits"], given)
    differences = {
        "vectors": float(np.abs(encoder.encode(list(texts)) - means).max()),
        "logits": float(np.abs(found - logits)[given["attention_mask"] == 1].max()),
        "longest": encoder.max_seq_length,
    }
    print(json.dumps(differences))


if __name__ == "__main__":
    main(*sys.argv[1:])
