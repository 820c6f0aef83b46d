"""The model: its architecture from the configuration, checked against the data, and built."""

from dataclasses import dataclass, field
from pathlib import Path

from mlm.errors import ConfigError, MlmError
from mlm.framework import make_deterministic, tf
from mlm.tokenizer.encoding import Encoder

#: Families whose TensorFlow code counts positions over ids other than 1, from 2 on.
ROBERTA_FAMILY = ("roberta", "xlm-roberta", "roberta-prelayernorm", "camembert")


@dataclass(frozen=True)
class ModelRequest:
    """A model as the configuration's section `model` asks for it."""

    family: str
    config: dict = field(default_factory=dict)
    config_file: str | None = None
    hub_id: str | None = None
    hub_revision: str | None = None
    initialisation: str = "standard"

    @classmethod
    def of(cls, section: dict) -> "ModelRequest":
        """From the resolved section `model`."""
        return cls(
            family=section["family"],
            config=section["config"],
            config_file=section["config_file"],
            hub_id=section["hub"]["id"],
            hub_revision=section["hub"]["revision"],
            initialisation=section["initialisation"],
        )


def model_configuration(request: ModelRequest, tokenizer: Encoder, sequence_length: int):
    """The transformers configuration of the model, checked; a PretrainedConfig.

    Raises ConfigError with everything that does not fit: family without a TensorFlow
    masked-LM model, vocabulary, positions, pad id, heads.
    """
    from transformers import TF_MODEL_FOR_MASKED_LM_MAPPING, AutoConfig

    base = _base_configuration(request, AutoConfig)
    config = AutoConfig.for_model(base.pop("model_type"), **(base | request.config))
    given = base.keys() | request.config.keys()
    problems = []
    if type(config) not in TF_MODEL_FOR_MASKED_LM_MAPPING:
        problems.append(
            f"model.family: {config.model_type} has no TensorFlow masked language model in "
            "this version of transformers"
        )
    if "vocab_size" in given and config.vocab_size != tokenizer.vocabulary_size:
        problems.append(
            f"model.config.vocab_size: {config.vocab_size}, but the tokenizer has "
            f"{tokenizer.vocabulary_size} ids; leave the key out to take the tokenizer's"
        )
    config.vocab_size = tokenizer.vocabulary_size
    config.bos_token_id = config.cls_token_id = tokenizer.special_ids.cls
    config.eos_token_id = config.sep_token_id = tokenizer.special_ids.sep
    config.pad_token_id = tokenizer.special_ids.pad
    config.tie_word_embeddings = True
    problems += _position_problems(config, sequence_length, "max_position_embeddings" in given)
    if config.model_type in ROBERTA_FAMILY and tokenizer.special_ids.pad != 1:
        problems.append(
            f"tokenizer: the pad token has id {tokenizer.special_ids.pad}; {config.model_type} in "
            "TensorFlow treats id 1 as padding whatever its configuration says, so every "
            "token with id 1 would lose its position. Give <pad> id 1, or choose "
            "model.family: bert"
        )
    width, heads = config.hidden_size, config.num_attention_heads
    if width % heads:
        problems.append(f"model.config: {heads} attention heads do not divide width {width}")
    if problems:
        raise ConfigError(problems)
    return config


def _base_configuration(request: ModelRequest, auto_config) -> dict:
    """Fields that a config file or a Hub id gives, with the model_type."""
    if request.config_file:
        path = Path(request.config_file)
        if not path.is_file():
            raise MlmError(f"model.config_file: no file {path} (looked in {Path.cwd().name}/)")
        return auto_config.from_pretrained(path).to_diff_dict()
    if request.hub_id:
        try:
            found = auto_config.from_pretrained(
                request.hub_id, revision=request.hub_revision, trust_remote_code=False
            )
        except OSError as error:
            raise MlmError(
                f"model.hub.id: {request.hub_id} at {request.hub_revision} could not be read: "
                f"{str(error).splitlines()[0]} Without a network, download its config.json "
                "and name it in model.config_file"
            ) from error
        return found.to_diff_dict()
    from transformers.models.auto.configuration_auto import CONFIG_MAPPING

    if request.family not in CONFIG_MAPPING:
        raise MlmError(
            f"model.family: transformers knows no model_type {request.family!r}; examples: "
            "roberta, roberta-prelayernorm, bert, distilbert, albert, electra"
        )
    return {"model_type": request.family}


def _position_problems(config, sequence_length: int, given: bool) -> list[str]:
    """Fill in `max_position_embeddings` where absent; say where it is too small."""
    offset = 2 if config.model_type in ROBERTA_FAMILY else 0
    needed = sequence_length + offset
    if not given:
        config.max_position_embeddings = needed
        return []
    if config.max_position_embeddings >= needed:
        return []
    because = " (positions of this family start at 2)" if offset else ""
    return [
        f"model.config.max_position_embeddings: {config.max_position_embeddings}; sequences "
        f"of {sequence_length} tokens need at least {needed}{because}"
    ]


def build_model(config, initialisation: str, seed: int):
    """A TF masked language model with initial weights that depend on `seed` alone.

    Raises MlmError where `initialisation` does not suit the family.
    """
    from transformers import TFAutoModelForMaskedLM

    from mlm.pretraining.initialisation import neighbour_heads

    make_deterministic(seed)
    model = TFAutoModelForMaskedLM.from_config(config)
    model(model.dummy_inputs)
    if initialisation == "neighbour_heads":
        neighbour_heads(model, seed)
    return model


def number_of_parameters(model) -> int:
    """Trainable numbers in the model."""
    return int(sum(tf.size(v) for v in model.trainable_variables))
