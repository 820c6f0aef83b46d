"""Results for tests of the report, read from synthetic artefacts, and the files made of them."""

import tempfile
from dataclasses import replace
from functools import cache
from pathlib import Path

import report_artefacts as made

from mlm.config.overlays import resolve
from mlm.corpus.artefacts import NearDuplicate, NearDuplicatesOfSplit, TakenByRule
from mlm.evaluation.artefacts import FilledToken, Verdict
from mlm.report.page import render, write_report
from mlm.report.plots import figures
from mlm.report.report_inputs import Results, read_run, read_shared
from mlm.report.wording import FIGURES


def results_in(root: Path, runs: dict | None = None, losses: dict | None = None, **artefacts):
    """Results read from synthetic artefacts below `root`; `artefacts` go into every run."""
    runs = {"base": {}} if runs is None else runs
    data = made.write_data(root)
    settings = resolve({"runs": runs})
    return Results(
        title=settings.report.title,
        config=settings.shown(),
        code=made.sha("report"),
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


def page_of(results: Results) -> str:
    return render(results, drawn_once())


def written(results: Results, folder: Path) -> dict[str, bytes]:
    drawings = {name: str(folder / "figures" / f"{name}.svg") for name in FIGURES}
    page, numbers = folder / "report.html", folder / "report.json"
    write_report(results, str(page), str(numbers), drawings)
    return {p.relative_to(folder).as_posix(): p.read_bytes() for p in folder.rglob("*.*")}


HOSTILE = [
    "<script>alert(1)</script>",
    "</style><style>body{display:none}</style>",
    "\u202egnihtemos\u202c",
    "<img src=x onerror=alert(1)>",
    "{{ 7*7 }}",
    "a\x00b\x1bc",
    "W" * 2_000,
    '"><svg onload=alert(1)>',
]


#: Words that no line may break, from right to left and without spaces between them, and long ones.
WORLDWIDE = [
    "مراجعة الاستراتيجيات الاقتصادية للمستثمرين في المستقبل القريب",
    "吾輩は猫である。名前はまだ無い。どこで生れたかとんと見当がつかぬ。",
    "Donaudampfschifffahrtsgesellschaft internationalisation",
    "الحكومة 2026 Government 政府",
]


def hostile(root: Path) -> Results:
    return with_texts(root, HOSTILE)


def with_texts(root: Path, texts: list[str]) -> Results:
    """Results that show each of `texts` wherever the page shows text of a user."""
    text = " ".join(texts)
    prompts = [f"{h} [MASK]" for h in texts]
    filled = made.fill_mask("base", prompts)
    answers = [FilledToken(token=h, sequence=h, score=0.1) for h in texts]
    first, *others = filled.prompts
    filled = replace(filled, prompts=[replace(first, answers=answers), *others])
    evaluated = made.evaluation("base")
    of_group = replace(evaluated.by_group.groups[0], name=text)
    evaluated = replace(
        evaluated,
        by_group=replace(evaluated.by_group, groups=[of_group]),
        verdicts=[Verdict("plain", one) for one in texts],
        minimal_pairs=made.minimal_pairs(text),
    )
    results = results_in(root)
    taken = {"quality.min_words": TakenByRule(len(texts), 9, tuple(texts))}
    near = NearDuplicatesOfSplit(
        clusters=1, samples=tuple(NearDuplicate(text, text, "test") for text in texts)
    )
    counts = {"near_duplicate": 0, "near_leaked": len(texts)}
    corpus = {
        split: replace(found, rules=taken, near_duplicates=near, filters=found.filters | counts)
        for split, found in results.corpus.items()
    }
    run = replace(
        results.runs[0],
        fill_mask=filled,
        evaluation=evaluated,
        preview=made.preview("base", dict(enumerate(texts))),
    )
    return replace(
        results, runs=[run], corpus=corpus, title=text, config=results.config | {"title": text}
    )
