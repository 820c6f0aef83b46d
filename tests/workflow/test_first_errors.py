"""Mistakes of a first hour, made as a newcomer makes them: each is answered with what to do."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import users_environment

pytestmark = [pytest.mark.workflow, pytest.mark.slow]

ROOT = Path(__file__).parents[2]
#: A process that root starts and that may not write where root may not, like other users' ones.
AS_A_USER = ["setpriv", "--bounding-set=-all", "--inh-caps=-all"] if os.getuid() == 0 else []


def said(directory: Path, *command: str, prefix=(), left=False, **environment: str) -> str:
    """What a command says in `directory`, where it fails and leaves no result, or those `left`."""
    ran = subprocess.run(
        [*prefix, sys.executable, *command],
        cwd=directory,
        env=users_environment() | environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=300,
    )
    assert ran.returncode != 0, ran.stdout
    assert "Traceback (most recent" not in ran.stdout, ran.stdout
    assert left or not [file for file in directory.glob("results/**/*") if file.is_file()]
    return ran.stdout


def snakemake(
    directory: Path, *words: str, config: str = "", before: str = "", prefix=(), left=False
) -> str:
    """What Snakemake says; each of its Pythons runs the statements `before` first."""
    environment = {}
    if before:
        place = directory.with_name(f"{directory.name}-before")
        place.mkdir()
        (place / "sitecustomize.py").write_text(before)
        environment["PYTHONPATH"] = str(place)
    command = ["-m", "snakemake", "--cores", "1", "-s", str(ROOT / "Snakefile"), *words]
    if config:
        (directory / "own.yaml").write_text(config)
        command += ["--configfile", "own.yaml"]
    return said(directory, *command, prefix=prefix, left=left, **environment)


def checked_python(directory: Path, before: str) -> str:
    """What scripts/check_python.py says where the statements `before` were run first."""
    script = str(ROOT / "scripts" / "check_python.py")
    run = f"import runpy, sys; sys.path.insert(0, {str(ROOT / 'scripts')!r}); {before}; "
    return said(directory, "-c", run + f"runpy.run_path({script!r}, run_name='__main__')")


def test_a_python_that_is_too_old(tmp_path):
    answer = checked_python(tmp_path, "sys.version_info = (3, 10, 13)")
    assert answer.startswith("Python 3.10 is too old; the pinned packages are for 3.11 to 3.13 (")
    assert "run the same lines with " in answer and " in the place of python3" in answer


def test_a_python_without_pip(tmp_path):
    hidden = "sys.modules['ensurepip'] = None; import os; os.environ['PATH'] = ''"
    answer = checked_python(tmp_path, hidden)
    assert "cannot make environments: it comes without ensurepip" in answer
    assert "sudo apt-get install python3." in answer and "-venv" in answer


def test_a_full_disk(tmp_path):
    almost_full = "shutil.disk_usage = lambda place: shutil._ntuple_diskusage(10**9, 10**9, 10**6)"
    answer = snakemake(tmp_path, before=f"import shutil; {almost_full}")
    assert f"{tmp_path} has only 1 MB of free disk space; at least 100 MB are needed" in answer
    assert "Free some space, or run in another directory (snakemake --directory)" in answer


def test_a_disk_that_fills_up_in_the_middle(tmp_path):
    """Snakemake may be the first to meet it, and says [Errno 28]."""
    (tmp_path / "broken.jsonl").write_text("{")
    fills_up = (
        "free = [10**6, 10**12]; "
        "shutil.disk_usage = lambda place: shutil._ntuple_diskusage(10**12, 0, free.pop())"
    )
    answer = snakemake(
        tmp_path,
        config="corpus: {source: files, files: {train: [broken.jsonl]}}",
        before=f"import shutil; {fills_up}",
    )
    assert answer.endswith(
        f"\nNo space left on the disk or in the quota ({tmp_path}). Nothing was half-written; free "
        "some space and run the same command again.\n"
    )


@pytest.mark.parametrize("place", ["a.txt", "results/corpus/train.json", "results/corpus"])
def test_a_file_or_a_result_that_may_not_be_read(tmp_path, place):
    (tmp_path / "a.txt").write_text("A text.\n")
    (tmp_path / "results/corpus").mkdir(parents=True)
    (tmp_path / "results/corpus/train.json").touch()
    (tmp_path / place).chmod(0)
    corpus = "corpus: {source: files, files: {train: [a.txt]}}"
    try:
        answer = snakemake(tmp_path, config=corpus, prefix=AS_A_USER, left=True)
    finally:
        (tmp_path / place).chmod(0o755)
    if place == "a.txt":
        assert re.search(r"\n.*a\.txt may not be read by .*chmod u\+r a\.txt\n$", answer), answer
    else:
        assert answer.endswith(
            f"\n{place}: Permission denied. Give this user access to it (its owner can: chmod -R "
            f"u+rwX {place}), or run in another directory (snakemake --directory).\n"
        )
    assert "  File " not in answer


def test_results_that_are_a_link_to_nowhere(tmp_path):
    (tmp_path / "results").symlink_to("scratch")
    assert f"{tmp_path}/results is a link to scratch, where nothing is" in snakemake(tmp_path)


def test_no_network(tmp_path):
    # Of the Hub, a directory that was downloaded is not there either.
    corpus = "{dataset: made/up, revision: " + "a" * 40 + ", splits: {train: train}}"
    answer = snakemake(
        tmp_path,
        config=f"corpus: {{source: hub, hub: {corpus}}}",
        before="import os; os.environ.update(HF_ENDPOINT='http://127.0.0.1:9', HF_HOME='home')",
    )
    assert "load_dataset('made/up', revision='aaaa" in answer
    assert "Then run the same command here" in answer


def test_a_directory_that_cannot_be_written(tmp_path):
    place = tmp_path / "place"
    place.mkdir(0o555)
    answer = snakemake(place, prefix=AS_A_USER)
    assert f"{place} cannot be written to, so results/ cannot be filled. Give this user" in answer


def test_another_directory_than_the_clone(tmp_path):
    answer = said(tmp_path, "-m", "snakemake", "--cores", "1")
    assert "No Snakefile found" in answer
    row = next(
        line
        for line in (ROOT / "docs" / "first-errors.md").read_text().splitlines()
        if line.startswith("| `No Snakefile found` |")
    )
    assert "`CLONE/.venv/bin/snakemake -s CLONE/Snakefile --cores 2`" in row


def test_a_preflight_without_its_packages(tmp_path):
    answer = snakemake(tmp_path, "preflight", before="import sys; sys.modules['libtpu'] = None")
    assert "The preflight needs libtpu, the TPU compiler, which is not installed in " in answer
    assert "-m pip install --no-deps --no-compile --require-hashes -r " in answer
    assert f"{ROOT}/envs/requirements-preflight.txt" in answer


@pytest.mark.parametrize("dated", ["a.txt", "results/corpus/train.parquet"])
def test_a_file_or_a_result_of_the_future(tmp_path, dated):
    """As one that was copied from a machine whose clock is wrong."""
    (tmp_path / "a.txt").write_text("\n".join(f"The {n} rivers of the land" for n in range(99)))
    own = "corpus: {source: files, files: {train: [a.txt]}}"
    (tmp_path / "own.yaml").write_text(own)
    command = [sys.executable, "-m", "snakemake", "--cores", "1", "-s", str(ROOT / "Snakefile")]
    is_result = dated != "a.txt"
    if is_result:
        subprocess.run(
            [*command, "results/corpus/train.json", "--configfile", "own.yaml"],
            cwd=tmp_path,
            env=users_environment(),
            check=True,
            timeout=300,
        )
    os.utime(tmp_path / dated, (2_000_000_000, 2_000_000_000))
    answer = snakemake(tmp_path, "results/tokenizer/tokenizer.json", config=own, left=is_result)
    assert f"{dated} is dated in the future" in answer and f"touch {tmp_path / dated}\n" in answer
    assert "Execute 1 jobs" not in answer, "refused before the work"


def test_a_dataset_without_a_revision(tmp_path):
    answer = snakemake(tmp_path, config="corpus: {source: hub, hub: {dataset: some/one}}")
    assert "corpus.hub.revision: missing; expected the 40 hexadecimal digits of a commit" in answer
    assert "on the repository's page on the Hub, under Files, History" in answer
