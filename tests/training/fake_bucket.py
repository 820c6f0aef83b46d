"""A bucket of Google Cloud Storage on 127.0.0.1: what its JSON API answers about objects."""

import json
import re
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, unquote, urlsplit

_OBJECT = re.compile(r"/storage/v1/b/[^/]+/o/([^/]+)")


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    # An answer leaves in one piece, and at once.
    wbufsize, disable_nagle_algorithm = 1 << 16, True

    def log_message(self, *_):
        pass

    def answer(self, status: int, content: bytes | dict = b"", **headers: str):
        if isinstance(content, dict):
            content = json.dumps(content).encode()
        self.send_response(status)
        for name, value in ({"Content-Length": str(len(content))} | headers).items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(content)

    def described(self, name: str) -> dict:
        times = dict.fromkeys(("timeCreated", "updated"), "2020-01-01T00:00:00Z")
        size = str(len(self.server.objects[name]))
        return {"name": name, "bucket": "bucket", "size": size, "generation": "1", **times}

    def do_GET(self):
        objects, url = self.server.objects, urlsplit(self.path)
        query = parse_qs(url.query)
        if not (match := _OBJECT.fullmatch(url.path)):
            prefix = query["prefix"][0]
            items = [self.described(n) for n in sorted(objects) if n.startswith(prefix)]
            return self.answer(200, {"items": items})
        name = unquote(match[1])
        if name not in objects:
            return self.answer(404)
        if query.get("alt") != ["media"]:
            return self.answer(200, self.described(name))
        first, last = re.fullmatch(
            r"bytes=(\d+)-(\d*)", self.headers["Range"] or "bytes=0-"
        ).groups()
        part = objects[name][int(first) : int(last) + 1 if last else None]
        return self.answer(206 if self.headers["Range"] else 200, part)

    def do_POST(self):
        self.rfile.read(int(self.headers.get("Content-Length", 0)))
        name = parse_qs(urlsplit(self.path).query)["name"][0]
        host, port = self.server.server_address
        self.answer(200, Location=f"http://{host}:{port}/session?name={name}")

    def do_PUT(self):
        name, parts = parse_qs(urlsplit(self.path).query)["name"][0], self.server.parts
        parts[name] = parts.get(name, b"") + self.rfile.read(int(self.headers["Content-Length"]))
        if self.headers["Content-Range"].endswith("/*"):
            return self.answer(308, Range=f"bytes=0-{len(parts[name]) - 1}")
        self.server.objects[name] = parts.pop(name)
        self.answer(200, self.described(name))

    def do_DELETE(self):
        name = unquote(_OBJECT.fullmatch(urlsplit(self.path).path)[1])
        self.answer(204 if self.server.objects.pop(name, None) is not None else 404)


@contextmanager
def fake_bucket():
    """Serve while the context lasts; gives (objects by name, the environment to reach them)."""
    with ThreadingHTTPServer(("127.0.0.1", 0), _Handler) as server:
        server.objects, server.parts = {}, {}
        threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
        address = f"http://127.0.0.1:{server.server_address[1]}"
        yield server.objects, {"STORAGE_EMULATOR_HOST": address}
        server.shutdown()
