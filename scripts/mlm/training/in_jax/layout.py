"""What is divided over the devices: batches by samples, and on request the optimizer's moments.

The latter is ZeRO's first stage (Rajbhandari et al., "ZeRO: Memory Optimizations Toward Training
Trillion Parameter Models", 2020): each device updates its part of the weights.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

import jax
import numpy as np
from jax.experimental import multihost_utils
from jax.sharding import PartitionSpec

from mlm.training.in_jax.devices import AXIS


@dataclass(frozen=True)
class Division:
    """By the weight's name, the dimension along which its moments are divided over so many devices;
    others are whole on each."""

    devices: int = 1
    dimensions: Mapping[str, int] = field(default_factory=dict)

    @classmethod
    def of(cls, shapes: Mapping[str, tuple[int, ...]], devices: int) -> "Division":
        """Along the first dimension that divides."""
        found = {
            name: [d for d, size in enumerate(shape) if size % devices == 0]
            for name, shape in shapes.items()
        }
        return cls(devices, {name: fitting[0] for name, fitting in found.items() if fitting})

    def own(self, name: str, value):
        """A device's part of `value`, which is whole; on every device of the axis."""
        if name not in self.dimensions:
            return value
        along = self.dimensions[name]
        size = value.shape[along] // self.devices
        return jax.lax.dynamic_slice_in_dim(value, jax.lax.axis_index(AXIS) * size, size, along)

    def whole(self, name: str, own):
        """The whole of which each device has its `own` part."""
        if name not in self.dimensions:
            return own
        return jax.lax.all_gather(own, AXIS, axis=self.dimensions[name], tiled=True)

    def of_state(self, moments: dict) -> dict:
        """The partition of a state with such `moments` (`first_moments`)."""

        def spec(name: str) -> PartitionSpec:
            if name not in self.dimensions:
                return PartitionSpec()
            return PartitionSpec(*[None] * self.dimensions[name], AXIS)

        divided = {kind: {name: spec(name) for name in named} for kind, named in moments.items()}
        return {"parameters": PartitionSpec(), "moments": divided, "step": PartitionSpec()}


#: Moments that are whole on every device.
UNDIVIDED = Division()


class OwnRows:
    """The rows of a batch, divided over all devices, that are on those of this process."""

    def __init__(self, divided, samples: int):
        places = divided.addressable_devices_indices_map((samples,)).values()
        self.rows = np.sort(np.concatenate([np.arange(samples)[place] for place in places]))
        self._divided, self._samples = divided, samples

    def given(self, batch: dict) -> dict:
        """Arrays over all devices, of which `batch` has the own rows."""
        return {
            name: jax.make_array_from_process_local_data(
                self._divided, own, (self._samples, *own.shape[1:])
            )
            for name, own in batch.items()
        }


def of_the_first(weights: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """The weights of the process that leads: another's processor may have rounded otherwise."""
    return {n: np.asarray(v) for n, v in multihost_utils.broadcast_one_to_all(weights).items()}
