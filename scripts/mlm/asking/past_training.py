"""A past training, opened to make steps of it again: its devices, its states, and where to begin.

Nothing is written: neither a lock nor what the training itself tidies up.
"""

import json
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from mlm.asking.answer import Answer
from mlm.asking.asking import Question
from mlm.asking.past_run import RESULTS, configuration_of, files_of_training
from mlm.config.run import RunConfiguration
from mlm.foundations.code_digests import training_code
from mlm.foundations.differences import differences
from mlm.foundations.digests import value_sha256
from mlm.foundations.environment import package_versions
from mlm.foundations.errors import MlmError, listed, printable
from mlm.foundations.framework import tf
from mlm.training.artefacts import Training
from mlm.training.branching import branch_of
from mlm.training.engine import Devices, Engine, engine_of, open_devices
from mlm.training.pretrain import states_of
from mlm.training.run import Run
from mlm.training.run_inputs import read_checked_manifests, run_of
from mlm.training.state_fingerprint import COMPUTING_PACKAGES, state_basis
from mlm.training.states import StateDirectory

#: (input_ids [sequence], attention_mask [sequence], places [asked]) -> [asked, vocabulary] float32
Logits = Callable[[np.ndarray, np.ndarray, np.ndarray], np.ndarray]
#: So many steps are made from the initial weights without being asked for: as many as lie between
#: two states by default.
FEW_STEPS = 500


@dataclass(frozen=True)
class Source:
    """States that a training can be gone on from, those after `last` steps and earlier (None: no
    limit): its own, or those of a training that it continues."""

    states: StateDirectory
    last: int | None = None

    def steps(self) -> list[int]:
        return [s for s in self.states.steps() if self.last is None or s <= self.last]


