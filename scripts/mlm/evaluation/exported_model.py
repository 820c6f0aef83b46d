"""An exported model, opened in TensorFlow, with its tokenizer."""

from pathlib import Path

from mlm.errors import MlmError


def set_up() -> None:
    """Import TensorFlow the project's way, which must come before transformers."""
    import mlm.framework  # noqa: F401


def load_model(directory: str | Path):
    """The masked language model in `directory`, as transformers' TensorFlow class.

    Raises MlmError where files are missing, or where a weight of the architecture is not in
    the file, which transformers would fill with random numbers.
    """
    set_up()
    from transformers import TFAutoModelForMaskedLM

    directory = Path(directory)
    missing = [n for n in ("config.json", "model.safetensors") if not (directory / n).is_file()]
    if missing:
        raise MlmError(
            f"{directory}: {' and '.join(missing)} not found. An exported model is expected "
            "there; delete what is left of it and run again."
        )
    try:
        model, info = TFAutoModelForMaskedLM.from_pretrained(
            directory, local_files_only=True, output_loading_info=True
        )
    except (OSError, ValueError, KeyError) as error:
        raise MlmError(f"{directory}: transformers cannot open the model: {error}") from None
    # Tables of positions are computed, and stand in no file.
    lost = [k for k in info["missing_keys"] if "position_ids" not in k]
    if lost:
        raise MlmError(
            f"{directory}/model.safetensors lacks {len(lost)} weights of the architecture in "
            f"config.json, the first being {lost[0]}. Delete the directory and train again."
        )
    return model


def load_tokenizer(directory: str | Path):
    """The tokenizer in `directory`, as transformers' fast class.

    Raises MlmError where it cannot be opened or has no mask token.
    """
    set_up()
    from transformers import AutoTokenizer

    try:
        tokenizer = AutoTokenizer.from_pretrained(directory, local_files_only=True, use_fast=True)
    except (OSError, ValueError, KeyError) as error:
        raise MlmError(f"{directory}: transformers cannot open the tokenizer: {error}") from None
    if tokenizer.mask_token is None:
        raise MlmError(
            f"{directory}: the tokenizer has no mask token, so that nothing can be asked of it."
        )
    return tokenizer


def check_vocabulary(model, tokenizer, directory: str | Path) -> None:
    """Raise MlmError where the tokenizer knows ids that the model has no row for."""
    if len(tokenizer) > model.config.vocab_size:
        raise MlmError(
            f"{directory}: the tokenizer has {len(tokenizer)} ids, the model "
            f"{model.config.vocab_size}. They do not belong together; train again."
        )
