"""The examples of a fine-tuning are read and dealt to folds, as its jobs do."""

from dataclasses import dataclass
from pathlib import Path

from mlm.check.rehearsed_data import Stage, usable_cores
from mlm.config.families import first_position
from mlm.config.finetune import Finetune
from mlm.config.resolution import RunConfiguration, Settings
from mlm.finetuning.artefacts import ExamplesSummary
from mlm.finetuning.example_sources import write_data
from mlm.finetuning.tables import Example, read_rows
from mlm.model.architecture import FAMILIES
from mlm.tokenizer.encoding import Encoder

#: Examples whose length is measured, at equal distances; seconds of a fold to start and compile.
_MEASURED, _START_FOLD = 2000, 15


@dataclass(frozen=True)
class Examples:
    """The examples of the fine-tuning of section `section`, and their summary."""

    section: Finetune
    excerpts: list[str]
    summary: ExamplesSummary

    @classmethod
    def read(cls, settings: Settings, directory: Path) -> "Examples | None":
        """Those of the configuration, by way of files in `directory`; None if nothing is tuned.
        MlmError if they cannot be read or dealt to folds."""
        section = Finetune.of_param(settings["finetune"])
        if not section.enabled and section.data.source != "csv":
            return None
        table, summary = directory / "examples.csv", directory / "examples.json"
        seed = settings["seed"] if section.seed is None else section.seed
        write_data(section, seed, {}, table, summary)
        excerpts = [example.excerpt for example in read_rows(table, Example)]
        return cls(section, excerpts, ExamplesSummary.read(summary))

    def in_words(self) -> str:
        """Their number and classes."""
        source, classes = self.summary.source.name or "the embedded speeches", ""
        if self.summary.classes:
            counts = [f"{name} {count:,}" for name, count in self.summary.classes.items()]
            more = f", and {len(counts) - 10} more" if len(counts) > 10 else ""
            classes = f" in {len(counts)} classes ({', '.join(counts[:10])}{more})"
        return f"Fine-tuning: {len(self.excerpts):,} examples of {source}{classes}."

    def truncated(self, run: RunConfiguration, encoder: Encoder) -> str:
        """How many of them are longer than `run` reads, in words."""
        measured = self.excerpts[:: -(-len(self.excerpts) // _MEASURED)]
        length = self._length(run)
        longer = sum(len(ids) > length for ids in encoder.encode(measured))
        share = longer / len(measured)
        return f"Run {run.name} reads {length} tokens of an example; {share:.1%} have more."

    def stage(self, run: RunConfiguration, step: float | None) -> Stage:
        """All folds of `run`, from pretrained and from random weights; `step` is the seconds of a
        sample in pretraining, None if not known."""
        name, section = f"finetune [{run.name}]", self.section
        if step is None:
            return Stage(name)
        trainings = 2 * section.folds
        trained = len(self.excerpts) * (section.folds - 1) / section.folds * section.epochs
        # Each epoch also predicts the fold that is held out, without a gradient.
        predicted = len(self.excerpts) / section.folds * section.epochs / 3
        sample = step * self._length(run) / run.sequence_length
        seconds = _START_FOLD + section.seeds * (trained + predicted) * sample
        beside = max(1, min(trainings, usable_cores() // section.cpu_threads))
        return Stage(name, seconds * trainings / beside, 0.0)

    def _length(self, run: RunConfiguration) -> int:
        """Tokens of an example that the model of `run` reads."""
        if FAMILIES[run.model.model_type][0].positions is None:
            return self.section.max_length
        positions = run.model.longest_sequence(run.sequence_length)
        if positions != run.sequence_length:
            positions -= first_position(run.model.model_type)
        return min(self.section.max_length, positions)
