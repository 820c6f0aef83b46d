"""What the comparison of fine-tunings means, in sentences for the report."""

from mlm.evaluation.artefacts import Verdict
from mlm.evaluation.bootstrap import FEW_GROUPS
from mlm.finetuning.finetuning_metrics import PartSize, ScoreDifference

NAMES = {
    "pretrained": "fine-tuned from the pretrained weights",
    "random": "the same network from random weights",
    "tfidf_ridge": "TF-IDF and ridge regression",
}
_PARTS = {
    "all": "on all passages",
    "unseen": "on passages that pretraining never trained on",
}


def finetuning_verdicts(
    score: str, confidence: float, parts: dict[str, PartSize], differences: list[ScoreDifference]
) -> list[Verdict]:
    """One verdict for each difference and part: better, worse, or not told apart.

    `score` is rmse, of which less is better, or accuracy.
    """
    unit = "RMSE" if score == "rmse" else "accuracy"
    found = []
    for difference in differences:
        name, other = NAMES[difference.model], NAMES[difference.beside]
        for part, words in _PARTS.items():
            if (measured := getattr(difference, part)) is None:
                continue
            low, high = measured.interval
            interval = f"{100 * confidence:g} % interval {low:+.3f} to {high:+.3f}"
            size = parts[part]
            if (units := size.groups or size.examples) < FEW_GROUPS:
                what = "groups" if size.groups else "rows"
                interval += f", too narrow because from only {units} {what}"
            tone, said = "even", "not told apart from"
            if not low <= 0 <= high:
                tone = "better" if (measured.score < 0) == (score == "rmse") else "worse"
                said = f"{tone} than"
            subject = f"{name[0].upper()}{name[1:]}" + (", it" if name.startswith("fine") else "")
            text = f"{subject} is {said} {other} {words}: {measured.score:+.3f} in {unit}"
            found.append(Verdict(tone, f"{text} ({interval})."))
    return found
