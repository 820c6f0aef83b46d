from mlm.foundations.rerun_reasons import planned_jobs, reasons_in_words, stages

CONFIG = {
    "pretraining": {"steps": 10, "optimizer": {"learning_rate": 0.1}},
    "report": {"title": ""},
}


def params(before, now):
    return (
        "Params have changed since last execution: Union of exclusive params before and now "
        f"across all output: before: {before} now: {now}"
    )


def test_changed_params_are_paired_by_their_keys_and_named_by_their_section():
    reason = params("{'title': 'a'}, {'steps': 1}, 7", "{'steps': 2}, 8, {'title': 'b'}")
    assert reasons_in_words(reason, CONFIG) == [
        "report.title changed 'a' → 'b'",
        "pretraining.steps changed 1 → 2",
        "a setting changed 7 → 8",
    ]
    assert reasons_in_words(params("{'a': <object>}", "{}"), {}) == ["its parameters changed"]


def test_an_edited_module_and_an_edited_input_are_named_without_their_digests():
    before = {"mlm.a": "0" * 12, "mlm.b": "1" * 12}, {"data/a.txt": "2" * 64}
    now = before[0] | {"mlm.a": "3" * 12}, {"data/a.txt": "4" * 64}
    reason = params(f"{before[0]}, {before[1]}", f"{now[0]}, {now[1]}")
    assert reasons_in_words(reason, {}) == ["mlm.a changed", "data/a.txt changed"]


def test_jobs_of_a_rule_with_the_same_reason_are_one_stage():
    dry_run = "\n".join(
        f"rule shard:\n    jobid: {i}\n    reason: Updated input files: data/a.txt\n"
        f"    wildcards: shard={i}"
        for i in range(3)
    )
    of_one_reason = {("shard", "data/a.txt changed"): ["shard=0", "shard=1", "shard=2"]}
    assert stages(planned_jobs(dry_run), {}) == of_one_reason
