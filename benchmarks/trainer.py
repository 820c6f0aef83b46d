"""The default run beside PyTorch and transformers, at the same processor time.

    snakemake --cores 2 results/manifests/{train,validation,test}.json
    python benchmarks/trainer.py costs
    python benchmarks/trainer.py rates
    python benchmarks/trainer.py compare --seeds 0 1 2

All sides see the same samples of the same tokenizer, on one thread, in float32, and the workflow
evaluates every model on every test token. In PyTorch (.venv-pytorch, from tests/make_environment.sh
pytorch):

- `trainer`: RobertaForMaskedLM of the default's size, by Trainer and
  DataCollatorForLanguageModeling with common settings: AdamW at 1e-3, batches of 32, 15 % masked,
  dropout of 0.1.
- `tuned`: what one gets by hand from the same two packages: ModernBertForMaskedLM of that size,
  logits at masked positions alone, torch's Muon for the hidden matrices and AdamW for all else,
  batches of 64, 30 % masked, no dropout, the output bias from the unigram's frequencies, rotary
  positions of base 100, a compiled encoder.

`costs` measures the processor time of a step on an idle machine, the sides in turns. It says how
many steps of each cost as much as the default's; compilation and start are not counted. `rates`
tries learning rates of `tuned` on the validation split, `compare` trains all sides. Schedules are
linear, with 5 % of warmup. The record is docs/learning/trainer.json.
"""

import argparse
import json
import os
import shutil
import statistics
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
TRAINER = {"rate": 1e-3, "batch": 32, "share": 0.15, "dropout": 0.1, "decay": 0.01}
TUNED = {"share": 0.3, "rope_base": 100.0, "intermediate_size": 344}
#: Batches and rates that are tried for `tuned`. A step costs in proportion to its batch.
TRIALS = ((64, 4e-3), (32, 8e-3))
SIDES = ("workflow", "trainer", "tuned")
#: Of `costs`: turns, and the steps of one.
TURNS, STEPS = 9, 10
#: Tokens of validation by which a rate is chosen.
VALIDATED = 50_000


def take_turn() -> None:
    """Print the processor seconds so far, and wait for the next turn."""
    print(time.process_time(), flush=True)
    sys.stdin.readline()


def train_here(place: Path, options) -> None:
    """The default run, into `place`."""
    from learning import run_here

    from mlm.training.pretrain import engine_of, prepare, pretrain

    training = prepare(*run_here(["accelerator.cpu_threads=1"], options.seed, f"{place}/state"))
    if options.turns:
        engine = engine_of(training.run, training.devices)
        while True:
            engine.advance(STEPS)
            take_turn()
    pretrain(training, place)


def train_with_trainer(place: Path, options) -> None:
    """With Trainer, into `place`."""
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

    class Turns(TrainerCallback):
        def on_step_end(self, args, state, control, **kwargs):
            if options.turns and state.global_step % STEPS == 0:
                take_turn()

    sizes = json.loads((place / "sizes.json").read_text())
    dropout = ("hidden_dropout_prob", "attention_probs_dropout_prob")
    torch.manual_seed(options.seed)
    model = RobertaForMaskedLM(RobertaConfig(**sizes, **dict.fromkeys(dropout, TRAINER["dropout"])))
    arguments = TrainingArguments(
        output_dir=str(place / "trainer"),
        per_device_train_batch_size=TRAINER["batch"],
        learning_rate=TRAINER["rate"],
        weight_decay=TRAINER["decay"],
        max_steps=options.steps,
        warmup_steps=round(0.05 * options.steps),
        seed=options.seed,
        save_strategy="no",
        report_to="none",
        logging_steps=200,
        use_cpu=True,
        disable_tqdm=True,
    )
    tokenizer = AutoTokenizer.from_pretrained(TOKENIZER)
    Trainer(
        model=model,
        args=arguments,
        train_dataset=[{"input_ids": ids} for ids in np.load(place / "train.npy").tolist()],
        data_collator=DataCollatorForLanguageModeling(tokenizer, mlm_probability=TRAINER["share"]),
        callbacks=[Turns()],
    ).train()
    model.save_pretrained(place / "model")


