"""Target `check`: what stands in the way of a run, and what it will take, before it begins."""

import gc
import os
import shutil
import sys
import tempfile
from collections.abc import Callable
from contextlib import redirect_stderr
from dataclasses import dataclass, field
from io import StringIO
from pathlib import Path
from typing import Any

import psutil

from mlm.check.estimate import (
    Size,
    StageEstimate,
    sizes_of,
    stages_of_data,
    stages_of_run,
    together,
)
from mlm.check.rehearsal import (
    Data,
    Steps,
    TimeRange,
    bytes_below,
    rehearse_data,
    rehearse_steps,
    shape_of,
)
from mlm.check.sample import Sample, in_bytes, sample_of
from mlm.config.resolution import Settings, resolve
from mlm.config.run import RunConfiguration
from mlm.foundations.errors import MlmError, error_in_words, listed
from mlm.training.engine import Devices, open_devices

#: Shapes of runs that are timed; the time of others is not known.
_MOST_TIMED = 4
#: Free disk that is left over at least.
_LEFT_OVER = 100_000_000
_HEADINGS = ("stage", "time", "disk", "memory, at most")


@dataclass
class Forecast:
    """What was found: `lines` for people, `problems` that let no run succeed, and `stages`."""

    lines: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    stages: list[StageEstimate] = field(default_factory=list)


def check(settings: Settings) -> Forecast:
    """Send a sample of the corpus through all stages, in a directory that is gone afterwards.

    Whatever lets the run fail for certain is a problem; nothing is raised for it.
    """
    forecast = Forecast()
    with tempfile.TemporaryDirectory(prefix="check-") as directory:
        _look_at(settings, Path(directory), forecast)
    return forecast


def _look_at(settings: Settings, directory: Path, forecast: Forecast) -> None:
    corpus = settings["corpus"]
    if settings["shards"]["source"] != "corpus":
        corpus = resolve({})["corpus"]
    sample = _tried(lambda: sample_of(corpus, settings["seed"], directory / "cut"), forecast)
    data = sample and _tried(lambda: rehearse_data(settings, sample, directory), forecast)
    if not sample or not data:
        return
    sizes = sizes_of(sample, data) if settings["shards"]["source"] == "corpus" else None
    forecast.lines += _data_in_words(settings, sample, data, sizes)
    _judge_data(settings, data, sizes, forecast)
    if forecast.problems:
        return
    cores = len(os.sched_getaffinity(0))
    forecast.stages = stages_of_data(settings, sizes, data, cores)
    timed: list[tuple[object, Steps | None]] = []
    devices: dict[str, Devices] = {}
    for name in settings["runs"]:
        run = RunConfiguration.of(settings, name)
        run = run.with_values(accelerator={"processes": None, "start": "here"})
        shape = shape_of(run)
        steps = next((s for other, s in timed if other == shape), None)
        if steps is None and len(timed) < _MOST_TIMED:
            steps = timed_steps(settings, run, data, devices, directory / f"run-{name}", forecast)
            timed.append((shape, steps))
        stages = _tried(lambda: stages_of_run(settings, run, sizes, steps), forecast)  # noqa: B023
        forecast.stages += stages or []
    forecast.stages.append(together(settings, forecast.stages, cores))
    judge_machine(settings, forecast)


def _tried(do: Callable[[], Any], forecast: Forecast) -> Any:
    """What `do` gives; None if it raises an error that the user can mend, which is a problem."""
    try:
        # What the stages print while they work is not asked for here.
        with redirect_stderr(StringIO()):
            return do()
    except (MlmError, OSError) as error:
        if (words := error_in_words(error)) is None:
            raise
        forecast.problems.append(words)
        return None


def timed_steps(
    settings: Settings,
    run: RunConfiguration,
    data: Data,
    devices: dict[str, Devices],
    directory: Path,
    forecast: Forecast,
) -> Steps | None:
    """The time of some steps of `run`; None, with a warning, if this machine cannot make them."""
    try:
        if run.engine not in devices:
            batch = run.pretraining.per_replica_batch_size
            devices[run.engine] = open_devices(run.engine, run.accelerator, batch)
    except MlmError as error:
        forecast.warnings.append(
            f"{run.name}: its steps cannot be timed here; `snakemake --cores 2 preflight` compiles "
            f"them for a TPU or GPU and says whether they fit. {error}"
        )
        return None
    steps = _tried(
        lambda: rehearse_steps(settings, run, data, devices[run.engine], directory), forecast
    )
    # Left to the end of the process, TensorFlow's iterators complain that Python is gone.
    gc.collect()
    return steps


