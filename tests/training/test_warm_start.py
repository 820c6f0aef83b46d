"""Runs that begin with a checkpoint: `model.start_from`."""

import shutil

import pytest
from safetensors.numpy import load_file
from small_checkpoint import WEIGHTS, beginning_with, saved
from small_run import result, run_child, small_job, small_run, told

from mlm.foundations.atomic import read_json, write_json, write_weights
from mlm.foundations.errors import MlmError
from mlm.training.pretrain import engine_of, open_devices


@pytest.mark.slow
@pytest.mark.parametrize("engine", ["jax", "tensorflow"])
def test_it_begins_where_the_other_ended_and_a_kill_changes_nothing(root, engine):
    scratch = {"model": {"family": "bert"}, "pretraining": {"engine": engine}}
    assert run_child(root, f"scratch-{engine}", scratch) == 0
    before = read_json(root / f"runs/scratch-{engine}/training.json")["final"]["validation_loss"]
    checkpoint = root / f"runs/scratch-{engine}/model"
    overrides = beginning_with(checkpoint, engine)
    assert run_child(root, f"whole-{engine}", overrides) == 0
    said = read_json(root / f"runs/whole-{engine}/training.json")["warm_start"]
    assert said["validation_loss"] == pytest.approx(before, abs=1e-5)
    assert said["missing"] == said["unexpected"] == [] and said["checkpoint"] == "model"
    assert run_child(root, f"killed-{engine}", overrides, {"step": 7}) == -9
    assert run_child(root, f"killed-{engine}", overrides) == 0
    assert "resumes from step 5" in told(root, f"killed-{engine}")
    assert result(root, f"killed-{engine}") == result(root, f"whole-{engine}")
    assert read_json(root / f"runs/killed-{engine}/training.json")["warm_start"] == said
    # Another content is another training.
    write_json(checkpoint / "config.json", read_json(checkpoint / "config.json") | {"note": 1})
    assert run_child(root, f"killed-{engine}", overrides) == 0
    assert "starts over" in told(root, f"killed-{engine}")


def test_another_vocabulary_is_refused(root, tmp_path):
    checkpoint = tmp_path / "checkpoint"
    shutil.copytree(saved(tmp_path), checkpoint)
    content = read_json(checkpoint / "tokenizer.json")
    vocabulary = content["model"]["vocab"]
    first, second = list(vocabulary)[-2:]
    vocabulary[first], vocabulary[second] = vocabulary[second], vocabulary[first]
    write_json(checkpoint / "tokenizer.json", content)
    with pytest.raises(MlmError, match=r"tokenizer\.pretrained\.path"):
        small_run(root, beginning_with(checkpoint))


def rewritten(directory, change) -> None:
    """Give the weights of the checkpoint as `change` of name and value has them; None: not."""
    weights = {n: change(n, w) for n, w in load_file(directory / WEIGHTS).items()}
    write_weights({n: w for n, w in weights.items() if w is not None}, directory / WEIGHTS)


@pytest.mark.parametrize(
    ("spoil", "words"),
    [
        (lambda d: (d / "tokenizer.json").unlink(), "tokenizer.json"),
        ({"tie_word_embeddings": False}, "tie_word_embeddings"),
        (lambda d: rewritten(d, lambda n, w: None if "layer.0" in n else w), "layer.0"),
        (lambda d: rewritten(d, lambda n, w: w[:-1] if "word_emb" in n else w), "word_embeddings"),
        ({"hidden_size": "32"}, "hidden_size"),
        ({"hidden_size": 64}, "LayerNorm.bias"),
        ({"max_position_embeddings": 8}, "max_position_embeddings"),
    ],
)
def test_what_does_not_fit_is_named(root, tmp_path, spoil, words):
    checkpoint = tmp_path / "checkpoint"
    shutil.copytree(saved(tmp_path), checkpoint)
    if isinstance(spoil, dict):
        fields = read_json(checkpoint / "config.json") | spoil
        write_json(checkpoint / "config.json", fields)
    else:
        spoil(checkpoint)
    with pytest.raises(MlmError, match=words):
        run, _ = small_run(root, beginning_with(checkpoint))
        engine_of(run, open_devices("jax", small_job(root)[0].accelerator, 8))
