"""Time and memory of Snakemake itself at many shards: a dry run of everything, and a no-op.

    .venv/bin/python benchmarks/workflow_scaling.py 100 1000 10000
    .venv/bin/python benchmarks/workflow_scaling.py 1000 --files 1000 --parts 1000 --near

Builds nothing: for the no-op, every output is an empty file, or a sealed one without a record.
CPU seconds are those of the process and say little of other work on the machine; wall seconds do.
"""

import argparse
import os
import re
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

import yaml

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "scripts"))

from mlm.foundations.artefacts import is_artefact, write_artefact  # noqa: E402


@dataclass(frozen=True)
class Cost:
    """CPU and wall seconds and peak resident memory (MB) of one process."""

    cpu: float
    wall: float
    memory: float

    def __str__(self) -> str:
        return f"{self.cpu:8.1f} {self.wall:8.1f} {self.memory:8.0f}"


def snakemake(place: Path, *arguments: str) -> tuple[Cost, str]:
    """Run it in `place` on the configuration there; its cost and its output."""
    log = place / "output.txt"
    command = [sys.executable, "-m", "snakemake", "--snakefile", str(ROOT / "Snakefile")]
    command += ["--configfile", "shards.yaml", "--cores", "1", *arguments]
    start = time.monotonic()
    with log.open("w") as output:
        process = subprocess.Popen(command, cwd=place, stdout=output, stderr=subprocess.STDOUT)
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = status
    cost = Cost(
        usage.ru_utime + usage.ru_stime, time.monotonic() - start, usage.ru_maxrss * 1024 / 1e6
    )
    text = log.read_text()
    if status:
        raise SystemExit(text[-3000:])
    return cost, text


def measure(shards: int, corpus: dict, files: int) -> tuple[Cost, Cost]:
    """A dry run of everything, and a run that finds nothing to do, at `shards` train shards.

    `corpus` is the section of the configuration, `files` the number of files of its train split.
    """
    with tempfile.TemporaryDirectory() as directory:
        place = Path(directory)
        for number in range(files):
            # Long enough for every part to have some of it.
            (place / f"{number:05d}.txt").write_text(f"{number} words\n" * 1000)
        settings = {"shards": {"count": {"train": shards}}, "corpus": corpus}
        (place / "shards.yaml").write_text(yaml.safe_dump(settings))
        whole, text = snakemake(place, "--dry-run")
        for line in re.findall(r"^    output: (.+)$", text, re.M):
            for name in line.split(", "):
                if "corpus/parts/" not in name:
                    (place / name).parent.mkdir(parents=True, exist_ok=True)
                    if is_artefact(name):
                        write_artefact(place / name, {})
                    else:
                        (place / name).touch()
        nothing, text = snakemake(place)
        if "Nothing to be done" not in text:
            raise SystemExit(text[-3000:])
    return whole, nothing


def main(arguments: list[str]) -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("shards", type=int, nargs="*", default=[100, 1000, 10000])
    parser.add_argument("--parts", type=int, default=1, help="jobs that read the corpus")
    parser.add_argument("--files", type=int, help="files of its train split; without: embedded")
    parser.add_argument("--near", action="store_true", help="leave out near-duplicates too")
    given = parser.parse_args(arguments)
    corpus: dict = {"parts": given.parts}
    if given.files:
        corpus |= {"source": "files", "files": {"train": ["*.txt"]}}
    corpus["filters"] = {"near_duplicates": {"enabled": given.near}}
    print(f"{'shards':>8} {'dry run':>10}{'':16} {'no-op':>10}")
    print(f"{'':8} " + f"{'CPU s':>8} {'wall s':>8} {'MB':>8} " * 2)
    for count in given.shards:
        whole, nothing = measure(count, corpus, given.files or 0)
        print(f"{count:8} {whole} {nothing}", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
