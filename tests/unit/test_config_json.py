"""The table of the fields that each family's network reads, against transformers itself."""

import json

import numpy as np
import pytest
import transformers

from mlm.config.config_json import ACTIVATIONS, field_problems, in_numbers, unknown_fields
from mlm.config.families import FAMILIES
from mlm.config.model import Model
from mlm.model.network import Network, ops_of

#: Fields without effect on a masked language model: of other heads, of generating text, of
#: loading and of the format.
WITHOUT_EFFECT = """
_attn_implementation_autoset _name_or_path architectures auto_map bad_words_ids
begin_suppress_tokens bos_token_id chunk_size_feed_forward classifier_dropout
classifier_dropout_prob classifier_pooling cls_token_id cross_attention_hidden_size
decoder_start_token_id deterministic_flash_attn directionality diversity_penalty do_sample
down_scale_factor dtype early_stopping encoder_no_repeat_ngram_size eos_token_id esmfold_config
exponential_decay_length_penalty finetuning_task forced_bos_token_id forced_eos_token_id gap_size
gradient_checkpointing id2label label2id length_penalty mask_token_id max_length min_length
model_type net_structure_type no_repeat_ngram_size num_beam_groups num_beams num_labels
num_memory_blocks num_return_sequences output_attentions output_hidden_states output_past
output_scores pad_token_id pooler_fc_size pooler_hidden_act pooler_num_attention_heads
pooler_num_fc_layers pooler_size_per_head pooler_type prefix problem_type qa_dropout
reference_compile remove_invalid_values repad_logits_with_grad repetition_penalty return_dict
return_dict_in_generate sep_token_id seq_classif_dropout sparse_pred_ignore_index
sparse_prediction summary_activation summary_last_dropout summary_type summary_use_proj
suppress_tokens task_specific_params temperature tie_encoder_decoder tie_weights_
tie_word_embeddings tokenizer_class top_k top_p torch_dtype torchscript transformers_version
typical_p use_bfloat16 use_cache vocab_list
"""


@pytest.mark.parametrize("family", FAMILIES)
def test_every_field_of_the_library_has_a_place_in_the_table(family):
    config = transformers.AutoConfig.for_model(family, **FAMILIES[family].required)
    fields = in_numbers({n: value for n, value in config.to_dict().items() if value is not None})
    aliases = {name: fields[own] for name, own in config.attribute_map.items()}
    assert FAMILIES[family].own_names.items() >= config.attribute_map.items()
    unread = [line.split(":")[0] for line in unknown_fields(fields | aliases, family)]
    assert set(unread) <= set(WITHOUT_EFFECT.split())
    assert not [*field_problems(fields, family)]
    read = FAMILIES[family].fields.values()
    # Fields of transformers 5 alone, and those that an ESM must be told.
    later = {"rope_theta", "mask_token_id", "vocab_size"} if family == "esm" else set()
    assert {f.name: f.default for f in read if f.default is not None and f.name not in later} == {
        f.name: fields[f.name] for f in read if f.default is not None and f.name not in later
    }
    assert {f.name for f in read} - later <= fields.keys()


ROPE = {
    "full_attention": {"rope_type": "default", "rope_theta": 500.0},
    "sliding_attention": {"rope_type": "default", "rope_theta": 100.0},
}
LOCAL, GLOBAL = "sliding_attention", "full_attention"


def modernbert(**fields) -> dict:
    return in_numbers({"model_type": "modernbert", **fields})


@pytest.mark.parametrize(
    ("types", "stored", "every"),
    [
        ([GLOBAL, LOCAL, LOCAL, GLOBAL, LOCAL], None, 3),
        ([GLOBAL, GLOBAL], None, 1),
        ([GLOBAL, LOCAL], None, 2),
        ([GLOBAL, LOCAL], 3, 3),
        ([GLOBAL, LOCAL, GLOBAL], 3, 2),
    ],
)
def test_a_modernbert_of_version_5_is_read_in_numbers(types, stored, every):
    fields = modernbert(rope_parameters=ROPE, layer_types=types, global_attn_every_n_layers=stored)
    assert fields == {
        "model_type": "modernbert",
        "global_attn_every_n_layers": every,
        "global_rope_theta": 500.0,
        "local_rope_theta": 100.0,
    }


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("layer_types", [LOCAL, GLOBAL]),
        ("layer_types", [GLOBAL, GLOBAL, LOCAL]),
        ("layer_types", 7),
        ("rope_parameters", {GLOBAL: ROPE[GLOBAL]}),
        ("rope_parameters", ROPE | {LOCAL: {"rope_type": "yarn", "rope_theta": 1.0}}),
        ("rope_parameters", "yarn"),
    ],
)
def test_another_network_of_version_5_is_refused(name, value):
    with pytest.raises(ValueError, match=name):
        modernbert(**{name: value})


def test_a_published_file_may_say_what_changes_nothing():
    fields = {"layer_norm_eps": 1e-5, "initializer_cutoff_factor": 2.0}
    assert not [*unknown_fields(fields, "modernbert"), *field_problems(fields, "modernbert")]
    (told,) = field_problems({"layer_norm_eps": 1e-3, "rotary_value": None}, "modernbert")
    assert told.startswith("layer_norm_eps")


def test_a_file_without_a_field_means_what_it_means_to_transformers(tmp_path):
    """An ESM's positions are absolute unless its config.json says otherwise; a new one's not."""
    (tmp_path / "config.json").write_text('{"model_type": "esm"}')
    assert not [*Model(family="esm").field_problems()]
    (problem,) = Model(start_from=str(tmp_path)).of_jobs().field_problems()
    assert "position_embedding_type: found nothing" in problem and "set it" in problem


def test_the_network_computes_every_activation_that_the_plan_accepts():
    network = Network(None, ops_of("jax"))
    for name in ACTIVATIONS:
        assert network.activated(name, np.float32([1.0])).shape == (1,)


@pytest.mark.parametrize(
    ("name", "value", "expected"),
    [("pruned_heads", {"0": [1]}, "{}"), ("hidden_act", "gelu_nwe", "did you mean 'gelu_new'")],
)
def test_a_field_that_the_network_does_not_read_is_refused_by_the_plan(
    tmp_path, name, value, expected
):
    (tmp_path / "config.json").write_text(json.dumps({"model_type": "roberta", name: value}))
    new, started = {"family": "roberta", "config": {name: value}}, {"start_from": str(tmp_path)}
    for section in (new | {"initialisation": {"attention": "standard"}}, started):
        (problem,) = Model.model_validate(section).of_jobs().field_problems()
        assert name in problem and expected in problem
