"""An edit reruns exactly what depends on it: edits × the set of rules that rerun."""

import ast
import copy
import os
import re
import shutil
from pathlib import Path

import pytest

from .conftest import TINY, Project

pytestmark = pytest.mark.workflow

#: What each rule's results feed, by hand: the expectation must not come from the workflow.
FEEDS = {
    "corpus": {"tokenizer", "shard", "manifest", "evaluate", "report"},
    "tokenizer": {"shard", "manifest", "pretrain", "masked_samples", "report"},
    "shard": {"manifest"},
    "manifest": {"pretrain", "evaluate", "masked_samples", "report"},
    "pretrain": {"keep_model"},
    "keep_model": {"evaluate", "fill_mask", "report"},
    "masked_samples": {"report"},
    "evaluate": {"report"},
    "fill_mask": {"report"},
    "report": set(),
}


def downstream(*rules):
    found, waiting = set(), set(rules)
    while waiting:
        rule = waiting.pop()
        found.add(rule)
        waiting |= FEEDS[rule] - found
    return found


ALL = set(FEEDS)


def with_setting(path, value):
    config = place = copy.deepcopy(TINY)
    *way, last = path.split(".")
    for key in way:
        place = place.setdefault(key, {})
    place[last] = value
    return config


#: What each setting reruns: one of each section by default.
SETTINGS = [
    ("report.title", "Another title", {"report"}),
    ("evaluation.prompts", ["We [MASK] it."], downstream("fill_mask")),
    ("pretraining.optimizer.learning_rate", 1.0e-4, downstream("pretrain")),
    # The configuration stands in the report, and nowhere else.
    ("pretraining.checkpoint.every", 5, {"report"}),
    ("model.config.hidden_size", 64, downstream("pretrain")),
    ("tokenizer.vocabulary_size", 550, downstream("tokenizer")),
    ("shards.count.train", 3, downstream("shard")),
    ("corpus.filters.min_characters", 20, ALL),
    ("seed", 5, downstream("pretrain", "masked_samples")),
]
MORE_SETTINGS = [
    ("pretraining.masking.mlm_probability", 0.2, downstream("pretrain", "masked_samples")),
    ("corpus.count", 2, ALL),
    ("corpus.files.train", ["data/train-a.txt"], ALL),
    ("accelerator.kind", "cpu", downstream("pretrain", "evaluate")),
]


@pytest.mark.parametrize(
    ("path", "value", "expected"),
    [
        *(pytest.param(*s, id=s[0]) for s in SETTINGS),
        *(pytest.param(*s, id=s[0], marks=pytest.mark.slow) for s in MORE_SETTINGS),
    ],
)
def test_a_setting_reruns_what_uses_it(built, path, value, expected):
    with built.configured(with_setting(path, value)):
        assert built.would_run() == expected


def test_settings_that_change_no_byte_rerun_nothing_but_the_page_that_shows_them(built):
    config = copy.deepcopy(TINY)
    config["pretraining"]["checkpoint"] = {"every": 3, "keep": 7, "directory": "elsewhere"}
    config["publish"] = {"model": "me/a-model", "private": False}
    with built.configured(config):
        assert built.would_run() == {"report"}


def test_a_setting_that_changes_no_byte_reaches_its_job(built):
    """States every four steps, of which the last two stay, as the configuration says."""
    states = built.path.glob("state/base/*/step-*")
    assert sorted(state.name for state in states) == ["step-00000008.state", "step-00000012.state"]


def test_another_order_of_keys_and_another_notation_is_no_change(built):
    def reversed_keys(value):
        if isinstance(value, dict):
            return {k: reversed_keys(value[k]) for k in reversed(value)}
        return value

    with built.configured(reversed_keys(TINY)):
        other_notation = [b"hidden_dropout_prob: 0.1", b"hidden_dropout_prob: 1.0e-1"]
        with built.edited("tiny.yaml", by=lambda content: content.replace(*other_notation)):
            assert built.would_run() == set()


def test_cores_and_threads_are_no_change(built):
    threads = ("--set-threads", "pretrain=1", "--set-resources", "pretrain:mem_mb=9000")
    assert built.would_run("--cores", "1", *threads) == set()


