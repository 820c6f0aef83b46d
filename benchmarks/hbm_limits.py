"""The largest batches of roberta-base that one v5e chip holds, by the TPU's compiler.

    python benchmarks/hbm_limits.py

Lowers two train steps of a roberta-base with 25,000 ids on sequences of 512, with AdamW, and
compiles them for v5e:2x2, on a machine without a TPU. The plain step takes the model's own loss
over all positions; ours is the one that training runs. Ends with 1 where one that should fit
does not, or the reverse. The masks of a dropout of 0.1 take room of their own. A case takes one
to three minutes of a processor, with --quick less than one.
"""

import argparse
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1] / "scripts"))

from mlm.accelerators.compiler import COMPILED, NO_MEMORY, Compilation, compile_for
from mlm.config.optimizers import Optimizer

TARGET, VOCABULARY, SEQUENCE, OPTIMIZER = "v5e:2x2", 25_000, 512, "adamw"


@dataclass(frozen=True)
class Case:
    """A step ("plain", "ours") of one replica's batch, and whether it should fit."""

    step: str
    precision: str
    dropout: float
    batch: int
    fits: bool

    @property
    def name(self) -> str:
        return f"{self.step}-{self.precision}-{self.dropout}-{self.batch}"


CASES = (
    Case("plain", "float32", 0.0, 48, True),
    Case("plain", "float32", 0.0, 56, False),
    Case("plain", "bfloat16", 0.0, 96, True),
    Case("plain", "bfloat16", 0.0, 112, False),
    Case("ours", "float32", 0.0, 48, True),
    Case("ours", "bfloat16", 0.0, 96, True),
    Case("plain", "float32", 0.1, 48, False),
    Case("ours", "float32", 0.1, 48, True),
    Case("ours", "bfloat16", 0.1, 96, False),
)


def lower_case(case: Case, program: str) -> None:
    """Write the case's StableHLO to `program`. Takes a TensorFlow process of its own."""
    from transformers import RobertaConfig

    from mlm.accelerators.lowering import lower, one_of_many
    from mlm.foundations.tensorflow_setup import tf, tf_keras
    from mlm.samples.masking import MaskingPlan, mask_batch
    from mlm.training.in_tensorflow.model import build_model
    from mlm.training.in_tensorflow.optimizers import build_optimizer
    from mlm.training.in_tensorflow.train_step import replica_train_step
    from mlm.training.learning_rate import with_lengths

    policy = "mixed_bfloat16" if case.precision == "bfloat16" else "float32"
    tf_keras.mixed_precision.set_global_policy(policy)
    config = RobertaConfig(
        vocab_size=VOCABULARY,
        max_position_embeddings=SEQUENCE + 2,
        hidden_dropout_prob=case.dropout,
        attention_probs_dropout_prob=case.dropout,
    )
    model = build_model(config, "standard", seed=0)
    asked = Optimizer(name=OPTIMIZER, learning_rate=1e-4, max_grad_norm=None, weight_decay=0.01)
    settings = with_lengths(asked, 10_000)
    optimizer = build_optimizer(settings, model.trainable_variables)
    ids = tf.zeros([case.batch, SEQUENCE], tf.int32)
    if case.step == "plain":
        inputs = {"input_ids": ids, "attention_mask": ids, "labels": ids}

        # Not above, where it would be imported before `framework` has prepared TensorFlow.
        from tensorflow.python.framework import config as kernels

        # As in the usual examples. With it, the loss keeps a second copy of the logits.
        kernels.disable_op_determinism()

        def function(batch):
            with tf.GradientTape() as tape:
                loss = tf.reduce_mean(model(batch, training=True).loss)
            gradients = tape.gradient(loss, model.trainable_variables)
            optimizer.apply_gradients(zip(gradients, model.trainable_variables, strict=True))
            return loss

    else:
        plan = MaskingPlan(0.15, 0.8, 0.1, 4, (0, 1, 2, 3, 4), VOCABULARY, SEQUENCE)
        tokens = np.zeros(ids.shape, np.int32)
        inputs = mask_batch(tokens, tokens + 1, np.arange(case.batch), plan, 0, 0)
        function = one_of_many(replica_train_step(model, optimizer, settings))
    signature = {k: tf.TensorSpec(v.shape, v.dtype) for k, v in inputs.items()}
    content, findings = lower(function, signature)
    if not content:
        raise SystemExit("\n".join(f.in_words() for f in findings))
    Path(program).write_bytes(content)


def compiled_case(case: Case, quick: bool) -> Compilation:
    """The compiler's answer for one case."""
    with tempfile.TemporaryDirectory() as directory:
        program = Path(directory) / "step.stablehlo"
        subprocess.run([sys.executable, __file__, "--lower", case.name, str(program)], check=True)
        return compile_for(TARGET, program, quick=quick)[0]


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    known = {case.name: case for case in CASES}
    arguments.add_argument("--lower", nargs=2, help=argparse.SUPPRESS)
    arguments.add_argument("--quick", action="store_true", help="the compiler's least effort")
    arguments.add_argument("--cases", nargs="+", default=list(known), choices=list(known))
    given = arguments.parse_args()
    if given.lower:
        lower_case(known[given.lower[0]], given.lower[1])
        return
    print("step   precision dropout batch  should  does  peak GiB  TFLOP", flush=True)
    words = {True: "fits", False: "not"}
    wrong = False
    for case in (known[name] for name in given.cases):
        found = compiled_case(case, given.quick)
        if found.outcome not in (COMPILED, NO_MEMORY):
            raise SystemExit(f"{case.name}: {found.outcome}: {found.message}")
        fits = found.outcome == COMPILED
        wrong |= fits != case.fits
        peak = f"{found.memory.peak / 2**30:.2f}" if fits else "-"
        print(
            f"{case.step:<6} {case.precision:<9} {case.dropout:<7} {case.batch:<6} "
            f"{words[case.fits]:<7} {words[fits]:<5} {peak:<9} "
            + (f"{found.flops / 1e12:.2f}" if fits else "-"),
            flush=True,
        )
    sys.exit(int(wrong))


if __name__ == "__main__":
    main()
