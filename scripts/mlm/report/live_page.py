"""The page of a training that is under way, from what its process told last."""

import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from markupsafe import Markup

from mlm.foundations.atomic import read_json, write_text
from mlm.report.page import TEMPLATES, environment_of
from mlm.report.plots import training_curve

#: Seconds after which a browser opens the page again.
REFRESH = 15


@dataclass(frozen=True)
class CurvesSoFar:
    """A run as far as the training's curves go: name and rows of its log."""

    name: str
    curves: list[dict[str, float | None]]


def write_live_page(snapshot: Path, page: Path, templates: Path = TEMPLATES) -> None:
    """Write `page` from the JSON file `snapshot`, with the time of day: it is no result."""
    told = read_json(snapshot)
    write_text(page, live_page(told, time.strftime("%H:%M:%S"), templates))


def live_page(told: dict[str, Any], written: str, templates: Path = TEMPLATES) -> str:
    """The page as HTML text: what `mlm.training.live` has `told`, and when it was `written`."""
    runs = [CurvesSoFar(told["run"], told["rows"])]
    figures = {
        "training_loss": training_curve(runs, "loss", "nats per masked token"),
        "training_accuracy": training_curve(runs, "accuracy", "accuracy"),
    }
    validated = [row for row in told["rows"] if row["validation_loss"] is not None]
    paced = [row for row in told["rows"] if row["tokens_per_second"] is not None]
    return (
        environment_of(templates)
        .get_template("live.html.j2")
        .render(
            **told,
            figures=figures,
            last=told["rows"][-1],
            validated=validated[-1] if validated else None,
            speed=paced[-1]["tokens_per_second"] if paced else None,
            written=written,
            refresh=REFRESH,
            style=Markup((templates / "style.css").read_text(encoding="utf-8")),
        )
    )
