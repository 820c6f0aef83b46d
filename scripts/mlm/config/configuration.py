"""The whole configuration: its sections, its runs, and what one section says of another."""

import re
from typing import Annotated, Any

from pydantic import Field

from mlm.config.accelerator import Accelerator, Preflight
from mlm.config.corpus import Corpus
from mlm.config.evaluation import Evaluation, Report
from mlm.config.families import engine_for
from mlm.config.fields import SPLITS, Section, Seed, section, told
from mlm.config.finetune import Finetune
from mlm.config.model import Model
from mlm.config.pretraining import Pretraining
from mlm.config.publish import Publish
from mlm.config.tokenizer import Shards, Tokenizer
from mlm.foundations.environment import NO_JAX, installed_version

_RUN_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}")


class Overrides(Section):
    """What a run sets for itself, of the sections that a run may override."""

    model: Model = section(Model)
    pretraining: Pretraining = section(Pretraining)
    evaluation: Evaluation = section(Evaluation)


#: Sections that a run may override.
RUN_SECTIONS = tuple(Overrides.model_fields)


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
    """`snakemake --cores 2 preflight` compiles the steps for TPUs, on a machine without one."""
    evaluation: Evaluation = section(Evaluation)
    finetune: Finetune = section(Finetune)
    report: Report = section(Report)
    publish: Publish = section(Publish)
    """`snakemake --cores 2 publish`, and nothing else, uploads to the Hugging Face Hub, with the
    token in the environment variable HF_TOKEN."""
    runs: Annotated[dict[str, Overrides | None], Field(min_length=1)] = Field(
        default_factory=lambda: {"base": Overrides()}
    )
    """Each run's name and its overrides of model, pretraining and evaluation. Runs of an overlay
    replace those of this file."""
    sweep: dict[str, Annotated[list[Any], Field(min_length=1)]] = Field(default_factory=dict)
    """Train each run once with each combination of these values: {pretraining.seed: [0, 1],
    pretraining.optimizer.learning_rate: [0.003, 0.006]} makes base_seed-0_learning_rate-0.003 and
    three more."""

    def contradictions(self) -> list[str]:
        """What the sections contradict each other in, and each its own lines; not the runs'."""
        problems = []
        for name in (
            *("corpus", "tokenizer", "shards", "accelerator"),
            *("preflight", "finetune", "report", "publish"),
        ):
            problems += getattr(self, name).contradictions()
        problems += [
            f"{path}: no run is called {name!r}; there are: {', '.join(self.runs)}"
            for path, names in (
                ("report.runs", self.report.runs),
                ("publish.runs", self.publish.runs),
            )
            for name in dict.fromkeys(names or [])
            if name not in self.runs
        ]
        problems += self.publish.clashes(list(self.runs))
        if self.finetune.data.file is None:
            problems += [
                f"{place}.decontamination.also: finetuning, but finetune.data.file names no file. "
                "Name one, or take it from the list"
                for place, filters in self.corpus.all_filters().items()
                if "finetuning" in (filters.decontamination.also or ())
            ]
        if self.publish.dataset and self.shards.source == "prebuilt":
            problems += [
                f"publish.dataset: the {split} shards are in {place}; set it to null, or copy them "
                "to this machine"
                for split in SPLITS
                if (place := getattr(self.shards.prebuilt, split)) and "://" in place
            ]
        return problems + [
            f"runs: {name!r} cannot be a file name; use letters, digits, '_', '-' and '.' (at most "
            "64, the first a letter or digit)"
            for name in self.runs
            if not _RUN_NAME.fullmatch(name)
        ]

    def contradictions_between_runs(self, runs: dict[str, Overrides]) -> list[str]:
        """What is wrong with `runs`, each with all its settings, taken together."""
        engines = {n: engine_for(r.pretraining.engine, r.model.model_type) for n, r in runs.items()}
        problems = told(
            (
                set(engines.values()) == {"tensorflow"} and not self.accelerator.deterministic,
                "accelerator.deterministic: false, which pretraining.engine: tensorflow does not "
                "have. Set engine: jax, or leave it out",
            )
        )
        starts = {name: run.pretraining.continue_from for name, run in runs.items()}
        for name, start in starts.items():
            if start.run is None:
                continue
            where = f"runs.{name}: pretraining.continue_from"
            if start.run not in runs:
                problems.append(
                    f"{where}.run: no run is called {start.run!r}; there are: {', '.join(runs)}"
                )
                continue
            way, last = [name], runs[start.run].pretraining.steps
            while (before := starts[way[-1]].run) in runs and before not in way:
                way.append(before)
            problems += told(
                (
                    engines[start.run] != engines[name],
                    f"{where}.run: run {start.run!r} is trained by pretraining.engine: "
                    f"{engines[start.run]}, this one by {engines[name]}; set one engine for both",
                ),
                (before == name, f"{where}.run: in a circle: {' → '.join([*way, name])}"),
                (
                    start.step and last and start.step > last,
                    f"{where}.step: {start.step} is beyond the last step of run {start.run!r}, "
                    f"{last}",
                ),
            )
        return problems

    def contradictions_of_run(self, run: Overrides) -> list[str]:
        """What the three sections of a run, its overrides merged in, contradict; one line each."""
        problems = run.pretraining.contradictions() + run.evaluation.contradictions()
        problems += run.model.contradictions_at(self.shards.sequence_length, run.pretraining.engine)
        problems += run.pretraining.contradictions_with(run.model.model_type)
        problems += self.finetune.contradictions_with(run.model.model_type)
        if run.pretraining.forget and self.shards.source == "prebuilt":
            problems.append(
                "pretraining.forget: prebuilt shards have no text to find documents in. Set it to "
                "[], or shards.source: corpus"
            )
        engine = engine_for(run.pretraining.engine, run.model.model_type)
        if engine == "tensorflow" and (several := self.accelerator.several()):
            problems.append(
                f"{several}, which pretraining.engine: tensorflow does not have. Set engine: jax, "
                "or leave processes and start out"
            )
        if engine == "jax" and installed_version("jax") is None:
            problems.append(NO_JAX)
        if self.tokenizer.kind != "pretrained":
            problems += run.evaluation.unmasked_prompts(self.tokenizer.special_tokens.mask)
            # Of several words, a replacement may make one token.
            if not any(" " in old.strip() for old, _ in self.tokenizer.replacements):
                length = self.shards.sequence_length
                problems += run.evaluation.too_long(length, run.model.longest_sequence(length))
        return problems
