"""What each section of the report shows: one function a section, from results to plain values.

A function returns the variables of the template `report/sections/<name>.html.j2` beside those that
all have (`page.render`), or None if there is nothing to show and the section is left out. A further
section is such a function, an entry in SECTIONS and a template.
"""

from collections.abc import Callable
from dataclasses import replace

from mlm.corpus.artefacts import FilesSource, MixSource, TakenByRule
from mlm.evaluation.artefacts import BASELINES, METRICS
from mlm.evaluation.verdicts import FEW_CLUSTERS, on_overlap
from mlm.finetuning.finetuning_metrics import NAMES, name_of
from mlm.foundations.artefacts import as_json
from mlm.foundations.atomic import canonical_json
from mlm.preflight.verdict_table import cells
from mlm.report.report_inputs import Results, RunResults
from mlm.report.run_comparison import (
    best_run,
    differing_settings,
    flattened,
    seed_groups,
    setting_names,
    standings,
)
from mlm.report.template_filters import MOST_SHOWN, value


def summary(results: Results) -> dict:
    """The best run, and the verdicts on it."""
    overlap = results.corpus["test"].overlap_with_train
    said = [on_overlap(overlap)] if overlap else []
    verdicts = [*best_run(results.runs).evaluation.verdicts, *said]
    return {"source": _source(results), "verdicts": verdicts}


def _source(results: Results) -> str:
    """One source for all splits: with the files of each, and every file once."""
    sources = [split.source for split in results.corpus.values()]
    if isinstance(sources[0], FilesSource):
        files = {file.sha256: file for source in sources for file in source.files}
        return str(replace(sources[0], files=tuple(files.values())))
    return str(sources[0])


def corpus(results: Results) -> dict | None:
    """Documents, size and what the filters removed, by split."""
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
        "source": _source(results),
        "details": _source_details(sources),
    }


def _source_details(sources: dict[str, dict]) -> dict[str, object]:
    """What is known of the sources by split; what is the same for all splits is given once."""
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
    return {"rows": {split: results.tokenizer.splits[split] for split in results.corpus}}


def shards(results: Results) -> dict:
    """How many shards are beyond the first MOST_SHOWN of their split, which the page names."""
    return {"left_out": sum(max(0, len(m.shards) - MOST_SHOWN) for m in results.manifests.values())}


def preview(results: Results) -> dict | None:
    """Masked samples. Runs that show the same ones are put together."""
    groups: list[dict] = []
    for run in results.runs:
        samples = run.preview.samples if run.preview else []
        same = next((g for g in groups if g["samples"] == samples), None)
        if same:
            same["runs"].append(run.name)
        elif samples:
            groups.append({"runs": [run.name], "samples": samples})
    return {"groups": groups} if groups else None


def preflight(results: Results) -> dict | None:
    """What the compilers said of each run's steps, if they were asked."""
    verdicts = [run.preflight for run in results.runs if run.preflight]
    if not verdicts:
        return None
    return {
        "label": verdicts[0].label,
        "unseen": verdicts[0].unseen,
        "runs": [
            {
                "name": preflight.run,
                "passed": preflight.passed,
                "rows": cells(preflight),
                "notes": preflight.notes,
                "findings": [finding.in_words() for finding in preflight.findings],
            }
            for preflight in verdicts
        ],
    }


#: Settings shown for each run: field of training.json and heading.
_SETTINGS = {
    "model_type": "Architecture",
    "parameters": "Parameters",
    "attend": "Attention within",
    "head": "Head",
    "engine": "Engine",
    "strategy": "Strategy",
    "replicas": "Replicas",
    "processes": "Processes",
    "precision": "Precision",
    "global_batch_size": "Samples in a step",
    "sequence_length": "Tokens in a sample",
    "steps": "Steps",
    "epochs": "Epochs",
    "tokens": "Tokens seen",
    "slots": "Prediction slots",
}
#: The same of what a run began with, if it began with a published encoder.
_WARM_START = {
    "checkpoint": "Begins with",
    "sha256": "Begins with: sha256 of weights and config.json",
    "licence": "Begins with: licence",
    "missing": "Begins with: parts that it lacks, made as by the family",
    "unexpected": "Begins with: parts that are not used",
    "validation_loss": "Validation loss before the first step, nats",
}
#: Settings with an entry of their own in the glossary.
_TERMS = {"Parameters": "parameters", "Steps": "steps", "Tokens seen": "tokens"}


def training(results: Results) -> dict:
    """The settings in force: a heading, a value by run, and whether all are alike."""
    runs = results.runs
    rows = [(heading, [getattr(r.training, f) for r in runs]) for f, heading in _SETTINGS.items()]
    for group in ("initialisation", "masking", "optimizer"):
        tables = [getattr(run.training, group) for run in runs]
        for key in sorted({key for table in tables for key in table}):
            heading = f"{group.capitalize()}: {key.replace('_', ' ')}"
            rows.append((heading, [table.get(key) for table in tables]))
    starts = [run.training.warm_start for run in runs]
    rows += [
        (heading, [start and getattr(start, field) for start in starts])
        for field, heading in _WARM_START.items()
    ]
    settings = [
        {
            "heading": heading,
            "term": _TERMS.get(heading, "setting"),
            "values": [value(v) for v in values],
            "alike": len({value(v) for v in values}) == 1,
        }
        for heading, values in rows
        if any(v is not None for v in values)
    ]
    return {"settings": settings}


