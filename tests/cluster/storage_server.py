"""A server that speaks the protocol of Google Cloud Storage, on this machine."""

import json
import socket
import subprocess
import urllib.error
import urllib.parse
import urllib.request
from dataclasses import dataclass, field
from pathlib import Path

from tests.conftest import waited_for


@dataclass
class StorageServer:
    """gcp-storage-emulator, run by `python`; `environment` makes clients use it."""

    python: str
    log: Path
    bucket: str = "mlm-test"
    address: str = ""
    environment: dict[str, str] = field(default_factory=dict)
    _process: subprocess.Popen | None = None

    def start(self) -> None:
        """Start the server with one empty bucket in memory, and wait until it answers."""
        with socket.socket() as listener:
            listener.bind(("127.0.0.1", 0))
            port = listener.getsockname()[1]
        self.address = f"http://127.0.0.1:{port}"
        self.environment = {"STORAGE_EMULATOR_HOST": self.address}
        command = [
            str(Path(self.python).parent / "gcp-storage-emulator"),
            *("start", "--host=127.0.0.1", f"--port={port}", "--in-memory"),
            f"--default-bucket={self.bucket}",
        ]
        with self.log.open("w") as output:
            self._process = subprocess.Popen(command, stdout=output, stderr=subprocess.STDOUT)
        waited_for(self._answers, 60, self.log.read_text)

    def _answers(self) -> bool:
        assert self._process.poll() is None, self.log.read_text()
        try:
            return self.names() == []
        except (urllib.error.URLError, ConnectionError):
            return False

    def names(self) -> list[str]:
        return self._listed(f"/{self.bucket}/o")

    def buckets(self) -> list[str]:
        return self._listed("?project=test")

    def _listed(self, place: str) -> list[str]:
        with urllib.request.urlopen(f"{self.address}/storage/v1/b{place}") as got:
            return sorted(item["name"] for item in json.load(got).get("items", []))

    def content(self, name: str) -> bytes:
        quoted = urllib.parse.quote(name, safe="")
        place = f"{self.address}/download/storage/v1/b/{self.bucket}/o/{quoted}?alt=media"
        with urllib.request.urlopen(place) as got:
            return got.read()

    def put(self, name: str, content: bytes) -> None:
        """Make `content` the object `name`, as anybody with the right to write can."""
        quoted = urllib.parse.quote(name, safe="")
        place = f"{self.address}/upload/storage/v1/b/{self.bucket}/o?uploadType=media&name={quoted}"
        headers = {"Content-Type": "application/octet-stream"}
        urllib.request.urlopen(urllib.request.Request(place, content, headers)).close()

    def stop(self) -> None:
        self._process.terminate()
        self._process.wait(20)
