"""A ready tokenizer from a directory, or from the Hub at a pinned commit; none of its code is
run."""

import json
from pathlib import Path

from mlm.config.families import ROBERTA_FAMILY
from mlm.config.fields import is_commit
from mlm.foundations.errors import MlmError
from mlm.tokenizer.encoding import SPECIAL_NAMES, Encoder

#: What a tokenizer may consist of, and the configuration that names its class.
SOURCE_FILES = (
    *("added_tokens.json", "config.json", "merges.txt", "sentencepiece.bpe.model"),
    *("special_tokens_map.json", "spiece.model", "spm.model", "tokenizer.json"),
    *("tokenizer.model", "tokenizer_config.json", "vocab.json", "vocab.txt"),
)


def source_files(path: str | None) -> list[str]:
    """The files of the tokenizer in directory `path`, sorted; none for a Hub id."""
    if not path or not Path(path).is_dir():
        return []
    return sorted(str(Path(path) / name) for name in SOURCE_FILES if (Path(path) / name).is_file())


def load_pretrained(
    path: str, revision: str | None
) -> tuple[dict, dict[str, str | None], int | None]:
    """A tokenizer.json's content, the five special tokens' texts by name, and the longest input
    (None: unknown), of directory `path` or the Hub id `path` at commit `revision`.

    Raises MlmError if there is none, or none with a fast form.
    """
    directory = path if Path(path).is_dir() else _download(path, revision)
    if not source_files(directory):
        raise MlmError(
            f"tokenizer.pretrained.path: {path} holds no tokenizer; one of the files "
            "tokenizer.json, vocab.txt, vocab.json or a sentencepiece model is expected."
        )
    from transformers import AutoTokenizer

    try:
        tokenizer = AutoTokenizer.from_pretrained(
            directory, use_fast=True, trust_remote_code=False, local_files_only=True
        )
    except (OSError, ValueError, KeyError, ImportError) as error:
        raise MlmError(
            f"tokenizer.pretrained.path: transformers cannot read a tokenizer from {path} "
            f"({' '.join(str(error).split())[:300]})."
        ) from None
    if not tokenizer.is_fast:
        raise MlmError(
            f"tokenizer.pretrained.path: {path} is a {type(tokenizer).__name__}, which has no "
            "tokenizer.json form; choose a tokenizer with a fast implementation."
        )
    content = json.loads(tokenizer.backend_tokenizer.to_str())
    content.update(truncation=None, padding=None)
    longest = tokenizer.model_max_length
    special = {name: getattr(tokenizer, f"{name}_token") for name in SPECIAL_NAMES}
    return content, special, longest if longest < 1 << 30 else None


def check_ids(encoder: Encoder, family: str) -> None:
    """Raise MlmError if the special ids do not suit models of type `family`."""
    ids = encoder.special()
    if len(set(ids.values())) != len(ids):
        raise MlmError(
            f"tokenizer.pretrained: two special tokens share an id ({ids}); choose another "
            "tokenizer, or train one."
        )
    if family in ROBERTA_FAMILY and encoder.special_ids.pad != 1:
        raise MlmError(
            f"tokenizer.pretrained: its padding token has id {encoder.special_ids.pad}, but "
            f"model.family {family} takes id 1 for padding whatever its configuration says. "
            "Choose another tokenizer, another family (bert), or train a tokenizer here."
        )


def _download(name: str, revision: str | None) -> str:
    if not is_commit(revision):
        raise MlmError(
            f"tokenizer.pretrained.revision: {revision!r} pins nothing. {name!r} is no directory "
            "here, so it is read as a Hub id, and needs a commit of 40 hexadecimal digits"
        )
    import huggingface_hub
    from huggingface_hub import errors

    try:
        return huggingface_hub.snapshot_download(
            name, revision=revision, allow_patterns=list(SOURCE_FILES)
        )
    except errors.HFValidationError:
        raise MlmError(
            f"tokenizer.pretrained.path: {name!r} is neither a directory here nor a Hub id."
        ) from None
    except (errors.RepositoryNotFoundError, errors.RevisionNotFoundError):
        raise MlmError(
            f"tokenizer.pretrained: the Hub has no {name} at commit {revision}, or it is private "
            "or gated: give your token in the environment variable HF_TOKEN."
        ) from None
    except (errors.HfHubHTTPError, errors.LocalEntryNotFoundError, OSError) as error:
        raise MlmError(
            f"tokenizer.pretrained: {name} at commit {revision} is not in the local cache, and "
            f"the Hub cannot be reached ({type(error).__name__}). Where there is a network, run "
            f"`hf download {name} --revision {revision}` with the same HF_HOME, or name a "
            "directory with the tokenizer's files in tokenizer.pretrained.path."
        ) from None
