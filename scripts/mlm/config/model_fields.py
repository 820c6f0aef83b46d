"""Which fields of a config.json a network computes with, and which it may not have."""

from collections.abc import Iterator, Mapping
from typing import Any

from mlm.config.families import FAMILIES
from mlm.config.fields import did_you_mean

#: Fields that would make another network than the one that is trained here, unless they have
#: this value.
_ONLY = {
    "position_embedding_type": "absolute",
    "rope_scaling": None,
    "pruned_heads": {},
    "tf_legacy_loss": False,
}
#: Fields of transformers 5 for what a ModernBERT's other fields say in a number each.
_OF_VERSION_5 = ("layer_types", "rope_parameters")
#: By kind of layer: what transformers 5 calls it, and the field with the base of its positions.
_THETAS = {"full_attention": "global_rope_theta", "sliding_attention": "local_rope_theta"}
#: Fields without effect on a masked language model: of other heads, of generating text, of
#: loading and of the format.
_WITHOUT_EFFECT = """
_attn_implementation_autoset _name_or_path add_cross_attention architectures auto_map
bad_words_ids begin_suppress_tokens bos_token_id chunk_size_feed_forward classifier_dropout
classifier_dropout_prob classifier_pooling cls_token_id cross_attention_hidden_size
decoder_start_token_id deterministic_flash_attn directionality diversity_penalty do_sample
down_scale_factor dtype early_stopping encoder_no_repeat_ngram_size eos_token_id esmfold_config
exponential_decay_length_penalty finetuning_task forced_bos_token_id forced_eos_token_id gap_size
gradient_checkpointing id2label is_decoder is_encoder_decoder label2id length_penalty
mask_token_id max_length min_length model_type net_structure_type no_repeat_ngram_size
num_beam_groups num_beams num_labels num_memory_blocks num_return_sequences output_attentions
output_hidden_states output_past output_scores pad_token_id pooler_fc_size pooler_hidden_act
pooler_num_attention_heads pooler_num_fc_layers pooler_size_per_head pooler_type prefix
problem_type qa_dropout reference_compile remove_invalid_values repad_logits_with_grad
repetition_penalty return_dict return_dict_in_generate sep_token_id seq_classif_dropout
sparse_pred_ignore_index sparse_prediction summary_activation summary_last_dropout summary_type
summary_use_proj suppress_tokens task_specific_params temperature tie_encoder_decoder tie_weights_
tie_word_embeddings tokenizer_class top_k top_p torch_dtype torchscript transformers_version
typical_p use_bfloat16 use_cache vocab_list
"""
#: Those of `mlm.model.network`.
ACTIVATIONS = ("gelu", "gelu_new", "gelu_pytorch_tanh", "relu", "silu", "tanh")


def in_numbers(fields: Mapping[str, Any]) -> dict[str, Any]:
    """`fields` of a config.json with `_OF_VERSION_5` as numbers: a ModernBERT's bases of rotary
    positions, and how many layers lie between two global ones. Raises ValueError for others."""
    if fields.get("model_type") != "modernbert":
        return dict(fields)
    numbers = {name: value for name, value in fields.items() if name not in _OF_VERSION_5}
    if rope := fields.get("rope_parameters"):
        try:
            thetas = {kind: float(rope[kind]["rope_theta"]) for kind in _THETAS}
        except (KeyError, TypeError, ValueError):
            thetas = {}
        plain = {kind: {"rope_type": "default", "rope_theta": b} for kind, b in thetas.items()}
        if rope != plain or not plain:
            raise ValueError(
                f"rope_parameters: found {rope}, expected a rope_theta of rope_type: default for "
                f"each of {', '.join(_THETAS)}"
            )
        numbers |= {_THETAS[kind]: base for kind, base in thetas.items()}
    if (types := fields.get("layer_types")) is not None:
        stored = numbers.get("global_attn_every_n_layers")
        numbers["global_attn_every_n_layers"] = _layers_between(types, stored)
    return numbers


def _layers_between(types: Any, stored: int | None) -> int:
    """That n for which each n-th of a ModernBERT's layers is global, `stored` if it is one. Raises
    ValueError if there is none."""
    kinds = types if isinstance(types, list) else []
    further = (n for n, kind in enumerate(kinds) if n and kind == "full_attention")
    for every in (stored, next(further, len(kinds))):
        if every and types == [
            "sliding_attention" if n % every else "full_attention" for n in range(len(kinds))
        ]:
            return every
    raise ValueError(
        f"layer_types: found {types}, expected full_attention in each n-th layer from the first "
        "on, and sliding_attention in the others"
    )


def unknown_fields(fields: Mapping[str, Any], family: str) -> Iterator[str]:
    """A line for each field that the network of `family` does not read, nor may have by it."""
    read = FAMILIES[family].field_names
    known = {*read, *_ONLY, *FAMILIES[family].only, *_OF_VERSION_5, *_WITHOUT_EFFECT.split()}
    for name in sorted(name for name, value in fields.items() if value is not None):
        if name not in known:
            hint = did_you_mean(name, sorted(read), "see its configuration class")
            yield f"{name}: {family} has no such field; {hint}"


def unbuilt_fields(fields: Mapping[str, Any], family: str) -> Iterator[str]:
    """A line for each value of `fields`, all of a config.json, that asks for another network."""
    required = FAMILIES[family].required
    for name, only in (_ONLY | dict(FAMILIES[family].only)).items():
        value = fields.get(name)
        if value != only and (value is not None or name in required):
            remedy = "set it" if name in required else "leave it out"
            yield (
                f"{name}: found {'nothing' if value is None else repr(value)}, expected {only!r}, "
                f"the only network that is trained here; {remedy}"
            )
    own = FAMILIES[family].fields
    for name in dict.fromkeys(own[x].name for x in ("activation", "head_activation") if x in own):
        value = fields.get(name)
        if value is not None and value not in ACTIVATIONS:
            hint = f"; {meant}" if (meant := did_you_mean(value, ACTIVATIONS)) else ""
            yield f"{name}: found {value!r}, expected one of {', '.join(ACTIVATIONS)}{hint}"
    for name in _OF_VERSION_5:
        if fields.get(name) is not None:
            yield (
                f"{name}: say it in numbers, global_attn_every_n_layers, global_rope_theta and "
                "local_rope_theta, and leave it out"
            )
