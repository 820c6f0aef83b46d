"""The workflow with everything in a bucket, against a storage server on this machine."""

import hashlib
import json
import re
import shutil

import pytest

from mlm.foundations.artefacts import write_artefact
from tests.cluster.conftest import SMALL
from tests.workflow.conftest import ROOT, Project, start

# Beside the workflow, a service of its own: run with -m slow.
pytestmark = [pytest.mark.workflow, pytest.mark.slow]

PROFILE = (
    *("--profile", str(ROOT / "profiles" / "gcs"), "--snakefile", str(ROOT / "Snakefile")),
    *("--cores", "2", "--storage-gcs-project", "test"),
)


@pytest.fixture(scope="session")
def python(python_with):
    return python_with("gcs-test")


@pytest.fixture
def on_bucket(storage_server, python):
    """Starts snakemake on a project with a prefix of results; what it says when it has ended."""

    def run(project: Project, prefix: str, *more: str, status: int = 0) -> str:
        arguments = (*PROFILE, "--default-storage-prefix", prefix, *more)
        how = {"python": python, "environment": storage_server.environment}
        output = start(project, *arguments, **how).finished(status=status)
        assert "Traceback" not in output
        return output

    return run


@pytest.fixture
def nothing_done(tmp_path) -> Project:
    """A working directory with the least corpus that a plan can be made for."""
    (tmp_path / "data").mkdir()
    for name in ("train-a", "validation", "test"):
        (tmp_path / "data" / f"{name}.txt").write_text("words\n")
    (tmp_path / "data" / "pairs.tsv").write_text("sen\twrong_sen\nWe have.\tWe has.\n")
    project = Project(tmp_path)
    project.write_config(SMALL)
    return project


def test_everything_in_a_bucket_gives_the_bytes_of_a_local_run(
    storage_server, on_bucket, local_run, tmp_path
):
    prefix = f"gs://{storage_server.bucket}/tiny"
    first, second, third = (Project(tmp_path / name) for name in ("first", "second", "third"))
    for project in (first, second, third):
        shutil.copytree(local_run.path / "data", project.path / "data")
        shutil.copy(local_run.path / "tiny.yaml", project.path)
    on_bucket(first, prefix)
    found = {
        name.removeprefix("tiny/results/"): hashlib.sha256(storage_server.content(name)).hexdigest()
        for name in storage_server.names()
        if name.startswith("tiny/results/") and not name.endswith("/training.csv")
    }
    local = local_run.digests()
    del local["configuration.yaml"]
    assert found == local
    assert not (first.path / "results").exists()
    # From another empty directory: the bucket alone says that all is done.
    assert "Nothing to be done" in on_bucket(second, prefix)

    # An object that was changed there is not hidden by what was fetched before.
    base = "results/runs/base"
    evaluation = storage_server.content(f"tiny/{base}/evaluation.json")
    changed = evaluation.replace(b'"loss": ', b'"loss": 1')
    storage_server.put(f"tiny/{base}/evaluation.json", changed)
    output = on_bucket(first, prefix, status=1)
    assert f"{prefix}/{base}/evaluation.json is damaged" in output
    assert f"gcloud storage rm {prefix}/{base}/evaluation.json" in output
    storage_server.put(f"tiny/{base}/evaluation.json", evaluation)

    # Made anew, with what follows from it not made yet, as an interruption leaves it.
    whole = storage_server.content(f"tiny/{base}/training.json")
    write_artefact(tmp_path / "training.json", json.loads(whole) | {"made": "anew"})
    anew = (tmp_path / "training.json").read_bytes()
    storage_server.put(f"tiny/{base}/training.json", anew)
    assert "rule evaluate:" in on_bucket(first, prefix, "--dry-run")
    storage_server.put(f"tiny/{base}/training.json", whole)

    # The results of other settings are not taken as done.
    config = (third.path / "tiny.yaml").read_text()
    (third.path / "tiny.yaml").write_text(config.replace("max_tokens: 4000", "max_tokens: 3000"))
    output = on_bucket(third, prefix, status=1)
    assert f"{prefix}/{base}/evaluation.json was made with another evaluation" in output


def test_a_wrong_bucket_is_refused(storage_server, on_bucket, nothing_done):
    nothing_done.write_config(SMALL)
    assert "mispelt-bucket" in on_bucket(nothing_done, "gs://mispelt-bucket/tiny", status=1)
    assert "mispelt-bucket" not in storage_server.buckets()


def test_a_corpus_in_parts_in_a_bucket_has_the_bytes_of_one_job(
    storage_server, on_bucket, nothing_done
):
    data = {"train-a": "one\ntwo\n", "train-b": "three\n", "validation": "four\n", "test": "five\n"}
    for name, text in data.items():
        (nothing_done.path / "data" / f"{name}.txt").write_text(text)
    made = []
    for parts in (1, 2):
        nothing_done.write_config(SMALL | {"corpus": SMALL["corpus"] | {"parts": parts}})
        output = on_bucket(nothing_done, f"gs://mlm-test/{parts}-parts", "--until", "corpus")
        assert output.count("corpus read") == (0 if parts == 1 else 2 * parts), "begun and ended"
        files = (f"{parts}-parts/results/corpus/{split}.parquet" for split in ("train", "test"))
        made.append([storage_server.content(file) for file in files])
    assert made[0] == made[1]


def test_a_shards_job_fetches_the_files_with_its_documents_alone(on_bucket, nothing_done):
    train = nothing_done.path / "data" / "train-a.txt"
    train.write_text("".join(f"words {number}\n" for number in range(8)))
    nothing_done.write_config(SMALL | {"corpus": SMALL["corpus"] | {"count": 4}})
    output = on_bucket(nothing_done, "gs://mlm-test/files", "--dry-run")
    inputs = re.findall(r"rule shard:\n +input: (.*)", output)
    own = {frozenset(re.findall(r"train-0000(\d)-of-00004\.parquet", line)) for line in inputs}
    assert own - {frozenset()} == {frozenset("01"), frozenset("23")}
