"""A training step on this machine's accelerator: seconds, tokens, memory, and whether bits hold.

    python benchmarks/accelerator.py [--quick] [--cases NAME ...] [--with NAME ...]

Of each case, one after the other, a process each:

  jax            the engine's own step, its masks drawn in it, on all devices, deterministic
  jax-fastest    on a GPU: with accelerator.deterministic: false
  jax-cudnn      on a GPU, without dropout of attention: so, and with cuDNN's attention
  pytorch        on a GPU or a CPU, where torch and transformers are installed (--pytorch names the
                 interpreter that has them): the model of transformers with its head at the masked
                 positions alone, sdpa where the family has it, and torch.compile, on one device

All train random weights on random tokens, with AdamW and clipping, in bfloat16 beside float32
weights. A row has the step's median over the turns and its quartiles; tokens a second on a device;
the share of the rate of a large product in bfloat16, measured before; the most memory that a device
held, where it tells; and whether two runs, and one resumed from a copy on the host, ended in the
same bits. FLOPs are those of a step of `jax`, as the preflight counts them.

It needs jax, numpy, pydantic and this library, and neither TensorFlow nor Snakemake. Compiling a
large model for a GPU takes a minute or more for each row. Ends with 1 where a case failed, or where
a deterministic step gave other bits.
"""

import argparse
import datetime
import hashlib
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from importlib.util import find_spec
from pathlib import Path

import numpy as np

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "scripts"))

WHO = ("jax", "jax-fastest", "jax-cudnn", "pytorch")
#: Steps of each of the runs whose bits are compared; the third is resumed in between.
COMPARED = 4
RATE, DECAY, LARGEST_NORM = 1e-4, 0.01, 1.0
SPECIAL = {"bos_token_id": 0, "cls_token_id": 0, "eos_token_id": 2, "sep_token_id": 2}


@dataclass(frozen=True)
class Case:
    """A model's config.json, samples of one device in a step, tokens of a sample, share masked."""

    config: dict
    batch: int
    sequence: int
    masked: float = 0.15


def _sizes(vocabulary: int, width: int, layers: int, inner: int, positions: int) -> dict:
    return {
        "vocab_size": vocabulary,
        "hidden_size": width,
        "num_hidden_layers": layers,
        "num_attention_heads": 12,
        "intermediate_size": inner,
        "max_position_embeddings": positions,
    }


_NO_DROPOUT = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
_ROBERTA = _sizes(50_265, 768, 12, 3072, 514) | {"model_type": "roberta"}
#: As in presets/roberta-base-2026.yaml.
_WITHOUT_DROPOUT = _ROBERTA | {"model_type": "roberta-prelayernorm"} | _NO_DROPOUT
_MODERNBERT = _sizes(50_368, 768, 22, 1152, 8192) | SPECIAL | {"pad_token_id": 1}
# Of transformers: the whole model is compiled, not a part by itself.
_MODERNBERT |= {"model_type": "modernbert", "reference_compile": False}
_DEFAULT = _sizes(8_000, 128, 2, 512, 66) | _NO_DROPOUT
_DEFAULT |= {"model_type": "roberta-prelayernorm", "num_attention_heads": 4}
CASES = {
    "roberta-base-2026-512": Case(_WITHOUT_DROPOUT, 32, 512, 0.3),
    "roberta-base-512": Case(_ROBERTA, 32, 512),
    "modernbert-base-512": Case(_MODERNBERT, 32, 512, 0.3),
    "modernbert-base-8192": Case(_MODERNBERT, 2, 8192, 0.3),
    "default": Case(_DEFAULT, 64, 64, 0.3),
}


def quick(case: Case) -> Case:
    """The case so small that a CPU runs it: the same code, and figures that say nothing."""
    positions = case.config["max_position_embeddings"]
    small = _sizes(500, 64, 2, 96, positions) | {"num_attention_heads": 2}
    return Case(case.config | small, 2, min(case.sequence, 1024), case.masked)


