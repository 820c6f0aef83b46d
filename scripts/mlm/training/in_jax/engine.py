"""The engine of a run in JAX: its weights, optimizer, batches and steps, on a mesh of devices."""

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import NamedSharding

from mlm.foundations.errors import MlmError
from mlm.model.architecture import Architecture
from mlm.model.cooccurrence import begin_at_counts
from mlm.model.export import ExportedModel
from mlm.model.initialisation import neighbour_heads
from mlm.model.weights import initial_parameters
from mlm.samples.masking import VALIDATION_SEED
from mlm.samples.split_samples import decoded, evaluation_samples
from mlm.samples.stored_batches import stored_batches
from mlm.training.in_jax.devices import shardings
from mlm.training.in_jax.layout import UNDIVIDED, Division, OwnRows, of_the_first
from mlm.training.in_jax.optimizers import all_finite, first_moments, hidden_parts
from mlm.training.in_jax.train_step import (
    Computation,
    on_mesh,
    packed,
    train_step,
    validation_step,
)
from mlm.training.local_devices import Devices
from mlm.training.run import Run
from mlm.training.state_storage import read_bytes, write_bytes

_FILE = "state.safetensors"


class NamedWeights:
    """`StartingWeights` of weights by PyTorch's names, float32 of NumPy, changed in place."""

    def __init__(self, weights: dict[str, np.ndarray], architecture: Architecture):
        self._weights, self._names = weights, architecture.names

    def table(self, name: str) -> np.ndarray:
        return self._weights[f"{getattr(self._names, name)}.weight"].copy()

    def set_table(self, name: str, table: np.ndarray) -> None:
        self._set(f"{getattr(self._names, name)}.weight", table)

    def set_first_attention(self, **kernels: np.ndarray) -> None:
        place, names = f"{self._names.layer}0.", self._names
        self._set(f"{place}{names.attended}.weight", kernels["output"].T)
        read = np.concatenate([kernels[role].T for role in ("query", "key", "value")])
        for name, part in zip(
            names.projections, np.split(read, len(names.projections)), strict=True
        ):
            self._set(f"{place}{name}.weight", part)

    def set_output_bias(self, bias: np.ndarray) -> None:
        # A ModernBERT may be without.
        if self._names.decoder_bias in self._weights:
            self._set(self._names.decoder_bias, bias)

    def _set(self, name: str, value: np.ndarray) -> None:
        self._weights[name] = np.ascontiguousarray(value, np.float32)


