"""Which fields of a config.json of transformers 4 the network of each family computes with."""

from collections.abc import Iterator, Mapping
from typing import Any

from mlm.config.fields import did_you_mean

_COMMON = frozenset(
    (
        *("hidden_size", "num_hidden_layers", "num_attention_heads", "intermediate_size"),
        *("hidden_dropout_prob", "attention_probs_dropout_prob", "hidden_act", "vocab_size"),
        *("initializer_range", "layer_norm_eps", "max_position_embeddings", "type_vocab_size"),
    )
)
#: By model_type, the fields that its network reads, under all their names.
_READ = {
    **dict.fromkeys(
        ("bert", "camembert", "roberta", "roberta-prelayernorm", "xlm-roberta"), _COMMON
    ),
    "albert": _COMMON | {"embedding_size", "inner_group_num", "num_hidden_groups"},
    "distilbert": _COMMON - {"hidden_act", "layer_norm_eps", "type_vocab_size"}
    | {
        *("activation", "attention_dropout", "dim", "dropout", "hidden_dim", "n_heads"),
        "n_layers",
    },
    "electra": _COMMON | {"embedding_size"},
    "modernbert": _COMMON - {"hidden_act", "layer_norm_eps", "type_vocab_size"}
    | {
        *("attention_bias", "attention_dropout", "classifier_activation", "classifier_bias"),
        *("decoder_bias", "embedding_dropout", "global_attn_every_n_layers"),
        *("global_rope_theta", "hidden_activation", "local_attention", "local_rope_theta"),
        *("mlp_bias", "mlp_dropout", "norm_bias", "norm_eps"),
    },
}
#: Fields that would make another network than the one that is trained here, unless they have
#: this value: PyTorch would build that other network around the exported weights.
_ONLY = {
    "position_embedding_type": "absolute",
    "rope_scaling": None,
    "sinusoidal_pos_embds": False,
    "sinusoidal_embeddings": False,
    "is_encoder": True,
    "causal": False,
    "asm": False,
    "pruned_heads": {},
    "legacy": True,
    "tf_legacy_loss": False,
}
#: Fields of published files that no network here reads, with values that change nothing.
_AS_PUBLISHED = {"modernbert": {"initializer_cutoff_factor": 2.0, "layer_norm_eps": 1e-5}}
#: Fields of transformers 5, which say in their own way what a ModernBERT's other fields say.
_OF_VERSION_5 = ("layer_types", "rope_parameters")
#: Fields without effect on a masked language model: of other heads, of generating text, of
#: loading and of the format.
_WITHOUT_EFFECT = """
_attn_implementation_autoset max_vocab min_count same_enc_dec share_inout_emb _name_or_path
architectures attention_mode bad_words_ids begin_suppress_tokens bos_index bos_token_id
chunk_size_feed_forward classifier_dropout classifier_dropout_prob classifier_pooling
cls_dropout cls_token_id cross_attention_hidden_size decoder_start_token_id
deterministic_flash_attn directionality diversity_penalty do_sample down_scale_factor dtype
early_stopping encoder_no_repeat_ngram_size end_n_top eos_index eos_token_id
exponential_decay_length_penalty finetuning_task forced_bos_token_id forced_eos_token_id
gap_size gradient_checkpointing id2label id2lang ignore_attention_mask is_decoder
is_encoder_decoder add_cross_attention label2id lang2id length_penalty mask_index max_length
min_length model_type net_structure_type no_repeat_ngram_size num_beam_groups num_beams
num_labels num_memory_blocks num_return_sequences onnx_export output_attentions
output_hidden_states output_past output_scores pad_token_id pooler_dropout pooler_fc_size
pooler_hidden_act pooler_hidden_size pooler_num_attention_heads pooler_num_fc_layers
pooler_size_per_head pooler_type prefix problem_type qa_dropout reference_compile
remove_invalid_values repad_logits_with_grad repetition_penalty return_dict
return_dict_in_generate sep_token_id seq_classif_dropout sparse_pred_ignore_index
sparse_prediction start_n_top summary_activation summary_first_dropout summary_last_dropout
summary_proj_to_labels summary_type summary_use_proj suppress_tokens task_specific_params
temperature tie_encoder_decoder tie_weights_ tie_word_embeddings tokenizer_class top_k top_p
torch_dtype torchscript transformers_version typical_p unk_index use_bfloat16 use_cache
classifier_activation auto_map
"""
#: Activations that the encoder in JAX computes, and those of transformers in TensorFlow that
#: PyTorch has as well.
_ACTIVATIONS = {
    "jax": ("gelu", "gelu_new", "gelu_pytorch_tanh", "relu", "silu", "tanh"),
    "tensorflow": (
        *("gelu", "gelu_10", "gelu_fast", "gelu_new", "mish", "quick_gelu", "relu", "sigmoid"),
        *("silu", "swish", "tanh"),
    ),
}
_ACTIVATION_FIELDS = ("activation", "classifier_activation", "hidden_act", "hidden_activation")


def unknown_fields(fields: Mapping[str, Any], family: str) -> Iterator[str]:
    """A line for each field that the network of `family` does not read, nor may have by it."""
    known = {*_READ[family], *_ONLY, *_OF_VERSION_5, *_WITHOUT_EFFECT.split()}
    published = _AS_PUBLISHED.get(family, {})
    known |= {name for name, only in published.items() if fields.get(name) == only}
    for name in sorted(name for name, value in fields.items() if value is not None):
        if name in known:
            continue
        hint = did_you_mean(name, sorted(_READ[family]), "see its configuration class")
        yield f"{name}: {family} has no such field; {hint}"


def unbuilt_fields(fields: Mapping[str, Any], family: str, engine: str) -> Iterator[str]:
    """A line for each value that asks for another network than `engine` trains."""
    for name, only in _ONLY.items():
        value = fields.get(name)
        if value is not None and value != only:
            yield (
                f"{name}: found {value!r}, expected {only!r}, the only network that is trained "
                "here; leave it out"
            )
    for name in _ACTIVATION_FIELDS:
        value, there = fields.get(name), _ACTIVATIONS[engine]
        if name in _READ[family] and value is not None and value not in there:
            hint = f"; {meant}" if (meant := did_you_mean(value, there)) else ""
            yield f"{name}: found {value!r}, expected one of {', '.join(there)}{hint}"
    for name in _OF_VERSION_5:
        if fields.get(name) is not None:
            yield (
                f"{name} is a field of transformers 5; say it in those of version 4, which are "
                "global_attn_every_n_layers, global_rope_theta and local_rope_theta, and leave it "
                "out"
            )
