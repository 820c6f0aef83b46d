"""Time and memory of Snakemake itself at many shards: a dry run of everything, and a no-op.

    .venv/bin/python benchmarks/workflow_scaling.py 100 1000 10000

Builds nothing: for the no-op, every output is an empty file. CPU seconds are those of the
process and say little of other work on the machine; wall seconds do.
"""

import os
import re
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


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


def measure(shards: int) -> tuple[Cost, Cost]:
    """A dry run of everything, and a run that finds nothing to do, at `shards` train shards."""
    with tempfile.TemporaryDirectory() as directory:
        place = Path(directory)
        (place / "shards.yaml").write_text(f"shards: {{count: {{train: {shards}}}}}\n")
        whole, text = snakemake(place, "--dry-run")
        for line in re.findall(r"^    output: (.+)$", text, re.M):
            for name in line.split(", "):
                (place / name).parent.mkdir(parents=True, exist_ok=True)
                (place / name).touch()
        nothing, text = snakemake(place)
        if "Nothing to be done" not in text:
            raise SystemExit(text[-3000:])
    return whole, nothing


def main(counts: list[int]) -> None:
    print(f"{'shards':>8} {'dry run':>10}{'':16} {'no-op':>10}")
    print(f"{'':8} " + f"{'CPU s':>8} {'wall s':>8} {'MB':>8} " * 2)
    for count in counts:
        whole, nothing = measure(count)
        print(f"{count:8} {whole} {nothing}", flush=True)


if __name__ == "__main__":
    main([int(a) for a in sys.argv[1:]] or [100, 1000, 10000])
