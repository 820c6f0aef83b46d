"""Sections of the report about the runs: how they were trained and how good they are."""

from dataclasses import dataclass, replace

from mlm.evaluation.artefacts import Baseline, Part, PredictedSample, Summary
from mlm.report.glossary import ordered_baselines
from mlm.report.phrasing import how_it_was_measured, settings_rows
from mlm.report.report_inputs import Results
from mlm.report.run_comparison import best_run, comparable, seed_groups, standings
from mlm.report.shown_samples import prediction_pieces, special_tokens


def training(results: Results) -> dict:
    """Curves of every run, and the settings that were in force."""
    return {
        "runs": results.runs,
        "settings": settings_rows(results.runs),
        "figures": ["training_loss", "training_accuracy", "learning_rate"],
    }


def runs(results: Results) -> dict:
    """The table of runs and, where several differ in the seed alone, mean and spread."""
    return {
        "rows": list(zip(results.runs, standings(results.runs), strict=True)),
        "reasons": comparable(results.runs),
        "several": len(results.runs) > 1,
        "groups": seed_groups(results.runs, results.config["seed"]),
    }


@dataclass(frozen=True)
class Measured:
    """A row of test metrics: of a run's model, or of a baseline (`beside`)."""

    run: str
    what: str
    figures: Summary | Baseline
    beside: bool = True


def evaluation(results: Results) -> dict:
    """Test metrics beside the baselines, and where the model is good and bad."""
    rows: list[Measured] = []
    for run in results.runs:
        rows.append(Measured(run.name, "on test", run.evaluation.test, beside=False))
        if run.evaluation.train:
            rows.append(Measured(run.name, "on a sample of train", run.evaluation.train))
    # By name, the first of those that have the same figures.
    shared: dict[str, dict[tuple, Measured]] = {}
    for run in results.runs:
        for _, name, figures in ordered_baselines(run.evaluation.baselines):
            measured = shared.setdefault(name, {})
            found = Measured(run.name, name, figures)
            measured.setdefault((figures.loss, figures.accuracy), found)
    for measured in shared.values():
        alike = len(measured) == 1 and len(results.runs) > 1
        rows += [replace(m, run="all runs") if alike else m for m in measured.values()]
    parts = []
    for key, (heading, names) in _PARTS.items():
        found = [(r.name, _measured(getattr(r.evaluation, key), names)) for r in results.runs]
        # One part alone is the whole, which the table above has.
        if any(len(rows_of) > 1 for _, rows_of in found):
            parts.append((heading, found))
    pairs = [(run.name, found) for run in results.runs if (found := run.evaluation.minimal_pairs)]
    return {
        "rows": rows,
        "sentences": how_it_was_measured(best_run(results.runs).evaluation),
        "parts": parts,
        "pairs": pairs,
        "figures": ["test_loss", "test_accuracy", "frequency_bands", "positions", "calibration"],
    }


#: Parts of the predictions: key in evaluation.json, heading, and what each is called.
_PARTS = {
    "word_initial": (
        "By place in the word",
        {"initial": "first of a word", "continuation": "later in a word"},
    ),
    "shown_as": (
        "By what the model was shown",
        {"mask": "the mask token", "random": "another token", "kept": "the token itself"},
    ),
}


def _measured(parts: dict[str, Part], names: dict[str, str]) -> list[tuple[str, Part]]:
    """Name and figures of those parts that hold any prediction."""
    return [(name, parts[key]) for key, name in names.items() if parts[key].num_predictions]


def fill_mask(results: Results) -> dict | None:
    """Each prompt's answers, a column a run."""
    prompts: dict[str, dict[str, list]] = {}
    for run in results.runs:
        for prompt in run.fill_mask.prompts:
            prompts.setdefault(prompt.prompt, {})[run.name] = prompt.answers
    mask = special_tokens(results)["mask"]
    if not prompts:
        return None
    return {"prompts": prompts, "runs": [r.name for r in results.runs], "mask": mask}


def samples(results: Results) -> dict | None:
    """The best and the worst predicted samples of each run."""
    special = special_tokens(results)

    def shown(samples: list[PredictedSample]) -> list:
        return [prediction_pieces(sample, special) for sample in samples]

    groups = [
        {"run": run.name, "best": shown(found.best), "worst": shown(found.worst)}
        for run in results.runs
        if (found := run.evaluation.samples)
    ]
    groups = [g for g in groups if g["best"] or g["worst"]]
    return {"groups": groups, "best": best_run(results.runs).name} if groups else None


def asked(results: Results) -> dict | None:
    """What each run was shown near its prompts and samples; without the text, why not."""
    if not results.corpus:
        return {"groups": [], "best": None, "without_text": True, "too_large": None}
    groups = [
        {"run": run.name, "texts": found.texts, "steps": found.steps}
        for run in results.runs
        if (found := run.asked) and found.texts
    ]
    too_large = next((run.asked.too_large for run in results.runs if run.asked), None)
    if not groups and not too_large:
        return None
    return {
        "groups": groups,
        "best": best_run(results.runs).name,
        "without_text": False,
        "too_large": too_large,
    }
