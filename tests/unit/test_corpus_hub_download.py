"""The Hub over a network: a server on this machine answers for one dataset at one commit.

It knows the few requests that the library makes to list and fetch a repository. Everything
on this side of the wire is the real client.
"""

import hashlib
import http.server
import json
import os
import re
import subprocess
import sys
import threading
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

SCRIPTS = Path(__file__).parents[2] / "scripts"
COMMIT = "c" * 40
NAMES = {"train": "train", "test": "held"}
READ = """
import json, sys
from mlm.foundations.errors import MlmError
from mlm.config.corpus import Corpus
from mlm.corpus.hub import hub_streams
splits, wanted = json.loads(sys.argv[1])
for dataset, config, revision in wanted:
    hub = {"dataset": dataset, "config": config, "revision": revision}
    try:
        streams = hub_streams(hub, splits, Corpus())
        found = {split: [d.text for d in stream()] for split, stream in streams.items()}
    except MlmError as error:
        found = str(error)
    print(json.dumps(found))
"""


class OneDataset(http.server.BaseHTTPRequestHandler):
    """The repository in `root`, as the dataset made/up."""

    root: Path

    def answer(self, code: int, body: bytes = b"", **headers: str) -> None:
        self.send_response(code)
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command == "GET":
            self.wfile.write(body)

    def do_GET(self) -> None:
        path = self.path.partition("?")[0]
        asked = re.fullmatch(r"/datasets/made/up/resolve/(\w+)/(.*)", path)
        if asked is None and not path.startswith("/api/datasets/made/up/"):
            return self.answer(404, X_Error_Code="RepoNotFound")
        if asked is None:
            return self.answer(200, json.dumps(self.listed(path)).encode())
        file = self.root / asked[2]
        if asked[1] != COMMIT:
            return self.answer(404, X_Error_Code="RevisionNotFound")
        if not file.is_file():
            return self.answer(404, X_Error_Code="EntryNotFound", X_Repo_Commit=COMMIT)
        body = file.read_bytes()
        tag = hashlib.sha256(body).hexdigest()
        return self.answer(200, body, ETag=f'"{tag}"', X_Repo_Commit=COMMIT)

    do_HEAD = do_GET

    def listed(self, path: str) -> object:
        """The revision's description, or the files and folders in one folder of it."""
        if "/tree/" not in path:
            return {"id": "made/up", "sha": COMMIT, "siblings": [], "tags": []}
        folder = self.root / path.partition(f"/tree/{COMMIT}")[2].strip("/")
        kinds = {True: "directory", False: "file"}
        return [
            {
                "type": kinds[entry.is_dir()],
                "path": entry.relative_to(self.root).as_posix(),
                "size": entry.stat().st_size,
                "oid": hashlib.sha1(entry.name.encode()).hexdigest(),
            }
            for entry in sorted(folder.iterdir())
        ]

    def log_message(self, *_: object) -> None:
        """Say nothing on the terminal."""


@pytest.fixture(scope="module")
def hub(tmp_path_factory):
    """The server's address, with a home directory for the client: made/up is not cached yet."""
    root = tmp_path_factory.mktemp("repository")
    (root / "data").mkdir()
    for split in ("train", "held"):
        table = pa.table({"text": [f"{split} {i}" for i in range(3)], "id": range(3)})
        pq.write_table(table, root / "data" / f"{split}.parquet")
    files = [{"split": s, "path": f"data/{s}.parquet"} for s in ("train", "held")]
    configs = {"configs": [{"config_name": "small", "data_files": files}]}
    (root / "README.md").write_text(f"---\n{json.dumps(configs)}\n---\n")
    handler = type("Handler", (OneDataset,), {"root": root})
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}", tmp_path_factory.mktemp("home")
    server.shutdown()
    server.server_close()


def read(hub, *wanted: tuple[str, str, str], **environment: str) -> list:
    """What becomes of each dataset, in one process: the client takes its settings on import."""
    address, home = hub
    own = {"PYTHONPATH": str(SCRIPTS), "HF_ENDPOINT": address, "HF_HOME": str(home)}
    own |= {"HF_HUB_DISABLE_XET": "1", "HF_HUB_DISABLE_TELEMETRY": "1", "NO_PROXY": "127.0.0.1"}
    done = subprocess.run(
        [sys.executable, "-c", READ, json.dumps([NAMES, wanted])],
        env=os.environ | own | environment,
        cwd=home,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


def test_a_dataset_is_downloaded_at_its_commit_and_then_needs_no_network(hub):
    expected = {split: [f"{n} {i}" for i in range(3)] for split, n in NAMES.items()}
    there, no_commit, no_name, no_configuration = read(
        hub,
        ("made/up", "small", COMMIT),
        ("made/up", "small", "d" * 40),
        ("made/down", "small", COMMIT),
        ("made/up", "large", COMMIT),
    )
    assert there == expected
    assert f"Revision '{'d' * 40}' doesn't exist" in no_commit
    assert "'made/down' doesn't exist on the Hub or cannot be accessed" in no_name
    assert "corpus.hub.config: BuilderConfig 'large' not found" in no_configuration
    nowhere = {"HF_HUB_OFFLINE": "1", "HF_ENDPOINT": "http://127.0.0.1:9"}
    assert read(hub, ("made/up", "small", COMMIT), **nowhere) == [expected]
