import json
import shutil
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from asked_project import CONFIG, LENGTH, TEXTS, the_run, trained, write_state
from loaded_script import loaded

from mlm.asking.answer import ask, in_words
from mlm.asking.passages_in_training import uses_of
from mlm.config.overlays import resolve
from mlm.foundations.artefacts import write_artefact
from mlm.foundations.atomic import write_json
from mlm.foundations.command_line import status_of
from mlm.foundations.errors import MlmError
from mlm.samples.batch_order import stored_batches
from mlm.samples.manifests import Manifest
from mlm.samples.masking import mask_batch
from mlm.samples.shard_reading import Samples, spread_samples
from mlm.tokenizer.encoding import Encoder

TOKENIZER = "results/tokenizer/tokenizer.json"


def asked(sentence: str, config: dict = CONFIG, **how):
    return ask(sentence, resolve(config), "base", **how)


def parts_of(answer):
    return [part for passage in answer.passages for part in passage.parts]


def flip(path: Path, place: int | None = None) -> None:
    data = bytearray(path.read_bytes())
    data[place or len(data) // 2] ^= 1
    path.write_bytes(data)


def train_samples() -> Samples:
    return spread_samples(Manifest.read("results/manifests/train.json"))


def test_a_sentence_is_found_with_its_file_shard_sample_and_tokens(project):
    trained()
    ids = train_samples().input_ids
    first, starts = 0, {}
    for shard in Manifest.read("results/manifests/train.json").shards:
        starts[shard.name], first = first, first + shard.num_samples
    for number, text in ((3, TEXTS[3]), (150, TEXTS[149])):
        answer = asked(text)
        (passage,) = answer.passages
        assert answer.occurrences == 1 and answer.training.state == "finished"
        assert (passage.split, passage.document, passage.text) == ("train", number, text)
        assert passage.source == "2 text files"
        stored = [ids[p.sample, t.position] for p in passage.parts for t in p.tokens]
        assert Encoder.load(TOKENIZER).encode([text]) == [[0, *stored, 2]]
        shown = "".join(t.text for p in passage.parts for t in p.tokens)
        assert shown.replace("Ġ", "") == text.replace(" ", "")
        assert all(p.sample == starts[p.shard] + p.shard_sample for p in passage.parts)


#: Halves of a training: of samples as they are, and of rows of three with fewer masks.
IN_PHASES = [
    {"share": 0.5},
    {"share": 0.5, "sequence_length": 3 * LENGTH, "per_replica_batch_size": 2},
]


@pytest.mark.parametrize("phases", [None, IN_PHASES], ids=["samples", "phases"])
def test_a_thousand_tokens_are_used_and_masked_as_the_batches_of_training_are(unedited, phases):
    pretraining = CONFIG["pretraining"] | {"phases": phases}
    run, _ = the_run(resolve(CONFIG | {"pretraining": pretraining}), replicas=2)
    shown, samples = {}, np.arange(len(train_samples()))
    for phase in run.phases:
        rows, places = phase.train.rows_with(samples)
        stream = stored_batches(phase.train, phase.order_from(0))
        for step, (epochs, index, records) in enumerate(stream, start=phase.first + 1):
            ids, attention = phase.train.decoded(records)
            batch = mask_batch(ids, attention, index, phase.plan, phase.seed, epochs)
            for row, number in enumerate(index.tolist()):
                chosen = batch["positions"][row][batch["weights"][row] > 0]
                seen = dict(zip(chosen, batch["input_ids"][row][chosen], strict=True))
                for sample in np.flatnonzero(rows == number).tolist():
                    begin = places[sample] * LENGTH
                    within = {p - begin: i for p, i in seen.items() if 0 <= p - begin < LENGTH}
                    shown[sample, step] = within
    assert step == run.steps and sum(map(len, shown.values())) > 1000
    uses = uses_of(run, samples.tolist())
    assert shown == {(i, step): t for i, of in enumerate(uses) for step, _, t in of}


def test_what_stood_in_the_place_of_a_token_is_told(unedited):
    ids = train_samples().input_ids
    kinds = set()
    for part in (part for text in TEXTS[:5] for part in parts_of(asked(text))):
        for mask in (mask for use in part.uses for mask in use.masked):
            assert (mask.kind == "mask") == (mask.shown_id == 4) == (mask.shown == "[MASK]")
            assert (mask.kind == "itself") == (mask.shown_id == ids[part.sample, mask.position])
            kinds.add(mask.kind)
    assert kinds == {"mask", "random", "itself"}


def test_a_sentence_is_compared_as_the_corpus_is_normalised_and_word_by_word(unedited):
    """“man” and “men” stand in “womanly” and “manner”, one of them also by itself."""
    for sentence in (
        "The café of Ångström stands",
        "The cafe\u0301 of A\u030angstro\u0308m stands",
        "  The café\nof Ångström\tstands ",
    ):
        answer = asked(sentence)
        assert answer.passages[0].document == 100
    man = asked("man")
    assert not any(p.document == 100 for p in man.passages)
    assert 100 in {p.document for p in asked("men", most=500).passages}


def test_no_more_than_asked_for_is_shown_and_the_rest_counted(unedited):
    whole, part = asked("that the", most=10**6), asked("that the", most=2)
    assert part.occurrences == whole.occurrences == len(whole.passages) > 2
    assert part.passages == whole.passages[:2]
    assert f"{part.occurrences - 2:,} more with --most {part.occurrences}" in in_words(part)


def test_a_training_under_way_is_told_from_what_it_has_not_reached(project):
    run, files = the_run(resolve(CONFIG))
    assert asked(TEXTS[0]).training.state == "not begun"
    assert "no training of it is known" in in_words(asked(TEXTS[0]))
    half = run.steps // 2
    write_state(run, files, half - 1)
    write_state(run, files, half)
    answers = [asked(text) for text in TEXTS[:4]]
    assert all(a.training.state == "under way" and a.training.reached == half for a in answers)
    uses = [use for answer in answers for part in parts_of(answer) for use in part.uses]
    held_out = asked(TEXTS[200])
    assert parts_of(held_out) and not any(part.uses for part in parts_of(held_out))
    assert "Never trained on: the validation split is held out." in in_words(held_out)
    assert all(use.reached == (use.step <= half) for use in uses)
    assert {use.reached for use in uses} == {True, False}
    assert "(not reached)" in "".join(map(in_words, answers))
    write_state(run, files, run.steps)
    trained()
    answer = asked(TEXTS[0])
    assert (answer.training.state, answer.training.reached) == ("finished", run.steps)
    assert "(not reached)" not in in_words(answer)


def other(section: str, **values) -> dict:
    return CONFIG | {section: CONFIG.get(section, {}) | values}


@pytest.mark.parametrize(
    "config, difference",
    [
        (CONFIG | {"seed": 5}, "seed: 0 then, 5 now"),
        (other("pretraining", masking={"mlm_probability": 0.2}), "mlm_probability: 0.3 then, 0.2"),
        (
            other("model", initialisation={"embeddings": "cooccurrence"}),
            "initialisation.embeddings",
        ),
    ],
)
def test_another_configuration_than_the_trainings_is_refused(project, config, difference):
    run, files = trained()
    with pytest.raises(MlmError, match=rf"(?s)results/runs/base/training\.json: .*{difference}"):
        asked(TEXTS[0], config)
    Path("results/runs/base/training.json").unlink()
    write_state(run, files, 1)
    with pytest.raises(MlmError, match=difference):
        asked(TEXTS[0], config)
    # What a step is shown does not follow from the learning rate.
    asked(TEXTS[0], other("pretraining", optimizer={"learning_rate": 0.5}))


def test_other_code_than_the_trainings_is_refused_or_told(project):
    run, files = trained(code="0" * 64)
    assert any("code was edited since" in note for note in asked(TEXTS[0]).notes)
    path = Path("results/runs/base/training.json")
    write_state(run, files, run.steps, masking="0" * 12)
    finished = path.read_bytes()
    path.unlink()
    with pytest.raises(MlmError, match=r"code mlm\.samples\.masking is another"):
        asked(TEXTS[0])
    path.write_bytes(finished)
    write_state(run, files, run.steps)
    assert asked(TEXTS[0]).notes == ()


def test_other_data_than_the_trainings_is_refused(project):
    trained()
    path = Path("results/corpus/train.json")
    content = path.read_bytes()
    record = {"rule": "corpus", "settings": {"corpus": "0" * 16}}
    write_artefact(path, json.loads(content) | {"made_from": record})
    with pytest.raises(MlmError, match="section corpus had other settings"):
        asked(TEXTS[0])
    path.write_bytes(content)
    path = Path("results/manifests/train.json")
    manifest = Manifest.read(path)
    replace(manifest, corpus_sha256="0" * 64).write(path)
    Path("results/runs/base/training.json").unlink()
    named = r"train-00000-of-00002\.parquet and 1 more"
    with pytest.raises(MlmError, match=f"{named}: is not the text that the train shards"):
        asked(TEXTS[0])


def test_damaged_texts_and_shards_are_named_with_the_command_that_makes_them_again(project):
    flip(shard := Path("results/shards/train") / parts_of(asked(TEXTS[0]))[0].shard, 40)
    with pytest.raises(MlmError, match="its content changed since the manifest was written"):
        asked(TEXTS[0])
    flip(shard, 40)
    for file in ("train-00001-of-00002", "validation"):
        flip(path := Path(f"results/corpus/{file}.parquet"))
        remedy = f"rm {path}, then the same snakemake command {path}"
        with pytest.raises(
            MlmError, match=f"(?s)^{path} is damaged or missing: .* beside.*{remedy}$"
        ):
            asked(TEXTS[0])
        flip(path)


def test_a_test_split_that_is_not_packed_yet_is_said(project):
    Path("results/manifests/test.json").unlink()
    answer = asked(TEXTS[240])
    assert answer.passages[0].parts == ()
    assert "The test split is not packed yet" in in_words(answer)


@pytest.fixture
def script():
    return partial(status_of, "ask.py", loaded("ask").main)


def test_the_command_prints_the_answer_for_people_and_for_machines(
    project, script, capsys, monkeypatch
):
    write_json("my.yaml", CONFIG)
    trained()
    where = ["--configfile", "my.yaml"]
    before = {path: path.stat().st_mtime_ns for path in Path().rglob("*")}
    assert script([TEXTS[0], *where]) == 0
    assert capsys.readouterr().out == in_words(asked(TEXTS[0])) + "\n"
    assert {path: path.stat().st_mtime_ns for path in Path().rglob("*")} == before
    said = f"{TEXTS[0]} \x9b31m\u202e"
    assert script(["--json", said, *where, "--run", "base"]) == 0
    out = capsys.readouterr().out
    told = json.loads(out)
    assert told["occurrences"] == 0 and told["format_version"] == 3
    assert told["question"] == said and not set("\x9b\u202e") & set(out)
    assert script([said, *where]) == 0
    out = capsys.readouterr().out
    assert "does not occur in the corpus" in out and not set("\x9b\u202e") & set(out)
    monkeypatch.chdir(project.parent)
    assert script([said, "--configfile", "project/my.yaml", "--directory", "project"]) == 0


def test_the_command_says_what_is_wrong_in_one_message(project, script, capsys):
    def refused(*arguments: str) -> str:
        assert script(list(arguments)) == 1
        said = capsys.readouterr()
        assert not said.out
        return said.err

    write_json("my.yaml", CONFIG)
    assert "sentence is empty" in refused(" \u2003", "--configfile", "my.yaml")
    assert "--run 'wide'" in refused("x", "--configfile", "my.yaml", "--run", "wide")
    with pytest.raises(SystemExit):
        script(["x", "--most=-1"])
    assert "--most" in capsys.readouterr().err
    shutil.rmtree("results/manifests")
    files = "results/manifests/train.json results/manifests/validation.json"
    assert refused("x", "--configfile", "my.yaml").endswith(f"snakemake command {files}\n")
