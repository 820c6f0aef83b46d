"""The executor for TPU node pools, and profiles/gke, against an API on this machine."""

import os
import shlex
from pathlib import Path

import pytest

from tests.cluster.kubernetes_api import KubernetesApi
from tests.workflow.conftest import ROOT, Project, start

# Beside the workflow, a service of its own: run with -m slow.
pytestmark = [pytest.mark.workflow, pytest.mark.slow]

IMAGE = "europe-docker.pkg.dev/project/repository/mlm-from-scratch:test"

# One rule that profiles/gke gives a TPU, and one that it does not.
SNAKEFILE = """\
rule all:
    input: "pretrained.txt"

rule corpus:
    output: "corpus.txt"
    resources: mem_mb=500
    shell: "echo words > {output}"

rule pretrain:
    input: "corpus.txt"
    output: "pretrained.txt"
    threads: 2
    resources: mem_mb=4000
    shell: "cp {input} {output}"
"""


@pytest.fixture
def api(python_with, storage_server, tmp_path):
    (tmp_path / "api").mkdir()
    path = f"{Path(python_with('gke')).parent}:{os.environ['PATH']}"
    served = KubernetesApi(tmp_path / "api", storage_server.environment | {"PATH": path})
    yield served
    served.stop()


@pytest.fixture
def submit(api, python_with, storage_server, tmp_path):
    """Starts snakemake with the profile, and spot machines for the first rule that has a TPU."""
    for name in ("work", "profile"):
        (tmp_path / name).mkdir()
    (tmp_path / "work" / "Snakefile").write_text(SNAKEFILE)
    (tmp_path / "work" / "tiny.yaml").write_text("{}")
    settings = (ROOT / "profiles" / "gke" / "config.yaml").read_text()
    with_spot = settings.replace("tpu_chips: 4", "tpu_chips: 4\n    tpu_spot: 1", 1)
    (tmp_path / "profile" / "config.yaml").write_text(with_spot)
    environment = storage_server.environment | {"KUBECONFIG": str(api.start())}
    prefix = f"gs://{storage_server.bucket}/{tmp_path.name}"
    arguments = (
        *("--profile", str(tmp_path / "profile"), "--retries", "0"),
        *("--container-image", IMAGE, "--seconds-between-status-checks", "1"),
        *("--default-storage-prefix", prefix, "--storage-gcs-project", "test"),
    )
    project, how = Project(tmp_path / "work"), {"python": python_with("gke")}
    return lambda *more: start(project, *arguments, *more, environment=environment, **how)


def test_a_pod_asks_for_the_tpu_of_its_rule(api, submit, storage_server, tmp_path):
    output = submit().finished(status=None)
    assert f"{tmp_path.name}/pretrained.txt" in storage_server.names(), output + api.logs()
    pod = api.pod_of("pretrain")
    container = pod["containers"][0]
    assert pod["nodeSelector"] == {
        "cloud.google.com/gke-tpu-accelerator": "tpu-v5-lite-podslice",
        "cloud.google.com/gke-tpu-topology": "2x2",
        "cloud.google.com/gke-spot": "true",
    }
    assert pod["tolerations"][0]["key"] == "cloud.google.com/gke-spot"
    chips = {"google.com/tpu": "4"}
    requests = chips | {"cpu": "1900m", "memory": "4000M"}
    assert container["resources"] == {"limits": chips, "requests": requests}
    assert container["image"] == IMAGE and container["command"] == ["/bin/sh"]
    words = shlex.split(container["args"][1])
    assert words[1:3] == ["-m", "snakemake"]
    assert words[words.index("--mode") + 1] == "remote"

    other = api.pod_of("corpus")
    assert not other.get("nodeSelector")
    assert "limits" not in other["containers"][0]["resources"]


@pytest.mark.parametrize(
    "refusal, words",
    [
        ((403, 'pods "x" is forbidden: exceeded quota: tpus'), "no quota left for this job"),
        ((403, 'jobs.batch is forbidden: User "x" cannot create'), "kubectl auth can-i"),
        ((404, 'namespaces "default" not found'), "kubectl create namespace"),
    ],
)
def test_a_refusal_says_what_to_do(api, submit, refusal, words):
    api.refusal = refusal
    output = submit().finished(status=1)
    assert words in output and refusal[1] in output.replace("\\", "")


def test_half_a_request_for_a_tpu_is_refused(api, submit):
    output = submit("--set-resources", "corpus:tpu_chips=4").finished(status=1)
    assert "asks for a TPU by tpu_chips, but not by tpu_accelerator, tpu_topology" in output
    assert not api.jobs
