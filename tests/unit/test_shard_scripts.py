"""The script of rule `shard` on a real tokenizer: any number of threads, no TensorFlow."""

import json
import os
import subprocess
import sys
from pathlib import Path

from test_manifests import described
from test_tokenizer_files import TEXTS, make

SCRIPTS = Path(__file__).parents[2] / "scripts"
#: What the rule's script does, in a process of its own, with the job as plain values.
RUN = """
import json, sys
from types import SimpleNamespace as Names
from shard import main
job = {k: Names(**v) if isinstance(v, dict) else v for k, v in json.loads(sys.argv[1]).items()}
main(Names(**job))
print([m for m in sys.modules if m.split(".")[0] in ("tensorflow", "keras", "torch")])
"""


def test_the_bytes_depend_on_no_number_of_threads(tmp_path):
    make(tmp_path)
    described(tmp_path / "train.parquet", size=len(TEXTS)).write(tmp_path / "train.json")
    environment = os.environ | {"PYTHONPATH": f"{SCRIPTS}{os.pathsep}{SCRIPTS / 'jobs'}"}
    made = []
    for threads in (1, 3):
        place = tmp_path / str(threads)
        place.mkdir()
        job = {
            "threads": threads,
            "wildcards": {"split": "train", "shard": "00000", "shards": "00001"},
            "params": {
                "samples": {"sequence_length": 16},
                "operational": {"read_batch": 2 * threads},
            },
            "input": {"described": "train.json", "tokenizer": "tokenizer/tokenizer.json"},
            "output": {"shard": f"{threads}/train-00000-of-00001.tfrecord"},
        }
        done = subprocess.run(
            [sys.executable, "-c", RUN, json.dumps(job)],
            cwd=tmp_path,
            env=environment,
            capture_output=True,
            text=True,
        )
        assert (done.returncode, done.stdout) == (0, "[]\n"), done.stderr
        made.append({file.name: file.read_bytes() for file in place.iterdir()})
    assert made[0] == made[1] and len(made[0]) == 2
