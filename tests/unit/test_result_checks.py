"""Results that are not what Snakemake takes them for, told by what they say of themselves."""

import os
from pathlib import Path

import pytest
from tests.conftest import refusal

from mlm.foundations.artefacts import write_artefact
from mlm.foundations.digests import FileMemory
from mlm.foundations.input_checks import check_inputs
from mlm.foundations.job import record_job
from mlm.foundations.result_checks import bucket_and_folder, problems_of, refuse_unusable

TRAINING, EVALUATION = "results/runs/base/training.json", "results/runs/base/evaluation.json"
PARAMS = {"evaluation": {"samples": 5}, "code": {"evaluate": "0123456789ab"}}


def evaluate(samples: int = 5) -> None:
    write_artefact(EVALUATION, {"loss": 3.0})
    params = PARAMS | {"evaluation": {"samples": samples}}
    record_job("evaluate", check_inputs([TRAINING]), params, [EVALUATION])


def problems() -> list[str]:
    return problems_of([TRAINING, EVALUATION], FileMemory(None))


def refuse() -> None:
    params_of = {EVALUATION: PARAMS}.get
    refuse_unusable([TRAINING, EVALUATION], [], params_of, FileMemory(None), None)


@pytest.fixture(autouse=True)
def results(here):
    """A training and its evaluation, with a note of Snakemake."""
    write_artefact(TRAINING, {"step": 200})
    evaluate()
    Path(".snakemake/metadata").mkdir(parents=True)
    Path(".snakemake/metadata/note").touch()


def test_a_version_from_elsewhere_put_in_place_is_refused():
    content = Path(TRAINING).read_bytes()
    write_artefact(TRAINING, {"step": 100})
    evaluate()
    Path(TRAINING).write_bytes(content)
    os.utime(TRAINING, (1_000_000_000, 1_000_000_000))
    (problem,) = problems()
    assert f"another {TRAINING}" in problem and f"rm {EVALUATION}" in problem


@pytest.mark.parametrize("noted", [True, False])
def test_settings_edited_since_are_left_to_snakemake_if_it_has_notes(noted):
    evaluate(samples=7)
    if noted:
        refuse()
    else:
        Path(".snakemake/metadata/note").unlink()
        assert f"{EVALUATION} was made with another evaluation" in refusal(refuse)


@pytest.mark.parametrize("date", [1_000_000_000, 3_000_000_000])
def test_an_input_made_anew_is_left_to_snakemake_if_it_is_newer(date):
    assert not problems()
    write_artefact(TRAINING, {"step": 300})
    os.utime(TRAINING, (date, date))
    assert len(problems()) == (date == 1_000_000_000)


def test_a_job_that_was_killed_before_its_record_is_no_problem():
    """Its artefact is whole, and Snakemake makes it again."""
    write_artefact(EVALUATION, {"loss": 2.0})
    assert not problems()


def test_a_copy_gets_one_date_unless_it_is_not_whole():
    Path(".snakemake/metadata/note").unlink()
    os.utime(EVALUATION, (1_000_000_000, 1_000_000_000))
    refuse()
    assert os.stat(TRAINING).st_mtime == os.stat(EVALUATION).st_mtime == 1_000_000_000
    write_artefact(TRAINING, {"step": 300})
    assert f"another {TRAINING}" in refusal(refuse)


def test_a_prefix_is_a_bucket_and_a_folder():
    assert bucket_and_folder("gs://mine/") == ("mine", "")
    assert bucket_and_folder("gcs://mine/a/b/") == ("mine", "a/b/")
    for prefix in (None, "gs:///x", "mine/corpus", "s3://mine/x"):
        assert "gs://my-bucket/my-corpus" in refusal(bucket_and_folder, prefix)
