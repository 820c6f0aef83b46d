"""Say what a run was shown of a sentence: where it is in the corpus, when, and what was masked.

    .venv/bin/python scripts/ask.py "A sentence." [--run base] [--configfile my.yaml] [--json]
    .venv/bin/python scripts/ask.py "A sentence." --replay
    .venv/bin/python scripts/ask.py --forget group:1799-Adams

The configuration is given as to snakemake. Nothing is written; --replay makes some steps again.
"""

import argparse
import shlex
from pathlib import Path

from mlm.foundations.command import enter_directory, parser_for_run, print_json, run_command
from mlm.foundations.errors import SAME_COMMAND, MlmError, printable
from mlm.foundations.typed_artefacts import as_json

BASE = Path(__file__).resolve().parents[1]


def main(arguments: list[str]) -> None:
    """Print the answer."""
    # Imports follow, so that a wrong option is refused at once.
    given = _parsed(arguments)
    named = {"--configfile": given.configfile, "--config": given.config}
    named["--directory"] = [given.directory] if given.directory != "." else []
    options = (f"{option} {shlex.join(values)} " for option, values in named.items() if values)
    # Targets may follow, which the other options would take as their values.
    command = f"snakemake {''.join(options)}--cores 2"
    try:
        found, words = _answer(given)
    except MlmError as error:
        # A remedy knows of no command but the last one of Snakemake.
        raise MlmError(str(error).replace(SAME_COMMAND, command)) from None
    if given.json:
        print_json(found)
    else:
        print(printable(words))


def _answer(given: argparse.Namespace) -> tuple[dict, str]:
    """The answer for machines and in words."""
    from mlm.asking.answer import ask
    from mlm.asking.in_words import forgetting_in_words, in_words, replay_in_words
    from mlm.config.sources import read_settings

    enter_directory(given)
    settings = read_settings(BASE / "config.yaml", given.configfile, given.config)
    run = next(iter(settings["runs"])) if given.run is None else given.run
    if given.forget:
        from mlm.asking.forgetting import forgetting

        answer = forgetting(given.forget, settings, run)
        return as_json(answer), forgetting_in_words(answer)
    answer = ask(given.sentence, settings, run, given.most)
    found, words = as_json(answer), in_words(answer)
    if given.replay is not None:
        from mlm.asking.replay import replay

        replayed = replay(answer, settings, given.replay or None)
        found["replay"] = as_json(replayed)
        words += f"\n\n{replay_in_words(replayed, answer)}"
    return found, words


def _parsed(arguments: list[str]) -> argparse.Namespace:
    parser = parser_for_run("ask.py", __doc__)
    parser.add_argument("sentence", nargs="?", help="the sentence, in quotes")
    parser.add_argument(
        "--forget",
        nargs="+",
        default=[],
        metavar="WHAT",
        help="say from which step on the run depends on these documents: document:247, "
        "group:NAME, file:PATH or pattern:REGEX",
    )
    parser.add_argument(
        "--most", type=_positive, default=20, help="passages to show at most (default: 20)"
    )
    parser.add_argument(
        "--replay",
        nargs="?",
        type=_positive,
        const=0,
        metavar="STEP",
        help="make a step that used the sentence again, and ask the model as it was before it: "
        "STEP, or the first that asked for a token of the sentence",
    )
    given = parser.parse_args(arguments)
    if (given.sentence is None) == (not given.forget):
        parser.error("give either a sentence, in quotes, or --forget with what is to be forgotten")
    if given.replay is not None and given.forget:
        parser.error("--replay goes with a sentence")
    return given


def _positive(text: str) -> int:
    if not text.isdecimal() or len(text) > 18 or not int(text):
        raise argparse.ArgumentTypeError(
            f"{text!r}; expected an integer, 1 or more, of at most 18 digits (give the sentence "
            "before it)"
        )
    return int(text)


if __name__ == "__main__":
    run_command("ask.py", main)
