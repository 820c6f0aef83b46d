"""What the comparison of fine-tunings means, in sentences for the report."""

from mlm.evaluation.bootstrap import FEW_GROUPS

NAMES = {
    "pretrained": "fine-tuned from the pretrained weights",
    "random": "the same network from random weights",
    "tfidf_ridge": "TF-IDF and ridge regression",
}
_PARTS = {
    "all": "on all passages",
    "unseen": "on passages that pretraining never trained on",
}


def finetuning_verdicts(metrics: dict) -> list[str]:
    """One sentence for each difference and part: better, worse, or not told apart."""
    less_is_better = metrics["score"] == "rmse"
    level = f"{100 * metrics['confidence']:g} %"
    unit = "RMSE" if less_is_better else "accuracy"
    sentences = []
    for difference in metrics["differences"]:
        name, other = NAMES[difference["model"]], NAMES[difference["beside"]]
        for part, words in _PARTS.items():
            if part not in difference:
                continue
            low, high = difference[part]["interval"]
            score = difference[part]["score"]
            interval = f"{level} interval {low:+.3f} to {high:+.3f}"
            counts = metrics["parts"][part]
            if (units := counts["groups"] or counts["examples"]) < FEW_GROUPS:
                what = "groups" if counts["groups"] else "rows"
                interval += f", too narrow because from only {units} {what}"
            if low <= 0 <= high:
                said = f"is not told apart from {other} {words}"
            else:
                better = (score < 0) == less_is_better
                said = f"is {'better' if better else 'worse'} than {other} {words}"
            sentences.append(
                f"{name[0].upper()}{name[1:]}, it {said}: {score:+.3f} in {unit} ({interval})."
                if name.startswith("fine")
                else f"{name[0].upper()}{name[1:]} {said}: {score:+.3f} in {unit} ({interval})."
            )
    return sentences
