"""Target `check`: what would make a run fail, and its time and memory, before it begins."""

import gc
import json
import math
import statistics
import tempfile
import time
from collections.abc import Sequence
from contextlib import redirect_stderr
from dataclasses import dataclass, field, replace
from io import StringIO
from pathlib import Path

import psutil

from mlm.check.rehearsed_data import Data, Size, Stage, rehearse_data, usable_cores
from mlm.config.configuration import Configuration, trainings
from mlm.config.evaluation import Evaluation
from mlm.config.families import FAMILIES, first_position
from mlm.config.finetune import Finetune, label_of
from mlm.config.memory_of_jobs import memory_of_evaluation, memory_of_training, parameters
from mlm.config.pretraining import RunConfiguration
from mlm.evaluation.exported_model import load_tokenizer
from mlm.finetuning.artefacts import Example, ExamplesSummary, read_examples
from mlm.finetuning.example_sources import write_data
from mlm.foundations.errors import MlmError, error_in_words, listed
from mlm.foundations.terminal import answer, columns, in_bytes, in_time, plural
from mlm.model.architecture import model_configuration
from mlm.model.cooccurrence import start_from_counts
from mlm.model.initialisation import WarmStart
from mlm.tokenizer.encoding import Encoder
from mlm.training.length_and_phases import updates_of
from mlm.training.pretrain import engine_of, open_devices
from mlm.training.resolved_run import RunFiles, read_manifests, run_of

#: Seconds of processes to start, import and open a model; of Snakemake itself with the report.
_START_PRETRAIN, _START_EVALUATE, _START_ALL = 8, 15, 8
#: Seconds for each byte of train whose tokens the baselines of an evaluation count; for each token
#: that they predict and each id; tokens that they are fitted on, and ids if these are not known.
_COUNTED, _BASELINES, _FITTED, _IDS = 1.2e-7, 1.3e-8, 20_000, 30_000
#: A fold is trained from the run's weights and from random ones. About how many of the examples are
#: divided into tokens.
_STARTS, _ENCODED = 2, 10_000
#: Seconds, and steps, for which steps are timed.
_TIMED_SECONDS, _TIMED_STEPS = 1.0, 50
#: Floating-point operations of the largest step that is timed: some seconds of two processors.
_LARGEST_STEP = 2e11


@dataclass(frozen=True)
class Steps:
    """Seconds of a training: once, and of a row of an update, one for each of the phases."""

    replicas: int
    startup_seconds: float
    seconds_per_row: tuple[float, ...]


@dataclass
class Forecast:
    """A run foreseen: `lines` for people, `problems`, `stages`, and the expected train samples."""

    lines: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    stages: list[Stage] = field(default_factory=list)
    train_samples: int = 0


def check(settings: Configuration) -> Forecast:
    """Send a sample of the corpus through all stages, in a directory that is gone afterwards;
    whatever lets the run fail for certain is a problem, for which nothing is raised."""
    forecast = Forecast()
    with tempfile.TemporaryDirectory(prefix="check-") as directory:
        try:
            # What the stages print while they work would hide the answer.
            with redirect_stderr(StringIO()):
                _look_at(settings, Path(directory), forecast)
        except (MlmError, OSError) as error:
            if (words := error_in_words(error)) is None:
                raise
            forecast.problems.append(words)
    return forecast


def _look_at(settings: Configuration, directory: Path, forecast: Forecast) -> None:
    examples: list[Example] = []
    try:
        if settings.finetune.enabled or settings.finetune.data.source != "embedded":
            examples = _examples_of(settings, directory, forecast)
    except MlmError as error:
        forecast.problems.append(str(error))
    if settings.corpus.source not in ("embedded", "files"):
        unseen = "not looked at: text, models, time and memory were not checked"
        forecast.lines.append(f"Corpus: {settings.corpus.source}, {unseen}.")
        return
    data = rehearse_data(settings, directory)
    forecast.lines += _data_in_words(settings, data)
    forecast.train_samples = data.sizes["train"].samples
    if not forecast.problems:
        _look_at_runs(settings, data, examples, forecast)


def _examples_of(settings: Configuration, directory: Path, forecast: Forecast) -> list[Example]:
    """The examples of a fine-tuning, by way of files in `directory`; MlmError if they cannot be
    read or dealt to folds."""
    table, summary = directory / "examples.csv", directory / "examples.json"
    write_data(settings.finetune, settings.seed, table, summary)
    data = ExamplesSummary.read(summary)
    classes = f" in {len(data.classes)} classes" if data.classes else ""
    source = data.file or "the embedded speeches"
    forecast.lines.append(f"Fine-tuning: {data.examples:,} examples of {source}{classes}.")
    return read_examples(table)


