"""A fine-tuning that takes seconds: a tiny model, a CSV, and the jobs of its folds."""

from pathlib import Path

import numpy as np

from mlm.config.accelerator import Accelerator
from mlm.config.finetune import Finetune
from mlm.finetuning.example_sources import write_data
from mlm.finetuning.fold_job import FoldName
from mlm.foundations.atomic import write_json

SECTION = {"data": {"source": "csv"}, "folds": 2, "epochs": 2, "max_length": 12}
SECTION |= {"per_device_batch_size": 8, "learning_rate": [3e-3]}
STARTS = ("pretrained", "random")
WORDS = ("the", "of", "to", "and", "in", "a", "that", "be")


def write_model(directory: Path, seed: int = 0) -> None:
    """A masked language model of random weights as pretraining exports one."""
    from evaluated_project import write_word_tokenizer

    from mlm.foundations.atomic import write_weights
    from mlm.model.architecture import Architecture
    from mlm.model.initialisation import initial_parameters

    write_word_tokenizer(directory)
    config = {"model_type": "roberta", "vocab_size": 120, "hidden_size": 16, "pad_token_id": 1}
    config |= {"num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 32}
    config |= {"max_position_embeddings": 18, "type_vocab_size": 1, "layer_norm_eps": 1e-5}
    parameters = initial_parameters(Architecture.of(config), seed)
    write_weights(parameters, directory / "model.safetensors")
    write_json(directory / "config.json", config)


def write_csv(path: Path, rows: int, classes: bool = False) -> None:
    """A CSV whose target shows in the words."""
    rng = np.random.default_rng(0)
    lines = ["text,label"]
    for i in range(rows):
        kind = i % 3
        words = rng.choice(WORDS, 10, p=np.roll([0.65, *[0.05] * 7], kind))
        target = f"{1950 + 30 * (kind - 1 + rng.normal(0, 0.1)):.4f}"
        target = ("easy", "fair", "hard")[kind] if classes else target
        lines.append(f"{' '.join(words)},{target}")
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")


def prepared(place: Path, rows: int, **section) -> Finetune:
    """The data of a task below `place`, with its model; gives the section in force."""
    data = {"source": "csv", "file": str(place / "labels.csv")}
    section = Finetune.model_validate(SECTION | section | {"data": data})
    write_csv(place / "labels.csv", rows, classes=section.task == "classification")
    if not (place / "model").exists():
        write_model(place / "model")
    write_data(section, 0, place / "examples.csv", place / "examples.json")
    return section


def job(place: Path, out: str, section: Finetune, start="pretrained", fold=0, virtual=None) -> dict:
    """The arguments of `finetune_fold` for one fold, its results below `place/out`."""
    accelerator = {"kind": "cpu", "precision": "float32", "cpu_threads": 1}
    return {
        "name": FoldName("base", start, fold),
        "seed": 0,
        "section": section,
        "accelerator": Accelerator(**accelerator, virtual_replicas=virtual),
        "examples": place / "examples.csv",
        "model": place / "model",
        "directory": place / out / ("model" if fold is None else f"{start}/fold-{fold}"),
        "record": place / out / ("fold.json" if fold is None else f"{start}/fold-{fold}/fold.json"),
        "state": place / "state" / f"{out}-{start}-{fold}",
    }


def merged(place: Path, out: str, section: Finetune) -> dict:
    """The arguments of `write_results` for the folds below `place/out`."""
    return {
        "run": "base",
        "section": section,
        "examples": place / "examples.csv",
        "baseline": place / "baseline.csv",
        "folds": {
            start: [place / out / start / f"fold-{fold}" for fold in range(section.folds)]
            for start in STARTS
        },
        "directory": place / out,
    }
