"""States that the same training saved on another number of devices or processes.

Sums over them are rounded otherwise, so that such a state has another fingerprint. It is gone on
from where the user says so, as long as an update takes the same samples.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from mlm.foundations.errors import MlmError
from mlm.training.states import StateDirectory

_KEY = "accelerator.continue_on_other_devices"
#: What the devices of a state are, and how a batch was divided among them.
_OF_DEVICES = ("processes", "replicas", "strategy", "threads")
_OF_BATCH = ("per_replica_batch_size", "shard_optimizer")
_PARTS = "gradient_accumulation_steps"


@dataclass(frozen=True)
class Layout:
    """Devices in all processes, and the samples of an update."""

    replicas: int
    processes: int
    batch: int

    @classmethod
    def of(cls, basis: dict) -> "Layout":
        """That of a state which was made from `basis`."""
        device, settings = basis["device"], basis["settings"]
        samples = settings["per_replica_batch_size"] * settings["optimizer"][_PARTS]
        return cls(device["replicas"], device.get("processes", 1), samples * device["replicas"])

    def __str__(self) -> str:
        several = "es" if self.processes > 1 else ""
        devices = "device" if self.replicas == 1 else "devices"
        return f"{self.replicas} {devices} of {self.processes} process{several}"


def newest_first(states: StateDirectory, allowed: bool) -> Iterator[StateDirectory]:
    """The directories to go on from: `states`, and where that is `allowed` those of other devices,
    in the order of their newest steps.

    Raises MlmError where there are none in `states` and those of others may not, or cannot, be gone
    on from.
    """
    here = Layout.of(states.basis)
    found = [
        StateDirectory(path, states.keep, basis)
        for path in states.others()
        if (basis := StateDirectory(path, None).newest_basis()) is not None
        and _apart_from_devices(basis) == _apart_from_devices(states.basis)
    ]
    alike = [other for other in found if Layout.of(other.basis).batch == here.batch]
    if found and not states.steps() and not (allowed and alike):
        raise _refusal(alike[0] if alike else found[0], here, states.basis)
    order = [states, *(alike if allowed else [])]
    yield from sorted(order, key=lambda s: next(iter(s.steps()), -1), reverse=True)


def _refusal(other: StateDirectory, here: Layout, basis: dict) -> MlmError:
    there = Layout.of(other.basis)
    found = (
        f"{other.path} holds a state after step {other.steps()[0]} of this training on {there}; "
        f"here are {here}. "
    )
    anew = f"Or move {other.path} away, and the training starts anew"
    if there.batch != here.batch:
        parts = basis["settings"]["optimizer"][_PARTS]
        samples, rest = divmod(there.batch, here.replicas * parts)
        how = (
            f"pretraining.per_replica_batch_size: {samples}"
            if not rest
            else "a number of devices that divides it"
        )
        return MlmError(
            f"{found}An update took {there.batch} samples there and would take {here.batch} here. "
            f"To go on from it, set {how} and {_KEY}: true. {anew}"
        )
    return MlmError(
        f"{found}Sums are rounded otherwise on them, so that the weights will be neither those of "
        f"the one nor of the other. To go on from it, set {_KEY}: true. {anew}"
    )


def _apart_from_devices(basis: dict) -> dict:
    device = {k: v for k, v in basis["device"].items() if k not in _OF_DEVICES}
    settings = {k: v for k, v in basis["settings"].items() if k not in _OF_BATCH}
    optimizer = {k: v for k, v in settings["optimizer"].items() if k != _PARTS}
    return basis | {"device": device, "settings": settings | {"optimizer": optimizer}}