@dataclass(frozen=True)
class PastTraining:
    """The run, its open devices, where states of it may be, its own first, and training.json of a
    training that has ended."""

    run: Run
    devices: Devices
    sources: tuple[Source, ...]
    summary: Training | None

    @property
    def states(self) -> StateDirectory:
        return self.sources[0].states

    @classmethod
    def opened(cls, question: Question, answer: Answer) -> "PastTraining":
        """The training that `answer` tells of.

        Raises MlmError where a device is not there, and where configuration, code, packages, data
        or devices are not those of the training.
        """
        config = configuration_of(question.settings, question.run)
        files = files_of_training()
        manifests = read_checked_manifests(files, config.sequence_length)
        asked = config.accelerator
        if asked.together:
            raise MlmError(
                f"--replay: run {question.run!r} is trained by several processes "
                f"({asked.processes or 'one on each host'}, accelerator.start: "
                f"{asked.start}). One process, such as this, adds up in another order than "
                "several, so that the step it made would not be the training's own. Without "
                "--replay the answer holds for any number of them"
            )
        devices = open_devices(config.engine, asked, config.pretraining.per_replica_batch_size)

        def resolved(of: RunConfiguration) -> Run:
            return run_of(of, files, manifests, devices.replicas)

        run = resolved(config)
        basis = state_basis(run, files, devices)

        def states(of: Run) -> StateDirectory:
            return states_of(of, basis | {"settings": of.basis()})

        sources = (Source(states(run)), *_continued(config, run, resolved, states))
        record = Path(answer.training.record)
        summary = Training.read(record) if answer.training.state == "finished" else None
        past = cls(run, devices, sources, summary)
        if summary is not None:
            past._compare(summary, record)
        elif record.parent != Path(past.states.path):
            raise _another(record, run, [past.states.difference(str(record.parent))])
        return past

    def _compare(self, summary: Training, record: Path) -> None:
        """Raise MlmError where the training that `record` sums up is another."""
        run, devices = self.run, self.devices
        packages = package_versions(COMPUTING_PACKAGES[devices.framework])
        now = {
            "engine": devices.framework,
            "attend": run.pretraining.attend,
            "optimizer": run.pretraining.optimizer.model_dump(),
            "initialisation": run.model.initialisation.model_dump(),
            "accelerator": devices.kind,
            "strategy": devices.name,
            "replicas": devices.replicas,
            "precision": devices.precision,
        }
        then = {name: getattr(summary, name) for name in now}
        then["packages"] = {p: v for p, v in summary.packages.items() if p in packages}
        now["packages"] = {p: v for p, v in packages.items() if p in then["packages"]}
        then["processes"], now["processes"] = summary.processes or 1, 1
        exported = RESULTS / "runs" / run.name / "model" / "config.json"
        if exported.exists():
            then["model.config"] = _fields(json.loads(exported.read_bytes()))
            now["model.config"] = _fields(json.loads(run.model_config.to_json_string(False)))
        if found := differences(then, now):
            raise _another(record, run, found)

    def begin(self, step: int, from_start: bool) -> tuple[Engine, str | None]:
        """An engine at the nearest state before update `step`, and that state's directory; or at
        the initial weights, and None.

        Raises MlmError where neither a state is there, nor are the steps from the first one few
        (with `from_start` they may be many).
        """
        found = [(k, s) for s in self.sources for k in s.steps() if k < step]
        if not found:
            self._require_start(step, from_start)
        engine = engine_of(self.run, self.devices)
        # Of two after the same step, its own.
        for at, source in sorted(found, key=lambda one: -one[0]):
            if restored := _restored(source.states, engine, at):
                engine.step = restored[0]
                return engine, f"{source.states.path}/step-{at:08d}"
        self._require_start(step, from_start)
        if self.run.model.initialisation.embeddings == "cooccurrence":
            engine.start_from_counts()
        return engine, None

    def logits(self, engine: Engine) -> Logits:
        """The logits of the model that `engine` holds, without dropout; it must make no step before
        they are asked for.

        As an evaluation computes them: in JAX in float32, in TensorFlow in the devices' precision.
        """
        names = ("input_ids", "attention_mask", "positions")
        if self.devices.framework == "tensorflow":
            from mlm.training.in_tensorflow.prediction import masked_logits, traceable

            strategy, model = self.devices.strategy, engine.model

            def step(*tensors):
                return masked_logits(model, dict(zip(names, tensors, strict=True)), training=False)

            step = traceable(model, step)
            compiled = tf.function(lambda *batch: strategy.run(step, batch))

            def logits(*arrays):
                # Every replica is given the same.
                given = (tf.constant(array[np.newaxis], tf.int32) for array in arrays)
                return strategy.experimental_local_results(compiled(*given))[0].numpy()[0]

            return logits

        import jax

        from mlm.evaluation.in_jax import masked_positions
        from mlm.model.architecture import Architecture

        config = self.run.model_config
        begins_document = config.cls_token_id if self.run.pretraining.attend == "document" else None
        step = jax.jit(masked_positions(Architecture.of(config.to_dict()), begins_document))
        weights = engine.exported().weights

        def logits_in_jax(*arrays):
            given = (array[np.newaxis].astype(np.int32) for array in arrays)
            return np.asarray(step(weights, dict(zip(names, given, strict=True))))[0]

        return logits_in_jax

    def _require_start(self, step: int, from_start: bool) -> None:
        """Raise MlmError where the weights before `step` cannot be made from the initial ones."""
        known = any(source.steps() for source in self.sources)
        code = self.summary and self.summary.code
        if not known and code not in (None, value_sha256(training_code())):
            others = [f"{o}: {self.states.difference(o)}" for o in self.states.others()]
            summary = RESULTS / "runs" / self.run.name / "training.json"
            raise MlmError(
                f"{summary}: the code was edited since this training, and no saved state of it is "
                "left that says whether what computes the weights is the same."
                + (f" States of other trainings are there:\n{listed(others)}\n" if others else " ")
                + "Ask with the code that it was trained with, or train it again: "
                f"rm {summary}, then the same snakemake command"
            )
        if step <= FEW_STEPS or from_start:
            return
        raise MlmError(
            f"Step {step:,} of run {self.run.name}: no saved state from before it is left. "
            f"{self._left()} From the initial weights it is the last of {step:,} steps; more than "
            f"{FEW_STEPS} are made with --from-start alone. To have what any step needs the next "
            "time: pretraining.checkpoint.keep: all; what this one needs: checkpoint.keep_steps: "
            f"[{step - 1}]"
        )

    def _left(self) -> str:
        """In words, which states are there, and which steps can be made again from them."""
        told, end = [], self.run.steps
        for source in self.sources:
            if steps := sorted(source.steps()):
                after = ", ".join(f"{s:,}" for s in steps)
                told.append(f"{source.states.path} has those after {after}")
                if steps[0] < end:
                    told[-1] += f": steps {steps[0] + 1:,} to {end:,} can be made again"
        return f"{'; '.join(told) or f'{self.states.path} has none'}."


def _continued(
    config: RunConfiguration,
    run: Run,
    resolved: Callable[[RunConfiguration], Run],
    states: Callable[[Run], StateDirectory],
) -> Iterator[Source]:
    """The states of the trainings that `run` continues, as far as it shares their steps."""
    last = run.steps
    while config.parent is not None:
        parent = resolved(config.parent)
        last = min(last, config.pretraining.continue_from.step)
        branch = branch_of(run, parent, states(parent), last)
        yield Source(branch.states, last)
        config, run = config.parent, parent


def _restored(states: StateDirectory, engine: Engine, step: int) -> tuple[int, dict] | None:
    try:
        return states.restore(engine, only=step)
    except (OSError, tf.errors.OpError) as error:
        raise MlmError(
            f"{states.path}: the state after step {step} went away while it was read: a training "
            "that goes on keeps pretraining.checkpoint.keep of them. Ask again"
        ) from error


def _another(record: Path, run: Run, found: list[str]) -> MlmError:
    return MlmError(
        f"{record}: run {run.name} was trained with something else than a step would be made again "
        f"with:\n{listed(found)}\nAsk with the configuration, the code, the packages and the "
        "devices that it was trained with, or train it again: the same snakemake command"
    )


def _fields(config: dict) -> dict:
    """The fields of a model's config.json that shape it."""
    apart = ("architectures", "torch_dtype", "transformers_version", "_name_or_path")
    return {name: value for name, value in config.items() if name not in apart}


def say(text: str) -> None:
    """Tell `text` at once, beside the answer."""
    print(printable(text), file=sys.stderr, flush=True)
