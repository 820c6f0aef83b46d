"""Small artefacts of every stage, as the stages write them, for tests of the report."""

import csv
import hashlib
import math
from pathlib import Path

import yaml
from pydantic import TypeAdapter

from mlm.corpus.artefacts import CorpusSplit
from mlm.evaluation.artefacts import EvaluationFigures, FillMask, MinimalPairs
from mlm.report.report_inputs import CURVE_COLUMNS
from mlm.samples.artefacts import Preview
from mlm.samples.manifests import Manifest
from mlm.tokenizer.artefacts import TokenizerStatistics
from mlm.training.artefacts import Training

SPLITS = {"train": (900, 0.9), "validation": (50, 0.05), "test": (50, 0.05)}
MASK = "[MASK]"
FREQUENT = ["▁the", "▁of", ",", ".", "▁and", "▁to", "▁in", "s", "▁a"]
HONOR = [" I", " have", " the", " hon", "or", " to"]
HONOR += [" transmit", " to", " Congress", " a", " report"]


def same(stage: str) -> dict:
    text = Path(__file__).with_suffix(".yaml").read_text(encoding="utf-8")
    return yaml.safe_load(text)[stage]


def sha(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def typed(kind: type, content: dict):
    return TypeAdapter(kind).validate_python(content)


def minimal_pairs(text: str) -> MinimalPairs:
    """Figures of one pair, with `text` wherever a file may have any."""
    names = {"file": text, "phenomenon": text}
    intervals = {"accuracy_interval": (0, 1), "margin_interval": (0.5, 1.5)}
    figures = names | intervals | {"num_pairs": 1, "num_ties": 1, "accuracy": 1, "margin": 1}
    figures |= {"bigram_accuracy": 0}
    content = {"total": figures, "phenomena": [figures], "num_left_out": 1}
    return typed(MinimalPairs, content)


def corpus(split: str, **other) -> CorpusSplit:
    documents, share = SPLITS[split]
    documents *= 41
    file = {"name": f"{split}.parquet", "documents": documents, "sha256": sha("corpus" + split)}
    sizes = {"bytes": 12_200_000, "characters": 12_100_000, "words": 2_000_000}
    content = same("corpus") | {
        "split": split,
        "documents": documents,
        "groups": SPLITS[split][0] // 4,
        "files": [file | {"bytes": int(5_000_000 * share)}],
        **{what: int(size * share) for what, size in sizes.items()},
    }
    content["source"]["sha256"] = sha("sotu")
    content["filters"] |= {"read": documents + 30, "kept": documents}
    if split != "train":
        overlap = {"run_words": 8, "words": 100_000, "shared": 52, "documents": 4}
        content["overlap_with_train"] = overlap | {"unmeasured_words": 0, "unmeasured_documents": 0}
    return typed(CorpusSplit, content | other)


def tokenizer_stats(**other) -> TokenizerStatistics:
    sizes = {"tokens": 2_640_000, "words": 2_000_000, "bytes": 12_200_000}
    sizes["characters"] = 12_100_000
    content = same("tokenizer")
    of_split = content.pop("split")
    most_frequent = [
        {"id": 5 + i, "token": t, "count": 140_000 // (i + 1)} for i, t in enumerate(FREQUENT)
    ]
    splits = {
        name: of_split | {what: int(size * share) for what, size in sizes.items()}
        for name, (_, share) in SPLITS.items()
    }
    content |= {"most_frequent": most_frequent, "splits": splits}
    return typed(TokenizerStatistics, content | other)


def manifest(split: str, **other) -> Manifest:
    shards = 4 if split == "train" else 1
    each = int(41_000 * SPLITS[split][1]) // shards
    sizes = {"num_samples": each, "num_tokens": each * 64 - 20, "num_padding": 20}
    names = [f"{split}-{i:05d}-of-{shards:05d}.tfrecord" for i in range(shards)]
    content = {
        "split": split,
        **{what: size * shards for what, size in sizes.items()},
        "sequence_length": 64,
        "tokenizer_sha256": sha("tokenizer"),
        "corpus_sha256": sha("corpus" + split),
        "documents": SPLITS[split][0] * 41,
        "special_literals": 0,
        "shards": [
            {"name": name, "path": f"results/shards/{split}/{name}", "num_bytes": each * 400}
            | {"sha256": sha(f"{split}{i}"), "block_offsets": [0], **sizes}
            for i, name in enumerate(names)
        ],
    }
    return typed(Manifest, content | other)


def training(run: str, loss: float = 4.9, **other) -> Training:
    final = {"loss": loss - 0.05, "accuracy": 0.262}
    final |= {"validation_loss": loss, "validation_accuracy": 0.257}
    digests = {"model": sha("model" + run), "tokenizer": sha("tokenizer")}
    digests["manifests"] = {"train": sha("mt"), "validation": sha("mv")}
    made = {"run": run, "final": final, "digests": digests}
    return typed(Training, same("training") | made | other)


def curves(loss: float = 4.9) -> list[dict]:
    rows = []
    for step in range(20, 1601, 20):
        value = loss + (9.0 - loss) * math.exp(-step / 120) + 0.9 / (1 + math.exp(step / 60 - 14))
        value += 0.06 * math.sin(step * 1.7)
        accuracy = round(0.27 * (1 - math.exp(-step / 700)), 4)
        checked = step % 400 == 0
        row = {"step": step, "epoch": round(step / 1153, 4)}
        row |= {"loss": round(value, 4), "accuracy": accuracy}
        row["validation_loss"] = round(value + 0.02, 4) if checked else ""
        row["validation_accuracy"] = round(accuracy - 0.004, 4) if checked else ""
        row["learning_rate"] = 0.003 * min(step / 80, (1600 - step) / 1520)
        rows.append(row | {"tokens_per_second": 81_000 + step})
    return rows


def evaluation(run: str, loss: float = 4.9, interval: float = 0.05, **other) -> EvaluationFigures:
    content = same("evaluation")
    measured = content.pop("metrics")

    def around(value: float) -> list[float]:
        return [value - interval, value + interval]

    def means(value: float, accuracy: float) -> dict:
        return {"loss": value, "perplexity": math.exp(value), "accuracy": accuracy}

    def metrics(value: float) -> dict:
        bits = {"bits_per_character": value / math.log(2) / 4.6}
        bits["bits_per_character_interval"] = around(value / math.log(2) / 4.6)
        return measured | means(value, 0.2) | {"loss_interval": around(value)} | bits

    def baseline(value: float, accuracy: float) -> dict:
        points = {"value": 0.2 - accuracy, "interval": [0.19 - accuracy, 0.21 - accuracy]}
        return means(value, accuracy) | {
            "bits_per_character": value / math.log(2) / 4.6,
            "loss_difference": {"value": loss - value, "interval": around(loss - value)},
            "accuracy_difference": points,
        }

    def calibrated(i: int) -> dict:
        confidence = i / 10 + 0.05
        right = {"accuracy": min(1, confidence + 0.02 * math.sin(i))}
        ends = {"low": i / 10, "high": (i + 1) / 10, "num_predictions": 1000 if i < 9 else 0}
        return ends | right | {"confidence": confidence}

    groups = [
        {"name": f"19{90 - i}-Roosevelt", "bits_per_character": 1.2 - i / 10}
        | {"bits_per_character_interval": around(1.2 - i / 10), "num_predictions": 1640}
        | {"num_samples": 7 + 20 * i, "num_groups": 1, "characters": 50_000}
        for i in range(3)
    ]
    losses = [1640 * (loss + (group - 5.5) * 0.05) for group in range(12)]
    digests = {"model": "model" + run, "tokenizer": "tokenizer", "manifest": "manifest test"}
    content |= {
        "run": run,
        "test": metrics(loss),
        "train": metrics(loss - 0.04),
        "as_in_papers": means(loss - 0.3, 0.26),
        "baselines": {
            "unigram": baseline(6.70, 0.061),
            "bigram": baseline(4.31, 0.26),
            "trigram": baseline(4.0, 0.29),
        },
        "calibration": {
            "expected_calibration_error": 0.021,
            "bins": [calibrated(i) for i in range(10)],
        },
        "by_group": {
            "num_groups": 40,
            "groups": groups,
            "sources": [groups[0] | {"num_groups": 40}],
        },
        "cluster_sums": {"loss": losses, "correct": [426] * 12, "predictions": [1640] * 12},
        "digests": {name: sha(text) for name, text in digests.items()},
    }
    return typed(EvaluationFigures, content | other)


def fill_mask(
    run: str, prompts=("Goal of my life is to [MASK].", "We must [MASK] our forces.")
) -> FillMask:
    scores = {"make": 0.11, "be": 0.08, "secure": 0.047, "have": 0.031, "do": 0.02}

    def answers(prompt: str) -> list[dict]:
        return [
            {"token": token, "sequence": prompt.replace(MASK, token), "score": score}
            for token, score in scores.items()
        ]

    filled = [{"prompt": prompt, "answers": answers(prompt)} for prompt in prompts]
    return typed(FillMask, {"run": run, "prompts": filled})


def preview(run: str, texts: dict[int, str] | None = None) -> Preview:
    words = ["[CLS]", *HONOR, "[SEP]", "<pad>", "<pad>"]
    words = [(texts or {}).get(i, w) for i, w in enumerate(words)]
    shown = {3: MASK, 7: MASK, 9: " gold", 11: words[11]}
    tokens = [{"text": w, "masked": shown.get(i)} for i, w in enumerate(words)]
    sample = {"text": "".join(words), "masked": "".join(words), "tokens": tokens}
    samples = [sample | {"index": i, "turn": 1000 - i} for i in range(2)]
    return typed(Preview, {"run": run, "samples": samples})


def write_csv(path: Path, rows: list[dict]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with open(path, "w", newline="", encoding="utf-8") as handle:
        writer = csv.DictWriter(handle, [*CURVE_COLUMNS, "tokens_per_second"])
        writer.writeheader()
        writer.writerows(rows)


def write_run(root: Path, run: str, loss: float = 4.9, **artefacts) -> dict[str, str]:
    """A run's artefacts below `root`; `artefacts` replaces whole ones by name."""
    folder = root / "results" / "runs" / run
    made = {"training": training(run, loss), "evaluation": evaluation(run, loss)}
    made |= {"fill_mask": fill_mask(run), "preview": preview(run)}
    write_csv(folder / "training.csv", artefacts.pop("curves", None) or curves(loss))
    for name, content in (made | artefacts).items():
        content.write(folder / f"{name}.json")
    files = {name: str(folder / f"{name}.json") for name in made}
    return files | {"curves": str(folder / "training.csv")}


def write_data(root: Path) -> dict[str, list[str]]:
    """The artefacts that all runs share, below `root`: paths by kind, splits in order."""
    tokenizer = root / "results" / "tokenizer" / "tokenizer_stats.json"
    tokenizer_stats().write(tokenizer)
    paths: dict[str, list[str]] = {"tokenizer": [str(tokenizer)]}
    for kind, artefact in (("corpus", corpus), ("manifests", manifest)):
        paths[kind] = [str(root / "results" / kind / f"{split}.json") for split in SPLITS]
        for split, path in zip(SPLITS, paths[kind], strict=True):
            artefact(split).write(path)
    return paths
