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
