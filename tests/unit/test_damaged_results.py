import json
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from evaluated_project import write_word_tokenizer
from safetensors.numpy import save_file
from tests.conftest import refusal

from mlm.config.tokenizer import TOKENIZER_FILES
from mlm.corpus.corpus_reading import SplitDocuments
from mlm.foundations.errors import MlmError
from mlm.tokenizer.encoding import Encoder

DAMAGES = {
    "empty": lambda content: b"",
    "cut": lambda content: content[: len(content) * 2 // 3],
    "zeros": lambda content: b"\0" * len(content),
    "a web page": lambda content: b"<html>Not found</html>",
}


def damaged(path: Path, damage: str) -> Path:
    path.write_bytes(DAMAGES[damage](path.read_bytes()))
    return path


def refused(path: Path, read) -> None:
    message = refusal(read)
    assert str(path) in message and f"rm {path}" in message, message


READERS = {
    "documents": lambda path: list(SplitDocuments([(path, 500)]).texts()),
    "rows": lambda path: list(SplitDocuments([(path, 500)]).batches(["text", "group"], 100)),
    "column": lambda path: SplitDocuments([(path, 500)]).column("text"),
}


@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_corpus_is_named(tmp_path, reader, damage):
    path = tmp_path / "train.parquet"
    texts = [f"Document {i}." for i in range(500)]
    pq.write_table(pa.table({"text": texts, "group": range(500)}), path)
    damaged(path, damage)
    refused(path, lambda: READERS[reader](path))


def test_a_damaged_page_of_a_corpus_is_named_or_is_text(tmp_path):
    path = tmp_path / "train.parquet"
    pq.write_table(pa.table({"text": [f"Dökument {i}." for i in range(50)]}), path)
    content = path.read_bytes()
    for place in range(0, len(content), 7):
        path.write_bytes(content[:place] + bytes([content[place] ^ 255]) + content[place + 1 :])
        try:
            list(SplitDocuments([(path, 50)]).texts())
        except MlmError as error:
            assert f"rm {path}" in str(error)


def load_tokenizer(directory: Path) -> None:
    Encoder.load(directory / "tokenizer.json")


def load_model(directory: Path) -> None:
    from mlm.evaluation.exported_model import load_tokenizer
    from mlm.model.model_files import read_exported

    load_tokenizer(directory)
    read_exported(directory)


LOADED = [
    *((name, damage, load_tokenizer) for name in TOKENIZER_FILES for damage in DAMAGES),
    *((name, "{}", load_tokenizer) for name in ("tokenizer.json", "special_tokens_map.json")),
    *(
        (name, damage, load_model)
        for name in ("config.json", "model.safetensors", "tokenizer.json")
        for damage in DAMAGES
    ),
]


@pytest.mark.parametrize(("name", "damage", "load"), LOADED)
def test_a_damaged_tokenizer_or_model_is_named(tmp_path, name, damage, load):
    directory = tmp_path / "model"
    write_word_tokenizer(directory, 7)
    config = {"model_type": "bert", "vocab_size": 7, "hidden_size": 8, "num_hidden_layers": 1}
    config |= {"num_attention_heads": 2, "intermediate_size": 8}
    config["architectures"] = ["BertForMaskedLM"]
    (directory / "config.json").write_text(json.dumps(config))
    save_file({"a": np.zeros((4, 4), np.float32)}, directory / "model.safetensors")
    load_tokenizer(directory)
    path = directory / name
    if damage in DAMAGES:
        damaged(path, damage)
    else:
        path.write_text(damage)
    refused(path, lambda: load(directory))
