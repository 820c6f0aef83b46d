"""What each section of the report shows: one function a section, from results to plain values.

A function returns the variables of the template `report/sections/<name>.html.j2`, or None
where there is nothing to show and the section is left out. A further section is a function
here, an entry in SECTIONS, a template, and a word in the configuration's schema.
"""

from collections.abc import Callable
from dataclasses import dataclass

from mlm.atomic import canonical_json
from mlm.report_data import Results, RunResults
from mlm.report_words import (
    against,
    count,
    decimal,
    digest_rows,
    percent,
    settings_rows,
    source_in_words,
    verdicts,
    what_was_trained,
)
from mlm.run_comparison import (
    best_run,
    comparable,
    flattened,
    seed_groups,
    standings,
)
from mlm.shown_samples import prediction_pieces, preview_pieces

SPLITS = ("train", "validation", "test")


@dataclass(frozen=True)
class Section:
    """A section's heading and the function that gives what its template shows."""

    title: str
    view: Callable[[Results], dict | None]


def summary(results: Results) -> dict:
    """Headline figures of the best run, each beside the baselines, and the verdicts."""
    best = best_run(results.runs)
    test, train = best.evaluation.content["test"], best.evaluation.content.get("train")
    baselines = best.evaluation.content["baselines"]
    interval = test.get("loss_interval")
    cards = [
        {
            "label": "Test loss",
            "value": decimal(test.get("loss"), 3),
            "unit": "nats",
            "note": f"95 % interval {decimal(interval[0], 3)} to {decimal(interval[1], 3)}"
            if interval
            else "",
        },
        {
            "label": "Perplexity",
            "value": decimal(test.get("perplexity"), 1),
            "note": "the same as an even choice among that many tokens",
        },
        {
            "label": "Right guesses",
            "value": percent(test.get("accuracy")),
            "note": f"among the first five: {percent(test.get('top5_accuracy'))}",
        },
        {
            "label": "Bits per character",
            "value": decimal(test.get("bits_per_character"), 3),
            "note": "compares across tokenizers",
        },
    ]
    confidence = results.config.get("evaluation", {}).get("bootstrap", {}).get("confidence", 0.95)
    if interval:
        cards[0]["note"] = cards[0]["note"].replace("95 %", f"{confidence * 100:g} %")
    comparisons = [against(test, baselines.get(kind), kind) for kind in ("unigram", "bigram")]
    gap = None
    if train and train.get("loss") is not None and test.get("loss") is not None:
        gap = {
            "train": decimal(train["loss"], 3),
            "test": decimal(test["loss"], 3),
            "difference": f"{test['loss'] - train['loss']:+.3f}".replace("-", "−"),
        }
    return {
        "sentences": what_was_trained(results, best),
        "best": best.name,
        "several": len(results.runs) > 1,
        "cards": cards,
        "comparisons": [c for c in comparisons if c],
        "gap": gap,
        "verdicts": verdicts(results.runs),
    }


def pipeline(results: Results) -> dict:
    """The stages from left to right, each with what it made, and the section that shows it."""
    steps: list[dict] = []

    def stage(name: str, section: str, *lines: str) -> None:
        link = section if section in results.sections else None
        steps.append({"name": name, "section": link, "lines": [x for x in lines if x]})

    if results.corpus:
        documents = sum(a.content["documents"] for a in results.corpus.values())
        stage("Corpus", "corpus", f"{count(documents)} documents", "split, filtered, deduplicated")
    if results.tokenizer:
        tokenizer = results.tokenizer.content
        stage(
            "Tokenizer",
            "tokenizer",
            str(tokenizer["kind"]),
            f"{count(tokenizer['vocabulary_size'])} tokens",
        )
    manifests = [a.content for a in results.manifests.values()]
    stage(
        "Shards",
        "shards",
        f"{count(sum(len(m['shards']) for m in manifests))} files",
        f"{count(sum(m['num_tokens'] for m in manifests))} tokens",
    )
    runs = results.runs
    for extra, title in (("preflight", "Preflight"),):
        if any(extra in r.extras for r in runs):
            stage(title, extra, "compiled ahead")
    steps_taken = sorted({r.training.content["steps"] for r in runs})
    stage(
        "Pretraining",
        "training",
        _plural(len(runs), "run"),
        " to ".join(dict.fromkeys([count(steps_taken[0]), count(steps_taken[-1])])) + " steps",
    )
    predictions = best_run(runs).evaluation.content["test"].get("num_predictions")
    stage("Evaluation", "evaluation", "fixed masks", f"{count(predictions)} predictions")
    prompts = best_run(runs).fill_mask.content["prompts"]
    stage("Fill-mask", "fill_mask", _plural(len(prompts), "prompt"))
    if any("finetune" in r.extras for r in runs):
        stage("Fine-tuning", "finetune")
    stage("Report", "provenance", "this page")
    return {"stages": steps}


