import asyncio
import functools
import http.server
import os
import subprocess
import threading
from pathlib import Path

import pytest
from devtools import browsing, find_chromium

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
FOUND = """[...document.querySelectorAll(".md-search-result__link")].map((a) => a.href)"""


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """The address of the site, served on this machine."""
    mkdocs = ROOT / ".venv-docs" / "bin" / "mkdocs"
    if not (mkdocs.exists() and find_chromium()):
        missing = "no Chromium, or no .venv-docs; CONTRIBUTING.md says how to make it"
        if os.environ.get("CI") == "true":
            pytest.fail(missing)
        pytest.skip(missing)
    place = tmp_path_factory.mktemp("site")
    subprocess.run([mkdocs, "build", "--quiet", "--site-dir", place], cwd=ROOT, check=True)

    class Silent(http.server.SimpleHTTPRequestHandler):
        def log_message(self, *_):
            pass

    handler = functools.partial(Silent, directory=place)
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


@pytest.mark.parametrize(
    ("words", "page"),
    [
        ("loss stuck", "loss-stuck.html"),
        ("GPU", "gpu.html"),
        ("sequence_length", "configuration.html"),
    ],
)
def test_the_search_finds_the_page_of_a_question(site, words, page, tmp_path):
    async def searched() -> tuple[list[str], list[str]]:
        async with browsing(find_chromium(), tmp_path) as tab:
            await tab.open(f"{site}/index.html?q={words.replace(' ', '+')}")
            for _ in range(200):
                if found := await tab.evaluate(FOUND):
                    break
                await asyncio.sleep(0.1)
            requests = tab.seen("Network.requestWillBeSent")
            return found, [request["request"]["url"] for request in requests]

    found, requests = asyncio.run(searched())
    assert any(page in address for address in found)
    assert all(url.startswith((site, "data:", "blob:")) for url in requests), requests
