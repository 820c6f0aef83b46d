"""Begin a project with a folder of text: look at it, time a few steps, and write a configuration.

    .venv/bin/python scripts/start.py FOLDER [--labels labels.csv] [--project my-project]

The folder may have .txt, .jsonl, .csv, .tsv and .parquet files, also compressed, in folders of its
own. The configuration is for as many minutes on this machine as --minutes says. Nothing that exists
is changed.
"""

import argparse
from pathlib import Path

from mlm.foundations.command_line import described_parser, run_command
from mlm.foundations.errors import MlmError


def main(arguments: list[str]) -> None:
    """Write the configuration and print the commands that follow."""
    options = _parsed(arguments)
    project, folder = Path(options.project), Path(options.folder)
    overlay = project / "configuration.yaml"
    if project.exists() and any(project.iterdir()):
        raise MlmError(f"{project}: exists and is not empty. Name another directory: --project")
    if not folder.is_dir():
        raise MlmError(f"{folder}: there is no such folder. Expected one with the files of text")
    if folder.resolve() in project.resolve().parents:
        problem = f"{project}: inside {folder}, where its results would be taken for texts"
        raise MlmError(f"{problem}. Name another directory: --project")
    # First, so that a wrong option is refused at once.
    from mlm.check.check import usable_cores
    from mlm.check.first_configuration import commented, first_overlay, labelled_task, look_at
    from mlm.foundations.atomic import write_text
    from mlm.foundations.terminal import in_time

    labels = Path(options.labels).resolve() if options.labels else None
    task = labelled_task(labels) if labels else None
    files = look_at(folder, labels)
    for ending, number in sorted(files.skipped.items()):
        print(f"Not read: {number} files {ending}. Convert them to .txt to use them.")
    print("Timing a few steps on this machine ...", flush=True)
    values, forecast, seconds = first_overlay(files, options.length, options.minutes, task)
    project.mkdir(parents=True, exist_ok=True)
    write_text(overlay, commented(values, files))
    print(*forecast.lines, sep="\n")
    steps = values["pretraining"]["steps"]
    passes = steps * values["pretraining"]["per_replica_batch_size"] / forecast.train_samples
    print(
        f"\n{overlay}: {steps:,} steps, {passes:.1f} passes over the text, of rows of "
        f"{options.length} tokens, in about {in_time(seconds)} on this machine, as busy as now. "
        "Read it, then:\n"
    )
    command = f".venv/bin/snakemake --cores {usable_cores()}"
    place = f"--configfile {overlay} --directory {project}"
    print(f"  {command} check {place}\n  {command} {place}\n")
    run = f"{project}/results/runs/base"
    models = f"{run}/model" + (f", fine-tuned in {run}/finetune/model" if task else "")
    print(f"The second writes {project}/results/report.html, and the model in {models}.")


def _parsed(arguments: list[str]) -> argparse.Namespace:
    parser = described_parser("start.py", __doc__)
    parser.add_argument("folder", help="the folder with the files of text")
    parser.add_argument("--labels", help="a CSV file of texts and labels, to fine-tune on")
    parser.add_argument("--minutes", type=float, default=30, help="minutes to take (default: 30)")
    parser.add_argument("--length", type=int, default=256, help="tokens in a row (default: 256)")
    parser.add_argument("--project", default="my-project", help="the new directory")
    options = parser.parse_args(arguments)
    if not 0 < options.minutes <= 1e6:
        parser.error(f"--minutes {options.minutes:g}: expected more than 0 and at most a million")
    if not 8 <= options.length <= 8192:
        parser.error(f"--length {options.length}: a whole number from 8 to 8192 is expected")
    return options


if __name__ == "__main__":
    run_command("start.py", main)
