"""A training step on this machine's accelerator: seconds, tokens, memory, and whether bits hold.

    python benchmarks/accelerator.py [--quick] [--cases NAME ...] [--with NAME ...] [--json]

Of each case, in turns, a process each:

  jax            the engine's own step, its masks drawn in it, on all devices, deterministic
  jax-fastest    on a GPU: with accelerator.deterministic: false
  jax-cudnn      on a GPU, without dropout of attention: so, and with cuDNN's attention
  pytorch        on a GPU or a CPU, where torch and transformers are installed (--pytorch names the
                 interpreter that has them): the model of transformers with its head at the masked
                 positions alone, sdpa where the family has it, and torch.compile, on one device

All train random weights on random tokens, with AdamW and clipping, in bfloat16 beside float32
weights. Told are the step's median over the turns and its quartiles; tokens a second on a device;
the share of the rate of a large product in bfloat16, which was measured before; the most memory
that a device held, where it tells; and whether two runs, and one that went on from a copy on the
host, ended in the same bits. FLOPs are those of the engine's products, forwards and backwards,
without what is computed again.

The losses of 200 steps of a small model without dropout, on one batch, are compared with those in
float32 on this machine's CPU: by XLA, and on a GPU by cuDNN's attention as well.

Where there are shards (--shards, a directory of manifests; `snakemake --cores 2
results/manifests/train.json results/manifests/validation.json` makes those of the embedded corpus),
the engine also trains the default's model on them for a while, and the loss at the end is told.

It needs jax, numpy and this library, and neither TensorFlow nor Snakemake; for shards pydantic,
protobuf, google-crc32c and zstandard as well. Compiling a large model for a GPU takes a minute or
more for each row; stderr names each that is ready. Ends with 1 where a case failed, or where a
deterministic step gave other bits.
"""

import argparse
import datetime
import hashlib
import json
import os
import statistics
import subprocess
import sys
import time
from dataclasses import dataclass, replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "scripts"))

WHO = ("jax", "jax-fastest", "jax-cudnn", "pytorch")
#: Steps whose losses are compared, and who computes them on the device.
CURVE, CURVES = 200, ("jax", "jax-cudnn")
#: Steps of each of the runs whose bits are compared; the third is left and gone on with in between.
COMPARED = 4
RATE, DECAY, LARGEST_NORM = 1e-4, 0.01, 1.0
SPECIAL = {
    "bos_token_id": 0,
    "pad_token_id": 1,
    "eos_token_id": 2,
    "cls_token_id": 0,
    "sep_token_id": 2,
}


@dataclass(frozen=True)
class Case:
    """A model's config.json, samples of one device in a step, tokens of a sample, share masked."""

    config: dict
    batch: int
    sequence: int
    masked: float = 0.15


_ROBERTA = {
    "model_type": "roberta",
    "vocab_size": 50_265,
    "hidden_size": 768,
    "num_hidden_layers": 12,
    "num_attention_heads": 12,
    "intermediate_size": 3072,
    "max_position_embeddings": 514,
    "hidden_dropout_prob": 0.1,
    "attention_probs_dropout_prob": 0.1,
}
_MODERNBERT = {
    "model_type": "modernbert",
    "vocab_size": 50_368,
    "hidden_size": 768,
    "num_hidden_layers": 22,
    "num_attention_heads": 12,
    "intermediate_size": 1152,
    "max_position_embeddings": 8192,
    **SPECIAL,
    # Of transformers: the whole model is compiled, not a part by itself.
    "reference_compile": False,
}
_DEFAULT = {
    "model_type": "roberta-prelayernorm",
    "vocab_size": 8_000,
    "hidden_size": 128,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 512,
    "max_position_embeddings": 66,
    "hidden_dropout_prob": 0.0,
    "attention_probs_dropout_prob": 0.0,
}
#: As in presets/roberta-base-2026.yaml.
_WITHOUT_DROPOUT = _ROBERTA | {
    "model_type": "roberta-prelayernorm",
    "hidden_dropout_prob": 0.0,
    "attention_probs_dropout_prob": 0.0,
}
CASES = {
    "roberta-base-2026-512": Case(_WITHOUT_DROPOUT, 32, 512, 0.3),
    "roberta-base-512": Case(_ROBERTA, 32, 512),
    "modernbert-base-512": Case(_MODERNBERT, 32, 512, 0.3),
    "modernbert-base-8192": Case(_MODERNBERT, 2, 8192, 0.3),
    "default": Case(_DEFAULT, 64, 64, 0.3),
}


