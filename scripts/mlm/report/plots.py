"""The report's figures, drawn with matplotlib from the results of the runs.

A function draws on its axes and returns what the figure shows, in words. A figure is drawn with
stand-in colours; each becomes a CSS variable with a fallback, so that the same SVG looks right in
the report, light or dark, in a browser of its own and in Snakemake's report.
"""

import io
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import matplotlib
import matplotlib.pyplot as plt
from markupsafe import escape
from matplotlib.axes import Axes
from matplotlib.figure import Figure as MatplotlibFigure
from matplotlib.ticker import MaxNLocator, PercentFormatter

from mlm.evaluation.artefacts import BASELINES, Interval
from mlm.report.report_inputs import Results, RunResults
from mlm.report.run_comparison import best_run
from mlm.report.wording import plain

matplotlib.use("svg")

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
#: Marks at the edge of the axes are whole.
_MARKED: dict[str, Any] = {"marker": "o", "markersize": 4.5, "linewidth": 1.6, "clip_on": False}
#: In inches, and of a legend.
_SIZE, _COLUMNS = (5.0, 3.3), 2
_STYLE = Path(__file__).parents[3] / "report" / "figures.mplstyle"


def series_colour(index: int) -> str:
    """The stand-in colour of the `index`-th run."""
    return f"#0500{index % len(SERIES):02x}"


