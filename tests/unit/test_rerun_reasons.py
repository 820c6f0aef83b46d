from mlm.foundations.artefacts import settings_digests, write_artefact
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


def test_several_changed_params_are_paired_by_their_keys():
    reason = params(
        "{'title': 'a'}, {'steps': 1}, {'title': 'a'}",
        "{'steps': 2}, {'title': 'b'}, {'title': 'b'}",
    )
    changed = {"pretraining.steps changed 1 → 2", "report.title changed 'a' → 'b'"}
    assert set(reasons_in_words(reason, CONFIG)) == changed


def test_a_setting_that_is_no_section_has_the_name_that_the_result_recorded(tmp_path):
    was = settings_digests({"runs": ["base"], "steps": 7, "a": 3, "b": 3})
    (tmp_path / "results").mkdir()
    (tmp_path / "results" / "page.json").write_text("{")
    write_artefact(tmp_path / "results" / "report.json", {"made_from": {"settings": was}})
    dry_run = "rule report:\n    output: results/page.html, results/page.json, results/report.json"

    def words(before, now, directory=tmp_path):
        text = f"{dry_run}\n    reason: {params(before, now)}"
        (stage,) = stages(planned_jobs(text), CONFIG, directory)
        return stage.reasons

    assert words("['base']", "['base', 'hot']") == ["runs changed ['base'] → ['base', 'hot']"]
    assert words("7", "8") == ["pretraining.steps changed 7 → 8"]
    # Two settings had this value, and one that was not recorded.
    assert words("3", "4") == ["a setting changed 3 → 4"]
    assert words("5", "4") == ["a setting changed 5 → 4"]
    assert words("7", "8", tmp_path / "elsewhere") == ["a setting changed 7 → 8"]


def test_params_that_cannot_be_read_are_still_told():
    assert reasons_in_words(params("{'a': <object>}", "{}"), {}) == ["its parameters changed"]


def test_an_edited_module_and_an_edited_input_are_told_apart():
    before = (
        {"mlm.samples.sharding": "0" * 12, "mlm.foundations.errors": "1" * 12},
        {"data/a.txt": "2" * 64},
    )
    now = before[0] | {"mlm.samples.sharding": "3" * 12}, {"data/a.txt": "4" * 64}
    reason = params(f"{before[0]}, {before[1]}", f"{now[0]}, {now[1]}")
    assert reasons_in_words(reason, {}) == [
        "the code it uses was edited: mlm.samples.sharding",
        "data/a.txt changed",
    ]


def test_jobs_of_a_rule_with_the_same_reason_are_one_line():
    dry_run = "\n".join(
        f"rule shard:\n    jobid: {i}\n    reason: Updated input files: data/a.txt\n"
        f"    wildcards: shard={i}"
        for i in range(3)
    )
    (stage,) = stages(planned_jobs(dry_run), {})
    assert (stage.rule, len(stage.jobs)) == ("shard", 3)
