"""An exported model, its tokenizer and its configuration, read back from its directory."""

from pathlib import Path

from mlm.config.pretraining import engine_for
from mlm.foundations.errors import reading


def read_model_configuration(directory: str | Path):
    """The configuration in `directory`, as transformers' class; MlmError if it is damaged."""
    import transformers

    with reading(Path(directory) / "config.json", "a model's configuration"):
        return transformers.AutoConfig.from_pretrained(directory, local_files_only=True)


def load_tokenizer(directory: str | Path):
    """The tokenizer in `directory`, as transformers' fast class."""
    import transformers

    with reading(Path(directory) / "tokenizer.json", "a tokenizer"):
        return transformers.PreTrainedTokenizerFast.from_pretrained(
            directory, local_files_only=True
        )


def framework_of(directory: str | Path) -> str:
    """What opens the model in `directory`: "tensorflow", or "jax" where that alone is installed."""
    return engine_for("auto")