def test_a_run_added_trains_that_run_and_remakes_the_report(built):
    config = copy.deepcopy(TINY)
    hot = {"optimizer": {"learning_rate": 0.01}, "continue_from": {"run": "base", "step": 4}}
    config["runs"] = {"base": {}, "hot": {"pretraining": hot}}
    with built.configured(config):
        assert built.would_run() == downstream("pretrain", "masked_samples")
        text = (built.path / "dry-run.txt").read_text()
        assert "run=hot" in text and "run=base" not in text
        (inputs,) = re.findall(r"rule pretrain:\n +input: (.*)", text)
        assert "results/runs/base/" in inputs, "it waits for the run that it continues"


EDITED = [
    ("data/train-a.txt", "new", ALL),
    # As `mv`, `cp -a`, `rsync -a`, `tar` and a checkout of git leave it.
    ("data/train-b.txt", "1970", ALL),
    ("data/pairs.tsv", "1970", downstream("evaluate")),
    ("report/style.css", "1970", {"report"}),
    ("scripts/jobs/evaluate.py", "new", downstream("evaluate", "fill_mask")),
    ("scripts/mlm/samples/sharding.py", "new", downstream("shard")),
    ("scripts/mlm/training/optimizers.py", "new", downstream("pretrain")),
    ("scripts/mlm/evaluation/metrics.py", "new", downstream("evaluate")),
    ("scripts/mlm/report/page.py", "new", {"report"}),
]
LINES = {".txt": b"Another line.\n", ".tsv": b"He is.\tHe are.\n"}
LINES |= {".css": b"b {color: red}\n", ".py": b"EDITED = True\n"}


@pytest.mark.parametrize(("file", "date", "expected"), EDITED)
def test_an_edited_file_reruns_what_uses_it(built, file, date, expected):
    with built.edited(file, by=lambda content: content + LINES[Path(file).suffix], date=date):
        assert built.would_run() == expected


def test_another_date_of_any_file_reruns_nothing(built):
    with built.edited(*(file for file, *_ in EDITED), by=lambda content: content):
        assert built.would_run() == set()


def test_a_clone_under_another_path_finds_the_results_of_the_first(built, tmp_path):
    ignored = shutil.ignore_patterns("results", "state", "logs", ".snakemake", "data")
    clone = shutil.copytree(built.path, tmp_path / "clone", ignore=ignored)
    assert built.would_run("--snakefile", str(clone / "Snakefile")) == set()


def test_a_copy_without_snakemakes_notes_is_taken_as_made(built, tmp_path):
    """With the dates of the copying in any order; those of the benchmarks count as well."""
    copy_of = Project(tmp_path)
    for name in ("logs", "results", "data"):
        shutil.copytree(built.path / name, tmp_path / name, copy_function=shutil.copyfile)
    for number, file in enumerate(sorted((tmp_path / "results").rglob("*.*"), reverse=True)):
        os.utime(file, (1_700_000_000 + number,) * 2)
    copy_of.write_config(TINY)
    assert copy_of.would_run("--snakefile", str(built.path / "Snakefile")) == set()


def test_comments_docstrings_and_formatting_rerun_nothing(built):
    """All modules and scripts at once: unparsed, which leaves no comment and no line as it was."""

    def reformatted(content: bytes) -> bytes:
        tree = ast.parse(content)
        if ast.get_docstring(tree):
            tree.body[0].value.value = "Another docstring."
        return f"# a comment\n{ast.unparse(tree)}\n".encode()

    with built.edited(*(built.path / "scripts").rglob("*.py"), by=reformatted):
        assert built.would_run() == set()


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("evaluation.seed", 5),
        ("finetune.data", {"source": "csv", "file": "data/pairs.tsv", "target_column": "x"}),
    ],
)
def test_a_file_that_is_not_there_is_named_and_keeps_no_old_result(built, path, value):
    """Snakemake would take what was made from it as done, and show new settings beside it."""
    with (
        built.configured(with_setting(path, value)),
        built.edited("data/pairs.tsv", by=lambda content: None),
    ):
        output = built.dry_run()
    assert "evaluation.minimal_pair_files: data/pairs.tsv is not there" in output
    assert ("finetune.data.file: data/pairs.tsv is not there" in output) == ("finetune" in path)
    assert "rule report:" not in output
