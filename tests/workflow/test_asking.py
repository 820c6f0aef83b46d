"""The example of docs/ask.md, asked of a training that ran."""

import json
import re
import shlex

import numpy as np
import pytest

from mlm.config.pretraining import Masking
from mlm.samples.manifests import Manifest
from mlm.samples.masking import mask_batch, masking_plan
from mlm.samples.stored_batches import BatchOrder, ShardFiles, stored_batches
from mlm.samples.tfrecord import decode_samples
from mlm.tokenizer.encoding import Encoder

from .conftest import ROOT

pytestmark = pytest.mark.workflow

#: A sentence of the small workflow's train split, which its steps use.
SENTENCE = "I therefore earnestly recommend the subject to your serious consideration"
#: The lines of an answer.
FORMS = [
    r"Run base: trained to its end, [\d,]+ steps of [\d,]+ samples\.",
    r"The sentence stands in the corpus (once|[\d,]+ times)\.",
    r"",
    r"\d+\. In document [\d,]+ of train \(.+\)",
    r"   Sample [\d,]+, which is [\d,]+ in train-\d{5}-of-\d{5}\.tfrecord: "
    r"tokens? \d+( to \d+)?, “.+”",
    r"     step [\d,]+, epoch \d+: (none of them asked for|.+ → .+)",
    r"     used at no step",
    r"   Asked for so far: .+ \(.+\)",
    r"Before step 1 the word embeddings were set from counts of the train split .*\.",
]


def example() -> tuple[list[str], list[str]]:
    """The command of the page, in parts, and the lines that stand below it."""
    page = (ROOT / "docs" / "ask.md").read_text(encoding="utf-8")
    command, *lines = page.split("```console\n$ ")[1].split("\n```")[0].split("\n")
    return shlex.split(command), lines


def command_here(sentence: str, *more: str) -> list[str]:
    """The arguments of the page's command, about the small workflow."""
    program, *arguments = example()[0]
    assert program == ".venv/bin/python"
    here = ["tiny.yaml" if a == "presets/tiny.yaml" else a for a in arguments]
    assert here != arguments
    here[1] = sentence
    return [*here, *more]


def asked(project, *more: str, sentence: str = SENTENCE) -> str:
    ran = project.python(*command_here(sentence, *more))
    assert ran.stderr == ""
    return ran.stdout


def kinds_of(lines: list[str]) -> list[str]:
    found = [[form for form in FORMS if re.fullmatch(form, line)] for line in lines]
    assert all(found), [line for line, forms in zip(lines, found, strict=True) if not forms]
    return [forms[0] for forms in found]


def test_the_example_of_the_page_has_the_lines_of_an_answer(built):
    shown, told = kinds_of(example()[1]), kinds_of(asked(built).splitlines())
    # Both found the sentence once, in one sample or two.
    assert shown[:4] == told[:4] and FORMS[4] in shown and FORMS[4] in told
    assert FORMS[5] in shown


def test_the_code_of_a_training_is_known_without_its_states(copied):
    """By training.json, which holds the code of rule pretrain."""
    (copied.path / "state").rename(copied.path / "away")
    assert "The code was edited" not in asked(copied)


def test_an_index_is_made_when_asked_for(built):
    assert built.would_run("index") == {"index", "index_split"}


def test_the_example_of_the_page_is_answered_as_it_was_trained(built):
    """By what training.json says, and the batches that follow from it."""
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
