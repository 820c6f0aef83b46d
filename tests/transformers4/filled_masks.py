"""A run's results as transformers 4 opens them in TensorFlow.

python filled_masks.py, in the directory of a run: ends with an error if the model, its tokenizer or
the example of its card does not do what they say.
"""

import os

os.environ["TF_USE_LEGACY_KERAS"] = "1"

from transformers import AutoTokenizer, TFAutoModelForMaskedLM, pipeline

place = "results/runs/base/model"
model, loading = TFAutoModelForMaskedLM.from_pretrained(place, output_loading_info=True)
assert not any(loading.values()), loading
t = AutoTokenizer.from_pretrained("results/tokenizer")
ids = [t.cls_token_id, t.pad_token_id, t.sep_token_id, t.unk_token_id, t.mask_token_id]
assert ids == [0, 1, 2, 3, 4], ids
fill = pipeline("fill-mask", model=place, framework="tf")
assert len(fill("Goal of my life is to [MASK].")) == 5
# Longer than the model reads: cut where asked, and no position is looked up beyond it.
long = "The [MASK] of the Union. " + 500 * "It is strong. "
assert len(fill(long, tokenizer_kwargs={"truncation": True})) == 5
# The example of the model's own card.
with open(f"{place}/README.md") as card:
    code = card.read().split("```")[1].removeprefix("python")
answers = []
exec(code.replace("path/to/this/directory", place).replace("\nfill(", "\nanswers = fill("))
assert len(answers) == 5
