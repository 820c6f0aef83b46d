"""The whole configuration: its sections, what one says of another, its runs, and what the training
of each depends on. A run that others continue keeps the states that they begin with."""

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

from pydantic import AfterValidator, BeforeValidator, Field

from mlm.config.accelerator import Accelerator
from mlm.config.chips import existing_target
from mlm.config.corpus import Corpus
from mlm.config.evaluation import Evaluation, Report
from mlm.config.fields import (
    Distinct,
    Name,
    Section,
    Seed,
    Text,
    canonical,
    section,
    wrong_with_file,
)
from mlm.config.finetune import Finetune
from mlm.config.merging_and_sweeps import merged
from mlm.config.model import Model
from mlm.config.pretraining import Operation, Pretraining, RunConfiguration, engine_for
from mlm.config.publish import Publish
from mlm.config.tokenizer import Shards, Tokenizer
from mlm.foundations.environment import NO_TENSORFLOW, installed_version


class Preflight(Section):
    enabled: bool = False
    """Run the preflight with the rest of the workflow, and show it in the report."""
    targets: Annotated[
        list[Annotated[Text, AfterValidator(existing_target)]], Field(min_length=1), Distinct
    ] = ["v4:2x2x1", "v5e:2x2", "v6e:2x2"]
    """Compile for a GPU (h100, h200, a100-40gb, a100-80gb, l40s, l4, rtx4090, rtx3090, t4), several
    in one machine (h100:8), or a TPU (v4, v5e, v5p, v6e) with its grid of chips (v5e:2x2)."""


class Overrides(Section):
    """The sections that a run may override: what it sets of them, or all that it has of them."""

    model: Model = section(Model)
    pretraining: Pretraining = section(Pretraining)
    evaluation: Evaluation = section(Evaluation)

    @property
    def engine(self) -> str:
        return engine_for(self.pretraining.engine)


#: YAML reads `base:` without a value as null.
_Overrides = Annotated[Overrides, BeforeValidator(lambda run: {} if run is None else run)]


class Configuration(Section):
    seed: Seed = 0
    """Seed of the splits of the corpus, initial weights, masks and order; not of the evaluation."""
    corpus: Corpus = section(Corpus)
    tokenizer: Tokenizer = section(Tokenizer)
    shards: Shards = section(Shards)
    model: Model = section(Model)
    pretraining: Pretraining = section(Pretraining)
    accelerator: Accelerator = section(Accelerator)
    preflight: Preflight = section(Preflight)
    """`snakemake --cores 2 preflight` compiles the steps for GPUs and TPUs that are not here."""
    evaluation: Evaluation = section(Evaluation)
    finetune: Finetune = section(Finetune)
    report: Report = section(Report)
    publish: Publish = section(Publish)
    """`snakemake --cores 2 publish`, and nothing else, uploads to the Hugging Face Hub, with the
    token in the environment variable HF_TOKEN."""
    runs: Annotated[dict[Name, _Overrides], Field(min_length=1)] = Field(
        default_factory=lambda: {"base": Overrides()}
    )
    """Each run's name and overrides of model, pretraining, evaluation. Overlays replace base."""
    sweep: dict[str, Annotated[list[Any], Field(min_length=1)]] = Field(default_factory=dict)
    """Train each run once with each combination of values: {pretraining.seed: [0, 1],
    pretraining.optimizer.beta_1: [0.8, 0.9]} makes base_seed-0_beta_1-0.8 and three more."""

    @property
    def reported_runs(self) -> list[str]:
        """The runs that the report shows, in its order."""
        return self.report.runs or sorted(self.runs)

    def as_set(self) -> dict[str, Any]:
        """The settings that were set, in plain values and without any default."""
        values = self.model_dump(exclude_unset=True)
        runs = {name: run.model_dump(exclude_unset=True) for name, run in self.runs.items()}
        return canonical({**values, "runs": runs})

    def shown(self) -> dict[str, Any]:
        """Every setting in plain values, of runs their overrides alone."""
        shown = self.model_copy(update={"model": self.model.of_jobs()}).model_dump()
        return canonical({**shown, "runs": self.as_set()["runs"]})

    def sections_of_runs(self) -> dict[str, Overrides]:
        """The sections of each run: those that all share, under its overrides."""
        values = self.model_dump(exclude_unset=True, include=set(Overrides.model_fields))
        return {
            name: Overrides.model_validate(merged(values, run.model_dump(exclude_unset=True)))
            for name, run in self.runs.items()
        }

    def problems(self) -> Iterator[str]:
        """A line for each contradiction."""
        runs = self.sections_of_runs()
        for name, value in self:
            if isinstance(value, Section) and name not in Overrides.model_fields:
                yield from value.all_contradictions(name)
        yield from self.contradictions()
        yield from self._contradictions_of_runs(runs)
        engines = {run.engine for run in runs.values()}
        if engines == {"tensorflow"} and not self.accelerator.deterministic:
            yield "accelerator.deterministic: false needs pretraining.engine: jax, or leave it out"
        # An environment for plans alone has neither.
        jax_alone = installed_version("jax") and not installed_version("tensorflow")
        if "tensorflow" in engines and jax_alone:
            yield NO_TENSORFLOW
        for name in runs:
            where = f"runs.{name}: pretraining.continue_from."
            yield from (where + line for line in _wrong_start(name, runs))

    def contradictions(self) -> Iterator[str]:
        for path in self.sweep:  # of a sweep without such a path, nothing is left
            if path.partition(".")[0] not in Overrides.model_fields:
                yield (
                    f"sweep.{path}: a run overrides {', '.join(Overrides.model_fields)} alone. "
                    "Compare others in a directory each: see report.also, docs/runs.md"
                )
        for part in ("report", "publish"):
            for name in getattr(self, part).runs or []:
                if name not in self.runs:
                    yield _no_run(f"{part}.runs", name, self.runs)
        for name in sorted(self.report.also.keys() & self.runs.keys()):
            yield f"report.also: {name!r} is also the name of a run; choose another"
        yield from (f"publish.{line}" for line in self.publish.clashes(self.runs))

    def _contradictions_of_runs(self, runs: dict[str, Overrides]) -> Iterator[str]:
        """The contradictions of all runs, each once, with the runs that have it unless all do."""
        names_by_line: dict[str, list[str]] = {}
        for name, run in runs.items():
            for line in dict.fromkeys(self._contradictions_of(run)):
                names_by_line.setdefault(line, []).append(name)
        for line, names in names_by_line.items():
            yield line if len(names) == len(runs) else f"runs.{', '.join(names)}: {line}"

    def _contradictions_of(self, run: Overrides) -> Iterator[str]:
        length = self.shards.sequence_length
        yield from run.pretraining.all_contradictions("pretraining")
        yield from run.evaluation.all_contradictions("evaluation")
        yield from (f"pretraining.{line}" for line in run.pretraining.unfit_phases(length))
        lengths = [phase.sequence_length for phase in run.pretraining.in_phases(length)]
        yield from (f"model.{line}" for line in run.model.contradictions_at(max(lengths)))
        if run.engine == "tensorflow" and self.accelerator.together:
            yield "accelerator.processes: several need pretraining.engine: jax, or leave it out"
        if self.tokenizer.kind != "pretrained":
            mask = self.tokenizer.special_tokens.mask
            yield from (f"evaluation.{line}" for line in run.evaluation.unmasked_prompts(mask))

    def missing_files(self) -> Iterator[str]:
        """A line for each file that is not there, beginning with its key. Those that the corpus
        and its filters name are looked for in `mlm.corpus.source_files`."""
        files = [
            ("evaluation.minimal_pair_files", path)
            for run in self.sections_of_runs().values()
            for path in run.evaluation.minimal_pair_files
        ]
        if self.finetune.data.source != "embedded" and self.finetune.data.file:
            files.append(("finetune.data.file", self.finetune.data.file))
        for key, path in dict.fromkeys(files):
            if problem := wrong_with_file(path):
                yield f"{key}: {problem}"


