"""The report's figures, drawn with matplotlib from the results of the runs.

A function draws on its axes and returns what the figure shows, in words. A figure is drawn with
stand-in colours; each becomes a CSS variable with a fallback, so that the same SVG looks right in
the report, light or dark, in a browser of its own and in Snakemake's report.
"""

import io
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import matplotlib
import matplotlib.pyplot as plt
import numpy as np
from markupsafe import escape
from matplotlib.axes import Axes
from matplotlib.figure import Figure as MatplotlibFigure
from matplotlib.ticker import MaxNLocator, PercentFormatter

from mlm.evaluation.artefacts import BASELINES, Interval
from mlm.finetuning.finetuning_metrics import Finetuning
from mlm.report.glossary import FIGURES, FINETUNING_FIGURES
from mlm.report.report_inputs import Results, RunResults
from mlm.report.visible_text import plain

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


Runs = Sequence[RunResults]


def figures(results: Results) -> dict[str, Figure]:
    """All figures by name; one whose data no run has is there all the same, and empty, except those
    of a fine-tuning."""
    runs, tuned = results.runs, [run for run in results.runs if run.finetune]
    found: dict[str, Figure] = {}

    def draw(
        name: str, on: Callable[..., str], *data, height: float = 3.3, legend: bool = True
    ) -> None:
        with drawing(height=height) as (figure, axes):
            words = on(axes, *data)
            if legend:
                legend_below(figure)
            found[name] = themed(figure, name, words)

    draw("training_loss", _training_curve, runs, "loss")
    draw("training_accuracy", _training_curve, runs, "accuracy")
    for metric in ("loss", "accuracy"):
        bars = _bars_of(runs, metric)
        height = 0.8 + 0.36 * max(1, len(bars))
        draw(f"test_{metric}", _bars, bars, metric, height=height, legend=False)
    draw("frequency_bands", _frequency_bands, runs)
    draw("calibration", _calibration, runs)
    if tuned:
        draw("finetuning_predictions", _finetuning_predictions, tuned)
    return found


def _column(run: RunResults, column: str) -> tuple[list[float], list[float]]:
    """Steps and values of the rows of training.csv in which `column` has a value."""
    rows = [(r["step"], r[column]) for r in run.curves if r[column] is not None]
    return [s for s, _ in rows], [v for _, v in rows]


def _smoothed(values: list[float], window: int) -> list[float]:
    """Means over the last `window` values, fewer at the beginning."""
    return [
        sum(values[max(0, i + 1 - window) : i + 1]) / min(i + 1, window) for i in range(len(values))
    ]


