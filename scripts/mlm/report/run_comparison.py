"""Comparing runs: which is best, which differences mean something, what seeds alone change."""

import copy
import statistics
from dataclasses import dataclass

import numpy as np

from mlm.evaluation.artefacts import EvaluationFigures
from mlm.evaluation.bootstrap import interval, resampled_means
from mlm.foundations.digests import value_sha256
from mlm.report.report_inputs import RunResults

#: Settings of the evaluation on which its questions depend.
MASK_SETTINGS = ("mlm_probability", "mask_token", "random_token", "seed")


@dataclass(frozen=True)
class Standing:
    """Where a run stands. `difference` is its test loss less that of the best run, in nats, and
    `interval` its confidence interval, None where the two cannot be paired."""

    run: str
    best: bool
    loss: float
    difference: float
    interval: tuple[float, float] | None

    @property
    def apart(self) -> bool | None:
        """Whether the difference is beyond chance; None: not known."""
        return None if self.interval is None else self.interval[0] > 0


@dataclass(frozen=True)
class SeedGroup:
    """Runs that differ in nothing but the seed, with mean and spread over them.

    The spread is the sample standard deviation (n - 1).
    """

    runs: tuple[str, ...]
    seeds: tuple[int, ...]
    overrides: dict
    loss_mean: float
    loss_spread: float
    accuracy_mean: float
    accuracy_spread: float


def best_run(runs: list[RunResults]) -> RunResults:
    """The run of the lowest test loss; the first of equals."""
    return min(runs, key=lambda run: run.evaluation.test.loss)


def standings(runs: list[RunResults]) -> list[Standing]:
    """A Standing for each run, in the order given."""
    best = best_run(runs)
    rows = []
    for run in runs:
        loss = run.evaluation.test.loss
        found = None if run is best else paired_interval(run.evaluation, best.evaluation)
        difference = loss - best.evaluation.test.loss
        rows.append(Standing(run.name, run is best, loss, difference, found))
    return rows


def paired_interval(one: EvaluationFigures, other: EvaluationFigures) -> tuple[float, float] | None:
    """The interval of the first evaluation's loss less that of the second, in nats.

    Both answer the same questions, so that the same groups are drawn for both. None where they
    do not: other test data, masks or settings of the bootstrap.
    """
    counts = one.group_sums.predictions
    if _questions(one) != _questions(other) or counts != other.group_sums.predictions:
        return None
    how, seed = one.settings["bootstrap"], one.settings["seed"]
    totals = np.subtract(one.group_sums.loss, other.group_sums.loss)[:, None]
    means = resampled_means(totals, np.asarray(counts), how["resamples"], seed)
    return interval(means[:, 0], how["confidence"])


def _masks(evaluation: EvaluationFigures) -> tuple:
    return tuple(evaluation.settings[name] for name in MASK_SETTINGS)


def _questions(evaluation: EvaluationFigures) -> tuple:
    return evaluation.digests["manifest"], _masks(evaluation), evaluation.settings["bootstrap"]


def comparable(runs: list[RunResults]) -> list[str]:
    """Reasons why the test figures of the runs may not be set side by side; empty if none."""
    reasons = []
    if len({run.evaluation.digests["manifest"] for run in runs}) > 1:
        reasons.append("The runs were evaluated on different test data.")
    if len({_masks(run.evaluation) for run in runs}) > 1:
        reasons.append(f"The runs were evaluated on different masks ({', '.join(MASK_SETTINGS)}).")
    return reasons


def seed_groups(runs: list[RunResults], seed: int) -> list[SeedGroup]:
    """Groups of two or more runs with the same settings but for the seed.

    `seed` is the one that a run without its own takes.
    """
    groups: dict[str, list[tuple[int, RunResults]]] = {}
    settings: dict[str, dict] = {}
    for run in runs:
        rest = copy.deepcopy(run.overrides)
        own = rest.get("pretraining", {}).pop("seed", None)
        rest = {k: v for k, v in rest.items() if v}
        key = value_sha256(rest)
        settings[key] = rest
        groups.setdefault(key, []).append((seed if own is None else own, run))
    return [_group(members, settings[key]) for key, members in groups.items() if len(members) > 1]


def _group(members: list[tuple[int, RunResults]], overrides: dict) -> SeedGroup:
    def figures(key: str) -> tuple[float, float]:
        values = [getattr(r.evaluation.test, key) for _, r in members]
        return statistics.fmean(values), statistics.stdev(values)

    loss, accuracy = figures("loss"), figures("accuracy")
    return SeedGroup(
        runs=tuple(r.name for _, r in members),
        seeds=tuple(s for s, _ in members),
        overrides=overrides,
        loss_mean=loss[0],
        loss_spread=loss[1],
        accuracy_mean=accuracy[0],
        accuracy_spread=accuracy[1],
    )


def flattened(overrides: dict, prefix: str = "") -> dict[str, object]:
    """Nested overrides as `{"pretraining.seed": 1}`."""
    flat: dict[str, object] = {}
    for key in sorted(overrides):
        value, name = overrides[key], f"{prefix}{key}"
        if isinstance(value, dict) and value:
            flat |= flattened(value, f"{name}.")
        elif not isinstance(value, dict):
            flat[name] = value
    return flat
