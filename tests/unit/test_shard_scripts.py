"""The rules' own scripts on a real tokenizer: any number of threads, no TensorFlow."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from test_manifests import described
from test_tokenizer_files import TEXTS, make

from mlm.foundations.artefacts import read_artefact

ROOT = Path(__file__).parents[2]
LENGTH = 16
# What a rule's script does, in a process of its own, with the job as plain values.
RUN = """
import json, sys
from importlib import import_module
from types import SimpleNamespace

class Names(SimpleNamespace):
    def __getitem__(self, i):
        return list(vars(self).values())[i]

script, job = sys.argv[1], json.loads(sys.argv[2])
job = SimpleNamespace(**{k: Names(**v) if isinstance(v, dict) else v for k, v in job.items()})
import_module(script).main(job)
print([m for m in sys.modules if m.split(".")[0] in ("tensorflow", "keras", "torch")])
"""


def run_script(name, directory, **job):
    paths = os.pathsep.join([str(ROOT / "scripts"), str(ROOT / "scripts" / "jobs")])
    command = [sys.executable, "-c", RUN, name, json.dumps(job)]
    done = subprocess.run(
        command,
        cwd=directory,
        env={**os.environ, "PYTHONPATH": paths},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def make_shards(directory, threads, shards=2):
    """Run the script of rule `shard` for each shard, and that of `manifest`."""
    names = [f"{threads}/train-{i:05d}-of-{shards:05d}" for i in range(shards)]
    (directory / str(threads)).mkdir()
    inputs = {"described": "train.json", "tokenizer": "tokenizer/tokenizer.json"}
    described(directory / "train.parquet", size=len(TEXTS)).write(directory / "train.json")
    for i, name in enumerate(names):
        loaded = run_script(
            "shard",
            directory,
            threads=threads,
            wildcards={"split": "train", "shard": f"{i:05d}", "shards": f"{shards:05d}"},
            params={
                "samples": {"sequence_length": LENGTH},
                "operational": {"read_batch": 2 * threads},
            },
            input=inputs,
            output={"shard": f"{name}.tfrecord", "summary": f"{name}.json"},
        )
        assert loaded.strip() == "[]"
    inputs |= {
        "shards": [f"{n}.tfrecord" for n in names],
        "summaries": [f"{n}.json" for n in names],
    }
    output = {"manifest": f"{threads}.json"}
    loaded = run_script(
        "manifest", directory, wildcards={"split": "train"}, input=inputs, output=output
    )
    assert loaded.strip() == "[]"
    return [directory / f"{n}.tfrecord" for n in names]


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    directory = tmp_path_factory.mktemp("shards")
    make(directory)
    return directory, {threads: make_shards(directory, threads) for threads in (1, 3)}


def test_the_bytes_depend_on_no_number_of_threads(made):
    directory, files = made
    for one, three in zip(files[1], files[3], strict=True):
        assert one.read_bytes() == three.read_bytes()
        assert one.with_suffix(".json").read_bytes() == three.with_suffix(".json").read_bytes()
    first, second = (json.dumps(read_artefact(directory / f"{n}.json")) for n in (1, 3))
    assert first.replace('"1/train', '"3/train') == second
