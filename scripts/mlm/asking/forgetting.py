"""What it takes to train a run without some documents: from which step on it depends on them, and
which saved state does not.

Order and shards are functions of seed, epoch and index, so that both are computed.
"""

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import yaml

from mlm.asking.answer import Forgetting
from mlm.asking.asking import check_run, opened_memory, so_far
from mlm.asking.origin import check_corpus, check_text
from mlm.asking.past_run import RESULTS, PastRun, files_of_training, past_run
from mlm.config.problems import merged
from mlm.config.resolution import Settings, run_section
from mlm.corpus.artefacts import CorpusSplit
from mlm.corpus.file_patterns import corpus_settings
from mlm.corpus.split_documents import SplitDocuments
from mlm.foundations.code_digests import SCRIPTS, code_digests
from mlm.foundations.digests import FileMemory, file_sha256
from mlm.foundations.errors import MlmError
from mlm.samples.holes import Holes
from mlm.samples.making_holes import TrainSplit, holes_of
from mlm.samples.manifests import Manifest
from mlm.tokenizer.encoding import Encoder
from mlm.training.branching import first_difference
from mlm.training.run_inputs import read_manifests


def forgetting(forget: Sequence[str], settings: Settings, run: str, command: str) -> Forgetting:
    """What it takes to have `run` without what the items of `forget` name.

    `command` is the snakemake command of the configuration, without targets. Raises MlmError for an
    item that finds nothing, results that are not there yet, and where configuration, code or data
    are not those of the training.
    """
    check_run(settings, run)
    split, files = _train_split(settings, command), files_of_training()
    manifests = read_manifests(files, settings["shards"]["sequence_length"])
    encoder = Encoder.load(files.tokenizer)
    memory, section = opened_memory(), run_section(settings, run, "pretraining")
    past = past_run(settings, run, files, manifests, encoder, memory)
    items = list(dict.fromkeys([*section["forget"], *forget]))
    found, asked = holes_of(run, items, split), holes_of(run, forget, split)
    holes = Holes.of(found.holes, encoder.special_ids.pad)
    left_out = replace(past.run, plan=replace(past.run.plan, holes=holes))
    # Of what it does not leave out already.
    first = first_difference(past.run, left_out)
    whole = [r for r in past.states if r.reached and _is_whole(Path(r.file))]
    states = sorted(r.reached for r in whole if _of_todays_code(r.file, memory))
    start = _start(section["continue_from"], run, states, first)
    described = CorpusSplit.read(split.described)
    return Forgetting(
        run=run,
        left_out=tuple(asked.forget),
        documents=asked.documents,
        tokens=asked.tokens,
        samples=asked.samples,
        of_documents=described.documents,
        of_tokens=manifests["train"].num_tokens,
        training=so_far(past),
        first_step=first,
        states=tuple(states),
        go_on_from=start,
        configuration=None if first is None else _configuration(settings, run, items, start),
        notes=(*past.notes, *_notes(settings, section, past, bool(whole) and not states)),
    )


def _train_split(settings: Settings, command: str) -> TrainSplit:
    """The files of the train split; MlmError where one is not there, or is of another corpus."""
    files = files_of_training()
    train = Path(files.manifests["train"])
    if train.exists() and Manifest.read(train).corpus_sha256 is None:
        raise MlmError(
            f"{train}: its shards came without text (shards.source: prebuilt), so that no document "
            "can be found in them, and none forgotten. A sentence can be asked for all the same"
        )
    described = RESULTS / "corpus" / "train.json"
    texts = SplitDocuments.described(described).paths if described.exists() else []
    needed = [described, *texts, files.tokenizer, *files.manifests.values()]
    if missing := [str(path) for path in needed if not Path(path).exists()]:
        raise MlmError(
            f"{', '.join(missing)}: not there yet, so that nothing is known of what a training is "
            f"shown. To have all made: {command}"
        )
    used = corpus_settings(settings)
    check_corpus(described, CorpusSplit.read(described), used)
    memory = opened_memory()
    check_text(described, SplitDocuments.described(described), memory, command)
    return TrainSplit(described, train, files.tokenizer, used)


def _of_todays_code(state: str, memory: FileMemory) -> bool:
    """Whether the modules that computed a saved state compute the same today."""
    code: dict[str, Any] = json.loads(Path(state, "complete.json").read_bytes())["basis"]["code"]
    now = code_digests(SCRIPTS, sorted(code), memory)
    return all(now.get(name) == digest for name, digest in code.items())


def _is_whole(state: Path) -> bool:
    """Whether the files of a saved state are what its marker says."""
    files: dict[str, list] = json.loads((state / "complete.json").read_bytes())["files"]
    return all(
        (state / name).is_file()
        and [(state / name).stat().st_size, file_sha256(state / name)] == expected
        for name, expected in files.items()
    )


def _start(section: dict, run: str, states: list[int], first: int | None) -> tuple[str, int] | None:
    """The last state before `first`: one of the run's own, or that which it began with itself."""
    if not first:
        return None
    early = [step for step in states if step < first]
    if early:
        return run, early[-1]
    if section["run"] is not None and section["step"] < first:
        return section["run"], section["step"]
    return None


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


def _notes(settings: Settings, section: dict, past: PastRun, edited: bool) -> list[str]:
    notes = []
    if past.run.model.initialisation.embeddings == "cooccurrence":
        notes.append(
            "The word embeddings begin at counts of the train split (model.initialisation."
            "embeddings: cooccurrence). A run without these documents counts the others anew, and "
            "begins at its first step."
        )
    if settings["tokenizer"]["kind"] != "pretrained":
        notes.append(
            "Not undone: the tokenizer learned its pieces from the train split, these documents "
            "among it. To be rid of that as well, take them out of the corpus, and train all anew."
        )
    notes.append(
        "Not undone: what other documents say alike; and this run itself, its states and what was "
        "published of it, which stay as they are."
    )
    if edited:
        notes.append(
            "The code that trains was edited since the states were saved, so that no training can "
            "go on from them."
        )
    if "://" in section["checkpoint"]["directory"]:
        notes.append("States in a bucket are not looked at.")
    return notes
