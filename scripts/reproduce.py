"""Say how a result came about, check what can be checked, and print what makes it again.

    .venv/bin/python scripts/reproduce.py results/runs/base/evaluation.json

The file is one of the JSON files below results/. results/report.json must be there, too, since it
has the configuration."""

import hashlib
import os
import re
import shlex
import subprocess
import sys
import tempfile
from pathlib import Path

import yaml

from mlm.config.fields import differing
from mlm.config.resolution import resolve
from mlm.foundations.artefacts import is_artefact, made_from, read_artefact, result_sha256
from mlm.foundations.atomic import write_text
from mlm.foundations.command import command_parser, run_command
from mlm.foundations.errors import MlmError, printable

BASE = Path(__file__).resolve().parents[1]
LOCK = BASE / "envs" / "requirements.txt"


def main(arguments: list[str]) -> int:
    """Print the account; 1 if something is not as recorded."""
    parser = command_parser("reproduce.py", __doc__)
    parser.add_argument("file", help="a JSON file below results/")
    options = parser.parse_args(arguments)
    root = Path(options.directory).resolve()
    if not root.is_dir():
        raise MlmError(f"--directory {options.directory}: there is no such directory")
    file = name_below(root, options.file)
    records = chain(root, file)
    # The sha256 of each file that the makers wrote or read, by path.
    files = {n: d for r in records.values() for n, d in (r.inputs | r.outputs).items()}
    damaged = [
        name
        for name, sha256 in sorted(files.items())
        if (root / name).is_file() and result_sha256(root / name) != sha256
    ]
    config = read_artefact(root / "results/report.json")["config"]
    overlay = differing(config, resolve({}).shown())
    if "runs" in overlay:
        overlay["runs"] = config["runs"]  # Those that are like the defaults, too.
    stale = planned(root, file, overlay)
    rules = list(dict.fromkeys(record.rule for record in reversed(records.values())))
    lock = hashlib.sha256(LOCK.read_bytes()).hexdigest()
    print(f"{printable(file)} was made by the rules {', '.join(rules)}.\n")
    for what, fault, fine in (
        ("files", damaged, f"{len(files)} as their makers recorded"),
        ("result", stale, "what this clone, the configuration and the inputs would make"),
    ):
        print(f"{what:8} {'not as recorded: ' + ', '.join(fault) if fault else fine}")
    print(f"commit   {commit()}\nlock     {LOCK.relative_to(BASE)}, sha256 {lock}")
    print("\nTo make it again, save this as reproduce.yaml in an empty directory:\n")
    print(yaml.safe_dump(overlay or {"runs": {"base": {}}}, allow_unicode=True))
    print(shlex.join(command_that_makes(file)))
    print(f"\nIts sha256 is {result_sha256(root / file)} then, too.")
    return 1 if damaged or stale else 0


def command_that_makes(file: str) -> list[str]:
    """The command that makes `file` by reproduce.yaml; `--configfile` would take it for another."""
    command = ["snakemake", "--snakefile", f"{BASE}/Snakefile", "--cores", "2", file]
    return [*command, "--configfile", "reproduce.yaml"]


def name_below(root: Path, file: str) -> str:
    """The path below `root` of `file`, which is named from here or from `root`."""
    there = next((path for path in (Path(file), root / file) if os.path.isfile(path)), None)
    return Path(os.path.relpath(there, root)).as_posix() if there else file


def chain(root: Path, file: str) -> dict:
    """The records of the artefact and of all artefacts that it was made from, by path."""
    waiting, records = [file], {}
    while waiting:
        name = waiting.pop(0)
        if name in records or not is_artefact(name) or not os.path.isfile(root / name):
            continue
        records[name] = made_from(root / name)
        waiting += sorted(records[name].inputs)
    if not records or not records[file].rule:
        raise MlmError(
            f"{file!r}: no record of how it was made. Name a JSON file that the workflow "
            "wrote below results/, such as results/runs/base/evaluation.json"
        )
    return records


def planned(root: Path, file: str, overlay: dict) -> list[str]:
    """The rules that Snakemake would run for the file; none if it is what it would be."""
    with tempfile.TemporaryDirectory() as place:
        write_text(laid := f"{place}/overlay.yaml", yaml.safe_dump(overlay))
        command = [sys.executable, "-m", "snakemake", "--snakefile", BASE / "Snakefile", "--cores"]
        command += ["1", "--dry-run", "--directory", root, file, "--configfile", laid]
        ran = subprocess.run(command, capture_output=True, encoding="utf-8", check=False)
    if ran.returncode:
        raise MlmError(ran.stdout + ran.stderr)
    return list(dict.fromkeys(re.findall(r"^(?:local)?rule (\w+):", ran.stdout + ran.stderr, re.M)))


def commit() -> str:
    """The commit of this clone, in words."""
    git = ["git", "-C", str(BASE)]
    head = subprocess.run([*git, "rev-parse", "HEAD"], capture_output=True, text=True, check=False)
    if head.returncode:
        return "not a clone"
    changed = subprocess.run([*git, "status", "--porcelain"], capture_output=True, text=True)
    return head.stdout.strip() + (", with changes that are not committed" if changed.stdout else "")


if __name__ == "__main__":
    run_command("reproduce.py", main)
