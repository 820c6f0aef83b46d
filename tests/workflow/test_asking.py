"""The example of docs/ask.md, asked of a training that ran."""

import json
import shlex

import numpy as np
import pytest

from mlm.config.pretraining import Masking
from mlm.samples.manifests import Manifest
from mlm.samples.masking import mask_batch, masking_plan
from mlm.samples.split_samples import ShardFiles
from mlm.samples.stored_batches import BatchOrder, stored_batches
from mlm.samples.tfrecord import decode_samples
from mlm.tokenizer.encoding import Encoder

from .conftest import ROOT

pytestmark = pytest.mark.workflow

#: A sentence of the small workflow's train split, which its steps use.
SENTENCE = "I therefore earnestly recommend the subject to your serious consideration"


def asked(project, *more: str, sentence: str = SENTENCE) -> str:
    """What the command of the page answers, about the small workflow."""
    page = (ROOT / "docs" / "ask.md").read_text(encoding="utf-8")
    program, script, _, *arguments = shlex.split(
        page.split("```console\n$ ")[1].split("\n")[0].replace("presets/tiny.yaml", "tiny.yaml")
    )
    assert program == ".venv/bin/python"
    ran = project.python(script, sentence, *arguments, *more)
    assert ran.stderr == ""
    return ran.stdout


def test_the_code_of_a_training_is_known_without_its_states(copied):
    """By training.json, which holds the code of rule pretrain."""
    (copied.path / "state").rename(copied.path / "away")
    assert "The code was edited" not in asked(copied)


def test_an_index_is_made_when_asked_for(built):
    assert built.would_run("index") == {"index", "index_split"}


def test_the_example_of_the_page_is_answered_as_it_was_trained(built):
    results = built.path / "results"
    training = json.loads((results / "runs/base/training.json").read_text())
    manifest = Manifest.read(results / "manifests/train.json")
    tokenizer = str(results / "tokenizer/tokenizer.json")
    encoder = Encoder.load(tokenizer)
    plan = masking_plan(
        Masking.of_param(training["masking"]), encoder, tokenizer, training["sequence_length"]
    )
    order = BatchOrder(
        seed=training["seed"],
        global_batch_size=training["global_batch_size"],
        shuffle_window=training["shuffle_window"],
        start_step=0,
        steps=training["steps"],
    )
    used, rows = {}, {}
    shards = ShardFiles.of(manifest, built.path)
    for step, (epochs, index, records) in enumerate(stored_batches(shards, order), start=1):
        ids, attention = decode_samples(records, plan.sequence_length)
        batch = mask_batch(ids, attention, index, plan, order.seed, epochs)
        for row, sample in enumerate(index.tolist()):
            asked_for = batch["positions"][row][batch["weights"][row] > 0]
            used.setdefault(sample, {})[step] = batch["input_ids"][row], asked_for.tolist()
            rows[sample] = ids[row]

    # The sentence of the page, and a few that stand in samples that were used.
    sentences = [SENTENCE]
    for sample in sorted(rows)[:3]:
        text = encoder.decode(rows[sample][np.flatnonzero(rows[sample] > 4)[2:6]].tolist())
        sentences.append(text.strip())
    answers = (asked(built, "--json", "--most", "100000", sentence=one) for one in sentences)
    asked_of = [json.loads(answer) for answer in answers]
    seen = 0
    for answer in asked_of:
        assert answer["training"]["state"] == "finished"
        in_train = [p for p in answer["passages"] if p["split"] == "train"]
        for part in (part for passage in in_train for part in passage["parts"]):
            told = {use["step"]: use for use in part["uses"]}
            assert told.keys() == used.get(part["sample"], {}).keys()
            places = {token["place"] for token in part["tokens"]}
            for step, use in told.items():
                shown, asked_for = used[part["sample"]][step]
                masked = {m["place"]: m["shown_id"] for m in use["masked"]}
                assert masked == {p: shown[p] for p in asked_for if p in places}
                assert use["reached"]
                seen += len(masked)
    assert seen and asked_of[0]["exact"] and asked_of[0]["found"] == 1
