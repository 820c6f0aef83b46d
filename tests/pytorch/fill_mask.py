"""Answers of PyTorch's fill-mask pipeline; run in .venv-pytorch.

python fill_mask.py MODEL COUNT PROMPT ...: prints a JSON list for each prompt of its most likely
tokens and their probabilities.
"""

import json
import sys

from transformers import pipeline


def main(model: str, count: str, *prompts: str) -> None:
    fill = pipeline("fill-mask", model=model, top_k=int(count))
    for prompt in prompts:
        print(json.dumps([[found["token_str"], found["score"]] for found in fill(prompt)]))


if __name__ == "__main__":
    main(*sys.argv[1:])
