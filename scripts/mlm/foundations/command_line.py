"""The options that commands of scripts/ have in common, and how they end."""

import argparse
import io
import json
import os
import signal
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from mlm.foundations.artefacts import as_json
from mlm.foundations.errors import MlmError, error_in_words
from mlm.foundations.input_checks import check_inputs


def described_parser(name: str, doc: str | None) -> argparse.ArgumentParser:
    """Return a parser for the command `name`, whose docstring `doc` is its help."""
    described, _, usage = (doc or "").partition("\n")
    return argparse.ArgumentParser(
        prog=name,
        description=described,
        epilog=usage.strip("\n"),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )


def parser_for_run(name: str, doc: str | None) -> argparse.ArgumentParser:
    """Return a `described_parser` of a command on a run, with snakemake's options for the directory
    and the configuration."""
    parser = described_parser(name, doc)
    many = {"nargs": "+", "action": "extend", "default": []}
    parser.add_argument("--directory", "-d", default=".", help="where the results are")
    parser.add_argument("--configfile", "--configfiles", metavar="FILE", **many)
    parser.add_argument("--config", "-C", metavar="KEY=VALUE", **many)
    parser.add_argument("--run", help="name of the run (default: the first)")
    return parser


def enter_directory(options: argparse.Namespace) -> None:
    """Make `--directory` the working directory; `--configfile` still names the same files."""
    if options.directory != ".":
        options.configfile = [os.path.abspath(file) for file in options.configfile]
    if not os.path.isdir(options.directory):
        raise MlmError(f"--directory {options.directory}: there is no such directory")
    os.chdir(options.directory)


def _trained_here() -> str:
    trained = sorted(path.parent.name for path in Path("results/runs").glob("*/training.json"))
    return f"Trained here: {', '.join(trained) or 'none'}"


def chosen_run(runs: Iterable[str], name: str | None) -> str:
    """Return the run `name` of the configuration's `runs`, the first if None; MlmError for an
    unknown one, with the runs that were trained here under another configuration."""
    names = list(runs)
    if name is None or name in names:
        return names[0] if name is None else name
    raise MlmError(
        f"--run {name!r}: no such run. In the configuration: {', '.join(names)}. "
        f"{_trained_here()}. Name the files that it was trained with: --configfile FILE"
    )


def check_model(model: Path, record: Path, target: str = "") -> None:
    """Raise MlmError unless the directory `model` has one, as the artefact `record` says; the
    snakemake `target` makes it."""
    if not (record.is_file() and (model / "model.safetensors").is_file()):
        raise MlmError(
            f"{model}: no model is there yet. `snakemake {target}` with this configuration "
            f"makes it. {_trained_here()} (--run)"
        )
    check_inputs([str(record), *(str(path) for path in model.rglob("*") if path.is_file())])


def run_command(name: str, main: Callable[[list[str]], int | None]) -> None:
    """Call `main` with the arguments and end the process with the status that it returns.

    If a reader such as `head` stops reading, the process ends without a traceback. Characters that
    the encoding of the output lacks (PYTHONIOENCODING) are printed as escapes.
    """
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # not if closed by the shell
            stream.reconfigure(errors="backslashreplace")
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    sys.exit(status_of(name, main, sys.argv[1:]))


def status_of(name: str, main: Callable[[list[str]], int | None], arguments: list[str]) -> int:
    """Return the status of `main`; 1 after an error that the user can mend, in one message."""
    try:
        return main(arguments) or 0
    except KeyboardInterrupt:
        print("\nInterrupted.", file=sys.stderr)
        return 128 + signal.SIGINT
    except Exception as error:
        if (words := error_in_words(error)) is None:
            raise
        print(f"{name}: {words}", file=sys.stderr)
        return 1


def print_json(value: Any) -> None:
    """Print `value`, of dataclasses and plain values, as JSON in ASCII."""
    print(json.dumps(as_json(value), indent=2))
