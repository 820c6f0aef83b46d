"""All folds of a fine-tuning together: metrics.json, oof.csv, and the card of the model to use."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from huggingface_hub import ModelCardData

from mlm.config.finetune import Finetune
from mlm.finetuning.artefacts import ExamplesSummary, FoldRecord, read_examples, read_predictions
from mlm.finetuning.score_comparison import NAMES, Finetuning, name_of, scores_of
from mlm.foundations.artefacts import MadeFrom
from mlm.foundations.atomic import read_json, write_csv, write_text
from mlm.foundations.digests import file_sha256
from mlm.foundations.environment import package_versions
from mlm.foundations.terminal import columns
from mlm.training.model_card import NEEDED_PACKAGES, card, card_table

_PACKAGES = ("jax", "jaxlib", "numpy", "scipy", "tokenizers")
#: Settings that metrics.json records.
_RECORDED = {"epochs", "folds", "learning_rate", "max_length", "per_device_batch_size"}


def write_results(
    run: str,
    section: Finetune,
    examples: str | Path,
    baseline: str | Path,
    folds: Mapping[str, Sequence[str | Path]],
    directory: str | Path,
) -> Finetuning:
    """Write metrics.json, oof.csv and the model's card to `directory`, and return the content of
    metrics.json. `examples` is a table with its JSON beside it, `folds` the directories of each
    start's folds, and of each published encoder's."""
    rows, directory = read_examples(examples), Path(directory)
    published = [name for name in folds if name not in NAMES]
    files = {name: [Path(fold) / "predictions.csv" for fold in folds[name]] for name in folds}
    files["baseline"] = [Path(baseline)]
    predictions = {
        name: {k: v for file in files[name] for k, v in read_predictions(file).items()}
        for name in (*NAMES, *published)
    }
    cells = ([by_id[e.id] for by_id in predictions.values()] for e in rows)
    table = ([e.id, e.fold, e.target, *texts] for e, texts in zip(rows, cells, strict=True))
    write_csv(directory / "oof.csv", ["id", "fold", "target", *predictions], table)
    records = {s: [FoldRecord.read(Path(f) / "fold.json") for f in folds[s]] for s in folds}
    summary = ExamplesSummary.read(Path(examples).with_suffix(".json"))
    metrics = Finetuning(
        run=run,
        **scores_of(rows, predictions, section),
        data=replace(summary, made_from=MadeFrom()),
        learning_rates={name: [r.learning_rate for r in of] for name, of in records.items()},
        settings=section.model_dump(include=_RECORDED),
        digests={
            "examples": file_sha256(examples),
            "model": file_sha256(directory / "model" / "model.safetensors"),
        },
        packages=package_versions(_PACKAGES),
        also={name: records[name][0].checkpoint for name in published} or None,
    )
    family = read_json(directory / "model" / "config.json")["model_type"]
    write_text(directory / "model" / "README.md", finetuned_card(metrics, family))
    metrics.write(directory / "metrics.json")
    return metrics


def score_rows(metrics: Finetuning) -> list[tuple[str, str, str]]:
    """The compared models in words, with their scores and intervals."""
    return [
        (
            name_of(name, metrics.task),
            metrics.metric.shown(model.score),
            " to ".join(map(metrics.metric.shown, model.interval or ())) or "not measured",
        )
        for name, model in metrics.models.items()
    ]


def comparison_table(metrics: Finetuning) -> str:
    """The compared models as a table for the terminal."""
    order = "less" if metrics.metric.less_is_better else "more"
    head = f"{metrics.run}: {metrics.metric.unit}, {order} is better", "score", "95 % interval"
    return columns([head, *score_rows(metrics)])


def finetuned_card(metrics: Finetuning, family: str) -> str:
    """README.md of the model to use, of the model_type `family`. It holds the names of the classes
    and figures, and no text of the examples."""
    names = ", ".join(f"`{name}`" for name in metrics.classes)
    pipeline, answer = "text-classification", f"the most likely of the classes {names}"
    how = 'predict("The text to judge.", truncation=True)'
    if metrics.task == "regression":
        answer = "the predicted value as `score`"
    elif metrics.task == "token_classification":
        pipeline, answer = "token-classification", f"the tag of each piece of a word, of {names}"
        answer += "; that of a word is its first piece's"
        how = 'predict("The text to tag.", aggregation_strategy="first")'
    return card(
        ModelCardData(
            license="other",
            library_name="transformers",
            pipeline_tag=pipeline,
            tags=[metrics.task, family],
        ),
        f"# {metrics.run}, fine-tuned",
        f"A {family} model for {metrics.task.replace('_', ' ')}, fine-tuned on all "
        f"{metrics.data.examples:,} examples.",
        "## Use",
        "```python\nfrom transformers import pipeline\n\n"
        f'predict = pipeline("{pipeline}", model="path/to/this/directory")\n{how}\n```',
        f"It gives {answer}. {NEEDED_PACKAGES}",
        "## Evaluation",
        f"Scores of models trained on all of {len(metrics.data.folds)} folds but one, on the "
        "examples of that one (cross-validation), with 95 % intervals. This model has learned from "
        "a few more examples.",
        card_table(["model", metrics.score, "interval"], score_rows(metrics)),
    )
