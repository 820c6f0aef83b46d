"""A Hub on 127.0.0.1 for tests: accounts, repositories, LFS storage, and faults on demand.

It speaks what the client speaks, and checks what is uploaded against the size and sha256 that were
announced. For benchmarks, python -m tests.publishing.hub_server --rate 1000000 prints its address
and serves until its standard input ends, with an account whose token is `hf_benchmark`.
"""

import argparse
import base64
import hashlib
import http.server
import json
import re
import socket
import struct
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from urllib.parse import unquote, urlsplit

BLOCK = 16384


@dataclass
class Account:
    """Who holds a token: `role` is that of the token, `orgs` those that may be written to."""

    name: str
    role: str = "write"
    orgs: tuple[str, ...] = ()


@dataclass
class Fault:
    """What befalls the next `times` requests that match, after `after` that pass: `status`, with
    `headers` and `body`, is answered instead; with `reset_after`, the connection is cut off after
    so many bytes of the body."""

    method: str
    path: str
    status: int | None = None
    reset_after: int | None = None
    times: int = 1
    after: int = 0
    headers: dict = field(default_factory=dict)
    body: dict = field(default_factory=dict)

    def strikes(self, method: str, path: str) -> bool:
        if method != self.method or not re.search(self.path, path):
            return False
        if self.after > 0:
            self.after -= 1
            return False
        self.times -= 1
        return self.times >= 0


#: Files by path: how each is stored, "git" or "lfs", and its bytes or its digest.
Files = dict[str, tuple[str, bytes]]


@dataclass
class Repo:
    """A repository: files by path in every commit, and the branches' newest commits."""

    private: bool
    commits: dict[str, Files] = field(default_factory=dict)
    titles: dict[str, str] = field(default_factory=dict)
    parents: dict[str, str] = field(default_factory=dict)
    branches: dict[str, str] = field(default_factory=dict)

    def commit(self, branch: str, title: str, files: Files) -> str:
        parent = self.branches.get(branch, "")
        made = hashlib.sha1(repr((title, parent, len(self.commits))).encode()).hexdigest()
        self.commits[made], self.titles[made], self.parents[made] = files, title, parent
        self.branches[branch] = made
        return made

    def history(self, revision: str) -> list[str]:
        """Ids of the commits up to `revision`, the newest first; none where it is not there."""
        found, at = [], self.branches.get(revision, revision)
        while at in self.commits:
            found.append(at)
            at = self.parents.get(at, "")
        return found


class Refusal(Exception):
    """Status, message and code."""


class HubServer:
    """The server, its state, and what it was asked: `requests` holds (method, path, status);
    `ignored` are paths that a .gitignore in the repository keeps out."""

    def __init__(self, accounts: dict[str, Account], rate: float | None = None):
        self.accounts, self.rate = accounts, rate
        self.repos: dict[tuple[str, str], Repo] = {}
        self.storage: dict[str, bytes] = {}
        self.faults: list[Fault] = []
        self.requests: list[tuple[str, str, int]] = []
        self.uploads: list[str] = []
        self.ignored: set[str] = set()
        # Uploads arrive while this is set, and after a minute all the same.
        self.receiving = threading.Event()
        self.receiving.set()
        self.wrong: list[str] = []
        self.lock = threading.RLock()
        handler = type("Handler", (_Handler,), {"hub": self})
        self._server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
        self._server.daemon_threads = True
        self.address = f"http://127.0.0.1:{self._server.server_port}"

    def __enter__(self) -> "HubServer":
        threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()

    def files(self, name: str, kind: str = "model", branch: str = "main") -> dict[str, bytes]:
        """What a branch holds, without what the Hub put there itself."""
        repo = self.repos[kind, name]
        found = repo.commits[repo.branches[branch]]
        return {p: self.bytes_of(e) for p, e in found.items() if p != ".gitattributes"}

    def bytes_of(self, entry: tuple[str, bytes]) -> bytes:
        return self.storage[entry[1].decode()] if entry[0] == "lfs" else entry[1]

    def count(self, method: str, path: str) -> int:
        return sum(m == method and bool(re.search(path, p)) for m, p, _ in self.requests)

    def make_repo(self, kind: str, name: str, private: bool) -> Repo:
        repo = self.repos[kind, name] = Repo(private)
        repo.commit("main", "initial commit", {".gitattributes": ("git", b"*.safetensors lfs\n")})
        return repo


_ROUTES: list[tuple[str, str, Callable]] = []
_REPO = r"/api/(model|dataset)s/([^/]+/[^/]+)"
_FILES = r"/(datasets/|)([^/]+/[^/]+)"


def _at(method: str, path: str) -> Callable[[Callable], Callable]:
    def add(act: Callable) -> Callable:
        _ROUTES.append((method, path, act))
        return act

    return add


