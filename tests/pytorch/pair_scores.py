"""Pseudo-log-likelihoods by PyTorch's transformers, one sentence at a time; run in .venv-pytorch.

python pair_scores.py MODEL TEXTS.json: prints as JSON the word_l2r and the plain score of each.
"""

import json
import sys
from pathlib import Path

import torch
from transformers import AutoModelForMaskedLM, AutoTokenizer


def score(model, tokenizer, text: str, word: bool) -> float:
    encoded, total = tokenizer(text, return_tensors="pt"), 0.0
    ids, words = encoded["input_ids"][0], encoded.word_ids()
    for place, own in enumerate(words):
        if own is None:
            continue
        shown = ids.clone()
        shown[place] = tokenizer.mask_token_id
        for later in range(place + 1, len(ids)):
            if word and words[later] == own:
                shown[later] = tokenizer.mask_token_id
        logits = model(input_ids=shown[None]).logits[0, place]
        total += torch.log_softmax(logits.double(), -1)[ids[place]].item()
    return total


def main(place: str, file: str) -> None:
    tokenizer = AutoTokenizer.from_pretrained(place)
    model = AutoModelForMaskedLM.from_pretrained(place).eval()
    with torch.no_grad():
        found = [
            [score(model, tokenizer, text, word) for word in (True, False)]
            for text in json.loads(Path(file).read_text())
        ]
    print(json.dumps(found))


if __name__ == "__main__":
    main(*sys.argv[1:])
