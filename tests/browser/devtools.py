"""A headless Chromium, spoken to over the Chrome DevTools Protocol.

https://chromedevtools.github.io/devtools-protocol/
"""

import asyncio
import itertools
import os
import shutil
import subprocess
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import aiohttp

_NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
_OFF = ("gpu", "quic", "dev-shm-usage", "background-networking", "component-update", "sync")
_FLAGS = ("--headless", "--no-sandbox", "--no-first-run", "--remote-debugging-port=0")


def find_chromium() -> str | None:
    """The browser that `CHROMIUM` names, or the first of the usual names on the path."""
    return os.environ.get("CHROMIUM") or next(filter(None, map(shutil.which, _NAMES)), None)


class Tab:
    """One page of the browser: sends commands, and keeps every event in `events`."""

    def __init__(self, socket: aiohttp.ClientWebSocketResponse):
        self._socket = socket
        self._numbers = itertools.count()
        self._answers: dict[int, asyncio.Future] = {}
        self.events: list[tuple[str, dict]] = []

    async def listen(self) -> None:
        """Sort what the browser says into answers and events, until it stops."""
        async for message in self._socket:
            said = message.json()
            if "id" in said:
                self._answers.pop(said["id"]).set_result(said)
            else:
                self.events.append((said["method"], said["params"]))

    async def send(self, method: str, **params) -> dict:
        """The result of a command. Raises RuntimeError where the browser refuses it."""
        number = next(self._numbers)
        answer = self._answers[number] = asyncio.get_running_loop().create_future()
        await self._socket.send_json({"id": number, "method": method, "params": params})
        said = await asyncio.wait_for(answer, 60)
        if "error" in said:
            raise RuntimeError(f"{method}: {said['error']}")
        return said["result"]

    async def evaluate(self, script: str):
        """The value of a JavaScript expression."""
        said = await self.send("Runtime.evaluate", expression=script, returnByValue=True)
        if "exceptionDetails" in said:
            raise RuntimeError(said["exceptionDetails"])
        return said["result"].get("value")

    def seen(self, *methods: str) -> list[dict]:
        """Parameters of the events of these kinds, in order."""
        return [params for method, params in self.events if method in methods]

    async def open(self, address: str) -> None:
        """Load `address` with all domains enabled that the checks look at."""
        for domain in ("Page", "Runtime", "Log", "Network"):
            await self.send(f"{domain}.enable")
        await self.send("Page.navigate", url=address)
        for _ in range(600):
            if self.seen("Page.loadEventFired"):
                return
            await asyncio.sleep(0.05)
        raise RuntimeError(f"{address} did not load within 30 s")


@asynccontextmanager
async def browsing(chromium: str, profile: Path) -> AsyncIterator[Tab]:
    """A tab of a new browser that keeps its files in `profile` and ends with the block."""
    off = [f"--disable-{name}" for name in _OFF]
    with open(profile / "chromium.log", "w") as log:
        process = subprocess.Popen(
            [chromium, *_FLAGS, *off, f"--user-data-dir={profile / 'data'}", "about:blank"],
            stdout=log,
            stderr=log,
        )
    try:
        port = await _port(profile / "data" / "DevToolsActivePort", process)
        async with aiohttp.ClientSession() as session:
            async with session.get(f"http://127.0.0.1:{port}/json") as answer:
                pages = [p for p in await answer.json() if p["type"] == "page"]
            address = pages[0]["webSocketDebuggerUrl"]
            async with session.ws_connect(address, max_msg_size=0) as socket:
                tab = Tab(socket)
                listening = asyncio.create_task(tab.listen())
                yield tab
                listening.cancel()
    finally:
        process.terminate()
        process.wait(timeout=20)


async def _port(file: Path, process: subprocess.Popen) -> str:
    for _ in range(600):
        if file.is_file() and (lines := file.read_text().split()):
            return lines[0]
        if process.poll() is not None:
            break
        await asyncio.sleep(0.05)
    raise RuntimeError(f"the browser did not start; see {file.parents[1] / 'chromium.log'}")
