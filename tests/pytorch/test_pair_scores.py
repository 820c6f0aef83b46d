"""Scores of minimal pairs are those of an independent implementation in PyTorch."""

import json

import numpy as np
import pytest
from in_pytorch import run_in_pytorch
from test_minimal_pairs import HOW
from test_pieces import SPECIAL, trained
from tiny_encoder import tiny_config, tiny_encoder
from transformers import PreTrainedTokenizerFast

from mlm.config.accelerator import Accelerator
from mlm.config.evaluation import Evaluation
from mlm.evaluation import in_jax
from mlm.evaluation.minimal_pairs import PairScoring, score_pairs
from mlm.evaluation.neighbour_mixture import NeighbourMixtures
from mlm.evaluation.pair_files import Pair
from mlm.evaluation.scoring import Scorer
from mlm.foundations.atomic import write_weights
from mlm.samples.token_counts import count_tokens

pytestmark = pytest.mark.slow

LENGTH = 64
WORDS = [
    *("the", "of", "government", "constitutional", "obligations", "people,"),
    *("nation.", "walked", "it's"),
]


@pytest.mark.parametrize("kind", ["wordpiece", "bytes", "metaspace"])
def test_both_scores_of_50_pairs_are_those_of_pytorch(tmp_path, kind):
    from tokenizers import processors

    tokenizer = trained(kind)
    ids = [(name, tokenizer.token_to_id(name)) for name in ("[CLS]", "[SEP]")]
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", special_tokens=ids
    )
    names = ("cls_token", "pad_token", "sep_token", "unk_token", "mask_token")
    named = dict(zip(names, SPECIAL, strict=True))
    fast = PreTrainedTokenizerFast(tokenizer_object=tokenizer, **named)
    fast.save_pretrained(tmp_path)
    sizes = {"vocab_size": len(fast), "max_position_embeddings": LENGTH}
    _, parameters = tiny_encoder("bert", **sizes)
    write_weights({k: np.asarray(v) for k, v in parameters.items()}, tmp_path / "model.safetensors")
    config = tiny_config("bert", **sizes) | {"architectures": ["BertForMaskedLM"]}
    (tmp_path / "config.json").write_text(json.dumps(config))
    random = np.random.default_rng(0)
    texts = [" ".join(random.choice(WORDS, 1 + n % 9)) for n in range(100)]
    (tmp_path / "texts.json").write_text(json.dumps(texts))
    expected = np.array(
        json.loads(run_in_pytorch("pair_scores.py", tmp_path, tmp_path / "texts.json"))
    )
    special = fast.all_special_ids
    some = np.array(fast(" ".join(WORDS))["input_ids"])[np.newaxis]
    bigram = NeighbourMixtures(
        count_tokens([(some, np.ones_like(some))], len(fast), special, two=False), special
    )
    model = in_jax.open_model(tmp_path, Accelerator(kind="cpu", precision="float32", cpu_threads=1))
    scorer = Scorer(model, Evaluation(), fast, LENGTH)
    pairs = list(map(Pair, texts[::2], texts[1::2]))
    for column, method in enumerate(("word_l2r", "plain")):
        scoring = PairScoring(fast, LENGTH, method, scorer.log_probabilities, bigram)
        found = [pair.scores for pair in score_pairs(pairs, scoring, HOW).pairs]
        np.testing.assert_allclose(np.ravel(found), expected[:, column], atol=1e-3)
    assert np.abs(expected[:, 0] - expected[:, 1]).max() > 0.1
