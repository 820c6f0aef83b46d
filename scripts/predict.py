"""Predict the labels of new texts with the fine-tuned model of a run.

    .venv/bin/python scripts/predict.py --csv new.csv [--run base] [--output predictions.csv]

Takes the configuration as snakemake does. The table has the columns of the input and, of a
classification, `label` and the probability of each class; of a regression, `value`.
"""

from pathlib import Path

from mlm.foundations.command_line import check_model, parser_for_run, run_command


def main(arguments: list[str]) -> None:
    """Write the predictions."""
    parser = parser_for_run("predict.py", __doc__)
    parser.add_argument("--csv", required=True, help="the table with the texts")
    parser.add_argument("--text-column", help="its column (default: finetune.data.text_column)")
    parser.add_argument("--output", default="predictions.csv", help="the table to write")
    options = parser.parse_args(arguments)
    from mlm.config.overlays import settings_and_run

    settings, run = settings_and_run(options)
    model = Path("results", "runs", run, "finetune", "model")
    check_model(model, model.with_name("fold.json"), "finetune")
    from mlm.finetuning.prediction import predict_csv

    column = options.text_column or settings.finetune.data.text_column
    count = predict_csv(options.csv, column, model, options.output, settings.accelerator)
    print(f"{options.output}: {count:,} rows")


if __name__ == "__main__":
    run_command("predict.py", main)
