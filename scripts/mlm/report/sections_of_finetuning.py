"""The section of the report about fine-tuning: the scores, what they mean, and the settings."""

from dataclasses import dataclass

from mlm.finetuning.finetuning_metrics import NAMES, Measured, ModelScores
from mlm.foundations.typed_artefacts import as_json
from mlm.report.report_inputs import Results
from mlm.report.run_comparison import flattened

PARTS = {
    "all": "all passages",
    "unseen": "passages that pretraining never trained on",
    "seen": "passages whose text pretraining has read",
}


@dataclass(frozen=True)
class ScoreRow:
    """A model's scores: in the parts of the examples, and over the folds."""

    run: str
    name: str
    parts: list[Measured | None]
    model: ModelScores


@dataclass(frozen=True)
class DifferenceRow:
    """How much higher one model's score is than another's, by part."""

    run: str
    name: str
    other: str
    parts: list[Measured | None]


def finetuning(results: Results) -> dict | None:
    """Scores of the three models of every run, their paired differences, and the verdicts."""
    found = [(run.name, run.finetune) for run in results.runs if run.finetune]
    if not found:
        return None
    parts = [part for part in PARTS if any(part in metrics.parts for _, metrics in found)]
    scores, differences = [], []
    for run, metrics in found:
        for name, model in metrics.models.items():
            by_part = [getattr(model, part) for part in parts]
            scores.append(ScoreRow(run, NAMES[name], by_part, model))
        for difference in metrics.differences:
            by_part = [getattr(difference, part) for part in parts]
            names = NAMES[difference.model], NAMES[difference.beside]
            differences.append(DifferenceRow(run, *names, by_part))
    settings = []
    for run, metrics in found:
        chosen = {
            f"fold {choice.fold}": f"{choice.terms}, penalty {choice.penalty:g}"
            for choice in metrics.baseline
        }
        shown = as_json(metrics.data) | metrics.settings | {"baseline": chosen}
        settings.append((run, flattened(shown)))
    first = found[0][1]
    less_is_better = first.score == "rmse"
    counts = [first.parts[part].examples if part in first.parts else None for part in parts]
    return {
        "score": "RMSE (less is better)" if less_is_better else "Accuracy (more is better)",
        "parts": list(zip([PARTS[p] for p in parts], counts, strict=True)),
        "known": "unseen" in parts,
        "scores": scores,
        "differences": differences,
        "verdicts": [(run, metrics.verdicts) for run, metrics in found],
        "settings": settings,
        "seeds": first.settings["seeds"],
        "grouped": first.data.groups > 0,
        "year": first.data.source.kind == "embedded",
        "f1": any(row.model.macro_f1 is not None for row in scores),
        "best": [(run, metrics.best_fold) for run, metrics in found],
        "figures": ["finetuning_curves", "finetuning_predictions"],
    }
