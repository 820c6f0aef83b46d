"""What each section of the report shows: one function a section, from results to plain values.

A function returns the variables of the template `report/sections/<name>.html.j2` beside `results`,
or None if there is nothing to show and the section is left out. A further section is such a
function, an entry in SECTIONS, a template, and a word in `mlm.config.report`.
"""

from collections.abc import Callable

from mlm.accelerators.verdict_table import HEADINGS, muon_in_words, row
from mlm.corpus.artefacts import MixSource, TakenByRule
from mlm.evaluation.verdicts import on_overlap
from mlm.foundations.atomic import canonical_json
from mlm.foundations.typed_artefacts import as_json
from mlm.report import sections_of_runs
from mlm.report.glossary import ordered_baselines
from mlm.report.phrasing import (
    MOST_SHOWN,
    decimal,
    digest_rows,
    groups_in_words,
    what_was_trained,
    whole_source,
)
from mlm.report.report_inputs import Results
from mlm.report.run_comparison import best_run, flattened
from mlm.report.shown_samples import preview_pieces, special_tokens

#: Baselines with a card of their own; the table has all. Those that see what the model sees are
#: the fair ones; a trigram that sees every neighbour knows more than any model asked the same.
_ON_CARDS = ("unigram", "bigram_hidden", "bigram", "trigram_hidden")


def headlines(results: Results) -> dict:
    """The best run, its standing to the baselines, and the verdicts."""
    best = best_run(results.runs)
    evaluation, verdicts = best.evaluation, list(best.evaluation.verdicts)
    level = f"{100 * evaluation.settings['bootstrap']['confidence']:g} %"
    low, high = (decimal(bound, 3) for bound in evaluation.test.loss_interval)
    overlap = results.corpus["test"].overlap_with_train if "test" in results.corpus else None
    if overlap:
        verdicts.append(on_overlap(overlap.share))
    found = ordered_baselines(evaluation.baselines)
    return {
        "sentences": what_was_trained(results, best),
        "best": best,
        "interval": f"{level} interval {low} to {high}, by {groups_in_words(evaluation)}",
        "baselines": [(name, baseline) for key, name, baseline in found if key in _ON_CARDS],
        "overlap": overlap,
        "verdicts": verdicts,
    }


def pipeline(results: Results) -> dict:
    """The best run; the template draws the stages from left to right."""
    return {"best": best_run(results.runs)}


def corpus(results: Results) -> dict | None:
    """Documents, size and what the filters removed, by split."""
    if not results.corpus:
        return None
    splits = results.corpus.values()
    whole = sum(split.documents for split in splits) or 1
    reasons = dict.fromkeys(reason for split in splits for reason in split.filters)
    mixes = [split.source for split in splits if isinstance(split.source, MixSource)]
    sources = {split: flattened(as_json(c.source)) for split, c in results.corpus.items()}
    return {
        "rows": splits,
        "mix": list(zip(*(mix.sources for mix in mixes), strict=True)),
        "shares": [split.documents / whole for split in splits],
        "removed": [reason for reason in reasons if reason not in ("read", "kept")],
        "rules": _rules({name: c.rules for name, c in results.corpus.items() if c.rules}),
        "near": [split for split in splits if split.near_duplicates],
        "source": str(whole_source(results)),
        "details": _source_details(sources),
    }


def _source_details(sources: dict[str, dict]) -> dict[str, object]:
    """What is known of the sources by split; what is the same for all splits stands once."""
    details: dict[str, object] = {}
    for key in dict.fromkeys(key for source in sources.values() for key in source):
        first, *others = (source.get(key) for source in sources.values())
        if all(other == first for other in others):
            details[key] = first
        else:
            details |= {f"{n}.{key}": source[key] for n, source in sources.items() if key in source}
    return details


def _rules(by_split: dict[str, dict[str, TakenByRule]]) -> list[dict]:
    """What each rule took of the splits, and its samples, for the rules that are on."""
    return [
        {
            "name": rule.replace(".", ": ", 1),
            "taken": [rules[rule] for rules in by_split.values()],
            "samples": [
                (split, sample)
                for split, rules in by_split.items()
                for sample in rules[rule].samples
            ],
        }
        for rule in next(iter(by_split.values()), {})
    ]


def tokenizer(results: Results) -> dict | None:
    """Kind and size of the tokenizer, and how well it fits each split."""
    if results.tokenizer is None:
        return None
    return {
        "rows": {split: results.tokenizer.splits[split] for split in results.corpus},
        "special": special_tokens(results),
    }


def shards(results: Results) -> dict:
    """Samples, tokens and padding by split, and each shard's digest."""
    return {"most": MOST_SHOWN, "left_out": _shards_left_out(results)}


def _shards_left_out(results: Results) -> int:
    """How many shards are beyond the first MOST_SHOWN of their split, which the page names."""
    return sum(max(0, len(m.shards) - MOST_SHOWN) for m in results.manifests.values())


def preview(results: Results) -> dict | None:
    """Masked samples. Runs that show the same ones are put together."""
    special = special_tokens(results)
    groups: list[dict] = []
    for run in results.runs:
        found = run.preview.samples if run.preview else []
        samples = [preview_pieces(s, special) for s in found]
        same = next((g for g in groups if g["samples"] == samples), None)
        if same:
            same["runs"].append(run.name)
        elif samples:
            groups.append({"runs": [run.name], "samples": samples})
    return {"groups": groups} if groups else None


def compiled_steps(results: Results) -> dict | None:
    """What the TPU compiler said of each run's steps, if it was asked."""
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


def provenance(results: Results) -> dict:
    """Digests of every artefact, the configuration, package versions, how to reproduce."""
    packages: dict[str, set[str]] = {}
    for package, version in (p for run in results.runs for p in run.training.packages.items()):
        packages.setdefault(package, set()).add(version)
    return {
        "artefacts": digest_rows(results, MOST_SHOWN),
        "most": MOST_SHOWN,
        "shards_left_out": _shards_left_out(results),
        "config": canonical_json(results.config),
        "packages": {package: sorted(found) for package, found in sorted(packages.items())},
    }


#: By name: the heading, and the function that gives what the template shows.
SECTIONS: dict[str, tuple[str, Callable[[Results], dict | None]]] = {
    "summary": ("Summary", headlines),
    "pipeline": ("From text to report", pipeline),
    "corpus": ("Corpus", corpus),
    "tokenizer": ("Tokenizer", tokenizer),
    "shards": ("Shards", shards),
    "preflight": ("Preflight", compiled_steps),
    "preview": ("What the model is shown", preview),
    "training": ("Training", sections_of_runs.training),
    "runs": ("Runs compared", sections_of_runs.runs),
    "evaluation": ("Evaluation", sections_of_runs.evaluation),
    "fill_mask": ("Fill in the mask", sections_of_runs.fill_mask),
    "samples": ("Best and worst samples", sections_of_runs.samples),
    "asked": ("The nearest training text", sections_of_runs.asked),
    "finetune": ("Fine-tuning", sections_of_runs.finetuning),
    "provenance": ("Provenance", provenance),
}
