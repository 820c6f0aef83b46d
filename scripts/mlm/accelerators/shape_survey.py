"""One compilation for one shape: what shapes the data really has, and how often is traced.

A TPU compiles anew for every new shape, which takes minutes; so the first epoch and the
validation pass are read through the run's own pipeline, and each distinct shape is counted.
"""

import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from itertools import islice

import numpy as np

from mlm.accelerators.artefacts import Survey
from mlm.accelerators.findings import ERROR, Finding
from mlm.accelerators.lowering import TrainStep, first_epoch
from mlm.foundations.framework import tf
from mlm.samples.input_pipeline import reading_in_words, training_batches
from mlm.samples.stored_batches import BatchOrder
from mlm.training.in_tensorflow.engine import validation_batches
from mlm.training.in_tensorflow.train_step import (
    distributed_train_step,
    distributed_validation_step,
)
from mlm.training.run import Run

#: A function that is traced so often is traced for every batch: no need to go on.
_MANY_TRACES = 5
_SHAPES_SHOWN = 3


@dataclass
class Calls:
    """The calls of one function: how many, their distinct signatures, and the traces."""

    calls: int = 0
    traces: int = 0
    signatures: Counter = field(default_factory=Counter)


def signature_of(arguments) -> tuple:
    """What a trace is keyed by: shapes and types of tensors, the values of all else."""
    return tuple(
        (tuple(a.shape), a.dtype.name) if isinstance(a, (tf.Tensor, tf.TensorSpec)) else repr(a)
        for a in tf.nest.flatten(arguments)
    )


def count_traces(function, calls: Iterable[tuple]) -> Calls:
    """Trace `function` (a tf.function) for each call's arguments as calling it would.

    Nothing is executed. Ends early once the traces show that every batch causes one.
    """
    counted = Calls()
    for arguments in calls:
        counted.calls += 1
        signature = signature_of(arguments)
        counted.signatures[signature] += 1
        if counted.signatures[signature] == 1:
            function.get_concrete_function(*arguments)
            counted.traces = function.experimental_get_tracing_count()
            if counted.traces >= _MANY_TRACES:
                break
    return counted


def check_calls(name: str, counted: Calls, expected: tuple | None = None) -> list[Finding]:
    """Whether one trace serves every call, and has the signature `expected`."""
    shapes = list(counted.signatures)
    odd = [s for s in shapes if s != expected] if expected is not None else []
    if odd:
        message = (
            f"{name}: {len(shapes)} different shapes in {counted.calls} batches; expected "
            f"{_shown(expected)}, found also {'; '.join(map(_shown, odd[:_SHAPES_SHOWN]))}. Each "
            "one is compiled anew: drop or fill up a last batch that is not full"
        )
    elif counted.traces > 1:
        kinds = "; ".join(map(_shown, shapes[:_SHAPES_SHOWN]))
        message = (
            f"{name}: traced {counted.traces} times in {counted.calls} batches, with {kinds}. "
            "Pass numbers that change as tensors, and keep every shape the same"
        )
    else:
        return []
    return [Finding("one_compilation", ERROR, message)]


def _shown(signature: tuple) -> str:
    first = signature[0] if signature else "nothing"
    values = [str(s) for s in signature if isinstance(s, str)]
    if values:
        return f"the Python values {', '.join(values[:_SHAPES_SHOWN])}"
    return f"{first[1]}{list(first[0])}" if isinstance(first, tuple) else str(first)


def survey_epoch(run: Run, step: TrainStep) -> tuple[Survey, list[Finding]]:
    """Read the first epoch's and the validation pass' batches."""
    strategy = tf.distribute.get_strategy()
    expected = signature_of(step.signature)
    train = _shapes(first_epoch(run), "first epoch")
    # The loop around the step is traced for an iterator and a number of steps.
    loop = distributed_train_step(strategy, step.function)
    iterator = iter(strategy.experimental_distribute_dataset(first_epoch(run).take(1)))
    at_once = run.pretraining.steps_per_execution
    counts = sorted({1, at_once, min(run.pretraining.log_every, at_once)})
    train.traces = count_traces(loop, ((iterator, tf.constant(n)) for n in counts)).traces
    validation_step = distributed_validation_step(strategy, step.model)
    passes = validation_batches(run, run.validation_batch_size)
    passed = _told(passes, "validation pass")
    validation = count_traces(validation_step, ((b,) for b in passed))
    survey = Survey(
        training_batches=train.calls,
        training_shapes=len(train.signatures),
        validation_batches=validation.calls,
        validation_shapes=len(validation.signatures),
        training_traces=train.traces,
        validation_traces=validation.traces,
    )
    findings = check_calls("first epoch", train, expected)
    return survey, findings + check_calls("validation pass", validation)


def _shapes(dataset, name: str) -> Calls:
    counted = Calls()
    for batch in _told(dataset, name):
        counted.calls += 1
        counted.signatures[signature_of(batch)] += 1
    return counted


def _told(dataset, name: str) -> Iterator:
    number = 0
    with reading_in_words():
        for number, batch in enumerate(dataset, start=1):  # noqa: B007
            yield batch
    print(f"{name}: looked at {number} batches", file=sys.stderr)


def position_is_restorable(
    run: Run, pipeline: Callable = training_batches, skipped: int = 2
) -> list[Finding]:
    """Whether the stream begun at a later step is the stream that came by there."""

    def batches(start: int):
        return pipeline(
            run.train,
            run.plan,
            BatchOrder(
                seed=run.seed,
                global_batch_size=run.batch_size,
                shuffle_window=min(run.pretraining.shuffle_window, 1024),
                start_step=start,
                steps=skipped + 1,
            ),
        )

    straight = next(islice(iter(batches(0)), skipped, None))
    resumed = next(iter(batches(skipped)))
    if all(np.array_equal(straight[key], resumed[key]) for key in straight):
        return []
    return [
        Finding(
            "position_restorable",
            ERROR,
            f"batch {skipped} differs between a pipeline begun at step 0 and one begun at step "
            f"{skipped}: a resumed training would see other data than an uninterrupted one",
        )
    ]
