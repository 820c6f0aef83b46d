"""Results for tests of the report, read from synthetic artefacts, and the files made of them."""

import tempfile
from dataclasses import replace
from functools import cache
from pathlib import Path

import report_artefacts as made

from mlm.config.resolution import resolve
from mlm.corpus.artefacts import Cluster, NearDuplicate, NearDuplicatesOfSplit, TakenByRule
from mlm.evaluation.artefacts import (
    Answer,
    Guess,
    MinimalPairs,
    PredictedToken,
    ScoredPair,
    Verdict,
)
from mlm.report.figure_titles import FIGURES
from mlm.report.page import write_report
from mlm.report.plots import figures
from mlm.report.report_inputs import Results, read_run, read_shared

ROOT = Path(__file__).resolve().parents[2]


def results_in(root: Path, runs: dict | None = None, losses: dict | None = None, **artefacts):
    """Results read from synthetic artefacts below `root`; `artefacts` go into every run."""
    runs = {"base": {}} if runs is None else runs
    data = made.write_data(root)
    config = resolve({"runs": runs})
    return Results(
        title=config["report"]["title"],
        sections=config["report"]["sections"],
        config=config,
        code={"corpus": made.sha("corpus"), "report": made.sha("report")},
        **read_shared(data),
        runs=[
            read_run(
                name,
                overrides,
                made.write_run(root, name, (losses or {}).get(name, 4.9), **artefacts),
            )
            for name, overrides in runs.items()
        ],
    )


@cache
def drawn_once() -> dict:
    """The figures of one run: drawing them anew would tell most tests nothing."""
    with tempfile.TemporaryDirectory() as folder:
        return figures(results_in(Path(folder)))


def written(results: Results, folder: Path) -> dict[str, bytes]:
    """Every file of the report by name."""
    drawings = {name: str(folder / "figures" / f"{name}.svg") for name in FIGURES}
    page, numbers = folder / "report.html", folder / "report.json"
    write_report(results, ROOT / "report", str(page), str(numbers), drawings)
    return {p.relative_to(folder).as_posix(): p.read_bytes() for p in folder.rglob("*.*")}


HOSTILE = [
    "<script>alert(1)</script>",
    "</style><style>body{display:none}</style>",
    "\u202egnihtemos\u202c",
    "<img src=x onerror=alert(1)>",
    "{{ 7*7 }}",
    "\ud800",
    "a\x00b\x1bc",
    "W" * 20_000,
    '"><svg onload=alert(1)>',
]


def hostile(root: Path) -> Results:
    """Results on a corpus, prompts, answers and a title that mean harm."""
    text = " ".join(HOSTILE)
    prompts = [f"{h} [MASK]" for h in HOSTILE]
    filled = made.fill_mask("base", prompts)
    answers = [Answer(token=h, sequence=h, score=0.1) for h in HOSTILE]
    first, *others = filled.prompts
    filled = replace(filled, prompts=[replace(first, answers=answers), *others])
    evaluated = made.evaluation("base")
    tokens = [PredictedToken(h, True, Guess(h, 0.5, False)) for h in HOSTILE]
    best = [replace(sample, tokens=tokens) for sample in evaluated.samples.best]
    evaluated = replace(
        evaluated,
        samples=replace(evaluated.samples, best=best),
        verdicts=[Verdict("plain", text) for text in HOSTILE],
        minimal_pairs=MinimalPairs(1.0, [ScoredPair(text, text, (-1, -2), True)]),
    )
    results = results_in(root)
    taken = {"quality.min_words": TakenByRule(len(HOSTILE), 9, tuple(HOSTILE))}
    near = NearDuplicatesOfSplit(
        clusters=1,
        largest=(Cluster(len(HOSTILE), HOSTILE[0], "test", tuple(HOSTILE)),),
        samples=tuple(NearDuplicate(text, text, "test") for text in HOSTILE),
    )
    counts = {"near_duplicate": 0, "near_leaked": len(HOSTILE)}
    corpus = {
        split: replace(found, rules=taken, near_duplicates=near, filters=found.filters | counts)
        for split, found in results.corpus.items()
    }
    run = replace(
        results.runs[0],
        fill_mask=filled,
        evaluation=evaluated,
        preview=made.preview("base", dict(enumerate(HOSTILE))),
        asked=made.asked("base", text),
    )
    return replace(
        results, runs=[run], corpus=corpus, title=text, config=results.config | {"title": text}
    )
