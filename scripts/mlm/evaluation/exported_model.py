"""An exported model, its tokenizer and its configuration, read back from its directory."""

from pathlib import Path

from mlm.config.families import engine_for
from mlm.foundations.errors import MlmError, reading, remedy


def load_model(directory: str | Path):
    """The masked language model in `directory`, as transformers' TensorFlow class; MlmError if a
    weight is missing, which transformers would draw at random."""
    from mlm.foundations.transformers_setup import transformers

    read_model_configuration(directory)
    weights = Path(directory) / "model.safetensors"
    with reading(weights, "the weights of the model in config.json"):
        model, info = transformers.TFAutoModelForMaskedLM.from_pretrained(
            directory, local_files_only=True, output_loading_info=True
        )
    # Tables of positions are computed, and stored in no file.
    lost = [k for k in info["missing_keys"] if "position_ids" not in k]
    if lost:
        raise MlmError(
            f"{weights} lacks {len(lost)} weights of the architecture in config.json, the first "
            f"being {lost[0]}. {remedy(weights)}"
        )
    return model


def read_model_configuration(directory: str | Path):
    """The configuration in `directory`, as transformers' class; MlmError if it is damaged."""
    from mlm.foundations.transformers_setup import transformers

    with reading(Path(directory) / "config.json", "a model's configuration"):
        return transformers.AutoConfig.from_pretrained(directory, local_files_only=True)


def load_tokenizer(directory: str | Path):
    """The tokenizer in `directory`, as transformers' fast class."""
    from mlm.foundations.transformers_setup import transformers

    with reading(Path(directory) / "tokenizer.json", "a tokenizer"):
        return transformers.AutoTokenizer.from_pretrained(
            directory, local_files_only=True, use_fast=True
        )


def framework_of(directory: str | Path) -> str:
    """What opens the model in `directory`: "tensorflow", or "jax" for families that it lacks."""
    return engine_for("auto", read_model_configuration(directory).model_type)
