"""Say what a run was shown of a sentence: where it stands, at which steps, and what was masked.

    .venv/bin/python scripts/ask.py "A sentence." [--run base] [--configfile my.yaml] [--json]
    .venv/bin/python scripts/ask.py "A sentence." --replay
    .venv/bin/python scripts/ask.py --forget group:1799-Adams-1

The configuration is given as to snakemake. Nothing is written; --replay makes some steps again.
"""

import argparse
import json
import shlex
import signal
import sys
from pathlib import Path

from mlm.foundations.errors import HIDDEN, SAME_COMMAND, MlmError, printable

BASE = Path(__file__).resolve().parents[1]


def main(arguments: list[str]) -> int:
    """Print the answer; the status is 1 where there is none."""
    # Here, so that a wrong option is told at once.
    given = _parsed(arguments)
    from mlm.asking.asking import Question, ask
    from mlm.asking.in_words import in_words, training_in_words
    from mlm.config.sources import read_settings_in
    from mlm.foundations.typed_artefacts import as_json

    command = f"snakemake --cores 2{_options(given)}"
    try:
        overlays, values = given.configfile, given.config
        settings = read_settings_in(given.directory, BASE / "config.yaml", overlays, values)
        run = given.run or next(iter(settings["runs"]))
        replayed = None
        if given.forget:
            # Here, since a sentence takes less.
            from mlm.asking.forgetting import forgetting, forgetting_in_words

            answer = forgetting(given.forget, settings, run, command)
        else:
            question = Question(given.sentence, settings, run, most=given.most, command=command)
            answer = ask(question)
            if given.replay is not None:
                from mlm.asking.replay import replay

                replayed = replay(question, answer, given.replay or None, given.from_start)
    except (MlmError, OSError) as error:
        # Of a remedy, which knows of no command but Snakemake's last one.
        told = printable(str(error)).replace(SAME_COMMAND, command)
        print(f"ask.py: {told}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        # A replay may take its time.
        return 130
    if given.json:
        found = as_json(answer) | ({"replay": as_json(replayed)} if replayed else {})
        text = json.dumps(found, ensure_ascii=False, indent=2)
        print(HIDDEN.sub(lambda hidden: json.dumps(hidden[0])[1:-1], text))
        return 0
    if given.forget:
        text = forgetting_in_words(answer, training_in_words(answer.run, answer.training))
    else:
        text = in_words(answer)
        if replayed:
            from mlm.asking.in_words import replay_in_words

            text += f"\n\n{replay_in_words(replayed, answer)}"
    print(printable(text))
    return 0


def _parsed(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="ask.py",
        # Not __doc__, which Python leaves out with -OO.
        description="Say what a run was shown of a sentence: where, when, and what was masked.",
    )
    parser.add_argument("sentence", nargs="?", help="the sentence, in quotes")
    parser.add_argument(
        "--forget",
        nargs="+",
        default=[],
        metavar="WHAT",
        help="say from which step on the run depends on these documents: document:247, "
        "group:NAME, file:PATH or pattern:REGEX",
    )
    parser.add_argument("--run", help="the run that is asked about; the first, if not given")
    parser.add_argument("--configfile", "--configfiles", nargs="+", default=[], metavar="FILE")
    parser.add_argument("--config", "-C", nargs="+", default=[], metavar="KEY=VALUE")
    parser.add_argument("--directory", "-d", default=".", help="where the results are")
    parser.add_argument(
        "--most", type=_count, default=20, help="show so many passages at most (default: 20)"
    )
    parser.add_argument(
        "--replay",
        nargs="?",
        type=_step,
        const=0,
        metavar="STEP",
        help="make a step that used the sentence again, and ask the model as it stood before it: "
        "STEP, or the first that asked for a token of the sentence",
    )
    parser.add_argument(
        "--from-start",
        action="store_true",
        help="with --replay: also where no saved state is left and the steps from the initial "
        "weights are many",
    )
    parser.add_argument("--json", action="store_true", help="print the answer for machines")
    given = parser.parse_args(arguments)
    if (given.sentence is None) == (not given.forget):
        parser.error("give either a sentence, in quotes, or --forget with what is to be forgotten")
    if given.from_start and given.replay is None:
        parser.error("--from-start goes with --replay")
    if given.replay is not None and given.forget:
        parser.error("--replay goes with a sentence")
    return given


def _count(text: str) -> int:
    if not text.isdecimal() or not int(text):
        raise argparse.ArgumentTypeError(f"{text!r}; a whole number from 1 is expected")
    return int(text)


def _step(text: str) -> int:
    if not text.isdecimal() or not int(text):
        raise argparse.ArgumentTypeError(
            f"{text!r}; the number of a step is expected, from 1 (the sentence comes before it)"
        )
    return int(text)


def _options(given: argparse.Namespace) -> str:
    """What of the configuration a snakemake command needs as well."""
    named = {"--configfile": given.configfile, "--config": given.config}
    if given.directory != ".":
        named["--directory"] = [given.directory]
    return "".join(f" {option} {shlex.join(values)}" for option, values in named.items() if values)


if __name__ == "__main__":
    # `ask.py … | head` ends as other programs do there, without a traceback.
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    sys.exit(main(sys.argv[1:]))
