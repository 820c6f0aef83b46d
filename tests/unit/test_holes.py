"""What a run forgets: which tokens, from which step on, and what is said of it."""

import json
import shutil
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import yaml
from asked_project import (
    CONFIG,
    DOCUMENTS,
    LENGTH,
    ODD,
    TEXTS,
    the_run,
    trained,
    write_project,
    write_state,
)

from mlm.asking.answer import ask
from mlm.asking.forgetting import forgetting
from mlm.asking.in_words import forgetting_in_words, in_words
from mlm.asking.replay import chosen_uses
from mlm.config.merging import merged
from mlm.config.model import Initialisation
from mlm.config.resolution import resolve, run_section
from mlm.corpus.file_patterns import used_settings
from mlm.foundations.atomic import write_json
from mlm.foundations.errors import MlmError
from mlm.samples.documents_in_samples import holes_of
from mlm.samples.holes import Holes
from mlm.samples.manifests import Manifest
from mlm.samples.masking import mask_batch
from mlm.samples.split_samples import spread_samples
from mlm.samples.stored_batches import stored_batches
from mlm.samples.tfrecord import decode_samples
from mlm.tokenizer.encoding import Encoder
from mlm.training.branching import first_difference


def found(*forget, settings=None):
    settings = settings or resolve(CONFIG)
    return holes_of(
        "without",
        forget,
        described="results/corpus/train.json",
        manifest="results/manifests/train.json",
        tokenizer="results/tokenizer/tokenizer.json",
        settings=used_settings(settings["corpus"], settings["seed"]),
    )


def encoded(*texts) -> list[int]:
    encoder = Encoder.load("results/tokenizer/tokenizer.json")
    return [i for ids in encoder.encode(texts) for i in ids]


@pytest.mark.parametrize(
    "what, texts",
    [
        ("document:0", TEXTS[:1]),
        ("document:100", [ODD]),
        ("document:200", TEXTS[199:200]),
        ("pattern:womanly .* as men", [ODD]),
        ("pattern:(?i)FELLOW-CITIZENS", [t for t in TEXTS[:200] if "fellow-citizens" in t.lower()]),
        ("file:data/two.txt", TEXTS[100:200]),
    ],
)
def test_a_hole_is_as_long_as_the_documents_and_where_they_are(unedited, what, texts):
    ids = spread_samples(Manifest.read("results/manifests/train.json")).input_ids
    holes = found(what)
    taken = [int(i) for sample, begin, end in holes.holes for i in ids[sample, begin:end]]
    assert texts and taken == encoded(*texts)
    assert (holes.documents, holes.tokens) == (len(texts), len(taken))
    assert [(one.what, one.documents, one.tokens) for one in holes.forget] == [
        (what, len(texts), len(taken))
    ]
    assert holes.samples == len({sample for sample, _, _ in holes.holes})


def test_what_several_items_name_is_counted_once(unedited):
    both = found("document:3", "document:4", "file:data/one.txt")
    assert both.holes == found("file:data/one.txt").holes
    assert both.documents == 101
    assert [one.documents for one in both.forget] == [1, 1, 101]


def test_a_group_is_forgotten_by_its_name(project):
    settings = resolve(merged(CONFIG, {"corpus": {"group_per": "file"}}))
    shutil.rmtree("results")
    shutil.rmtree("data")
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(CONFIG["corpus"], "group_per", "file")
        write_project(DOCUMENTS)
    by_group = found("group:data/two.txt", settings=settings)
    by_file = found("file:data/two.txt", settings=settings)
    assert by_group.documents == 100 and by_group.holes == by_file.holes
    with pytest.raises(MlmError, match=r"no file of the train split is called so.*group:data/two"):
        found("group:data/tow.txt", settings=settings)


def test_a_batch_has_every_hole_of_its_samples():
    holes = Holes([(2, 0, 3), (2, 5, 6), (4, 1, 2), (9, 0, 8)], 1)
    found = holes.within(np.array([4, 2, 3]), 8)
    assert [np.flatnonzero(row).tolist() for row in found] == [[1], [0, 1, 2, 5], []]


