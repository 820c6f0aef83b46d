"""The executor for TPU node pools, and profiles/gke, against an API on this machine."""

import json
import re
import shlex
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
import yaml

from tests.workflow.conftest import ROOT, Project, start

# Beside the workflow, a service of its own: run with -m slow.
pytestmark = [pytest.mark.workflow, pytest.mark.slow]

IMAGE = "europe-docker.pkg.dev/project/repository/mlm-from-scratch:test"

# One rule that profiles/gke gives a TPU, and one that it does not.
SNAKEFILE = """\
rule all:
    input: "corpus.txt", "pretrained.txt"

rule corpus:
    output: "corpus.txt"
    resources: mem_mb=500
    shell: "echo words > {output}"

rule pretrain:
    output: "pretrained.txt"
    threads: 2
    resources: mem_mb=4000
    shell: "echo weights > {output}"
"""


class Api(BaseHTTPRequestHandler):
    """Takes jobs, or refuses them, and says of each that it failed."""

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
            if self.server.refusal:
                status, message = self.server.refusal
                refused = {"kind": "Status", "message": message, "code": status}
                return self._answer(status, refused)
            self.server.jobs[body["metadata"]["name"]] = body
        self._answer(201, body)

    def do_GET(self):
        body = {"kind": "PodList", "apiVersion": "v1", "items": []}
        if found := re.search(r"/jobs/([^/]+)/status$", self.path):
            body = self.server.jobs[found[1]] | {"status": {"failed": 1}}
        self._answer(200, body)

    def do_DELETE(self):
        self.rfile.read(int(self.headers.get("Content-Length") or 0))
        self._answer(200, {"kind": "Status", "status": "Success"})

    def log_message(self, *words):
        pass


@pytest.fixture
def api():
    """Its `jobs` are the bodies that were posted, by name; `refusal` is its answer to new ones."""
    with ThreadingHTTPServer(("127.0.0.1", 0), Api) as server:
        server.jobs, server.refusal = {}, None
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server
        server.shutdown()


@pytest.fixture
def submit(api, python_with, storage_server, tmp_path):
    """Run snakemake with the profile, and spot machines for the first rule that has a TPU."""
    (tmp_path / "Snakefile").write_text(SNAKEFILE)
    (tmp_path / "tiny.yaml").write_text("{}")
    settings = yaml.safe_load((ROOT / "profiles" / "gke" / "config.yaml").read_text())
    settings["set-resources"]["pretrain"]["tpu_spot"] = 1
    (tmp_path / "profile").mkdir()
    (tmp_path / "profile" / "config.yaml").write_text(yaml.safe_dump(settings))
    address = f"http://127.0.0.1:{api.server_port}"
    config = {"apiVersion": "v1", "kind": "Config", "current-context": "test"}
    config["contexts"] = [{"name": "test", "context": {"cluster": "test", "user": "test"}}]
    config["users"] = [{"name": "test", "user": {}}]
    config["clusters"] = [{"name": "test", "cluster": {"server": address}}]
    (tmp_path / "kubeconfig.yaml").write_text(yaml.safe_dump(config))
    environment = storage_server.environment | {"KUBECONFIG": str(tmp_path / "kubeconfig.yaml")}
    arguments = (
        *("--profile", str(tmp_path / "profile"), "--retries", "0", "--keep-going"),
        *("--container-image", IMAGE, "--seconds-between-status-checks", "1"),
        *("--default-storage-prefix", f"gs://{storage_server.bucket}/{tmp_path.name}"),
        *("--storage-gcs-project", "test"),
    )
    how = {"environment": environment, "python": python_with("gke")}
    return lambda *more: start(Project(tmp_path), *arguments, *more, **how).finished(status=1)


def pod_of(api, rule: str) -> dict:
    pods = [body["spec"]["template"]["spec"] for body in api.jobs.values()]
    wanted = f"--allowed-rules {rule} "
    return next(p for p in pods if wanted in p["containers"][0]["args"][1] + " ")


def test_a_pod_asks_for_the_tpu_of_its_rule(api, submit):
    submit()
    pod = pod_of(api, "pretrain")
    container = pod["containers"][0]
    assert pod["nodeSelector"] == {
        "cloud.google.com/gke-tpu-accelerator": "tpu-v5-lite-podslice",
        "cloud.google.com/gke-tpu-topology": "2x2",
        "cloud.google.com/gke-spot": "true",
    }
    assert pod["tolerations"][0]["key"] == "cloud.google.com/gke-spot"
    chips = {"google.com/tpu": "4"}
    requests = chips | {"cpu": "1900m", "memory": "4000M", "ephemeral-storage": "5000M"}
    assert container["resources"] == {"limits": chips, "requests": requests}
    assert container["image"] == IMAGE and container["command"] == ["/bin/sh"]
    words = shlex.split(container["args"][1])
    assert words[1:3] == ["-m", "snakemake"]
    assert words[words.index("--mode") + 1] == "remote"

    other = pod_of(api, "corpus")
    assert not other.get("nodeSelector")
    assert "limits" not in other["containers"][0]["resources"]


def test_a_refusal_and_half_a_request_say_what_to_do(api, submit):
    assert "tpu_accelerator, tpu_topology" in submit("--set-resources", "corpus:tpu_chips=4")
    api.jobs, api.refusal = {}, (403, 'pods "x" is forbidden: exceeded quota: tpus')
    assert "kubectl describe quota" in submit()
