"""One pretraining as a job: from files and settings to an exported model and its record."""

import sys
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import asdict, dataclass, fields
from pathlib import Path

from mlm.foundations.atomic import write_text
from mlm.foundations.code_digests import job_digests
from mlm.foundations.digests import file_sha256, value_sha256
from mlm.foundations.environment import package_versions
from mlm.model.export import write_sentence_encoder
from mlm.samples.artefacts import HolesOfRun
from mlm.samples.manifests import Manifest
from mlm.tokenizer.tokenizer_files import copy_tokenizer
from mlm.training.accelerator_settings import AcceleratorSettings
from mlm.training.artefacts import (
    DevicesBefore,
    FinalFigures,
    Training,
    TrainingDigests,
    WithoutDocuments,
)
from mlm.training.branching import branch_of
from mlm.training.engine import Accelerator, open_devices
from mlm.training.first_use import first_use
from mlm.training.loop import Trained, pretrain
from mlm.training.model_card import model_card
from mlm.training.periodic_actions import PeriodicAction, Show
from mlm.training.resolved_run import Pretraining
from mlm.training.run_inputs import (
    RunFiles,
    RunSettings,
    pretraining_of,
    read_checked_manifests,
)
from mlm.training.state_fingerprint import state_basis
from mlm.training.states import StateDirectory
from mlm.training.training_log import write_rows

FurtherAction = AbstractContextManager[PeriodicAction | None]
Shown = AbstractContextManager[Show | None]


@dataclass(frozen=True)
class RunResults:
    """Where a run writes: the model's directory, training.csv and training.json."""

    model_directory: str
    log: str
    summary: str


def train_and_export(
    settings: RunSettings,
    files: RunFiles,
    results: RunResults,
    before_found_tpu: Callable[[str, dict], None] = lambda _run, _step: None,
    further_action: Callable[[str, bool], FurtherAction] = lambda _state, _leads: nullcontext(),
    shown: Callable[[Pretraining, str, str], Shown] = lambda _run, _framework, _state: (
        nullcontext()
    ),
    elsewhere: dict | None = None,
) -> None:
    """Check the data, train or resume, and write the model, training.csv and training.json.

    `before_found_tpu` is called with the run's name and the sizes of its step before it trains on
    a TPU that `accelerator.kind: auto` found, and raises MlmError where it must not.
    `further_action`, called with the directory of the run's states and whether this process leads,
    gives the context of one more periodic action, or of None; it is left when all is written. Of
    several processes that this machine or Slurm has started, the first alone writes. `shown`,
    called where this process leads with the run, the framework and that directory, gives the
    context of what shows the training, or of None. `elsewhere`, JSON-like, is what else all
    processes must have alike.
    """
    manifests = read_checked_manifests(files, settings.sequence_length)
    devices = AcceleratorSettings.of(settings.accelerator)
    batch = settings.pretraining["per_replica_batch_size"]
    accelerator = open_devices(settings.engine, devices, batch)
    run = pretraining_of(settings, files, manifests, accelerator.replicas)
    if settings.accelerator["kind"] == "auto" and accelerator.kind == "tpu":
        computed = {"engine": accelerator.framework, "precision": accelerator.precision}
        before_found_tpu(run.name, computed | run.step_sizes())
    basis = state_basis(run, files, accelerator)
    group = accelerator.group
    group.check_alike(basis | _alike(settings, basis) | (elsewhere or {}))
    states = states_of(settings, run, basis, group.leads)
    branch = None
    if parent := settings.parent:
        parent_run = pretraining_of(parent, files, manifests, accelerator.replicas)
        parent_states = states_of(parent, parent_run, basis | {"settings": parent_run.basis()})
        step = settings.pretraining["continue_from"]["step"]
        branch = branch_of(run, parent_run, parent_states, step, accelerator.replicas)
    print(
        f"{run.name}: {run.model_config.model_type}, {accelerator.name} with "
        f"{accelerator.replicas} replica(s), {accelerator.precision}; {run.steps} steps of "
        f"{run.global_batch_size(accelerator.replicas)} samples",
        file=sys.stderr,
    )
    shows = shown if group.leads else lambda *_of: nullcontext()
    with (
        group.watched(),
        further_action(states.path, group.leads) as further,
        shows(run, accelerator.framework, states.path) as show,
    ):
        trained = pretrain(
            run, accelerator, states, [further] if further is not None else [], branch, show
        )
        exported = trained.engine.exported()
        group.leave()
        if not group.leads and settings.accelerator.get("start") != "hosts":
            return
        if trained.overflow:
            print(
                f"Warning: {trained.overflow} masked tokens found no prediction slot and were left "
                "unmasked; raise pretraining.masking.slots",
                file=sys.stderr,
            )
        exported.write(results.model_directory)
        copy_tokenizer(
            Path(files.tokenizer).parent,
            results.model_directory,
            model_max_length=settings.sequence_length,
        )
        write_sentence_encoder(results.model_directory, run.model_config, settings.sequence_length)
        summary = _summary(settings, files, results, manifests, run, accelerator, trained)
        card = model_card(summary, corpus=settings.corpus)
        write_text(f"{results.model_directory}/README.md", card)
        write_rows(results.log, trained.rows)
        summary.write(results.summary)