def _look_at_runs(
    settings: Configuration, data: Data, examples: Sequence[Example], forecast: Forecast
) -> None:
    encoder, vocabulary = Encoder.load(data.files.tokenizer), settings.tokenizer.expected_size
    # Tabs separate the words of a sentence whose words have tags.
    texts = [one.excerpt.replace("\t", " ") for one in examples[:: 1 + len(examples) // _ENCODED]]
    lengths = [len(tokens) for tokens in encoder.encode(texts)]
    timed: dict[str, Steps | None] = {}
    forecast.stages = [*data.stages]
    sections, task = settings.sections_of_runs(), settings.finetune
    tokenizer = load_tokenizer(Path(data.files.tokenizer).parent)
    for name, training in trainings(settings).items():
        run = training.with_values(accelerator={"processes": None})
        evaluation = sections[name].evaluation
        wrong = evaluation.unmasked_prompts(encoder.names()[encoder.special_ids.mask])
        forecast.problems += [f"{name}: evaluation.{line}" for line in wrong]
        WarmStart.of(run.model, data.files.tokenizer)
        config = model_configuration(run.model, encoder, run.longest_row)
        positions = config.max_position_embeddings - first_position(run.model.model_type)
        for prompt in evaluation.prompts:
            if (number := len(tokenizer(prompt)["input_ids"])) > positions:
                # Of a sample, tokens may be shorter than those of the whole corpus.
                lines = forecast.problems if data.whole else forecast.warnings
                words = f"{prompt!r} has {number} tokens; the model takes at most {positions}"
                lines.append(f"{name}: evaluation.prompts: {words}")
        # Neither seed nor length nor learning rate changes the time of a step.
        recipe = run.pretraining.as_param("optimizer", "seed", "steps", "epochs", "tokens")
        key = json.dumps([recipe, run.pretraining.optimizer.name, run.engine, run.model.as_param()])
        if key not in timed:
            timed[key] = rehearse_steps(run, vocabulary, data.files, forecast.warnings)
        steps = timed[key]
        forecast.stages += stages_of_run(run, evaluation, vocabulary, data.sizes, steps)
        if examples:
            longest = min(task.max_length or run.longest_row, run.longest_row)
            if cut := sum(length > longest for length in lengths):
                share = f"{100 * cut / len(lengths):.2g} % of the examples are longer than"
                forecast.warnings.append(f"{name}: {share} {longest} tokens, and are truncated")
            how = run, task, (len(examples), min(longest, max(lengths)))
            forecast.stages.append(stage_of_finetuning(*how, data.vocabulary, steps))
    # Published encoders are trained once for all runs.
    for place in task.also if examples else ():
        forecast.stages.append(Stage(f"finetune [{label_of(place)}]", on_request=not task.enabled))
    forecast.stages.append(together(forecast.stages))
    judge_memory(forecast)


def rehearse_steps(
    run: RunConfiguration, vocabulary: int | None, files: RunFiles, warnings: list[str]
) -> Steps | None:
    """Time a few updates of each phase of `run`, with batches too large neither for moments nor for
    the sample; None, with a warning, if this machine cannot."""
    manifests, longest = read_manifests(files, run.sequence_length), run.longest_row
    rows = manifests["train"].in_rows(longest // run.sequence_length).num_samples
    in_time = int(_LARGEST_STEP / (6 * parameters(run.model, vocabulary, longest) * longest))
    sizes = (phase.per_replica_batch_size for phase in run.phases)
    batch = {"per_replica_batch_size": max(1, min(in_time, rows // 8, *sizes))}
    section = run.pretraining
    # Long enough for whatever the schedule asks.
    length = {"steps": 1_000_000, "epochs": None, "tokens": None}
    phases = [phase.model_copy(update=batch) for phase in section.phases or ()]
    optimizer = section.optimizer.model_copy(update={"gradient_accumulation_steps": 1})
    timed = batch | length | {"phases": phases or None, "optimizer": optimizer}
    try:
        devices = open_devices(run.engine, run.accelerator, batch["per_replica_batch_size"])
    except MlmError as error:
        warnings.append(
            f"{run.name}: its steps cannot be timed here; `snakemake --cores 2 preflight` compiles "
            f"them for a TPU or GPU and says whether they fit. {error}"
        )
        return None
    begin, seconds_of_row, stepping = time.monotonic(), [], 0.0
    timed_run = run_of(run.with_values(pretraining=timed), files, manifests, devices.replicas)
    engine = engine_of(timed_run, devices)
    if run.model.initialisation.embeddings == "cooccurrence":
        start_from_counts(engine, timed_run)
    for phase in timed_run.phases:
        engine.restart_at(phase.first)
        engine.advance(1)
        took: list[float] = []
        while len(took) < _TIMED_STEPS and sum(took) < _TIMED_SECONDS:
            first = time.monotonic()
            engine.advance(1)
            took.append(time.monotonic() - first)
        # The median: another process may have been at work for a moment.
        seconds_of_row.append(statistics.median(took) / (phase.batch_size / devices.replicas))
        stepping += sum(took)
    startup = time.monotonic() - begin - stepping
    steps = Steps(devices.replicas, startup, tuple(seconds_of_row))
    del engine
    # Its memory is for the next run, and its thread of batches ends.
    gc.collect()
    return steps


def own_updates(run: RunConfiguration, sizes: dict[str, Size], replicas: int) -> int:
    """Updates that `run` itself makes. MlmError if the split has too few samples for one."""
    section, batch = run.pretraining, run.pretraining.batch_on(replicas)
    samples = sizes["train"].samples
    for phase in run.phases:
        rows = -(-samples * run.sequence_length // phase.sequence_length)
        whole = section.batch_on(replicas, phase)
        if problem := whole.unfilled(rows, has="will have about"):
            raise MlmError(f"{run.name}: {problem}")
    number = updates_of(section, samples, run.sequence_length, batch.samples)
    if problem := section.without_step(number):
        raise MlmError(f"{run.name}: pretraining.{problem}")
    return number - (run.operation.continue_from.step or 0)


def stages_of_run(
    run: RunConfiguration,
    evaluation: Evaluation,
    vocabulary: int | None,
    sizes: dict[str, Size],
    steps: Steps | None,
) -> list[Stage]:
    """Training and evaluation of `run`; `steps` is None if nothing could be timed."""
    names = f"pretrain [{run.name}]", f"evaluate [{run.name}]"
    if steps is None:
        return [Stage(name) for name in names]
    section, length = run.pretraining, run.sequence_length
    number = own_updates(run, sizes, steps.replicas)
    begun = run.operation.continue_from.step or 0
    seconds, first = _START_PRETRAIN + steps.startup_seconds, begun
    phases = zip(run.phases, section.ends(begun + number), steps.seconds_per_row, strict=True)
    for phase, end, row in phases:
        updates = max(0, end - first)
        seconds += row * updates * section.batch_on(1, phase).samples
        first += updates
    # Without the gradient: a third of an update.
    sample = steps.seconds_per_row[-1] / run.last_row_samples / 3
    validated = min(sizes["validation"].samples, section.validation.samples or math.inf)
    seconds += sample * validated * math.ceil(number / section.validation.every)
    # Each set of the tokens of test in turn, one of train, and the masks as papers have them.
    tested = sizes["test"].samples
    predicted = min(tested * length, evaluation.max_tokens)
    hidden = predicted / length / evaluation.mlm_probability
    evaluated = _START_EVALUATE + sample * (hidden + 2 * min(tested, hidden))
    evaluated += _COUNTED * sizes["train"].text
    evaluated += _BASELINES * (predicted + _FITTED) * (vocabulary or _IDS)
    train = sizes["train"].samples * length
    memory = memory_of_evaluation(run, evaluation, vocabulary, train)
    return [
        Stage(names[0], seconds, memory_of_training(run, vocabulary, train)),
        Stage(names[1], evaluated, memory),
    ]


def stage_of_finetuning(
    run: RunConfiguration,
    section: Finetune,
    rows: tuple[int, int],
    vocabulary: int,
    steps: Steps | None,
) -> Stage:
    """All folds of `run` from its weights and from random ones, with `rows` of so many tokens."""
    stage = Stage(f"finetune [{run.name}]", on_request=not section.enabled)
    if steps is None:
        return stage
    # All folds but one are learned from; without the gradient, a third, the other is scored.
    # Then comes the model to use, from all examples. Rates are tried on four fifths before.
    passes = _STARTS * (section.folds - 1 + 1 / 3) + 1
    if (rates := len(section.learning_rate)) > 1:
        passes += 0.87 * rates * (_STARTS * (section.folds - 1) + 1)
    timed = run.phases[-1]
    predicted = timed.mlm_probability * timed.sequence_length
    of_row = _products(run, vocabulary, timed.sequence_length, predicted)
    step = steps.seconds_per_row[-1] * _products(run, vocabulary, rows[1], 0) / of_row
    # Steps are timed with the threads of a pretraining, and folds run side by side.
    trained = passes * section.epochs * rows[0] * step * run.accelerator.cpu_threads
    jobs = _STARTS * section.folds + 1
    return replace(stage, seconds=(trained + _START_EVALUATE * jobs) / usable_cores())


def _products(run: RunConfiguration, vocabulary: int, length: int, predicted: float) -> float:
    """Return the multiplications of a forward pass over `length` tokens, `predicted` of them."""
    family = FAMILIES[run.model.model_type]
    sizes = family.read(run.model.fields())
    width, layers = sizes["width"] or 0, sizes["layers"] or 0
    weights = 4 * width**2 + family.inner_products * width * (sizes["inner"] or 4 * width)
    classes = min(run.pretraining.softmax_classes or vocabulary, vocabulary)
    attention = 2 * width * length**2
    head = predicted * width * (width + classes)
    # A checkpoint on the Hub may not say its sizes.
    return layers * (length * weights + attention) + head or length


def together(stages: list[Stage]) -> Stage:
    """All stages but those on request, in turn; what is missing in one is not known."""
    stages = [stage for stage in stages if not stage.on_request]
    memory = max((stage.memory_mb or 0 for stage in stages), default=0) or None
    times = [stage.seconds for stage in stages if stage.seconds is not None]
    return Stage("in all", sum(times) + _START_ALL if len(times) == len(stages) else None, memory)


def _data_in_words(settings: Configuration, data: Data) -> list[str]:
    sizes, train = data.sizes, data.sizes["train"]
    about = "" if data.whole else "up to "
    splits = ", ".join(f"{split} {in_bytes(size.text)}" for split, size in sizes.items())
    documents = sum(size.documents for size in sizes.values())
    lines = [
        f"Corpus: {data.source}; {about}{in_bytes(sum(s.text for s in sizes.values()))} of text "
        f"in {about}{documents:,.0f} documents after filters and duplicates ({splits}).",
        f"Tokenizer: {settings.tokenizer.kind} of {data.vocabulary:,} ids; about "
        f"{train.text / train.tokens:.1f} bytes a token, so that train has {about}"
        f"{train.tokens / 1e6:.3g} million tokens in {train.samples:,} samples of "
        f"{settings.shards.sequence_length}.",
    ]
    if not data.whole:
        lines.append("Duplicates were looked for within a sample: the whole may lose more to them.")
    return lines


def judge_memory(forecast: Forecast) -> None:
    """Compare the memory of each stage with this machine's."""
    memory = psutil.virtual_memory().total / 1e6
    for stage in forecast.stages[:-1]:
        if (needed := stage.memory_mb or 0) > memory:
            # The estimates are too high rather than too low.
            certain = needed / 2 > memory
            (forecast.problems if certain else forecast.warnings).append(
                f"{stage.name}: needs {'about' if certain else 'up to'} {in_bytes(needed * 1e6)} "
                f"of memory, and this machine has {in_bytes(memory * 1e6)}. Take a smaller model "
                "or pretraining.per_replica_batch_size (tokenizer: max_training_bytes), or "
                "another machine (docs/cluster.md)"
            )


def show(forecast: Forecast) -> None:
    """Print it all. Raises MlmError if there are problems, with every one."""
    lines = list(forecast.lines)
    if forecast.stages:
        rows = [("stage", "time, about", "memory, at most")]
        for stage in forecast.stages:
            time = "not known" if stage.seconds is None else in_time(stage.seconds)
            memory = in_bytes(1e6 * stage.memory_mb) if stage.memory_mb else ""
            rows.append((stage.name + ", on request" * stage.on_request, time, memory))
        lines += [
            f"\n{columns(rows)}",
            f"Times are of a run from nothing with --cores {usable_cores()}, on a machine as busy "
            "as now.\n",
        ]
    answer("\n".join([*lines, *(f"Note: {warning}." for warning in forecast.warnings)]))
    if problems := forecast.problems:
        things = plural(len(problems), "thing")
        raise MlmError(f"{things} to change before a run can succeed:\n{listed(problems)}")
    answer("No problem was found.")