class Engine:
    """`mlm.training.engine.Engine` in JAX."""

    head = "vocabulary projection at masked positions only"

    def __init__(self, run: Run, devices: Devices):
        self._run = run
        self._architecture = Architecture.of(run.model_config.to_dict())
        self._group = devices.group
        self._whole, self._divided = shardings(devices.strategy)
        self.step = 0
        weights = initial_parameters(self._architecture, jax.random.key(run.seed))
        weights = {name: np.array(value) for name, value in weights.items()}
        hidden = hidden_parts(self._architecture)
        division = UNDIVIDED
        if run.pretraining.shard_optimizer:
            shapes = {name: value.shape for name, value in weights.items()}
            division = Division.of(shapes, devices.replicas)
        optimizer = run.pretraining.optimizer
        self._first_moments = partial(first_moments, settings=optimizer, hidden=hidden)
        partition = division.of_state(jax.eval_shape(self._first_moments, weights))
        self._partition = jax.tree.map(partial(NamedSharding, devices.strategy), partition)
        if run.model.initialisation.attention == "neighbour_heads":
            neighbour_heads(NamedWeights(weights, self._architecture), run.model_config, run.seed)
        self.begin_with(weights)
        self.parameters = sum(value.size for value in weights.values())
        computation = Computation.of(run, self._architecture, devices.precision)
        self._train = jax.jit(
            on_mesh(
                train_step(computation, run.plan, optimizer, run.seed, division),
                devices.strategy,
                partition,
            ),
            donate_argnums=0,
        )
        self._validate = jax.jit(
            on_mesh(
                validation_step(computation, run.validation_plan, VALIDATION_SEED),
                devices.strategy,
            )
        )
        self._finite = jax.jit(all_finite)
        self._gathered = jax.jit(jnp.copy, out_shardings=self._whole)
        self._batches: Iterator[dict] | None = None
        self._validation_batches: list[dict] | None = None

    def begin_with(self, weights: dict[str, np.ndarray]) -> None:
        def begun(weights):
            return {
                "parameters": weights,
                "moments": self._first_moments(weights),
                "step": jnp.int32(0),
            }

        self._put(begun, of_the_first(weights))

    def _put(self, state_of: Callable[[dict], dict], given: dict) -> None:
        self._state = None  # One state at a time is in memory.
        # Copied by a computation: what is donated later must not be the host's own memory.
        self._state = jax.jit(
            lambda tree: jax.tree.map(jnp.copy, state_of(tree)), out_shardings=self._partition
        )(given)

    def start_from_counts(self) -> None:
        weights = {name: np.array(v) for name, v in self._state["parameters"].items()}
        if self._group.leads:
            begin_at_counts(NamedWeights(weights, self._architecture), self._run)
        self._group.told(None)  # A collective gives up on a peer that takes long.
        self.begin_with(weights)

    def advance(self, steps: int) -> dict[str, float]:
        if self._batches is None:
            rows = OwnRows(self._divided, self._run.batch_size)
            self._batches = _ahead(self._training_batches(rows), rows.given)
        found = []
        for _ in range(steps):
            self._state, sums = self._train(self._state, next(self._batches))
            found.append(sums)
        self.step += steps
        # In float64, where a sum of float32 is exact: the same however many steps are added here.
        return {name: sum(float(sums[name]) for sums in found) for name in found[0]}

    def validate(self) -> tuple[float, float]:
        sums = np.zeros(3)
        rows = OwnRows(self._divided, self._run.validation_batch_size)
        for batch in _ahead(self._validation_samples(rows), rows.given):
            sums += [float(x) for x in self._validate(self._state["parameters"], batch)]
        return sums[0] / max(sums[2], 1.0), sums[1] / max(sums[2], 1.0)

    def weights_are_finite(self) -> bool:
        return bool(self._finite(self._state["parameters"]))

    def exported(self) -> ExportedModel:
        weights = {name: np.array(v) for name, v in self._state["parameters"].items()}
        return ExportedModel(weights, self._run.model_config)

    def write(self, place: str) -> None:
        """Write the state below `place`, a directory or gs:// prefix."""
        from safetensors.numpy import save

        write_bytes(f"{place}/{_FILE}", save(dict(self._leaves())))

    def read(self, place: str) -> None:
        """Take the state from there, read by the process that leads; MlmError if it is another
        model's."""
        from safetensors.numpy import load

        expected = jax.eval_shape(lambda state: state, self._state)
        self._state = None
        leaves = jax.tree_util.tree_leaves_with_path(expected)
        empty = {_name(path): np.zeros(value.shape, value.dtype) for path, value in leaves}
        stored = load(read_bytes(f"{place}/{_FILE}")) if self._group.leads else empty
        self._group.told(None)  # A collective gives up on a peer that takes long.
        if {n: v.shape for n, v in stored.items()} != {n: v.shape for n, v in empty.items()}:
            raise MlmError(f"{place}/{_FILE}: does not hold the weights and moments of this run")
        self._put(
            lambda given: jax.tree_util.tree_map_with_path(lambda p, _: given[_name(p)], expected),
            of_the_first(stored),
        )

    def help_write(self) -> None:
        for _ in self._leaves():
            pass

    def _leaves(self) -> Iterator[tuple[str, np.ndarray]]:
        """The state by names; on a CPU these are no copies."""
        for path, value in jax.tree_util.tree_leaves_with_path(self._state):
            if not (value.is_fully_addressable or value.is_fully_replicated):
                value = self._gathered(value)
            yield _name(path), np.asarray(value)

    def _training_batches(self, rows: OwnRows) -> Iterator[dict]:
        for whole in stored_batches(self._run.train, self._run.order_from(self.step)):
            epochs, indices, records = (x[rows.rows] for x in whole)
            yield self._stored(indices, records) | {"epoch": epochs.astype(np.uint32)}

    def _validation_samples(self, rows: OwnRows) -> Iterator[dict]:
        """Batches of one shape; a part of the split is kept in memory, and read once."""
        run = self._run
        if self._validation_batches is not None:
            yield from self._validation_batches
            return
        kept = []
        size, count = run.validation_batch_size, run.pretraining.validation.samples
        for whole in evaluation_samples(run.validation, size, count):
            indices, records = (x[rows.rows] for x in whole)
            batch = self._stored(indices, records)
            if count is not None:
                kept.append(batch)
            yield batch
        self._validation_batches = kept or None

    def _stored(self, indices: np.ndarray, records: np.ndarray) -> dict:
        ids, attention = decoded(indices, records, self._run.train.sequence_length)
        tokens = packed(ids, attention, self._architecture.vocabulary)
        return {"tokens": tokens, "index": indices.astype(np.uint32)}


def _ahead(batches: Iterator[dict], given: Callable[[dict], dict]) -> Iterator[dict]:
    """Each batch on the devices, the next one read meanwhile."""
    with ThreadPoolExecutor(1) as reader:

        def read():
            batch = next(batches, None)
            return None if batch is None else given(batch)

        coming = reader.submit(read)
        while (batch := coming.result()) is not None:
            coming = reader.submit(read)
            yield batch


def _name(path) -> str:
    return "/".join(str(part.key) for part in path)
