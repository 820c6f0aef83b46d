"""Target `check`: what stands in the way of a run, and what it will take, before it begins."""

import gc
import os
import shutil
import sys
import tempfile
from collections.abc import Callable
from contextlib import redirect_stderr
from dataclasses import dataclass, field
from importlib import import_module
from io import StringIO
from pathlib import Path

import psutil

from mlm.check.data_rehearsal import DataMeasured, rehearse_data
from mlm.check.estimate import (
    IMPORT_SECONDS,
    Size,
    Stage,
    sizes_of,
    stages_of_data,
    stages_of_run,
    together,
)
from mlm.check.in_words import table
from mlm.check.sampled_text import SampledText, sampled_text, shown
from mlm.check.stopwatch import OtherWork, timed
from mlm.check.training_rehearsal import accelerator_alone, rehearse_training, shape_of
from mlm.config.resolution import Settings, run_section
from mlm.config.run import RunConfiguration
from mlm.foundations.errors import MlmError, listed
from mlm.training.engine import open_devices
from mlm.training.local_devices import local_tpu

#: Shapes of runs that are timed; what is beyond is told as not known.
_MOST_TIMED = 4
#: Free disk that is left over at least.
_LEFT_OVER = 100_000_000


@dataclass
class Answer:
    """What was found: `lines` for people, `problems` that let no run succeed, and `stages`."""

    lines: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    stages: list[Stage] = field(default_factory=list)
    total: Stage | None = None


def check(settings: Settings, made: dict[str, list[str]]) -> Answer:
    """Look at corpus, tokenizer, shards and runs; a sample of the corpus goes through all stages,
    in a directory that is gone afterwards.

    `made` are the files of each stage, to tell which are there. Whatever lets the run fail for
    certain is a problem; nothing is raised for it.
    """
    answer = Answer()
    with tempfile.TemporaryDirectory(prefix="check-") as directory:
        _looked_at(settings, made, Path(directory), answer)
    return answer


def _looked_at(
    settings: Settings, made: dict[str, list[str]], directory: Path, answer: Answer
) -> None:
    others = OtherWork()
    text = _tried(lambda: sampled_text(settings["corpus"], settings["seed"]), answer)
    if text is None:
        return
    if settings["shards"]["source"] != "corpus":
        # The text stands for tokens that nobody has looked at yet.
        text = SampledText(text.documents, None, None, None, "shards that were made elsewhere")
    data = _tried(lambda: rehearse_data(settings, text, directory), answer)
    if data is None:
        answer.lines.append(_corpus_in_words(text, None))
        return
    sizes = sizes_of(settings, text, data)
    answer.lines += [_corpus_in_words(text, sizes), *_tokenizer_in_words(settings, data, sizes)]
    _judge_data(settings, text, data, sizes, answer)
    if answer.problems:
        answer.lines.append("What it takes was not looked at: first there is something to change.")
        return
    cores = len(os.sched_getaffinity(0))
    slower = slowness()
    answer.stages = stages_of_data(settings, sizes, data, slower, cores)
    timed_shapes: list = []
    for run in settings["runs"]:
        shape = shape_of(settings, run)
        training = next((t for s, t in timed_shapes if s == shape), None)
        if training is None and len(timed_shapes) < _MOST_TIMED:
            training = _training(settings, run, data, directory / f"run-{run}", answer)
            timed_shapes.append((shape, training))
        stages = _tried(
            lambda run=run, training=training: stages_of_run(
                settings, run, sizes, data, training, slower
            ),
            answer,
        )
        answer.stages += stages or []
    answer.total = together(settings, answer.stages, slower, cores)
    _say_how_busy(others, answer)
    _say_what_is_there(settings, made, answer)
    _judge_machine(settings, answer, cores)


def slowness() -> float:
    """How many times as long it takes to start a job as where `estimate.FIXED` was measured.

    To be asked once, in a process that has not imported the framework.
    """
    with timed() as imports:
        import_module("tensorflow")
    return min(4.0, max(0.5, imports.cpu / IMPORT_SECONDS))


