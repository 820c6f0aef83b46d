"""The stage from the corpus to the tokenizer's files and figures."""

from pathlib import Path
from typing import Any

from mlm.corpus.split_documents import SplitDocuments
from mlm.tokenizer.artefacts import Pretrained
from mlm.tokenizer.encoding import SPECIAL_NAMES, Encoder
from mlm.tokenizer.pretrained import Ready, check_ids, load_pretrained
from mlm.tokenizer.statistics import tokenizer_statistics
from mlm.tokenizer.tokenizer_files import tokenizer_files, write_tokenizer
from mlm.tokenizer.tokenizer_settings import TokenizerSettings
from mlm.tokenizer.training import train_tokenizer


def make_tokenizer(
    corpora: dict[str, SplitDocuments], section: dict[str, Any], families: list[str], outputs: Any
) -> None:
    """Train or load the tokenizer of `section`, and write its files and `tokenizer_stats.json`.

    `corpora` has the documents of each split; `families` the model types that will
    read the ids; `outputs` has the paths `tokenizer` (tokenizer.json, the other two files
    beside it) and `stats`. Nothing is written before all is known to be right.
    """
    if section["kind"] == "pretrained":
        made, origin = _pretrained(section)
    else:
        made, origin = _trained(corpora["train"], section)
    encoder = Encoder(made.tokenizer, made.special_tokens, section["unknown_literal"])
    for family in families:
        check_ids(encoder, family)
    files = tokenizer_files(
        made.tokenizer, made.special_tokens, section["unknown_literal"], made.model_max_length
    )
    statistics = tokenizer_statistics(encoder, corpora, origin)
    write_tokenizer(Path(outputs.tokenizer).parent, files)
    statistics.write(outputs.stats)


def _trained(corpus: SplitDocuments, section: dict[str, Any]) -> tuple[Ready, dict[str, Any]]:
    """A tokenizer trained on `corpus`, and what the statistics say of it."""
    settings = TokenizerSettings.of(section, corpus.bytes)
    trained = train_tokenizer(corpus, settings)
    special = dict(zip(SPECIAL_NAMES, settings.special_tokens, strict=True))
    return Ready(trained.tokenizer, special, None), {
        "kind": settings.kind,
        "byte_fallback": settings.byte_fallback,
        "training": trained.text,
    }


def _pretrained(section: dict[str, Any]) -> tuple[Ready, dict[str, Any]]:
    """The tokenizer that `section` names, and what the statistics say of it."""
    source = section["pretrained"]
    path = source["path"]
    loaded = load_pretrained(path, source["revision"])
    return loaded, {
        "kind": "pretrained",
        "byte_fallback": bool(loaded.tokenizer["model"].get("byte_fallback")),
        "training": None,
        # Of a directory, its name: where it lies on this machine is no part of the result.
        "pretrained": Pretrained(
            Path(path).name if Path(path).is_dir() else path, source["revision"]
        ),
    }