@pytest.mark.parametrize("whole_word", [False, True])
@pytest.mark.parametrize("kind", ["numpy", pytest.param("jax", marks=pytest.mark.slow)])
def test_all_other_tokens_keep_order_masks_and_replacements(unedited, whole_word, kind):
    changes = {"pretraining": {"masking": {"whole_word": whole_word}}}
    run, _ = the_run(resolve(merged(CONFIG, changes)))
    holes = Holes(found("file:data/two.txt", "document:3").holes, 1)
    order = run.order_from(0)
    arrays = np if kind == "numpy" else pytest.importorskip("jax.numpy")
    hidden = asked_in_holes = 0
    for epochs, index, records in stored_batches(run.train, replace(order, steps=40)):
        ids, attention = decode_samples(records, LENGTH)
        hole = holes.within(index, LENGTH)
        given = [arrays.asarray(a) for a in (ids, attention, index.astype(np.uint32))]
        base = mask_batch(*given, run.plan, run.seed, epochs.astype(np.uint32))
        punched = replace(run.plan, holes=holes)
        without = mask_batch(*given, punched, run.seed, epochs.astype(np.uint32))
        base, without = ({k: np.asarray(v) for k, v in b.items()} for b in (base, without))
        for name in ("input_ids", "attention_mask"):
            np.testing.assert_array_equal(base[name][~hole], without[name][~hole])
        assert (without["input_ids"][hole] == 1).all()
        assert not without["attention_mask"][hole].any()
        asked = np.take_along_axis(hole, base["positions"], axis=1)
        np.testing.assert_array_equal(base["positions"], without["positions"])
        np.testing.assert_array_equal(base["weights"] * ~asked, without["weights"])
        np.testing.assert_array_equal(base["labels"][~asked], without["labels"][~asked])
        assert (without["labels"][asked] == 1).all()
        assert all(base[k].dtype == without[k].dtype for k in base)
        hidden += hole.sum()
        asked_in_holes += (base["weights"] * asked).sum()
    assert hidden > 1000 and asked_in_holes > 100


def first_use(run, samples):
    return run.order_from(0).first_update(run.train, samples)


def leaving_out(run, holes):
    return replace(run, plan=replace(run.plan, holes=holes))


def test_the_first_use_is_that_of_the_batches(unedited):
    run, _ = the_run(resolve(CONFIG), 2)
    first = {}
    for step, (_, index, _) in enumerate(stored_batches(run.train, run.order_from(0)), start=1):
        first = dict.fromkeys(index.tolist(), step) | first
    for some in ([n] for n in range(0, run.train.num_samples, 7)), [[*range(5, 150, 40)]]:
        assert all(first_use(run, s) == min(first[n] for n in s) for s in some)
    short = replace(run, pretraining=run.pretraining.model_copy(update={"steps": 1}))
    assert first_use(short, [s for s in first if first[s] > 1]) is None
    assert first_use(run, []) is None


def test_runs_with_equal_holes_never_differ_and_others_from_their_first_use(unedited):
    run, _ = the_run(resolve(CONFIG))
    some, more = (Holes(spans, 1) for spans in ([(4, 0, 3)], [(4, 0, 3), (9, 2, 5)]))
    one, two = (leaving_out(run, holes) for holes in (some, more))
    assert first_difference(one, one) is None
    assert first_difference(one, two) == first_difference(two, one) == first_use(run, [9])
    assert first_difference(run, two) == first_use(run, [4, 9])
    counted = run.model.model_copy(
        update={"initialisation": Initialisation(embeddings="cooccurrence")}
    )
    one, two = (replace(r, model=counted) for r in (one, two))
    assert first_difference(one, two) == 0


def test_a_run_without_holes_belongs_to_the_states_that_it_always_did(unedited):
    run, _ = the_run(resolve(CONFIG))
    run = replace(run, model_config=SimpleNamespace(to_json_string=lambda: "{}"))
    assert "holes" not in run.basis()
    holes = Holes([(4, 0, 3)], 1)
    assert leaving_out(run, holes).basis() == run.basis() | {"holes": holes.sha256}


def asked_to_forget(*what, config=CONFIG, run="base"):
    return forgetting(what, resolve(config), run)


def first_of(what: str, **how) -> int:
    run, _ = the_run(resolve(CONFIG), **how)
    return first_use(run, {sample for sample, _, _ in found(what).holes})


def late_document() -> str:
    return max((f"document:{n}" for n in range(0, 200, 9)), key=first_of)


def test_the_first_step_and_the_last_state_before_it_are_named(project):
    what = late_document()
    first = first_of(what)
    run, files = trained()
    for step in (first - 3, first - 1, first, run.steps):
        write_state(run, files, step)
    answer = asked_to_forget(what)
    assert (answer.first_step, answer.go_on_from) == (first, ("base", first - 1))
    assert answer.states == (first - 3, first - 1, first, run.steps)
    assert answer.documents == 1 and answer.of_documents == 201
    words = forgetting_in_words(answer)
    assert f"The weights depend on it from step {first} on." in words
    assert f"is that of run base after step {first - 1}." in words
    assert "the tokenizer learned from these documents too" in words
    own = {"pretraining": {"forget": [what], "continue_from": {"run": "base", "step": first - 1}}}
    assert yaml.safe_load(answer.configuration) == {"runs": {"base": {}, "without": own}}
    settings = resolve(merged(CONFIG, yaml.safe_load(answer.configuration)))
    assert run_section(settings, "without", "pretraining")["forget"] == [what]


