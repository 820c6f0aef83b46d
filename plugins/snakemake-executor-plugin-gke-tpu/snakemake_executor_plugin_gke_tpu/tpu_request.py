"""What a job asks of a TPU node pool, and how that is written into a pod's specification.

Google's documentation of TPUs in GKE names the labels of the nodes and the resource:
https://cloud.google.com/kubernetes-engine/docs/how-to/tpus
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import kubernetes.client as k8s
from snakemake_interface_common.exceptions import WorkflowError

ACCELERATOR = "cloud.google.com/gke-tpu-accelerator"
TOPOLOGY = "cloud.google.com/gke-tpu-topology"
SPOT = "cloud.google.com/gke-spot"
CHIPS = "google.com/tpu"

_TOGETHER = ("tpu_accelerator", "tpu_topology", "tpu_chips")


@dataclass(frozen=True)
class TpuRequest:
    """`chips` of one host of a slice, such as 4 of `tpu-v5-lite-podslice` in `2x2`."""

    accelerator: str
    topology: str
    chips: int
    spot: bool

    @classmethod
    def of(cls, resources: Mapping[str, Any], rule: str) -> "TpuRequest | None":
        """From a job's resources; None where it asks for no TPU.

        Raises WorkflowError for half a request and for one that no node can meet.
        """
        given = [name for name in _TOGETHER if resources.get(name)]
        if not given:
            return None
        if missing := [name for name in _TOGETHER if name not in given]:
            raise WorkflowError(
                f"Rule {rule} asks for a TPU by {', '.join(given)}, but not by "
                f"{', '.join(missing)}. Set all of {', '.join(_TOGETHER)} (--set-resources), "
                "or none."
            )
        topology, chips = str(resources["tpu_topology"]), resources["tpu_chips"]
        if not re.fullmatch(r"\d+(x\d+){1,2}", topology):
            raise WorkflowError(
                f"Rule {rule}: tpu_topology is {topology!r}; a grid such as 2x4 or 2x2x1 is "
                "expected."
            )
        if isinstance(chips, bool) or not isinstance(chips, int) or chips < 1:
            raise WorkflowError(
                f"Rule {rule}: tpu_chips is {chips!r}; the number of chips on one host is expected."
            )
        return cls(
            str(resources["tpu_accelerator"]), topology, chips, bool(resources.get("tpu_spot"))
        )

    def add_to(self, job: k8s.V1Job) -> None:
        """Write the request into the specification of the job's pod, in place."""
        pod = job.spec.template.spec
        pod.node_selector = {
            **(pod.node_selector or {}),
            ACCELERATOR: self.accelerator,
            TOPOLOGY: self.topology,
        }
        if self.spot:
            pod.node_selector[SPOT] = "true"
            pod.tolerations = [
                *(pod.tolerations or []),
                k8s.V1Toleration(key=SPOT, operator="Equal", value="true", effect="NoSchedule"),
            ]
        # The container runs the job; an extended resource is limited by what it requests.
        wanted = job.spec.template.spec.containers[0].resources
        wanted.requests = {**(wanted.requests or {}), CHIPS: str(self.chips)}
        wanted.limits = {**(wanted.limits or {}), CHIPS: str(self.chips)}
