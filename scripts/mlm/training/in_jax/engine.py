"""The engine of a run in JAX: its weights, optimizer, batches and steps, on a mesh of devices."""

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

import jax
import jax.numpy as jnp
import numpy as np
from jax.experimental import multihost_utils

from mlm.model.architecture import Architecture
from mlm.model.cooccurrence import initialise_from_counts
from mlm.model.export import ExportedModel
from mlm.model.initialisation import neighbour_heads
from mlm.model.sampled_softmax import head_in_words
from mlm.model.weights import initial_parameters
from mlm.samples.masking import VALIDATION_SEED
from mlm.samples.split_samples import decoded, validation_samples
from mlm.samples.stored_batches import stored_batches
from mlm.training.devices import Devices
from mlm.training.gfile import read_bytes, write_bytes
from mlm.training.in_jax.devices import shardings
from mlm.training.in_jax.optimizers import all_finite, first_moments, hidden_parts
from mlm.training.in_jax.train_step import Computation, on_mesh, packed, train_step, validation_step
from mlm.training.run import Run

_FILE = "state.safetensors"


class NamedWeights:
    """`StartingWeights` of weights by PyTorch's names, float32 of NumPy, changed in place."""

    def __init__(self, weights: dict[str, np.ndarray], architecture: Architecture):
        self._weights, self._names = weights, architecture.names

    def table(self, name: str) -> np.ndarray:
        return self._weights[f"{getattr(self._names, name)}.weight"].copy()

    def set_table(self, name: str, table: np.ndarray) -> None:
        self._set(f"{getattr(self._names, name)}.weight", table)

    def set_attention(self, layer: int, **kernels: np.ndarray) -> None:
        names, place = self._names, f"{self._names.layer}{layer}."
        if "output" in kernels:
            self._set(f"{place}{names.attended}.weight", kernels["output"].T)
        read = np.concatenate([self._weights[f"{place}{n}.weight"] for n in names.projections])
        for role, part in zip(("query", "key", "value"), np.split(read, 3), strict=True):
            if role in kernels:
                part[:] = kernels[role].T
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

    def __init__(self, run: Run, devices: Devices):
        self._run, self._group, self.step = run, devices.group, 0
        self._architecture, mesh = Architecture.of(run.model_config.to_dict()), devices.strategy
        self._whole, self._divided = shardings(mesh)
        weights = initial_parameters(self._architecture, jax.random.key(run.seed))
        weights = {name: np.array(value) for name, value in weights.items()}
        self.begun = None
        if run.warm_start is not None:
            names = self._architecture.names
            tables = f"{names.words}.weight", [names.decoder_bias]
            weights, self.begun = run.warm_start.over(weights, *tables)
        elif run.model.initialisation.attention == "neighbour_heads":
            neighbour_heads(NamedWeights(weights, self._architecture), run.model_config, run.seed)
        self.begin_with(weights)
        self.parameters = sum(value.size for value in weights.values())
        section, precision = run.pretraining, devices.precision
        how = section.attend, section.rematerialise, precision, run.model_config.cls_token_id
        attention = devices.arithmetic.get("attention", "xla")
        self.head = head_in_words(self._architecture.vocabulary, section.softmax_classes)
        computation = Computation(self._architecture, *how, attention, section.softmax_classes)
        train = train_step(computation, run.plan, section.optimizer, run.seed)
        validate = validation_step(computation, run.validation_plan, VALIDATION_SEED)
        self._train = jax.jit(on_mesh(train, mesh), donate_argnums=0)
        self._validate = jax.jit(on_mesh(validate, mesh))
        self._finite = jax.jit(all_finite)
        self._batches: Iterator[dict] | None = None
        self._validation_batches: list[dict] | None = None

    def begin_with(self, weights: dict[str, np.ndarray]) -> None:
        """Begin at these, those of rank 0: another's processor may have rounded otherwise."""
        optimizer, hidden = self._run.pretraining.optimizer, hidden_parts(self._architecture)

        def state(weights):
            moments = first_moments(weights, optimizer, hidden)
            return {"parameters": weights, "moments": moments, "step": jnp.int32(0)}

        self._put(state, weights)

    def _put(self, state_of: Callable[[dict], dict], given: dict[str, np.ndarray]) -> None:
        given = multihost_utils.broadcast_one_to_all(given)
        given = {name: np.asarray(value) for name, value in given.items()}
        self._state = None  # One state at a time is in memory.
        # Copied by a computation: what is donated later must not be the host's own memory.
        self._state = jax.jit(
            lambda tree: jax.tree.map(jnp.copy, state_of(tree)), out_shardings=self._whole
        )(given)

    def start_from_counts(self) -> None:
        weights = self.exported().weights
        if self._group.is_rank0:
            named = NamedWeights(weights, self._architecture)
            initialise_from_counts(named, self._run, self.begun)
        self.begin_with(weights)

    def advance(self, steps: int) -> dict[str, float]:
        if self._batches is None:
            self._batches = self._ahead(self._training_batches(), self._run.batch_size)
        made = []
        for _ in range(steps):
            self._state, measured = self._train(self._state, next(self._batches))
            made.append(measured)
        self.step += steps
        # In float64, where a sum of float32 is exact: the same however many steps are added here.
        sums = dict.fromkeys(made[0], 0.0)
        for measured in made:
            predictions = np.float32(measured["predictions"])
            for name, value in measured.items():
                is_mean = name in ("loss", "accuracy")
                sums[name] += float(np.float32(value) * (predictions if is_mean else 1))
        return sums

    def validate(self) -> tuple[float, float]:
        sums, size = np.zeros(3), self._run.validation_batch_size
        for batch in self._ahead(self._validation_samples(), size):
            sums += [float(x) for x in self._validate(self._state["parameters"], batch)]
        return sums[0] / sums[2], sums[1] / sums[2]

    def weights_are_finite(self) -> bool:
        return bool(self._finite(self._state["parameters"]))

    def exported(self) -> ExportedModel:
        weights = {name: np.array(v) for name, v in self._state["parameters"].items()}
        return ExportedModel(weights, self._run.model_config)

    def write(self, place: str) -> None:
        from safetensors.numpy import save

        leaves = jax.tree_util.tree_leaves_with_path(self._state)
        # On a CPU these are no copies.
        state = save({_name(path): np.asarray(value) for path, value in leaves})
        write_bytes(f"{place}/{_FILE}", state)

    def read(self, place: str) -> None:
        """Take the state from there, read by rank 0."""
        from safetensors.numpy import load

        leaves, structure = jax.tree_util.tree_flatten_with_path(self._state)
        empty = {_name(path): np.zeros(value.shape, value.dtype) for path, value in leaves}
        self._state = leaves = None
        stored = load(read_bytes(f"{place}/{_FILE}")) if self._group.is_rank0 else empty
        self._put(lambda given: structure.unflatten([given[name] for name in empty]), stored)

    def _training_batches(self) -> Iterator[dict]:
        rows = self._own_rows(self._run.batch_size)
        for whole in stored_batches(self._run.train, self._run.order_from(self.step)):
            epochs, indices, records = (x[rows] for x in whole)
            yield self._stored(indices, records) | {"epoch": epochs.astype(np.uint32)}

    def _validation_samples(self) -> Iterator[dict]:
        """Batches of one shape; a part of the split is kept in memory, and read once."""
        run = self._run
        if self._validation_batches is not None:
            yield from self._validation_batches
            return
        kept = []
        size, count = run.validation_batch_size, run.pretraining.validation.samples
        rows = self._own_rows(size)
        for whole in validation_samples(run.validation, size, count):
            batch = self._stored(*(x[rows] for x in whole))
            if count is not None:
                kept.append(batch)
            yield batch
        self._validation_batches = kept or None

    def _stored(self, indices: np.ndarray, records: np.ndarray) -> dict:
        ids, attention = decoded(indices, records, self._run.train.sequence_length)
        tokens = packed(ids, attention, self._architecture.vocabulary)
        return {"tokens": tokens, "index": indices.astype(np.uint32)}

    def _own_rows(self, samples: int) -> np.ndarray:
        """The rows of a batch, divided over all devices, that are on those of this process."""
        places = self._divided.addressable_devices_indices_map((samples,)).values()
        return np.sort(np.concatenate([np.arange(samples)[place] for place in places]))

    def _ahead(self, batches: Iterator[dict], samples: int) -> Iterator[dict]:
        """Each batch, of which `batches` have the own rows, over all devices, read one ahead."""

        def read() -> dict:
            return {
                name: jax.make_array_from_process_local_data(
                    self._divided, own, (samples, *own.shape[1:])
                )
                for name, own in next(batches, {}).items()
            }

        with ThreadPoolExecutor(1) as reader:
            coming = reader.submit(read)
            while batch := coming.result():
                coming = reader.submit(read)
                yield batch


def _name(path) -> str:
    return "/".join(str(part.key) for part in path)