class InJax:
    """The engine's step on all devices of `kind`, as `who` of the table above computes it."""

    def __init__(self, case: Case, given: argparse.Namespace, who: str):
        from mlm.training.in_jax.devices import data_mesh, prepare_jax, shardings

        # Beside another framework on the same device; and the peak is then the step's own.
        os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")
        prepare_jax(given.kind, given.threads, None, deterministic=who == "jax")
        self._mesh = data_mesh(given.kind, None)

        import jax

        from mlm.config.pretraining import Optimizer
        from mlm.model.architecture import Architecture
        from mlm.model.network import Network, ops_of
        from mlm.preflight.steps_and_flops import product_flops
        from mlm.samples.masking import MaskingPlan
        from mlm.training.in_jax.engine import masked_train_step, on_mesh
        from mlm.training.train_step import Computation, RandomInputs

        self._whole, divided = shardings(self._mesh)
        samples, vocabulary = case.batch * self._mesh.size, case.config["vocab_size"]
        rates = {"learning_rate": RATE, "weight_decay": DECAY, "max_grad_norm": LARGEST_NORM}
        self._settings = Optimizer(name="adamw", **rates).scheduled(10_000)
        self._architecture, special = Architecture.of(case.config), (0, 1, 2, 3, 4)
        plan = MaskingPlan(case.masked, 0.8, 0.1, 4, special, vocabulary, case.sequence)
        attention = "cudnn" if who == "jax-cudnn" else "xla"
        network = Network(self._architecture, ops_of("jax"), "bfloat16", attention)
        random = RandomInputs(Computation(network, "sample", 0), 0, self._mesh.size)
        step = masked_train_step(random, plan, self._settings)
        self._step = jax.jit(on_mesh(step, self._mesh), donate_argnums=0)
        ids = np.random.default_rng(0).integers(5, vocabulary, (samples, case.sequence))
        batch = {
            "input_ids": ids.astype(np.int32),
            "attention_mask": np.ones_like(ids, np.int32),
            "index": np.arange(samples, dtype=np.uint32),
            "epoch": np.zeros(samples, np.uint32),
        }
        batch |= random.arrays(0)
        self._batch = jax.device_put(batch, divided)
        self._begin()
        traced, device = self._step.trace(self._state, self._batch), self._mesh.devices.flat[0]
        rate = product_rate(device, 512 if given.quick else 8192)
        self.facts = {
            "device": device.device_kind,
            "platform": device.platform,
            "devices": self._mesh.size,
            "versions": f"jax {jax.__version__}",
            "product_tflops": rate / 1e12,
            "tflops_per_step": product_flops(traced.jaxpr) / self._mesh.size / 1e12,
            **self._bits(),
        }
        self._begin()

    def _begin(self, *stored: dict) -> None:
        """Start from the first weights, or from a state `stored` on the host."""
        import jax
        import jax.numpy as jnp

        from mlm.model.initialisation import initial_parameters
        from mlm.training.optimizers import first_moments

        self._state = None
        if not stored:
            weights = initial_parameters(self._architecture, 0)
            moments = first_moments(np.zeros_like, weights, self._settings, {})
            stored = ({"parameters": weights, "moments": moments, "step": np.int32(0)},)
        copy = jax.jit(partial(jax.tree.map, jnp.copy), out_shardings=self._whole)
        self._state = copy(*stored)

    def update(self, steps: int) -> float:
        """The loss of the last of so many updates, which are then done."""
        for _ in range(steps):
            self._state, sums = self._step(self._state, self._batch)
        return float(sums["loss"])

    def _bits(self) -> dict[str, bool]:
        """Whether a second run, and one resumed from a copy on the host, end as the first does."""
        import jax

        ends = []
        for part in (0, 0, COMPARED // 2):
            self._begin()
            if part:
                self.update(part)
                self._begin(jax.tree.map(np.array, self._state))
            self.update(COMPARED - part)
            leaves = b"".join(np.array(x).tobytes() for x in jax.tree.leaves(self._state))
            ends.append(hashlib.sha256(leaves).hexdigest())
        return {"same_bits_again": ends[0] == ends[1], "same_bits_resumed": ends[0] == ends[2]}

    def peak_memory(self) -> int | None:
        return (self._mesh.devices.flat[0].memory_stats() or {}).get("peak_bytes_in_use")


def product_rate(device, size: int) -> float:
    """FLOPs a second of products of bfloat16 matrices of `size` × `size`, the best of ten turns."""
    import jax
    import jax.numpy as jnp

    matrix = jax.device_put(np.full((size, size), 1 / size, np.float32), device)
    matrix, together = matrix.astype(jnp.bfloat16), 8
    product = jax.jit(
        lambda x, w: jax.lax.fori_loop(
            0, together, lambda _, y: jnp.matmul(y, w, preferred_element_type=jnp.bfloat16), x
        )
    )
    seconds = []
    for _ in range(11):  # the first compiles
        begun = time.perf_counter()
        product(matrix, matrix).block_until_ready()
        seconds.append(time.perf_counter() - begun)
    return together * 2 * size**3 / min(seconds)


class InPyTorch:
    """The model of transformers with its own loss, on the first GPU or the CPU."""

    def __init__(self, case: Case, given: argparse.Namespace):
        import torch
        import transformers

        self._torch = torch
        torch.set_num_threads(given.threads)
        torch.manual_seed(0)
        cuda = torch.cuda.is_available() and given.kind != "cpu"
        self._device = "cuda" if cuda else "cpu"
        self.facts = {
            "device": torch.cuda.get_device_name() if cuda else "cpu",
            "platform": "gpu" if cuda else "cpu",
            "devices": 1,
            "versions": f"torch {torch.__version__}, transformers {transformers.__version__}",
        }
        config = dict(case.config)
        names = {"roberta": "Roberta", "modernbert": "ModernBert"}
        family = names.get(config.pop("model_type"), "RobertaPreLayerNorm")
        config = getattr(transformers, f"{family}Config")(**config)
        config._attn_implementation = "eager" if family == "RobertaPreLayerNorm" else "sdpa"
        model = getattr(transformers, f"{family}ForMaskedLM")(config).to(self._device).train()
        settings = {"lr": RATE, "weight_decay": DECAY, "betas": (0.9, 0.98), "fused": cuda}
        self._optimizer = torch.optim.AdamW(model.parameters(), **settings)
        self._model, self._called = model, torch.compile(self._loss)
        random, shape = np.random.default_rng(0), (case.batch, case.sequence)
        ids = random.integers(5, case.config["vocab_size"], shape)
        slots = round(case.masked * case.sequence)
        positions = random.random(shape).argsort(axis=1)[:, :slots]
        masked = ids.copy()
        np.put_along_axis(masked, positions, 4, axis=1)
        inputs = {"input_ids": masked, "attention_mask": np.ones_like(ids), "positions": positions}
        inputs["labels"] = np.take_along_axis(ids, positions, axis=1)
        self._inputs = {k: torch.tensor(v, device=self._device) for k, v in inputs.items()}

    def _loss(self, input_ids, attention_mask, positions, labels):
        """The mean cross-entropy at `positions`; the head sees no other."""
        torch, model = self._torch, self._model
        states = model.base_model(input_ids=input_ids, attention_mask=attention_mask)[0]
        chosen = positions[..., None].expand(-1, -1, states.shape[-1])
        states = torch.gather(states, 1, chosen)
        head = getattr(model, "lm_head", None)
        logits = head(states) if head is not None else model.decoder(model.head(states))
        logits = logits.flatten(0, 1).float()
        return torch.nn.functional.cross_entropy(logits, labels.flatten())

    def update(self, steps: int) -> float:
        for _ in range(steps):
            with self._torch.autocast(self._device, self._torch.bfloat16):
                loss = self._called(**self._inputs)
            loss.backward()
            self._torch.nn.utils.clip_grad_norm_(self._model.parameters(), LARGEST_NORM)
            self._optimizer.step()
            self._optimizer.zero_grad()
        return float(loss.detach())

    def peak_memory(self) -> int | None:
        return self._torch.cuda.max_memory_allocated() if self._device == "cuda" else None


def work(who: str, name: str, given: argparse.Namespace) -> dict:
    """The row of one case, measured in this process."""
    case = quick(CASES[name]) if given.quick else CASES[name]
    built = InPyTorch(case, given) if who == "pytorch" else InJax(case, given, who)
    loss, turns = built.update(3), []
    for _ in range(given.turns):
        begun = time.perf_counter()
        built.update(given.steps)
        turns.append((time.perf_counter() - begun) / given.steps)
    low, median, high = np.quantile(turns, (0.25, 0.5, 0.75))
    peak = built.peak_memory()
    row = built.facts | {
        "loss": loss,
        "step_ms": round(1e3 * median, 3),
        "step_ms_quartiles": [round(1e3 * low, 3), round(1e3 * high, 3)],
        "tokens_per_second_per_device": round(case.batch * case.sequence / median),
        "peak_memory_gib": None if peak is None else round(peak / 2**30, 3),
    }
    per_step, per_second = given.tflops or (row["tflops_per_step"], row["product_tflops"])
    return row | {"share_of_product": round(per_step / median / per_second, 4)}


def measured(name: str, given: argparse.Namespace) -> Iterator[dict]:
    """A row for each of `given.who`, in a process of its own."""
    platform = tflops = None
    for who in given.who:
        if who in ("jax-fastest", "jax-cudnn") and platform != "gpu":
            continue
        if who == "jax-cudnn" and name == "roberta-base-512":
            continue
        if who == "pytorch" and (platform == "tpu" or given.pytorch is None):
            print("pytorch: left out; --pytorch names an interpreter", file=sys.stderr)
            continue
        python = given.pytorch if who == "pytorch" else sys.executable
        options = {key: getattr(given, key) for key in ("kind", "threads", "turns", "steps")}
        command = [python, __file__, "--work", who, name, *["--quick"] * given.quick]
        command += [f"--{option}={value}" for option, value in options.items()]
        command += ["--tflops", *map(str, tflops)] if tflops else []
        ran = subprocess.run(command, stdout=subprocess.PIPE, text=True)
        row = {"date": datetime.date.today().isoformat(), "who": who}
        row["case"] = name + (" (quick)" if given.quick else "")
        if ran.returncode:
            yield row | {"failed": f"ended with status {ran.returncode}; its words stand above"}
            continue
        row |= json.loads(ran.stdout.splitlines()[-1])
        platform = row["platform"]
        tflops = tflops or (row["tflops_per_step"], row["product_tflops"])
        yield row


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("--quick", action="store_true", help="sizes that a CPU computes")
    arguments.add_argument("--cases", nargs="*", default=list(CASES), choices=list(CASES))
    arguments.add_argument("--with", nargs="+", default=list(WHO), choices=WHO, dest="who")
    arguments.add_argument("--kind", default="auto", choices=("auto", "cpu", "gpu", "tpu"))
    arguments.add_argument("--threads", type=int, default=os.cpu_count(), help="of a CPU")
    arguments.add_argument("--turns", type=int, default=9)
    arguments.add_argument("--steps", type=int, default=10, help="steps of one turn")
    here = sys.executable if find_spec("torch") and find_spec("transformers") else None
    arguments.add_argument("--pytorch", default=here, help="an interpreter with torch")
    arguments.add_argument("--work", nargs=2, help=argparse.SUPPRESS)
    arguments.add_argument("--tflops", nargs=2, type=float, help=argparse.SUPPRESS)
    given = arguments.parse_args()
    if given.work:
        print(json.dumps(work(*given.work, given)))
        return
    wrong = False
    for name in given.cases:
        for row in measured(name, given):
            bits = row.get("same_bits_again") and row.get("same_bits_resumed")
            wrong |= "failed" in row or (row["who"] == "jax" and not bits)
            print(json.dumps(row), flush=True)
    sys.exit(int(wrong))


if __name__ == "__main__":
    main()
