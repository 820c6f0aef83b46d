"""One fold of a fine-tuning as a job: from the examples to predictions and a model."""

import hashlib
import shutil
import sys
from dataclasses import asdict, dataclass, field
from pathlib import Path

import numpy as np

from mlm.config.accelerator import Accelerator
from mlm.config.finetune import Finetune
from mlm.finetuning.artefacts import FoldRecord
from mlm.finetuning.fold_engine import Fold, loss_and_score
from mlm.finetuning.tables import EpochRow, Prediction, write_predictions, write_rows
from mlm.foundations.code_digests import SCRIPTS, code_digests
from mlm.foundations.digests import file_sha256
from mlm.foundations.errors import MlmError
from mlm.training.loop import Sums, next_multiple, updates
from mlm.training.states import StateDirectory

#: Modules that decide the bits of a fold's weights; an edit elsewhere keeps its states.
FOLD_MODULES = (
    "mlm.config.families",
    "mlm.model.architecture",
    "mlm.model.checkpoints",
    "mlm.model.jax_ops",
    "mlm.model.network",
    "mlm.model.weights",
    "mlm.finetuning.fold_engine",
    "mlm.finetuning.sequence_model",
    "mlm.finetuning.tables",
    "mlm.training.in_jax.devices",
    "mlm.training.optimizers",
    "mlm.tokenizer.encoding",
    "mlm.tokenizer.pretrained",
)
#: Steps between two looks at signals.
_AT_ONCE = 20


def finetune_fold(
    names: tuple[str | None, str, int],
    seed: int,
    section: Finetune,
    accelerator: Accelerator,
    examples: str | Path,
    model: str | Path,
    directory: str | Path,
    state: str | Path,
) -> None:
    """Train or resume one fold as often as `seeds` says, and write its results, with the first
    training's model. `names` are the run, the start and the fold; None, the label and the fold of a
    published encoder. MlmError if a training diverges, and after a signal, with the state saved."""
    (run, start, number), seeds, rows, logits, kept = names, [], [], [], None
    fold = Fold(number, section, accelerator, examples, model, published=run is None)
    basis = {
        "fold": [start, number],
        "settings": {"finetune": section.model_dump(), "accelerator": accelerator.model_dump()},
        "examples": file_sha256(examples),
        "input_ids": hashlib.sha256(fold.input_ids).hexdigest(),
        "model": fold.checkpoint.sha256,
        "code": code_digests(SCRIPTS, FOLD_MODULES),
    }
    steps = section.epochs * fold.steps_per_epoch
    label = f"{'published' if run is None else run}, {start}, fold {number}"
    print(
        f"{label}: {len(fold.train)} passages to learn from, {len(fold.test)} held out, "
        f"{fold.truncated} longer than {fold.input_ids.shape[1]} tokens; "
        f"{fold.devices.replicas} x {fold.devices.kind}",
        file=sys.stderr,
    )
    for training in range(section.seeds):
        own = int(np.random.SeedSequence([seed, number, training]).generate_state(1)[0]) >> 1
        fold.begin(start, own)
        states = StateDirectory.of(f"{state}/seed-{training}", 2, basis | {"seed": own})
        epochs = _Epochs(fold, section, f"{label}, seed {training}", training, states)
        with states.held():
            epochs.resume()
            for _ in updates(fold, steps, [epochs], epochs.sums, epochs, _AT_ONCE):
                pass
        seeds.append(own)
        rows += epochs.rows
        logits.append(fold.predictions())
        kept = kept or fold.state["parameters"]
    write_predictions(f"{directory}/predictions.csv", _named(fold, logits))
    write_rows(f"{directory}/history.csv", rows)
    fold.model.write(directory, kept)
    FoldRecord(
        *names,
        task=section.task,
        examples={"learned": len(fold.train), "held_out": len(fold.test)},
        truncated=fold.truncated,
        device={"platform": fold.devices.kind, "count": fold.devices.replicas},
        precision=fold.devices.precision,
        seeds=seeds,
        encoder=fold.checkpoint.sha256 if run is None else None,
    ).write(f"{directory}/fold.json")
    shutil.rmtree(state, ignore_errors=True)


@dataclass
class _Epochs:
    """The end of each epoch: a row about it, and the state; the state alone if stopped before."""

    fold: Fold
    section: Finetune
    label: str
    training: int
    states: StateDirectory
    sums: Sums = field(default_factory=Sums)
    rows: list[EpochRow] = field(default_factory=list)

    def resume(self) -> None:
        """Continue from the newest whole state, if there is one."""
        if (found := self.states.newest_whole()) is None:
            return
        place, _, progress = found
        self.fold.read(place)
        self.rows = [EpochRow(**row) for row in progress.pop("rows")]
        self.sums = Sums(progress["by_name"])
        done = f"{len(self.rows)} of {self.section.epochs} epochs done"
        print(f"{self.label}: {done}", file=sys.stderr)

    def due(self, step: int) -> int:
        return next_multiple(step, self.fold.steps_per_epoch)

    def act(self, step: int, fold: Fold) -> None:
        if step % fold.steps_per_epoch == 0:
            self._add_row(step // fold.steps_per_epoch)
        progress = asdict(self.sums) | {"rows": [asdict(row) for row in self.rows]}
        self.states.save(step, fold, progress)

    def _add_row(self, epoch: int) -> None:
        fold, section, sums = self.fold, self.section, self.sums.taken()
        loss = sums["loss"] / sums["examples"]
        held_out, score = loss_and_score(section.task, fold.predictions(), fold.targets[fold.test])
        if not np.isfinite([loss, held_out]).all():
            raise MlmError(
                f"{self.label}: the training diverged in epoch {epoch} (train loss {loss}, held "
                f"out {held_out}). Lower finetune.learning_rate, which is "
                f"{section.learning_rate:g}, by a factor of ten, or set "
                "finetune.optimizer.max_grad_norm: 1.0"
            )
        seconds, rate = sums["seconds"], sums["examples"] / sums["seconds"]
        self.rows.append(EpochRow(fold.number, self.training, epoch, loss, held_out, score))
        print(
            f"{self.label}: epoch {epoch}/{section.epochs}, train loss {loss:.4f}, held out "
            f"{held_out:.4f}, score {score:.4f}, {rate:,.0f} passages/s, "
            f"{(section.epochs - epoch) * seconds:,.0f} s left",
            file=sys.stderr,
        )


def _named(fold: Fold, logits: list[np.ndarray]) -> list[Prediction]:
    """The predictions of the held-out examples from each training's `logits`."""
    if fold.classes:
        said = [[fold.classes[i] for i in x.argmax(axis=1)] for x in logits]
    else:
        said = [[f"{v:.6f}" for v in x[:, 0]] for x in logits]
    held_out = [fold.examples[place] for place in fold.test]
    by_example = zip(held_out, *said, strict=True)
    return [Prediction(e.id, fold.number, e.target, said) for e, *said in by_example]
