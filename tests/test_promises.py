"""Each promise of the README, and of the pages that explain it, has its test in the default run.

A promise is a bullet that begins in bold, a target, or a section of the README.
"""

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]

#: The first words of a promise, and the tests that hold it: staleness::test_x of the
#: folder workflow stands in tests/workflow/test_staleness.py.
PROMISES = {
    "The same bytes from every run": [
        "workflow/whole_workflow::test_another_copy_at_another_number_of_cores_has_the_same_bytes",
        "unit/tokenizer_training::test_processes_train_the_same_bytes",
    ],
    "A kill costs only time": [
        "training/interruption::test_a_killed_training_ends_like_one_left_alone",
        "workflow/killed_snakemake::"
        "test_the_same_command_goes_on_after_a_kill_and_is_refused_beside_a_living_one",
    ],
    "An edit reruns what depends on it": [
        "workflow/staleness::test_a_setting_reruns_what_uses_it",
        "workflow/staleness::"
        "test_settings_that_change_no_byte_rerun_nothing_but_the_page_that_shows_them",
        "workflow/staleness::test_an_edited_file_reruns_what_uses_it_and_a_date_reruns_nothing",
        "workflow/staleness::test_comments_docstrings_and_formatting_rerun_nothing",
    ],
    "A file that the configuration names and that is not there": [
        "unit/named_files::test_all_missing_files_are_told_together_by_their_keys",
        "workflow/staleness::test_a_file_that_is_not_there_is_named_and_keeps_no_old_result",
    ],
    "Every result is checked": [
        "workflow/damage::test_damage_is_named_with_the_command_that_mends_it",
        "workflow/damage::test_a_deleted_result_is_made_again",
        "workflow/damage::test_a_retraining_that_fails_leaves_the_old_model",
    ],
    "No token is lost": [
        "workflow/whole_workflow::test_tokens_in_are_tokens_out",
        "unit/sharding::test_tokens_into_packing_are_the_tokens_out_of_the_shards",
        "unit/manifests::test_a_changed_shard_is_noticed_and_named",
        "unit/masking::test_a_sample_has_the_same_mask_at_any_batch_size",
        "unit/masking::test_threefry_gives_the_published_answers",
        "unit/initialisation::test_every_head_attends_to_its_offset_at_step_zero",
        "unit/cooccurrence::test_words_in_like_company_begin_alike",
        "training/export::test_logits_at_masked_positions_are_those_of_the_whole_model",
    ],
    "Ask the training": [
        "workflow/asking::test_the_example_of_the_page_is_answered_as_it_was_trained",
        "unit/asking::test_a_thousand_tokens_are_used_and_masked_as_the_batches_of_training_are",
        "unit/asking::test_every_document_is_found_where_it_was_packed",
    ],
    "One checkpoint for three frameworks": [
        "training/export::test_tensorflow_opens_the_export",
        "training/export::test_flax_opens_the_export",
        "training/export::test_pytorch_opens_the_exports",
    ],
    "Hardware": [
        "training/engines::test_both_engines_have_the_same_losses",
        "unit/masking::test_numpy_and_jax_draw_the_same_masks_to_the_last_bit",
        "unit/evaluation::test_tensorflow_and_jax_answer_alike",
        "unit/local_devices::test_a_gpu_that_is_hidden_on_purpose_does_not_count",
        "unit/requirements::"
        "test_the_gpu_environment_has_jaxs_plugin_and_the_cuda_that_tensorflow_takes",
        "training/jax_framework::test_a_gpu_that_is_asked_for_and_not_there_is_no_cpu",
        "training/jax_framework::test_a_gpus_kernels_are_deterministic_unless_speed_is_asked_for",
        "unit/preflight_tensorflow::test_a_planted_fault_is_refused_in_xlas_words",
        "preflight/tpu_targets::"
        "test_a_step_beyond_the_memory_is_told_from_a_refused_one_and_from_no_target",
        "training/refusals::test_auto_that_finds_a_tpu_waits_for_a_passed_preflight_too",
        "unit/requirements::test_a_profile_names_rules_that_there_are",
        "unit/requirements::test_an_extended_environment_holds_the_default_one",
    ],
    "Quick start": [
        "workflow/whole_workflow::test_every_declared_result_is_there",
        "workflow/whole_workflow::test_transformers_opens_the_model_and_fills_masks",
        "workflow/staleness::test_nothing_changed_means_nothing_to_be_done",
        "workflow/staleness::test_the_status_command_says_why_in_words",
    ],
    "Your own corpus": [
        "workflow/whole_workflow::test_a_bad_configuration_is_one_message_and_nothing_written",
        "unit/configuration::test_unknown_keys_wrong_types_and_contradictions_are_told_together",
        "unit/configuration::test_config_yaml_the_page_of_all_keys_and_the_schema_are_current",
    ],
    "Sources": [
        "unit/corpus::test_the_embedded_corpus_adds_up",
        "unit/corpus_sources::test_every_format_and_compression_gives_the_same_documents",
        "unit/corpus_hub::test_a_dataset_comes_from_an_existing_cache_without_a_network",
        "unit/corpus_mix::"
        "test_documents_are_taken_as_often_as_their_sources_weigh_whatever_the_parts",
        "unit/corpus_mix::test_a_source_that_gives_nothing_is_refused_in_words",
    ],
    "Groups": [
        "unit/corpus_groups::test_a_column_names_the_groups_in_every_format_that_has_columns",
        "unit/corpus_groups::test_no_group_is_on_both_sides_of_a_carved_split",
        "unit/evaluation::test_intervals_resample_the_sums_by_group",
    ],
    "Filters": [
        "unit/corpus::test_each_filter_counts_what_it_takes",
        "unit/corpus::test_duplicates_and_leaks_are_those_that_sets_would_find",
        "unit/near_duplicates::test_edited_copies_are_found_with_an_f1_of_over_0_89",
        "unit/near_duplicates::test_train_gives_way_to_held_out_splits_and_they_never_to_it",
        "unit/decontamination::test_train_alone_loses_documents_which_are_counted_by_file",
        "unit/corpus_quality::test_what_rules_took_is_counted_by_split_with_its_first_texts",
    ],
    "Tokenizers": [
        "unit/tokenizer_files::test_the_files_are_canonical_and_the_same_every_time",
        "unit/tokenizer_files::test_a_pretrained_directory_gives_the_same_ids",
        "unit/tokenizer_training::test_the_text_of_special_strings_stays_text",
    ],
    "Runs": [
        "workflow/staleness::test_a_run_added_trains_that_run_and_remakes_the_report",
        "workflow/whole_workflow::test_what_snakemake_merges_away_is_still_known",
        "unit/sweep::test_a_sweep_is_the_same_as_its_runs_written_out",
    ],
    "Presets": [
        "unit/configuration::test_the_schema_says_what_the_models_say",
        "unit/configuration_sources::"
        "test_a_preset_is_accepted_with_those_that_its_comment_lays_it_over",
    ],
    "Size": [
        "unit/tokenizer_training::test_training_takes_an_even_sample_of_a_large_corpus",
        "unit/sharding::test_memory_is_bounded_by_the_batch_and_not_by_the_corpus",
        "unit/corpus_parts::test_any_number_of_parts_gives_the_bytes_of_one_job",
        "unit/corpus::test_files_of_equal_shares_are_the_split_in_its_order",
    ],
    "snakemake --cores 2": ["workflow/whole_workflow::test_every_declared_result_is_there"],
    "snakemake --cores 1 check": [
        "unit/check::test_models_and_kept_states_are_counted",
        "unit/check::test_the_size_of_a_large_corpus_is_seen_from_parts_of_it",
    ],
    "snakemake --cores 2 preview": ["workflow/whole_workflow::test_preview_is_a_target"],
    "snakemake --cores 2 index": [
        "unit/text_index::test_an_answer_is_the_same_with_the_index_and_without"
    ],
    "snakemake --cores 2 preflight": [
        "unit/preflight_tensorflow::test_the_step_that_trains_compiles",
        "preflight/tpu_targets::test_training_validation_and_evaluation_compile_for_a_tpu",
    ],
    "snakemake --cores 2 export": [
        "unit/exports::test_croissants_own_reader_finds_every_shard",
    ],
    "snakemake --cores 2 publish": [
        "workflow/publishing::test_publishing_from_the_first_time_to_nothing_to_be_done"
    ],
    "snakemake --cores 2 --report x.html": [
        "workflow/whole_workflow::test_snakemakes_own_report_and_graph_are_made"
    ],
    "Your files": [
        "workflow/staleness::test_an_edited_file_reruns_what_uses_it_and_a_date_reruns_nothing",
        "workflow/staleness::test_touched_code_reruns_nothing",
    ],
    "Operational settings": [
        "workflow/staleness::"
        "test_settings_that_change_no_byte_rerun_nothing_but_the_page_that_shows_them",
    ],
    "Code": [
        "workflow/staleness::test_touched_code_reruns_nothing",
        "workflow/staleness::test_a_clone_under_another_path_finds_the_results_of_the_first",
    ],
    "Results": [
        "workflow/damage::test_a_result_of_other_settings_with_an_old_date_is_noticed",
        "workflow/damage::test_without_snakemakes_notes_results_of_other_settings_are_refused",
    ],
    "Private": [
        "publishing/uploads::"
        "test_files_arrive_whole_in_a_repository_that_is_public_only_if_asked_for",
        "publishing/refusals::test_nothing_private_goes_into_a_public_repository",
        "publishing/publish_settings::"
        "test_nothing_is_published_by_default_and_what_is_published_is_private",
    ],
    "Resumed": [
        "publishing/uploads::test_only_what_differs_is_uploaded",
        "publishing/uploads::test_many_files_are_committed_in_groups_and_a_rerun_resumes",
    ],
    "Whole": ["publishing/contents::test_a_damaged_model_is_not_published"],
    "The token": [
        "workflow/publishing::test_publishing_from_the_first_time_to_nothing_to_be_done",
        "publishing/refusals::test_a_stored_login_or_a_garbled_token_is_not_used",
    ],
    "Of the corpus": ["publishing/contents::test_no_text_of_the_corpus_goes_with_a_model"],
    "Cards": ["publishing/contents::test_a_tokenizer_goes_with_a_card"],
    "snakemake --cores 2 finetune": [
        "workflow/finetuning::"
        "test_fine_tuning_is_a_target_of_the_workflow_and_trains_no_model_again",
    ],
    "docs/finetuning.md": [
        "workflow/finetuning::"
        "test_fine_tuning_is_a_target_of_the_workflow_and_trains_no_model_again",
        "finetuning/finetuning_runs::test_200_rows_in_the_commonlit_layout_run_from_end_to_end",
        "finetuning/finetuning_runs::"
        "test_a_fold_run_again_or_stopped_and_resumed_leaves_the_same_bytes",
    ],
    "docs/report.md": [
        "unit/report::test_the_page_asks_for_nothing_from_outside",
        "unit/report::test_every_artefact_has_its_digest_in_the_page",
        "browser/report_page::test_no_word_is_broken_or_cut_off",
    ],
    "Limits": ["unit/environment::test_the_pinned_environment_passes"],
}
TESTS = sorted({test for tests in PROMISES.values() for test in tests})
#: Sections of the README that only lead elsewhere.
HEADINGS = {"Licence", "More", "Use the model", "Runs and presets", "Resume and rerun"}
#: Pages whose bullets are promises too; a page without bullets is one.
PAGES = ("reruns", "publishing", "finetuning", "report")


