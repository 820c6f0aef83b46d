"""Sections of the report about the runs: training, comparison, evaluation, answers, fine-tuning."""

from mlm.evaluation.artefacts import Subset
from mlm.finetuning.finetuning_metrics import NAMES
from mlm.foundations.typed_artefacts import as_json
from mlm.report.glossary import ordered_baselines
from mlm.report.phrasing import how_it_was_measured, settings_rows
from mlm.report.report_inputs import Results
from mlm.report.run_comparison import best_run, comparable, flattened, seed_groups, standings
from mlm.report.shown_samples import prediction_pieces, special_tokens


def training(results: Results) -> dict:
    """The settings that were in force; the template shows the curves."""
    return {"settings": settings_rows(results.runs)}


def runs(results: Results) -> dict:
    """The table of runs and, if several differ only in the seed, mean and spread."""
    return {
        "rows": list(zip(results.runs, standings(results.runs), strict=True)),
        "reasons": comparable(results.runs),
        "groups": seed_groups(results.runs, results.config["seed"]),
    }


def evaluation(results: Results) -> dict:
    """Test metrics beside the baselines, and where the model is good and bad.

    `rows` are (run, what was measured, figures), `beside` those of the baselines.
    """
    rows, beside = [], []
    for run in results.runs:
        rows.append((run.name, "on test", run.evaluation.test))
        if run.evaluation.train:
            rows.append((run.name, "on a sample of train", run.evaluation.train))
    # By name, the first of those that have the same figures.
    shared: dict[str, dict[tuple, tuple]] = {}
    for run in results.runs:
        for _, name, found in ordered_baselines(run.evaluation.baselines):
            row = run.name, name, found
            shared.setdefault(name, {}).setdefault((found.loss, found.accuracy), row)
    for measured in shared.values():
        alike = len(measured) == 1 and len(results.runs) > 1
        beside += [("all runs", *row[1:]) if alike else row for row in measured.values()]
    parts = []
    for key, (heading, names) in _PARTS.items():
        found = [(r.name, _measured(getattr(r.evaluation, key), names)) for r in results.runs]
        # One part alone is the whole, which the table above has.
        if any(len(rows_of) > 1 for _, rows_of in found):
            parts.append((heading, found))
    return {
        "rows": rows,
        "beside": beside,
        "sentences": how_it_was_measured(best_run(results.runs).evaluation),
        "parts": parts,
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


def _measured(parts: dict[str, Subset], names: dict[str, str]) -> list[tuple[str, Subset]]:
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
    groups = []
    for run in results.runs:
        found = run.evaluation.samples
        best, worst = (
            [prediction_pieces(sample, special) for sample in chosen]
            for chosen in (found.best, found.worst)
        )
        if best or worst:
            groups.append({"run": run.name, "best": best, "worst": worst})
    return {"groups": groups, "best": best_run(results.runs).name} if groups else None


def asked(results: Results) -> dict | None:
    """What each run was shown near its prompts and samples; without the text, why not."""
    if not results.corpus:
        return {"without_text": True}
    found = [(run.name, run.asked) for run in results.runs if run.asked]
    groups = [{"run": run, "texts": asked.texts} for run, asked in found if asked.texts]
    too_large = found[0][1].too_large if found else None
    if not groups and not too_large:
        return None
    best = best_run(results.runs).name
    return {"groups": groups, "best": best, "without_text": False, "too_large": too_large}


_FINETUNING_PARTS = {
    "all": "all passages",
    "unseen": "passages that pretraining never trained on",
    "seen": "passages whose text pretraining has read",
}


def finetuning(results: Results) -> dict | None:
    """Scores of the three models of every run, their paired differences, and the verdicts."""
    found = [(run.name, run.finetune) for run in results.runs if run.finetune]
    if not found:
        return None
    parts = [p for p in _FINETUNING_PARTS if any(p in metrics.parts for _, metrics in found)]

    def by_part(measured) -> list:
        return [getattr(measured, part) for part in parts]

    settings = {}
    for run, metrics in found:
        chosen = {
            f"fold {choice.fold}": f"{choice.terms}, penalty {choice.penalty:g}"
            for choice in metrics.baseline
        }
        settings[run] = flattened(as_json(metrics.data) | metrics.settings | {"baseline": chosen})
    first = found[0][1]
    models = [(run, *item) for run, metrics in found for item in metrics.models.items()]
    counts = [first.parts[part].examples if part in first.parts else None for part in parts]
    return {
        "score": "RMSE (less is better)" if first.score == "rmse" else "Accuracy (more is better)",
        "parts": list(zip([_FINETUNING_PARTS[p] for p in parts], counts, strict=True)),
        "known": "unseen" in parts,
        "scores": [(run, NAMES[name], by_part(model), model) for run, name, model in models],
        "differences": [
            (run, NAMES[one.model], NAMES[one.beside], by_part(one))
            for run, metrics in found
            for one in metrics.differences
        ],
        "verdicts": [(run, metrics.verdicts) for run, metrics in found],
        "settings": settings,
        "seeds": first.settings["seeds"],
        "grouped": first.data.groups > 0,
        "year": first.data.source.kind == "embedded",
        "f1": any(model.macro_f1 is not None for _, _, model in models),
    }
