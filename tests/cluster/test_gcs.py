"""The workflow with everything in a bucket, against a storage server on this machine."""

import hashlib
import json
import os
import re
import shutil

import pytest

from mlm.foundations.artefacts import write_artefact
from tests.cluster.conftest import SMALL, start
from tests.workflow.conftest import ROOT, Project

# Beside the workflow, a service of its own: run with -m slow.
pytestmark = [pytest.mark.workflow, pytest.mark.slow]

PROFILE = ("--profile", str(ROOT / "profiles" / "gcs"), "--snakefile", str(ROOT / "Snakefile"))


@pytest.fixture(scope="session")
def python(python_with):
    return python_with("gcs-test")


def in_an_empty_place(place, local_run) -> Project:
    """A working directory with nothing but the corpus and the configuration."""
    place.mkdir()
    shutil.copytree(local_run.path / "data", place / "data")
    shutil.copy(local_run.path / "tiny.yaml", place)
    return Project(place)


@pytest.fixture
def nothing_done(tmp_path) -> Project:
    """A working directory with the least corpus that a plan can be made for."""
    (tmp_path / "data").mkdir()
    for name in ("train-a", "validation", "test"):
        (tmp_path / "data" / f"{name}.txt").write_text("words\n")
    project = Project(tmp_path)
    project.write_config(SMALL)
    return project


def arguments(prefix: str) -> list[str]:
    return [
        *PROFILE,
        *("--cores", "2", "--default-storage-prefix", prefix),
        *("--storage-gcs-project", "test"),
    ]


def test_everything_in_a_bucket_gives_the_bytes_of_a_local_run(
    storage_server, python, local_run, tmp_path
):
    prefix = f"gs://{storage_server.bucket}/tiny"
    first = in_an_empty_place(tmp_path / "first", local_run)
    environment = storage_server.environment
    start(first, python, *arguments(prefix), environment=environment).finished()

    found = {
        name.removeprefix("tiny/results/"): hashlib.sha256(storage_server.content(name)).hexdigest()
        for name in storage_server.names()
        if name.startswith("tiny/results/") and not name.endswith("/training.csv")
    }
    assert found == local_run.digests()
    assert not (first.path / "results").exists()

    # From another empty directory: the bucket alone says that all is done.
    second = in_an_empty_place(tmp_path / "second", local_run)
    output = start(second, python, *arguments(prefix), environment=environment).finished()
    assert "Nothing to be done" in output

    # An object that was changed there is not hidden by what was fetched before.
    evaluation = storage_server.content("tiny/results/runs/base/evaluation.json")
    storage_server.put(
        "tiny/results/runs/base/evaluation.json", evaluation.replace(b'"loss": ', b'"loss": 1')
    )
    output = start(first, python, *arguments(prefix), environment=environment).finished(status=1)
    assert f"{prefix}/results/runs/base/evaluation.json is damaged" in output
    assert f"gcloud storage rm {prefix}/results/runs/base/evaluation.json" in output
    storage_server.put("tiny/results/runs/base/evaluation.json", evaluation)

    # Made anew, with what follows from it not made yet, as an interruption leaves it.
    training = json.loads(storage_server.content("tiny/results/runs/base/training.json"))
    del training["seal"]
    write_artefact(tmp_path / "training.json", training | {"made": "anew"})
    whole = storage_server.content("tiny/results/runs/base/training.json")
    storage_server.put(
        "tiny/results/runs/base/training.json", (tmp_path / "training.json").read_bytes()
    )
    dry_run = [*arguments(prefix), "--dry-run"]
    output = start(first, python, *dry_run, environment=environment).finished()
    assert "rule evaluate:" in output
    storage_server.put("tiny/results/runs/base/training.json", whole)

    # The results of other settings are not taken as done.
    third = in_an_empty_place(tmp_path / "third", local_run)
    config = (third.path / "tiny.yaml").read_text()
    (third.path / "tiny.yaml").write_text(config.replace("resamples: 100", "resamples: 200"))
    output = start(third, python, *arguments(prefix), environment=environment).finished(status=1)
    assert f"{prefix}/results/runs/base/evaluation.json was made with another evaluation" in output


@pytest.mark.parametrize(
    "prefix, words",
    [
        ("gs://mispelt-bucket/tiny", "there is no such bucket"),
        ("mlm-test/tiny", "a bucket and a prefix in it are expected"),
    ],
)
def test_a_wrong_bucket_is_named_and_not_made(storage_server, python, nothing_done, prefix, words):
    run = start(nothing_done, python, *arguments(prefix), environment=storage_server.environment)
    output = run.finished(status=1)
    assert words in output
    assert "Traceback" not in output
    assert "mispelt-bucket" not in storage_server.buckets()


def test_a_corpus_in_parts_is_refused_where_results_lie_in_a_bucket(
    storage_server, python, nothing_done
):
    nothing_done.write_config(SMALL | {"corpus": SMALL["corpus"] | {"parts": 2}})
    prefix = f"gs://{storage_server.bucket}/parts"
    run = start(nothing_done, python, *arguments(prefix), environment=storage_server.environment)
    output = run.finished(status=1)
    assert "corpus.parts: 2 needs a file system that all jobs see" in output
    assert "Traceback" not in output


def test_a_shards_job_fetches_the_files_with_its_documents_alone(
    storage_server, python, nothing_done
):
    train = nothing_done.path / "data" / "train-a.txt"
    train.write_text("".join(f"words {number}\n" for number in range(8)))
    counts = {"corpus": SMALL["corpus"] | {"count": {"train": 4}}}
    nothing_done.write_config(SMALL | counts)
    prefix = f"gs://{storage_server.bucket}/files"
    run = start(
        nothing_done,
        python,
        *arguments(prefix),
        "--dry-run",
        environment=storage_server.environment,
    )
    inputs = re.findall(r"rule shard:\n +input: (.*)", run.finished())
    own = {frozenset(re.findall(r"train-\d{5}-of-00004\.parquet", line)) for line in inputs}
    halves = ([0, 1], [2, 3])
    assert own - {frozenset()} == {
        frozenset(f"train-{file:05d}-of-00004.parquet" for file in half) for half in halves
    }


def test_a_machine_without_credentials_is_told_so(python, nothing_done, tmp_path):
    nobody = {k: "" for k in os.environ if k.startswith(("GOOGLE_", "CLOUDSDK_"))}
    nobody |= {"HOME": str(tmp_path), "NO_GCE_CHECK": "true"}
    run = start(nothing_done, python, *arguments("gs://some-bucket/tiny"), environment=nobody)
    # The storage plugin's words: it asks for them before the workflow is read.
    assert "Your default credentials were not found" in run.finished(status=1)
