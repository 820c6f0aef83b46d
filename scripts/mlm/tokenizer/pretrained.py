"""A ready tokenizer from a directory, or from the Hub at a pinned commit; its code is never run."""

import json
from collections.abc import Sequence
from pathlib import Path

from mlm.config.families import first_position
from mlm.config.special_tokens import SPECIAL_NAMES
from mlm.foundations.errors import MlmError
from mlm.tokenizer.encoding import Encoder

#: Files of tokenizers, and the configuration that names their class.
SOURCE_FILES = (
    *("added_tokens.json", "config.json", "merges.txt", "sentencepiece.bpe.model"),
    *("special_tokens_map.json", "spiece.model", "spm.model", "tokenizer.json"),
    *("tokenizer.model", "tokenizer_config.json", "vocab.json", "vocab.txt"),
)


def source_files(path: str | None, key: str = "tokenizer.pretrained.path") -> list[str]:
    """Return the files of the tokenizer in directory `path`, which the setting `key` names, sorted;
    none for a Hub id. Raises MlmError for a directory without any."""
    if not path or not Path(path).is_dir():
        return []
    if files := sorted(str(p) for n in SOURCE_FILES if (p := Path(path) / n).is_file()):
        return files
    raise MlmError(
        f"{key}: {path} holds no tokenizer; one of the files tokenizer.json, vocab.txt, vocab.json "
        "or a sentencepiece model is expected."
    )


def load_pretrained(
    path: str, revision: str | None, key: str = "tokenizer.pretrained.path"
) -> tuple[dict, dict[str, str], int | None]:
    """Return a tokenizer.json's content, the five special tokens' texts by name, and the longest
    input (None: unknown), of directory `path` or of the Hub id `path` at commit `revision`. Raises
    MlmError, which names the setting `key`, if there is none with a fast form."""
    directory = path if Path(path).is_dir() else snapshot(key, path, str(revision), SOURCE_FILES)
    source_files(directory, key)
    import transformers

    try:
        tokenizer = transformers.AutoTokenizer.from_pretrained(
            directory, use_fast=True, trust_remote_code=False, local_files_only=True
        )
        if not tokenizer.is_fast:
            raise ValueError(f"a {type(tokenizer).__name__} has no tokenizer.json form")
    except Exception as error:  # tokenizers raises nothing narrower
        reason = " ".join(str(error).split())[:300]
        if "trust_remote_code" in str(error):
            reason = "it brings its own code, auto_map in its files, which is never run"
        raise MlmError(
            f"{key}: transformers cannot read a tokenizer from {path} ({reason}). Choose one that "
            "AutoTokenizer reads without code of its own, or train one (tokenizer.kind)"
        ) from None
    content = json.loads(tokenizer.backend_tokenizer.to_str())
    content.update(truncation=None, padding=None)
    longest = tokenizer.model_max_length
    special = {name: getattr(tokenizer, f"{name}_token") or "" for name in SPECIAL_NAMES}
    return content, special, longest if longest < 1 << 30 else None


def check_ids(encoder: Encoder, family: str) -> None:
    """Raise MlmError if the special ids do not suit models of type `family`."""
    ids = encoder.special_ids._asdict()
    if len(set(ids.values())) != len(ids):
        raise MlmError(
            f"tokenizer.pretrained: two special tokens share an id ({ids}); choose another "
            "tokenizer, or train one."
        )
    if first_position(family) and encoder.special_ids.pad != 1:
        raise MlmError(
            f"tokenizer.pretrained: its padding token has id {encoder.special_ids.pad}, but "
            f"model.family {family} needs 1. Choose another tokenizer or family, or train one"
        )


def snapshot(key: str, name: str, commit: str, files: Sequence[str]) -> str:
    """Return the directory with those of `files` (patterns) that the Hub's repository `name`, which
    the setting `key` names, has at `commit`: from the local cache if there. Raises MlmError if they
    cannot be had."""
    import huggingface_hub
    from huggingface_hub import errors

    try:
        return huggingface_hub.snapshot_download(name, revision=commit, allow_patterns=list(files))
    except (errors.HFValidationError, errors.HfHubHTTPError, OSError) as error:
        raise MlmError(
            f"{key}: {name} at commit {commit} is no directory here, and neither the local cache "
            f"nor the Hub has it ({type(error).__name__}). A private one needs your token in "
            "HF_TOKEN. Without a network, name a directory, or copy HF_HOME from where you ran\n"
            f"  hf download {name} --revision {commit}"
        ) from None
