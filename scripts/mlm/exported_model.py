"""An exported model, opened in TensorFlow, with its tokenizer."""

import os
from pathlib import Path

from mlm.errors import MlmError


def tensorflow():
    """The module tensorflow, imported the way that transformers' models need it.

    Operations are made deterministic: the same input gives the same bits on this machine.
    """
    os.environ.setdefault("TF_USE_LEGACY_KERAS", "1")
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
    os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")
    import tensorflow as tf

    tf.config.experimental.enable_op_determinism()
    return tf


def load_model(directory: str | Path):
    """The masked language model in `directory`, as transformers' TensorFlow class.

    Raises MlmError where files are missing, or where a weight of the architecture is not in
    the file, which transformers would fill with random numbers.
    """
    directory = Path(directory)
    missing = [n for n in ("config.json", "model.safetensors") if not (directory / n).is_file()]
    if missing:
        raise MlmError(
            f"{directory}: {' and '.join(missing)} not found. An exported model is expected there; "
            "delete the directory and run again."
        )
    tensorflow()
    from transformers import TFAutoModelForMaskedLM

    try:
        model, info = TFAutoModelForMaskedLM.from_pretrained(
            directory, local_files_only=True, output_loading_info=True
        )
    except (OSError, ValueError, KeyError) as error:
        raise MlmError(f"{directory}: transformers cannot open the model: {error}") from None
    # Buffers that every process computes for itself are in no file.
    lost = [k for k in info["missing_keys"] if "position_ids" not in k]
    if lost:
        raise MlmError(
            f"{directory}/model.safetensors lacks {len(lost)} weights of the architecture in "
            f"config.json, the first being {lost[0]}. Delete the directory and train again."
        )
    return model


def load_tokenizer(directory: str | Path):
    """The tokenizer in `directory`, as transformers' fast class.

    Raises MlmError where it has no mask token or cannot be opened.
    """
    from transformers import AutoTokenizer

    try:
        tokenizer = AutoTokenizer.from_pretrained(directory, local_files_only=True, use_fast=True)
    except (OSError, ValueError, KeyError) as error:
        raise MlmError(f"{directory}: transformers cannot open the tokenizer: {error}") from None
    if tokenizer.mask_token is None:
        raise MlmError(f"{directory}: the tokenizer has no mask token; it cannot be asked for one.")
    return tokenizer


def check_vocabulary(model, tokenizer, directory: str | Path) -> None:
    """Raise MlmError where the tokenizer knows ids that the model has no row for."""
    if len(tokenizer) > model.config.vocab_size:
        raise MlmError(
            f"{directory}: the tokenizer has {len(tokenizer)} ids, the model "
            f"{model.config.vocab_size}. They do not belong together; train again."
        )
