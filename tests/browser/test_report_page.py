"""The report as a browser lays it out: nothing is fetched, no word is broken or cut off."""

import json
import os
import re
import shutil
import subprocess
from html import escape, unescape
from pathlib import Path

import pytest
from report_results import WORLDWIDE, hostile, results_in, with_texts, written
from tests.conftest import not_here

_NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
#: Before the page, in whose policy it has a place: what the policy refuses.
WATCH = """<script>
const refused = [];
document.addEventListener("securitypolicyviolation", (e) => refused.push(e.blockedURI));
</script>"""
#: After the page: what it looks like with everything unfolded, as JSON in its place.
MEASURE = """<script>addEventListener("load", () => {
  document.querySelectorAll("details").forEach((d) => { d.open = true; });
  const root = document.documentElement;
  const measured = {
    width: innerWidth,
    overflow: root.scrollWidth - root.clientWidth,
    fetched: performance.getEntriesByType("resource").map((e) => e.name),
    refused,
    beyond: [...document.querySelectorAll("body *")]
      .filter((e) => !e.closest(".scroll, pre, svg") && e.checkVisibility())
      .filter((e) => e.getBoundingClientRect().right > root.clientWidth + 1)
      .map((e) => `${e.tagName}.${e.className}: ${e.textContent.slice(0, 40)}`),
    words: WORDS
  };
  const place = document.createElement("pre");
  place.id = "measured";
  place.textContent = JSON.stringify(measured);
  parent.document.body.append(place);
});</script>"""


@pytest.fixture(scope="module", params=["six runs", "hostile text", "worldwide"])
def html(request, tmp_path_factory) -> str:
    """A report that measures itself."""
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
    html = written(results, root / "report")["report.html"].decode("utf-8")
    words = (Path(__file__).parent / "words.js").read_text(encoding="utf-8").strip().rstrip(";")
    html = html.replace("default-src 'none';", "default-src 'none'; script-src 'unsafe-inline';", 1)
    html = html.replace("<title>", f"{WATCH}<title>", 1)
    html = html.replace("</html>", MEASURE.replace("WORDS", words) + "</html>")
    return html


WIDTHS = (360, 768, 1200, 1600)


def test_nothing_is_fetched_and_no_word_is_broken_or_cut_off(html, tmp_path):
    found = os.environ.get("CHROMIUM") or next(filter(None, map(shutil.which, _NAMES)), None)
    chromium = found or not_here("no Chromium; install one or name it in CHROMIUM")
    # In frames, which may be narrower than any window.
    frames = (
        f'<iframe style="width:{w}px;border:0" srcdoc="{escape(html)}"></iframe>' for w in WIDTHS
    )
    (tmp_path / "page.html").write_text(f"<!doctype html>{''.join(frames)}", encoding="utf-8")
    flags = ("--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--dump-dom")
    place = f"--user-data-dir={tmp_path / 'profile'}"
    command = [chromium, *flags, place, "--window-size=1700,844", (tmp_path / "page.html").as_uri()]
    ended = subprocess.run(command, capture_output=True, timeout=120, check=True)
    shown = re.findall(r'<pre id="measured">(.*?)</pre>', ended.stdout.decode("utf-8"), re.DOTALL)
    measured = sorted((json.loads(unescape(one)) for one in shown), key=lambda one: one["width"])
    assert [one["width"] for one in measured] == [*WIDTHS]
    for width, one in zip(WIDTHS, measured, strict=True):
        words = one.pop("words")
        assert one == {"width": width, "overflow": 0, "fetched": [], "refused": [], "beyond": []}
        assert words["measured"] > 1000
        assert words["found"] == []
        # On a phone a table may scroll in its box, which says so; on a screen none does.
        assert width < 1200 or words["scrolling"] == []
