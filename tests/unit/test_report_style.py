"""The colours of figures, on the page and alone; tests/browser has those of text."""

import re
from pathlib import Path

import pytest

from mlm.report.theming import ROLES, SERIES

CSS = (Path(__file__).resolve().parents[2] / "report" / "style.css").read_text(encoding="utf-8")
#: Lines and bars (1.4.11: 3 to 1).
GRAPHICS = [(f"series-{i}", "surface") for i in range(len(SERIES))]


def variables(block: str) -> dict[str, str]:
    return dict(re.findall(r"--([a-z0-9-]+):\s*(#[0-9a-f]{6})", block))


def schemes() -> dict[str, dict[str, str]]:
    light, dark, printed = (
        variables(b) for b in re.findall(r":root \{(.*?)\n *\}", CSS, re.DOTALL)
    )
    return {"light": light, "dark": light | dark, "print": light | printed}


def luminance(colour: str) -> float:
    parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(one: str, other: str) -> float:
    low, high = sorted((luminance(one), luminance(other)))
    return (high + 0.05) / (low + 0.05)


@pytest.mark.parametrize("scheme", ["light", "dark", "print"])
def test_lines_of_figures_can_be_seen(scheme):
    colours = schemes()[scheme]
    poor = {p: contrast(colours[p[0]], colours[p[1]]) for p in GRAPHICS}
    assert {p: c for p, c in poor.items() if c < 3} == {}


def test_figures_alone_have_the_colours_of_the_light_page():
    light = schemes()["light"]
    assert [light[f"series-{i}"] for i in range(len(SERIES))] == list(SERIES)
    for variable, colour in ROLES.values():
        assert light[variable.removeprefix("--")] == colour