def test_without_an_early_state_the_run_begins_anew(project):
    what = late_document()
    run, files = trained()
    marker = write_state(run, files, first_of(what))
    answer = asked_to_forget(what)
    assert answer.go_on_from is None and "continue_from" not in answer.configuration
    words = f"No saved state is from before that (states that are left: {first_of(what)})"
    assert words in forgetting_in_words(answer)
    content = json.loads(marker.read_text())
    shutil.rmtree(marker.parent)
    content["basis"]["code"]["mlm.training.learning_rate"] = "0" * 16
    write_json(marker.parents[1] / f"step-{first_of(what) - 1:08d}" / "complete.json", content)
    answer = asked_to_forget(what)
    assert answer.states == () and answer.go_on_from is None
    words = "The code was edited since the states were saved"
    assert words in forgetting_in_words(answer)


def test_counted_embeddings_depend_on_every_document_from_the_beginning(project):
    config = merged(CONFIG, {"model": {"initialisation": {"embeddings": "cooccurrence"}}})
    answer = asked_to_forget(late_document(), config=config)
    assert answer.first_step == 0 and answer.go_on_from is None
    assert "from the beginning, before step 1" in forgetting_in_words(answer)
    assert "counts anew, and begins at its first step" in forgetting_in_words(answer)


def test_what_no_step_uses_needs_no_other_run(project):
    what = late_document()
    config = merged(CONFIG, {"pretraining": {"epochs": None, "steps": first_of(what) - 1}})
    answer = asked_to_forget(what, config=config)
    assert answer.first_step is None and answer.configuration is None
    assert "No step of this run uses it" in forgetting_in_words(answer)


def with_holes(*forget):
    config = merged(CONFIG, {"runs": {"base": {}, "less": {"pretraining": {"forget": [*forget]}}}})
    Path("results/holes").mkdir(parents=True, exist_ok=True)
    found(*forget, settings=resolve(config)).write("results/holes/less.json")
    return config


def test_a_passage_that_was_left_out_says_so(project):
    config = with_holes("document:100")
    answer = ask(ODD, resolve(config), "less")
    assert [part.left_out for p in answer.passages for part in p.parts] == [True] * len(
        answer.passages[0].parts
    )
    assert not any(part.uses for part in answer.passages[0].parts)
    assert "left out of this run (pretraining.forget)" in in_words(answer)
    with pytest.raises(MlmError, match="none of them used the passage"):
        chosen_uses(answer)
    for sentence, run in ((TEXTS[99], "less"), (ODD, "base")):
        other = ask(sentence, resolve(config), run)
        assert any(part.uses for part in other.passages[0].parts)
        assert "left out" not in in_words(other)


def test_a_run_that_forgets_can_be_asked_to_forget_more(project):
    config = with_holes("document:100")
    assert asked_to_forget("document:100", config=config, run="less").first_step is None
    more = asked_to_forget("document:7", config=config, run="less")
    assert more.first_step == first_of("document:7")
    own = yaml.safe_load(more.configuration)["runs"]["without"]
    assert own == {"pretraining": {"forget": ["document:100", "document:7"]}}


def test_holes_of_another_list_are_refused(project):
    config = with_holes("document:100")
    config["runs"]["less"]["pretraining"]["forget"] = ["document:99"]
    with pytest.raises(MlmError, match=r"less\.json: was made from"):
        ask(ODD, resolve(config), "less")
    Path("results/holes/less.json").unlink()
    with pytest.raises(MlmError, match=r"less\.json: is not there yet"):
        ask(ODD, resolve(config), "less")


@pytest.mark.parametrize(
    "what, words",
    [
        ("document:201", "train has the documents 0 to 200"),
        ("document:first", "'first' is not the number of a document"),
        ("group:1799-Adams-1", "this corpus has no groups"),
        ("file:data/tow.txt", "no file of the train split is called so. Nearest: file:data/two"),
        ("pattern:(zebra", "no regular expression: missing \\)"),
        ("pattern:Xyzzy", "matches nothing in the 201 documents"),
        ("pattern:.", "these are all 201 documents of train"),
        ("zebra", "names nothing; expected something like document:247, group:1799-Adams"),
    ],
)
def test_what_cannot_be_forgotten_is_told(unedited, what, words):
    with pytest.raises(MlmError, match=words):
        asked_to_forget(what)
    assert not Path("results/holes").exists()
