"""What the configuration says of one run, as the jobs that train it get it."""

from collections.abc import Mapping
from typing import Any, Self

from mlm.config.accelerator import Accelerator
from mlm.config.families import engine_for
from mlm.config.fields import Count, Section, Seed, Text, section
from mlm.config.model import ModelOfRun
from mlm.config.pretraining import Pretraining
from mlm.config.resolution import Settings, model_of_run, run_section


class RunConfiguration(Section):
    """The sections of one run, and what it shares with the others. `corpus` is its source, `holes`
    the file that says what the run is trained without, `parent` the run that it continues."""

    name: Text
    model: ModelOfRun = section(ModelOfRun)
    pretraining: Pretraining = section(Pretraining)
    accelerator: Accelerator = section(Accelerator)
    seed: Seed = 0
    sequence_length: Count
    corpus: Text = "embedded"
    holes: Text | None = None
    parent: "RunConfiguration | None" = None

    @classmethod
    def of(cls, settings: Settings, run: str) -> Self:
        """That of `run` in the whole configuration, without `holes` and `parent`."""
        return cls(
            name=run,
            model=ModelOfRun.of_param(model_of_run(settings, run)),
            pretraining=Pretraining.model_validate(run_section(settings, run, "pretraining")),
            accelerator=Accelerator.model_validate(settings["accelerator"]),
            seed=settings["seed"],
            sequence_length=settings["shards"]["sequence_length"],
            corpus=settings["corpus"]["source"],
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
