"""The example of docs/ask.md, asked of a training that ran."""

import json
import shlex

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
    tokenizer, length = str(results / "tokenizer/tokenizer.json"), training["sequence_length"]
    masking = Masking.of_param(training["masking"])
    plan = masking_plan(masking, Encoder.load(tokenizer), tokenizer, length)
    sizes = (training[name] for name in ("seed", "global_batch_size", "shuffle_window"))
    batches = stored_batches(
        ShardFiles.of(manifest, built.path), BatchOrder(*sizes, 0, training["steps"])
    )
    shown = {}
    for step, (epochs, index, records) in enumerate(batches, start=1):
        samples = decode_samples(records, length)
        batch = mask_batch(*samples, index, plan, training["seed"], epochs)
        for row, sample in enumerate(index.tolist()):
            places = batch["positions"][row][batch["weights"][row] > 0]
            shown[sample, step] = dict(zip(places, batch["input_ids"][row][places], strict=True))

    answer = json.loads(asked(built, "--json"))
    assert answer["training"]["state"] == "finished" and answer["exact"] and answer["found"] == 1
    many = json.loads(asked(built, "--json", "--most", "100000", sentence="of the"))
    passages = [p for p in answer["passages"] + many["passages"] if p["split"] == "train"]
    seen = 0
    for part in (part for passage in passages for part in passage["parts"]):
        steps = sorted(step for sample, step in shown if sample == part["sample"])
        assert [use["step"] for use in part["uses"] if use["reached"]] == steps
        places = {token["place"] for token in part["tokens"]}
        for use in part["uses"]:
            masked = {m["place"]: m["shown_id"] for m in use["masked"]}
            whole = shown[part["sample"], use["step"]]
            assert masked == {place: i for place, i in whole.items() if place in places}
            seen += len(masked)
    assert seen