def _alike(settings: RunSettings, basis: dict) -> dict:
    """What no weight depends on, and yet all processes need alike: after how many steps they look
    up, and what they do there together."""
    parent = settings.parent
    of_parent = parent and {
        "run": parent.name,
        "model": parent.model,
        "pretraining": parent.pretraining,
        "holes": parent.holes and file_sha256(parent.holes),
    }
    return {
        "run": settings.name,
        "checkpoint": settings.pretraining["checkpoint"],
        "continue_from": settings.pretraining["continue_from"],
        "settings of the run that is continued": of_parent and value_sha256(of_parent)[:12],
        "virtual_replicas": settings.accelerator["virtual_replicas"],
        "code": basis["code"] | job_digests(["pretrain_together"]),
    }


def states_of(
    settings: RunSettings, run: Pretraining, basis: dict, leads: bool = True
) -> StateDirectory:
    """Where the states of `run` are, or will be; of several processes one `leads`."""
    checkpoint = settings.pretraining["checkpoint"]
    directory = f"{checkpoint['directory'].rstrip('/')}/{settings.name}"
    return StateDirectory.of(directory, checkpoint["keep"], basis, run.keep_steps, leads)


def _summary(
    settings: RunSettings,
    files: RunFiles,
    results: RunResults,
    manifests: dict[str, Manifest],
    run: Pretraining,
    accelerator: Accelerator,
    trained: Trained,
) -> Training:
    """training.json of the run."""
    batch = run.global_batch_size(accelerator.replicas)
    last = trained.rows[-1]
    return Training(
        run=settings.name,
        seed=run.seed,
        engine=accelerator.framework,
        strategy=accelerator.name,
        accelerator=accelerator.kind,
        precision=accelerator.precision,
        replicas=accelerator.replicas,
        global_batch_size=batch,
        per_replica_batch_size=run.per_replica_batch_size,
        sequence_length=settings.sequence_length,
        steps=run.steps,
        epochs=round(run.steps * batch / run.train.num_samples, 6),
        steps_per_epoch=round(run.train.num_samples / batch, 6),
        tokens=run.steps * batch * settings.sequence_length,
        parameters=trained.engine.parameters,
        model_type=run.model_config.model_type,
        attend=run.attend,
        initialisation=asdict(run.initialisation),
        head=trained.engine.head,
        slots=run.plan.slots,
        overflow=trained.overflow,
        masking=settings.pretraining["masking"],
        optimizer=asdict(run.optimizer),
        final=FinalFigures(
            **{f.name: round(getattr(last, f.name), 6) for f in fields(FinalFigures)}
        ),
        digests=TrainingDigests(
            model=file_sha256(f"{results.model_directory}/model.safetensors"),
            tokenizer=file_sha256(files.tokenizer),
            manifests={s: file_sha256(p) for s, p in sorted(files.manifests.items())},
        ),
        packages=package_versions(),
        shuffle_window=run.shuffle_window,
        without=_without(settings, run, accelerator.replicas),
        deterministic=accelerator.arithmetic().get("deterministic"),
        processes=accelerator.group.count if accelerator.group.count > 1 else None,
        devices_before=[DevicesBefore(**at) for at in trained.devices_before] or None,
    )


def _without(settings: RunSettings, run: Pretraining, replicas: int) -> WithoutDocuments | None:
    """What the run was trained without, if anything."""
    if run.holes is None:
        return None
    found = HolesOfRun.read(settings.holes)
    return WithoutDocuments(
        what=[left_out.what for left_out in found.forget],
        documents=found.documents,
        tokens=found.tokens,
        samples=found.samples,
        first_step=first_use(run, replicas, {sample for sample, _, _ in found.holes}),
        holes=run.holes.sha256,
    )