def promised() -> set[str]:
    """What the README and the pages promise, by its first words."""
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    pages = {f"docs/{name}.md": (ROOT / f"docs/{name}.md").read_text() for name in PAGES}
    bullets = re.findall(r"^- \*\*(.+?)\.?\*\*", text + "".join(pages.values()), re.M)
    targets = re.findall(r"^\| `(snakemake [^`]*)` \|", text, re.M)
    sections = re.findall(r"^## (.+)$", text, re.M)
    without = {name for name, page in pages.items() if "\n- **" not in page}
    return {*bullets, *targets, *sections, *without} - HEADINGS


def test_every_promise_has_its_tests():
    assert promised() == set(PROMISES)
    assert all(PROMISES.values())


@pytest.mark.parametrize("test", TESTS)
def test_the_test_of_a_promise_is_there_and_not_slow(test):
    file, name = test.split("::")
    path = ROOT / "tests" / file
    module = ast.parse(path.with_name(f"test_{path.name}.py").read_text(encoding="utf-8"))
    (function,) = (n for n in module.body if isinstance(n, ast.FunctionDef) and n.name == name)
    marks = [ast.unparse(decorator) for decorator in function.decorator_list]
    marks += [
        ast.unparse(node.value)
        for node in module.body
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "pytestmark"
    ]
    # Where some parameters are slow, the others are not.
    assert not [m for m in marks if "mark.slow" in m and "parametrize" not in m]
