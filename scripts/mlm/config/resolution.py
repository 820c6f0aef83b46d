"""The configuration as the workflow uses it: checked, complete, and cut for each training."""

import json
from collections.abc import Mapping
from typing import Any, Self

from mlm.config.accelerator import Accelerator
from mlm.config.configuration import Configuration, Overrides
from mlm.config.corpus import CorpusConfiguration, JudgingTexts
from mlm.config.fields import Count, Section, Seed, Text, section
from mlm.config.merging import as_plain
from mlm.config.model import ModelOfRun
from mlm.config.pretraining import Checkpoint, ContinueFrom, Recipe, engine_for
from mlm.config.problems import checked
from mlm.config.sweep import swept
from mlm.foundations.errors import ConfigError, printable


def resolve(given: Mapping[str, Any]) -> Configuration:
    """The configuration with every default filled in, and a sweep's runs in the place of the sweep.
    What is `given` counts as wanted even if it equals a default. Raises ConfigError with every
    problem."""
    given, wrong = swept(as_plain(given, Configuration))
    configuration, found = checked(Configuration, given)
    problems = [*wrong, *found, *configuration.problems()]
    if problems := problems or _identical(configuration):
        raise ConfigError(list(dict.fromkeys(problems)))
    tokenizer = configuration.tokenizer.for_corpus(configuration.corpus.source)
    return configuration.model_copy(update={"tokenizer": tokenizer})


def _identical(configuration: Configuration) -> list[str]:
    """A line for each group of runs with the same settings, which would train one model twice."""
    alike: dict[str, list[str]] = {}
    for name, run in configuration.sections_of_runs().items():
        seed = run.pretraining.seed
        own = run.pretraining.as_param("checkpoint")
        own |= {"engine": run.engine, "seed": configuration.seed if seed is None else seed}
        settings = [run.model.of_jobs().as_param(), own, run.evaluation.as_param()]
        alike.setdefault(json.dumps(settings), []).append(name)
    return [
        f"runs: {', '.join(map(printable, names))} have the same settings; keep one of them. The "
        "runs of several overlays are added up"
        for names in alike.values()
        if len(names) > 1
    ]


def families_of(configuration: Configuration) -> list[str]:
    """The families of all runs, sorted, but those of checkpoints on the Hub."""
    models = [run.model.of_jobs() for run in configuration.sections_of_runs().values()]
    return sorted({m.model_type for m in models if m.config_file or not m.start_from})


def corpus_configuration(configuration: Configuration) -> CorpusConfiguration:
    """All that the documents of the corpus depend on."""
    corpus = configuration.corpus.of_jobs()
    wanted = {name for one in corpus.all_filters().values() for name in one.decontamination.also}
    mask = configuration.tokenizer.special_tokens.mask
    evaluations = [run.evaluation for run in configuration.sections_of_runs().values()]
    prompts = [part for one in evaluations for text in one.prompts for part in text.split(mask)]
    pairs = [text for one in evaluations for pair in one.minimal_pairs for text in pair]
    texts: dict[str, Any] = {
        name: list(dict.fromkeys(found))
        for name, found in (("prompts", prompts), ("minimal_pairs", pairs))
        if name in wanted
    }
    if "finetuning" in wanted:
        data = configuration.finetune.data
        texts |= {"finetuning_file": data.file, "finetuning_column": data.text_column}
    seeded = corpus.source == "mix" or corpus.carved
    return CorpusConfiguration(
        corpus=corpus, seed=configuration.seed if seeded else 0, texts=JudgingTexts(**texts)
    )


class Operation(Section):
    """How a training is carried out: settings that change no byte of its result."""

    checkpoint: Checkpoint = section(Checkpoint)
    continue_from: ContinueFrom = section(ContinueFrom)
    #: The run that it continues.
    parent: "RunConfiguration | None" = None


class RunConfiguration(Section):
    """What a training depends on: the sections of one run, and what it shares with the others."""

    name: Text
    model: ModelOfRun
    pretraining: Recipe = section(Recipe)
    accelerator: Accelerator = section(Accelerator)
    seed: Seed = 0
    sequence_length: Count
    corpus_source: Text = "embedded"
    operation: Operation = section(Operation)

    def with_values(self, **values: Any) -> Self:
        """The same but for `values`: a section's are given as a mapping of what differs in it."""
        return self.model_copy(
            update={
                name: getattr(self, name).model_copy(update=value)
                if isinstance(value, Mapping)
                else value
                for name, value in values.items()
            }
        )

    @property
    def engine(self) -> str:
        """What computes the run, "tensorflow" or "jax"."""
        return engine_for(self.pretraining.engine)

    @property
    def training_seed(self) -> int:
        """The seed of initial weights, masks and order."""
        return self.seed if self.pretraining.seed is None else self.pretraining.seed

    @property
    def for_preflight(self) -> Self:
        """What a compilation depends on: of the accelerator, what the program depends on."""
        return self.model_copy(
            update={"accelerator": self.accelerator.only("precision", "deterministic")}
        )


def trainings(configuration: Configuration) -> dict[str, RunConfiguration]:
    """The training of each run."""
    runs = configuration.sections_of_runs()
    return {name: _training(configuration, runs, name) for name in runs}


def _training(
    configuration: Configuration, runs: Mapping[str, Overrides], name: str
) -> RunConfiguration:
    run, section = runs[name], runs[name].pretraining
    starts = [other.pretraining.continue_from for other in runs.values()]
    continued = [start.step for start in starts if start.run == name]
    keep_steps = sorted({*continued, *section.checkpoint.keep_steps})
    parent = section.continue_from.run
    return RunConfiguration(
        name=name,
        model=run.model.of_jobs(),
        pretraining=section.recipe,
        accelerator=configuration.accelerator,
        seed=configuration.seed,
        sequence_length=configuration.shards.sequence_length,
        corpus_source=configuration.corpus.source,
        operation=Operation(
            checkpoint=section.checkpoint.model_copy(update={"keep_steps": keep_steps}),
            continue_from=section.continue_from,
            parent=parent and _training(configuration, runs, parent),
        ),
    )
