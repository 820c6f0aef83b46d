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
from mlm.samples.manifests import Manifest
from mlm.samples.preview import Preview
from mlm.tokenizer.artefacts import TokenizerStatistics
from mlm.training.artefacts import Training

SPLITS = ("train", "validation", "test")
MASK = "[MASK]"


def same(stage: str) -> dict:
    text = Path(__file__).with_suffix(".yaml").read_text(encoding="utf-8")
    return yaml.safe_load(text)[stage]


def sha(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def typed(kind: type, content: dict):
    return TypeAdapter(kind).validate_python(content)


def minimal_pairs(text: str) -> MinimalPairs:
    """Figures of one pair, with `text` wherever a file may have any."""
    figures = same("pair") | {"file": text, "phenomenon": text}
    content = {"total": figures, "phenomena": [figures], "num_left_out": 1}
    return typed(MinimalPairs, content)


def corpus(split: str, **other) -> CorpusSplit:
    content = same("corpus") | {"split": split}
    content["source"]["sha256"] = sha("sotu")
    content["files"][0] |= {"name": f"{split}.parquet", "sha256": sha("corpus" + split)}
    if split == "train":
        del content["overlap_with_train"]
    return typed(CorpusSplit, content | other)


def tokenizer_stats(**other) -> TokenizerStatistics:
    content = same("tokenizer")
    of_split = content.pop("split")
    content["splits"] = dict.fromkeys(SPLITS, of_split)
    return typed(TokenizerStatistics, content | other)


def manifest(split: str, **other) -> Manifest:
    shards = 4 if split == "train" else 1
    sizes = {"num_samples": 500, "num_tokens": 31_980, "num_padding": 20}
    names = [f"{split}-{i:05d}-of-{shards:05d}.tfrecord" for i in range(shards)]
    content = {
        "split": split,
        **{name: size * shards for name, size in sizes.items()},
        "sequence_length": 64,
        "tokenizer_sha256": sha("tokenizer"),
        "corpus_sha256": sha("corpus" + split),
        "documents": 2050,
        "special_literals": 0,
        "shards": [
            {"name": name, "path": f"results/shards/{split}/{name}", "num_bytes": 200_000}
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
    """Of a training that has ended: its loss no longer falls."""
    rows = []
    for step in range(20, 1601, 20):
        value = round(loss + (9.0 - loss) * math.exp(-step / 120), 4)
        row = {"step": step, "epoch": step / 1153, "loss": value, "accuracy": 1 / value}
        row |= {"learning_rate": 0.003, "tokens_per_second": 81_000 + step}
        if step % 400 == 0:
            row |= {"validation_loss": value, "validation_accuracy": 1 / value}
        rows.append(row)
    return rows


def evaluation(run: str, loss: float = 4.9, right: float = 0.2, **other) -> EvaluationFigures:
    content = same("evaluation")
    measured, group = content.pop("metrics"), content.pop("group")

    def around(value: float) -> list[float]:
        return [value - 0.05, value + 0.05]

    def means(value: float, accuracy: float = right) -> dict:
        return {"loss": value, "perplexity": math.exp(value), "accuracy": accuracy}

    def bits(value: float) -> dict:
        return {"bits_per_character": value / math.log(2) / 4.6}

    def summary(value: float) -> dict:
        intervals = {"loss_interval": around(value)}
        intervals["bits_per_character_interval"] = around(value / math.log(2) / 4.6)
        return measured | means(value) | bits(value) | intervals

    def baseline(value: float, accuracy: float) -> dict:
        points = {"value": right - accuracy}
        points["interval"] = [right - accuracy - 0.01, right - accuracy + 0.01]
        by_loss = {"value": loss - value, "interval": around(loss - value)}
        differences = {"loss_difference": by_loss, "accuracy_difference": points}
        return means(value, accuracy) | bits(value) | differences

    losses = [1640 * (loss + (i - 5.5) * 0.05) for i in range(12)]
    digests = {"model": "model" + run, "tokenizer": "tokenizer", "manifest": "manifest test"}
    content |= {
        "run": run,
        "test": summary(loss),
        "train": summary(loss - 0.04),
        "as_in_papers": means(loss - 0.3, 0.26),
        "baselines": {
            "unigram": baseline(6.70, 0.061),
            "bigram": baseline(4.31, 0.26),
            "trigram": baseline(4.0, 0.29),
        },
        "by_group": {
            "num_groups": 40,
            "groups": [group | {"name": f"19{90 - i}-Roosevelt"} for i in range(3)],
            "sources": [group | {"name": "addresses"}],
        },
        "cluster_sums": {"loss": losses, "correct": [426] * 12, "predictions": [1640] * 12},
        "digests": {name: sha(text) for name, text in digests.items()},
    }
    return typed(EvaluationFigures, content | other)


def fill_mask(
    run: str, prompts=("Goal of my life is to [MASK].", "We must [MASK] our forces.")
) -> FillMask:
    def answers(prompt: str) -> list[dict]:
        return [
            {"token": token, "sequence": prompt.replace(MASK, token), "score": score}
            for token, score in {"make": 0.11, "be": 0.08, "secure": 0.047}.items()
        ]

    filled = [{"prompt": prompt, "answers": answers(prompt)} for prompt in prompts]
    return typed(FillMask, {"run": run, "prompts": filled})


def preview(run: str, texts: dict[int, str] | None = None) -> Preview:
    words = ["[CLS]", " I", " have", " the", " hon", "or", " to", " transmit", " to", " Congress"]
    words = [(texts or {}).get(i, w) for i, w in enumerate([*words, " a", "[SEP]", "<pad>"])]
    shown = {3: MASK, 7: MASK, 9: " gold", 10: words[10]}
    tokens = [{"text": w, "masked": shown.get(i)} for i, w in enumerate(words)]
    sample = {"text": "".join(words), "masked": "".join(words), "tokens": tokens}
    samples = [sample | {"index": i, "turn": 1000 - i} for i in range(2)]
    return typed(Preview, {"run": run, "samples": samples})


def write_run(root: Path, run: str, loss: float = 4.9, **artefacts) -> dict[str, str]:
    """A run's artefacts below `root`; `artefacts` replaces whole ones by name."""
    folder = root / "results" / "runs" / run
    made = {"training": training(run, loss), "evaluation": evaluation(run, loss)}
    made |= {"fill_mask": fill_mask(run), "preview": preview(run)} | artefacts
    files = {name: folder / f"{name}.json" for name in made} | {"curves": folder / "training.csv"}
    for name, content in made.items():
        content.write(files[name])
    with open(files["curves"], "w", newline="", encoding="utf-8") as handle:
        writer = csv.DictWriter(handle, [*CURVE_COLUMNS, "tokens_per_second"])
        writer.writeheader()
        writer.writerows(curves(loss))
    return {name: str(path) for name, path in files.items()}


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
