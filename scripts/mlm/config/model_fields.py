"""Which fields of a config.json of transformers 4 a network computes with, and which it may not
have."""

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
#: Fields of transformers 5, which say in their own way what a ModernBERT's other fields say.
_OF_VERSION_5 = ("layer_types", "rope_parameters")
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
                f"{name} is a field of transformers 5; say it in those of version 4, which are "
                "global_attn_every_n_layers, global_rope_theta and local_rope_theta, and leave it "
                "out"
            )
