"""Say what a run was shown of a sentence: where it is in the corpus, when, and what was masked.

    .venv/bin/python scripts/ask.py "A sentence." [--run base] [--configfile my.yaml] [--json]

Takes the configuration as snakemake does. Nothing is written.
"""

import argparse
import shlex

from mlm.foundations.artefacts import as_json
from mlm.foundations.command import parser_for_run, print_json, run_command, text_argument
from mlm.foundations.errors import SAME_COMMAND, MlmError, printable


def main(arguments: list[str]) -> None:
    """Print the answer."""
    parser = parser_for_run("ask.py", __doc__)
    parser.add_argument("sentence", type=text_argument, help="the sentence, in quotes")
    parser.add_argument(
        "--most", type=_positive, default=20, help="passages shown at most (default: 20)"
    )
    options = parser.parse_args(arguments)
    # Imported late, so that a wrong option is refused at once.
    from mlm.asking.answer import ask
    from mlm.asking.in_words import in_words
    from mlm.config.resolution import settings_and_run

    try:
        answer = ask(options.sentence, *settings_and_run(options), options.most)
    except MlmError as error:
        # A remedy knows of no command but the last one of Snakemake.
        raise MlmError(str(error).replace(SAME_COMMAND, _snakemake(options))) from None
    if options.json:
        print_json(as_json(answer))
    else:
        print(printable(in_words(answer)))


def _snakemake(options: argparse.Namespace) -> str:
    """The Snakemake command with the same configuration."""
    named = {"--configfile": options.configfile, "--config": options.config}
    named["--directory"] = [options.directory] if options.directory != "." else []
    words = (f"{option} {shlex.join(values)} " for option, values in named.items() if values)
    # Targets may follow, which the other options would take as their values.
    return f"snakemake {''.join(words)}--cores 2"


def _positive(text: str) -> int:
    if not text.isdecimal() or len(text) > 18 or not int(text):
        raise argparse.ArgumentTypeError(
            f"{text!r}; expected an integer from 1, of up to 18 digits"
        )
    return int(text)


if __name__ == "__main__":
    run_command("ask.py", main)