def _plural(number: int, noun: str) -> str:
    return f"{count(number)} {noun}{'' if number == 1 else 's'}"


def corpus(results: Results) -> dict | None:
    """Documents, size and what the filters removed, by split."""
    if not results.corpus:
        return None
    rows = []
    whole = sum(a.content["documents"] for a in results.corpus.values()) or 1
    removed: list[str] = []
    for split, artefact in results.corpus.items():
        content = artefact.content
        filters = content.get("filters") or {}
        removed += [k for k in filters if k not in removed and k not in ("read", "kept")]
        encoding = content.get("encoding") or {}
        rows.append(
            {
                "split": split,
                "share": content["documents"] / whole,
                "documents": content["documents"],
                "words": content.get("words"),
                "characters": content.get("characters"),
                "bytes": content["bytes"],
                "filters": filters,
                "replaced": encoding.get("replaced_bytes"),
                "nul": encoding.get("nul_bytes"),
            }
        )
    source = next(iter(results.corpus.values())).content["source"]
    return {
        "rows": rows,
        "removed": removed,
        "source": source_in_words(source),
        "details": flattened(source) if isinstance(source, dict) else {},
    }


def tokenizer(results: Results) -> dict | None:
    """Kind and size of the tokenizer, and how well it fits each split."""
    if results.tokenizer is None:
        return None
    content = results.tokenizer.content
    rows = [{"split": s, **content["splits"][s]} for s in SPLITS if s in content["splits"]]
    return {
        "content": content,
        "rows": rows,
        "special": (results.config.get("tokenizer") or {}).get("special_tokens") or {},
    }


def shards(results: Results) -> dict:
    """Samples, tokens and padding by split, and each shard's digest."""
    rows = [{"split": split, **artefact.content} for split, artefact in results.manifests.items()]
    return {"rows": rows}


def preview(results: Results) -> dict | None:
    """Masked samples. Runs that show the same ones are put together."""
    special = _special_tokens(results)
    groups: list[dict] = []
    for run in results.runs:
        samples = [preview_pieces(s, special) for s in run.preview.content["samples"]]
        same = next((g for g in groups if g["samples"] == samples), None)
        if same:
            same["runs"].append(run.name)
        elif samples:
            groups.append({"runs": [run.name], "samples": samples})
    return {"groups": groups} if groups else None


def _special_tokens(results: Results) -> dict[str, str]:
    return (results.config.get("tokenizer") or {}).get("special_tokens") or {}


def training(results: Results) -> dict:
    """Curves of every run, and the settings that were in force."""
    return {
        "runs": results.runs,
        "settings": settings_rows(results.runs),
        "figures": ["training_loss", "training_accuracy", "learning_rate"],
        "overflow": [
            (r.name, r.training.content["overflow"])
            for r in results.runs
            if r.training.content.get("overflow")
        ],
    }


def runs(results: Results) -> dict:
    """The table of runs and, where several differ in the seed alone, mean and spread."""
    by_name = {run.name: run for run in results.runs}
    rows = []
    for standing in standings(results.runs):
        run = by_name[standing.run]
        evaluation = run.evaluation.content
        calibration = evaluation.get("calibration") or {}
        rows.append(
            {
                "standing": standing,
                "test": evaluation["test"],
                "training": run.training.content,
                "calibration": calibration.get("expected_calibration_error"),
                "overrides": flattened(run.overrides),
            }
        )
    return {
        "rows": rows,
        "reasons": comparable(results.runs),
        "several": len(rows) > 1,
        "groups": seed_groups(results.runs, results.config.get("seed", 0)),
    }


