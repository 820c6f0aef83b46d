"""Comparing runs: which is best, which differences mean something, what seeds alone change, and
what they show beside each other."""

import math
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from statistics import fmean, stdev

import numpy as np

from mlm.config.merging_and_sweeps import merged, short_name
from mlm.evaluation.artefacts import Difference, EvaluationFigures, FilledToken
from mlm.evaluation.intervals import Estimate, bits_of
from mlm.finetuning.score_comparison import Finetuning
from mlm.foundations.artefacts import as_json
from mlm.foundations.atomic import canonical_json
from mlm.report.report_inputs import EvaluatedRun, Results, RunResults
from mlm.report.wording import NONE, value
from mlm.samples.preview import PreviewSample

#: Settings of the evaluation on which its questions depend.
MASK_SETTINGS = ("mlm_probability", "seed")


@dataclass(frozen=True)
class Standing:
    """A run beside the best one: `difference` is its bits per character less those of the best,
    with the interval; or `unpaired` says why the two do not compare. The best has neither."""

    run: str
    difference: Difference | None
    unpaired: str | None


@dataclass(frozen=True)
class SeedGroup:
    """Runs that differ in nothing but the seed, with mean and sample standard deviation."""

    runs: tuple[str, ...]
    seeds: tuple[int, ...]
    loss_mean: float
    loss_spread: float
    accuracy_mean: float
    accuracy_spread: float


def best_run(results: Results) -> RunResults:
    """The run with the lowest final validation loss, never test loss; the first of equals."""
    return min(results.runs, key=lambda run: run.training.final.validation_loss)


def standings(results: Results) -> list[Standing]:
    """A Standing for each run of `results`, those of other directories last."""
    best, rows = best_run(results), []
    for run in [*results.runs, *results.also]:
        pair, compared = (run.evaluation, best.evaluation), run is not best
        unpaired = _unpaired(*pair) if compared else None
        difference = _less(*pair) if compared and unpaired is None else None
        rows.append(Standing(run.name, difference, unpaired))
    return rows


def _unpaired(one: EvaluationFigures, best: EvaluationFigures) -> str | None:
    """Why bits per character of the two do not compare, in a sentence; None: they do."""
    texts = [str(evaluation.digests.get("text")) for evaluation in (one, best)]
    if texts[0] != texts[1]:
        return "The held-out documents differ: sha256 {:.12}… and {:.12}….".format(*texts)
    for name in MASK_SETTINGS:
        values = [value(evaluation.settings[name]) for evaluation in (one, best)]
        if values[0] != values[1]:
            return "evaluation.{} differs: {} and {}.".format(name, *values)
    sums = one.cluster_sums, best.cluster_sums
    if one.digests["manifest"] != best.digests["manifest"]:
        if sums[0].characters is None or sums[0].characters != sums[1].characters:
            return (
                "Two vocabularies compare by groups of text, but the intervals are over "
                f"{one.cluster_by} and {best.cluster_by} (corpus.group_by, evaluation.max_tokens)."
            )
    elif sums[0].predictions != sums[1].predictions:
        return "The predicted tokens differ (evaluation.max_tokens)."
    if None in (one.test.bits_per_character, best.test.bits_per_character):
        return "The number of characters of the test text is not known."
    return None


def _less(one: EvaluationFigures, best: EvaluationFigures) -> Difference:
    """Bits per character of `one` less those of `best` over common clusters, with the interval."""

    def table(figures: EvaluationFigures) -> np.ndarray:
        sums, test = figures.cluster_sums, figures.test
        tokens, characters = sums.tokens, sums.characters
        if tokens is None or characters is None:
            # As many tokens per character in every cluster.
            density = (test.bits_per_character or 0) * math.log(2) / (test.loss or 1)
            tokens, characters = [density * n for n in sums.predictions], sums.predictions
        return np.column_stack([sums.loss, tokens, characters, sums.predictions])

    def difference(sums: np.ndarray) -> np.ndarray:
        return bits_of(sums[..., :4]) - bits_of(sums[..., 4:8])

    tables = table(one), table(best)
    both = np.column_stack([*tables, np.minimum(tables[0][:, -1], tables[1][:, -1])])
    return Estimate.of(both, difference).difference


