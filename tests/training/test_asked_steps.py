"""What `mlm.asking` computes is what a training was shown: compared with one that is recorded."""

import json
import multiprocessing

import numpy as np
import pytest
from small_run import LENGTH, small_job, small_run, small_samples, write_inputs

PAIRS = 1000
#: One batch a step, and what else decides which sample a step is shown and how.
CASES = {
    "plain": {"pretraining": {"steps": 80}},
    "divided": {
        "pretraining": {
            "steps": 40,
            "per_replica_batch_size": 4,
            "optimizer": {"gradient_accumulation_steps": 2},
            "masking": {"whole_word": True, "mlm_probability": 0.3},
            "shuffle_window": 30,
            "seed": 7,
        },
        "accelerator": {"virtual_replicas": 2},
    },
}


def recorded_training(root, framework: str, case: str) -> None:
    """Train in this process, a child of its own, and write what each step was handed.

    One row a sample and step: the step, the tokens shown [LENGTH], the places that the model is
    asked for and the tokens that stood there, -1 for slots without use.
    """
    overrides = CASES[case] | {"pretraining": CASES[case]["pretraining"] | {"engine": framework}}
    config, _ = small_job(root, overrides=overrides)
    # Before JAX counts its devices.
    from mlm.training.engine import engine_of, open_devices

    devices = open_devices(framework, config.accelerator, 8)
    run, _ = small_run(root, overrides, devices.replicas)
    rows = []
    (record_tensorflow if framework == "tensorflow" else record_jax)(rows)
    engine = engine_of(run, devices)
    for _ in range(run.steps):
        engine.advance(1)
    if framework == "jax":
        import jax

        jax.effects_barrier()
    # An input pipeline reads ahead of the last step.
    made = [row for row in rows if row[0] <= run.steps]
    assert len(made) == run.steps * engine.batch_size
    found = {"replicas": devices.replicas, "rows": made}
    (root / f"{framework}-{case}.json").write_text(json.dumps(found))


def rows_of(steps, shown, positions, labels, weights) -> list[list]:
    used = np.asarray(weights) > 0
    positions, labels = (np.where(used, np.asarray(x), -1) for x in (positions, labels))
    return [
        [int(step), *(np.asarray(part).tolist() for part in parts)]
        for step, *parts in zip(steps, np.asarray(shown), positions, labels, strict=True)
    ]


def record_tensorflow(rows: list) -> None:
    """Note every batch that comes out of the input pipeline, in order."""
    from mlm.foundations.framework import tf
    from mlm.training.in_tensorflow import engine

    real, names = engine.training_batches, ("input_ids", "positions", "labels", "weights")

    def noted(*arguments):
        step = iter(range(1, 10**6))

        def note(*parts):
            rows.extend(rows_of([next(step)] * len(parts[0]), *parts))
            return np.int64(0)

        def of(batch):
            done = tf.numpy_function(note, [batch[name] for name in names], tf.int64)
            with tf.control_dependencies([done]):
                return {name: tf.identity(value) for name, value in batch.items()}

        # One at a time, in the order of the batches.
        return real(*arguments).map(of, num_parallel_calls=1)

    engine.training_batches = noted


def record_jax(rows: list) -> None:
    """Note what the compiled step makes of each batch on the device."""
    import jax

    from mlm.training.in_jax import engine, train_step

    real_step, real_masked, step_now = train_step.train_step, train_step._masked, []

    def stepping(*arguments):
        step = real_step(*arguments)

        def noted(state, stored):
            step_now[:] = [state["step"]]
            return step(state, stored)

        return noted

    def note(step, *parts):
        # Updates made before: the step under way is one more.
        rows.extend(rows_of([step + 1] * len(parts[0]), *parts))

    def masked(computation, stored, plan, seed, epoch):
        batch = real_masked(computation, stored, plan, seed, epoch)
        if "epoch" in stored:
            names = ("input_ids", "positions", "labels", "weights")
            jax.debug.callback(note, step_now[0], *(batch[name] for name in names))
        return batch

    engine.train_step, train_step._masked = stepping, masked


def the_record(root, framework: str, case: str) -> dict:
    child = multiprocessing.get_context("spawn").Process(
        target=recorded_training, args=(root, framework, case)
    )
    child.start()
    child.join()
    assert child.exitcode == 0
    return json.loads((root / f"{framework}-{case}.json").read_text())


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    made = tmp_path_factory.mktemp("asking")
    write_inputs(made)
    return made


def test_validation_is_shown_what_its_pipeline_gives(root):
    from mlm.asking.uses import looked_at_in_validation, shown_in_validation
    from mlm.training.in_tensorflow.engine import validation_batches

    run, _ = small_run(root, with_model=False)
    stored, seen = small_samples(run.validation.num_samples), set()
    for batch in validation_batches(run, 8).as_numpy_iterator():
        for row, index in enumerate(batch["sample_index"].tolist()):
            if index < 0:
                continue
            seen.add(index)
            found = shown_in_validation(run, index, stored[index], np.ones(LENGTH, np.int64))
            np.testing.assert_array_equal(found.input_ids, batch["input_ids"][row])
            places = batch["positions"][row][batch["weights"][row] > 0]
            np.testing.assert_array_equal(np.flatnonzero(found.asked), np.sort(places))
    every = range(run.validation.num_samples)
    assert seen == {i for i in every if looked_at_in_validation(run, i)}
    assert 0 < len(seen) < len(every)


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("framework", ["tensorflow", "jax"])
def test_a_thousand_tokens_are_asked_for_where_the_training_was(root, framework, case):
    """Steps, masks and replacements of tokens drawn at random, every one of them."""
    from mlm.asking.uses import RunBatches

    recorded = the_record(root, framework, case)
    run, _ = small_run(root, CASES[case], recorded["replicas"], with_model=False)

    stored = small_samples(run.train.num_samples)
    numbers = {tuple(ids): number for number, ids in enumerate(stored.tolist())}
    trained = {}
    for step, shown, positions, labels in recorded["rows"]:
        asked = {p: label for p, label in zip(positions, labels, strict=True) if p >= 0}
        was = [asked.get(place, token) for place, token in enumerate(shown)]
        trained.setdefault(numbers[tuple(was)], {})[step] = shown, sorted(asked)

    ones = np.ones_like(stored)
    found = RunBatches.of(run).uses(np.arange(len(stored)), stored, ones)
    for sample, uses in enumerate(found):
        assert [use.step for use in uses] == sorted(trained[sample])
    pairs = [(sample, use) for sample, uses in enumerate(found) for use in uses]
    kinds = set()
    random = np.random.default_rng(0)
    for sample, use in (pairs[i] for i in random.integers(len(pairs), size=PAIRS)):
        place = int(random.integers(LENGTH))
        shown, asked = trained[sample][use.step]
        assert use.shown.asked[place] == (place in asked)
        assert use.shown.input_ids[place] == shown[place]
        if use.shown.asked[place]:
            kinds.add("itself" if shown[place] == stored[sample, place] else shown[place] == 4)
    assert kinds == {"itself", True, False}
