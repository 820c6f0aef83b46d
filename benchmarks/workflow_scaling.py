"""Time and memory of Snakemake itself at many shards: a dry run of everything, and a no-op.

    python benchmarks/workflow_scaling.py 100 1000 10000
    python benchmarks/workflow_scaling.py 1000 --files 1000 --parts 1000 --near

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
    """CPU and wall seconds of a process and those that it waited for, and the largest peak of
    resident memory (MB) of one of them."""

    cpu: float
    wall: float
    memory: float

    def __str__(self) -> str:
        return f"{self.cpu:8.1f} {self.wall:8.1f} {self.memory:8.0f}"


def measured(command: list, place: Path) -> tuple[Cost, str]:
    """Run `command` in `place`; its cost and its output. A failure ends the benchmark."""
    log, begun = place / "output.txt", time.monotonic()
    with log.open("w") as output:
        process = subprocess.Popen(command, cwd=place, stdout=output, stderr=subprocess.STDOUT)
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    wall, cpu = time.monotonic() - begun, usage.ru_utime + usage.ru_stime
    if status:
        raise SystemExit(log.read_text()[-3000:])
    return Cost(cpu, wall, usage.ru_maxrss * 1024 / 1e6), log.read_text()


def snakemake(place: Path, configuration: dict, *arguments: str) -> tuple[Cost, str]:
    """Run it in `place` with `configuration` laid over the defaults."""
    (place / "benchmark.yaml").write_text(yaml.safe_dump(configuration))
    command = [sys.executable, "-m", "snakemake", "--snakefile", ROOT / "Snakefile", *arguments]
    return measured([*command, "--configfile", "benchmark.yaml"], place)


def measure(shards: int, corpus: dict, files: int) -> tuple[Cost, Cost]:
    """A dry run of everything, and a run that has nothing to do, at `shards` train shards.

    `corpus` is the section of the configuration, `files` the number of files of its train split.
    """
    with tempfile.TemporaryDirectory() as directory:
        place = Path(directory)
        for number in range(files):
            # Long enough for every part to have some of it.
            (place / f"{number:05d}.txt").write_text(f"{number} words\n" * 1000)
        settings = {"shards": {"count": {"train": shards}}, "corpus": corpus}
        whole, text = snakemake(place, settings, "--cores", "1", "--dry-run")
        for line in re.findall(r"^    output: (.+)$", text, re.M):
            for name in line.split(", "):
                if "corpus/parts/" not in name:
                    (place / name).parent.mkdir(parents=True, exist_ok=True)
                    if is_artefact(name):
                        write_artefact(place / name, {})
                    else:
                        (place / name).touch()
        nothing, text = snakemake(place, settings, "--cores", "1")
        if "Nothing to be done" not in text:
            raise SystemExit(text[-3000:])
    return whole, nothing


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("shards", type=int, nargs="*", default=[100, 1000, 10000])
    parser.add_argument("--parts", type=int, default=1, help="jobs that read the corpus")
    parser.add_argument("--files", type=int, help="files of its train split; without: embedded")
    parser.add_argument("--near", action="store_true", help="leave out near-duplicates too")
    options = parser.parse_args()
    corpus: dict = {"parts": options.parts}
    if options.files:
        corpus |= {"source": "files", "files": {"train": ["*.txt"]}}
    corpus["filters"] = {"near_duplicates": options.near}
    print(f"{'shards':>8} {'dry run':>10}{'':16} {'no-op':>10}")
    print(f"{'':8} " + f"{'CPU s':>8} {'wall s':>8} {'MB':>8} " * 2)
    for count in options.shards:
        whole, nothing = measure(count, corpus, options.files or 0)
        print(f"{count:8} {whole} {nothing}", flush=True)


if __name__ == "__main__":
    main()
