"""Matplotlib figures as SVG text that follows the page's colours, light or dark.

A figure is drawn with stand-in colours; each becomes a CSS variable with a fallback, so that
the same SVG looks right in the report, in a browser of its own and in Snakemake's report.
"""

import io
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import matplotlib

matplotlib.use("svg")
import matplotlib.pyplot as plt
from markupsafe import escape
from matplotlib.figure import Figure as MatplotlibFigure

from mlm.report.glossary import FIGURES, FINETUNING_FIGURES
from mlm.report.visible_text import plain

#: Stand-in colour -> (CSS variable, colour where the variable is not set).
INK, MUTED, GRID, BASELINE = "#010101", "#020202", "#030303", "#040404"
ROLES = {
    INK: ("--ink", "#1b1f24"),
    MUTED: ("--muted", "#57606a"),
    GRID: ("--line", "#d5d9de"),
    BASELINE: ("--baseline", "#a8b0b9"),
}
#: Colours of the runs, in order: told apart with the common colour deficiencies, after
#: Okabe and Ito (2008), darkened to a contrast of 3:1 on white.
SERIES = ("#0969b0", "#b84a00", "#00785a", "#a3407f", "#8a6d00", "#3d7ea6", "#6b4fbb", "#5c5c5c")
_STAND_INS = {f"#0500{i:02x}": (f"--series-{i}", colour) for i, colour in enumerate(SERIES)}
_LINES = "stroke-linejoin: round; stroke-linecap: butt"
DASHES = ("-", (0, (6, 2)), (0, (2, 1.5)), (0, (6, 2, 1, 2)))

#: In inches, and of a legend.
_WIDTH, _COLUMNS = 5.0, 2

_STYLE = Path(__file__).parents[3] / "report" / "figures.mplstyle"


@dataclass(frozen=True)
class Figure:
    """One figure: its heading, the entry of the glossary for what it shows, the same in words, and
    a whole `<svg>` element."""

    title: str
    term: str
    alternative: str
    svg: str


def series_colour(index: int) -> str:
    """The stand-in colour of the `index`-th run."""
    return f"#0500{index % len(SERIES):02x}"


def series_look(index: int) -> dict:
    """Colour and line style of the `index`-th run: dashes once the colours begin again."""
    dashes = DASHES[(index // len(SERIES)) % len(DASHES)]
    return {"color": series_colour(index), "linestyle": dashes}


def short_label(name: str, longest: int = 30) -> str:
    """A run's name for a legend or an axis, without its middle if it is too long."""
    label, end = plain(name), longest // 3
    return label if len(label) <= longest else f"{label[: longest - end - 1]}…{label[-end:]}"


@contextmanager
def drawing(height: float = 3.3) -> Iterator[tuple[MatplotlibFigure, plt.Axes]]:
    """A figure of _WIDTH by `height` inches and its axes, in the report's style."""
    with matplotlib.rc_context(fname=_STYLE):
        figure, axes = plt.subplots(figsize=(_WIDTH, height), layout="constrained")
        try:
            yield figure, axes
        finally:
            plt.close(figure)


def legend_below(figure: MatplotlibFigure) -> None:
    """One legend under the axes, in as many columns as fit; the figure grows by its height, so that
    the plot does not shrink."""
    labels = [t for axes in figure.axes for t in axes.get_legend_handles_labels()[1]]
    look = {"loc": "outside lower left", "handlelength": 2.6, "columnspacing": 1.6}
    for columns in range(_COLUMNS if labels else 0, 0, -1):
        legend = figure.legend(ncols=columns, **look)
        if columns == 1 or legend.get_window_extent().width <= figure.bbox.width:
            figure.set_figheight(figure.get_figheight() + 0.21 * -(-len(labels) // columns))
            return
        legend.remove()


def themed(figure: MatplotlibFigure, name: str, alternative: str) -> Figure:
    """`figure` as the Figure `name`, whose SVG has the same bytes each time and ids of its own."""
    buffer = io.StringIO()
    figure.savefig(buffer, format="svg", metadata={"Date": None, "Creator": None})
    svg = buffer.getvalue()
    svg = svg[svg.index("<svg") :]
    svg = re.sub(r"\s*<metadata>.*?</metadata>", "", svg, flags=re.DOTALL)
    # A style sheet inside an SVG would hold for the whole page.
    svg = re.sub(r"\s*<defs>\s*<style.*?</style>\s*</defs>", "", svg, count=1, flags=re.DOTALL)
    svg = re.sub(r"<!--.*?-->\s*", "", svg, flags=re.DOTALL)
    svg = re.sub(r'\bid="', f'id="{name}-', svg)
    svg = re.sub(r"url\(#", f"url(#{name}-", svg)
    svg = re.sub(r'href="#', f'href="#{name}-', svg)
    svg = svg.replace("'DejaVu Sans'", "system-ui, 'DejaVu Sans', sans-serif")
    for stand_in, (variable, colour) in (ROLES | _STAND_INS).items():
        svg = svg.replace(stand_in, f"var({variable}, {colour})")
    words = f'style="{_LINES}" role="img" aria-labelledby="{name}-words"'
    label = f'<title id="{name}-words">{escape(plain(alternative))}</title>'
    head, rest = svg.split(">", 1)
    head = re.sub(r'\s(width|height)="[^"]*pt"', "", head)
    known = (FIGURES | FINETUNING_FIGURES)[name]
    svg = f"{head} {words}>\n {label}{rest.rstrip()}\n"
    return Figure(known.heading, known.term, alternative, svg)
