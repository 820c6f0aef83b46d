"""An exported model, opened in TensorFlow, with its tokenizer."""

from pathlib import Path

from mlm.config.families import engine_for
from mlm.foundations.errors import MlmError, reading


def load_model(directory: str | Path):
    """The masked language model in `directory`, as transformers' TensorFlow class; MlmError if a
    file is missing, or a weight, which transformers would draw at random."""
    from transformers import TFAutoModelForMaskedLM

    import mlm.foundations.framework  # noqa: F401  which must come before transformers

    directory = Path(directory)
    weights = directory / "model.safetensors"
    missing = [n for n in ("config.json", "model.safetensors") if not (directory / n).is_file()]
    if missing:
        raise MlmError(
            f"{directory}: {' and '.join(missing)} not found. An exported model is expected "
            f"there. To have it made again: rm -r {directory}, then the same snakemake command."
        )
    read_model_configuration(directory)
    with reading(weights, "the weights of the model in config.json"):
        model, info = TFAutoModelForMaskedLM.from_pretrained(
            directory, local_files_only=True, output_loading_info=True
        )
    # Tables of positions are computed, and stored in no file.
    lost = [k for k in info["missing_keys"] if "position_ids" not in k]
    if lost:
        raise MlmError(
            f"{weights} lacks {len(lost)} weights of the architecture in "
            f"config.json, the first being {lost[0]}. To train it again: rm -r {directory}, "
            "then the same snakemake command."
        )
    return model


def read_model_configuration(directory: str | Path):
    """The configuration in `directory`, as transformers' class; MlmError if it is damaged."""
    from transformers import AutoConfig

    with reading(Path(directory) / "config.json", "a model's configuration"):
        return AutoConfig.from_pretrained(directory, local_files_only=True)


def load_tokenizer(directory: str | Path):
    """The tokenizer in `directory`, as transformers' fast class; MlmError if it has no mask
    token."""
    from transformers import AutoTokenizer

    import mlm.foundations.framework  # noqa: F401  which must come before transformers

    with reading(Path(directory) / "tokenizer.json", "a tokenizer"):
        tokenizer = AutoTokenizer.from_pretrained(directory, local_files_only=True, use_fast=True)
    if tokenizer.mask_token is None:
        raise MlmError(
            f"{directory}: the tokenizer has no mask token, so that nothing can be asked of it."
        )
    return tokenizer


def framework_of(directory: str | Path) -> str:
    """What opens the model in `directory`: "tensorflow", or "jax" for families that it lacks."""
    return engine_for("auto", read_model_configuration(directory).model_type)


def check_vocabulary(vocabulary: int, tokenizer, directory: str | Path) -> None:
    """Raise MlmError if the tokenizer has more ids than the model's `vocabulary`."""
    if len(tokenizer) > vocabulary:
        raise MlmError(
            f"{directory}: the tokenizer has {len(tokenizer)} ids, the model "
            f"{vocabulary}. They do not belong together. To train again: rm -r "
            f"{directory}, then the same snakemake command."
        )