def runs(results: Results) -> dict | None:
    """The table of all runs, the lowest validation loss first and those of other directories last,
    with the settings that differ; mean and spread of those that differ only in the seed."""
    runs, all_runs = results.runs, [*results.runs, *results.also]
    if len(all_runs) == 1:
        return None
    settings = differing_settings(runs, results.config)
    of_runs = [[values[number] for values in settings.values()] for number in range(len(runs))]
    of_runs += [[None] * len(settings)] * len(results.also)
    ranked = standings(runs, results.also)
    rows = zip(range(len(all_runs)), all_runs, ranked, of_runs, strict=True)
    return {
        "rows": sorted(rows, key=lambda row: (row[2].other, row[2].validation_loss)),
        "settings": setting_names(settings).values(),
        "validated_alike": "pretraining.validation.samples" not in settings,
        "groups": seed_groups(runs, results.config["seed"]),
        "columns": {name: metric for name, metric in METRICS.items() if metric.compared},
        "also": bool(results.also),
    }


def evaluation(results: Results) -> dict:
    """Test metrics against the baselines, and where the model is good and bad.

    `rows` are (run, what was measured, figures), `beside` those of the baselines.
    """
    rows, beside = [], []
    for run in results.runs:
        rows.append((run.name, "on test", run.evaluation.test))
        rows.append((run.name, "on a sample of train", run.evaluation.train))
    for name in BASELINES:
        # The first of those that have the same figures.
        measured: dict[tuple, tuple] = {}
        for run in results.runs:
            found = run.evaluation.baselines[name]
            figures = found.loss, found.accuracy
            measured.setdefault(figures, (run.name, name, found))
        alike = len(measured) == 1 and len(results.runs) > 1
        beside += [("all runs", *row[1:]) if alike else row for row in measured.values()]
    return {
        "rows": rows,
        "beside": beside,
        "baselines": BASELINES,
        "columns": METRICS,
        "in_papers": {run.name: run.evaluation.as_in_papers for run in results.runs},
        "groups": _groups(best_run(results.runs)),
    }


def _groups(run: RunResults) -> dict | None:
    """The run's bits per character by source and group, of how `few` groups an interval is too
    narrow, the `ends` of a drawing, and the `whole` test split if it is between them."""
    found, whole = run.evaluation.by_group, run.evaluation.test.bits_per_character
    if found is None:
        return None
    rows = [*(("source", one) for one in found.sources), *(("group", one) for one in found.groups)]
    bits = [(one.bits_per_character, one.bits_per_character_interval or ()) for _, one in rows]
    drawn = [number for value, ends in bits for number in (value, *ends)]
    return {
        "run": run.name,
        "rows": rows,
        "few": FEW_CLUSTERS,
        "of": None if len(found.groups) == found.num_groups else found.num_groups,
        "ends": (min(drawn), max(drawn)),
        "whole": whole if whole and min(drawn) <= whole <= max(drawn) else None,
    }


def fill_mask(results: Results) -> dict | None:
    """Each prompt's answers, a column a run."""
    prompts: dict[str, dict[str, list]] = {}
    for run in results.runs:
        for prompt in run.fill_mask.prompts:
            prompts.setdefault(prompt.prompt, {})[run.name] = prompt.answers
    return {"prompts": prompts, "runs": [r.name for r in results.runs]} if prompts else None


_FINETUNING_PARTS = {
    "all": "all passages",
    "unseen": "passages that pretraining never trained on",
    "seen": "passages whose text pretraining has read",
}


def finetune(results: Results) -> dict | None:
    """The runs that were fine-tuned, the parts of the passages that were scored, and settings."""
    tuned = [run for run in results.runs if run.finetune]
    found = {part for run in tuned for part in run.finetune.parts}
    settings = {}
    for run in tuned:
        chosen = {
            f"fold {choice.fold}": f"{choice.terms}, penalty {choice.penalty:g}"
            for choice in run.finetune.baseline
        }
        data = as_json(run.finetune.data) | run.finetune.settings | {"baseline": chosen}
        settings[run.name] = flattened(data)
    parts = {part: name for part, name in _FINETUNING_PARTS.items() if part in found}
    also = {name: sha256 for run in tuned for name, sha256 in (run.finetune.also or {}).items()}
    names = {name: name_of(name) for name in (*NAMES, *also)}
    view = {"runs": tuned, "parts": parts, "names": names, "settings": settings, "also": also}
    return view | {"first": tuned[0].finetune} if tuned else None


def provenance(results: Results) -> dict:
    """Digests of every artefact, the configuration, package versions, how to reproduce."""
    packages: dict[str, set[str]] = {}
    for package, version in (p for run in results.runs for p in run.training.packages.items()):
        packages.setdefault(package, set()).add(version)
    return {
        "artefacts": results.digests_of_files(MOST_SHOWN),
        **shards(results),
        "config": canonical_json(results.config),
        "packages": {package: sorted(found) for package, found in sorted(packages.items())},
    }


#: By name: the heading, and the function that gives what the template shows.
SECTIONS: dict[str, tuple[str, Callable[[Results], dict | None]]] = {
    "summary": ("Summary", summary),
    "pipeline": ("From text to report", lambda results: {}),
    "corpus": ("Corpus", corpus),
    "tokenizer": ("Tokenizer", tokenizer),
    "shards": ("Shards", shards),
    "preflight": ("Preflight", preflight),
    "preview": ("What the model is shown", preview),
    "training": ("Training", training),
    "runs": ("Runs compared", runs),
    "evaluation": ("Evaluation", evaluation),
    "fill_mask": ("Fill in the mask", fill_mask),
    "finetune": ("Fine-tuning", finetune),
    "provenance": ("Provenance", provenance),
}