def quick(case: Case) -> Case:
    """The case so small that a CPU runs it: the same code, and figures that say nothing."""
    small = {
        "vocab_size": 500,
        "hidden_size": 64,
        "num_hidden_layers": 2,
        "num_attention_heads": 2,
        "intermediate_size": 96,
    }
    return Case(case.config | small, 2, min(case.sequence, 1024), case.masked)


def masks(case: Case):
    from mlm.samples.masking import MaskingPlan

    vocabulary = case.config["vocab_size"]
    return MaskingPlan(case.masked, 0.8, 0.1, 4, (0, 1, 2, 3, 4), vocabulary, case.sequence)


def adamw(steps: int = 10_000, rate: float = RATE):
    from mlm.config.optimizers import Optimizer
    from mlm.training.learning_rate import with_lengths

    asked = Optimizer(
        name="adamw", learning_rate=rate, weight_decay=DECAY, max_grad_norm=LARGEST_NORM
    )
    return with_lengths(asked, steps)


def flops(case: Case) -> float:
    """Of one sample's update: the products of the layers, of attention and of the head.

    The last layer goes on at the slots alone. Twice as many backwards as forwards.
    """
    from mlm.model.architecture import Architecture, parameter_shapes
    from mlm.training.in_jax.optimizers import hidden_parts

    a, slots = Architecture.of(case.config), masks(case).slots
    shapes, last = parameter_shapes(a), f"{a.names.layer}{a.layers - 1}."
    # Keys and values of the last layer, and the queries that one product makes with them.
    projections = a.names.projections
    read = {f"{last}{name}.weight" for name in projections[len(projections) > 1 :]}
    total = 2.0 * slots * a.vocabulary * a.width
    for name in hidden_parts(a):
        whole = name.startswith(a.names.layer) and not name.startswith(last)
        tokens = case.sequence if whole or name in read else slots
        total += 2.0 * tokens * np.prod(shapes[name])
    for layer in range(a.layers):
        queries = slots if layer == a.layers - 1 else case.sequence
        keys = min(a.window + 1, case.sequence) if layer in a.local_layers else case.sequence
        total += 4.0 * queries * keys * a.width
    return 3.0 * total


