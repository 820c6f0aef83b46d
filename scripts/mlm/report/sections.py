"""What each section of the report shows: one function a section, from results to plain values.

A function returns the variables of the template `report/sections/<name>.html.j2`, or None
where there is nothing to show and the section is left out. A further section is such a
function, an entry in SECTIONS, a template, and a word in `mlm.config.report`.
"""

from collections.abc import Callable
from dataclasses import dataclass

from mlm.accelerators.table import HEADINGS, muon_in_words, row
from mlm.evaluation.verdicts import on_overlap
from mlm.foundations.atomic import canonical_json
from mlm.report import sections_of_data, sections_of_finetuning, sections_of_runs
from mlm.report.glossary import ordered_baselines
from mlm.report.phrasing import (
    MOST,
    against,
    count,
    decimal,
    digest_rows,
    groups_in_words,
    percent,
    plural,
    what_was_trained,
)
from mlm.report.report_inputs import Results
from mlm.report.run_comparison import best_run


@dataclass(frozen=True)
class Section:
    """A section's heading and the function that gives what its template shows."""

    title: str
    view: Callable[[Results], dict | None]


@dataclass(frozen=True)
class Card:
    """A headline figure; `state` is better, worse or even where it is a comparison.

    `term` names the entry of the glossary.
    """

    term: str
    label: str
    value: str
    unit: str = ""
    note: str = ""
    state: str = ""


#: Baselines with a card of their own; the table has all. Those that see what the model sees are
#: the fair ones; a trigram that sees every neighbour knows more than any model asked the same.
_ON_CARDS = ("unigram", "bigram_hidden", "bigram", "trigram_hidden")


def summary(results: Results) -> dict:
    """Headline figures of the best run, its standing to the baselines, and the verdicts."""
    best = best_run(results.runs)
    evaluation, test = best.evaluation, best.evaluation.test
    level = f"{100 * evaluation.settings.bootstrap.confidence:g} %"
    low, high = (decimal(bound, 3) for bound in test.loss_interval)
    cards = [
        Card(
            "loss",
            "Test loss",
            decimal(test.loss, 3),
            "nats",
            f"{level} interval {low} to {high}, by {groups_in_words(evaluation)}",
        ),
        Card(
            "perplexity",
            "Perplexity",
            decimal(test.perplexity, 1),
            "",
            "as unsure as a uniform choice among this many tokens",
        ),
        Card(
            "accuracy",
            "Right first guesses",
            percent(test.accuracy),
            "",
            f"right among the first five: {percent(test.top5_accuracy)}",
        ),
        Card(
            "bits",
            "Bits per character",
            decimal(test.bits_per_character, 3),
            "",
            "where the answer is hidden; compares across tokenizers",
        ),
    ]
    for key, name, baseline in ordered_baselines(evaluation.baselines):
        if key in _ON_CARDS:
            standing = against(baseline)
            cards.append(
                Card(
                    "beside",
                    f"Beside the {name}",
                    standing.value,
                    "nats",
                    standing.words,
                    standing.state,
                )
            )
    verdicts = list(evaluation.verdicts)
    if "test" in results.corpus and (overlap := results.corpus["test"].overlap_with_train):
        verdict = on_overlap(overlap.share)
        verdicts.append(verdict)
        words = f"of {count(overlap.words)} words, in runs of 13 words that train has too"
        cards.append(
            Card("overlap", "Seen test words", percent(overlap.share, 2), "", words, verdict.tone)
        )
    return {
        "sentences": what_was_trained(results, best),
        "best": best.name,
        "several": len(results.runs) > 1,
        "cards": cards,
        "verdicts": verdicts,
    }


