"""Comparing runs: which is best, which differences mean something, what seeds alone change."""

import copy
import math
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import fmean, stdev
from typing import Any

import numpy as np

from mlm.config.merging import merged
from mlm.config.sweep import short_name
from mlm.evaluation.artefacts import Difference, EvaluationFigures
from mlm.evaluation.bootstrap import interval, resampled_means
from mlm.foundations.atomic import canonical_json
from mlm.foundations.digests import value_sha256
from mlm.report.report_inputs import Results, RunResults
from mlm.report.template_filters import value

#: Settings of the evaluation on which its questions depend.
MASK_SETTINGS = ("mlm_probability", "mask_token", "random_token", "seed")
#: Characters of a run's name that fit in tables and legends.
_FITS = 24


@dataclass(frozen=True)
class Standing:
    """A run and how it stands to the best: `difference` is its test loss less that of the best,
    with its interval, None if the two cannot be paired."""

    run: str
    best: bool
    validation_loss: float
    loss: float
    difference: Difference | None


@dataclass(frozen=True)
class OtherInBits:
    """A run of another directory: its `difference` in bits per character, less those of the best
    run here, or `unpaired`, why the two do not compare."""

    run: str
    bits_per_character: float | None
    difference: Difference | None
    unpaired: str | None


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
    """The run with the lowest final validation loss, never test loss; the first of equals."""
    return min(runs, key=lambda run: run.training.final.validation_loss)


def standings(runs: list[RunResults]) -> list[Standing]:
    """A Standing for each run, in the order given."""
    best = best_run(runs)
    return [
        Standing(
            run=run.name,
            best=run is best,
            validation_loss=run.training.final.validation_loss,
            loss=run.evaluation.test.hidden.loss,
            difference=None if run is best else _paired(run.evaluation, best.evaluation),
        )
        for run in runs
    ]


def _paired(one: EvaluationFigures, other: EvaluationFigures) -> Difference | None:
    """The first evaluation's loss less that of the second, the same groups drawn for both; None if
    test data, masks or settings of the bootstrap differ."""
    alike = (
        _asked(one) == _asked(other) and one.settings["bootstrap"] == other.settings["bootstrap"]
    )
    if not alike or one.group_sums.predictions != other.group_sums.predictions:
        return None
    return _less(one, other, one.test.hidden.loss - other.test.hidden.loss)


def others_in_bits(results: Results) -> list[OtherInBits]:
    """An OtherInBits for each run of another directory, in the order given."""
    best, found = best_run(results.runs).evaluation, []
    for other in results.also:
        one, difference = other.evaluation, None
        bits, unpaired = one.test.bits_per_character, _unpaired(one, best)
        if unpaired is None:
            difference = _less(one, best, bits - best.test.bits_per_character, in_bits=True)
        found.append(OtherInBits(other.name, bits, difference, unpaired))
    return found


def _unpaired(one: EvaluationFigures, other: EvaluationFigures) -> str | None:
    """Why bits per character of the two do not compare, in a sentence; None: they do."""
    texts = [evaluation.digests["text"] for evaluation in (one, other)]
    if texts[0] != texts[1]:
        return "The held-out documents differ: sha256 {:.12}… and {:.12}… here.".format(*texts)
    for name in MASK_SETTINGS:
        values = [value(evaluation.settings[name]) for evaluation in (one, other)]
        if values[0] != values[1]:
            return "evaluation.{} differs: {} and {} here.".format(name, *values)
    if one.group_sums.characters is None:
        return "All held-out text is one group, so no interval can resample groups."
    return None


def _less(
    one: EvaluationFigures, other: EvaluationFigures, difference: float, in_bits: bool = False
) -> Difference:
    """The `difference` of the two and its interval, the same groups drawn for both: of losses, or
    of bits per character, of groups with predictions in both; with the second's bootstrap."""
    how, seed = other.settings["bootstrap"], other.settings["seed"]
    kept = np.logical_and(one.group_sums.predictions, other.group_sums.predictions)

    def drawn(above: Sequence[float], below: Sequence[int]) -> np.ndarray:
        totals, counts = np.asarray(above)[kept, None], np.asarray(below)[kept]
        return resampled_means(totals, counts, how["resamples"], seed)[:, 0]

    first, second = (
        drawn(sums.loss, sums.predictions)
        * (drawn(sums.tokens, sums.characters) / math.log(2) if in_bits else 1)
        for sums in (one.group_sums, other.group_sums)
    )
    return Difference(difference, interval(first - second, how["confidence"]))


def _asked(evaluation: EvaluationFigures) -> tuple[str, tuple]:
    """The digest of the test data, and how it was masked."""
    masks = tuple(evaluation.settings[name] for name in MASK_SETTINGS)
    return evaluation.digests["manifest"], masks


def comparable(runs: list[RunResults], config: Mapping[str, Any]) -> list[str]:
    """Reasons why the losses of the runs may not be set side by side; empty if none."""
    texts, masks = map(set, zip(*(_asked(run.evaluation) for run in runs), strict=True))
    validated = differing_settings(runs, config).get("pretraining.validation.samples", ())
    reasons = {
        "The runs were validated on different samples (pretraining.validation.samples).": validated,
        "The runs were evaluated on different test data.": texts,
        f"The runs were evaluated on different masks ({', '.join(MASK_SETTINGS)}).": masks,
    }
    return [reason for reason, found in reasons.items() if len(found) > 1]


def differing_settings(
    runs: list[RunResults], config: Mapping[str, Any]
) -> dict[str, list[object]]:
    """The settings that are not the same in all runs, by their path: a value for each run."""
    whole = [flattened(merged(config, run.overrides)) for run in runs]
    found = {}
    for path in sorted({path for run in runs for path in flattened(run.overrides)}):
        values = [settings.get(path) for settings in whole]
        if path == "pretraining.seed":
            values = [config["seed"] if value is None else value for value in values]
        if len({canonical_json(value) for value in values}) > 1:
            found[path] = values
    return found


def setting_names(paths: Collection[str]) -> dict[str, str]:
    """A short name for each of `paths`: learning_rate, but optimizer.name."""
    short = {path: short_name(path, paths) for path in paths}
    return {p: ".".join(p.split(".")[-2:]) if n == "name" else n for p, n in short.items()}


def with_short_names(results: Results) -> Results:
    """`results` with runs called by the settings that differ, such as "size 256, rate 0.006", if
    their names do not fit and that tells them apart in fewer, plain characters."""
    runs, settings = results.runs, differing_settings(results.runs, results.config)
    longest = max(len(run.name) for run in runs)
    names = setting_names(settings)
    ends = {path: name.rsplit("_", 1)[-1] for path, name in names.items()}
    names = ends if len(set(ends.values())) == len(ends) else names
    found = [
        ", ".join(f"{names[path]} {value(values[i])}" for path, values in settings.items())
        for i in range(len(runs))
    ]
    plain = all(re.fullmatch(r"[\w., +-]+", name, re.ASCII) for name in found)
    shorter = longest > _FITS and max(map(len, found)) < longest
    if not (plain and shorter and len(set(found)) == len(runs)):
        return results
    # No line ends between a setting and its value.
    found = [re.sub("(?<!,) ", "\u00a0", name) for name in found]
    runs = [replace(run, name=name) for run, name in zip(runs, found, strict=True)]
    return replace(results, runs=runs)


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
            tests = [run.evaluation.test.hidden for run in members]
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