def _training_curve(axes: Axes, runs: Runs, metric: str) -> str:
    """The metric of train and validation over the steps, without baselines: some targets stay
    visible to the model, none to a baseline."""
    said = []
    for i, run in enumerate(runs):
        look, label = series_look(i), short_label(run.name)
        steps, values = _column(run, metric)
        axes.plot(steps, values, color=look["color"], alpha=0.25, linewidth=0.8)
        window = max(1, len(values) // 40)
        (train,) = axes.plot(steps, _smoothed(values, window), **look, linewidth=1.3, alpha=0.75)
        steps, values = _column(run, f"validation_{metric}")
        # One entry a run: with several, the caption tells train from validation.
        if len(runs) == 1 or not values:
            train.set_label("train" if len(runs) == 1 else label)
        if values:
            label = "validation" if len(runs) == 1 else label
            axes.plot(steps, values, **look, linewidth=2, marker="o", markersize=4, label=label)
            said.append(
                f"{run.name}: {_said(values[0], metric)} at step {steps[0]:.0f} to "
                f"{_said(values[-1], metric)} at step {steps[-1]:.0f}"
            )
    if metric == "accuracy":
        _in_percent(axes)
    unit = "nats per target" if metric == "loss" else "accuracy"
    axes.set(xlabel="step", ylabel=f"{unit}, some visible")
    axes.set_xlim(left=0)
    axes.xaxis.set_major_locator(MaxNLocator(6, integer=True))
    words = "; ".join(said) or "no validation was recorded"
    return f"Line plot, {metric} over steps, train and validation. Validation: {words}."


def _in_percent(axes: Axes) -> None:
    axes.yaxis.set_major_formatter(PercentFormatter(1, decimals=0))
    axes.set_ylim(bottom=0)


def _said(value: float, metric: str) -> str:
    return f"{value:.1%}" if metric == "accuracy" else f"{value:.2f}"


#: Label, value, interval if known, and colour.
Bar = tuple[str, float, Interval | None, str]


def _bars_of(runs: Runs, metric: str) -> list[Bar]:
    """A bar for a test metric of each run and each distinct baseline."""
    bars: list[Bar] = []
    for i, run in enumerate(runs):
        test = run.evaluation.test
        interval = getattr(test, f"{metric}_interval")
        bars.append((short_label(run.name), getattr(test, metric), interval, series_colour(i)))
    found: dict[str, dict[float, list[str]]] = {}
    for run in runs:
        for name in BASELINES:
            value = getattr(run.evaluation.baselines[name], metric)
            found.setdefault(name, {}).setdefault(value, []).append(short_label(run.name))
    for label, values in found.items():
        for value, names in values.items():
            of = "" if len(values) == 1 else f" ({', '.join(names)})"
            bars.append((label + of, value, None, BASELINE))
    return bars


def _bars(axes: Axes, bars: list[Bar], metric: str) -> str:
    largest = max((b[2][1] if b[2] else b[1] for b in bars), default=1.0) or 1.0
    for y, (_, value, interval, colour) in enumerate(bars):
        axes.barh(y, value, height=0.62, color=colour)
        end = value
        if interval:
            reach = [[max(0, value - interval[0])], [max(0, interval[1] - value)]]
            axes.errorbar(value, y, xerr=reach, color=INK, capsize=3, linewidth=1.2)
            end = max(end, interval[1])
        axes.text(end + 0.015 * largest, y, _said(value, metric), va="center", fontsize=9.5)
    axes.set_yticks(range(len(bars)), [bar[0] for bar in bars])
    axes.tick_params(axis="y", length=0, labelcolor=INK)
    axes.invert_yaxis()
    axes.set_xlim(0, largest * 1.16)
    axes.grid(axis="y", visible=False)
    axes.spines["left"].set_visible(False)
    if metric == "accuracy":
        axes.xaxis.set_major_formatter(PercentFormatter(1, decimals=0))
        axes.set_xlabel("guessed right where hidden (more is better)", loc="right")
    else:
        axes.set_xlabel("nats where hidden (less is better)", loc="right")
    said = "; ".join(
        f"{label} {_said(value, metric)}"
        + (f" ({_said(ci[0], metric)} to {_said(ci[1], metric)})" if ci else "")
        for label, value, ci, _ in bars
    )
    return f"Bar chart of the test {metric} where the answer is hidden: {said}."


def _lines(axes: Axes, points: dict[str, tuple[Sequence, Sequence]], said=None, **style) -> None:
    """A line for each run through its `points`, in the order of the runs; `said` has what the
    legend says beside the name."""
    for i, (name, xy) in enumerate(points.items()):
        label = short_label(name) + (f", {said[name]}" if said else "")
        axes.plot(*xy, **series_look(i), label=label, **style)


def _frequency_bands(axes: Axes, runs: Runs) -> str:
    bands = {run.name: run.evaluation.frequency_bands for run in runs}
    labels = list(dict.fromkeys(band.label for found in bands.values() for band in found))
    bands = {run: [b for b in found if b.accuracy is not None] for run, found in bands.items()}
    points = {
        run: ([labels.index(b.label) for b in known], [b.accuracy for b in known])
        for run, known in bands.items()
    }
    _lines(axes, points, marker="o", markersize=5, linewidth=1.6)
    axes.set_xticks(range(len(labels)), labels, rotation=30 if len(labels) > 5 else 0)
    axes.tick_params(axis="x", labelcolor=INK)
    axes.margins(x=0.08)
    _in_percent(axes)
    axes.set(xlabel="rank of the true token by its frequency in train", ylabel="accuracy")
    said = "; ".join(
        f"{run}: " + ", ".join(f"{b.label} {b.accuracy:.1%}" for b in known)
        for run, known in bands.items()
    )
    return f"Line plot of the accuracy by frequency of the token. {said}."


def _calibration(axes: Axes, runs: Runs) -> str:
    _diagonal(axes, 0, 1, "confidence = accuracy")
    points, errors = {}, {}
    for run in runs:
        calibration = run.evaluation.calibration
        bins = [b for b in calibration.bins if b.num_predictions]
        points[run.name] = [b.confidence for b in bins], [b.accuracy for b in bins]
        error = calibration.expected_calibration_error
        errors[run.name] = "not measured" if error is None else f"{error:.3f}"
    legend = {name: f"error {error}" for name, error in errors.items()}
    _lines(axes, points, legend, marker="o", markersize=5, linewidth=1.6)
    axes.set(xlim=(0, 1), ylim=(0, 1))
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_formatter(PercentFormatter(1, decimals=0))
    axes.set(xlabel="confidence in the first guess", ylabel="share that was right")
    said = ", ".join(f"{name} {error}" for name, error in errors.items())
    return (
        "Reliability plot: share of right guesses by confidence, beside the diagonal of perfect "
        f"calibration. Expected calibration error: {said}."
    )


def _diagonal(axes: Axes, low: float, high: float, label: str) -> None:
    ends = [low, high]
    axes.plot(ends, ends, color=GRID, linewidth=1.5, linestyle=(0, (4, 3)), label=label)


def _finetuning_predictions(axes: Axes, runs: Runs) -> str:
    metrics = runs[0].finetune
    words = (_scatter if metrics.task == "regression" else _confusion)(axes, metrics)
    return words + (f" Run {runs[0].name}." if len(runs) > 1 else "")


def _scatter(axes: Axes, metrics: Finetuning) -> str:
    true, predicted = np.array(metrics.shown.true), np.array(metrics.shown.predicted)
    year = metrics.data.source.kind == "embedded"
    if year:
        true, predicted = 1900 + 50 * true, 1900 + 50 * predicted
    both = np.concatenate([true, predicted])
    low, high = float(both.min()), float(both.max())
    _diagonal(axes, low, high, "right")
    # One path of markers for all points keeps the page small.
    look = {"linestyle": "none", "marker": "o", "markersize": 3, "markeredgewidth": 0}
    look |= {"alpha": 0.45, "color": series_colour(0)}
    axes.plot(true, predicted, **look, label="a passage, from the pretrained start")
    what = " year" if year else ""
    axes.set(xlabel=f"true{what}", ylabel=f"predicted{what}")
    said = "no correlation, since one of them does not vary"
    if true.std() and predicted.std():
        said = f"correlation {np.corrcoef(true, predicted)[0, 1]:.2f}"
    return f"Scatter plot of {len(true)} held-out passages, predicted against true; {said}."


def _confusion(axes: Axes, metrics: Finetuning) -> str:
    classes = [plain(name) for name in metrics.shown.classes]
    counts = np.array(metrics.shown.counts, float)
    sums = counts.sum(axis=1, keepdims=True)
    # A class without passages has no bar.
    shares = np.divide(counts, sums, out=np.zeros_like(counts), where=sums > 0)
    bottom = np.zeros(len(classes))
    for i, name in enumerate(classes):
        look = {"color": series_colour(i), "label": name}
        axes.bar(range(len(classes)), shares[:, i], bottom=bottom, **look)
        bottom += shares[:, i]
    axes.set_xticks(range(len(classes)), classes)
    axes.set(xlabel="true class", ylabel="share predicted as")
    right = [f"{shares[i, i]:.0%} right" if sums[i] else "none held out" for i in range(len(sums))]
    said = "; ".join(f"{name} {words}" for name, words in zip(classes, right, strict=True))
    return f"Stacked bars of the predicted classes by the true class: {said}."
