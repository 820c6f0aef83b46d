"""The configuration as the workflow uses it: checked, complete, in plain types."""

import json
from collections.abc import Mapping
from typing import Any, Self

from mlm.config.accelerator import Accelerator
from mlm.config.configuration import Configuration, Overrides
from mlm.config.corpus import Corpus, CorpusConfiguration, JudgingTexts
from mlm.config.families import engine_for
from mlm.config.fields import Count, Section, Seed, Text, section
from mlm.config.merging import as_plain, merged
from mlm.config.model import ModelOfRun
from mlm.config.pretraining import Pretraining
from mlm.config.problems import checked
from mlm.config.sweep import swept
from mlm.config.tokenizer import EMBEDDED_REPLACEMENTS
from mlm.foundations.errors import ConfigError, printable


class Settings(dict):
    """The resolved configuration as plain values, every default filled in. `runs` holds each run's
    overrides alone, a sweep's too; `given` is the part that was set, without any default."""

    given: dict[str, Any]


def resolve(given: Mapping[str, Any]) -> Settings:
    """The configuration with every default filled in. What is `given` counts as wanted even if it
    equals a default. Raises ConfigError with every problem."""
    given, wrong = swept(as_plain(given, Configuration))
    configuration, found = checked(Configuration, given)
    plain = configuration.model_dump(exclude_unset=True)
    plain["runs"] = {
        name: overrides.model_dump(exclude_unset=True) if overrides else {}
        for name, overrides in configuration.runs.items()
    }
    runs = {name: _sections_of_run(plain, name) for name in plain["runs"]}
    found = [*wrong, *found, *configuration.problems(runs)]
    if found := found or _identical(runs, configuration.seed):
        raise ConfigError(list(dict.fromkeys(found)))
    settings = Settings(configuration.model_dump() | {"runs": plain["runs"]})
    settings["model"]["config"] = configuration.model.shown_fields()
    if configuration.tokenizer.replacements is None:
        embedded = configuration.corpus.source == "embedded"
        settings["tokenizer"]["replacements"] = EMBEDDED_REPLACEMENTS if embedded else []
    settings.given = plain
    return settings


def _identical(runs: Mapping[str, Overrides], seed: int) -> list[str]:
    """A line for each group of `runs` with the same settings, which would train one model twice."""
    alike: dict[str, list[str]] = {}
    for name, run in runs.items():
        own = run.pretraining.model_dump(exclude={"checkpoint"})
        own |= {"engine": run.engine, "seed": seed if own["seed"] is None else own["seed"]}
        settings = [run.model.of_jobs(), own, run.evaluation.model_dump()]
        alike.setdefault(json.dumps(settings, sort_keys=True, default=str), []).append(name)
    return [
        f"runs: {', '.join(map(printable, names))} have the same settings; keep one of them. The "
        "runs of several overlays are added up"
        for names in alike.values()
        if len(names) > 1
    ]


def run_section(settings: Settings, run: str, name: str) -> dict[str, Any]:
    """Section `name` of the configuration as run `run` sees it."""
    return merged(settings[name], settings["runs"][run].get(name, {}))


def model_of_run(settings: Settings, run: str) -> dict[str, Any]:
    """Section `model` as the jobs of run `run` get it; see `Model.of_jobs`."""
    return _sections_of_run(settings.given, run).model.of_jobs()


def families_of(settings: Settings) -> list[str]:
    """The families of all runs, sorted, but those of checkpoints on the Hub."""
    models = [model_of_run(settings, run) for run in settings["runs"]]
    said = [(m["config_file"] or {}).get("model_type") for m in models]
    own = [m["family"] for m in models if not (m["config_file"] or m["start_from"])]
    return sorted({*filter(None, said), *own})


def _sections_of_run(given: Mapping[str, Any], run: str) -> Overrides:
    """The sections that a run may override, with the overrides of `run` merged in."""
    common = {name: given.get(name, {}) for name in Overrides.model_fields}
    return Overrides.model_validate(merged(common, given["runs"][run]))


def corpus_configuration(settings: Settings) -> CorpusConfiguration:
    """All that the documents of the corpus depend on."""
    corpus = Corpus.model_validate(settings["corpus"]).of_jobs()
    wanted = {name for one in corpus.all_filters().values() for name in one.decontamination.also}
    mask = settings["tokenizer"]["special_tokens"]["mask"]
    evaluations = [run_section(settings, run, "evaluation") for run in settings["runs"]]
    prompts = [part for one in evaluations for text in one["prompts"] for part in text.split(mask)]
    pairs = [text for one in evaluations for pair in one["minimal_pairs"] for text in pair]
    texts = {
        name: list(dict.fromkeys(found))
        for name, found in (("prompts", prompts), ("minimal_pairs", pairs))
        if name in wanted
    }
    if "finetuning" in wanted:
        data = settings["finetune"]["data"]
        texts |= {"finetuning_file": data["file"], "finetuning_column": data["text_column"]}
    seeded = corpus.source == "mix" or corpus.carved
    return CorpusConfiguration(
        corpus=corpus, seed=settings["seed"] if seeded else 0, texts=JudgingTexts(**texts)
    )


class RunConfiguration(Section):
    """The sections of one run, and what it shares with the others. `parent` is the run that it
    continues."""

    name: Text
    model: ModelOfRun = section(ModelOfRun)
    pretraining: Pretraining = section(Pretraining)
    accelerator: Accelerator = section(Accelerator)
    seed: Seed = 0
    sequence_length: Count
    corpus_source: Text = "embedded"
    parent: "RunConfiguration | None" = None

    @classmethod
    def of(cls, settings: Settings, run: str) -> Self:
        """That of `run` in the whole configuration, without `parent`."""
        return cls(
            name=run,
            model=ModelOfRun.of_param(model_of_run(settings, run)),
            pretraining=Pretraining.model_validate(run_section(settings, run, "pretraining")),
            accelerator=Accelerator.model_validate(settings["accelerator"]),
            seed=settings["seed"],
            sequence_length=settings["shards"]["sequence_length"],
            corpus_source=settings["corpus"]["source"],
        )

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
        return engine_for(self.pretraining.engine, self.model.model_type)
