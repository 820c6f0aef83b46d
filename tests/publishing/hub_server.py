"""A Hub on 127.0.0.1: tokens, repositories, a storage that speaks Xet, and refusals on demand.

It speaks what the client speaks. Of a large file it knows what the client says: its sha256.
"""

import base64
import hashlib
import http.server
import json
import re
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from urllib.parse import unquote, urlsplit


@dataclass
class Repo:
    """A repository on `main`: each file as "git" and its bytes, or as "lfs" and its sha256."""

    private: bool
    files: dict[str, tuple[str, bytes]] = field(default_factory=dict)
    commits: list[str] = field(default_factory=lambda: ["0" * 40])


class Refusal(Exception):
    """Status, message and code."""


class HubServer:
    """The server and its state. `writers` are the tokens of the user `me` by whether they may
    write; `requests` holds (method, path, status), `uploads` the names of the blocks that were
    stored, `ignored` the paths that a .gitignore keeps out, and `refused` a pattern of addresses
    that get status 400."""

    def __init__(self, writers: dict[str, bool]):
        self.writers = writers
        self.repos: dict[str, Repo] = {}
        self.refused = "nothing"
        self.requests: list[tuple[str, str, int]] = []
        self.uploads: list[str] = []
        self.ignored: set[str] = set()
        self.wrong: list[str] = []
        self.lock = threading.RLock()
        handler = type("Handler", (_Handler,), {"hub": self})
        self._server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
        self._server.daemon_threads = True
        self.address = f"http://127.0.0.1:{self._server.server_port}"

    def __enter__(self):
        threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()

    def files(self, name: str) -> dict[str, bytes]:
        """The content of small files, by their paths."""
        files = self.repos[name].files.items()
        return {path: content for path, (mode, content) in files if mode == "git"}

    def digests(self, name: str) -> dict[str, str]:
        """The sha256 of all files, by their paths."""
        return {
            path: content.decode() if mode == "lfs" else hashlib.sha256(content).hexdigest()
            for path, (mode, content) in self.repos[name].files.items()
        }


def _oid(entry: tuple[str, bytes]) -> str:
    """As the Hub names a file's content: by its sha256 in the storage, else as git does."""
    if entry[0] == "lfs":
        return entry[1].decode()
    return hashlib.sha1(b"blob %d\0" % len(entry[1]) + entry[1]).hexdigest()


_ROUTES: list[tuple[str, str, Callable]] = []
_REPO = r"/api/models/([^/]+/[^/]+)"


def _at(method: str, path: str) -> Callable[[Callable], Callable]:
    def add(act: Callable) -> Callable:
        _ROUTES.append((method, path, act))
        return act

    return add


