"""The default run beside PyTorch and transformers, in the same time.

    snakemake --cores 2 results/manifests/{train,validation,test}.json
    python benchmarks/trainer.py [--threads 2] [--seed 0]

The default run trains first, with its start and its export. Then RobertaForMaskedLM of its size
trains for as many seconds in PyTorch (.venv-pytorch, from tests/make_environment.sh pytorch) with
Trainer and DataCollatorForLanguageModeling: AdamW at 1e-3, batches of 32, 15 % masked, dropout of
0.1, a linear schedule that follows the clock. Both see the same samples of the same tokenizer, on
the same threads, and the workflow evaluates both models on the same masked tokens of the test
split. Leaves docs/learning/trainer.json.
"""

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

BASE = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(BASE / "scripts"), str(BASE / "benchmarks")]

RECORD = BASE / "docs" / "learning" / "trainer.json"
SPLITS = ("train", "validation", "test")
MANIFESTS = {split: Path(f"results/manifests/{split}.json") for split in SPLITS}
TOKENIZER = Path("results/tokenizer")
RATE, BATCH, SHARE, DROPOUT, DECAY = 1e-3, 32, 0.15, 0.1, 0.01


def train_here(place: Path, threads: int, seed: int) -> None:
    """The default run, into `place`."""
    from learning import run_here

    from mlm.training.pretrain import prepare, pretrain

    run, files = run_here([f"accelerator.cpu_threads={threads}"], seed, f"{place}/state")
    pretrain(prepare(run, files), place)


def train_in_pytorch(place: Path, threads: int, seed: int, seconds: float) -> None:
    """With Trainer, into `place`; `train.npy` there are the samples, `config.json` the model's."""
    import numpy as np
    import torch
    from transformers import (
        AutoTokenizer,
        DataCollatorForLanguageModeling,
        RobertaConfig,
        RobertaForMaskedLM,
        Trainer,
        TrainerCallback,
        TrainingArguments,
    )

    torch.set_num_threads(threads)
    begun = time.monotonic()

    class Clock(TrainerCallback):
        def on_step_end(self, args, state, control, **kwargs):
            control.should_training_stop = time.monotonic() - begun >= seconds

    class TimedTrainer(Trainer):
        def create_scheduler(self, num_training_steps, optimizer=None):
            def factor(step):
                share = (time.monotonic() - begun) / seconds
                return min(share / 0.05, max(0.0, 1 - share) / 0.95)

            self.lr_scheduler = torch.optim.lr_scheduler.LambdaLR(self.optimizer, factor)
            return self.lr_scheduler

    samples = [{"input_ids": ids} for ids in np.load(place / "train.npy").tolist()]
    tokenizer = AutoTokenizer.from_pretrained(TOKENIZER)
    model = RobertaForMaskedLM(RobertaConfig(**json.loads((place / "wanted.json").read_text())))
    arguments = TrainingArguments(
        output_dir=str(place / "trainer"),
        per_device_train_batch_size=BATCH,
        learning_rate=RATE,
        weight_decay=DECAY,
        max_steps=10**6,
        seed=seed,
        save_strategy="no",
        report_to="none",
        logging_steps=200,
        use_cpu=True,
        disable_tqdm=True,
    )
    trainer = TimedTrainer(
        model=model,
        args=arguments,
        train_dataset=samples,
        data_collator=DataCollatorForLanguageModeling(tokenizer, mlm_probability=SHARE),
        callbacks=[Clock()],
    )
    trainer.train()
    model.save_pretrained(place / "model")
    # As they are: transformers 5 would name a class that transformers 4 does not know.
    shutil.copytree(TOKENIZER, place / "model", dirs_exist_ok=True)
    print(f"{trainer.state.global_step} steps", flush=True)


def started(python: Path, role: str, place: Path, options, *more: str) -> dict:
    """Train in another process; its elapsed and processor seconds."""
    arguments = ["--threads", str(options.threads), "--seed", str(options.seed), *more]
    begun, used = time.monotonic(), sum(os.times()[2:4])
    subprocess.run([python, __file__, role, "--place", place, *arguments], check=True)
    seconds = {
        "seconds": time.monotonic() - begun,
        "processor_seconds": sum(os.times()[2:4]) - used,
    }
    return {clock: round(value, 1) for clock, value in seconds.items()}


def evaluated(model: Path, options):
    """The workflow's evaluation of a model."""
    from mlm.config.overlays import resolve
    from mlm.evaluation.model_evaluation import evaluate

    settings = resolve({})
    here = {"cpu_threads": options.threads, "kind": "cpu"}
    accelerator = settings.accelerator.model_copy(update=here)
    return evaluate("base", model, MANIFESTS, settings.evaluation, accelerator, corpus={})


def compare(options) -> None:
    import numpy as np

    from mlm.samples.manifests import Manifest
    from mlm.samples.shard_reading import read_samples

    with tempfile.TemporaryDirectory() as temporary:
        ours, theirs = Path(temporary, "workflow"), Path(temporary, "pytorch")
        ours.mkdir()
        theirs.mkdir()
        costs = {"workflow": started(Path(sys.executable), "here", ours, options)}
        config = json.loads((ours / "model" / "config.json").read_text())
        same = ("vocab_size", "hidden_size", "num_hidden_layers", "num_attention_heads")
        same += ("intermediate_size", "max_position_embeddings", "bos_token_id", "eos_token_id")
        wanted = {key: config[key] for key in (*same, "pad_token_id") if key in config}
        wanted |= {"hidden_dropout_prob": DROPOUT, "attention_probs_dropout_prob": DROPOUT}
        (theirs / "wanted.json").write_text(json.dumps(wanted))
        samples = read_samples(Manifest.read(MANIFESTS["train"]))
        np.save(theirs / "train.npy", np.concatenate([batch.input_ids for batch in samples]))
        python = BASE / ".venv-pytorch" / "bin" / "python"
        seconds = ["--seconds", str(costs["workflow"]["seconds"])]
        costs["trainer"] = started(python, "in-pytorch", theirs, options, *seconds)
        record = {"threads": options.threads, "seed": options.seed}
        for name, place in {"workflow": ours, "trainer": theirs}.items():
            found = evaluated(place / "model", options)
            losses = {"loss": round(found.as_in_papers.loss, 4)}
            losses["hidden"] = round(found.test.loss, 4)
            record[name] = costs[name] | losses
    RECORD.write_text(json.dumps(record, indent=2) + "\n")
    print(json.dumps(record, indent=2))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--seed", type=int, default=0)
    # For the processes that this one starts.
    parser.add_argument("role", nargs="?", choices=("here", "in-pytorch"), help=argparse.SUPPRESS)
    parser.add_argument("--place", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--seconds", type=float, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.role == "here":
        train_here(options.place, options.threads, options.seed)
    elif options.role == "in-pytorch":
        train_in_pytorch(options.place, options.threads, options.seed, options.seconds)
    else:
        compare(options)


if __name__ == "__main__":
    main()
