"""A Hub on 127.0.0.1 for tests: accounts, repositories, LFS storage, and faults on demand.

It speaks what the client speaks: whoami, repos/create, info, tree, preupload, the LFS batch with
uploads, commits in NDJSON, branches, and downloads. Whatever is uploaded
is checked against the size and sha256 that were announced.

    python -m tests.publishing.hub_server --rate 1000000

prints its address and serves until it is ended, with an account whose token is `hf_benchmark`.
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
from urllib.parse import unquote, urlsplit

from tests.publishing.hub_model import Account, Fault, Repo

BLOCK = 16384


class Refusal(Exception):
    """An answer that is no success."""

    def __init__(self, status: int, message: str, code: str | None = None):
        super().__init__(message)
        self.status, self.message, self.code = status, message, code


class HubServer:
    """The server, its state, and what it was asked: `requests` holds (method, path, status)."""

    def __init__(self, accounts: dict[str, Account], *, rate: float | None = None, port: int = 0):
        self.accounts, self.rate = accounts, rate
        self.repos: dict[tuple[str, str], Repo] = {}
        self.storage: dict[str, bytes] = {}
        self.faults: list[Fault] = []
        self.requests: list[tuple[str, str, int]] = []
        self.uploads: list[str] = []
        #: Paths that a .gitignore in the repository keeps out.
        self.ignored: set[str] = set()
        # Uploads arrive while this is set, and after a minute all the same.
        self.receiving = threading.Event()
        self.receiving.set()
        self.wrong: list[str] = []
        self.lock = threading.RLock()
        handler = type("Handler", (_Handler,), {"hub": self})
        self._server = http.server.ThreadingHTTPServer(("127.0.0.1", port), handler)
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
        """The bytes of a file: in git itself, or in the LFS storage."""
        return self.storage[entry[1].decode()] if entry[0] == "lfs" else entry[1]

    def count(self, method: str, path: str) -> int:
        """How many requests there were whose path matches."""
        return sum(m == method and bool(re.search(path, p)) for m, p, _ in self.requests)

    def make_repo(self, kind: str, name: str, private: bool) -> Repo:
        """A repository with the first commit that the Hub makes."""
        repo = self.repos[kind, name] = Repo(private)
        repo.commit("main", "initial commit", {".gitattributes": ("git", b"*.safetensors lfs\n")})
        return repo


class _Handler(http.server.BaseHTTPRequestHandler):
    hub: HubServer
    protocol_version = "HTTP/1.1"
    # An answer leaves in one piece, and at once.
    wbufsize, disable_nagle_algorithm = 1 << 16, True

    def log_message(self, *_: object) -> None:
        """Say nothing on the terminal."""

    def do_GET(self) -> None:
        self._serve("GET")

    def do_HEAD(self) -> None:
        self._serve("HEAD")

    def do_POST(self) -> None:
        self._serve("POST")

    def do_PUT(self) -> None:
        self._serve("PUT")

    def _serve(self, method: str) -> None:
        self.path_only = urlsplit(self.path).path
        with self.hub.lock:
            fault = next((f for f in self.hub.faults if f.strikes(method, self.path_only)), None)
        if fault and fault.reset_after is not None:
            self._read(fault.reset_after)
            return self._cut(method)
        self.body = self._read()
        if len(self.body) < int(self.headers.get("Content-Length") or 0):
            # The client has gone, or was stopped, in the middle.
            return self._cut(method)
        if fault:
            return self._answer(fault.status, fault.body, fault.headers)
        try:
            with self.hub.lock:
                for pattern, verb, act in _ROUTES:
                    match = re.fullmatch(pattern, self.path_only)
                    if match and verb == method.replace("HEAD", "GET"):
                        return act(self, *map(unquote, match.groups()))
            raise Refusal(404, f"no such address: {method} {self.path_only}")
        except Refusal as refusal:
            headers = {"X-Error-Message": refusal.message}
            headers |= {"X-Error-Code": refusal.code} if refusal.code else {}
            self._answer(refusal.status, {"error": refusal.message}, headers)

    def _read(self, at_most: int | None = None) -> bytes:
        left = int(self.headers.get("Content-Length") or 0)
        left = left if at_most is None else min(left, at_most)
        if self.command == "PUT":
            self.hub.receiving.wait(60)
        blocks = []
        while left > 0:
            block = self.rfile.read(min(BLOCK, left))
            if not block:
                break
            blocks.append(block)
            left -= len(block)
            if self.hub.rate and self.command == "PUT":
                time.sleep(len(block) / self.hub.rate)
        return b"".join(blocks)

    def _cut(self, method: str) -> None:
        """End the connection the hard way, as a broken network does."""
        self.hub.requests.append((method, self.path_only, 0))
        self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.connection.close()
        self.close_connection = True
        self.rfile, self.wfile = open("/dev/null", "rb"), open("/dev/null", "wb")

    def _answer(self, status: int, body: object = None, headers: dict | None = None) -> None:
        self.hub.requests.append((self.command, self.path_only, status))
        content = body if isinstance(body, bytes) else json.dumps(body).encode()
        self.send_response(status)
        for name, value in {"Content-Type": "application/json", **(headers or {})}.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(content)

    # Who asks, and for what.

    def account(self) -> Account:
        given = self.headers.get("Authorization", "")
        account = self.hub.accounts.get(given.removeprefix("Bearer "))
        if account is None:
            raise Refusal(401, "Invalid credentials in Authorization header")
        return account

    def may_write(self, name: str) -> None:
        account, owner = self.account(), name.split("/")[0]
        if owner not in (account.name, *account.orgs):
            raise Refusal(403, f"You don't have the rights to write under the namespace {owner!r}")
        if account.role in ("none", "read"):
            raise Refusal(403, "This token lacks the permission to write to this repository")

    def repo(self, kind: str, name: str) -> Repo:
        account = self.account()
        repo = self.hub.repos.get((kind.removesuffix("s"), name))
        owners = (account.name, *account.orgs)
        if repo is None or (repo.private and name.split("/")[0] not in owners):
            raise Refusal(404, "Repository not found", "RepoNotFound")
        return repo

    def at(self, repo: Repo, revision: str) -> str:
        found = repo.branches.get(revision, revision)
        if found not in repo.commits:
            raise Refusal(404, f"Invalid rev id: {revision}", "RevisionNotFound")
        return found

    # The answers.

    def whoami(self) -> None:
        account = self.account()
        token = {"displayName": "test", "role": account.role}
        orgs = [{"name": name, "type": "org"} for name in account.orgs]
        auth = {"type": "access_token", "accessToken": token}
        self._answer(200, {"name": account.name, "type": "user", "orgs": orgs, "auth": auth})

    def create(self) -> None:
        asked, account = json.loads(self.body), self.account()
        name, kind = f"{asked['organization'] or account.name}/{asked['name']}", asked["type"]
        self.may_write(name)
        url = f"{self.hub.address}/{'datasets/' if kind == 'dataset' else ''}{name}"
        if (kind, name) in self.hub.repos:
            return self._answer(409, {"error": "You already created this repo", "url": url})
        self.hub.make_repo(kind, name, bool(asked.get("private")))
        return self._answer(200, {"url": url, "name": name, "id": name})

    def info(self, kind: str, name: str, revision: str = "main") -> None:
        repo = self.repo(kind, name)
        sha = self.at(repo, revision)
        siblings = [{"rfilename": path} for path in sorted(repo.commits[sha])]
        answer = {"id": name, "sha": sha, "private": repo.private, "siblings": siblings}
        self._answer(200, answer | {"tags": [], "downloads": 0, "likes": 0})

    def tree(self, kind: str, name: str, revision: str) -> None:
        repo = self.repo(kind, name)
        found = sorted(repo.commits[self.at(repo, revision)].items())
        entries = []
        for path, entry in found:
            content = self.hub.bytes_of(entry)
            shown = {"type": "file", "path": path, "size": len(content), "oid": self.oid(entry)}
            if entry[0] == "lfs":
                shown["lfs"] = {"oid": shown["oid"], "size": len(content), "pointerSize": 134}
            entries.append(shown)
        self._answer(200, entries)

    def validate(self) -> None:
        self._answer(200, {"errors": [], "warnings": []})

    def preupload(self, kind: str, name: str, revision: str) -> None:
        self.may_write(name)
        repo = self.repo(kind, name)
        there = repo.commits[self.at(repo, revision)]
        answers = []
        for file in json.loads(self.body)["files"]:
            path = file["path"]
            binary = b"\0" in base64.b64decode(file["sample"]) or file["size"] > 10_000_000
            answer = {"path": path, "uploadMode": "lfs" if binary else "regular"}
            answers.append(answer | {"shouldIgnore": path in self.hub.ignored})
            if path in there:
                answers[-1]["oid"] = self.oid(there[path])
        self._answer(200, {"files": answers})

    def oid(self, entry: tuple[str, bytes]) -> str:
        """As the Hub names a file's content: by its sha256 in the storage, else as git does."""
        if entry[0] == "lfs":
            return entry[1].decode()
        return hashlib.sha1(b"blob %d\0" % len(entry[1]) + entry[1]).hexdigest()

    def batch(self, prefix: str | None, name: str) -> None:
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
        self._answer(200, {"transfer": "basic", "objects": objects})

    def store(self, oid: str, size: str) -> None:
        if self.headers.get("Authorization"):
            self.hub.wrong.append("the token was sent to the storage")
        if len(self.body) != int(size) or hashlib.sha256(self.body).hexdigest() != oid:
            self.hub.wrong.append(f"{oid}: {len(self.body)} bytes of {size} came")
            raise Refusal(400, "the content is not what was announced")
        self.hub.storage[oid] = self.body
        self.hub.uploads.append(oid)
        self._answer(200, {})

    def verify(self, oid: str) -> None:
        self.account()
        asked = json.loads(self.body)
        if len(self.hub.storage.get(oid, b"")) != asked["size"]:
            raise Refusal(404, "there is no such object")
        self._answer(200, {})

    def commit(self, kind: str, name: str, revision: str) -> None:
        self.may_write(name)
        repo = self.repo(kind, name)
        lines = [json.loads(line) for line in self.body.splitlines()]
        header, head = lines[0]["value"], repo.branches.get(revision)
        if header.get("parentCommit") not in (None, head):
            raise Refusal(412, "A commit has happened since. Please refresh and try again.")
        files = dict(repo.commits[self.at(repo, revision)])
        for line in lines[1:]:
            value = line["value"]
            if line["key"] == "file":
                files[value["path"]] = ("git", base64.b64decode(value["content"]))
            elif line["key"] == "lfsFile":
                if value["oid"] not in self.hub.storage:
                    raise Refusal(400, f"there is no LFS object {value['oid']}")
                files[value["path"]] = ("lfs", value["oid"].encode())
            elif line["key"] == "deletedFile":
                del files[value["path"]]
        made = repo.commit(revision, header["summary"], files)
        url = f"{self.hub.address}/{name}/commit/{made}"
        self._answer(200, {"commitUrl": url, "commitOid": made, "success": True})

    def branch(self, kind: str, name: str, branch: str) -> None:
        self.may_write(name)
        repo = self.repo(kind, name)
        if branch in repo.branches:
            raise Refusal(409, "Reference already exists")
        start = json.loads(self.body or b"{}").get("startingPoint", "main")
        repo.branches[branch] = self.at(repo, start)
        self._answer(200, {})

    def resolve(self, prefix: str | None, name: str, revision: str, path: str) -> None:
        repo = self.repo("dataset" if prefix else "model", name)
        sha = self.at(repo, revision)
        if path not in repo.commits[sha]:
            raise Refusal(404, "Entry not found", "EntryNotFound")
        content = self.hub.bytes_of(repo.commits[sha][path])
        tag = hashlib.sha256(content).hexdigest()
        self._answer(200, content, {"ETag": f'"{tag}"', "X-Repo-Commit": sha})


