"""A fine-tuning that takes seconds: a tiny model, a CSV, and the jobs of its folds."""

from pathlib import Path

import numpy as np

from mlm.finetuning.fold_training import FoldFiles, FoldSettings
from mlm.finetuning.making_examples import write_data
from mlm.finetuning.results import STARTS, ResultFiles
from mlm.foundations.atomic import write_json

SECTION = {
    "enabled": True,
    "task": "regression",
    "data": {
        "source": "csv",
        "file": None,
        "id_column": "id",
        "text_column": "excerpt",
        "target_column": "target",
        "group_column": None,
    },
    "folds": 2,
    "seeds": 1,
    "epochs": 2,
    "max_length": 12,
    "per_device_batch_size": 8,
    "learning_rate": 3e-3,
    "warmup_ratio": 0.0,
    "dropout": 0.0,
    "optimizer": {
        "beta_1": 0.9,
        "beta_2": 0.98,
        "epsilon": 1e-8,
        "weight_decay": 0.01,
        "max_grad_norm": None,
    },
    "cpu_threads": 1,
    "resamples": 200,
    "confidence": 0.95,
}
ACCELERATOR = {"kind": "cpu", "precision": "float32", "virtual_replicas": None}
WORDS = ("the", "of", "to", "and", "in", "a", "that", "be")


def write_model(directory: Path, seed: int = 0) -> None:
    """A masked language model of random weights as pretraining exports one."""
    import jax
    from evaluated_project import write_word_tokenizer

    from mlm.foundations.weight_files import write_weights
    from mlm.model.architecture import Architecture
    from mlm.model.weights import initial_parameters

    write_word_tokenizer(directory)
    config = {
        "model_type": "roberta",
        "vocab_size": 120,
        "hidden_size": 16,
        "num_hidden_layers": 1,
        "num_attention_heads": 2,
        "intermediate_size": 32,
        "max_position_embeddings": 18,
        "pad_token_id": 1,
        "type_vocab_size": 1,
        "layer_norm_eps": 1e-5,
    }
    parameters = initial_parameters(Architecture.of(config), jax.random.key(seed))
    write_weights(parameters, directory / "model.safetensors")
    write_json(directory / "config.json", config)


def write_csv(path: Path, rows: int, classes: bool = False) -> None:
    """A CSV in the CommonLit layout whose target shows in the words."""
    rng = np.random.default_rng(0)
    lines = ["id,url_legal,license,excerpt,target,standard_error"]
    for i in range(rows):
        kind = i % 3
        words = rng.choice(WORDS, 10, p=np.roll([0.65, *[0.05] * 7], kind))
        target = (
            ("easy", "fair", "hard")[kind] if classes else f"{kind - 1 + rng.normal(0, 0.1):.4f}"
        )
        lines.append(f'r{i:03d},,,"{" ".join(words)}",{target},0.5')
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")


def prepared(place: Path, rows: int, **section) -> dict:
    """The data of a task below `place`, with its model; gives the section in force."""
    section = SECTION | section
    section["data"] = SECTION["data"] | {"file": str(place / "given.csv")}
    write_csv(place / "given.csv", rows, classes=section["task"] == "classification")
    if not (place / "model").exists():
        write_model(place / "model")
    write_data(section, 0, None, place / "examples.csv", place / "examples.json")
    return section


def job(place: Path, out: str, section: dict, start="pretrained", fold=0, **accelerator):
    """Settings and files of one fold, its results below `place/out`."""
    settings = FoldSettings("base", start, fold, 0, section, ACCELERATOR | accelerator)
    directory = place / out / start / f"fold-{fold}"
    files = FoldFiles(
        examples=str(place / "examples.csv"),
        model=str(place / "model"),
        predictions=str(directory / "predictions.csv"),
        history=str(directory / "history.csv"),
        weights=str(directory / "model.safetensors"),
        record=str(directory / "fold.json"),
        state=str(place / "state" / f"{out}-{start}-{fold}"),
    )
    return settings, files


def result_files(place: Path, out: str, folds: int) -> ResultFiles:
    """What the merge reads and where it writes."""

    def of(start: str, name: str) -> list[str]:
        return [str(place / out / start / f"fold-{fold}" / name) for fold in range(folds)]

    return ResultFiles(
        examples=str(place / "examples.csv"),
        summary=str(place / "examples.json"),
        ridge=str(place / "ridge.csv"),
        ridge_record=str(place / "ridge.json"),
        predictions={start: of(start, "predictions.csv") for start in STARTS},
        records={start: of(start, "fold.json") for start in STARTS},
        histories={start: of(start, "history.csv") for start in STARTS},
        weights=of("pretrained", "model.safetensors"),
        tokenizer=[str(place / "model" / "tokenizer.json")],
        directory=str(place / out),
    )
