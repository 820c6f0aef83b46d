"""Snakemake's kubernetes executor, able to ask for TPU node pools of GKE."""

from dataclasses import replace
from typing import Any

import kubernetes.client as k8s
from snakemake_executor_plugin_kubernetes import Executor as KubernetesExecutor
from snakemake_executor_plugin_kubernetes import ExecutorSettings
from snakemake_executor_plugin_kubernetes import common_settings as kubernetes_settings
from snakemake_interface_common.exceptions import WorkflowError
from snakemake_interface_executor_plugins.jobs import JobExecutorInterface

from snakemake_executor_plugin_gke_tpu.tpu_request import TpuRequest

__all__ = ["Executor", "ExecutorSettings", "common_settings"]

# The image holds the storage plugin, pinned, so that no pod has to download it.
common_settings = replace(kubernetes_settings, auto_deploy_default_storage_provider=False)


class _AskingForTpus:
    """Kubernetes' API of jobs, which adds the executor's present request to a new job."""

    def __init__(self, api: k8s.BatchV1Api, executor: "Executor"):
        self._api, self._executor = api, executor

    def __getattr__(self, name: str) -> Any:
        return getattr(self._api, name)

    def create_namespaced_job(self, namespace: str, body: k8s.V1Job, **options: Any) -> k8s.V1Job:
        if self._executor.request is not None:
            self._executor.request.add_to(body)
        try:
            return self._api.create_namespaced_job(namespace, body, **options)
        except k8s.ApiException as error:
            raise _in_words(error, namespace) or error from error


class Executor(KubernetesExecutor):
    """The kubernetes executor; `request` is what the job being submitted asks for."""

    request: TpuRequest | None = None

    @property
    def batchapi(self) -> Any:
        return self._batchapi

    # Set at the start, and again after a new login.
    @batchapi.setter
    def batchapi(self, api: k8s.BatchV1Api) -> None:
        self._batchapi = _AskingForTpus(api, self)

    def run_job(self, job: JobExecutorInterface) -> None:
        """Submit `job`, with the TPU that its resources ask for."""
        self.request = TpuRequest.of(dict(job.resources), job.name)
        super().run_job(job)


def _in_words(error: k8s.ApiException, namespace: str) -> WorkflowError | None:
    """A message for the refusals that a user can mend, or None."""
    said = f"The server says: {error.status} {error.reason}: {error.body}"
    if error.status == 403 and "quota" in str(error.body).lower():
        return WorkflowError(
            f"The namespace {namespace!r} has no quota left for this job. {said}\n"
            "Wait for other jobs, ask for less (--set-resources), or have the quota raised "
            "(kubectl describe quota); then run the same command again."
        )
    if error.status == 403:
        return WorkflowError(
            f"Not allowed to create jobs in the namespace {namespace!r}. {said}\n"
            "Have the right granted (kubectl auth can-i create jobs), or name another namespace "
            "(--gke-tpu-namespace)."
        )
    if error.status == 404:
        return WorkflowError(
            f"There is no namespace {namespace!r} in this cluster. {said}\n"
            "Create it (kubectl create namespace), or name another (--gke-tpu-namespace)."
        )
    return None
