"""The page of a training under way: what it says, when it is written, and that it is in no way."""

import re
from types import SimpleNamespace

import pytest

from mlm.foundations.code_digests import job_digests
from mlm.report.live_page import live_page as page_of
from mlm.training import live
from mlm.training.live import LivePage, LiveSettings, live_page
from mlm.training.periodic_actions import Moment
from mlm.training.training_log import Row

RUN = SimpleNamespace(name="base", steps=100, train=SimpleNamespace(sequence_length=16))


def row(step: int, validation: float | None = None) -> Row:
    return Row(step, step / 50, 5.0, 0.1, validation, validation and 0.2, 1e-3, 1234.0)


def told(**changes) -> dict:
    rows = [vars(row(5)), vars(row(10, 4.5)), vars(row(15))]
    content = {"run": "base", "step": 15, "steps": 100, "left": "3:20 min", "rows": rows}
    content |= {"mask": "[MASK]", "prompts": {"We [MASK].": [["go", 0.75]]}, "ended": False}
    return content | changes


def test_the_page_says_what_it_is_and_reloads_itself():
    page = page_of(told(), "14:03:22")
    assert "Preliminary: nothing here is a result. Written at 14:03:22" in page
    assert '<meta http-equiv="refresh" content="15">' in page
    for words in ("Run base", "Step 15 of 100", "4.500", "1,234", "3:20 min", "go", "75.0"):
        assert words in page
    assert page.count("<svg") == 2 and "src=" not in page


def test_a_page_of_a_training_that_ended_does_not_reload():
    page = page_of(told(ended=True, left=None), "14:03:22")
    assert "refresh" not in page and "The training has ended" in page


def test_the_first_page_needs_no_validation_and_text_does_no_harm():
    hostile = {"<script>[MASK]": [["</bdi><b>", 0.5]]}
    page = page_of(told(rows=[vars(row(5))], prompts=hostile, left=None), "14:03:22")
    assert "not validated yet" in page and "not known yet" in page
    assert "<script>" not in page and "</bdi><b>" not in page


@pytest.fixture
def shown(monkeypatch, tmp_path):
    """A LivePage whose clock stands in `now`, and the steps of which it drew pages."""
    now, steps = [0.0], []
    page = LivePage(
        LiveSettings(str(tmp_path / "live.html"), [], 5),
        RUN,
        "tensorflow",
        "tokenizer.json",
        tmp_path,
        clock=lambda: now[0],
    )
    monkeypatch.setattr(page, "_snapshot", lambda moment, engine: {"step": moment.step})
    monkeypatch.setattr(page, "_draw", lambda told: steps.append(told["step"]))
    return SimpleNamespace(page=page, now=now, steps=steps)


def test_a_page_is_drawn_at_validations_and_every_few_minutes(shown):
    validated = {20, 40, 100}
    for step, seconds in ((20, 5), (30, 16), (40, 17), (50, 40), (60, 196), (70, 198), (100, 205)):
        shown.now[0] = seconds
        shown.page(Moment(step, [row(step)], None, step in validated), None)
    # Not in the first 15 s; at 40 for its validation, at 70 since the last is three minutes old.
    assert shown.steps == [40, 70]


def test_a_drawing_under_way_is_not_waited_for(shown):
    shown.page._drawing = SimpleNamespace(poll=lambda: None)
    shown.now[0] = 500
    shown.page(Moment(20, [row(20)], None, True), None)
    assert shown.steps == []


def test_what_fails_is_told_once_and_stops_nothing(shown, monkeypatch, capsys):
    def failing(moment, engine):
        raise OSError("no space")

    monkeypatch.setattr(shown.page, "_snapshot", failing)
    for seconds in (20, 400):
        shown.now[0] = seconds
        shown.page(Moment(20, [row(20)], None, True), None)
    shown.page.finish()
    assert re.findall("Warning: .*", capsys.readouterr().err) == [
        f"Warning: {shown.page._settings.page} is not written any more (OSError: no space). The "
        "training goes on without it"
    ]


def test_of_many_rows_the_validations_and_the_last_stay():
    rows = [row(step, 4.0 if step % 1000 == 0 else None) for step in range(1, 5001)]
    kept = live._thinned(rows)
    assert len(kept) <= 1010 and kept[-1] is rows[-1]
    assert sum(r.validation_loss is not None for r in kept) == 5
    assert live._thinned(rows[:900]) == rows[:900]


def test_nothing_is_shown_where_nothing_is_asked_for(tmp_path):
    with live_page(None, RUN, "jax", "tokenizer.json", str(tmp_path)) as page:
        assert page is None
    assert list(tmp_path.iterdir()) == []


def test_how_a_page_looks_is_no_code_of_a_training():
    """Else an edit of a figure would train again what is done."""
    code = job_digests(["pretrain_together"])
    assert "mlm.training.live" in code
    assert not [module for module in code if module.startswith("mlm.report")]


@pytest.mark.slow
def test_a_process_of_its_own_writes_the_page(monkeypatch, tmp_path):
    page = LivePage(
        LiveSettings(str(tmp_path / "live.html"), [], 5), RUN, "jax", "t.json", tmp_path
    )
    monkeypatch.setattr(page, "_snapshot", lambda moment, engine: told(step=moment.step))
    monkeypatch.setattr(live, "_AT_LEAST", 0.0)
    page(Moment(15, [row(15)], None, True), object())
    # What came after the last page is on the one of the end.
    page(Moment(99, [row(99)], None, False), object())
    page.finish()
    assert page._drawing.returncode == 0
    written = (tmp_path / "live.html").read_text()
    assert "The training has ended" in written and "Step 99 of 100" in written
