"""A bucket of Google Cloud Storage for TensorFlow's gs:// file system in another process: the
proxy that the environment names, the host behind it, and what is asked of its JSON API."""

import json
import re
import ssl
import subprocess
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import parse_qs, unquote, urlsplit

_OBJECT = re.compile(r"/storage/v1/b/[^/]+/o/([^/]+)")


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def do_CONNECT(self):
        self.send_response(200)
        self.end_headers()
        secure = self.server.context.wrap_socket(self.connection, server_side=True)
        type(self)(secure, self.client_address, self.server)
        self.close_connection = True

    def answer(self, status: int, content: bytes | dict = b"", **headers: str):
        if isinstance(content, dict):
            content = json.dumps(content).encode()
        self.send_response(status)
        for name, value in ({"Content-Length": str(len(content))} | headers).items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(content)

    def do_GET(self):
        objects, url = self.server.objects, urlsplit(self.path)
        if self.headers["Host"] == "storage.googleapis.com":
            content = objects.get(unquote(url.path.split("/", 2)[2]))
            if content is None:
                return self.answer(404)
            first, last = re.fullmatch(r"bytes=(\d+)-(\d+)", self.headers["Range"]).groups()
            part = content[int(first) : int(last) + 1]
            return self.answer(206 if part else 416, part)
        if match := _OBJECT.fullmatch(url.path):
            name = unquote(match[1])
            if name not in objects:
                return self.answer(404)
            described = {"size": len(objects[name]), "generation": self.server.generations[name]}
            described = {key: str(value) for key, value in described.items()}
            return self.answer(200, described | {"updated": "2020-01-01T00:00:00Z"})
        listed = url.path.endswith("/o")
        return self.answer(200, self.listing(parse_qs(url.query)) if listed else {"location": "US"})

    def listing(self, query: dict) -> dict:
        prefix, slash = query.get("prefix", [""])[0], query.get("delimiter", [""])[0]
        items, prefixes = [], set()
        for name in sorted(self.server.objects):
            rest = name[len(prefix) :]
            if name.startswith(prefix) and slash and slash in rest:
                prefixes.add(prefix + rest.split(slash)[0] + slash)
            elif name.startswith(prefix):
                items.append({"name": name})
        return {"items": items, "prefixes": sorted(prefixes)}

    def body(self) -> bytes:
        if self.headers.get("Transfer-Encoding") != "chunked":
            return self.rfile.read(int(self.headers.get("Content-Length", 0)))
        parts = []
        while size := int(self.rfile.readline(), 16):
            parts.append(self.rfile.read(size))
            self.rfile.readline()
        self.rfile.readline()
        return b"".join(parts)

    def do_POST(self):
        self.body()
        place = urlsplit(self.path).query.removeprefix("uploadType=resumable&")
        self.answer(200, Location=f"https://www.googleapis.com/session?{place}")

    def do_PUT(self):
        name = parse_qs(urlsplit(self.path).query)["name"][0]
        self.server.objects[name] = self.body()
        self.server.generations[name] = self.server.generations.get(name, 0) + 1
        self.answer(200, {})

    def do_DELETE(self):
        name = unquote(_OBJECT.fullmatch(urlsplit(self.path).path)[1])
        self.answer(204 if self.server.objects.pop(name, None) is not None else 404)


@contextmanager
def fake_bucket(directory: Path):
    """Serve while the context lasts; gives (objects by name, the environment to reach them)."""
    certificate, key = directory / "certificate.pem", directory / "key.pem"
    hosts = "subjectAltName=DNS:www.googleapis.com,DNS:storage.googleapis.com"
    request = "openssl req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=bucket -addext"
    subprocess.run(
        [*request.split(), hosts, "-keyout", str(key), "-out", str(certificate)],
        check=True,
        capture_output=True,
    )
    with ThreadingHTTPServer(("127.0.0.1", 0), _Handler) as server:
        server.objects, server.generations = {}, {}
        server.context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        server.context.load_cert_chain(certificate, key)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield (
            server.objects,
            {
                "https_proxy": f"http://127.0.0.1:{server.server_address[1]}",
                "no_proxy": "",
                "CURL_CA_BUNDLE": str(certificate),
                "GOOGLE_AUTH_TOKEN_FOR_TESTING": "none",
                "NO_GCE_CHECK": "true",
                # A killed process leaves nothing to clear away, and answers come at once.
                "GCS_RETRY_CONFIG_MAX_RETRIES": "2",
            },
        )
        server.shutdown()