def train_by_hand(place: Path, options) -> None:
    """ModernBERT by a loop of one's own, into `place`."""
    import numpy as np
    import torch
    from transformers import (
        AutoTokenizer,
        DataCollatorForLanguageModeling,
        ModernBertConfig,
        ModernBertForMaskedLM,
        get_linear_schedule_with_warmup,
    )

    sizes = json.loads((place / "sizes.json").read_text())
    samples = np.load(place / "train.npy")
    rope = {"rope_type": "default", "rope_theta": TUNED["rope_base"]}
    torch.manual_seed(options.seed)
    model = ModernBertForMaskedLM(
        ModernBertConfig(
            **sizes | {"intermediate_size": TUNED["intermediate_size"]},
            cls_token_id=0,
            sep_token_id=2,
            sparse_prediction=True,
            rope_parameters={"full_attention": rope, "sliding_attention": rope},
        )
    )
    frequencies = np.bincount(samples.ravel(), minlength=sizes["vocab_size"]) + 1.0
    with torch.no_grad():
        model.decoder.bias.copy_(torch.tensor(np.log(frequencies / frequencies.sum())))
    hidden = [p for _, p in model.model.layers.named_parameters() if p.ndim == 2]
    others = [p for p in model.parameters() if all(p is not matrix for matrix in hidden)]
    rate = options.rate
    scaled = {"weight_decay": 0.0, "adjust_lr_fn": "match_rms_adamw"}
    optimizers = [
        torch.optim.Muon(hidden, lr=rate, **scaled),
        torch.optim.AdamW(others, lr=rate, betas=(0.9, 0.98), eps=1e-6, weight_decay=0.0),
    ]
    length = (round(0.05 * options.steps), options.steps)
    schedules = [get_linear_schedule_with_warmup(each, *length) for each in optimizers]
    model.model.compile()
    tokenizer = AutoTokenizer.from_pretrained(TOKENIZER)
    collate = DataCollatorForLanguageModeling(tokenizer, mlm_probability=TUNED["share"])
    draw, order = np.random.default_rng(options.seed), np.empty(0, int)
    for step in range(1, options.steps + 1):
        if len(order) < options.batch:
            order = draw.permutation(len(samples))
        rows, order = samples[order[: options.batch]], order[options.batch :]
        loss = model(**collate([{"input_ids": ids} for ids in rows.tolist()])).loss
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        for optimizer, schedule in zip(optimizers, schedules, strict=True):
            optimizer.step()
            optimizer.zero_grad()
            schedule.step()
        if step % 100 == 0:
            print(f"step {step}, loss {loss.item():.3f}", file=sys.stderr, flush=True)
        if options.turns and step % STEPS == 0:
            take_turn()
    model.save_pretrained(place / "model")


def command(
    side: str, place: Path, seed: int, steps: int, rate: float, batch: int, turns: bool
) -> list:
    """The command that trains a side in a process of its own."""
    pytorch = BASE / ".venv-pytorch" / "bin" / "python"
    python = sys.executable if side == "workflow" else pytorch
    arguments = ["--place", place, "--seed", seed, "--steps", steps, "--rate", rate]
    arguments += ["--batch", batch]
    arguments += ["--turns"] if turns else []
    return [str(part) for part in (python, __file__, side, *arguments)]


def evaluated(model: Path, splits: dict, tokens: int | None = None) -> dict:
    """The workflow's evaluation of a model on the test split, or on so many `tokens` of it."""
    from mlm.config.overlays import resolve
    from mlm.evaluation.model_evaluation import Evaluated, evaluate

    settings = resolve({"evaluation": {"max_tokens": tokens}} if tokens else {})
    here = {"cpu_threads": 1, "kind": "cpu"}
    accelerator = settings.accelerator.model_copy(update=here)
    on = Evaluated(splits, corpus={})
    test = evaluate("base", model, settings.evaluation, accelerator, on).test
    return {"loss": round(test.loss, 4), "accuracy": round(test.accuracy, 4)}


def write_data(place: Path, config: dict) -> None:
    """The samples of train and the sizes of the model, for PyTorch."""
    import numpy as np

    from mlm.samples.manifests import Manifest
    from mlm.samples.shard_reading import read_samples

    sizes = ("vocab_size", "hidden_size", "num_hidden_layers", "num_attention_heads")
    sizes += ("intermediate_size", "max_position_embeddings", "bos_token_id", "eos_token_id")
    place.mkdir()
    (place / "sizes.json").write_text(json.dumps({k: config[k] for k in (*sizes, "pad_token_id")}))
    samples = read_samples(Manifest.read(MANIFESTS["train"]))
    np.save(place / "train.npy", np.concatenate([batch.input_ids for batch in samples]))


def prepared(temporary: str) -> dict[str, Path]:
    """A directory for each side, with what it reads."""
    from learning import run_here

    from mlm.training.pretrain import prepare

    run = prepare(*run_here(["accelerator.cpu_threads=1"], 0, f"{temporary}/state")).run
    places = {side: Path(temporary, side) for side in SIDES}
    for place in places.values():
        write_data(place, run.model_config.to_dict())
    return places