class _Handler(http.server.BaseHTTPRequestHandler):
    hub: HubServer
    protocol_version = "HTTP/1.1"
    # An answer leaves in one piece, and at once.
    wbufsize, disable_nagle_algorithm = 1 << 16, True

    def log_message(self, *_: object) -> None:
        pass

    def _serve(self) -> None:
        self.path_only = urlsplit(self.path).path
        self.body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        try:
            if re.search(self.hub.refused, self.path_only):
                raise Refusal(400, "Storage limit reached")
            with self.hub.lock:
                for method, path, act in _ROUTES:
                    match = re.fullmatch(path, self.path_only)
                    if match and method == self.command:
                        return act(self, *map(unquote, match.groups()))
            raise Refusal(404, f"no such address: {self.command} {self.path_only}")
        except Refusal as refusal:
            status, message, *code = refusal.args
            headers = dict(zip(["X-Error-Message", "X-Error-Code"], [message, *code], strict=False))
            return self._answer({"error": message}, status, headers)

    do_GET = do_POST = do_PUT = _serve

    def _answer(self, body: object, status: int = 200, headers: dict | None = None) -> None:
        self.hub.requests.append((self.command, self.path_only, status))
        content = json.dumps(body).encode()
        self.send_response(status)
        for name, value in {"Content-Type": "application/json", **(headers or {})}.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def token(self) -> str:
        token = self.headers.get("Authorization", "").removeprefix("Bearer ")
        if token not in self.hub.writers:
            raise Refusal(401, "Invalid credentials in Authorization header")
        return token

    def may_write(self, name: str) -> None:
        if not self.hub.writers[self.token()] or not name.startswith("me/"):
            raise Refusal(403, f"You don't have the rights to write to {name}")

    def repo(self, name: str) -> Repo:
        self.token()
        repo = self.hub.repos.get(name)
        if repo is None or (repo.private and not name.startswith("me/")):
            raise Refusal(404, "Repository not found", "RepoNotFound")
        return repo

    @_at("POST", r"/api/repos/create")
    def create(self) -> None:
        wanted = json.loads(self.body)
        name = f"{wanted.get('organization') or 'me'}/{wanted['name']}"
        self.may_write(name)
        status = 409 if name in self.hub.repos else 200
        self.hub.repos.setdefault(name, Repo(wanted.get("visibility") == "private"))
        self._answer({"url": f"{self.hub.address}/{name}", "name": name, "id": name}, status)

    @_at("GET", rf"{_REPO}(?:/revision/main)?")
    def info(self, name: str) -> None:
        repo = self.repo(name)
        answer = {"id": name, "sha": repo.commits[-1], "private": repo.private}
        self._answer(answer | {"tags": [], "downloads": 0, "likes": 0})

    @_at("GET", rf"{_REPO}/tree/[^/]+")
    def tree(self, name: str) -> None:
        files = sorted(self.repo(name).files.items())
        named = ((path, _oid(entry)) for path, entry in files)
        self._answer([{"type": "file", "path": p, "size": 0, "oid": oid} for p, oid in named])

    @_at("POST", r"/api/validate-yaml")
    def validate(self) -> None:
        self._answer({"errors": [], "warnings": []})

    @_at("POST", rf"{_REPO}/preupload/main")
    def preupload(self, name: str) -> None:
        self.may_write(name)
        there, answers = self.repo(name).files, []
        for file in json.loads(self.body)["files"]:
            path = file["path"]
            mode = "lfs" if b"\0" in base64.b64decode(file["sample"]) else "regular"
            answer = {"path": path, "uploadMode": mode, "shouldIgnore": path in self.hub.ignored}
            answers.append(answer | ({"oid": _oid(there[path])} if path in there else {}))
        self._answer({"files": answers})

    @_at("GET", rf"{_REPO}/xet-write-token/main")
    def storage_token(self, name: str) -> None:
        self.may_write(name)
        address, token = f"{self.hub.address}/storage", "storage-token"
        answer = {"casUrl": address, "accessToken": token, "exp": 2**32}
        names = ("X-Xet-Cas-Url", "X-Xet-Access-Token", "X-Xet-Token-Expiration")
        self._answer(answer, headers=dict(zip(names, map(str, answer.values()), strict=True)))

    @_at("POST", r"/storage/v1/xorbs/default/([0-9a-f]+)")
    def store(self, block: str) -> None:
        if self.headers.get("Authorization") != "Bearer storage-token":
            self.hub.wrong.append("the Hub's token was sent to the storage")
        self.hub.uploads.append(block)
        self._answer({"was_inserted": True})

    @_at("POST", r"/storage/v1/shards")
    def finish(self) -> None:
        self._answer({"result": 1})

    @_at("POST", rf"{_REPO}/commit/main")
    def commit(self, name: str) -> None:
        self.may_write(name)
        repo = self.repo(name)
        for line in map(json.loads, self.body.splitlines()[1:]):
            value = line["value"]
            if line["key"] == "file":
                repo.files[value["path"]] = ("git", base64.b64decode(value["content"]))
            elif line["key"] == "lfsFile":
                repo.files[value["path"]] = ("lfs", value["oid"].encode())
            elif line["key"] == "deletedFile":
                del repo.files[value["path"]]
        repo.commits.append(hashlib.sha1(repr((repo.commits, self.body)).encode()).hexdigest())
        url = f"{self.hub.address}/{name}/commit/{repo.commits[-1]}"
        self._answer({"commitUrl": url, "commitOid": repo.commits[-1], "success": True})
