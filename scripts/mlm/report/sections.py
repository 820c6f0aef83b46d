"""What the sections of the page compute beyond the artefacts, for their templates."""

from collections.abc import Iterator, Sequence

from mlm.evaluation.artefacts import BitsByGroup, FilledToken
from mlm.finetuning.score_comparison import Finetuning
from mlm.foundations.artefacts import as_json
from mlm.report.report_inputs import EvaluatedRun, Results, RunResults
from mlm.report.run_comparison import Standing, flattened, standings
from mlm.report.wording import NONE, value
from mlm.samples.preview import PreviewSample

#: By name, in the order of the page: the heading. The section is what its template
#: `report/sections/<name>.html.j2` makes of the artefacts, and is left out if that is nothing.
SECTIONS = {
    "summary": "Summary",
    "runs": "Runs compared",
    "evaluation": "Evaluation",
    "fill_mask": "Fill in the mask",
    "finetune": "Fine-tuning",
    "training": "Training",
    "preview": "What the model is shown",
    "corpus": "Corpus",
    "tokenizer": "Tokenizer",
    "shards": "Shards",
    "preflight": "Preflight",
    "provenance": "Provenance",
}


def ranked(results: Results) -> list[tuple[int, EvaluatedRun, Standing]]:
    """Number, run and Standing: the lowest validation loss first, other directories last."""
    here, standing = len(results.runs), standings(results)
    rows = list(zip(range(len(standing)), [*results.runs, *results.also], standing, strict=True))
    return sorted(rows[:here], key=lambda row: row[1].training.final.validation_loss) + rows[here:]


def setting_rows(columns: Sequence[dict]) -> Iterator[tuple[str, list[str]]]:
    """Yield the path of each setting and its values in words: one a column, or the one of all."""
    flat = [flattened(column) for column in columns]
    for path in dict.fromkeys(path for one in flat for path in one):
        values = [value(one[path]) if path in one else NONE for one in flat]
        yield path, values[:1] if len(set(values)) == 1 else values


def training_settings(run: RunResults) -> dict:
    """The settings that were in force, as training.json has them."""
    beside = ("format_version", "made_from", "run", "final", "digests", "packages", "code")
    return {k: v for k, v in as_json(run.training).items() if k not in beside}


def finetuning_settings(metrics: Finetuning) -> dict:
    """Data and settings of a fine-tuning, with the learning rates that the folds chose."""
    data = {k: v for k, v in as_json(metrics.data).items() if k != "format_version"}
    return data | metrics.settings | {"learning_rates": metrics.learning_rates}


def previews(runs: Sequence[RunResults]) -> list[tuple[list[str], list[PreviewSample]]]:
    """Names of runs and the masked samples that they share."""
    groups: list[tuple[list[str], list[PreviewSample]]] = []
    for run in runs:
        samples = run.preview.samples if run.preview else []
        names = next((names for names, shown in groups if shown == samples), None)
        if names:
            names.append(run.name)
        elif samples:
            groups.append(([run.name], samples))
    return groups


def answers_by_prompt(runs: Sequence[RunResults]) -> dict[str, dict[str, list[FilledToken]]]:
    """The answers to each prompt by run."""
    prompts: dict[str, dict[str, list[FilledToken]]] = {}
    for run in runs:
        for prompt in run.fill_mask.prompts:
            prompts.setdefault(prompt.prompt, {})[run.name] = prompt.answers
    return prompts


def most_bits(figures: BitsByGroup) -> float:
    """The end of a scale from 0 on that has every group and source."""
    return max(one.bits_per_character for one in (*figures.groups, *figures.sources)) or 1.0
