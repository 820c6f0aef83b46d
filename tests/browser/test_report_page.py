"""The report in a real browser: nothing fetched, nothing thrown, readable on a phone."""

import asyncio
import json
import os
from contextlib import AsyncExitStack
from pathlib import Path

import pytest
from devtools import browsing, find_chromium
from report_results import WORLDWIDE, hostile, results_in, with_texts, written

CHECKS, WORDS = (
    (Path(__file__).parent / name).read_text(encoding="utf-8") for name in ("checks.js", "words.js")
)
OVERFLOW = """
[...document.querySelectorAll("body *")]
  .filter((e) => !e.closest(".scroll, pre, svg") && e.checkVisibility())
  .filter((e) => e.getBoundingClientRect().right > document.documentElement.clientWidth + 1)
  .map((e) => `${e.tagName}.${e.className}: ${e.textContent.slice(0, 40)}`)
"""
OPEN_ALL = "document.querySelectorAll('details').forEach((d) => { d.open = true; })"


@pytest.fixture(scope="module")
def chromium():
    found = find_chromium()
    if found is None:
        missing = "no Chromium was found; install one or name it in CHROMIUM"
        if os.environ.get("CI") == "true":
            pytest.fail(missing)
        pytest.skip(missing)
    return found


@pytest.fixture(scope="module", params=["three runs", "hostile text", "worldwide"])
def page(request, tmp_path_factory):
    """The path of a report: on three runs, on text that means harm, on Arabic and Japanese."""
    root = tmp_path_factory.mktemp("page")
    if request.param == "hostile text":
        results = hostile(root)
    elif request.param == "worldwide":
        results = with_texts(root, WORLDWIDE)
    else:
        seed = {"pretraining": {"seed": 1}}
        wide = {"model": {"config": {"hidden_size": 256}}}
        results = results_in(root, {"base": {}, "seed-1": seed, "wide": wide})
    written(results, root / "report")
    return root / "report" / "report.html"


@pytest.fixture(scope="module")
def visit(chromium, page, tmp_path_factory):
    """Look at the page, open in one tab for all tests, with an asynchronous function of it."""
    with asyncio.Runner() as runner:
        opened = AsyncExitStack()
        tab = runner.run(
            opened.enter_async_context(browsing(chromium, tmp_path_factory.mktemp("b")))
        )
        try:
            runner.run(tab.open(page.as_uri()))
            runner.run(tab.evaluate(OPEN_ALL))
            yield lambda look: runner.run(look(tab))
        finally:
            runner.run(opened.aclose())


def test_nothing_is_fetched_and_nothing_goes_wrong(visit, page):
    async def look(tab):
        await asyncio.sleep(0.3)
        requests = {r["request"]["url"] for r in tab.seen("Network.requestWillBeSent")}
        thrown = tab.seen("Runtime.exceptionThrown", "Log.entryAdded", "Runtime.consoleAPICalled")
        return requests, thrown

    requests, thrown = visit(look)
    assert {url for url in requests if not url.startswith("data:")} == {page.as_uri()}
    assert thrown == []


async def seen_at(tab, width: int, scheme: str = "light") -> None:
    """Show the page in a window of `width` pixels."""
    metrics = {"height": 844, "deviceScaleFactor": 1, "mobile": width < 500}
    await tab.send("Emulation.setDeviceMetricsOverride", width=width, **metrics)
    features = [{"name": "prefers-color-scheme", "value": scheme}]
    await tab.send("Emulation.setEmulatedMedia", features=features)


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [360, 768, 1200, 1600])
def test_no_word_is_broken_or_cut_off(visit, width, scheme):
    async def look(tab):
        await seen_at(tab, width, scheme)
        root = "document.documentElement"
        sizes = await tab.evaluate(f"[{root}.scrollWidth, {root}.clientWidth, innerWidth]")
        return sizes, await tab.evaluate(OVERFLOW), await tab.evaluate(WORDS)

    (scrolled, client, inner), beyond, words = visit(look)
    assert (scrolled, inner) == (client, width)
    assert beyond == []
    assert words["measured"] > 1000
    assert words["found"] == []
    # On a phone a table may scroll in its box, which says so; on a screen none does.
    assert width < 1200 or words["scrolling"] == []


PLANTED = {
    "broken: Pretraining": "<p style='width:3em;overflow-wrap:anywhere'>Pretraining</p>",
    "clipped: Evaluation": "<p style='width:3em;overflow:hidden;white-space:nowrap'>Evaluation",
    "outside of the window: Calibration": "<p style='position:relative;left:-3em'>Calibration</p>",
    "out of reach: Perplexity": "<p style='width:3em;overflow:auto;white-space:pre'>Perplexity</p>",
    "clipped: Provenance": "<p style='height:.5em;overflow:hidden'>Provenance</p>",
    "outside of its drawing: Axis": "<svg width='9' height='9'><text x='99'>Axis</text></svg>",
    "": "<p style='width:6em'>Pre&shy;training 吾輩は猫 <code>deadbeef<wbr>deadbeef</code></p>",
}


@pytest.mark.parametrize("said", PLANTED)
def test_a_planted_word_is_found(visit, said):
    async def look(tab):
        await seen_at(tab, 768)
        plant = (
            f"const e = document.createElement('div'); e.innerHTML = {json.dumps(PLANTED[said])}"
        )
        await tab.evaluate(f"{{{plant}; e.id = 'planted'; document.body.append(e)}}")
        words = await tab.evaluate(WORDS)
        await tab.evaluate("document.getElementById('planted').remove()")
        return words["found"]

    found = visit(look)
    assert (not found) if not said else any(f.startswith(said) for f in found)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_every_text_has_contrast(visit, scheme):
    async def look(tab):
        await seen_at(tab, 1200, scheme)
        ground = await tab.evaluate("getComputedStyle(document.body).backgroundColor")
        return ground, await tab.evaluate(CHECKS)

    ground, found = visit(look)
    assert (ground == "rgb(15, 18, 21)") == (scheme == "dark")
    assert found["measured"] > 300
    assert found["poor"] == []


def test_every_image_has_a_name_for_those_who_do_not_see_it(visit):
    async def look(tab):
        tree = (await tab.send("Accessibility.getFullAXTree"))["nodes"]
        return [n for n in tree if n.get("role", {}).get("value") in ("image", "img")]

    images = visit(look)
    assert len(images) >= 9
    assert [n for n in images if not n.get("name", {}).get("value")] == []


def test_no_text_became_an_element(visit):
    async def look(tab):
        return await tab.evaluate(
            "[...document.querySelectorAll('script, img, iframe, [onload], [onerror]')].length"
        )

    assert visit(look) == 0
