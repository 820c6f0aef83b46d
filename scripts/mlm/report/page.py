"""The report: one HTML file for people, one JSON file for machines, and its figures."""

from collections.abc import Mapping
from dataclasses import asdict
from inspect import getmembers, isfunction
from pathlib import Path
from typing import Any

import yaml
from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from mlm.evaluation.artefacts import BASELINES, METRICS
from mlm.evaluation.verdicts import on_overlap
from mlm.finetuning.score_comparison import NAMES, name_of
from mlm.foundations.artefacts import as_json, write_artefact
from mlm.foundations.atomic import canonical_json, write_text
from mlm.foundations.terminal import in_bytes, plural, signed
from mlm.preflight.artefacts import cells
from mlm.report import run_comparison, wording
from mlm.report.headline import answer
from mlm.report.plots import figures
from mlm.report.report_inputs import OF_OTHER_RUNS, Results
from mlm.report.wording import FIGURES, plain

#: The version of report.json's format.
FORMAT_VERSION = 5
_TEMPLATES = Path(__file__).parents[3] / "report"
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
#: What templates call, as functions or filters: all functions of some modules, and these.
_MODULES = (run_comparison, wording)
_FUNCTIONS = {
    *(as_json, canonical_json, cells, in_bytes, name_of, on_overlap, plural, signed),
    *(f for m in _MODULES for _, f in getmembers(m, isfunction) if f.__module__ == m.__name__),
}


def write_report(results: Results, page: str, numbers: str, drawings: Mapping[str, str]) -> None:
    """Write the page, the numbers, and each figure of `drawings` (name -> path).

    The bytes depend on `results` and the templates alone.
    """
    drawn = figures(results)
    for name, path in drawings.items():
        # A file of its own says what it is, and in which encoding.
        write_text(path, f'<?xml version="1.0" encoding="utf-8"?>\n{drawn[name]}')
    write_artefact(numbers, numbers_of(results))
    write_text(page, render(results, drawn))


def render(results: Results, drawn: Mapping[str, str]) -> str:
    """The page as HTML text.

    Every template has `results`, the `answer` on them, the `figures` as SVG, the texts of
    the `special` tokens by name, and the `most` items of a list to show.
    """
    environment = Environment(
        loader=FileSystemLoader(_TEMPLATES, encoding="utf-8"),
        autoescape=True,
        # The net below the filters: no text shows a control character as itself.
        finalize=lambda text: plain(text) if type(text) is str else text,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    functions = {function.__name__: function for function in _FUNCTIONS}
    environment.filters |= functions
    environment.tests["linked_in"] = lambda term, page: f'"#term-{term}"' in page
    environment.globals |= functions | {
        "results": results,
        "answer": answer(results),
        "figures": drawn,
        "figure_names": FIGURES,
        "metrics": METRICS,
        "baselines": BASELINES,
        "model_names": [*NAMES],
        "special": results.config["tokenizer"]["special_tokens"],
        "most": wording.MOST_SHOWN,
    }
    bodies = {
        name: Markup(environment.get_template(f"sections/{name}.html.j2").render())
        for name in SECTIONS
    }
    glossary = yaml.safe_load((_TEMPLATES / "glossary.yaml").read_text(encoding="utf-8"))
    return environment.get_template("page.html.j2").render(
        sections=[(n, t, bodies[n]) for n, t in SECTIONS.items() if bodies[n].strip()],
        style=Markup((_TEMPLATES / "style.css").read_text(encoding="utf-8")),
        glossary=dict(sorted(glossary.items(), key=lambda entry: entry[1][0].lower())),
    )


def numbers_of(results: Results) -> dict[str, Any]:
    """All numbers of the report for machines, see `format_version`.

    `answer` is what the page opens with, and its `line` ends a run at the terminal; `runs` has the
    artefacts of each run, without its samples, and its curves (a list per column); `also` runs of
    other directories; `comparison` the best run, the differences, and the groups of seeds.
    """
    answered = answer(results)
    return {
        "format_version": FORMAT_VERSION,
        "title": results.title,
        "answer": asdict(answered) | {"line": str(answered)},
        "corpus": as_json(results.corpus),
        "tokenizer": as_json(results.tokenizer),
        "manifests": as_json(results.manifests),
        "runs": {
            run.name: {
                "overrides": run.overrides,
                "curves": {
                    column: [row[column] for row in run.curves]
                    for column in (run.curves[0] if run.curves else ())
                },
                **{s: as_json(made) for s, made in run.artefacts().items() if s != "preview"},
            }
            for run in results.runs
        },
        "also": {
            other.name: {stage: as_json(getattr(other, stage)) for stage in OF_OTHER_RUNS}
            for other in results.also
        },
        "comparison": {
            "best": run_comparison.best_run(results).name,
            "standings": [asdict(s) for s in run_comparison.standings(results)],
            "seeds": [asdict(g) for g in run_comparison.seed_groups(results)],
        },
        "artefacts": results.digests_of_files(),
        "code": results.code_of_stages(),
        "config": results.config,
    }