class InJax:
    """The engine's step on all devices of `kind`, as `who` of the table above computes it."""

    def __init__(self, case: Case, given: argparse.Namespace, who: str, precision="bfloat16"):
        from mlm.training.in_jax.devices import data_mesh, prepare_jax, shardings

        # Beside another framework on the same device; and the peak is then the step's own.
        os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")
        prepare_jax(given.kind, given.threads, None, deterministic=who == "jax")
        self._mesh = data_mesh(given.kind, None)

        import jax

        from mlm.model.architecture import Architecture
        from mlm.training.in_jax.train_step import Computation, on_mesh, packed, train_step

        self._whole, divided = shardings(self._mesh)
        self._architecture, self._settings = Architecture.of(case.config), adamw()
        attention = "cudnn" if who == "jax-cudnn" else "xla"
        computation = Computation(self._architecture, "sample", False, precision, 0, attention)
        step = train_step(computation, masks(case), self._settings, 0)
        self._step = jax.jit(on_mesh(step, self._mesh), donate_argnums=0)
        samples, vocabulary = case.batch * self._mesh.size, case.config["vocab_size"]
        ids = np.random.default_rng(0).integers(5, vocabulary, (samples, case.sequence))
        batch = {
            "tokens": packed(ids, np.ones_like(ids), vocabulary),
            "index": np.arange(samples, dtype=np.uint32),
            "epoch": np.zeros(samples, np.uint32),
        }
        self._batch = jax.device_put(batch, divided)
        self._begin()

    def measure(self, quick: bool) -> None:
        """The rate of a product, and whether bits hold; then the step is at its start."""
        self.peak_flops = product_rate(self._mesh.devices.flat[0], 512 if quick else 8192)
        self.bits = self._bits()
        self._begin()

    def _begin(self, stored: dict | None = None) -> None:
        """At the first weights, or at those `stored` on the host."""
        import jax
        import jax.numpy as jnp

        from mlm.model.weights import initial_parameters
        from mlm.training.in_jax.optimizers import first_moments, hidden_parts

        def first():
            weights = initial_parameters(self._architecture, jax.random.key(0))
            moments = first_moments(weights, self._settings, hidden_parts(self._architecture))
            return {"parameters": weights, "moments": moments, "step": jnp.int32(0)}

        self._state = None
        if stored is None:
            self._state = jax.jit(first, out_shardings=self._whole)()
        else:
            copied = jax.jit(lambda tree: jax.tree.map(jnp.copy, tree), out_shardings=self._whole)
            self._state = copied(stored)

    def update(self, steps: int) -> float:
        """The loss of the last of so many updates, which are then done."""
        for _ in range(steps):
            self._state, sums = self._step(self._state, self._batch)
        return float(sums["loss"])

    def _on_host(self) -> dict:
        import jax

        return jax.tree.map(lambda x: np.array(x), self._state)

    def _bits(self) -> dict[str, bool]:
        """Whether a second run, and one gone on with from the host, end as the first does."""
        import jax

        ends = []
        for part in (0, 0, COMPARED // 2):
            self._begin()
            if part:
                self.update(part)
                self._begin(self._on_host())
            self.update(COMPARED - part)
            leaves = jax.tree.leaves(self._on_host())
            ends.append(hashlib.sha256(b"".join(leaf.tobytes() for leaf in leaves)).hexdigest())
        return {"same_bits_again": ends[0] == ends[1], "same_bits_resumed": ends[0] == ends[2]}

    def device(self) -> str:
        return self._mesh.devices.flat[0].device_kind

    def described(self) -> dict:
        import jax

        device = self._mesh.devices.flat[0]
        return {
            "device": device.device_kind,
            "platform": device.platform,
            "devices": self._mesh.size,
            "versions": f"jax {jax.__version__}",
            "product_tflops": round(self.peak_flops / 1e12, 3),
            **self.bits,
        }

    def peak_memory(self) -> int | None:
        found = self._mesh.devices.flat[0].memory_stats()
        return (found or {}).get("peak_bytes_in_use")


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
    product(matrix, matrix).block_until_ready()
    seconds = []
    for _ in range(10):
        begun = time.perf_counter()
        product(matrix, matrix).block_until_ready()
        seconds.append(time.perf_counter() - begun)
    return together * 2 * size**3 / min(seconds)


class InPyTorch:
    """The model of transformers with its own loss, on the first GPU or the CPU."""

    def __init__(self, case: Case, given: argparse.Namespace):
        import torch
        import transformers

        self._torch, self._versions = torch, (torch.__version__, transformers.__version__)
        torch.set_num_threads(given.threads)
        torch.manual_seed(0)
        self._device = "cuda" if torch.cuda.is_available() and given.kind != "cpu" else "cpu"
        model_type = case.config["model_type"]
        family = {"roberta": "Roberta", "modernbert": "ModernBert"}.get(
            model_type, "RobertaPreLayerNorm"
        )
        config = {key: value for key, value in case.config.items() if key != "model_type"}
        config = getattr(transformers, f"{family}Config")(**config)
        config._attn_implementation = "eager" if family == "RobertaPreLayerNorm" else "sdpa"
        model = getattr(transformers, f"{family}ForMaskedLM")(config).to(self._device).train()
        fused = {"fused": True} if self._device == "cuda" else {}
        self._optimizer = torch.optim.AdamW(
            model.parameters(), lr=RATE, weight_decay=DECAY, betas=(0.9, 0.98), **fused
        )
        self._model, self._called = model, torch.compile(self._loss)
        random = np.random.default_rng(0)
        shape = (case.batch, case.sequence)
        ids = random.integers(5, case.config["vocab_size"], shape)
        slots = round(case.masked * case.sequence)
        positions = random.random(shape).argsort(axis=1)[:, :slots]
        masked = ids.copy()
        np.put_along_axis(masked, positions, 4, axis=1)
        inputs = {
            "input_ids": masked,
            "attention_mask": np.ones(shape, np.int64),
            "positions": positions,
            "labels": np.take_along_axis(ids, positions, axis=1),
        }
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

    def described(self) -> dict:
        cuda = self._device == "cuda"
        return {
            "device": self._torch.cuda.get_device_name() if cuda else "cpu",
            "platform": "gpu" if cuda else "cpu",
            "devices": 1,
            "versions": "torch {}, transformers {}".format(*self._versions),
        }

    def peak_memory(self) -> int | None:
        return self._torch.cuda.max_memory_allocated() if self._device == "cuda" else None


def work(who: str, case: Case, given: argparse.Namespace) -> None:
    """Says what it is, then for each number of steps on stdin the seconds of one."""
    if who == "pytorch":
        built = InPyTorch(case, given)
    else:
        built = InJax(case, given, who)
        built.measure(given.quick)
    loss = built.update(3)
    print(json.dumps(built.described() | {"loss": loss}), flush=True)
    for line in sys.stdin:
        begun = time.perf_counter()
        built.update(int(line))
        seconds = (time.perf_counter() - begun) / int(line)
        print(json.dumps([seconds, built.peak_memory()]), flush=True)


class Worker:
    """A process that waits while the others have their turn; `failed` says why it is no more."""

    def __init__(self, who: str, name: str, given: argparse.Namespace):
        python = given.pytorch if who == "pytorch" else sys.executable
        options = ["--kind", given.kind, "--threads", str(given.threads), "--work", who, name]
        self.who, self.failed = who, ""
        self._process = subprocess.Popen(
            [python, __file__, *options, *(["--quick"] if given.quick else [])],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self.told = self._answer() or {}
        print(f"{name}, {who}: {self.failed or self.told}", file=sys.stderr, flush=True)
        self.turns: list[float] = []
        self.peak: int | None = None

    def _answer(self):
        line = self._process.stdout.readline()
        if not line:
            self.failed = f"ended with status {self._process.wait()}; its last words stand above"
            return None
        return json.loads(line)

    def take_turn(self, steps: int) -> None:
        if self.failed:
            return
        print(steps, file=self._process.stdin, flush=True)
        if answer := self._answer():
            self.turns.append(answer[0])
            self.peak = answer[1]

    def close(self) -> None:
        self._process.stdin.close()
        self._process.wait()


def compare(name: str, given: argparse.Namespace) -> list[dict]:
    """A row for each of `given.who`, measured in turns."""
    case = quick(CASES[name]) if given.quick else CASES[name]
    workers = []
    for who in given.who:
        first = workers[0].told.get("platform") if workers else None
        if (who in ("jax-fastest", "jax-cudnn") and first != "gpu") or (
            who == "pytorch" and first == "tpu"
        ):
            continue
        if who == "jax-cudnn" and case.config.get("attention_probs_dropout_prob"):
            continue
        if who == "pytorch" and given.pytorch is None:
            print("pytorch: no interpreter has torch and transformers (--pytorch)", file=sys.stderr)
            continue
        workers.append(Worker(who, name, given))
    for _ in range(given.turns):
        for worker in workers:
            worker.take_turn(given.steps)
    rows = []
    for worker in workers:
        worker.close()
        row = {
            "date": datetime.date.today().isoformat(),
            "case": name + (" (quick)" if given.quick else ""),
            "who": worker.who,
            "batch": f"{case.batch} × {case.sequence}",
            **worker.told,
        }
        if worker.failed:
            row["failed"] = worker.failed
        else:
            row |= figures(case, worker, workers[0].told.get("product_tflops"))
        rows.append(row)
    return rows


def figures(case: Case, worker: Worker, tflops: float | None) -> dict:
    median = statistics.median(worker.turns)
    low, _, high = (
        statistics.quantiles(worker.turns, n=4, method="inclusive")
        if len(worker.turns) > 1
        else [median] * 3
    )
    found = {
        "step_ms": round(1e3 * median, 3),
        "step_ms_quartiles": [round(1e3 * low, 3), round(1e3 * high, 3)],
        "tokens_per_second_per_device": round(case.batch * case.sequence / median),
        "peak_memory_gib": None if worker.peak is None else round(worker.peak / 2**30, 3),
    }
    if tflops:
        rate = case.batch * flops(case) / median
        found["share_of_product"] = round(rate / (tflops * 1e12), 4)
    return found


def curve(who: str, given: argparse.Namespace) -> dict:
    """The losses of the first steps of the default's model, in float32 on a CPU."""
    case, on_cpu = CASES["default"], given.kind == "cpu"
    case = quick(case) if given.quick else case
    built = InJax(case, given, who, "float32" if on_cpu else "bfloat16")
    losses = [built.update(1) for _ in range(CURVE)]
    return {"device": built.device(), "losses": losses}


def compare_curves(given: argparse.Namespace, platform: str) -> list[dict]:
    """A row for each of `CURVES`: how far its losses are from those in float32 on the CPU."""

    def told(who: str, kind: str) -> dict | None:
        options = ["--kind", kind, "--threads", str(given.threads), "--work", "curve", who]
        options += ["--quick"] if given.quick else []
        ran = subprocess.run(
            [sys.executable, __file__, *options], stdout=subprocess.PIPE, text=True
        )
        return json.loads(ran.stdout.splitlines()[-1]) if ran.returncode == 0 else None

    exact = told("jax", "cpu")
    rows = []
    for who in CURVES if platform == "gpu" else CURVES[:1]:
        row = {"date": datetime.date.today().isoformat(), "case": f"losses of {CURVE} steps"}
        found = told(who, given.kind)
        if exact is None or found is None:
            rows.append(row | {"who": who, "failed": "its last words stand above"})
            continue
        apart = np.abs(np.subtract(found["losses"], exact["losses"]))
        rows.append(
            row
            | {"who": who, "device": found["device"]}
            | {"loss": found["losses"][-1], "loss_in_float32": exact["losses"][-1]}
            | {"largest_difference": float(apart.max())}
        )
    return rows


def train_on_shards(given: argparse.Namespace) -> dict:
    """The default's model trained by the engine on the shards of `given.shards`; a row."""
    from mlm.training.in_jax.devices import open_mesh  # before JAX itself
    from mlm.config.accelerator import Accelerator  # isort: skip

    devices = open_mesh(
        Accelerator(kind=given.kind, precision="bfloat16", cpu_threads=given.threads)
    )

    from mlm.config.model import Initialisation, ModelOfRun
    from mlm.config.pretraining import Checkpoint, Pretraining, Validation
    from mlm.samples.manifests import Manifest, project_root
    from mlm.samples.split_samples import ShardFiles
    from mlm.training.in_jax.engine import Engine
    from mlm.training.run import Run

    vocabulary, special = tokens_of(Path(given.shards).parent / "tokenizer" / "tokenizer.json")
    shards = {}
    for split in ("train", "validation"):
        path = f"{given.shards}/{split}.json"
        manifest = Manifest.read(path)
        shards[split] = ShardFiles.of(manifest, project_root(path))
    steps = 20 if given.quick else 1000
    length = shards["train"].sequence_length
    config = _DEFAULT | SPECIAL
    config |= {"max_position_embeddings": length + 2, "vocab_size": vocabulary}
    plan = replace(masks(Case(config, 64, length, 0.3)), **special)
    described = SimpleNamespace(**config, to_dict=lambda: config)
    section = Pretraining(
        seed=0,
        optimizer=adamw(steps, rate=6e-3),
        per_replica_batch_size=64,
        steps=steps,
        validation=Validation(every=steps, samples=200 if given.quick else 2000),
        log_every=steps,
        checkpoint=Checkpoint(every=steps),
    )
    run = Run(
        name="accelerator",
        model=ModelOfRun(initialisation=Initialisation(embeddings="random")),
        pretraining=section,
        plan=plan,
        validation_plan=replace(masks(Case(config, 64, length)), **special),
        train=shards["train"],
        validation=shards["validation"],
        model_config=described,
        replicas=devices.replicas,
    )
    engine = Engine(run, devices)
    engine.advance(steps - 10)
    sums = engine.advance(10)
    loss, accuracy = engine.validate()
    return {
        "date": datetime.date.today().isoformat(),
        "case": "the default's model on shards" + (" (quick)" if given.quick else ""),
        "who": "jax",
        "device": devices.strategy.devices.flat[0].device_kind,
        "devices": devices.replicas,
        "steps": steps,
        "loss": round(sums["loss"] / sums["predictions"], 4),
        "validation_loss": round(loss, 4),
        "validation_accuracy": round(accuracy, 4),
    }


def tokens_of(tokenizer: Path) -> tuple[int, dict]:
    """Size of the vocabulary in a tokenizer.json, and what a MaskingPlan says of special tokens."""
    found = json.loads(tokenizer.read_text(encoding="utf-8"))
    special = {token["content"]: token["id"] for token in found["added_tokens"]}
    size = max(len(found["model"]["vocab"]), 1 + max(special.values()))
    return size, {"mask_id": special["[MASK]"], "special_ids": tuple(sorted(special.values()))}


def in_words(row: dict) -> str:
    """A row for people: what it is, then its figures."""
    named = ("date", "case", "who", "device", "devices", "batch")
    head = ", ".join(str(row[key]) for key in named if key in row)
    rest = "; ".join(f"{key} {value}" for key, value in row.items() if key not in named)
    return f"{head}\n    {rest}"


def interpreter_with_pytorch() -> str | None:
    """This interpreter, or that of .venv-pytorch (tests/pytorch/make_environment.sh)."""
    asked = "import importlib.util as i, sys; sys.exit(not all(map(i.find_spec, sys.argv[1:])))"
    for python in (sys.executable, str(ROOT / ".venv-pytorch" / "bin" / "python")):
        if Path(python).exists():
            command = [python, "-c", asked, "torch", "transformers"]
            if subprocess.run(command).returncode == 0:
                return python
    return None


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("--quick", action="store_true", help="sizes that a CPU computes")
    arguments.add_argument("--cases", nargs="*", default=list(CASES), choices=list(CASES))
    arguments.add_argument("--with", nargs="+", default=list(WHO), choices=WHO, dest="who")
    arguments.add_argument("--kind", default="auto", choices=("auto", "cpu", "gpu", "tpu"))
    arguments.add_argument("--threads", type=int, default=os.cpu_count(), help="of a CPU")
    arguments.add_argument("--turns", type=int, default=9)
    arguments.add_argument("--steps", type=int, default=10, help="steps of one turn")
    arguments.add_argument("--pytorch", default=None, help="an interpreter with torch")
    arguments.add_argument("--shards", default=str(ROOT / "results" / "manifests"))
    arguments.add_argument("--json", action="store_true", help="rows as JSON, one a line")
    arguments.add_argument("--work", nargs="+", help=argparse.SUPPRESS)
    given = arguments.parse_args()
    if given.work:
        if given.work[0] == "curve":
            print(json.dumps(curve(given.work[1], given)))
        elif given.work[0] == "shards":
            print(json.dumps(train_on_shards(given)))
        else:
            who, name = given.work
            work(who, quick(CASES[name]) if given.quick else CASES[name], given)
        return
    if "pytorch" in given.who:
        given.pytorch = given.pytorch or interpreter_with_pytorch()
    wrong, platform = False, ""
    for name in given.cases:
        for row in compare(name, given):
            platform = platform or row.get("platform", "")
            wrong |= "failed" in row
            wrong |= row["who"] == "jax" and not row.get("same_bits_again", False)
            wrong |= row["who"] == "jax" and not row.get("same_bits_resumed", False)
            print(json.dumps(row) if given.json else in_words(row), flush=True)
    for row in compare_curves(given, platform):
        wrong |= "failed" in row
        print(json.dumps(row) if given.json else in_words(row), flush=True)
    if Path(given.shards, "train.json").exists():
        options = ["--kind", given.kind, "--threads", str(given.threads), "--shards", given.shards]
        options += ["--quick"] if given.quick else []
        ran = subprocess.run(
            [sys.executable, __file__, *options, "--work", "shards"],
            stdout=subprocess.PIPE,
            text=True,
        )
        wrong |= ran.returncode != 0
        if ran.returncode == 0:
            row = json.loads(ran.stdout.splitlines()[-1])
            print(json.dumps(row) if given.json else in_words(row), flush=True)
    else:
        print(f"no shards below {given.shards}: nothing is trained on them", file=sys.stderr)
    sys.exit(int(wrong))


if __name__ == "__main__":
    main()
