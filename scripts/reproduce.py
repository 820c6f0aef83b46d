"""Say how a result came about, check what can be checked, and print what makes it again.

    .venv/bin/python scripts/reproduce.py results/runs/base/evaluation.json

The file is one of the JSON files below results/. results/report.json must be there, too, since it
has the configuration."""

import re
import shlex
import subprocess
import sys
import tempfile
from pathlib import Path

import yaml

from mlm.config.fields import differing
from mlm.config.resolution import resolve
from mlm.foundations.artefacts import (
    MadeFrom,
    is_artefact,
    made_from,
    portable,
    read_artefact,
    result_sha256,
)
from mlm.foundations.atomic import write_text
from mlm.foundations.command import described_parser, run_command
from mlm.foundations.digests import file_sha256
from mlm.foundations.errors import MlmError, printable

BASE = Path(__file__).resolve().parents[1]


def main(arguments: list[str]) -> int:
    """Print the account; 1 if something is not as recorded."""
    parser = described_parser("reproduce.py", __doc__)
    parser.add_argument("file", help="a JSON file below results/")
    path = Path(parser.parse_args(arguments).file).resolve()
    file = portable(path)
    root = Path(str(path).removesuffix(file))
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
    print(f"{printable(file)} was made by the rules {', '.join(rules)}.\n")
    for what, fault, fine in (
        ("files", damaged, f"{len(files)} as their makers recorded"),
        ("result", stale, "what this clone, the configuration and the inputs would make"),
    ):
        print(f"{what:8} {'not as recorded: ' + ', '.join(fault) if fault else fine}")
    git = ["git", "-C", BASE, "describe", "--always", "--abbrev=40", "--dirty"]
    commit = subprocess.run(git, capture_output=True, text=True, check=False).stdout.strip()
    lock = file_sha256(BASE / "envs" / "requirements.txt")
    print(f"commit   {commit or 'not a clone'}\nlock     envs/requirements.txt, sha256 {lock}")
    print("\nTo make it again, save this as reproduce.yaml in an empty directory:\n")
    print(yaml.safe_dump(overlay or {"runs": {"base": {}}}, allow_unicode=True))
    print(shlex.join(command_that_makes(file)))
    print(f"\nIts sha256 is {result_sha256(path)} then, too.")
    return 1 if damaged or stale else 0


def command_that_makes(file: str, overlay: str = "reproduce.yaml") -> list[str]:
    """Return the command that makes `file`, which is before the option that takes many files."""
    command = ["snakemake", "-s", str(BASE / "Snakefile"), "--cores", "2", file]
    return [*command, "--configfile", overlay]


def chain(root: Path, file: str) -> dict[str, MadeFrom]:
    """Return the records of the artefact and of all that it was made from, by path."""
    waiting, records = [file], {}
    while waiting:
        name = waiting.pop(0)
        if name in records or not is_artefact(name) or not (root / name).is_file():
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
    """Return the rules that Snakemake would run for the file; none if it is what it would be."""
    with tempfile.TemporaryDirectory() as place:
        write_text(laid := f"{place}/overlay.yaml", yaml.safe_dump(overlay))
        command = [sys.executable, "-m", *command_that_makes(file, laid), "--dry-run"]
        how = {"capture_output": True, "encoding": "utf-8", "check": False}
        ran = subprocess.run([*command, "--directory", root], **how)
    if ran.returncode:
        raise MlmError(ran.stdout + ran.stderr)
    return list(dict.fromkeys(re.findall(r"^(?:local)?rule (\w+):", ran.stdout + ran.stderr, re.M)))


if __name__ == "__main__":
    run_command("reproduce.py", main)