def pipeline(results: Results) -> dict:
    """The stages from left to right, each with what it made, and the section that shows it."""
    steps: list[dict] = []

    def stage(name: str, section: str, *lines: str) -> None:
        link = section if section in results.sections else None
        steps.append({"name": name, "section": link, "lines": [x for x in lines if x]})

    if results.corpus:
        documents = sum(c.documents for c in results.corpus.values())
        stage("Corpus", "corpus", f"{count(documents)} documents", "split, filtered")
    if results.tokenizer:
        tokens = f"{count(results.tokenizer.vocabulary_size)} tokens"
        stage("Tokenizer", "tokenizer", results.tokenizer.kind, tokens)
    manifests = results.manifests.values()
    stage(
        "Shards",
        "shards",
        f"{count(sum(len(m.shards) for m in manifests))} files",
        f"{count(sum(m.num_tokens for m in manifests))} tokens",
    )
    runs = results.runs
    if any(run.preflight for run in runs):
        stage("Preflight", "preflight", "compiled ahead")
    steps_taken = sorted({run.training.steps for run in runs})
    stage(
        "Pretraining",
        "training",
        plural(len(runs), "run"),
        " to ".join(dict.fromkeys([count(steps_taken[0]), count(steps_taken[-1])])) + " steps",
    )
    predictions = best_run(runs).evaluation.test.num_predictions
    stage("Evaluation", "evaluation", "fixed masks", f"{count(predictions)} predictions")
    prompts = best_run(runs).fill_mask.prompts
    stage("Fill-mask", "fill_mask", plural(len(prompts), "prompt"))
    if tuned := [run.finetune for run in runs if run.finetune]:
        folds = tuned[0].models["pretrained"].folds
        stage("Fine-tuning", "finetune", tuned[0].task, plural(len(folds), "fold"))
    stage("Report", "provenance", "this page")
    return {"stages": steps}


def provenance(results: Results) -> dict:
    """Digests of every artefact, the configuration, package versions, how to reproduce."""
    packages: dict[str, dict[str, str]] = {}
    for run in results.runs:
        for package, version in run.training.packages.items():
            packages.setdefault(package, {})[run.name] = version
    return {
        "artefacts": digest_rows(results, MOST),
        "most": MOST,
        "shards_left_out": sections_of_data.shards_left_out(results),
        "config": canonical_json(results.config),
        "code": results.code,
        "packages": {p: sorted(set(v.values())) for p, v in sorted(packages.items())},
    }


def preflight(results: Results) -> dict | None:
    """What the TPU compiler said of each run's steps, where it was asked."""
    found = [p for run in results.runs for p in (run.preflight, run.preflight_finetune) if p]
    if not found:
        return None
    return {
        "headings": HEADINGS,
        "label": found[0].label,
        "unseen": found[0].unseen,
        "runs": [
            {
                "name": preflight.run,
                "passed": preflight.passed,
                "rows": [row(target) for target in preflight.targets],
                "muon": muon_in_words(preflight),
                "findings": [finding.in_words() for finding in preflight.findings],
            }
            for preflight in found
        ],
    }


#: Floating-point operations a weight and token, forward and backward: Kaplan et al., "Scaling
#: laws for neural language models" (2020), section 2.1.
FLOPS_PER_WEIGHT = 6


def cost(results: Results) -> dict | None:
    """Time and memory of each job, where they were asked for."""
    if not results.cost:
        return None
    return {
        "rows": results.cost,
        "seconds": sum(r["seconds"] or 0 for r in results.cost),
        "speed": [
            (
                r.name,
                results.speed[r.name],
                r.training.tokens,
                FLOPS_PER_WEIGHT * r.training.parameters * r.training.tokens,
            )
            for r in results.runs
        ],
    }


SECTIONS = {
    "summary": Section("Summary", summary),
    "pipeline": Section("From text to report", pipeline),
    "corpus": Section("Corpus", sections_of_data.corpus),
    "tokenizer": Section("Tokenizer", sections_of_data.tokenizer),
    "shards": Section("Shards", sections_of_data.shards),
    "preflight": Section("Preflight", preflight),
    "preview": Section("What the model is shown", sections_of_data.preview),
    "training": Section("Training", sections_of_runs.training),
    "runs": Section("Runs compared", sections_of_runs.runs),
    "evaluation": Section("Evaluation", sections_of_runs.evaluation),
    "fill_mask": Section("Fill in the mask", sections_of_runs.fill_mask),
    "samples": Section("Best and worst samples", sections_of_runs.samples),
    "asked": Section("The nearest training text", sections_of_runs.asked),
    "finetune": Section("Fine-tuning", sections_of_finetuning.finetuning),
    "cost": Section("Cost", cost),
    "provenance": Section("Provenance", provenance),
}
