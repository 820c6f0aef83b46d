"""A step that is made again is the step that the training made, to the last bit."""

import contextlib
import json
import os
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import yaml
from small_run import (
    in_child,
    run_child,
    small_samples,
    small_settings,
    write_split,
    write_tokenizer,
)
from tokenizers.pre_tokenizers import WhitespaceSplit

from mlm.config.resolution import resolve
from mlm.corpus.corpus_building import build_corpus
from mlm.corpus.file_patterns import matched_files, used_settings
from mlm.foundations.digests import file_sha256
from mlm.foundations.errors import MlmError
from mlm.samples.shuffling import SampleOrder

pytestmark = pytest.mark.slow

STEPS = 24
#: A row of the log for every step, and states after every fifth.
COMMON = {"steps": STEPS, "log_every": 1, "checkpoint": {"every": 5, "keep": None}}
CASES = {
    "plain": {"pretraining": COMMON},
    "divided": {
        "pretraining": COMMON
        | {
            "per_replica_batch_size": 4,
            "optimizer": {"name": "muon", "gradient_accumulation_steps": 2},
            "shuffle_window": 30,
            "steps_per_execution": 3,
        },
        "model": {"initialisation": {"embeddings": "cooccurrence"}},
        "accelerator": {"virtual_replicas": 2},
    },
    # The loss of a step is that of one sample and all classes, and nothing is dropped out.
    "alone": {
        "pretraining": COMMON
        | {"per_replica_batch_size": 1, "log_every": 3, "softmax_classes": None},
        "model": {"config": {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}},
    },
}
#: Samples of each shard of train, and the number of the first sample of each split.
COUNTS, FIRST = (66, 67, 67), {"train": 0, "validation": 300, "test": 400}
CORPUS = {"source": "files", "files": {split: [f"data/{split}.txt"] for split in FIRST}}


def overrides(case: str, engine: str, root: Path) -> dict:
    """Settings of a case, as `small_job` merges them."""
    given = CASES[case]
    checkpoint = given["pretraining"]["checkpoint"] | {"directory": str(root / "state")}
    own = {"engine": engine, "checkpoint": checkpoint}
    if engine == "jax":
        own["steps_per_execution"] = 1
    return given | {"pretraining": given["pretraining"] | own}


def samples_at(positions) -> list[int]:
    """The samples of train that stand there in the order of a training."""
    return SampleOrder(COUNTS, seed=0, window=100).samples(np.array(positions))[1].tolist()


def write_project(root: Path) -> None:
    """Inputs of a small run as the workflow's stages lay them out, and where `small_run` looks;
    each document of the corpus fills a sample."""
    results = root / "results"
    made = write_tokenizer(results / "tokenizer", WhitespaceSplit())
    for name in ("runs", "corpus", "manifests"):
        (results / name).mkdir()
    (root / "tokenizer").symlink_to(made.parent)
    (root / "runs").symlink_to(results / "runs")
    (root / "data").mkdir()
    counts = {"train": COUNTS, "validation": (60,), "test": (60,)}
    for split, first in FIRST.items():
        lines = (f"{sentence(n)}\n" for n in range(first, first + sum(counts[split])))
        (root / "data" / f"{split}.txt").write_text("".join(lines))
    with contextlib.chdir(root):
        settings = resolve({"corpus": CORPUS})
        corpus = build_corpus(
            used_settings(settings["corpus"], settings["seed"]),
            matched_files(CORPUS["files"]),
            {split: [f"results/corpus/{split}.parquet"] for split in FIRST},
            {split: f"results/corpus/{split}.json" for split in FIRST},
        )
    for split in ("train", "validation"):
        samples = small_samples(sum(counts[split]), first=FIRST[split])
        digest, path = file_sha256(made), results / "manifests" / f"{split}.json"
        manifest = write_split(
            root / "shards", split, counts[split], tokenizer_sha256=digest, samples=samples
        )
        text = {"corpus_sha256": corpus[split].sha256, "documents": corpus[split].documents}
        replace(manifest, **text).write(path)
        (root / f"{split}.json").symlink_to(path)


def sentence(sample: int) -> str:
    return " ".join(f"w{i}" for i in small_samples(1, first=sample)[0][1:-1])


def trained(root: Path, case: str, engine: str) -> Path:
    """A project below `root` whose run was trained to its end."""
    write_project(root)
    assert run_child(root, "base", overrides(case, engine, root)) == 0
    write_config(root, overrides(case, engine, root))
    return root


def write_config(root: Path, changed: dict) -> None:
    """The configuration that questions are asked with, in which states are below `root`."""
    given = small_settings(changed).given | {"corpus": CORPUS}
    given["pretraining"]["checkpoint"]["directory"] = "state"
    (root / "config.yaml").write_text(yaml.safe_dump(given))


def replays(root: Path, *questions: tuple) -> list[dict]:
    """What each question, a sentence and a step, is answered, in a process of its own; with the
    text of the MlmError where it is refused."""
    assert in_child(_replay, root, questions) == 0
    return json.loads((root.parent / f"{root.name}-replays.json").read_text())


def _replay(root: Path, questions: tuple[tuple, ...]) -> None:
    os.chdir(root)
    from mlm.asking.answer import ask
    from mlm.asking.in_words import replay_in_words
    from mlm.asking.replay import replay
    from mlm.foundations.typed_artefacts import as_json

    settings, found = resolve(yaml.safe_load(Path("config.yaml").read_text())), []
    for text, step in questions:
        answer = ask(text, settings, "base")
        try:
            made = replay(answer, settings, step)
            found.append(as_json(made) | {"words": replay_in_words(made, answer)})
        except MlmError as error:
            found.append({"error": str(error)})
    (root.parent / f"{root.name}-replays.json").write_text(json.dumps(found))