def _oid(entry: tuple[str, bytes]) -> str:
    """As the Hub names a file's content: by its sha256 in the storage, else as git does."""
    if entry[0] == "lfs":
        return entry[1].decode()
    return hashlib.sha1(b"blob %d\0" % len(entry[1]) + entry[1]).hexdigest()


class _Handler(http.server.BaseHTTPRequestHandler):
    hub: HubServer
    protocol_version = "HTTP/1.1"
    # An answer leaves in one piece, and at once.
    wbufsize, disable_nagle_algorithm = 1 << 16, True

    def log_message(self, *_: object) -> None:
        pass

    def _serve(self) -> None:
        self.path_only = urlsplit(self.path).path
        with self.hub.lock:
            faults = (f for f in self.hub.faults if f.strikes(self.command, self.path_only))
            fault = next(faults, None)
        if fault and fault.reset_after is not None:
            self._read(fault.reset_after)
            return self._cut()
        self.body = self._read()
        if len(self.body) < int(self.headers.get("Content-Length") or 0):
            # The client has gone, or was stopped, in the middle.
            return self._cut()
        if fault:
            return self._answer(fault.body, fault.status, fault.headers)
        try:
            with self.hub.lock:
                for method, path, act in _ROUTES:
                    match = re.fullmatch(path, self.path_only)
                    if match and method == self.command.replace("HEAD", "GET"):
                        return act(self, *map(unquote, match.groups()))
            raise Refusal(404, f"no such address: {self.command} {self.path_only}")
        except Refusal as refusal:
            status, message, *code = refusal.args
            headers = dict(zip(["X-Error-Message", "X-Error-Code"], [message, *code], strict=False))
            return self._answer({"error": message}, status, headers)

    do_GET = do_HEAD = do_POST = do_PUT = _serve

    def _read(self, at_most: int | None = None) -> bytes:
        left = int(self.headers.get("Content-Length") or 0)
        left = left if at_most is None else min(left, at_most)
        if self.command == "PUT":
            self.hub.receiving.wait(60)
        blocks = []
        while left > 0 and (block := self.rfile.read(min(BLOCK, left))):
            blocks.append(block)
            left -= len(block)
            if self.hub.rate and self.command == "PUT":
                time.sleep(len(block) / self.hub.rate)
        return b"".join(blocks)

    def _cut(self) -> None:
        """End the connection the hard way, as a broken network does."""
        self.hub.requests.append((self.command, self.path_only, 0))
        self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.connection.close()
        self.close_connection = True
        self.rfile, self.wfile = open("/dev/null", "rb"), open("/dev/null", "wb")

    def _answer(self, body: object, status: int = 200, headers: dict | None = None) -> None:
        self.hub.requests.append((self.command, self.path_only, status))
        content = body if isinstance(body, bytes) else json.dumps(body).encode()
        self.send_response(status)
        for name, value in {"Content-Type": "application/json", **(headers or {})}.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(content)

    def account(self) -> Account:
        given = self.headers.get("Authorization", "").removeprefix("Bearer ")
        if given not in self.hub.accounts:
            raise Refusal(401, "Invalid credentials in Authorization header")
        return self.hub.accounts[given]

    def may_write(self, name: str) -> None:
        account, owner = self.account(), name.split("/")[0]
        if owner not in (account.name, *account.orgs):
            raise Refusal(403, f"You don't have the rights to write under the namespace {owner!r}")
        if account.role != "write":
            raise Refusal(403, "This token lacks the permission to write to this repository")

    def repo(self, kind: str, name: str) -> Repo:
        account, repo = self.account(), self.hub.repos.get((kind, name))
        owners = (account.name, *account.orgs)
        if repo is None or (repo.private and name.split("/")[0] not in owners):
            raise Refusal(404, "Repository not found", "RepoNotFound")
        return repo

    def held(self, kind: str, name: str, revision: str) -> tuple[str, Files]:
        repo = self.repo(kind, name)
        found = repo.branches.get(revision, revision)
        if found not in repo.commits:
            raise Refusal(404, f"Invalid rev id: {revision}", "RevisionNotFound")
        return found, repo.commits[found]

    @_at("POST", r"/api/repos/create")
    def create(self) -> None:
        asked, account = json.loads(self.body), self.account()
        name, kind = f"{asked['organization'] or account.name}/{asked['name']}", asked["type"]
        self.may_write(name)
        url = f"{self.hub.address}/{'datasets/' if kind == 'dataset' else ''}{name}"
        if (kind, name) in self.hub.repos:
            return self._answer({"error": "You already created this repo", "url": url}, 409)
        self.hub.make_repo(kind, name, bool(asked.get("private")))
        return self._answer({"url": url, "name": name, "id": name})

    @_at("GET", _REPO)
    @_at("GET", rf"{_REPO}/revision/([^/]+)")
    def info(self, kind: str, name: str, revision: str = "main") -> None:
        sha, files = self.held(kind, name, revision)
        siblings = [{"rfilename": path} for path in sorted(files)]
        private = self.repo(kind, name).private
        answer = {"id": name, "sha": sha, "private": private, "siblings": siblings}
        self._answer(answer | {"tags": [], "downloads": 0, "likes": 0})

    @_at("GET", rf"{_REPO}/tree/([^/]+)")
    def tree(self, kind: str, name: str, revision: str) -> None:
        entries = []
        for path, entry in sorted(self.held(kind, name, revision)[1].items()):
            size = len(self.hub.bytes_of(entry))
            entries.append({"type": "file", "path": path, "size": size, "oid": _oid(entry)})
        self._answer(entries)

    @_at("POST", r"/api/validate-yaml")
    def validate(self) -> None:
        self._answer({"errors": [], "warnings": []})

    @_at("POST", rf"{_REPO}/preupload/([^/]+)")
    def preupload(self, kind: str, name: str, revision: str) -> None:
        self.may_write(name)
        there, answers = self.held(kind, name, revision)[1], []
        for file in json.loads(self.body)["files"]:
            path = file["path"]
            binary = b"\0" in base64.b64decode(file["sample"]) or file["size"] > 10_000_000
            answer = {"path": path, "uploadMode": "lfs" if binary else "regular"}
            answers.append(answer | {"shouldIgnore": path in self.hub.ignored})
            if path in there:
                answers[-1]["oid"] = _oid(there[path])
        self._answer({"files": answers})

    @_at("POST", rf"{_FILES}\.git/info/lfs/objects/batch")
    def batch(self, prefix: str, name: str) -> None:
        self.may_write(name)
        self.repo("dataset" if prefix else "model", name)
        objects = []
        for asked in json.loads(self.body)["objects"]:
            oid, size = asked["oid"], asked["size"]
            answer = {"oid": oid, "size": size}
            if oid not in self.hub.storage:
                stored = f"{self.hub.address}/storage/{oid}/{size}?X-Amz-Signature=signed-secret"
                verify = {"href": f"{self.hub.address}/verify/{oid}"}
                answer["actions"] = {"upload": {"href": stored}, "verify": verify}
            objects.append(answer)
        self._answer({"transfer": "basic", "objects": objects})

    @_at("PUT", r"/storage/([0-9a-f]+)/(\d+)")
    def store(self, oid: str, size: str) -> None:
        if self.headers.get("Authorization"):
            self.hub.wrong.append("the token was sent to the storage")
        if len(self.body) != int(size) or hashlib.sha256(self.body).hexdigest() != oid:
            self.hub.wrong.append(f"{oid}: {len(self.body)} bytes of {size} came")
            raise Refusal(400, "the content is not what was announced")
        self.hub.storage[oid] = self.body
        self.hub.uploads.append(oid)
        self._answer({})

    @_at("POST", r"/verify/([0-9a-f]+)")
    def verify(self, oid: str) -> None:
        self.account()
        if len(self.hub.storage.get(oid, b"")) != json.loads(self.body)["size"]:
            raise Refusal(404, "there is no such object")
        self._answer({})

    @_at("POST", rf"{_REPO}/commit/([^/]+)")
    def commit(self, kind: str, name: str, revision: str) -> None:
        self.may_write(name)
        repo, files = self.repo(kind, name), dict(self.held(kind, name, revision)[1])
        header, *lines = (json.loads(line) for line in self.body.splitlines())
        if header["value"].get("parentCommit") not in (None, repo.branches.get(revision)):
            raise Refusal(412, "A commit has happened since. Please refresh and try again.")
        for line in lines:
            value = line["value"]
            if line["key"] == "file":
                files[value["path"]] = ("git", base64.b64decode(value["content"]))
            elif line["key"] == "lfsFile":
                if value["oid"] not in self.hub.storage:
                    raise Refusal(400, f"there is no LFS object {value['oid']}")
                files[value["path"]] = ("lfs", value["oid"].encode())
            elif line["key"] == "deletedFile":
                del files[value["path"]]
        made = repo.commit(revision, header["value"]["summary"], files)
        url = f"{self.hub.address}/{name}/commit/{made}"
        self._answer({"commitUrl": url, "commitOid": made, "success": True})

    @_at("GET", rf"{_FILES}/resolve/([^/]+)/(.+)")
    def resolve(self, prefix: str, name: str, revision: str, path: str) -> None:
        sha, files = self.held("dataset" if prefix else "model", name, revision)
        if path not in files:
            raise Refusal(404, "Entry not found", "EntryNotFound")
        content = self.hub.bytes_of(files[path])
        tag = hashlib.sha256(content).hexdigest()
        self._answer(content, 200, {"ETag": f'"{tag}"', "X-Repo-Commit": sha})


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("--rate", type=float, help="bytes per second of an upload")
    given = arguments.parse_args()
    with HubServer({"hf_benchmark": Account("someone")}, given.rate) as hub:
        print(hub.address, flush=True)
        sys.stdin.read()


if __name__ == "__main__":
    main()
