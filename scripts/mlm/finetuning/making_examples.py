"""The data of a fine-tuning: examples from the corpus or a CSV, with the fold of each."""

import statistics
from collections import Counter
from dataclasses import replace
from pathlib import Path

from mlm.finetuning.artefacts import ExampleSource, ExamplesSummary, TargetSummary
from mlm.finetuning.examples import Example, LabelledCsv, read_labelled_csv, write_examples
from mlm.finetuning.folds import assign_folds
from mlm.finetuning.year_task import PretrainingSplit, year_examples
from mlm.foundations.digests import file_sha256


def make_examples(section: dict, seed: int, pretraining: PretrainingSplit | None) -> list[Example]:
    """The examples that section `finetune` of the configuration asks for.

    `pretraining` says how the embedded speeches were divided before, None where pretraining
    read other text. Raises MlmError for data that cannot be learned from.
    """
    data = section["data"]
    if data["source"] == "csv":
        layout = LabelledCsv(
            file=data["file"],
            id=data["id_column"],
            text=data["text_column"],
            target=data["target_column"],
            group=data["group_column"],
        )
        return read_labelled_csv(layout, section["task"])
    return year_examples(data["passage_words"], data["passages_per_speech"], seed, pretraining)


def write_data(
    section: dict,
    seed: int,
    pretraining: PretrainingSplit | None,
    table: str | Path,
    summary: str | Path,
) -> None:
    """Write the table of the examples with their folds, and what is in it."""
    examples = make_examples(section, seed, pretraining)
    folds = assign_folds(examples, section["task"], section["folds"], seed)
    write_examples(table, examples, folds)
    sizes = Counter(folds)
    data = section["data"]
    source = ExampleSource(data["source"])
    if data["source"] == "csv":
        source = replace(source, name=Path(data["file"]).name, sha256=file_sha256(data["file"]))
    target = classes = None
    if section["task"] == "regression":
        targets = [float(e.target) for e in examples]
        target = TargetSummary(
            mean=round(statistics.fmean(targets), 6),
            standard_deviation=round(statistics.pstdev(targets), 6),
            lowest=min(targets),
            highest=max(targets),
        )
    else:
        classes = dict(sorted(Counter(e.target for e in examples).items()))
    ExamplesSummary(
        task=section["task"],
        source=source,
        examples=len(examples),
        groups=len({e.group for e in examples if e.group}),
        words=sum(len(e.excerpt.split()) for e in examples),
        splits=dict(sorted(Counter(e.split for e in examples if e.split).items())),
        folds=[sizes[fold] for fold in range(section["folds"])],
        target=target,
        classes=classes,
    ).write(summary)