def losses(root: Path) -> dict[int, float]:
    """The training's own losses by step, in full, from its last saved state."""
    (place,) = root.glob(f"state/base/*/step-{STEPS:08d}/progress.json")
    return {row["step"]: row["loss"] for row in json.loads(place.read_text())["rows"]}


def without_early_states(root: Path) -> None:
    for place in root.glob("state/base/*/step-*"):
        if place.name != f"step-{STEPS:08d}":
            shutil.rmtree(place)


def check(found: dict, logged: dict[int, float]) -> None:
    assert "error" not in found, found
    assert found["loss"] == logged[found["step"]]
    assert f"its loss was {found['loss']:.6f}" in found["words"]
    for token in (token for use in found["uses"] for token in use["tokens"]):
        chances = [guess["probability"] for guess in token["first"]]
        assert len(chances) == 5 and chances == sorted(chances, reverse=True)
        assert 0 < sum(chances) <= 1
        for guess in token["first"]:
            if guess["id"] == token["token"]["id"]:
                assert token["loss"] == pytest.approx(-np.log(guess["probability"]))


@pytest.fixture(scope="module", params=["tensorflow", "jax"])
def made(request, tmp_path_factory):
    return trained(tmp_path_factory.mktemp(request.param) / "plain", "plain", request.param)


def test_a_step_made_again_has_the_loss_of_the_training_to_the_last_bit(made):
    before = {p: (p.stat().st_size, p.stat().st_mtime_ns) for p in made.rglob("*")}
    found = replays(made, *((sentence(s), None) for s in (0, 57, 123)))
    assert {p: (p.stat().st_size, p.stat().st_mtime_ns) for p in made.rglob("*")} == before
    for one in found:
        check(one, losses(made))
        at = (one["step"] - 1) // 5 * 5
        assert one["begun_at"] == at
        assert (one["state"] or "").endswith(f"step-{at:08d}" if at else "")
        assert one["uses"][0]["tokens"]
    assert len({one["step"] for one in found}) > 1


@pytest.mark.parametrize("made", ["tensorflow"], indirect=True)
def test_steps_are_made_again_from_what_is_left(made, tmp_path):
    """A damaged state is passed over; without any before the step the initial weights serve."""
    project = shutil.copytree(made, tmp_path / "project", symlinks=True)
    logged, (states,) = losses(project), project.glob("state/base/*")
    question = sentence(57), None
    (whole,) = replays(project, question)
    assert whole["begun_at"] == 20
    (states / "step-00000020" / "progress.json").write_text("{}")
    shutil.rmtree(states / "step-00000015")
    (found,) = replays(project, question)
    check(found, logged)
    assert found["begun_at"] == 10 and found["uses"] == whole["uses"]
    without_early_states(project)
    (found,) = replays(project, question)
    assert (found["begun_at"], found["state"], found["loss"]) == (0, None, whole["loss"])
    assert found["uses"] == whole["uses"]
    assert "from the initial weights" in found["words"]
    shutil.rmtree(states)
    (found,) = replays(project, question)
    assert "has no saved state of run base after step 24, so that" in found["error"]


@pytest.mark.parametrize("engine", ["tensorflow", "jax"])
def test_accumulation_replicas_and_counted_embeddings_are_made_again(tmp_path, engine):
    root = trained(tmp_path / "divided", "divided", engine)
    logged = losses(root)
    # Devices are opened once in a process.
    found = replays(root, (sentence(57), None))
    without_early_states(root)
    found += replays(root, (sentence(123), None))
    assert found[-1]["begun_at"] == 0
    for one in found:
        check(one, logged)


@pytest.mark.parametrize("engine", ["tensorflow", "jax"])
def test_the_model_is_asked_as_it_stood_before_the_update(tmp_path, engine):
    """With one sample a step, all of it asked about, the loss of the step is that of its tokens."""
    root = trained(tmp_path / "alone", "alone", engine)
    steps = (2, 9, 18)
    samples = samples_at([step - 1 for step in steps])
    for one in replays(root, *zip(map(sentence, samples), steps, strict=True)):
        assert one["samples"] == 1
        told = [token["loss"] for use in one["uses"] for token in use["tokens"]]
        assert one["loss"] == pytest.approx(np.mean(told), rel=1e-5)


def test_a_run_that_continues_another_is_made_again_from_the_others_states(tmp_path):
    root = tmp_path / "branch"
    write_project(root)
    steady = {"name": "adamw", "learning_rate": 6e-3, "warmup_steps": 4, "decay_steps": 0}
    stable = overrides("plain", "jax", root)
    stable["pretraining"] = stable["pretraining"] | {"optimizer": steady}
    falling = stable | {
        "pretraining": stable["pretraining"]
        | {"optimizer": steady | {"decay_steps": STEPS - 10, "decay": "1-sqrt"}},
        "runs": {
            "base": {"pretraining": {"continue_from": {"run": "stable", "step": 10}}},
            "stable": {"pretraining": {"optimizer": steady | {"decay": "linear"}}},
        },
    }
    assert run_child(root, "stable", stable) == 0
    assert run_child(root, "base", falling | {"parent": ("stable", stable)}) == 0
    write_config(root, falling)
    logged = losses(root)
    samples = samples_at([8 * step - 5 for step in (4, 12, 17, 22)])
    found = replays(root, *((sentence(s), None) for s in samples))
    own = [one for one in found if "error" not in one]
    for one in own:
        check(one, logged)
        where = "state/base" if one["begun_at"] > 10 else "state/stable"
        assert one["step"] > 10 and where in one["state"]
    assert own and len(own) < len(found)
    for one in found:
        assert one in own or "one of that run: ask with --run stable" in one["error"]
