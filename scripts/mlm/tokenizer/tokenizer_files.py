"""The tokenizer's files in the layout of transformers, the same bytes every time."""

import os
from pathlib import Path

from mlm.config.tokenizer import TOKENIZER_FILES
from mlm.foundations.atomic import canonical_json, read_json, write_text
from mlm.tokenizer.encoding import SPECIAL_NAMES


def write_tokenizer(
    directory: str | os.PathLike,
    tokenizer: dict,
    special_tokens: dict[str, str],
    unknown_literal: str | None,
    model_max_length: int | None = None,
) -> None:
    """Write the three files into `directory`, each atomically; `special_tokens` holds the five
    texts by name. The key `unknown_literal` is this project's own, for `Encoder.load`."""
    tokens = {f"{name}_token": special_tokens[name] for name in SPECIAL_NAMES}
    flags = ("content", "lstrip", "normalized", "rstrip", "single_word", "special")
    config = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "clean_up_tokenization_spaces": False,
        "model_input_names": ["input_ids", "attention_mask"],
        "added_tokens_decoder": {
            str(token["id"]): {flag: token[flag] for flag in flags}
            for token in tokenizer["added_tokens"]
        },
        "unknown_literal": unknown_literal,
        **tokens,
    }
    if model_max_length is not None:
        config["model_max_length"] = model_max_length
    for name, content in zip(TOKENIZER_FILES, (tokenizer, config, tokens), strict=True):
        write_text(Path(directory) / name, canonical_json(content))


def copy_tokenizer(
    source: str | os.PathLike, target: str | os.PathLike, model_max_length: int
) -> None:
    """Copy a saved tokenizer beside a model, to whose `model_max_length` transformers truncates."""
    for name in TOKENIZER_FILES:
        content = read_json(Path(source) / name)
        if name == "tokenizer_config.json":
            content["model_max_length"] = model_max_length
        write_text(Path(target) / name, canonical_json(content))
