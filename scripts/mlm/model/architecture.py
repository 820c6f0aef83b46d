"""What the families of encoders are made of: their sizes, and the names of their weights.

The families are one network: BERT (Devlin et al., 2018), RoBERTa (Liu et al., 2019), the same with
norms before the layers (fairseq's `--encoder-normalize-before`) and ModernBERT (Warner et al.,
2024, with gated layers: Shazeer, 2020). Names and layouts are those that transformers in PyTorch
saves for AutoModelForMaskedLM; a decoder tied to the word embeddings is not saved.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from mlm.config.model_fields import unbuilt_fields
from mlm.foundations.errors import ConfigError


@dataclass(frozen=True)
class Names:
    """Where a family keeps its weights; from `projections` to `output_norm`, within a layer."""

    words: str
    embedding_norm: str
    layer: str
    #: Query, key and value, or one product for the three.
    projections: tuple[str, ...]
    attended: str
    attention_norm: str
    inner: str
    output: str
    output_norm: str
    head_dense: str
    head_norm: str
    decoder_bias: str
    positions: str | None = None
    token_types: str | None = None
    final_norm: str | None = None


def _bert_names(prefix: str, pre_norm: bool, head: tuple[str, str, str]) -> Names:
    embeddings, attention = f"{prefix}.embeddings", "attention.self."
    return Names(
        words=f"{embeddings}.word_embeddings",
        positions=f"{embeddings}.position_embeddings",
        token_types=f"{embeddings}.token_type_embeddings",
        embedding_norm=f"{embeddings}.LayerNorm",
        layer=f"{prefix}.encoder.layer.",
        projections=(attention + "query", attention + "key", attention + "value"),
        attended="attention.output.dense",
        attention_norm="attention.LayerNorm" if pre_norm else "attention.output.LayerNorm",
        inner="intermediate.dense",
        output="output.dense",
        output_norm="intermediate.LayerNorm" if pre_norm else "output.LayerNorm",
        final_norm=f"{prefix}.LayerNorm" if pre_norm else None,
        head_dense=head[0],
        head_norm=head[1],
        decoder_bias=head[2],
    )


_SIZES = {
    "vocabulary": "vocab_size",
    "width": "hidden_size",
    "layers": "num_hidden_layers",
    "heads": "num_attention_heads",
    "inner": "intermediate_size",
}
#: By field of `Architecture`: the field of config.json, and what a file without it means.
_BERT = {
    "activation": ("hidden_act", "gelu"),
    "head_activation": ("hidden_act", "gelu"),
    "norm_epsilon": ("layer_norm_eps", 1e-12),
    "embedding_dropout": ("hidden_dropout_prob", 0.1),
    "attention_dropout": ("attention_probs_dropout_prob", 0.1),
    "attended_dropout": ("hidden_dropout_prob", 0.1),
    "output_dropout": ("hidden_dropout_prob", 0.1),
    "positions": ("max_position_embeddings", 512),
    "token_types": ("type_vocab_size", 2),
}
_ROBERTA = {name: _BERT[name] for name in _BERT if name != "head_activation"} | {
    "padding": ("pad_token_id", 1)
}
_MODERNBERT = {
    "activation": ("hidden_activation", "gelu"),
    "head_activation": ("classifier_activation", "gelu"),
    "norm_epsilon": ("norm_eps", 1e-5),
    "embedding_dropout": ("embedding_dropout", 0.0),
    "attention_dropout": ("attention_dropout", 0.0),
    "attended_dropout": ("attention_dropout", 0.0),
    "inner_dropout": ("mlp_dropout", 0.0),
    "norm_bias": ("norm_bias", False),
    "attention_bias": ("attention_bias", False),
    "inner_bias": ("mlp_bias", False),
    "head_bias": ("classifier_bias", False),
    "decoder_bias": ("decoder_bias", True),
    "window": ("local_attention", 128),
}
_ROBERTA_HEAD = ("lm_head.dense", "lm_head.layer_norm", "lm_head.bias")
_ROBERTA_NAMES = _bert_names("roberta", False, _ROBERTA_HEAD)
_BERT_HEAD = tuple(
    f"cls.predictions.{name}" for name in ("transform.dense", "transform.LayerNorm", "bias")
)
#: By model_type: its names, and the fields of its config.json.
FAMILIES = {
    "bert": (_bert_names("bert", False, _BERT_HEAD), _BERT),
    "roberta": (_ROBERTA_NAMES, _ROBERTA),
    "xlm-roberta": (_ROBERTA_NAMES, _ROBERTA),
    "roberta-prelayernorm": (_bert_names("roberta_prelayernorm", True, _ROBERTA_HEAD), _ROBERTA),
    "modernbert": (
        Names(
            words="model.embeddings.tok_embeddings",
            embedding_norm="model.embeddings.norm",
            layer="model.layers.",
            projections=("attn.Wqkv",),
            attended="attn.Wo",
            attention_norm="attn_norm",
            inner="mlp.Wi",
            output="mlp.Wo",
            output_norm="mlp_norm",
            final_norm="model.final_norm",
            head_dense="head.dense",
            head_norm="head.norm",
            decoder_bias="decoder.bias",
        ),
        _MODERNBERT,
    ),
}


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
    activation: str
    norm_epsilon: float
    initializer_range: float
    embedding_dropout: float
    attention_dropout: float
    attended_dropout: float
    #: RoBERTa has gelu here, whatever its layers have.
    head_activation: str = "gelu"
    inner_dropout: float = 0.0
    output_dropout: float = 0.0
    positions: int = 0
    token_types: int = 0
    padding: int | None = None
    norm_bias: bool = True
    attention_bias: bool = True
    inner_bias: bool = True
    head_bias: bool = True
    decoder_bias: bool = True
    #: Layers that see no token farther away than half the window.
    local_layers: tuple[int, ...] = ()
    window: int = 0
    #: Bases of the rotary positions of global and of local layers; none where they are a table.
    thetas: tuple[float, ...] = ()

    @classmethod
    def of(cls, config: Mapping[str, Any]) -> "Architecture":
        """That of a config.json of transformers 4. Raises ConfigError with every size that is
        missing, or else with everything that is not built here."""
        family = config.get("model_type")
        if family not in FAMILIES:
            known = ", ".join(FAMILIES)
            raise ConfigError([f"model_type: found {family!r}, expected one of {known}"])
        given = {name: value for name, value in config.items() if value is not None}
        fields = FAMILIES[family][1]
        found = {own: given.get(name, default) for own, (name, default) in fields.items()}
        found |= {own: given.get(name) for own, name in _SIZES.items()}
        if missing := [name for own, name in _SIZES.items() if found[own] is None]:
            raise ConfigError([f"{name}: missing, expected a whole number" for name in missing])
        problems = [*unbuilt_fields(given, family, "jax")]
        if family == "modernbert":
            every = given.get("global_attn_every_n_layers", 3)
            problems += [
                f"{name}: found {value!r}, expected a whole number of 1 or more"
                for name, value in (
                    ("global_attn_every_n_layers", every),
                    ("local_attention", found["window"]),
                )
                if type(value) is not int or value < 1
            ]
            if (wide := found["width"] // found["heads"]) % 2:
                problems.append(
                    f"num_attention_heads: found {found['heads']}, which makes heads {wide} wide; "
                    "rotary positions need an even width"
                )
        if problems:
            raise ConfigError(problems)
        if family == "modernbert":
            found["local_layers"] = tuple(n for n in range(found["layers"]) if n % every)
            thetas = (("global_rope_theta", 160_000.0), ("local_rope_theta", 10_000.0))
            found["thetas"] = tuple(given.get(name, usual) for name, usual in thetas)
        found["initializer_range"] = given.get("initializer_range", 0.02)
        return cls(family=family, **found)

    @property
    def names(self) -> Names:
        return FAMILIES[self.family][0]

    @property
    def pre_norm(self) -> bool:
        """Whether norms come before attention and dense layers, and not after them."""
        return self.names.final_norm is not None

    @property
    def longest_row(self) -> int | None:
        """Tokens that the table of positions has room for; None if there is no table."""
        first = 0 if self.padding is None else self.padding + 1
        return self.positions - first if self.names.positions else None

    @property
    def gated(self) -> bool:
        """Whether a second inner layer gates the first; layer 0 then has no norm of its own."""
        return self.family == "modernbert"


def parameter_shapes(architecture: Architecture) -> dict[str, tuple[int, ...]]:
    """The shape of each weight, by its name in order; dense weights are [outputs, inputs]."""
    a, names, shapes = architecture, architecture.names, {}

    def add(name: str, *shape: int, bias: bool) -> None:
        shapes[f"{name}.weight"] = shape
        if bias:
            shapes[f"{name}.bias"] = shape[:1]

    add(names.words, a.vocabulary, a.width, bias=False)
    if names.positions:
        add(names.positions, a.positions, a.width, bias=False)
        add(names.token_types, a.token_types, a.width, bias=False)
    for layer in range(a.layers):
        place = f"{names.layer}{layer}."
        for name in names.projections:
            add(place + name, 3 * a.width // len(names.projections), a.width, bias=a.attention_bias)
        add(place + names.attended, a.width, a.width, bias=a.attention_bias)
        add(place + names.inner, a.inner * (2 if a.gated else 1), a.width, bias=a.inner_bias)
        add(place + names.output, a.width, a.inner, bias=a.inner_bias)
        if not a.gated or layer > 0:
            add(place + names.attention_norm, a.width, bias=a.norm_bias)
        add(place + names.output_norm, a.width, bias=a.norm_bias)
    add(names.head_dense, a.width, a.width, bias=a.head_bias)
    for norm in (names.embedding_norm, names.final_norm, names.head_norm):
        if norm:
            add(norm, a.width, bias=a.norm_bias)
    if a.decoder_bias:
        shapes[names.decoder_bias] = (a.vocabulary,)
    return dict(sorted(shapes.items()))
