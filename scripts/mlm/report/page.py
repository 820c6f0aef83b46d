"""The report: one HTML file for people, one JSON file for machines, and its figures."""

from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import yaml
from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from mlm.foundations.artefacts import as_json, write_artefact
from mlm.foundations.atomic import write_text
from mlm.foundations.terminal import plural
from mlm.report import template_filters
from mlm.report.other_runs import OTHER_FILES
from mlm.report.plots import Figure, figures
from mlm.report.report_inputs import Results
from mlm.report.run_comparison import best_run, flattened, seed_groups, standings
from mlm.report.sections import SECTIONS
from mlm.report.visible_text import breakable, pieces_of, plain, visible

#: The version of report.json's format.
FORMAT_VERSION = 4

_TEMPLATES = Path(__file__).parents[3] / "report"


def write_report(results: Results, page: str, numbers: str, drawings: Mapping[str, str]) -> None:
    """Write the page, the numbers, and each figure of `drawings` (name -> path).

    The bytes depend on `results` and the templates alone.
    """
    drawn = figures(results)
    for name, path in drawings.items():
        # A file of its own says what it is, and in which encoding.
        write_text(path, f'<?xml version="1.0" encoding="utf-8"?>\n{drawn[name].svg}')
    write_artefact(numbers, numbers_of(results))
    write_text(page, render(results, drawn))


def render(results: Results, drawn: Mapping[str, Figure]) -> str:
    """The page as HTML text.

    Every template has `results`, its `best` run, the texts of the `special` tokens by name, and the
    `most` items of a list to show.
    """
    sections = [
        {"name": name, "title": title, "view": view}
        for name, (title, show) in SECTIONS.items()
        if (view := show(results)) is not None
    ]
    environment = Environment(
        loader=FileSystemLoader(_TEMPLATES, encoding="utf-8"),
        autoescape=True,
        # The net below the filters: no text shows a control character as itself.
        finalize=lambda text: plain(text) if type(text) is str else text,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    names = ("count", "decimal", "percent", "rate", "size", "short", "value")
    environment.filters |= {name: getattr(template_filters, name) for name in names}
    environment.filters |= {f.__name__: f for f in (flattened, visible, breakable, plain, plural)}
    environment.filters["pieces"] = pieces_of
    environment.filters["svg"] = lambda figure: Markup(figure.svg)
    environment.tests["linked_in"] = lambda term, page: f'"#term-{term}"' in page
    glossary = yaml.safe_load((_TEMPLATES / "glossary.yaml").read_text(encoding="utf-8"))
    return environment.get_template("page.html.j2").render(
        title=results.title,
        sections=sections,
        figures=drawn,
        results=results,
        best=best_run(results.runs),
        special=results.config["tokenizer"]["special_tokens"],
        most=template_filters.MOST_SHOWN,
        style=Markup((_TEMPLATES / "style.css").read_text(encoding="utf-8")),
        glossary=dict(sorted(glossary.items(), key=lambda entry: entry[1][0].lower())),
    )


def numbers_of(results: Results) -> dict[str, Any]:
    """All numbers of the report for machines, see `format_version`.

    `runs` has the training, evaluation and fill-mask artefacts of each run and its curves (one
    list a column); `also` runs of other directories; `comparison` the best run, the differences,
    and the groups of seeds.
    """
    return {
        "format_version": FORMAT_VERSION,
        "title": results.title,
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
                **{stage: as_json(made) for stage, made in run.artefacts() if stage != "preview"},
            }
            for run in results.runs
        },
        "also": {
            other.name: {stage: as_json(getattr(other, stage)) for stage in OTHER_FILES}
            for other in results.also
        },
        "comparison": {
            "best": best_run(results.runs).name,
            "standings": [asdict(s) for s in standings(results.runs, results.also)],
            "seeds": [asdict(g) for g in seed_groups(results.runs, results.config["seed"])],
        },
        "artefacts": results.digests_of_files(),
        "code": results.code_of_stages(),
        "config": results.config,
    }
