"""The families of encoders, in one table: names of weights, fields of config.json, heads.

All are computed by one network (`mlm.model.network`): BERT (Devlin et al., 2018), RoBERTa (Liu et
al., 2019), XLM-RoBERTa, CamemBERT, RoBERTa with norms before the layers (fairseq's
`--encoder-normalize-before`), DistilBERT (Sanh et al., 2019), ELECTRA's generator (Clark et al.,
2020), ALBERT (Lan et al., 2019), ModernBERT (Warner et al., 2024) and ESM-2 (Lin et al., 2023).
Names and layouts are those that transformers in PyTorch saves for AutoModelForMaskedLM; a decoder
tied to the word embeddings is not saved.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from mlm.config.error_messages import did_you_mean


@dataclass(frozen=True)
class Names:
    """Names of a family's weights; those from `projections` to `output_norm` are within a layer."""

    words: str
    #: What the numbers of layers follow, or the one layer that all share.
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
    embedding_norm: str | None = None
    #: From embeddings to layers of another width.
    embedding_projection: str | None = None
    #: After the last layer. With it, norms come before attention and dense layers, not after them.
    final_norm: str | None = None


class Field(NamedTuple):
    """A field of config.json: its name in this family, the value that a file without it means
    (None: the field is required), and the name that most families give it."""

    name: str
    default: Any = None
    common_name: str | None = None

    @property
    def names(self) -> tuple[str, ...]:
        return (self.name, self.common_name) if self.common_name else (self.name,)

    def value(self, fields: Mapping[str, Any]) -> Any:
        values = (fields.get(name) for name in self.names)
        return next((value for value in values if value is not None), self.default)


@dataclass(frozen=True)
class SequenceHead:
    """A family's head for sequence classification: its class in PyTorch, the names of its products,
    and the field with its dropout. The head reads the first token's state."""

    architecture: str
    output: str = "classifier"
    dense: str | None = None
    #: Whether the head of the masked language model comes before the output.
    projects: bool = False
    activation: str = "tanh"
    drops_first: bool = False
    dropout: str | None = "classifier_dropout"
    #: Other fields of config.json, with the values that make it read the first token.
    fields: Mapping[str, Any] = field(default_factory=dict)

    @property
    def of_tokens(self) -> "SequenceHead":
        """The family's head for token classification, which reads every token's state."""
        architecture = self.architecture.replace("Sequence", "Token")
        return SequenceHead(architecture, projects=self.projects, dropout=self.dropout)


@dataclass(frozen=True)
class Family:
    """What a family is made of. `fields` are those that its network reads, by the names that
    `mlm.model.architecture.Architecture` has for them."""

    names: Names
    fields: Mapping[str, Field]
    sequence_head: SequenceHead
    #: Other fields of config.json, with the only value that each may have: with another, PyTorch
    #: would build another network around the weights. So it would without those that are required.
    only: Mapping[str, Any] = field(default_factory=dict)
    required: Mapping[str, Any] = field(default_factory=dict)
    #: A second inner layer gates the first (Shazeer, 2020); the first layer has no norm before
    #: attention; what is added to the residual begins smaller.
    gated: bool = False
    #: All layers are one (ALBERT).
    shared_layers: bool = False
    #: Whether embeddings as wide as the layers are projected too.
    always_projects: bool = False

    @property
    def inner_products(self) -> int:
        """Matrices from or to a layer's inner values."""
        return 3 if self.gated else 2

    @property
    def encoder_prefix(self) -> str:
        """How the names of the encoder's weights begin."""
        return self.names.words.partition(".")[0] + "."

    @property
    def beside_encoder(self) -> set[str]:
        """How the names of weights of heads begin."""
        names, head = self.names, self.sequence_head
        heads = (names.head_dense, names.head_norm, names.decoder_bias, head.output)
        return {name.partition(".")[0] for name in heads}

    @property
    def field_names(self) -> set[str]:
        """The fields of config.json that the network reads, under all their names."""
        return {name for field in self.fields.values() for name in field.names}

    @property
    def dropout_fields(self) -> set[str]:
        """The fields of config.json with probabilities of dropout."""
        return {field.name for name, field in self.fields.items() if name.endswith("dropout")}

    @property
    def own_names(self) -> dict[str, str]:
        """The family's names of fields by those that most families give them."""
        return {f.common_name: f.name for f in self.fields.values() if f.common_name}

    def read(self, fields: Mapping[str, Any]) -> dict[str, Any]:
        """The values of `fields`, those of config.json, by `Architecture`'s names."""
        return {name: field.value(fields) for name, field in self.fields.items()}


