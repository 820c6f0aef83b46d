"""The section of the report about fine-tuning: the scores, what they mean, and the settings."""

from dataclasses import dataclass

from mlm.finetuning.finetuning_verdicts import NAMES
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
    parts: list[dict | None]
    mean: float
    spread: float
    macro_f1: float | None


@dataclass(frozen=True)
class DifferenceRow:
    """How much higher one model's score is than another's, by part."""

    run: str
    name: str
    other: str
    parts: list[dict | None]


def finetuning(results: Results) -> dict | None:
    """Scores of the three models of every run, their paired differences, and the verdicts."""
    found = [(r.name, r.extras["finetune"].content) for r in results.runs if "finetune" in r.extras]
    if not found:
        return None
    parts = [part for part in PARTS if any(part in m["parts"] for _, m in found)]
    scores, differences = [], []
    for run, metrics in found:
        for name, model in metrics["models"].items():
            scores.append(
                ScoreRow(
                    run=run,
                    name=NAMES[name],
                    parts=[model.get(part) for part in parts],
                    mean=model["mean"],
                    spread=model["spread"],
                    macro_f1=model.get("macro_f1"),
                )
            )
        for difference in metrics["differences"]:
            differences.append(
                DifferenceRow(
                    run=run,
                    name=NAMES[difference["model"]],
                    other=NAMES[difference["beside"]],
                    parts=[difference.get(part) for part in parts],
                )
            )
    first = found[0][1]
    less_is_better = first["score"] == "rmse"
    counts = [first["parts"].get(part, {}).get("examples") for part in parts]
    return {
        "score": "RMSE (less is better)" if less_is_better else "Accuracy (more is better)",
        "parts": list(zip([PARTS[p] for p in parts], counts, strict=True)),
        "known": "unseen" in parts,
        "scores": scores,
        "differences": differences,
        "verdicts": [(run, [(v, _tone(v)) for v in metrics["verdicts"]]) for run, metrics in found],
        "settings": [
            (run, flattened(metrics["data"] | metrics["settings"] | _baseline(metrics)))
            for run, metrics in found
        ],
        "seeds": first["settings"]["seeds"],
        "year": first["data"]["source"]["kind"] == "embedded",
        "f1": any(row.macro_f1 is not None for row in scores),
        "best": [(run, metrics["best_fold"]) for run, metrics in found],
        "figures": ["finetuning_curves", "finetuning_predictions"],
    }


def _baseline(metrics: dict) -> dict:
    """What the baseline counted and its penalty, by the fold that it predicts."""
    return {
        "baseline": {
            f"fold {choice['fold']}": f"{choice['terms']}, penalty {choice['penalty']:g}"
            for choice in metrics["baseline"]
        }
    }


def _tone(verdict: str) -> str:
    if " better " in verdict:
        return "better"
    return "worse" if " worse " in verdict else "even"
