"""The examples of a fine-tuning are read and dealt to folds, as its jobs do."""

from dataclasses import dataclass
from pathlib import Path

from mlm.check.rehearsed_data import Stage, usable_cores
from mlm.config.finetune import Finetune
from mlm.config.resolution import RunConfiguration, Settings
from mlm.finetuning.artefacts import ExamplesSummary
from mlm.finetuning.example_sources import write_data
from mlm.model.architecture import FAMILIES

#: Seconds of a fold to start and compile.
_START_FOLD = 15


@dataclass(frozen=True)
class Examples:
    """The examples of the fine-tuning of section `section`, by their summary."""

    section: Finetune
    summary: ExamplesSummary

    @classmethod
    def read(cls, settings: Settings, directory: Path) -> "Examples | None":
        """Those of the configuration, by way of files in `directory`; None if nothing is tuned.
        MlmError if they cannot be read or dealt to folds."""
        section = Finetune.of_param(settings["finetune"])
        if not section.enabled and section.data.source != "csv":
            return None
        table, summary = directory / "examples.csv", directory / "examples.json"
        write_data(section, settings["seed"], {}, table, summary)
        return cls(section, ExamplesSummary.read(summary))

    def in_words(self) -> str:
        """Their number and classes."""
        source, classes = self.summary.source.name or "the embedded speeches", ""
        if self.summary.classes:
            classes = f" in {len(self.summary.classes)} classes"
        return f"Fine-tuning: {self.summary.examples:,} examples of {source}{classes}."

    def stage(self, run: RunConfiguration, step: float | None) -> Stage:
        """All folds of `run`, from pretrained and from random weights; `step` is the seconds of a
        sample in pretraining, None if not known."""
        name, section = f"finetune [{run.name}]", self.section
        if step is None:
            return Stage(name)
        trainings, examples = 2 * section.folds, self.summary.examples
        trained = examples * (section.folds - 1) / section.folds * section.epochs
        # Each epoch also predicts the fold that is held out, without a gradient.
        predicted = examples / section.folds * section.epochs / 3
        length = section.max_length
        if FAMILIES[run.model.model_type][0].positions:
            length = min(length, run.sequence_length)
        sample = step * length / run.sequence_length
        seconds = _START_FOLD + section.seeds * (trained + predicted) * sample
        beside = max(1, min(trainings, usable_cores() // section.cpu_threads))
        return Stage(name, seconds * trainings / beside, 0.0)