def series_look(index: int) -> dict[str, Any]:
    """Colour and line style of the `index`-th run: dashes once the colours begin again."""
    dashes = DASHES[(index // len(SERIES)) % len(DASHES)]
    return {"color": series_colour(index), "linestyle": dashes}


def short_label(name: str, longest: int = 30) -> str:
    """A run's name for a legend or an axis, without its middle if it is too long."""
    label, end = plain(name), longest // 3
    return label if len(label) <= longest else f"{label[: longest - end - 1]}…{label[-end:]}"


Runs = Sequence[RunResults]


def figures(results: Results) -> dict[str, str]:
    """All figures by name, as whole `<svg>` elements."""
    runs, best = results.runs, best_run(results)
    look = series_look(runs.index(best)) | _MARKED
    drawn: dict[str, tuple] = {
        "training_loss": (_training_curve, runs, "loss"),
        "training_accuracy": (_training_curve, runs, "accuracy"),
        "test_loss": (_bars, _bars_of(runs, best, "loss"), "loss"),
        "test_accuracy": (_bars, _bars_of(runs, best, "accuracy"), "accuracy"),
        "frequency_bands": (_frequency_bands, best, look),
    }
    return {name: _svg(name, *on_axes) for name, on_axes in drawn.items()}


def _svg(name: str, draw: Callable[..., str], *data) -> str:
    """The figure that `draw(axes, *data)` makes, with the same bytes each time and ids of its own;
    what it returns is the figure in words."""
    buffer = io.StringIO()
    with matplotlib.rc_context(fname=_STYLE):
        figure, axes = plt.subplots(figsize=_SIZE, layout="constrained")
        words = draw(axes, *data)
        _legend_below(figure)
        figure.savefig(buffer, format="svg", metadata={"Date": None, "Creator": None})
        plt.close(figure)
    svg = buffer.getvalue()
    svg = svg[svg.index("<svg") :]
    # A style sheet inside an SVG would hold for the whole page.
    beside = r"\s*<metadata>.*?</metadata>|\s*<defs>\s*<style.*?</style>\s*</defs>|<!--.*?-->\s*"
    svg = re.sub(beside, "", svg, flags=re.DOTALL)
    svg = re.sub(r'(\bid="|url\(#|href="#)', rf"\g<1>{name}-", svg)
    svg = svg.replace("'DejaVu Sans'", "system-ui, 'DejaVu Sans', sans-serif")
    for stand_in, (variable, colour) in (ROLES | _STAND_INS).items():
        svg = svg.replace(stand_in, f"var({variable}, {colour})")
    head, rest = svg.split(">", 1)
    head = re.sub(r'\s(width|height)="[^"]*pt"', "", head)
    head += f' style="{_LINES}" role="img" aria-labelledby="{name}-words"'
    title = f'<title id="{name}-words">{escape(plain(words))}</title>'
    return f"{head}>\n {title}{rest.rstrip()}\n"


def _legend_below(figure: MatplotlibFigure) -> None:
    """One legend under the axes, by whose height the figure grows."""
    labels = [t for axes in figure.axes for t in axes.get_legend_handles_labels()[1]]
    look = {"loc": "outside lower left", "handlelength": 2.6, "columnspacing": 1.6}
    for columns in range(_COLUMNS if labels else 0, 0, -1):
        legend = figure.legend(ncols=columns, **look)
        if columns == 1 or legend.get_window_extent().width <= figure.bbox.width:
            figure.set_figheight(figure.get_figheight() + 0.21 * -(-len(labels) // columns))
            return
        legend.remove()


def _smoothed(values: list[float], window: int) -> list[float]:
    """Means over the last `window` values, fewer at the beginning."""
    ends = range(1, len(values) + 1)
    return [sum(values[max(0, end - window) : end]) / min(end, window) for end in ends]


def _training_curve(axes: Axes, runs: Runs, metric: str) -> str:
    """The metric over the steps, of one run for train too; without baselines, since some targets
    stay visible to the model and none to a baseline."""
    if len(runs) == 1:
        steps, values = runs[0].curve(metric)
        colour, means = series_colour(0), _smoothed(values, max(1, len(values) // 40))
        axes.plot(steps, values, color=colour, alpha=0.25, linewidth=0.8)
        axes.plot(steps, means, color=colour, alpha=0.75, linewidth=1.3, label="train")
    words = []
    for i, run in enumerate(runs):
        steps, values = run.curve(f"validation_{metric}")
        if values:
            look = series_look(i) | _MARKED
            # Of two points a line would tell no course.
            look["linewidth"] = 1.6 if len(values) > 2 else 0
            label = "validation" if len(runs) == 1 else short_label(run.name)
            axes.plot(steps, values, **look, label=label)
            words.append(
                f"{run.name}: {_in_words(values[0], metric)} at step {steps[0]:.0f} to "
                f"{_in_words(values[-1], metric)} at step {steps[-1]:.0f}"
            )
    for end in sorted({p.end for run in runs for p in (run.training.phases or ())[:-1]}):
        axes.axvline(end, color=GRID, linewidth=1.2, linestyle=(0, (4, 3)))
    if metric == "accuracy":
        axes.yaxis.set_major_formatter(_percent())
    unit = "nats per target" if metric == "loss" else "accuracy"
    axes.set(xlabel="step", ylabel=f"{unit}, some visible", xlim=(0, None), ylim=(0, None))
    axes.xaxis.set_major_locator(MaxNLocator(6, integer=True))
    of = "train and validation" if len(runs) == 1 else "validation"
    course = "; ".join(words) or "no validation was recorded"
    return f"Line plot, {metric} over steps, {of}. Validation: {course}."


def _percent() -> PercentFormatter:
    return PercentFormatter(1, decimals=0, symbol=" %")


def _in_words(value: float, metric: str) -> str:
    return f"{100 * value:.1f} %" if metric == "accuracy" else f"{value:.2f}"


#: Label, value, interval if known, and colour.
Bar = tuple[str, float, Interval | None, str]


def _bars_of(runs: Runs, best: RunResults, metric: str) -> list[Bar]:
    """A bar for a test metric of each run and of each baseline of the best."""
    bars: list[Bar] = []
    for i, run in enumerate(runs):
        value, interval = (getattr(run.evaluation.test, metric + end) for end in ("", "_interval"))
        bars.append((short_label(run.name), value, interval, series_colour(i)))
    baselines = [(name, best.evaluation.baselines[name]) for name in BASELINES]
    return bars + [(name, getattr(one, metric), None, BASELINE) for name, one in baselines]


def _bars(axes: Axes, bars: list[Bar], metric: str) -> str:
    plt.gcf().set_figheight(0.8 + 0.36 * len(bars))
    largest = max((b[2][1] if b[2] else b[1] for b in bars), default=1.0) or 1.0
    for y, (_, value, interval, colour) in enumerate(bars):
        axes.barh(y, value, height=0.62, color=colour)
        end = value
        if interval:
            reach = [[max(0, value - interval[0])], [max(0, interval[1] - value)]]
            axes.errorbar(value, y, xerr=reach, color=INK, capsize=3, linewidth=1.2)
            end = max(end, interval[1])
        axes.text(end + 0.015 * largest, y, _in_words(value, metric), va="center", fontsize=9.5)
    axes.set_yticks(range(len(bars)), [bar[0] for bar in bars])
    axes.tick_params(axis="y", length=0, labelcolor=INK)
    axes.invert_yaxis()
    axes.set_xlim(0, largest * 1.16)
    axes.grid(axis="y", visible=False)
    axes.spines["left"].set_visible(False)
    if metric == "accuracy":
        axes.xaxis.set_major_formatter(_percent())
        axes.set_xlabel("guessed right where hidden (more is better)", loc="right")
    else:
        axes.set_xlabel("nats where hidden (less is better)", loc="right")
    words = "; ".join(
        f"{label} {_in_words(value, metric)}"
        + (f" ({_in_words(ci[0], metric)} to {_in_words(ci[1], metric)})" if ci else "")
        for label, value, ci, _ in bars
    )
    return f"Bar chart of the test {metric} where the answer is hidden: {words}."


def _frequency_bands(axes: Axes, run: RunResults, look: dict) -> str:
    bands = run.evaluation.frequency_bands
    known = {i: band.accuracy for i, band in enumerate(bands) if band.accuracy is not None}
    axes.plot([*known], [*known.values()], **look)
    axes.set_xticks(range(len(bands)), [band.label for band in bands])
    axes.tick_params(axis="x", labelcolor=INK)
    axes.margins(x=0.08)
    axes.yaxis.set_major_formatter(_percent())
    axes.set(xlabel="rank of the true token by its frequency in train", ylabel="accuracy")
    axes.set_ylim(bottom=0)
    words = ", ".join(f"{bands[i].label} {_in_words(x, 'accuracy')}" for i, x in known.items())
    return f"Line plot of the accuracy by frequency of the token. {run.name}: {words}."
