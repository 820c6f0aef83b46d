"""The samples that a run's engine reads, and what a damaged shard says."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from small_run import small_job, small_run, write_inputs

from mlm.foundations.errors import MlmError
from mlm.samples.manifests import Manifest
from mlm.training.engine import RunEngine
from mlm.training.pretrain import engine_of, open_devices


class Stored(RunEngine):
    """An engine that computes nothing."""

    def __init__(self, run):
        self._run, self._validation, self.step = run, None, 0

    def _training_batch(self, phase, step, stored):
        return stored

    def _validation_batch(self, stored):
        return stored


Stored.__abstractmethods__ = frozenset()


def validation(root, samples, **how) -> dict[str, np.ndarray]:
    run, _ = small_run(root, {"pretraining": {"validation": {"samples": samples}} | how})
    batches = [batch for _, batch in Stored(run)._validation_batches()]
    assert {len(batch["index"]) for batch in batches} == {run.validation_batch_size}
    return {name: np.concatenate([batch[name] for batch in batches]) for name in batches[0]}


def test_validation_looks_at_samples_of_the_whole_split_at_any_batch_size(root):
    few = validation(root, 6)
    assert few["index"][few["index"] >= 0].tolist() == [0, 10, 20, 30, 40, 50], "of 60"
    whole = validation(root, None)
    assert whole["index"].tolist() == [*range(60), *[-1] * 4]
    other = validation(root, None, per_replica_batch_size=7)
    for name, array in whole.items():
        assert np.array_equal(array[:60], other[name][:60])


def test_a_validation_pass_takes_one_batch_of_a_replica_at_a_time(root):
    """All accumulated batches at once would not fit where one of them does."""
    accumulated = {"optimizer": {"gradient_accumulation_steps": 8}, "per_replica_batch_size": 4}
    run = replace(small_run(root, {"pretraining": accumulated})[0], replicas=2)
    assert (run.batch_size, run.validation_batch_size) == (4 * 8 * 2, 4 * 2)


@pytest.mark.parametrize("engine", ["tensorflow", "jax"])
def test_a_shard_that_is_damaged_while_it_is_read_is_reported_in_words(tmp_path, engine):
    write_inputs(tmp_path)
    config, _ = small_job(tmp_path)
    run, files = small_run(tmp_path)
    trained = engine_of(run, open_devices(engine, config.accelerator, 8))
    for manifest in map(Manifest.read, files.manifests.values()):
        for file in (Path(shard.path) for shard in manifest.shards):
            data = bytearray(file.read_bytes())
            data[40] ^= 1
            file.write_bytes(data)
    for read in (lambda: trained.advance(1), trained.validate):
        with pytest.raises(MlmError, match="record 0"):
            read()


def test_a_validation_that_predicts_nothing_is_no_figure(root):
    run, _ = small_run(root, {"pretraining": {"validation": {"samples": 3}}})
    engine = Stored(run)
    engine._placed, engine._validated = lambda batch: batch, lambda batch: (0.0, 0.0, 0.0)
    with pytest.raises(MlmError, match=r"pretraining\.validation\.samples: 3"):
        engine.validate()
