"""The whole configuration: its sections, its runs, and what one section says of another."""

import re
from collections.abc import Iterator
from typing import Annotated, Any

from pydantic import Field

from mlm.config.accelerator import Accelerator, Preflight
from mlm.config.corpus import Corpus
from mlm.config.evaluation import Evaluation, Report
from mlm.config.fields import Section, Seed, canonical, section
from mlm.config.finetune import Finetune
from mlm.config.merging import merged
from mlm.config.model import Model
from mlm.config.pretraining import Pretraining, engine_for
from mlm.config.publish import Publish
from mlm.config.tokenizer import Shards, Tokenizer
from mlm.foundations.environment import NO_TENSORFLOW, installed_version

_RUN_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}")


class Overrides(Section):
    """The sections that a run may override: what it sets of them, or all that it has of them."""

    model: Model = section(Model)
    pretraining: Pretraining = section(Pretraining)
    evaluation: Evaluation = section(Evaluation)

    @property
    def engine(self) -> str:
        return engine_for(self.pretraining.engine)


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
    runs: Annotated[dict[str, Overrides | None], Field(min_length=1)] = Field(
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

    @property
    def given(self) -> dict[str, Any]:
        """What was set, in plain values and without any default."""
        runs = {name: overrides or Overrides() for name, overrides in self.runs.items()}
        given = self.model_dump(exclude_unset=True)
        given["runs"] = {name: run.model_dump(exclude_unset=True) for name, run in runs.items()}
        return given

    def shown(self) -> dict[str, Any]:
        """Every setting in plain values, of runs their overrides alone."""
        shown = self.model_dump()
        shown["model"]["config"] = self.model.shown_fields()
        shown["runs"] = self.given["runs"]
        return canonical(shown)

    def sections_of_runs(self) -> dict[str, Overrides]:
        """All that each run has of the sections that it may override."""
        given = self.given
        common = {name: given.get(name, {}) for name in Overrides.model_fields}
        return {
            name: Overrides.model_validate(merged(common, overrides))
            for name, overrides in given["runs"].items()
        }

    def problems(self) -> Iterator[str]:
        """A line for each contradiction."""
        runs = self.sections_of_runs()
        for name, value in self:
            if isinstance(value, Section) and name not in Overrides.model_fields:
                yield from value.all_contradictions(name)
        yield from self.contradictions()
        named: dict[str, list[str]] = {}
        for name, run in runs.items():
            for line in dict.fromkeys(self._contradictions_of(run)):
                named.setdefault(line, []).append(name)
        for line, names in named.items():
            own = self.runs[names[0]]
            overrides = bool(own and own.model_fields_set)
            # Of all runs, or of the only one, which overrides nothing.
            is_shared = len(names) == len(runs) and (len(runs) > 1 or not overrides)
            yield line if is_shared else f"runs.{', '.join(names)}: {line}"
        engines = {run.engine for run in runs.values()}
        if engines == {"tensorflow"} and not self.accelerator.deterministic:
            yield (
                "accelerator.deterministic: false, which pretraining.engine: tensorflow does not "
                "have. Set engine: jax, or leave it out"
            )
        # An environment for plans alone has neither.
        jax_alone = installed_version("jax") and not installed_version("tensorflow")
        if "tensorflow" in engines and jax_alone:
            yield NO_TENSORFLOW
        for name, run in runs.items():
            if run.pretraining.continue_from.run is not None:
                where = f"runs.{name}: pretraining.continue_from."
                yield from (where + line for line in _wrong_start(name, runs))

    def contradictions(self) -> Iterator[str]:
        for part in ("report", "publish"):
            for name in dict.fromkeys(getattr(self, part).runs or []):
                if name not in self.runs:
                    yield _no_run(f"{part}.runs", name, self.runs)
        for name in sorted(self.report.also.keys() & self.runs.keys()):
            yield f"report.also: {name!r} is also the name of a run; choose another"
        yield from (f"publish.{line}" for line in self.publish.clashes(self.runs))
        for place, filters in self.corpus.all_filters().items():
            if "finetuning" in (filters.decontamination.also or ()) and not self.finetune.data.file:
                yield (
                    f"corpus.{place}.decontamination.also: finetuning, but finetune.data.file names"
                    " no file. Name one, or take it from the list"
                )
        named = [*(("runs", n) for n in self.runs), *(("report.also", n) for n in self.report.also)]
        for key, name in named:
            if not _RUN_NAME.fullmatch(name):
                yield (
                    f"{key}: {name!r} cannot be a file name; use a to z, A to Z, digits, '_', '-' "
                    "and '.' (at most 64, the first a letter or digit)"
                )

    def _contradictions_of(self, run: Overrides) -> Iterator[str]:
        pretraining, length = run.pretraining, self.shards.sequence_length
        model = run.model.of_jobs()
        yield from pretraining.all_contradictions("pretraining")
        yield from run.evaluation.all_contradictions("evaluation")
        yield from (f"model.{line}" for line in run.model.contradictions_at(length))
        if run.engine == "tensorflow" and self.accelerator.together:
            yield (
                "accelerator: several processes, which pretraining.engine: tensorflow does not "
                "have. Set engine: jax, or leave processes out"
            )
        if self.tokenizer.kind != "pretrained":
            prompts = [*run.evaluation.unmasked_prompts(self.tokenizer.special_tokens.mask)]
            # Of several words, a replacement may make one token.
            if not any(" " in old.strip() for old, _ in self.tokenizer.replacements or ()):
                prompts += run.evaluation.too_long(length, model.longest_sequence(length))
            yield from (f"evaluation.{line}" for line in prompts)


def _no_run(path: str, name: str, runs: dict) -> str:
    return f"{path}: no run is called {name!r}; there are: {', '.join(runs)}"


def _wrong_start(name: str, runs: dict[str, Overrides]) -> Iterator[str]:
    """What is wrong with the run, and its step, that the run `name` continues."""
    starts = {name: run.pretraining.continue_from for name, run in runs.items()}
    start, way = starts[name], [name]
    if start.run not in runs:
        yield _no_run("run", start.run, runs)
        return
    while (before := starts[way[-1]].run) in runs and before not in way:
        way.append(before)
    if before == name:
        yield f"run: in a circle: {' → '.join([*way, name])}"
    if (other := runs[start.run].engine) != (own := runs[name].engine):
        yield (
            f"run: run {start.run!r} is trained by pretraining.engine: {other}, this one by {own}; "
            "set one engine for both"
        )
    last = runs[start.run].pretraining.steps
    if start.step and last and start.step > last:
        yield f"step: {start.step} is beyond the last step of run {start.run!r}, {last}"
