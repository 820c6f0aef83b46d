"""The card of a fine-tuned model: the README.md beside its weights."""

from huggingface_hub import ModelCardData

from mlm.finetuning.finetuning_metrics import Finetuning, name_of
from mlm.training.model_card import card, card_table, needed_packages


def finetuned_card(metrics: Finetuning, family: str, place: str = "path/to/this/directory") -> str:
    """README.md of the best fold's model, of the model_type `family`. It holds the names of the
    classes and figures, and no text of the examples."""
    classes = metrics.shown.classes
    answer = "the predicted value as `score`"
    if classes:
        answer = f"the most likely of the classes {', '.join(f'`{name}`' for name in classes)}"
    rows = []
    for name, model in metrics.models.items():
        scored = model.all
        ends = " to ".join(f"{end:.3f}" for end in scored.interval or ()) or "not measured"
        rows.append((name_of(name), f"{scored.score:.3f}", ends))
    return card(
        ModelCardData(
            license="other",
            library_name="transformers",
            pipeline_tag="text-classification",
            tags=[metrics.task, family],
        ),
        f"# {metrics.run}, fine-tuned",
        f"A {family} model for {metrics.task} of texts, fine-tuned on "
        f"{metrics.parts['all'].examples:,} examples in {len(metrics.models['pretrained'].folds)} "
        f"folds; these are the weights of fold {metrics.best_fold}, the best.",
        "## Use",
        "```python\nfrom transformers import pipeline\n\n"
        f'predict = pipeline("text-classification", model="{place}")\n'
        'predict("The text to judge.", truncation=True)\n```',
        f"It gives {answer}. {needed_packages(family)}",
        "## Evaluation",
        f"On the held-out examples of all folds, with {metrics.confidence:.0%} intervals.",
        card_table(["model", metrics.score, "interval"], rows),
    )
