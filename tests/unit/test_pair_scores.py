"""Scores of minimal pairs are sums of log-probabilities that are written out token by token."""

import json

import jax
import numpy as np
import pytest
from test_pieces import SPECIAL, trained
from tiny_encoder import logits, tiny_config, tiny_encoder
from tokenizers import processors
from transformers import PreTrainedTokenizerFast

from mlm.config.accelerator import Accelerator
from mlm.config.evaluation import Evaluation
from mlm.evaluation.exported_model import open_model
from mlm.evaluation.minimal_pairs import score_pairs
from mlm.evaluation.neighbour_mixture import NeighbourMixtures
from mlm.evaluation.pair_files import Pair
from mlm.evaluation.scoring import Scorer
from mlm.foundations.atomic import write_weights
from mlm.samples.token_counts import count_tokens

# Many shapes are compiled.
pytestmark = pytest.mark.slow

LENGTH = 64
WORDS = ["the", "of", "government", "constitutional", "obligations", "people,", "walked", "it's"]
NAMES = ("cls_token", "pad_token", "sep_token", "unk_token", "mask_token")


def written_out(fast, encoder, text: str) -> float:
    """Each token is masked in a row of its own, with the later ones of its word."""
    architecture, parameters = encoder
    encoded = fast(text, padding="max_length", max_length=LENGTH, return_tensors="np")
    (ids,), words = encoded["input_ids"], encoded.word_ids()
    rows, mask = (np.tile(encoded[name], (LENGTH, 1)) for name in ("input_ids", "attention_mask"))
    places = [place for place in range(LENGTH) if words[place] is not None]
    for place in places:
        later = [p for p in places if p > place and words[p] == words[place]]
        rows[place, [place, *later]] = fast.mask_token_id
    shares = np.asarray(jax.nn.log_softmax(logits(parameters, architecture, rows, mask)))
    return float(sum(shares[place, place, ids[place]] for place in places))


@pytest.mark.parametrize("kind", ["wordpiece", "bytes", "metaspace"])
def test_scores_of_pairs_are_those_of_the_definition(tmp_path, kind):
    tokenizer = trained(kind)
    ids = [(name, tokenizer.token_to_id(name)) for name in ("[CLS]", "[SEP]")]
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", special_tokens=ids
    )
    named = dict(zip(NAMES, SPECIAL, strict=True))
    fast = PreTrainedTokenizerFast(tokenizer_object=tokenizer, **named)
    sizes = {"vocab_size": len(fast), "max_position_embeddings": LENGTH}
    encoder = tiny_encoder("bert", **sizes)
    write_weights(encoder[1], tmp_path / "model.safetensors")
    (tmp_path / "config.json").write_text(json.dumps(tiny_config("bert", **sizes)))
    random, special = np.random.default_rng(0), fast.all_special_ids
    texts = [" ".join(random.choice(WORDS, 1 + n % 9)) for n in range(12)]
    some = np.array(fast(" ".join(WORDS))["input_ids"])[np.newaxis]
    counts = count_tokens([(some, np.ones_like(some))], len(fast), special, two=False)
    accelerator = Accelerator(kind="cpu", precision="float32", cpu_threads=1)
    model = open_model(tmp_path, "jax", accelerator)
    scorer = Scorer(model, Evaluation(), fast, LENGTH)
    bigram = NeighbourMixtures(counts, special)
    pairs = [Pair(*texts[i : i + 2], "a.tsv", str(i)) for i in range(0, len(texts), 2)]
    scores = [written_out(fast, encoder, text) for text in texts]
    margins = [found.margin for found in score_pairs(pairs, scorer, bigram).phenomena]
    np.testing.assert_allclose(margins, np.subtract(scores[::2], scores[1::2]), atol=1e-3)
