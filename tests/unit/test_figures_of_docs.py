import re
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "benchmarks"))

import figures  # noqa: E402


@pytest.mark.parametrize("page", figures.PAGES)
def test_every_quoted_figure_is_that_of_the_stored_results(page):
    text = (ROOT / page).read_text(encoding="utf-8")
    assert figures.BLOCK.search(text)
    assert figures.written(text) == text, "run: python benchmarks/figures.py"


@pytest.mark.parametrize("name", ["default", "long"])
def test_rows_of_a_comparison_subtract(name):
    _, _, model, *rows = figures.comparison(name, list(figures.NAMES)).splitlines()

    def number(cell):
        return float(re.match(r" ?(−?[\d.]+)", cell)[1].replace("−", "-"))

    loss = number(model.split("|")[2])
    for row in rows:
        _, _, of_baseline, difference, _ = row.split("|")
        assert loss - number(of_baseline) == pytest.approx(number(difference), abs=0.0011), row
