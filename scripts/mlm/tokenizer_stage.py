"""The stage from the corpus to the tokenizer's files and figures."""

from pathlib import Path
from typing import Any

from mlm.atomic import write_json
from mlm.tokenization import SPECIAL_NAMES, Encoder
from mlm.tokenizer_files import tokenizer_files, write_tokenizer
from mlm.tokenizer_settings import TokenizerSettings
from mlm.tokenizer_statistics import tokenizer_statistics
from mlm.tokenizer_training import train_tokenizer


def make_tokenizer(
    corpora: dict[str, str], section: dict[str, Any], families: list[str], outputs: Any
) -> None:
    """Train the tokenizer of `section` and write its files and `tokenizer_stats.json`.

    `corpora` names the Parquet file of each split; `families` the model types that will
    read the ids; `outputs` has the paths `tokenizer` (tokenizer.json, the other two files
    beside it) and `stats`. Nothing is written before all is known to be right.
    """
    settings = TokenizerSettings.of(section)
    special = dict(zip(SPECIAL_NAMES, settings.special_tokens, strict=True))
    trained = train_tokenizer(corpora["train"], settings)
    files = tokenizer_files(trained.tokenizer, special, settings.unknown_literal)
    encoder = Encoder(trained.tokenizer, special, settings.unknown_literal)
    training = {
        "kind": settings.kind,
        "byte_fallback": settings.byte_fallback,
        "training": {
            "documents": trained.documents,
            "bytes": trained.bytes,
            "sampled": trained.sampled,
        },
    }
    statistics = tokenizer_statistics(encoder, corpora, training)
    write_tokenizer(Path(outputs.tokenizer).parent, files)
    write_json(outputs.stats, statistics)