def _tried(do: Callable, answer: Answer):
    """What `do` gives; None where it raises an MlmError, which is a problem."""
    try:
        # What the stages say of themselves while they work is not asked for here.
        with redirect_stderr(StringIO()):
            return do()
    except MlmError as error:
        answer.problems.append(str(error))
        return None


def _training(settings, run, data, directory, answer):
    kind = settings["accelerator"]["kind"]
    if kind == "tpu" and not local_tpu():
        answer.warnings.append(
            f"{run}: accelerator.kind is tpu and this machine has none: the time and the memory of "
            "its steps cannot be measured here. `snakemake --cores 2 preflight` compiles them for "
            "the chips and says whether they fit"
        )
        return None
    engine = RunConfiguration.of(settings, run).engine
    try:
        own = run_section(settings, run, "pretraining")
        accelerator = _DEVICES.get(engine) or open_devices(
            engine, accelerator_alone(settings), own["per_replica_batch_size"]
        )
        _DEVICES[engine] = accelerator
    except MlmError as error:
        answer.warnings.append(f"{run}: its steps cannot be timed here. {error}")
        return None
    measured = _tried(
        lambda: rehearse_training(settings, run, data, accelerator, directory), answer
    )
    # Left to the end of the process, TensorFlow's iterators complain that Python is gone.
    gc.collect()
    return measured


#: Devices that are open, by engine: they are opened once in a process.
_DEVICES: dict = {}


def _corpus_in_words(text: SampledText, sizes: dict[str, Size] | None) -> str:
    if sizes is None:
        return f"Corpus: {text.source}. Its size is not known here, nor what follows from it."
    about = "" if text.whole is not None else "about "
    splits = ", ".join(f"{split} {shown(size.text)}" for split, size in sizes.items())
    documents = sum(size.documents for size in sizes.values())
    return (
        f"Corpus: {text.source}; {about}{shown(sum(s.text for s in sizes.values()))} of text in "
        f"{about}{round(documents):,} documents ({splits})."
    )


def _tokenizer_in_words(
    settings: Settings, data: DataMeasured, sizes: dict[str, Size] | None
) -> list[str]:
    if sizes is None:
        return []
    tokens, samples = sizes["train"].tokens, sizes["train"].samples
    own = settings["tokenizer"]
    ids = "" if data.ids else f" of {data.vocabulary:,} ids"
    if own["vocabulary_size"] is None:
        ids = f" of about {data.vocabulary:,} ids (vocabulary_size: auto)"
    if own["kind"] == "pretrained":
        ids = ", pretrained"
    return [
        f"Tokenizer: {settings['tokenizer']['kind']}{ids}; about {1 / data.tokens_per_byte:.1f} "
        f"bytes a token, so that train has about {tokens / 1e6:.3g} million tokens in "
        f"{round(samples):,} samples of {settings['shards']['sequence_length']}."
    ]


def _judge_data(
    settings: Settings,
    text: SampledText,
    data: DataMeasured,
    sizes: dict[str, Size] | None,
    answer: Answer,
) -> None:
    wanted = settings["tokenizer"]["vocabulary_size"]
    known = data.ids is not None and data.ids_of_all is not None and text.bytes is not None
    if known and wanted is not None:
        # Of a sample, what is expected of the whole is too high rather than too low.
        most = data.ids if text.is_all else int(0.6 * data.ids_of_all)
        found = (
            f"tokenizer.vocabulary_size: {wanted:,} is more than the text of the train split gives"
        )
        if wanted > data.ids_of_all:
            answer.problems.append(
                f"{found}: about {most:,} ids. Set {most:,} or less ({_usual(most):,}, say), or "
                "add text"
            )
        elif wanted > most:
            answer.warnings.append(
                f"tokenizer.vocabulary_size: {wanted:,} may be more than the text of the train "
                f"split gives; {_usual(most):,} should be safe"
            )
    if sizes is None:
        return
    for split, count in settings["shards"]["count"].items():
        documents = sizes[split].documents
        if documents and count > 1.5 * documents:
            answer.problems.append(
                f"shards.count.{split}: {count} shards, and the split has about "
                f"{round(documents)} documents. Set it to {max(1, int(documents // 2))} or less"
            )


