"""The test suite that executors of Snakemake are given, for the executor of this repository.

Run by test_gke.py, in an environment that has the plugin, against its API and its bucket.
"""

import os
import uuid

from snakemake.common.tests import TestWorkflowsBase
from snakemake.settings.types import RemoteExecutionSettings
from snakemake_executor_plugin_gke_tpu import ExecutorSettings
from snakemake_interface_common.plugin_registry.plugin import TaggedSettings
from snakemake_storage_plugin_gcs import StorageProviderSettings


class TestExecutor(TestWorkflowsBase):
    """A workflow of single jobs and one of grouped jobs, through the executor."""

    __test__ = True

    def get_executor(self) -> str:
        return "gke-tpu"

    def get_executor_settings(self) -> ExecutorSettings:
        return ExecutorSettings(namespace="default")

    def get_default_storage_provider(self) -> str:
        return "gcs"

    def get_default_storage_prefix(self) -> str:
        return f"gs://{os.environ['TEST_BUCKET']}/{uuid.uuid4().hex}"

    def get_default_storage_provider_settings(self) -> dict[str, TaggedSettings]:
        tagged = TaggedSettings()
        tagged.register_settings(StorageProviderSettings(project="test"))
        return {"gcs": tagged}

    def get_remote_execution_settings(self) -> RemoteExecutionSettings:
        return RemoteExecutionSettings(
            seconds_between_status_checks=1, container_image="image:test"
        )

    def get_assume_shared_fs(self) -> bool:
        return False
