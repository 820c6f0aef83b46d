"""Say what a run was shown of a sentence: where it is in the corpus, when, and what was masked.

    .venv/bin/python scripts/ask.py "A sentence." [--run base] [--configfile my.yaml] [--json]

Takes the configuration as snakemake does. Nothing is written.
"""

from mlm.foundations.command_line import parser_for_run, print_json, run_command
from mlm.foundations.errors import printable


def main(arguments: list[str]) -> None:
    """Print the answer."""
    parser = parser_for_run("ask.py", __doc__)
    parser.add_argument("sentence", help="the sentence, in quotes")
    parser.add_argument("--json", action="store_true", help="print the answer for machines")
    parser.add_argument("--most", type=int, default=20, help="passages shown (default: 20)")
    options = parser.parse_args(arguments)
    if options.most < 1:
        parser.error(f"--most {options.most}: a whole number from 1 is expected")
    # Imported late, so that a wrong option is refused at once.
    from mlm.asking.answer import ask, in_words
    from mlm.config.overlays import settings_and_run

    answer = ask(options.sentence, *settings_and_run(options), options.most)
    if options.json:
        print_json(answer)
    else:
        print(printable(in_words(answer)))


if __name__ == "__main__":
    run_command("ask.py", main)
