"""The default run beside PyTorch and transformers, in the same time.

    snakemake --cores 2 results/manifests/{train,validation,test}.json
    python benchmarks/trainer.py [--threads 2] [--seed 0]
    python benchmarks/trainer.py tuned --run results/runs/base --seconds 390 [--seed 0]

First the default run trains, with its start and its export. Then RobertaForMaskedLM of its size
trains for as many seconds in PyTorch (.venv-pytorch, from tests/pytorch/make_environment.sh) with
Trainer and DataCollatorForLanguageModeling: AdamW at 1e-3, batches of 32, 15 % masked, dropout of
0.1, a linear schedule that follows the clock. Both see the same samples of the same tokenizer, on
the same threads, and the workflow evaluates both models on the same masked tokens of the test
split. Leaves docs/learning/trainer.json.

`tuned` trains a ModernBertForMaskedLM of the default's width and depth instead, on one thread, in a
loop tuned by hand: torch's Muon for the hidden matrices, AdamW for the rest, both at 6e-3 with 5 %
warmup, batches of 64, 30 % masked, bfloat16, logits at masked positions only, an output bias from
counts, rotary base 100. It gets as many processor seconds as the training of that run of the
workflow took: `time` of the snakemake command that trains it alone. Leaves
docs/learning/tuned-SEED.json, with the difference of the two paired by group.
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
TUNED_RATE, TUNED_BATCH, TUNED_SHARE, WARMUP = 6e-3, 64, 0.3, 0.05


def train_here(place: Path, threads: int, seed: int) -> None:
    """The default run, into `place`."""
    from learning import run_here

    from mlm.training.pretrain import ResultFiles, prepare, pretrain

    run, files = run_here([f"accelerator.cpu_threads={threads}"], seed, f"{place}/state")
    results = ResultFiles(f"{place}/model", f"{place}/training.csv", f"{place}/training.json")
    pretrain(prepare(run, files), results)


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


def tune_in_pytorch(place: Path, threads: int, seed: int, seconds: float) -> None:
    """A ModernBERT by hand, into `place`, for as many processor seconds."""
    import numpy as np
    import torch
    from safetensors.torch import save_file
    from transformers import AutoTokenizer, ModernBertConfig, ModernBertForMaskedLM

    torch.set_num_threads(threads)
    torch.manual_seed(seed)
    begun = time.process_time()
    samples = torch.from_numpy(np.load(place / "train.npy").astype(np.int64))
    tokenizer = AutoTokenizer.from_pretrained(TOKENIZER)
    wanted = json.loads((place / "wanted.json").read_text())
    theta = dict.fromkeys(("global_rope_theta", "local_rope_theta"), 100.0)
    model = ModernBertForMaskedLM._from_config(
        ModernBertConfig(**wanted, **theta), attn_implementation="eager"
    )
    parameters = model.config.rope_parameters
    assert {kind["rope_theta"] for kind in parameters.values()} == {100.0}, parameters
    special = torch.zeros(len(tokenizer), dtype=torch.bool)
    special[tokenizer.all_special_ids] = True
    counts = torch.bincount(samples.flatten(), minlength=len(tokenizer)) + 1.0
    model.decoder.bias.data = torch.log(counts / counts.sum())
    words = model.model.embeddings.tok_embeddings.weight
    hidden = [p for p in model.parameters() if p.ndim == 2 and p is not words]
    others = [p for p in model.parameters() if p.ndim != 2 or p is words]
    how = {"lr": TUNED_RATE, "weight_decay": 0.0}
    optimizers = [
        torch.optim.Muon(hidden, adjust_lr_fn="match_rms_adamw", **how),
        torch.optim.AdamW(others, betas=(0.9, 0.98), eps=1e-6, fused=True, **how),
    ]
    model.train()
    order, steps = iter(()), 0
    while (share := (time.process_time() - begun) / seconds) < 1:
        if (chosen := next(order, None)) is None:
            order = iter(torch.randperm(len(samples)).split(TUNED_BATCH))
            continue
        inputs = samples[chosen]
        masked = (torch.rand(inputs.shape) < TUNED_SHARE) & ~special[inputs]
        labels, way = inputs[masked], torch.rand(inputs.shape)
        inputs = torch.where(masked & (way < 0.8), tokenizer.mask_token_id, inputs)
        drawn = torch.randint(len(tokenizer), inputs.shape)
        inputs = torch.where(masked & (way >= 0.9), drawn, inputs)
        rate = TUNED_RATE * min(share / WARMUP, (1 - share) / (1 - WARMUP))
        for optimizer in optimizers:
            for group in optimizer.param_groups:
                group["lr"] = rate
            optimizer.zero_grad()
        with torch.autocast("cpu", torch.bfloat16):
            states = model.model(inputs).last_hidden_state[masked]
            logits = model.decoder(model.head(states))
        torch.nn.functional.cross_entropy(logits.float(), labels).backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        for optimizer in optimizers:
            optimizer.step()
        steps += 1
    shutil.copytree(TOKENIZER, place / "model")
    weights = {k: v.contiguous() for k, v in model.state_dict().items() if k != "decoder.weight"}
    save_file(weights, place / "model" / "model.safetensors")
    # As transformers 4 names what 5 has in other fields.
    names = {"model_type": "modernbert", "architectures": ["ModernBertForMaskedLM"]}
    (place / "model" / "config.json").write_text(json.dumps(wanted | theta | names))
    print(f"{steps} steps", flush=True)


def started(python: Path, role: str, place: Path, options, *more: str) -> dict:
    """Trains in a process of its own: its elapsed seconds, and those of its processors."""
    given = ["--threads", str(options.threads), "--seed", str(options.seed), *more]
    begun, used = time.monotonic(), sum(os.times()[2:4])
    subprocess.run([python, __file__, role, "--place", place, *given], check=True)
    wall, cpu = time.monotonic() - begun, sum(os.times()[2:4]) - used
    return {"seconds": round(wall, 1), "processor_seconds": round(cpu, 1)}


def evaluated(model: Path, options):
    """The workflow's own figures of a model."""
    from mlm.config.evaluation import Evaluation
    from mlm.config.resolution import resolve, run_section
    from mlm.evaluation.model_evaluation import evaluate

    settings = resolve({})
    section = Evaluation.of_param(dict(run_section(settings, "base", "evaluation")))
    accelerator = dict(settings["accelerator"]) | {"cpu_threads": options.threads, "kind": "cpu"}
    return evaluate("base", model, MANIFESTS, {}, section, accelerator)


