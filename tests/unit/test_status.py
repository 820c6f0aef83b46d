import subprocess
from pathlib import Path

import pytest
from loaded_script import loaded


@pytest.fixture
def status():
    return loaded("status")


@pytest.fixture
def snakemake(monkeypatch, tmp_path):
    """Stands for Snakemake: the commands that it was given, and what it is to print."""
    monkeypatch.chdir(tmp_path)
    asked, answer = [], [""]

    def ran(command, **_):
        asked.append(command)
        return subprocess.CompletedProcess(command, 0, answer[0], "")

    monkeypatch.setattr(subprocess, "run", ran)
    return asked, answer


def test_the_answer_to_another_question_is_handed_on(status, snakemake, capsys):
    snakemake[1][0] = "digraph snakemake_dag {}\n"
    assert status.main(["--dag"]) == 0
    assert capsys.readouterr().out == snakemake[1][0]


@pytest.mark.parametrize(
    "arguments",
    [["--configfile", "a.yaml", "b.yaml"], ["--configfile=a.yaml"], ["report.html", "-n"]],
)
def test_what_belongs_to_snakemake_is_given_to_it(status, snakemake, capsys, arguments):
    for name in ("a.yaml", "b.yaml"):
        Path(name).write_text("seed: 1\n")
    snakemake[1][0] = "Building DAG of jobs...\nNothing to be done (all requested files ...).\n"
    assert status.main(arguments) == 0
    assert snakemake[0][0][-len(arguments) :] == arguments
    assert capsys.readouterr().out == "Nothing to be done: every result is up to date.\n"


CONFIG = {
    "pretraining": {"steps": 10, "optimizer": {"learning_rate": 0.1}},
    "report": {"title": ""},
}


def params(before, now):
    return (
        "Params have changed since last execution: Union of exclusive params before and now "
        f"across all output: before: {before} now: {now}"
    )


def test_changed_params_are_paired_by_their_keys_and_named_by_their_section(status):
    reason = params("{'title': 'a'}, {'steps': 1}, 7", "{'steps': 2}, 8, {'title': 'b'}")
    assert status.reasons_in_words(reason, CONFIG) == [
        "report.title changed 'a' → 'b'",
        "pretraining.steps changed 1 → 2",
        "a setting changed 7 → 8",
    ]
    assert status.reasons_in_words(params("{'a': <object>}", "{}"), {}) == [
        "its parameters changed"
    ]


def test_an_edited_module_and_an_edited_input_are_named_without_their_digests(status):
    before = {"mlm.a": "0" * 12, "mlm.b": "1" * 12}, {"data/a.txt": "2" * 64}
    now = before[0] | {"mlm.a": "3" * 12}, {"data/a.txt": "4" * 64}
    reason = params(f"{before[0]}, {before[1]}", f"{now[0]}, {now[1]}")
    assert status.reasons_in_words(reason, {}) == ["mlm.a changed", "data/a.txt changed"]


def test_jobs_of_a_rule_with_the_same_reason_are_one_stage(status):
    dry_run = "\n".join(
        f"rule shard:\n    jobid: {i}\n    reason: Updated input files: data/a.txt\n"
        f"    wildcards: shard={i}"
        for i in range(3)
    )
    of_one_reason = {("shard", "data/a.txt changed"): ["shard=0", "shard=1", "shard=2"]}
    assert status.stages(dry_run, {}) == of_one_reason