def differing_settings(results: Results) -> dict[str, list[object]]:
    """The settings that are not the same in all runs, by their path: a value for each run."""
    runs, config = results.runs, results.config
    whole = [flattened(merged(config, run.overrides)) for run in runs]
    differing = {}
    for path in sorted({path for run in runs for path in flattened(run.overrides)}):
        values = [settings.get(path) for settings in whole]
        if path == "pretraining.seed":
            values = [config["seed"] if value is None else value for value in values]
        if len({canonical_json(value) for value in values}) > 1:
            differing[path] = values
    return differing


def setting_names(paths: Collection[str]) -> dict[str, str]:
    """A short name for each of `paths`: learning_rate, but optimizer.name."""
    short = {path: short_name(path, paths) for path in paths}
    return {p: ".".join(p.split(".")[-2:]) if n == "name" else n for p, n in short.items()}


def seed_groups(results: Results) -> list[SeedGroup]:
    """Groups of two or more runs with the same settings except for the seed."""
    groups: dict[str, list[RunResults]] = {}
    for run in results.runs:
        rest = flattened(run.overrides)
        rest.pop("pretraining.seed", None)
        groups.setdefault(canonical_json(rest), []).append(run)
    rows = []
    for group in groups.values():
        if len(group) > 1:
            tests = [run.evaluation.test for run in group]
            losses, accuracies = [t.loss for t in tests], [t.accuracy for t in tests]
            rows.append(
                SeedGroup(
                    runs=tuple(run.name for run in group),
                    seeds=tuple(run.training.seed for run in group),
                    loss_mean=fmean(losses),
                    loss_spread=stdev(losses),
                    accuracy_mean=fmean(accuracies),
                    accuracy_spread=stdev(accuracies),
                )
            )
    return rows


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


def ranked(results: Results) -> list[tuple[int, EvaluatedRun, Standing]]:
    """Number, run and Standing: the lowest validation loss first, other directories last."""
    here, standing = len(results.runs), standings(results)
    rows = list(zip(range(len(standing)), [*results.runs, *results.also], standing, strict=True))
    return sorted(rows[:here], key=lambda row: row[1].training.final.validation_loss) + rows[here:]


def setting_rows(columns: Sequence[dict]) -> Iterator[tuple[str, list[str]]]:
    """Yield the path of each setting and its values in words: one a column, or the one of all."""
    flat = [flattened(column) for column in columns]
    for path in dict.fromkeys(path for one in flat for path in one):
        values = [value(one[path]) if path in one else NONE for one in flat]
        yield path, values[:1] if len(set(values)) == 1 else values


def training_settings(run: RunResults) -> dict:
    """The settings that were in force, as training.json has them."""
    beside = ("format_version", "made_from", "run", "final", "digests", "packages", "code")
    return {k: v for k, v in as_json(run.training).items() if k not in beside}


def finetuning_settings(metrics: Finetuning) -> dict:
    """Data and settings of a fine-tuning, with the learning rates that the folds chose."""
    data = {k: v for k, v in as_json(metrics.data).items() if k != "format_version"}
    return data | metrics.settings | {"learning_rates": metrics.learning_rates}


def previews(runs: Sequence[RunResults]) -> list[tuple[list[str], list[PreviewSample]]]:
    """Names of runs and the masked samples that they share."""
    groups: list[tuple[list[str], list[PreviewSample]]] = []
    for run in runs:
        samples = run.preview.samples if run.preview else []
        names = next((names for names, shown in groups if shown == samples), None)
        if names:
            names.append(run.name)
        elif samples:
            groups.append(([run.name], samples))
    return groups


def answers_by_prompt(runs: Sequence[RunResults]) -> dict[str, dict[str, list[FilledToken]]]:
    """The answers to each prompt by run."""
    prompts: dict[str, dict[str, list[FilledToken]]] = {}
    for run in runs:
        for prompt in run.fill_mask.prompts:
            prompts.setdefault(prompt.prompt, {})[run.name] = prompt.answers
    return prompts
