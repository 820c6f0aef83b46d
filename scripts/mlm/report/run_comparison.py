"""Comparing runs: which is best, which differences mean something, what seeds alone change."""

import copy
import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean, stdev
from typing import Any

import numpy as np

from mlm.config.fields import merged
from mlm.config.resolution import short_name
from mlm.evaluation.artefacts import Difference, EvaluationFigures
from mlm.evaluation.bootstrap import interval, resampled_means
from mlm.foundations.atomic import canonical_json
from mlm.foundations.digests import value_sha256
from mlm.report.other_runs import OtherRun
from mlm.report.report_inputs import RunResults
from mlm.report.template_filters import value

#: Settings of the evaluation on which its questions depend.
MASK_SETTINGS = ("mlm_probability", "mask_token", "random_token", "seed")


@dataclass(frozen=True)
class Standing:
    """A run, of this directory or (`other`) of another one, beside the best run here: `difference`
    is its bits per character less those of the best, with its interval; or `unpaired` says why the
    two do not compare."""

    run: str
    best: bool
    other: bool
    validation_loss: float
    loss: float
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


def best_run(runs: Sequence[RunResults]) -> RunResults:
    """The run with the lowest final validation loss, never test loss; the first of equals."""
    return min(runs, key=lambda run: run.training.final.validation_loss)


def standings(runs: Sequence[RunResults], also: Sequence[OtherRun] = ()) -> list[Standing]:
    """A Standing for each of `runs` and each run of another directory, in the order given."""
    best, found = best_run(runs), []
    for run in [*runs, *also]:
        one, difference, unpaired = run.evaluation, None, None
        if run is not best and (unpaired := _unpaired(one, best.evaluation)) is None:
            difference = _less(one, best.evaluation)
        found.append(
            Standing(
                run=run.name,
                best=run is best,
                other=isinstance(run, OtherRun),
                validation_loss=run.training.final.validation_loss,
                loss=one.test.hidden.loss,
                bits_per_character=one.test.bits_per_character,
                difference=difference,
                unpaired=unpaired,
            )
        )
    return found


def _unpaired(one: EvaluationFigures, best: EvaluationFigures) -> str | None:
    """Why bits per character of the two do not compare, in a sentence; None: they do."""
    texts = [str(evaluation.digests.get("text")) for evaluation in (one, best)]
    if texts[0] != texts[1]:
        return "The held-out documents differ: sha256 {:.12}… and {:.12}….".format(*texts)
    for name in MASK_SETTINGS:
        values = [value(evaluation.settings[name]) for evaluation in (one, best)]
        if values[0] != values[1]:
            return "evaluation.{} differs: {} and {}.".format(name, *values)
    sums = one.group_sums, best.group_sums
    if one.digests["manifest"] != best.digests["manifest"]:
        if sums[0].characters is None:
            return "All held-out text is one group, so no interval can resample groups."
    elif sums[0].predictions != sums[1].predictions:
        return "The predicted tokens differ (evaluation.max_tokens)."
    if None in (one.test.bits_per_character, best.test.bits_per_character):
        return "The number of characters of the test text is not known."
    return None


def _less(one: EvaluationFigures, best: EvaluationFigures) -> Difference:
    """The bits per character of `one` less those of `best`, and the interval: the same groups with
    predictions in both are drawn for both, with the bootstrap of `best`."""
    how, seed = best.settings["bootstrap"], best.settings["seed"]
    kept = np.logical_and(one.group_sums.predictions, best.group_sums.predictions)

    def drawn(above: Sequence[float], below: Sequence[int]) -> np.ndarray:
        totals, counts = np.asarray(above)[kept, None], np.asarray(below)[kept]
        return resampled_means(totals, counts, how["resamples"], seed)[:, 0]

    def bits(evaluation: EvaluationFigures) -> np.ndarray:
        sums, test = evaluation.group_sums, evaluation.test
        losses = drawn(sums.loss, sums.predictions)
        if sums.characters is None:
            # Of a loss of 0 all are 0.
            return losses * (test.bits_per_character / (test.hidden.loss or 1))
        return losses / math.log(2) * drawn(sums.tokens, sums.characters)

    difference = one.test.bits_per_character - best.test.bits_per_character
    return Difference(difference, interval(bits(one) - bits(best), how["confidence"]))


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
