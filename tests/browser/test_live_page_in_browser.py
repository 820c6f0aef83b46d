"""The page of a training under way in a real browser: readable on a phone, light and dark."""

import asyncio

import pytest
from devtools import browsing
from test_live_page import told
from test_report_page import CHECKS, OVERFLOW, WORDS, chromium  # noqa: F401

from mlm.report.live_page import live_page

pytestmark = pytest.mark.slow


def test_it_fits_and_is_read_and_fetches_nothing(chromium, tmp_path):  # noqa: F811
    page = tmp_path / "live.html"
    long = "We the [MASK] of the United States, in order to form a more perfect union"
    page.write_text(live_page(told(prompts={long: [["people", 0.9]]}), "14:03:22"))

    async def look() -> None:
        async with browsing(chromium, tmp_path) as tab:
            await tab.open(page.as_uri())
            for width in (360, 768, 1200, 1600):
                metrics = {"height": 844, "deviceScaleFactor": 1, "mobile": width < 500}
                await tab.send("Emulation.setDeviceMetricsOverride", width=width, **metrics)
                assert await tab.evaluate(OVERFLOW) == []
                assert (await tab.evaluate(WORDS))["found"] == []
                for scheme in ("light", "dark"):
                    features = [{"name": "prefers-color-scheme", "value": scheme}]
                    await tab.send("Emulation.setEmulatedMedia", features=features)
                    found = await tab.evaluate(CHECKS)
                    assert found["measured"] > 30 and found["poor"] == []
            requests = {r["request"]["url"] for r in tab.seen("Network.requestWillBeSent")}
            assert {u for u in requests if not u.startswith("data:")} == {page.as_uri()}

    asyncio.run(look())