_SIZES = {
    "vocabulary": Field("vocab_size"),
    "width": Field("hidden_size"),
    "layers": Field("num_hidden_layers"),
    "heads": Field("num_attention_heads"),
    "inner": Field("intermediate_size"),
    "initializer_range": Field("initializer_range", 0.02),
}
_DROPOUT = Field("hidden_dropout_prob", 0.1)
_BERT = _SIZES | {
    "activation": Field("hidden_act", "gelu"),
    "head_activation": Field("hidden_act", "gelu"),
    "norm_epsilon": Field("layer_norm_eps", 1e-12),
    "embedding_dropout": _DROPOUT,
    "attention_dropout": Field("attention_probs_dropout_prob", 0.1),
    "attended_dropout": _DROPOUT,
    "output_dropout": _DROPOUT,
    "positions": Field("max_position_embeddings", 512),
    "token_types": Field("type_vocab_size", 2),
}


def _without(fields: Mapping[str, Field], *names: str) -> dict[str, Field]:
    return {name: field for name, field in fields.items() if name not in names}


_ROBERTA = _without(_BERT, "head_activation") | {"padding": Field("pad_token_id", 1)}
_DISTILBERT_DROPOUT = Field("dropout", 0.1, "hidden_dropout_prob")
_DISTILBERT = _SIZES | {
    "width": Field("dim", None, "hidden_size"),
    "layers": Field("n_layers", None, "num_hidden_layers"),
    "heads": Field("n_heads", None, "num_attention_heads"),
    "inner": Field("hidden_dim", None, "intermediate_size"),
    "activation": Field("activation", "gelu"),
    "head_activation": Field("activation", "gelu"),
    "embedding_dropout": _DISTILBERT_DROPOUT,
    "attention_dropout": Field("attention_dropout", 0.1, "attention_probs_dropout_prob"),
    "output_dropout": _DISTILBERT_DROPOUT,
    "positions": Field("max_position_embeddings", 512),
}
_ELECTRA = _without(_BERT, "head_activation") | {"embedding": Field("embedding_size", 128)}
_ALBERT = _without(_BERT, "output_dropout") | {
    "embedding": Field("embedding_size", 128),
    "activation": Field("hidden_act", "gelu_new"),
    "head_activation": Field("hidden_act", "gelu_new"),
    "embedding_dropout": Field("hidden_dropout_prob", 0.0),
    "attention_dropout": Field("attention_probs_dropout_prob", 0.0),
    "attended_dropout": Field("hidden_dropout_prob", 0.0),
}
_MODERNBERT = _SIZES | {
    "activation": Field("hidden_activation", "gelu"),
    "head_activation": Field("classifier_activation", "gelu"),
    "norm_epsilon": Field("norm_eps", 1e-5),
    "embedding_dropout": Field("embedding_dropout", 0.0),
    "attention_dropout": Field("attention_dropout", 0.0, "attention_probs_dropout_prob"),
    "attended_dropout": Field("attention_dropout", 0.0, "attention_probs_dropout_prob"),
    "inner_dropout": Field("mlp_dropout", 0.0, "hidden_dropout_prob"),
    "norm_bias": Field("norm_bias", False),
    "attention_bias": Field("attention_bias", False),
    "inner_bias": Field("mlp_bias", False),
    "head_bias": Field("classifier_bias", False),
    "decoder_bias": Field("decoder_bias", True),
    "positions": Field("max_position_embeddings", 8192),
    "window": Field("local_attention", 128),
    "global_every": Field("global_attn_every_n_layers", 3),
    "global_theta": Field("global_rope_theta", 160_000.0),
    "local_theta": Field("local_rope_theta", 10_000.0),
}
_ESM = _without(_BERT, *("activation", "head_activation", "embedding_dropout", "token_types")) | {
    "positions": Field("max_position_embeddings", 1026),
    "global_theta": Field("rope_theta", 10_000.0),
    "zero_masks": Field("token_dropout", False),
    "mask": Field("mask_token_id", -1),
}


def _bert_names(prefix: str, head: tuple[str, ...], **others: Any) -> Names:
    """BERT's, with the names of the `head`: dense layer, norm, and bias of the vocabulary."""
    embeddings, attention = f"{prefix}.embeddings", "attention.self."
    names: dict[str, Any] = {
        "words": f"{embeddings}.word_embeddings",
        "positions": f"{embeddings}.position_embeddings",
        "token_types": f"{embeddings}.token_type_embeddings",
        "embedding_norm": f"{embeddings}.LayerNorm",
        "layer": f"{prefix}.encoder.layer.",
        "projections": (attention + "query", attention + "key", attention + "value"),
        "attended": "attention.output.dense",
        "attention_norm": "attention.output.LayerNorm",
        "inner": "intermediate.dense",
        "output": "output.dense",
        "output_norm": "output.LayerNorm",
    }
    names |= zip(("head_dense", "head_norm", "decoder_bias"), head, strict=True)
    return Names(**(names | others))