def _say_how_busy(others: OtherWork, answer: Answer) -> None:
    if (share := others.share()) > 0.25:
        answer.warnings.append(
            f"Other processes have {share:.0%} of this machine's processors. Beside them a run "
            "takes longer"
        )


def _usual(ids: int) -> int:
    """A round number of ids that is well below `ids`."""
    half = ids // 2
    digits = 10 ** max(0, len(str(half)) - 1)
    return max(half // digits * digits, 300)


def _say_what_is_there(settings: Settings, made: dict[str, list[str]], answer: Answer) -> None:
    for stage in answer.stages:
        files = made.get(stage.name, [])
        there = sum(Path(file).exists() for file in files)
        if files and there == len(files):
            stage.there = "yes"
        elif there:
            stage.there = f"{there} of {len(files)}"
        if stage.name.startswith("pretrain") and stage.there != "yes":
            run = stage.name.split("[")[1].rstrip("]")
            own = run_section(settings, run, "pretraining")["checkpoint"]["directory"]
            steps = Path(own).glob(f"{run}/*/step-*") if "://" not in own else []
            # Those of earlier settings stay beside it.
            newest = max(steps, key=lambda step: step.stat().st_mtime_ns, default=None)
            if newest:
                stage.there = f"a state of step {int(newest.name.split('-')[1]):,}"


def _judge_machine(settings: Settings, answer: Answer, cores: int) -> None:
    total = answer.total
    memory = psutil.virtual_memory().total / 1e6
    for stage in answer.stages:
        # The estimates are too high rather than too low.
        if stage.memory_mb and stage.memory_mb / 2 > memory:
            answer.problems.append(
                f"{stage.name}: needs about {shown(stage.memory_mb * 1e6)} of memory, and this "
                f"machine has {shown(memory * 1e6)}. Take a smaller model or "
                "pretraining.per_replica_batch_size (tokenizer: max_training_bytes), or another "
                "machine (docs/cluster.md)"
            )
        elif stage.memory_mb and stage.memory_mb > memory:
            answer.warnings.append(
                f"{stage.name}: up to {shown(stage.memory_mb * 1e6)} of memory, and this machine "
                f"has {shown(memory * 1e6)}: it may not suffice"
            )
    places = {Path("results").absolute()}
    for run in settings["runs"]:
        own = run_section(settings, run, "pretraining")["checkpoint"]["directory"]
        if "://" not in own:
            places.add(Path(own).absolute())
    free = min(shutil.disk_usage(_existing(place)).free for place in places)
    if total.disk is None:
        return
    there = sum(_bytes_below(place) for place in places)
    needed = max(0, total.disk - there)
    answer.lines.append(
        f"Disk: {shown(total.disk)} for a run from nothing; results/ and state/ hold "
        f"{shown(there)} by now; {shown(free)} are free."
        if there
        else f"Disk: {shown(total.disk)}; {shown(free)} are free."
    )
    if needed + _LEFT_OVER > free:
        answer.problems.append(
            f"The disk has {shown(free)} free, and about {shown(needed + _LEFT_OVER)} are needed. "
            "Free some space, run in another directory (snakemake --directory), put the states "
            "elsewhere (pretraining.checkpoint.directory) or keep fewer of them "
            "(pretraining.checkpoint.keep)"
        )


def _existing(place: Path) -> Path:
    return place if place.exists() else _existing(place.parent)


def _bytes_below(place: Path) -> int:
    return sum(f.stat().st_size for f in place.rglob("*") if f.is_file()) if place.exists() else 0


def show(answer: Answer) -> None:
    """Print it all. Raises MlmError where there are problems, with every one."""
    for line in answer.lines:
        print(line)
    if answer.stages and answer.total:
        print("", table(answer), "", sep="\n")
    for warning in answer.warnings:
        print(f"Note: {warning}.")
    if answer.problems:
        count = len(answer.problems)
        sys.stdout.flush()
        raise MlmError(
            f"{count} thing{'s' if count > 1 else ''} to change before a run can succeed:\n"
            f"{listed(answer.problems)}"
        )
    print("Nothing was found that stands in the way.")
