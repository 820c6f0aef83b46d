"""The report's figures of fine-tuning: curves by epoch, and predicted against true."""

import numpy as np
from matplotlib.ticker import MaxNLocator

from mlm.finetuning.finetuning_metrics import Finetuning
from mlm.report.report_inputs import Results, RunResults
from mlm.report.theming import GRID, Figure, drawing, legend_below, series_colour, themed


def finetuning_figures(results: Results) -> dict[str, Figure]:
    """The figures by name; none where no run was fine-tuned."""
    runs = [run for run in results.runs if run.finetune]
    if not runs:
        return {}
    return {"finetuning_curves": _curves(runs), "finetuning_predictions": _predictions(runs)}


def _label(run: RunResults, start: str, runs: list[RunResults]) -> str:
    return start if len(runs) == 1 else f"{run.name}, {start}"


def _curves(runs: list[RunResults]) -> Figure:
    said = []
    with drawing() as (figure, axes):
        colour = 0
        for run in runs:
            metrics = run.finetune
            for start in ("pretrained", "random"):
                curve = metrics.models[start].curves
                epochs = [row.epoch for row in curve]
                look = {"color": series_colour(colour), "marker": "o", "markersize": 4}
                label = _label(run, start, runs)
                axes.plot(
                    epochs,
                    [row.validation_loss for row in curve],
                    **look,
                    linewidth=1.8,
                    label=f"{label}, held out",
                )
                axes.plot(
                    epochs,
                    [row.train_loss for row in curve],
                    **look,
                    linewidth=1.2,
                    linestyle=(0, (2, 1.5)),
                    label=f"{label}, learned from",
                )
                colour += 1
                said.append(
                    f"{label}: held-out loss {curve[0].validation_loss:.3f} after the first "
                    f"epoch, {curve[-1].validation_loss:.3f} after the last"
                )
        classes = runs[0].finetune.task == "classification"
        axes.set(xlabel="epoch", ylabel="nats" if classes else "squared error")
        axes.set_ylim(bottom=0)
        axes.xaxis.set_major_locator(MaxNLocator(8, integer=True))
        legend_below(figure)
        return themed(figure, "finetuning_curves", f"Line plot by epoch. {'; '.join(said)}.")


def _predictions(runs: list[RunResults]) -> Figure:
    run = runs[0]
    metrics = run.finetune
    draw = _scatter if metrics.task == "regression" else _confusion
    with drawing() as (figure, axes):
        words = draw(figure, axes, metrics)
        of = f" Run {run.name}." if len(runs) > 1 else ""
        return themed(figure, "finetuning_predictions", words + of)


def _scatter(figure, axes, metrics: Finetuning) -> str:
    true, said = np.array(metrics.shown.true), np.array(metrics.shown.pretrained)
    year = metrics.data.source.kind == "embedded"
    if year:
        true, said = 1900 + 50 * true, 1900 + 50 * said
    low, high = float(min(true.min(), said.min())), float(max(true.max(), said.max()))
    axes.plot(
        [low, high], [low, high], color=GRID, linewidth=1.5, linestyle=(0, (4, 3)), label="right"
    )
    # One path of markers for all points keeps the page small.
    axes.plot(
        true,
        said,
        linestyle="none",
        marker="o",
        markersize=3,
        markeredgewidth=0,
        alpha=0.45,
        color=series_colour(0),
        label="a passage, from the pretrained start",
    )
    what = " year" if year else ""
    axes.set(xlabel=f"true{what}", ylabel=f"predicted{what}")
    legend_below(figure)
    correlation = float(np.corrcoef(true, said)[0, 1]) if true.std() and said.std() else 0.0
    return (
        f"Scatter plot of {len(true)} held-out passages, predicted against true; correlation "
        f"{correlation:.2f}."
    )


def _confusion(figure, axes, metrics: Finetuning) -> str:
    counts, classes = np.array(metrics.shown.pretrained, float), metrics.shown.classes
    shares = counts / np.maximum(counts.sum(axis=1, keepdims=True), 1)
    bottom = np.zeros(len(classes))
    for i, name in enumerate(classes):
        axes.bar(
            range(len(classes)), shares[:, i], bottom=bottom, color=series_colour(i), label=name
        )
        bottom += shares[:, i]
    axes.set_xticks(range(len(classes)), classes)
    axes.set(xlabel="true class", ylabel="share predicted as")
    legend_below(figure)
    right = "; ".join(f"{c} {shares[i, i]:.0%} right" for i, c in enumerate(classes))
    return f"Stacked bars of the predicted classes by the true class: {right}."