def evaluation(results: Results) -> dict:
    """Test metrics beside the baselines, and where the model is good and bad."""
    rows = []
    for run in results.runs:
        content = run.evaluation.content
        rows.append((run.name, "model", content["test"]))
        rows += [
            (run.name, f"{kind} baseline", content["baselines"][kind])
            for kind in ("bigram", "unigram")
            if content["baselines"].get(kind)
        ]
        if content.get("train"):
            rows.append((run.name, "model, on train", content["train"]))
    initial = [
        (run.name, run.evaluation.content["word_initial"])
        for run in results.runs
        if run.evaluation.content.get("word_initial")
    ]
    pairs = [
        (run.name, run.evaluation.content["minimal_pairs"])
        for run in results.runs
        if run.evaluation.content.get("minimal_pairs")
    ]
    return {
        "rows": rows,
        "initial": initial,
        "pairs": pairs,
        "figures": ["test_loss", "test_accuracy", "frequency_bands", "positions", "calibration"],
    }


def fill_mask(results: Results) -> dict | None:
    """Each prompt's answers, a column a run."""
    prompts: dict[str, dict[str, list]] = {}
    for run in results.runs:
        for prompt in run.fill_mask.content["prompts"]:
            prompts.setdefault(prompt["prompt"], {})[run.name] = prompt["answers"]
    mask = _special_tokens(results).get("mask", "[MASK]")
    return (
        {"prompts": prompts, "runs": [r.name for r in results.runs], "mask": mask}
        if prompts
        else None
    )


def samples(results: Results) -> dict | None:
    """The best and the worst predicted samples of each run."""
    special = _special_tokens(results)

    def shown(run: RunResults, which: str) -> list:
        found = (run.evaluation.content.get("samples") or {}).get(which) or []
        return [prediction_pieces(s, special) for s in found]

    groups = [
        {"run": r.name, "best": shown(r, "best"), "worst": shown(r, "worst")} for r in results.runs
    ]
    groups = [g for g in groups if g["best"] or g["worst"]]
    return {"groups": groups} if groups else None


def provenance(results: Results) -> dict:
    """Digests of every artefact, the configuration, package versions, how to reproduce."""
    packages: dict[str, dict[str, str]] = {}
    for run in results.runs:
        for package, version in (run.training.content.get("packages") or {}).items():
            packages.setdefault(package, {})[run.name] = version
    return {
        "artefacts": digest_rows(results),
        "config": canonical_json(results.config),
        "code": results.code,
        "packages": {p: sorted(set(v.values())) for p, v in sorted(packages.items())},
    }


def extra(stage: str) -> Callable[[Results], dict | None]:
    """The view of a stage that runs only when asked: all its figures in one table."""

    def view(results: Results) -> dict | None:
        found = [r for r in results.runs if stage in r.extras]
        tables = {r.name: flattened(r.extras[stage].content) for r in found}
        keys = list(dict.fromkeys(k for t in tables.values() for k in t))
        keys = [k for k in keys if k not in ("format_version", "run")]
        return {"tables": tables, "keys": keys} if tables else None

    return view


def cost(results: Results) -> dict | None:
    """Time and memory of each job, where they were asked for."""
    if not results.cost:
        return None
    return {"rows": results.cost, "seconds": sum(r["seconds"] or 0 for r in results.cost)}


SECTIONS = {
    "summary": Section("Summary", summary),
    "pipeline": Section("From text to report", pipeline),
    "corpus": Section("Corpus", corpus),
    "tokenizer": Section("Tokenizer", tokenizer),
    "shards": Section("Shards", shards),
    "preflight": Section("Preflight", extra("preflight")),
    "preview": Section("What the model is shown", preview),
    "training": Section("Training", training),
    "runs": Section("Runs compared", runs),
    "evaluation": Section("Evaluation", evaluation),
    "fill_mask": Section("Fill in the mask", fill_mask),
    "samples": Section("Best and worst samples", samples),
    "finetune": Section("Fine-tuning", extra("finetune")),
    "cost": Section("Cost", cost),
    "provenance": Section("Provenance", provenance),
}
