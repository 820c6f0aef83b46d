"""The sizes and settings of an encoder, and the shapes of its weights; the config.json with which
it begins, from the configuration."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

from mlm.config.config_json import field_problems, in_numbers
from mlm.config.families import FAMILIES, Family, Names, first_position
from mlm.config.model import Model
from mlm.foundations.errors import ConfigError
from mlm.tokenizer.encoding import Encoder

#: What a checkpoint's config.json says of its own file and tokenizer; no part of the model.
_NOT_THE_MODEL = (
    *("architectures", "auto_map", "transformers_version", "dtype", "torch_dtype", "_name_or_path"),
    *("model_type", "vocab_size"),
)


@dataclass(frozen=True)
class Architecture:
    """An encoder's sizes and settings, hashable: a jitted function can take it as static. `padding`
    is the id from which positions count (RoBERTa), None if they count from 0."""

    family: str
    vocabulary: int
    width: int
    layers: int
    heads: int
    inner: int
    #: Width of the embeddings.
    embedding: int
    initializer_range: float
    #: RoBERTa, ELECTRA and ESM have gelu in the head, whatever the layers have.
    activation: str = "gelu"
    head_activation: str = "gelu"
    norm_epsilon: float = 1e-12
    embedding_dropout: float = 0.0
    attention_dropout: float = 0.0
    attended_dropout: float = 0.0
    inner_dropout: float = 0.0
    output_dropout: float = 0.0
    #: Longest sequence, and places before it in the table of positions.
    positions: int = 0
    token_types: int = 0
    padding: int | None = None
    norm_bias: bool = True
    attention_bias: bool = True
    inner_bias: bool = True
    head_bias: bool = True
    decoder_bias: bool = True
    #: One layer in so many is global; the others see no token farther away than half the window.
    global_every: int = 1
    window: int = 0
    #: Bases of the rotary positions of global and of local layers; None where they are a table.
    global_theta: float | None = None
    local_theta: float | None = None
    #: Whether the embeddings of the token `mask` are zeros, for which those of the others make up.
    zero_masks: bool = False
    mask: int = -1

    @classmethod
    def of(cls, config: Mapping[str, Any]) -> Self:
        """That of a config.json. Raises ConfigError with all that is missing or not built here."""
        family = config.get("model_type")
        if family not in FAMILIES:
            known = ", ".join(FAMILIES)
            raise ConfigError([f"model_type: found {family!r}, expected one of {known}"])
        try:
            config = in_numbers(config)
        except ValueError as error:
            raise ConfigError([str(error)]) from None
        fields, values = FAMILIES[family].fields, FAMILIES[family].read(config)
        if missing := [fields[name].name for name, value in values.items() if value is None]:
            raise ConfigError([f"{name}: missing, expected a whole number" for name in missing])
        if problems := sorted(field_problems(config, family)):
            raise ConfigError(problems)
        architecture = cls(family=family, **({"embedding": values["width"]} | values))
        wide = architecture.width // architecture.heads
        if architecture.thetas and wide % 2:
            heads = f"{fields['heads'].name}: found {architecture.heads}, heads {wide} wide"
            raise ConfigError([f"{heads}; rotary positions need an even width"])
        return architecture

    @property
    def _family(self) -> Family:
        return FAMILIES[self.family]

    @property
    def names(self) -> Names:
        return self._family.names

    @property
    def pre_norm(self) -> bool:
        """Whether norms come before attention and dense layers, and not after them."""
        return self.names.final_norm is not None

    @property
    def gated(self) -> bool:
        """Whether a second inner layer gates the first; layer 0 then begins without a norm."""
        return self._family.gated

    @property
    def projects_embeddings(self) -> bool:
        """Whether a product leads from the embeddings to the first layer."""
        narrow = self.names.embedding_projection and self.embedding != self.width
        return self._family.always_projects or bool(narrow)

    @property
    def longest_row(self) -> int | None:
        """Tokens that the table of positions has room for; None if there is no table."""
        first = 0 if self.padding is None else self.padding + 1
        return self.positions - first if self.names.positions else None

    @property
    def drops(self) -> bool:
        """Whether a training drops anything."""
        names = ("embedding", "attention", "attended", "inner", "output")
        return any(getattr(self, f"{name}_dropout") for name in names)

    @property
    def local_layers(self) -> tuple[int, ...]:
        return tuple(n for n in range(self.layers) if n % self.global_every)

    @property
    def thetas(self) -> tuple[float, ...]:
        """Bases of the rotary positions of global and, if there are any, of local layers."""
        return tuple(x for x in (self.global_theta, self.local_theta) if x is not None)

    def layer_prefix(self, layer: int) -> str:
        """How the names of a layer's weights begin."""
        return self.names.layer + ("" if self._family.shared_layers else f"{layer}.")


def parameter_shapes(architecture: Architecture) -> dict[str, tuple[int, ...]]:
    """The shape of each weight, by its name in order; dense weights are [outputs, inputs]."""
    a, names, shapes = architecture, architecture.names, {}

    def add(name: str, *shape: int, bias: bool) -> None:
        shapes[f"{name}.weight"] = shape
        if bias:
            shapes[f"{name}.bias"] = shape[:1]

    add(names.words, a.vocabulary, a.embedding, bias=False)
    if names.positions:
        add(names.positions, a.positions, a.embedding, bias=False)
    if names.token_types:
        add(names.token_types, a.token_types, a.embedding, bias=False)
    if a.projects_embeddings and names.embedding_projection:
        add(names.embedding_projection, a.width, a.embedding, bias=True)
    for layer in range(a.layers):
        prefix = a.layer_prefix(layer)
        rows = 3 * a.width // len(names.projections)
        for name in names.projections:
            add(prefix + name, rows, a.width, bias=a.attention_bias)
        add(prefix + names.attended, a.width, a.width, bias=a.attention_bias)
        add(prefix + names.inner, a.inner * (2 if a.gated else 1), a.width, bias=a.inner_bias)
        add(prefix + names.output, a.width, a.inner, bias=a.inner_bias)
        if not a.gated or layer > 0:
            add(prefix + names.attention_norm, a.width, bias=a.norm_bias)
        add(prefix + names.output_norm, a.width, bias=a.norm_bias)
    add(names.head_dense, a.embedding, a.width, bias=a.head_bias)
    norms = (names.embedding_norm, a.embedding), (names.final_norm, a.width)
    for norm, width in (*norms, (names.head_norm, a.embedding)):
        if norm:
            add(norm, width, bias=a.norm_bias)
    if a.decoder_bias:
        shapes[names.decoder_bias] = (a.vocabulary,)
    return dict(sorted(shapes.items()))


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
