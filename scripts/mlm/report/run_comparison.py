"""Comparing runs: which is best, which differences mean something, what seeds alone change."""

import copy
from dataclasses import dataclass
from statistics import fmean, stdev

import numpy as np

from mlm.evaluation.artefacts import EvaluationFigures
from mlm.evaluation.bootstrap import interval, resampled_means
from mlm.foundations.digests import value_sha256
from mlm.report.report_inputs import RunResults

#: Settings of the evaluation on which its questions depend.
MASK_SETTINGS = ("mlm_probability", "mask_token", "random_token", "seed")


@dataclass(frozen=True)
class Standing:
    """A run beside the best: the `difference` of their test losses in nats, with its confidence
    `interval`, None if the two cannot be paired."""

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
    """Runs that differ in nothing but the seed, with mean and sample standard deviation."""

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
    best, rows = best_run(runs), []
    for run in runs:
        loss = run.evaluation.test.loss
        found = None if run is best else _paired_interval(run.evaluation, best.evaluation)
        difference = loss - best.evaluation.test.loss
        rows.append(Standing(run.name, run is best, loss, difference, found))
    return rows


def _paired_interval(
    one: EvaluationFigures, other: EvaluationFigures
) -> tuple[float, float] | None:
    """The interval of the first evaluation's loss less that of the second, in nats, the same groups
    drawn for both; None if test data, masks or settings of the bootstrap differ."""
    counts, how = one.group_sums.predictions, one.settings["bootstrap"]
    alike = _asked(one) == _asked(other) and how == other.settings["bootstrap"]
    if not alike or counts != other.group_sums.predictions:
        return None
    totals = np.subtract(one.group_sums.loss, other.group_sums.loss)[:, None]
    drawn = how["resamples"], one.settings["seed"]
    means = resampled_means(totals, np.asarray(counts), *drawn)
    return interval(means[:, 0], how["confidence"])


def _asked(evaluation: EvaluationFigures) -> tuple[str, tuple]:
    """The digest of the test data, and how it was masked."""
    masks = tuple(evaluation.settings[name] for name in MASK_SETTINGS)
    return evaluation.digests["manifest"], masks


def comparable(runs: list[RunResults]) -> list[str]:
    """Reasons why the test figures of the runs may not be set side by side; empty if none."""
    texts, masks = map(set, zip(*(_asked(run.evaluation) for run in runs), strict=True))
    reasons = {
        "The runs were evaluated on different test data.": texts,
        f"The runs were evaluated on different masks ({', '.join(MASK_SETTINGS)}).": masks,
    }
    return [reason for reason, found in reasons.items() if len(found) > 1]


def seed_groups(runs: list[RunResults], seed: int) -> list[SeedGroup]:
    """Groups of two or more runs with the same settings but for the seed.

    `seed` is the one that a run without its own takes.
    """
    groups: dict[str, list[tuple[int, dict, RunResults]]] = {}
    for run in runs:
        rest = copy.deepcopy(run.overrides)
        own = rest.get("pretraining", {}).pop("seed", None)
        rest = {k: v for k, v in rest.items() if v}
        member = (seed if own is None else own, rest, run)
        groups.setdefault(value_sha256(rest), []).append(member)
    found = []
    for group in groups.values():
        if len(group) > 1:
            seeds, (overrides, *_), members = zip(*group, strict=True)
            tests = [run.evaluation.test for run in members]
            measured = [t.loss for t in tests], [t.accuracy for t in tests]
            spread = (f(values) for values in measured for f in (fmean, stdev))
            names = tuple(run.name for run in members)
            found.append(SeedGroup(names, seeds, overrides, *spread))
    return found


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