def _data_in_words(
    settings: Settings, sample: Sample, data: Data, sizes: dict[str, Size] | None
) -> list[str]:
    if sizes is None:
        source = sample.source if settings["shards"]["source"] == "corpus" else "prebuilt shards"
        return [f"Corpus: {source}. Its size is not known here, nor what follows from it."]
    about = "" if sample.is_all else "up to "
    splits = ", ".join(f"{split} {in_bytes(size.text)}" for split, size in sizes.items())
    documents = sum(size.documents for size in sizes.values())
    train = sizes["train"]
    lines = [
        f"Corpus: {sample.source}; {about}{in_bytes(sum(s.text for s in sizes.values()))} of text "
        f"in {about}{documents:,.0f} documents after filters and duplicates ({splits}).",
        f"Tokenizer: {settings['tokenizer']['kind']} of {data.vocabulary:,} ids; about "
        f"{train.text / train.tokens:.1f} bytes a token, so that train has {about}"
        f"{train.tokens / 1e6:.3g} million tokens in {train.samples:,} samples of "
        f"{settings['shards']['sequence_length']}.",
    ]
    if not sample.is_all:
        lines.append("Duplicates were looked for within a sample: the whole may lose more to them.")
    return lines


def _judge_data(
    settings: Settings, data: Data, sizes: dict[str, Size] | None, forecast: Forecast
) -> None:
    if data.enough is not None:
        forecast.warnings.append(
            f"tokenizer.vocabulary_size: {settings['tokenizer']['vocabulary_size']:,} may be more "
            f"than the text of the train split gives; {data.enough:,} ids are safe"
        )
    for split, count in settings["shards"]["count"].items() if sizes else ():
        documents = sizes[split].documents
        if count > 1.5 * documents:
            forecast.problems.append(
                f"shards.count.{split}: {count} shards, and the split has about {documents:.0f} "
                f"documents. Set it to {max(1, int(documents // 2))} or less"
            )


def judge_machine(settings: Settings, forecast: Forecast) -> None:
    """Compare memory and disk of the stages with this machine's."""
    memory = psutil.virtual_memory().total / 1e6
    *stages, total = forecast.stages
    for stage in stages:
        if not stage.memory_mb or stage.memory_mb <= memory:
            continue
        # The estimates are too high rather than too low.
        certain = stage.memory_mb / 2 > memory
        (forecast.problems if certain else forecast.warnings).append(
            f"{stage.name}: needs {'about' if certain else 'up to'} "
            f"{in_bytes(stage.memory_mb * 1e6)} of memory, and this machine has "
            f"{in_bytes(memory * 1e6)}. Take a smaller model or pretraining.per_replica_batch_size "
            "(tokenizer: max_training_bytes), or another machine (docs/cluster.md)"
        )
    if total.disk is None:
        return
    runs = [RunConfiguration.of(settings, run) for run in settings["runs"]]
    states = {run.pretraining.checkpoint.directory for run in runs}
    places = {Path("results"), *(Path(place) for place in states if "://" not in place)}
    free = min(shutil.disk_usage(_existing(place.absolute())).free for place in places)
    there = sum(bytes_below(place) for place in places)
    forecast.lines.append(
        f"Disk: up to {in_bytes(total.disk)} for a run from nothing; results/ and state/ have "
        f"{in_bytes(there)} now; {in_bytes(free)} are free."
    )
    needed = max(0.0, total.disk - there) + _LEFT_OVER
    if needed > free:
        forecast.problems.append(
            f"The disk has {in_bytes(free)} free, and about {in_bytes(needed)} are needed. Free "
            "some space, run in another directory (snakemake --directory), put the states "
            "elsewhere (pretraining.checkpoint.directory) or keep fewer of them "
            "(pretraining.checkpoint.keep)"
        )


def _existing(place: Path) -> Path:
    return place if place.exists() else _existing(place.parent)


def show(forecast: Forecast) -> None:
    """Print it all. Raises MlmError if there are problems, with every one."""
    for line in forecast.lines:
        print(line)
    if forecast.stages:
        print("", table(forecast.stages), "", sep="\n")
    for warning in forecast.warnings:
        print(f"Note: {warning}.")
    if forecast.problems:
        count = len(forecast.problems)
        sys.stdout.flush()
        raise MlmError(
            f"{count} thing{'s' if count > 1 else ''} to change before a run can succeed:\n"
            f"{listed(forecast.problems)}"
        )
    print("Nothing was found that stands in the way.")


def table(stages: list[StageEstimate]) -> str:
    """All stages, and their sum, aligned."""
    rows = [_HEADINGS, *map(_row, stages)]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = ["  ".join(c.ljust(w) for c, w in zip(r, widths, strict=True)).rstrip() for r in rows]
    cores = len(os.sched_getaffinity(0))
    note = (
        f"Times are of a run from nothing with --cores {cores}: with the machine to itself to as "
        "busy as now."
    )
    return "\n".join([*lines, note])


def _row(stage: StageEstimate) -> tuple[str, ...]:
    return (
        stage.name,
        in_time(stage.time) if stage.time else "not known",
        "not known" if stage.disk is None else in_bytes(stage.disk),
        in_bytes(stage.memory_mb * 1e6) if stage.memory_mb else "",
    )


def in_time(span: TimeRange) -> str:
    """A span in the unit that suits it."""
    for unit, size in (("days", 86400.0), ("h", 3600.0), ("min", 60.0), ("s", 1.0)):
        if span.most >= 1.5 * size:
            least, most = f"{span.least / size:.2g}", f"{span.most / size:.2g}"
            return f"{most if least == most else f'{least} to {most}'} {unit}"
    return "1 s"
