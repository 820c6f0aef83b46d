"""Every result, damaged in every way: made again to the same bytes, or named with what mends it.

None of the cases may end in "nothing to be done" with a result missing or wrong.
"""

import re
import shutil

import pytest

from mlm.foundations.artefacts import read_artefact, write_artefact

pytestmark = pytest.mark.workflow

#: One of each kind of result: artefacts, which vouch for the files beside them, and those.
RECORDS = [
    "results/corpus/test.json",
    "results/tokenizer/tokenizer_stats.json",
    "results/shards/validation/validation-00000-of-00001.json",
    "results/manifests/train.json",
    "results/runs/base/trained/training.json",
    "results/runs/base/training.json",
    "results/runs/base/evaluation.json",
    "results/runs/base/fill_mask.json",
    "results/runs/base/preview.json",
    "results/report.json",
]
OTHERS = [
    "results/corpus/train.parquet",
    "results/tokenizer/tokenizer.json",
    "results/tokenizer/special_tokens_map.json",
    "results/shards/train/train-00001-of-00002.tfrecord",
    "results/runs/base/trained/model/model.safetensors",
    "results/runs/base/model/model.safetensors",
    "results/runs/base/model/config.json",
    "results/runs/base/model/README.md",
    "results/runs/base/training.csv",
    "results/report.html",
    "results/figures/test_loss.svg",
]


def flipped(content: bytes) -> bytes:
    """One bit of the middle byte is another; in a table, of a digit that is no speed."""
    middle = len(content) // 2
    if content.startswith(b"step,"):
        middle = content.index(b",", content.index(b"\n")) + 1
    return content[:middle] + bytes([content[middle] ^ 1]) + content[middle + 1 :]


DAMAGES = {
    "flipped byte": flipped,
    "cut": lambda content: content[: len(content) // 2],
    "empty": lambda content: b"",
    "flipped byte, same date": flipped,
}


@pytest.fixture(scope="module")
def intact(built):
    return built.digests()


@pytest.mark.parametrize("results", [RECORDS, OTHERS], ids=["records", "others"])
@pytest.mark.parametrize(
    "damage", [pytest.param(d, marks=[] if "same" in d else [pytest.mark.slow]) for d in DAMAGES]
)
def test_damage_is_named_with_the_command_that_mends_it(built, results, damage):
    with built.edited(*results, by=DAMAGES[damage], date="same" if "same" in damage else "new"):
        output = built.dry_run()
    assert "Nothing to be done" not in output
    named = set(re.findall(r"(\S+) is damaged: .* To have it made again: rm \1,", output))
    assert set(results) - named == set(), output[-3000:]


def test_a_damaged_result_that_only_a_target_asks_for_is_named(built):
    result = built.path / "results/runs/base/preflight.json"
    result.write_text("{")
    try:
        assert "base/preflight.json is damaged" in built.dry_run("results/runs/base/preflight.json")
    finally:
        result.unlink()


@pytest.mark.parametrize("of", [7, pytest.param(1, marks=pytest.mark.slow)])
def test_a_deleted_result_is_made_again(built, of):
    for result in (RECORDS + OTHERS)[::of]:
        with built.edited(result, by=lambda content: None):
            assert built.would_run(), result


def test_a_result_of_other_settings_with_an_old_date_is_refused(built, intact, tmp_path):
    """Whole and consistent, but not what the report was made from: as after `cp -a`."""
    result, elsewhere = "results/runs/base/evaluation.json", tmp_path / "evaluation.json"
    changed = read_artefact(built.path / result)
    changed["test"]["loss"] = 0.1
    write_artefact(elsewhere, changed)
    with built.edited(result, by=lambda content: elsewhere.read_bytes(), date="same"):
        output = built.dry_run()
        assert f"results/report.json was made from another {result}" in output
    assert built.digests() == intact


@pytest.mark.slow
def test_a_retraining_that_fails_leaves_the_old_model(copied, intact):
    """The directory of states cannot be written: the training ends before its first step."""
    shutil.rmtree(copied.path / "state")
    (copied.path / "state").write_text("not a directory")
    ran = copied.snakemake("-R", "pretrain", check=False)
    assert ran.returncode == 1 and "checkpoint.directory" in ran.stdout, ran.stdout[-3000:]
    model = "runs/base/model/"
    kept = {name: digest for name, digest in intact.items() if name.startswith(model)}
    assert kept and kept.items() <= copied.digests().items()
    # Without being forced any more: what is missing is made.
    assert "pretrain" in copied.would_run()


def test_without_snakemakes_notes_results_of_other_settings_are_refused(built):
    """As in a fresh clone beside results that somebody else's settings made."""
    notes = built.path / ".snakemake"
    notes.rename(built.path / ".snakemake-kept")
    sixteen = [b"steps: 12", b"steps: 16"]
    try:
        assert built.would_run() == set()
        with built.edited("tiny.yaml", by=lambda content: content.replace(*sixteen)):
            output = built.dry_run()
        assert "trained/training.json was made with another training" in output
        assert "rm results/runs/base/trained/training.json" in output
    finally:
        shutil.rmtree(notes, ignore_errors=True)
        (built.path / ".snakemake-kept").rename(notes)