def _no_run(path: str, name: str, runs: dict) -> str:
    return f"{path}: no run is called {name!r}; there are: {', '.join(runs)}"


def _wrong_start(name: str, runs: dict[str, Overrides]) -> Iterator[str]:
    """What is wrong with the run, and its step, that the run `name` continues."""
    starts = {name: run.pretraining.continue_from for name, run in runs.items()}
    start, way = starts[name], [name]
    if start.run is None:
        return
    if start.run not in runs:
        yield _no_run("run", start.run, runs)
        return
    while (before := starts[way[-1]].run) in runs and before not in way:
        way.append(before)
    if before == name:
        yield f"run: in a circle: {' → '.join([*way, name])}"
    if (engine := runs[start.run].engine) != runs[name].engine:
        yield f"run: {start.run!r} has engine: {engine}, this one {runs[name].engine}; set one"
    last = runs[start.run].pretraining.steps
    if start.step and last and start.step > last:
        yield f"step: {start.step} is beyond the last step of run {start.run!r}, {last}"


def families_of(configuration: Configuration) -> list[str]:
    """The families of all runs, sorted, except those of checkpoints on the Hub."""
    models = [run.model for run in configuration.sections_of_runs().values()]
    known = [m for m in models if m.start_from is None or Path(m.start_from).is_dir()]
    return sorted({model.model_type for model in known})


def trainings(configuration: Configuration) -> dict[str, RunConfiguration]:
    """The training of each run."""
    runs = configuration.sections_of_runs()
    return {name: _training(configuration, runs, name) for name in runs}


def _training(
    configuration: Configuration, runs: dict[str, Overrides], name: str
) -> RunConfiguration:
    run, pretraining = runs[name], runs[name].pretraining
    starts = [other.pretraining.continue_from for other in runs.values()]
    continued = [start.step for start in starts if start.run == name and start.step]
    keep_steps = sorted({*continued, *pretraining.checkpoint.keep_steps})
    parent = pretraining.continue_from.run
    return RunConfiguration(
        name=name,
        model=run.model.of_jobs(),
        pretraining=pretraining.recipe,
        accelerator=configuration.accelerator,
        seed=configuration.seed,
        sequence_length=configuration.shards.sequence_length,
        corpus_source=configuration.corpus.source,
        operation=Operation(
            checkpoint=pretraining.checkpoint.model_copy(update={"keep_steps": keep_steps}),
            continue_from=pretraining.continue_from,
            parent=_training(configuration, runs, parent) if parent else None,
        ),
    )
