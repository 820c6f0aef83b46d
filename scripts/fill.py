"""Let the model of a run fill the mask of each sentence.

    .venv/bin/python scripts/fill.py "A [MASK]." "Another [MASK]." [--run base] [--json]

Takes the configuration as snakemake does. Nothing is written.
"""

from pathlib import Path

from mlm.foundations.command_line import check_model, parser_for_run, print_json, run_command
from mlm.foundations.errors import printable


def main(arguments: list[str]) -> None:
    """Print the answers."""
    parser = parser_for_run("fill.py", __doc__)
    parser.add_argument("--json", action="store_true", help="print the answer for machines")
    parser.add_argument("sentences", nargs="+", help="sentences in quotes, with one mask each")
    parser.add_argument("--top-k", type=int, default=5, help="number of answers (default: 5)")
    options = parser.parse_args(arguments)
    if options.top_k < 1:
        parser.error(f"--top-k {options.top_k}: a whole number from 1 is expected")
    # Imported late, so that a wrong option is refused at once.
    from mlm.config.overlays import settings_and_run

    settings, run = settings_and_run(options)
    results = Path("results", "runs", run)
    check_model(results / "model", results / "training.json")
    from mlm.evaluation.fill_mask import answers

    model, threads = results / "model", settings.accelerator.cpu_threads
    filled = answers(model, options.sentences, options.top_k, threads, setting="sentences")
    if options.json:
        return print_json(filled)
    for prompt in filled:
        lines = (f"{answer.score:8.1%}  {answer.token}" for answer in prompt.answers)
        print(*map(printable, (prompt.prompt, *lines)), sep="\n")


if __name__ == "__main__":
    run_command("fill.py", main)
