import asyncio
from contextlib import AsyncExitStack
from pathlib import Path

import pytest
from devtools import Tab, browsing, find_chromium
from report_results import WORLDWIDE, hostile, results_in, with_texts, written
from tests.conftest import not_here

WORDS = (Path(__file__).parent / "words.js").read_text(encoding="utf-8")
OVERFLOW = """
[...document.querySelectorAll("body *")]
  .filter((e) => !e.closest(".scroll, pre, svg") && e.checkVisibility())
  .filter((e) => e.getBoundingClientRect().right > document.documentElement.clientWidth + 1)
  .map((e) => `${e.tagName}.${e.className}: ${e.textContent.slice(0, 40)}`)
"""
OPEN_ALL = "document.querySelectorAll('details').forEach((d) => { d.open = true; })"


@pytest.fixture(scope="module", params=["six runs", "hostile text", "worldwide"])
def page(request, tmp_path_factory):
    root = tmp_path_factory.mktemp("page")
    if request.param == "hostile text":
        results = hostile(root)
    elif request.param == "worldwide":
        results = with_texts(root, WORLDWIDE)
    else:
        runs = {
            f"base_hidden_size-{size}_learning_rate-{rate}": {
                "model": {"config": {"hidden_size": size}},
                "pretraining": {"optimizer": {"learning_rate": rate}},
            }
            for size in (128, 256)
            for rate in (0.003, 0.006, 0.012)
        }
        results = results_in(root, runs)
    written(results, root / "report")
    return root / "report" / "report.html"


class Shown:
    """A page in the browser, whose answers are waited for."""

    def __init__(self, runner: asyncio.Runner, tab: Tab):
        self._run, self._tab, self.seen = runner.run, tab, tab.seen

    def send(self, method: str, **params) -> dict:
        return self._run(self._tab.send(method, **params))

    def evaluate(self, script: str):
        return self._run(self._tab.evaluate(script))

    def at(self, width: int) -> None:
        metrics = {"height": 844, "deviceScaleFactor": 1, "mobile": width < 500}
        self.send("Emulation.setDeviceMetricsOverride", width=width, **metrics)


@pytest.fixture(scope="module")
def shown(page, tmp_path_factory):
    chromium = find_chromium() or not_here("no Chromium; install one or name it in CHROMIUM")
    with asyncio.Runner() as runner:
        opened, profile = AsyncExitStack(), tmp_path_factory.mktemp("b")
        tab = runner.run(opened.enter_async_context(browsing(chromium, profile)))
        try:
            runner.run(tab.open(page.as_uri()))
            runner.run(tab.evaluate(OPEN_ALL))
            runner.run(asyncio.sleep(0.3))
            yield Shown(runner, tab)
        finally:
            runner.run(opened.aclose())


def test_nothing_is_fetched_and_nothing_goes_wrong(shown, page):
    requests = {r["request"]["url"] for r in shown.seen("Network.requestWillBeSent")}
    assert {url for url in requests if not url.startswith("data:")} == {page.as_uri()}
    assert shown.seen("Runtime.exceptionThrown", "Log.entryAdded", "Runtime.consoleAPICalled") == []


@pytest.mark.parametrize("width", [360, 768, 1200, 1600])
def test_no_word_is_broken_or_cut_off(shown, width):
    shown.at(width)
    root = "document.documentElement"
    sizes = shown.evaluate(f"[{root}.scrollWidth - {root}.clientWidth, innerWidth]")
    assert sizes == [0, width]
    assert shown.evaluate(OVERFLOW) == []
    words = shown.evaluate(WORDS)
    assert words["measured"] > 1000
    assert words["found"] == []
    # On a phone a table may scroll in its box, which says so; on a screen none does.
    assert width < 1200 or words["scrolling"] == []