def compare(options) -> None:
    import numpy as np

    from mlm.samples.manifests import Manifest
    from mlm.samples.split_samples import read_samples

    tuned, python = options.role == "tuned", BASE / ".venv-pytorch" / "bin" / "python"
    with tempfile.TemporaryDirectory() as temporary:
        ours, theirs = options.run or Path(temporary, "workflow"), Path(temporary, "pytorch")
        theirs.mkdir()
        costs = {"workflow": {"processor_seconds": options.seconds}}
        if not tuned:
            ours.mkdir()
            costs["workflow"] = started(Path(sys.executable), "here", ours, options)
        config = json.loads((ours / "model" / "config.json").read_text())
        same = ("vocab_size", "hidden_size", "num_hidden_layers", "num_attention_heads")
        same += ("intermediate_size", "max_position_embeddings", "bos_token_id", "eos_token_id")
        wanted = {key: config[key] for key in (*same, "pad_token_id") if key in config}
        if tuned:
            # A gated layer then has as many weights as a plain one.
            wanted |= {"intermediate_size": 344, "local_attention": 128, "decoder_bias": True}
            wanted |= {"cls_token_id": wanted["bos_token_id"]}
            wanted |= {"sep_token_id": wanted["eos_token_id"]}
        else:
            wanted |= {"hidden_dropout_prob": DROPOUT, "attention_probs_dropout_prob": DROPOUT}
        (theirs / "wanted.json").write_text(json.dumps(wanted))
        samples = read_samples(Manifest.read(MANIFESTS["train"]))
        np.save(theirs / "train.npy", np.concatenate([batch.input_ids for batch in samples]))
        role, clock = ("loop", "processor_seconds") if tuned else ("in-pytorch", "seconds")
        seconds = ["--seconds", str(costs["workflow"][clock])]
        costs[options.role] = started(python, role, theirs, options, *seconds)
        record = {"threads": options.threads, "seed": options.seed}
        both = [evaluated(place / "model", options) for place in (ours, theirs)]
        for name, found in zip(("workflow", options.role), both, strict=True):
            losses = {"loss": found.test.loss, "hidden": found.test.hidden.loss}
            record[name] = costs[name] | {k: round(v, 4) for k, v in losses.items()}
        record["difference"], record["difference_interval"] = paired(*both)
    path = RECORD.with_name(f"tuned-{options.seed}.json") if tuned else RECORD
    path.write_text(json.dumps(record, indent=2) + "\n")
    print(json.dumps(record, indent=2))


def paired(one, other) -> tuple[float, list[float]]:
    """Mean difference in loss where the answer is hidden, and 95 % of it over resampled groups."""
    import numpy as np

    sums = np.array(one.group_sums.loss) - other.group_sums.loss
    counts = np.array(one.group_sums.predictions)
    drawn = np.random.default_rng(0).integers(len(counts), size=(10_000, len(counts)))
    means = sums[drawn].sum(axis=1) / counts[drawn].sum(axis=1)
    low, high = np.quantile(means, (0.025, 0.975))
    return round(float(sums.sum() / counts.sum()), 4), [round(float(low), 4), round(float(high), 4)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    roles = "trainer", "tuned"
    parser.add_argument("role", nargs="?", default="trainer", help=", ".join(roles))
    parser.add_argument("--threads", type=int, help="2; for tuned 1")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--run", type=Path, help="for tuned: directory of the workflow's run")
    parser.add_argument(
        "--seconds", type=float, help="for tuned: processor seconds of its training"
    )
    parser.add_argument("--place", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.threads is None:
        options.threads = 1 if options.role == "tuned" else 2
    given = options.place, options.threads, options.seed
    if options.role == "here":
        train_here(*given)
    elif options.role == "in-pytorch":
        train_in_pytorch(*given, options.seconds)
    elif options.role == "loop":
        tune_in_pytorch(*given, options.seconds)
    elif options.role not in roles:
        parser.error(f"role: {options.role}; expected {' or '.join(roles)}")
    elif options.role == "tuned" and not (options.run and options.seconds):
        parser.error("tuned: expected --run and --seconds")
    else:
        compare(options)


if __name__ == "__main__":
    main()
