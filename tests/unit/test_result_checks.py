"""Results that are not what Snakemake takes them for, told by what they say of themselves."""

import json
import os
from base64 import urlsafe_b64encode
from pathlib import Path

import pytest

from mlm.foundations.artefacts import check_inputs, record_job, write_artefact
from mlm.foundations.digests import FileMemory, file_sha256
from mlm.foundations.result_checks import look_over

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
        "endtime": os.stat(EVALUATION).st_mtime,
        "input_checksums": {TRAINING: f"sha256:{file_sha256(TRAINING)}"},
    }
    file.write_text(json.dumps(content))


def found():
    params_of = {EVALUATION: PARAMS}.get
    return look_over([TRAINING, EVALUATION], params_of, FileMemory(None))


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
    [
        (200, 7, "made with another evaluation"),
        (100, 5, f"made from another {TRAINING}"),
        (200, 5, None),
    ],
)
def test_another_version_put_in_place_is_refused(date, step, samples, fault):
    """As after `cp -a` or `cp` from a backup; the note is on the version before it."""
    content = Path(TRAINING).read_bytes()
    write_artefact(TRAINING, {"step": step})
    evaluate(samples)
    Path(TRAINING).write_bytes(content)
    os.utime(EVALUATION, (date, date))
    assert not found().replaced
    told = [f"{EVALUATION} was {fault}" in p and f"rm {EVALUATION}" in p for p in found().problems]
    assert told == [True] * bool(fault)


@pytest.mark.parametrize("noted", [7, 5])
def test_a_setting_edited_since_is_left_to_snakemake(noted):
    """The note has those of the result, or those of now, as `snakemake --touch` writes it."""
    evaluate(samples=7)
    note(samples=noted)
    assert not found().problems
    if noted == 7:
        # The date alone does not make a stranger of it.
        os.utime(EVALUATION, (3_000_000_000, 3_000_000_000))
        assert not found().problems


def test_an_input_made_anew_is_left_to_snakemake():
    write_artefact(TRAINING, {"step": 300})
    os.utime(TRAINING, (3_000_000_000, 3_000_000_000))
    assert not found().problems and not found().replaced


def test_an_input_replaced_with_an_old_date_makes_what_follows_anew():
    write_artefact(TRAINING, {"step": 300})
    os.utime(TRAINING, (1_000_000_000, 1_000_000_000))
    assert list(found().replaced) == [TRAINING]


def test_a_directory_in_a_results_place_is_named():
    Path(EVALUATION).unlink()
    Path(EVALUATION).mkdir()
    [problem] = found().problems
    assert f"{EVALUATION} is damaged: it is a directory" in problem
    assert f"rm -r {EVALUATION}" in problem


def test_a_result_that_was_made_from_another_is_not_consistent():
    assert found().consistent
    write_artefact(TRAINING, {"step": 300})
    assert not found().consistent
