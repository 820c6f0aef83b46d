"""Every file that a configuration names is looked for before anything is planned."""

import pytest
from tests.conftest import refusal

from mlm.config.corpus import CorpusConfiguration, Files
from mlm.config.overlays import resolve
from mlm.corpus.source_files import filter_files, matched_files


def test_all_missing_files_are_told_together_by_their_keys(here):
    (here / "pairs.tsv").touch()
    own = {"base": {}, "own": {"evaluation": {"minimal_pair_files": ["pairs.tsv", "gone.tsv"]}}}
    csv = {"data": {"source": "csv", "file": "typo.csv", "target_column": "x"}}
    pairs = {"minimal_pair_files": ["typo.jsonl"]}
    problems = [*resolve({"evaluation": pairs, "runs": own, "finetune": csv}).missing_files()]
    for key, path in (
        ("evaluation.minimal_pair_files", "typo.jsonl"),
        ("evaluation.minimal_pair_files", "gone.tsv"),
        ("finetune.data.file", "typo.csv"),
    ):
        assert sum(line.startswith(f"{key}: {path} is not there") for line in problems) == 1
    assert len(problems) == 3


@pytest.mark.parametrize("name", ["<results>.tsv", "<b>.tsv", "{run}.tsv", "a\x1b.tsv"])
def test_names_that_snakemake_would_read_as_something_else_are_refused(here, name):
    (here / name).write_text("A text.\n")
    (here / "pairs.tsv").touch()
    for given in (
        {"evaluation": {"minimal_pair_files": [name]}},
        {"finetune": {"data": {"source": "csv", "file": name, "target_column": "x"}}},
        {"report": {"also": {"other": name}}},
        {"tokenizer": {"kind": "pretrained", "pretrained": {"path": name, "revision": "0" * 40}}},
    ):
        problem = refusal(resolve, {"evaluation": {"prompts": []}} | given)
        assert repr(name)[1:-1] in problem and "rename it" in problem
    assert "rename it" in refusal(matched_files, Files(train=["*.tsv"]))


def test_a_text_to_decontaminate_against_has_a_format_that_is_read(here):
    (here / "essays").write_text("excerpt,target\na,1\n")
    filters = {"decontamination": {"against": ["essays"]}}
    settings = resolve({"corpus": {"filters": filters}})
    message = refusal(filter_files, CorpusConfiguration.of(settings.corpus, settings.seed))
    assert "essays: its name" in message
