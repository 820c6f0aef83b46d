"""Peak memory of a training step on one v5e chip, by the TPU's compiler: JAX against TensorFlow.

    python benchmarks/jax_memory.py [--full] [--cases NAME ...]

Compiles the train steps of both engines for a roberta-base with 50,265 ids and a dropout of 0.1, in
bfloat16 and with Muon, on a machine without a TPU. "whole" holds the scores of all queries at
once, "blocks" is the engine as it is, "layers" computes whole layers again (the setting
pretraining.rematerialise). Ends with 1 where "blocks" takes more than 0.63 or "layers" more than
0.5 of TensorFlow's peak at 16 × 512, where "blocks" does not fit at 8 × 2048, or where "whole"
does. A case takes a minute of a processor, with --full several.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from dataclasses import asdict
from pathlib import Path

import hbm_limits  # has the library found
from pydantic import TypeAdapter

from mlm.accelerators.compiler import COMPILED, ENVIRONMENT, NO_MEMORY, Compilation, compile_here
from mlm.config.optimizers import Optimizer
from mlm.samples.masking import MaskingPlan
from mlm.training.learning_rate import with_lengths

VOCABULARY, DROPOUT, OPTIMIZER = 50_265, 0.1, "muon"
SHORT, LONG = (16, 512), (8, 2048)
#: The most of TensorFlow's peak that each may take.
SHARES = {"blocks": 0.63, "layers": 0.5}
CASES = {
    f"{form}-{batch}x{sequence}": (form, batch, sequence)
    for batch, sequence in (SHORT, LONG)
    for form in ("tensorflow", "whole", "blocks", "layers")
    if (form, batch) != ("tensorflow", LONG[0])
}


def description(form: str, batch: int, sequence: int) -> dict:
    """What the preflight would write of the step."""
    # Not above: it leaves TensorFlow, which the other form takes, to itself.
    from mlm.accelerators.artefacts import TRAINING
    from mlm.accelerators.described_steps import description_of

    plan = MaskingPlan(0.15, 0.8, 0.1, 4, (0, 1, 2, 3, 4), VOCABULARY, sequence)
    optimizer = Optimizer(name=OPTIMIZER, learning_rate=1e-4, max_grad_norm=None, weight_decay=0.01)
    config = {
        "model_type": "roberta",
        "vocab_size": VOCABULARY,
        "hidden_size": 768,
        "num_hidden_layers": 12,
        "num_attention_heads": 12,
        "intermediate_size": 3072,
        "max_position_embeddings": sequence + 2,
        "hidden_dropout_prob": DROPOUT,
        "attention_probs_dropout_prob": DROPOUT,
    }
    return description_of(
        TRAINING,
        config,
        plan,
        with_lengths(optimizer, 10_000),
        attend="sample",
        rematerialise=form == "layers",
        precision="bfloat16",
        begins_document=0,
        samples=batch,
        seed=0,
    )


def compile_case(form: str, batch: int, sequence: int, quick: bool) -> Compilation:
    """The compiler's answer for one case, in a process of its own."""
    if form == "tensorflow":
        hbm_limits.VOCABULARY, hbm_limits.SEQUENCE = VOCABULARY, sequence
        hbm_limits.OPTIMIZER = OPTIMIZER
        case = hbm_limits.Case("ours", "bfloat16", DROPOUT, batch, True)
        with tempfile.TemporaryDirectory() as directory:
            program = Path(directory) / "step.stablehlo"
            hbm_limits.lower_case(case, str(program))
            return hbm_limits.compile_for(hbm_limits.TARGET, program, quick=quick)[0]
    from mlm.training.in_jax.devices import prepare_jax

    os.environ |= ENVIRONMENT  # before JAX is imported
    prepare_jax("cpu", 1, None)

    from mlm.model import network

    if form == "whole":
        network.LONG = sequence + 1
    return compile_here(hbm_limits.TARGET, description(form, batch, sequence), quick)


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("--full", action="store_true", help="the compiler's full effort")
    arguments.add_argument("--cases", nargs="+", default=list(CASES), choices=list(CASES))
    arguments.add_argument("--answer", help=argparse.SUPPRESS)
    given = arguments.parse_args()
    if given.answer:
        found = compile_case(*CASES[given.answer], not given.full)
        print(json.dumps(asdict(found)))
        return
    peaks = {}
    print("case                peak GiB  TFLOP    GB moved", flush=True)
    for name in given.cases:
        more = ["--full"] if given.full else []
        process = subprocess.run(
            [sys.executable, __file__, "--answer", name, *more], stdout=subprocess.PIPE, check=True
        )
        found = TypeAdapter(Compilation).validate_json(process.stdout.splitlines()[-1])
        if found.outcome not in (COMPILED, NO_MEMORY):
            raise SystemExit(f"{name}: {found.outcome}: {found.message}")
        fits = found.outcome == COMPILED
        peaks[name] = found.memory.peak / 2**30 if fits else float("inf")
        figures = (peaks[name], found.flops / 1e12, found.bytes_accessed / 1e9)
        words = " ".join(f"{x:<8.2f}" for x in figures) if fits else found.message[:120]
        print(f"{name:<19} {words}", flush=True)
    tensorflow = peaks.get("tensorflow-16x512", float("inf"))
    wrong = any(peaks.get(f"{k}-16x512", 0) > v * tensorflow for k, v in SHARES.items())
    wrong |= peaks.get("blocks-8x2048", 0) == float("inf")
    wrong |= peaks.get("whole-8x2048", float("inf")) < float("inf")
    sys.exit(int(wrong))


if __name__ == "__main__":
    main()