_KIND, _NAME = r"/api/(models|datasets)", r"([^/]+/[^/]+)"
_ROUTES: list[tuple[str, str, Callable]] = [
    (r"/api/whoami-v2", "GET", _Handler.whoami),
    (r"/api/repos/create", "POST", _Handler.create),
    (r"/api/validate-yaml", "POST", _Handler.validate),
    (rf"{_KIND}/{_NAME}", "GET", _Handler.info),
    (rf"{_KIND}/{_NAME}/revision/([^/]+)", "GET", _Handler.info),
    (rf"{_KIND}/{_NAME}/tree/([^/]+)", "GET", _Handler.tree),
    (rf"{_KIND}/{_NAME}/preupload/([^/]+)", "POST", _Handler.preupload),
    (rf"{_KIND}/{_NAME}/commit/([^/]+)", "POST", _Handler.commit),
    (rf"{_KIND}/{_NAME}/branch/([^/]+)", "POST", _Handler.branch),
    (rf"/(datasets/|){_NAME}\.git/info/lfs/objects/batch", "POST", _Handler.batch),
    (r"/storage/([0-9a-f]+)/(\d+)", "PUT", _Handler.store),
    (r"/verify/([0-9a-f]+)", "POST", _Handler.verify),
    (rf"/(datasets/|){_NAME}/resolve/([^/]+)/(.+)", "GET", _Handler.resolve),
]


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("--rate", type=float, help="bytes per second of an upload")
    given = arguments.parse_args()
    with HubServer({"hf_benchmark": Account("someone")}, rate=given.rate) as hub:
        print(hub.address, flush=True)
        sys.stdin.read()


if __name__ == "__main__":
    main()
