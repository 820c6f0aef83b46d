"""Results that are not what Snakemake takes them for, told by what they say of themselves."""

import json
import os
import shutil
from base64 import urlsafe_b64encode
from pathlib import Path

import pytest
from tests.conftest import refusal

from mlm.foundations.artefacts import check_inputs, record_job, write_artefact
from mlm.foundations.digests import FileMemory, file_sha256
from mlm.foundations.result_checks import (
    bucket_and_folder,
    check_backend,
    check_results,
    is_no_newer,
)

TRAINING, EVALUATION = "results/runs/base/training.json", "results/runs/base/evaluation.json"
PARAMS = {"evaluation": {"samples": 5}, "code": {"evaluate": "0123456789ab"}}


def evaluate(samples: int = 5) -> None:
    write_artefact(EVALUATION, {"loss": 3.0})
    params = PARAMS | {"evaluation": {"samples": samples}}
    record_job("evaluate", check_inputs([TRAINING]), params, [EVALUATION])


def note(samples: int = 5) -> None:
    """As Snakemake writes one at the end of a job."""
    file = Path(".snakemake/metadata", urlsafe_b64encode(EVALUATION.encode()).decode())
    file.parent.mkdir(parents=True, exist_ok=True)
    params = PARAMS | {"evaluation": {"samples": samples}}
    content = {
        "params": sorted(map(repr, params.values())),
        "input_checksums": {TRAINING: f"sha256:{file_sha256(TRAINING)}"},
    }
    file.write_text(json.dumps(content))


def check():
    params_of = {EVALUATION: PARAMS}.get
    return check_results([TRAINING, EVALUATION], params_of, FileMemory(None))


@pytest.fixture(autouse=True)
def results(tmp_path, monkeypatch):
    """A training and its evaluation, with Snakemake's note on that."""
    monkeypatch.chdir(tmp_path)
    write_artefact(TRAINING, {"step": 200})
    evaluate()
    note()


@pytest.mark.parametrize("date", [1_000_000_000, 3_000_000_000])
@pytest.mark.parametrize(
    "step, samples, fault",
    [(200, 7, "another evaluation"), (100, 5, f"another {TRAINING}"), (200, 5, None)],
)
def test_another_version_put_in_place_is_refused(date, step, samples, fault):
    """As after `cp -a` or `cp` from a backup; the note is on the version before it."""
    content = Path(TRAINING).read_bytes()
    write_artefact(TRAINING, {"step": step})
    evaluate(samples)
    Path(TRAINING).write_bytes(content)
    os.utime(EVALUATION, (date, date))
    named = [fault in problem and f"rm {EVALUATION}" in problem for problem in check().problems]
    assert named == [True] * bool(fault)


@pytest.mark.parametrize("noted", [True, False])
def test_settings_edited_since_are_left_to_snakemake_if_it_has_a_note_on_them(noted):
    evaluate(samples=7)
    note(samples=7)
    if not noted:
        shutil.rmtree(".snakemake")
    assert bool(check().problems) != noted


@pytest.mark.parametrize("date", [1_000_000_000, 3_000_000_000])
def test_an_input_made_anew_is_named_with_what_was_made_from_it(date):
    assert not check().changed
    write_artefact(TRAINING, {"step": 300})
    os.utime(TRAINING, (date, date))
    assert check().changed == [(TRAINING, EVALUATION)] and not check().problems
    assert is_no_newer(TRAINING, EVALUATION) == (date == 1_000_000_000)


def test_a_job_that_was_killed_before_its_record_is_no_problem():
    """Its artefact is whole, and Snakemake makes it again."""
    write_artefact(EVALUATION, {"loss": 2.0})
    assert not check().problems and not check().changed


def test_a_backend_that_writes_no_notes_in_files_is_refused():
    check_backend("FILE")
    assert "--persistence-backend db" in refusal(check_backend, "DB")


def test_a_prefix_is_a_bucket_and_a_folder():
    assert bucket_and_folder("gs://mine/") == ("mine", "")
    assert bucket_and_folder("gcs://mine/a/b/") == ("mine", "a/b/")
    for prefix in (None, "gs:///x", "mine/corpus", "s3://mine/x"):
        assert "gs://my-bucket/my-corpus" in refusal(bucket_and_folder, prefix)