def costs(record: dict, places: dict[str, Path]) -> None:
    """Write the steps of each side that cost as much as the default's."""
    from mlm.config.overlays import resolve

    processes = {
        side: subprocess.Popen(
            command(side, place, 0, 10**5, 1e-3, 64, turns=True),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for side, place in places.items()
    }

    def used(process: subprocess.Popen) -> float:
        for line in process.stdout:
            if line[:1].isdigit():
                return float(line)
        raise SystemExit("a side ended")

    before = {side: used(process) for side, process in processes.items()}
    milliseconds = {side: [] for side in SIDES}
    for _ in range(TURNS):
        for side, process in processes.items():
            process.stdin.write("\n")
            process.stdin.flush()
            now = used(process)
            milliseconds[side].append((now - before[side]) / STEPS * 1000)
            before[side] = now
    for process in processes.values():
        process.kill()
    medians = {side: statistics.median(each) for side, each in milliseconds.items()}
    steps = resolve({}).pretraining.steps * medians["workflow"]
    record["costs"] = {
        side: {"processor_ms_per_step": round(each, 1), "steps": round(steps / each)}
        for side, each in medians.items()
    }


def train_and_evaluate(side: str, place: Path, seed: int, rate: float, batch: int = 64) -> dict:
    """A row of the record."""
    begun, before = time.monotonic(), sum(os.times()[2:4])
    steps = json.loads(RECORD.read_text())["costs"][side]["steps"]
    steps = steps * 64 // batch if side == "tuned" else steps
    subprocess.run(command(side, place, seed, steps, rate, batch, turns=False), check=True)
    row = {
        "side": side,
        "seed": seed,
        "rate": rate,
        "batch": batch,
        "steps": steps,
        "seconds": round(time.monotonic() - begun, 1),
        "processor_seconds": round(sum(os.times()[2:4]) - before, 1),
    }
    validation = MANIFESTS | {"test": MANIFESTS["validation"]}
    row["validation_loss"] = evaluated(place / "model", validation, VALIDATED)["loss"]
    return row | evaluated(place / "model", MANIFESTS)


def add(part: str, row: dict) -> None:
    """Add the row to the record as it is now."""
    print(part, json.dumps(row), flush=True)
    record = json.loads(RECORD.read_text())
    record[part].append(row)
    RECORD.write_text(json.dumps(record, indent=2) + "\n")


def compare(places: dict[str, Path], sides: list[str], seeds: list[int]) -> None:
    """Train and evaluate the sides; `tuned` at the rate that was best on validation."""
    rates = json.loads(RECORD.read_text())["rates"]
    settings = {
        "workflow": {"rate": 0.0, "batch": 0},  # the configuration has them
        "trainer": TRAINER,
        "tuned": min(rates, key=lambda row: row["validation_loss"]),
    }
    for seed in seeds:
        for side in sides:
            row = settings[side]
            if row.get("seed") != seed:
                row = train_and_evaluate(side, places[side], seed, row["rate"], row["batch"])
            add("trainings", row)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    # Sides, and the last six options, are for the processes that this one starts.
    parser.add_argument("role", choices=("costs", "rates", "compare", *SIDES))
    parser.add_argument("--seeds", type=int, nargs="+", default=[0])
    parser.add_argument("--sides", nargs="+", choices=SIDES, default=SIDES)
    parser.add_argument("--batch", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--seed", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--place", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--steps", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--rate", type=float, help=argparse.SUPPRESS)
    parser.add_argument("--turns", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.role == "workflow":
        return train_here(options.place, options)
    if options.role in SIDES:
        import torch

        torch.set_num_threads(1)
        train = {"trainer": train_with_trainer, "tuned": train_by_hand}[options.role]
        train(options.place, options)
        # As they are: transformers 5 would name a class that transformers 4 does not know.
        shutil.copytree(TOKENIZER, options.place / "model", dirs_exist_ok=True)
        return None
    with tempfile.TemporaryDirectory() as temporary:
        places = prepared(temporary)
        if options.role == "costs":
            record = {"threads": 1, "rates": [], "trainings": []}
            costs(record, places)
            RECORD.write_text(json.dumps(record, indent=2) + "\n")
        elif options.role == "rates":
            for batch, rate in TRIALS:
                add("rates", train_and_evaluate("tuned", places["tuned"], 0, rate, batch))
        else:
            compare(places, options.sides, options.seeds)
    return None


if __name__ == "__main__":
    main()
