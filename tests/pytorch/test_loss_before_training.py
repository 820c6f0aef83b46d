"""A run that begins with a checkpoint begins at the loss that transformers computes of it."""

import numpy as np
import pytest
from in_pytorch import run_in_pytorch
from small_checkpoint import beginning_with, saved
from small_run import run_child, small_run, told, write_inputs

from mlm.foundations.atomic import read_json, write_json
from mlm.samples.masking import VALIDATION_SEED, mask_batch
from mlm.samples.split_samples import decoded, validation_samples
from mlm.training.artefacts import Training

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("engine", ["jax", "tensorflow"])
def test_the_loss_before_the_first_step_is_that_of_transformers(tmp_path, engine):
    write_inputs(tmp_path)
    checkpoint = saved(tmp_path)
    fields = read_json(checkpoint / "config.json") | {"architectures": ["BertForMaskedLM"]}
    write_json(checkpoint / "config.json", fields)
    overrides = beginning_with(checkpoint, engine)
    run, _ = small_run(tmp_path, overrides)
    assert run_child(tmp_path, "base", overrides) == 0, told(tmp_path, "base")
    begun = Training.read(tmp_path / "runs" / "base" / "training.json").warm_start
    count = run.pretraining.validation.samples or run.validation.num_samples
    stored = map(np.concatenate, zip(*validation_samples(run.validation, 50, count), strict=True))
    index, records = (part[:count] for part in stored)
    ids, attention = decoded(index, records, run.train.sequence_length)
    batch = mask_batch(ids, attention, index, run.validation_plan, VALIDATION_SEED)
    batch = {name: np.asarray(value) for name, value in batch.items()}
    given = {name: batch[name] for name in ("input_ids", "attention_mask")}
    np.savez(tmp_path / "inputs.npz", **given)
    run_in_pytorch("logits.py", tmp_path)
    logits = np.load(checkpoint / "pytorch.npy").astype(np.float64)
    logits = np.take_along_axis(logits, batch["positions"][:, :, np.newaxis], axis=1)
    highest = logits.max(axis=-1, keepdims=True)
    totals = np.log(np.exp(logits - highest).sum(axis=-1)) + highest[..., 0]
    right = np.take_along_axis(logits, batch["labels"][:, :, np.newaxis], axis=-1)[..., 0]
    expected = ((totals - right) * batch["weights"]).sum() / batch["weights"].sum()
    assert begun.missing == begun.unexpected == []
    assert begun.validation_loss == pytest.approx(expected, abs=1e-4)
