import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "benchmarks"))

import figures  # noqa: E402

SHOWN = [(make, page) for make, pages in figures.TABLES.items() for page in pages]


@pytest.mark.parametrize(
    ("make", "page"), SHOWN, ids=lambda value: getattr(value, "__name__", value)
)
def test_a_table_of_the_docs_is_that_of_the_stored_results(make, page):
    shown = f"\n\n{make()}\n" in (ROOT / page).read_text(encoding="utf-8")
    assert shown, "copy the table that `python benchmarks/figures.py` prints"
