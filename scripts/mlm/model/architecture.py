"""The sizes and settings of an encoder, from its config.json, and the shapes of its weights."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

from mlm.config.config_json import field_problems, in_numbers
from mlm.config.families import FAMILIES, Family, Names
from mlm.foundations.errors import ConfigError


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
