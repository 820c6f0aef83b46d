"""A server that speaks as much of Kubernetes' API as an executor needs, and runs its pods.

A pod is a process on this machine, with the container's command in an empty directory.
"""

import base64
import json
import os
import re
import subprocess
import tempfile
import threading
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import yaml


@dataclass
class KubernetesApi:
    """`jobs` are the bodies that were posted, by name; `refusal` is the answer to the next ones."""

    place: Path
    environment: dict[str, str]
    jobs: dict[str, dict] = field(default_factory=dict)
    refusal: tuple[int, str] | None = None
    secrets: dict[str, dict] = field(default_factory=dict)
    _pods: dict[str, subprocess.Popen] = field(default_factory=dict)
    _server: ThreadingHTTPServer | None = None

    def start(self) -> Path:
        """Start the server; the path of the kubeconfig that leads to it."""
        api = self

        class Handler(BaseHTTPRequestHandler):
            def _answer(self, status: int, body: dict) -> None:
                content = json.dumps(body).encode()
                self.send_response(status)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(content)))
                self.end_headers()
                self.wfile.write(content)

            def do_POST(self):
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                if self.path.endswith("/jobs"):
                    if api.refusal:
                        status, message = api.refusal
                        refused = {"kind": "Status", "message": message, "code": status}
                        return self._answer(status, refused)
                    api.run(body)
                if self.path.endswith("/secrets"):
                    api.secrets[body["metadata"]["name"]] = body["data"]
                self._answer(201, body)

            def do_GET(self):
                if found := re.search(r"/jobs/([^/]+)/status$", self.path):
                    self._answer(200, api.status(found[1]))
                else:
                    self._answer(200, {"kind": "PodList", "apiVersion": "v1", "items": []})

            def do_DELETE(self):
                self.rfile.read(int(self.headers.get("Content-Length") or 0))
                self._answer(200, {"kind": "Status", "status": "Success"})

            def log_message(self, *words):
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        address = f"http://127.0.0.1:{self._server.server_port}"
        named = {"cluster": "test", "user": "test"}
        config = {"apiVersion": "v1", "kind": "Config", "current-context": "test"}
        config["contexts"] = [{"name": "test", "context": named}]
        config["users"] = [{"name": "test", "user": {}}]
        config["clusters"] = [{"name": "test", "cluster": {"server": address}}]
        kubeconfig = self.place / "kubeconfig.yaml"
        kubeconfig.write_text(yaml.safe_dump(config))
        return kubeconfig

    def run(self, body: dict) -> None:
        """Keep the job and start its pod."""
        name = body["metadata"]["name"]
        container = body["spec"]["template"]["spec"]["containers"][0]
        self.jobs[name] = body
        environment = os.environ | self.environment
        for variable in container.get("env") or []:
            source = variable["valueFrom"]["secretKeyRef"]
            content = base64.b64decode(self.secrets[source["name"]][source["key"]])
            environment[variable["name"]] = content.decode()
        with (self.place / f"{name}.log").open("w") as log:
            self._pods[name] = subprocess.Popen(
                [*container["command"], *container["args"]],
                cwd=tempfile.mkdtemp(dir=self.place),
                env=environment,
                stdout=log,
                stderr=subprocess.STDOUT,
            )

    def status(self, name: str) -> dict:
        ended = self._pods[name].poll()
        state = {None: {"active": 1}, 0: {"succeeded": 1}}.get(ended, {"failed": 1})
        return {"apiVersion": "batch/v1", "kind": "Job", **self.jobs[name], "status": state}

    def pod_of(self, rule: str) -> dict:
        for body in self.jobs.values():
            pod = body["spec"]["template"]["spec"]
            if f"--allowed-rules {rule} " in pod["containers"][0]["args"][1] + " ":
                return pod
        raise AssertionError(f"no pod runs {rule}: {list(self.jobs)}")

    def logs(self) -> str:
        return "\n".join(f.read_text()[-3000:] for f in sorted(self.place.glob("*.log")))

    def stop(self) -> None:
        for pod in self._pods.values():
            if pod.poll() is None:
                pod.terminate()
                pod.wait(30)
        self._server.shutdown()