_BERT_HEAD = tuple(
    f"cls.predictions.{name}" for name in ("transform.dense", "transform.LayerNorm", "bias")
)
_ROBERTA_HEAD = ("lm_head.dense", "lm_head.layer_norm", "lm_head.bias")


def _roberta_sequence_head(prefix: str, **others: Any) -> SequenceHead:
    return SequenceHead(
        f"{prefix}ForSequenceClassification",
        output="classifier.out_proj",
        dense="classifier.dense",
        drops_first=True,
        **others,
    )


def _roberta(prefix: str) -> Family:
    return Family(_bert_names("roberta", _ROBERTA_HEAD), _ROBERTA, _roberta_sequence_head(prefix))


#: By model_type of transformers.
FAMILIES: dict[str, Family] = {
    "bert": Family(
        _bert_names("bert", _BERT_HEAD),
        _BERT,
        SequenceHead("BertForSequenceClassification", dense="bert.pooler.dense"),
    ),
    "roberta": _roberta("Roberta"),
    "xlm-roberta": _roberta("XLMRoberta"),
    "camembert": _roberta("Camembert"),
    "roberta-prelayernorm": Family(
        _bert_names(
            "roberta_prelayernorm",
            _ROBERTA_HEAD,
            attention_norm="attention.LayerNorm",
            output_norm="intermediate.LayerNorm",
            final_norm="roberta_prelayernorm.LayerNorm",
        ),
        _ROBERTA,
        _roberta_sequence_head("RobertaPreLayerNorm"),
    ),
    "distilbert": Family(
        _bert_names(
            "distilbert",
            ("vocab_transform", "vocab_layer_norm", "vocab_projector.bias"),
            token_types=None,
            layer="distilbert.transformer.layer.",
            projections=("attention.q_lin", "attention.k_lin", "attention.v_lin"),
            attended="attention.out_lin",
            attention_norm="sa_layer_norm",
            inner="ffn.lin1",
            output="ffn.lin2",
            output_norm="output_layer_norm",
        ),
        _DISTILBERT,
        SequenceHead(
            "DistilBertForSequenceClassification",
            dense="pre_classifier",
            activation="relu",
            dropout="seq_classif_dropout",
        ),
        only={"sinusoidal_pos_embds": False},
    ),
    "electra": Family(
        _bert_names(
            "electra",
            (
                *("generator_predictions.dense", "generator_predictions.LayerNorm"),
                "generator_lm_head.bias",
            ),
            embedding_projection="electra.embeddings_project",
        ),
        _ELECTRA,
        _roberta_sequence_head("Electra", activation="gelu"),
    ),
    "albert": Family(
        _bert_names(
            "albert",
            ("predictions.dense", "predictions.LayerNorm", "predictions.bias"),
            embedding_projection="albert.encoder.embedding_hidden_mapping_in",
            layer="albert.encoder.albert_layer_groups.0.albert_layers.0.",
            projections=("attention.query", "attention.key", "attention.value"),
            attended="attention.dense",
            attention_norm="attention.LayerNorm",
            inner="ffn",
            output="ffn_output",
            output_norm="full_layer_layer_norm",
        ),
        _ALBERT,
        SequenceHead(
            "AlbertForSequenceClassification",
            dense="albert.pooler",
            dropout="classifier_dropout_prob",
        ),
        only={"inner_group_num": 1, "num_hidden_groups": 1},
        shared_layers=True,
        always_projects=True,
    ),
    "modernbert": Family(
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
        SequenceHead(
            "ModernBertForSequenceClassification",
            projects=True,
            fields={"classifier_pooling": "cls"},
        ),
        # Of published files: what changes nothing.
        only={"initializer_cutoff_factor": 2.0, "layer_norm_eps": 1e-5},
        gated=True,
    ),
    "esm": Family(
        _bert_names(
            "esm",
            _ROBERTA_HEAD,
            positions=None,
            token_types=None,
            embedding_norm=None,
            attention_norm="attention.LayerNorm",
            output_norm="LayerNorm",
            final_norm="esm.encoder.emb_layer_norm_after",
        ),
        _ESM,
        _roberta_sequence_head("Esm", dropout=None),
        only={"emb_layer_norm_before": False, "is_folding_model": False, "hidden_act": "gelu"},
        required={"position_embedding_type": "rotary"},
    ),
}


def unfit_family(family: str) -> str | None:
    """Why no model of this model_type is trained here, in words; None if it is."""
    if family in FAMILIES:
        return None
    hint = did_you_mean(family, FAMILIES, f"there are: {', '.join(sorted(FAMILIES))}")
    return f"{family!r} is not a masked language model that is trained here; {hint}"


def first_position(family: str) -> int:
    """The position of a sequence's first token: the number of rows of the table before it. RoBERTa
    counts from after the padding's id, which is 1."""
    return 2 if "padding" in FAMILIES[family].fields else 0
