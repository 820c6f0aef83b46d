"""Training a run without some documents: from which step on its weights depend on them, and which
saved state does not. Order and shards are functions of seed, epoch and index, so both are computed.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import yaml

from mlm.asking.past_run import PastRun, TrainingSoFar, past_run
from mlm.asking.provenance import checked_texts
from mlm.asking.training_inputs import RESULTS
from mlm.config.merging import merged
from mlm.config.resolution import Settings, run_section
from mlm.corpus.file_patterns import corpus_settings
from mlm.foundations.code_digests import SCRIPTS, code_digests
from mlm.samples.artefacts import LeftOut
from mlm.samples.documents_in_samples import holes_of
from mlm.samples.holes import Holes
from mlm.training.left_out import first_difference
from mlm.training.states import marker_or_fault


@dataclass(frozen=True)
class Forgetting:
    """A run without some documents of the train split, `left_out` item by item: `documents`,
    `tokens` and `samples` count each once. `first_step` is the first update that depends on them, 0
    if the initial weights do, None if no update does. `states` are the steps of the saved states to
    resume from, `go_on_from` run and step of the last one before `first_step`, `configuration` an
    overlay with a run without them."""

    run: str
    left_out: tuple[LeftOut, ...]
    documents: int
    tokens: int
    samples: int
    of_documents: int
    of_tokens: int
    training: TrainingSoFar
    first_step: int | None
    states: tuple[int, ...]
    go_on_from: tuple[str, int] | None
    configuration: str | None
    notes: tuple[str, ...]
    format_version: int = 1


def forgetting(forget: Sequence[str], settings: Settings, run: str) -> Forgetting:
    """How to have `run` without the documents that the items of `forget` name; MlmError for an item
    that finds nothing, missing results, and another configuration, code or data than trained it."""
    past = past_run(settings, run)
    described, _ = checked_texts("train", settings, past)
    split = {
        "described": RESULTS / "corpus" / "train.json",
        "manifest": past.files.manifests["train"],
        "tokenizer": past.files.tokenizer,
        "settings": corpus_settings(settings),
    }
    section = run_section(settings, run, "pretraining")
    items = list(dict.fromkeys([*section["forget"], *forget]))
    found, asked = holes_of(run, items, **split), holes_of(run, forget, **split)
    holes = Holes(found.holes, past.encoder.special_ids.pad)
    # Beside what it leaves out already.
    first = first_difference(past.run, replace(past.run, plan=replace(past.run.plan, holes=holes)))
    states, edited = _states(past)
    early = [(run, step) for step in states if first and step < first]
    begun = section["continue_from"]
    if first and begun["run"] is not None and begun["step"] < first:
        early.insert(0, (begun["run"], begun["step"]))
    start = early[-1] if early else None
    return Forgetting(
        run=run,
        left_out=tuple(asked.forget),
        documents=asked.documents,
        tokens=asked.tokens,
        samples=asked.samples,
        of_documents=described.documents,
        of_tokens=past.manifests["train"].num_tokens,
        training=past.so_far,
        first_step=first,
        states=tuple(states),
        go_on_from=start,
        configuration=None if first is None else _configuration(settings, run, items, start),
        notes=(*past.notes, *_notes(settings, section, past, edited)),
    )


def _states(past: PastRun) -> tuple[list[int], bool]:
    """The steps of the whole states that were computed by the code of today, and whether those that
    are there were all computed by another."""
    steps, whole = [], False
    for state in past.states:
        marker, fault = marker_or_fault(state.file)
        if state.reached and not fault:
            code, whole = marker["basis"]["code"], True
            if code.items() <= code_digests(SCRIPTS, sorted(code), past.memory).items():
                steps.append(state.reached)
    return sorted(steps), whole and not steps


def _configuration(
    settings: Settings, run: str, items: list[str], start: tuple[str, int] | None
) -> str:
    """The lines of an overlay with all runs of the configuration, and one without `items`."""
    runs = settings["runs"]
    own: dict[str, Any] = {"forget": items}
    continued = run_section(settings, run, "pretraining")["continue_from"]["run"]
    if start is not None or continued is not None:
        own["continue_from"] = dict(zip(("run", "step"), start or (None, None), strict=True))
    name, number = "without", 2
    while name in runs:
        name, number = f"without-{number}", number + 1
    lines = {"runs": {**runs, name: merged(runs[run], {"pretraining": own})}}
    return yaml.safe_dump(
        lines, sort_keys=False, allow_unicode=True, default_flow_style=None, width=100
    ).rstrip()


def _notes(settings: Settings, section: dict, past: PastRun, edited: bool) -> Iterator[str]:
    if past.run.model.initialisation.embeddings == "cooccurrence":
        yield (
            "The word embeddings begin at counts of the train split (model.initialisation."
            "embeddings): a run without these documents counts anew, and begins at its first step."
        )
    if settings["tokenizer"]["kind"] != "pretrained":
        yield (
            "Not undone: the tokenizer learned from these documents too. To undo that, take them "
            "out of the corpus, and train all anew."
        )
    yield "Not undone: what other documents say alike; this run, its states, what was published."
    if edited:
        yield "The code was edited since the states were saved: no training can go on from them."
    if "://" in section["checkpoint"]["directory"]:
        yield "States in a bucket are not looked at."
