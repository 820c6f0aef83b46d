"""The figure of what a sweep found: validation loss by the settings that differ between runs."""

from collections.abc import Mapping, Sequence
from statistics import fmean

from matplotlib.axes import Axes
from matplotlib.ticker import NullFormatter, NullLocator

from mlm.report.run_comparison import setting_names
from mlm.report.template_filters import value
from mlm.report.theming import DASHES, series_colour

#: Values of one setting that are this many times apart are drawn on a logarithmic axis.
_FAR_APART = 4
_SEED = "pretraining.seed"


def loss_by_setting(
    axes: Axes, losses: Sequence[float], settings: Mapping[str, Sequence[object]]
) -> str:
    """A point for each run's loss and lines through their means; `settings` have a value for each
    run. The x axis is that of the numbers with the most values, colours are the next setting and
    dashes the third; over others, seeds first of all, the lines are means."""
    if not settings:
        return "Line plot without data."
    across, *others = sorted(settings, key=lambda path: _rank(path, settings[path]))
    shown = [path for path in others if path != _SEED][:2]
    names = setting_names(settings)
    places = _places(axes, settings[across])
    axes.set(xlabel=names[across], ylabel="validation loss, nats")
    kinds = [list(dict.fromkeys(map(value, settings[path]))) for path in shown]
    lines: dict[tuple[str, ...], dict[float, list[float]]] = {}
    for number, (place, loss) in enumerate(zip(places, losses, strict=True)):
        line = tuple(value(settings[path][number]) for path in shown)
        lines.setdefault(line, {}).setdefault(place, []).append(loss)
    said = []
    for line, found in lines.items():
        indices = [kind.index(one) for kind, one in zip(kinds, line, strict=True)]
        colour, dash = [*indices, 0, 0][:2]
        label = ", ".join(f"{names[path]} {one}" for path, one in zip(shown, line, strict=True))
        means = [fmean(found[place]) for place in sorted(found)]
        look = {"linestyle": DASHES[dash % len(DASHES)], "linewidth": 1.6}
        look |= {"color": series_colour(colour), "label": label or None}
        axes.plot(sorted(found), means, **look)
        points = [(place, loss) for place in sorted(found) for loss in found[place]]
        marker = "os^D"[dash // len(DASHES) % 4]
        axes.plot(*zip(*points, strict=True), marker, color=look["color"], markersize=5)
        said.append(f"{label or 'mean'}: {', '.join(f'{mean:.3f}' for mean in means)}")
    return f"Line plot of the validation loss by {names[across]}. {'; '.join(said)}."


def _rank(path: str, values: Sequence[object]) -> tuple:
    return path == _SEED, not _are_numbers(values), -len(set(map(value, values))), path


def _are_numbers(values: Sequence[object]) -> bool:
    return all(isinstance(one, int | float) and not isinstance(one, bool) for one in values)


def _places(axes: Axes, values: Sequence[object]) -> list[float]:
    """Where on the x axis each of `values` is: numbers at themselves, all else side by side."""
    if _are_numbers(values) and len(set(values)) > 1:
        places = list(map(float, values))
        if min(places) > 0 and max(places) >= _FAR_APART * min(places):
            axes.set_xscale("log")
    else:
        words = list(dict.fromkeys(map(value, values)))
        places = [float(words.index(value(one))) for one in values]
        axes.margins(x=0.15)
    ticks = dict(zip(places, map(value, values), strict=True))
    axes.set_xticks(sorted(ticks), [ticks[place] for place in sorted(ticks)])
    axes.xaxis.set_minor_locator(NullLocator())
    axes.xaxis.set_minor_formatter(NullFormatter())
    axes.tick_params(axis="x", rotation=30 if len(ticks) > 5 else 0)
    return places
