"""The model's architecture, from the configuration and checked against the data."""

from mlm.config.families import FAMILIES, first_position
from mlm.config.model import Model
from mlm.foundations.errors import ConfigError
from mlm.model.architecture import Architecture
from mlm.tokenizer.encoding import Encoder

#: What a checkpoint's config.json says of its own file and tokenizer; no part of the model.
_NOT_THE_MODEL = (
    *("architectures", "auto_map", "transformers_version", "dtype", "torch_dtype", "_name_or_path"),
    *("model_type", "vocab_size"),
)


def model_configuration(model: Model, tokenizer: Encoder, sequence_length: int):
    """Return the transformers configuration of the model, a PretrainedConfig. Raises ConfigError
    with everything that does not fit: vocabulary, pad id, fields."""
    import transformers

    family, fields = model.model_type, model.set_fields
    stored = model.architecture() or FAMILIES[family].required
    base = {name: value for name, value in stored.items() if name not in _NOT_THE_MODEL}
    own_names = FAMILIES[family].own_names
    base = {own_names.get(name, name): value for name, value in base.items()}
    # A field under the family's own name goes before the same under the common one.
    chosen = {own_names[name]: v for name, v in fields.items() if name in own_names}
    chosen |= {name: value for name, value in fields.items() if name not in own_names}
    # Of a checkpoint on the Hub, the plan does not know the fields.
    if problems := [f"model.{line}" for line in model.field_problems()]:
        raise ConfigError(problems)
    try:
        config = transformers.AutoConfig.for_model(family, **(base | chosen))
    except (ValueError, TypeError, KeyError) as error:
        problem = f"model.config: {family} does not take these fields: {error}"
        raise ConfigError([problem]) from error
    named = base.keys() | chosen.keys()
    vocabulary = config.vocab_size
    config.vocab_size = tokenizer.vocabulary_size
    config.bos_token_id = config.cls_token_id = tokenizer.special_ids.cls
    config.eos_token_id = config.sep_token_id = tokenizer.special_ids.sep
    config.pad_token_id = tokenizer.special_ids.pad
    if "mask" in FAMILIES[family].fields:
        config.mask_token_id = tokenizer.special_ids.mask
    config.tie_word_embeddings = True
    if "max_position_embeddings" not in named and not model.start_from:
        config.max_position_embeddings = sequence_length + first_position(family)
    if "vocab_size" in named and vocabulary != tokenizer.vocabulary_size:
        problems.append(
            f"model.config.vocab_size: {vocabulary}, but the tokenizer has "
            f"{tokenizer.vocabulary_size} ids; leave the key out to take the tokenizer's"
        )
    if first_position(family) and config.pad_token_id != 1:
        problems.append(
            f"tokenizer: the pad token has id {config.pad_token_id}, but {family} counts positions "
            "from after id 1, its padding. Give <pad> id 1, or choose model.family: bert"
        )
    if not problems:
        try:
            Architecture.of(config.to_dict())
        except ConfigError as error:
            problems = [f"model.config.{problem}" for problem in error.problems]
    if problems:
        raise ConfigError(problems)
    return config
