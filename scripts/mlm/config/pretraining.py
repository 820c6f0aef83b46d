"""Section `pretraining`: masks, length, optimizer, and what is saved on the way."""

import math
from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import Field, model_validator

from mlm.config.families import engine_for
from mlm.config.fields import (
    BelowOne,
    Count,
    Fraction,
    NotNegative,
    NotNegativeCount,
    Positive,
    ProperFraction,
    Section,
    Seed,
    Text,
    TokenCount,
    WordForNull,
    named_twice,
    section,
)
from mlm.config.forgetting import problems_of
from mlm.foundations.errors import MlmError

#: The keys that say how long a training is.
LENGTHS = ("steps", "epochs", "tokens")
#: Steps that a counter of 32 bits can count.
_MOST_STEPS = 2**31 - 1


def with_its_length_alone(own: Any, under: Mapping[str, Any]) -> Any:
    """The section `own`, laid over `under`: a length that it sets takes the place of another.

    That other one becomes null in it, unless `own` says something of it as well.
    """
    if not isinstance(own, Mapping) or all(own.get(key) is None for key in LENGTHS):
        return own
    displaced = {k: None for k in LENGTHS if k not in own and under.get(k) is not None}
    return {**own, **displaced}


class Masking(Section):
    mlm_probability: ProperFraction = Field(
        0.3,
        description="Share of the tokens chosen for prediction, and what becomes of the chosen"
        " ones: the mask token, a random token; the rest stay as they are.",
    )
    mask_token: Fraction = 0.8
    random_token: Fraction = 0.1
    whole_word: bool = Field(
        False,
        description="Choose whole words instead of tokens, each with the same probability, however"
        " many tokens it has.",
    )
    slots: Count | None = Field(
        None,
        description="Prediction slots in a sequence; null: enough for every choice, and 8 more for"
        " whole words. With a number of your own, what finds no slot is counted and reported.",
    )


class Optimizer(Section):
    name: Literal["adamw", "muon"] = Field(
        "muon",
        description="muon (orthogonal updates of the hidden matrices, with AdamW for the"
        " embeddings, norms and biases), or adamw alone.",
    )
    learning_rate: Positive = Field(
        0.006, description="The peak of the learning rate; muon and its AdamW share it."
    )
    weight_decay: NotNegative = Field(
        0.0,
        description="Decoupled from the gradient, and not applied to biases and norms."
        " docs/learning.md says what difference it made.",
    )
    beta_1: BelowOne = Field(0.9, description="Adam's two decay rates and its epsilon.")
    beta_2: BelowOne = 0.98
    epsilon: Positive = 1e-6
    momentum: BelowOne = Field(0.95, description="Muon's decay rate; adamw has none.")
    max_grad_norm: Positive | None = Field(
        1.0, description="The global norm that gradients are clipped to; null: no clipping."
    )
    warmup_ratio: Fraction = Field(
        0.05,
        description="The share of the schedule over which the learning rate rises to its peak, or"
        " a number of steps instead.",
    )
    warmup_steps: NotNegativeCount | None = None
    decay: Literal["linear", "cosine", "1-sqrt"] = Field(
        "linear",
        description="How it falls, to min_lr_ratio of the peak at the end of the schedule, and the"
        " last share of the schedule in which it does so, or a number of steps instead. null: from"
        " the end of the warmup on. Less is warmup-stable-decay; 0 stays at the peak.",
    )
    decay_ratio: Fraction | None = None
    decay_steps: NotNegativeCount | None = None
    min_lr_ratio: Fraction = 0.0
    schedule_steps: Count | None = Field(
        None,
        description="Steps that the schedule is planned for; null: the length of the training.",
    )
    gradient_accumulation_steps: Count = Field(
        1, description="Batches whose gradients are added up before one update."
    )


class Validation(Section):
    every: Count = Field(
        500,
        description="Steps between validations, and the number of samples that each looks at,"
        " spread over the split (null: all). Samples and masks are the same in all runs,"
        " whatever their seeds.",
    )
    samples: Count | None = 2000


class Checkpoint(Section):
    every: Count = Field(
        500,
        description="Steps between saved states, how many of them are kept (a number, or all),"
        " further steps whose states are saved and stay, and the directory (or gs:// prefix)."
        " scripts/ask.py --replay makes a step again from the nearest state before it. A state is"
        " up to three times as large as the model.",
    )
    keep: Annotated[Count | None, WordForNull("all")] = 2
    keep_steps: list[Count] = Field([])
    directory: Text = "state"


class ContinueFrom(Section):
    run: Text | None = Field(
        None,
        description="Begin with the state of another run after a step of its training, for"
        " instance to let the learning rate fall from there. Up to that step both must be the same"
        " training, so that the weights are those of a training from its first step.",
    )
    step: Count | None = None


class Pretraining(Section):
    engine: Literal["auto", "tensorflow", "jax"] = Field(
        "auto",
        description="What computes the training: tensorflow, which has most families, jax, which"
        " has bert, modernbert, roberta, roberta-prelayernorm and xlm-roberta, or auto: jax for"
        " modernbert, tensorflow for all others. It is part of the result.",
    )
    seed: Seed | None = Field(
        None,
        description="The run's own seed; null takes the seed above. Several seeds are several"
        " runs.",
    )
    masking: Masking = section(Masking)
    per_replica_batch_size: Count = Field(64, description="Samples on one replica in one step.")
    steps: Count | None = Field(
        2400,
        description="Length of the training: exactly one of these is a number. The one that an"
        " overlay or a run sets takes the place of the one that stands here.",
    )
    epochs: Annotated[float, Field(gt=0, le=1_000_000)] | None = None
    tokens: TokenCount | None = None
    continue_from: ContinueFrom = section(ContinueFrom)
    forget: list[Text] = Field(
        [],
        description="Documents of the train split that the run is trained without: document:247,"
        " group:1799-Adams-1, file:data/letters.txt or pattern:REGEX. Holes of equal length stand"
        " in their place, so that all other tokens keep their order and their masks. `ask.py"
        " --forget` says from which step on a run depends on them, and from which state another can"
        " go on (docs/ask.md).",
    )
    optimizer: Optimizer = section(Optimizer)
    attend: Literal["sample", "document"] = Field(
        "sample",
        description="What a token sees: its sample, or no more than its own document in it, with"
        " positions that begin anew (engine: jax).",
    )
    rematerialise: bool = Field(
        False,
        description="Compute each layer again for its gradient instead of keeping what it computed:"
        " less memory on an accelerator (none saved on a CPU), a third more time (engine: jax).",
    )
    shard_optimizer: bool = Field(
        False,
        description="Divide the optimizer's moments over the devices, each of which updates its"
        " part of the weights: less memory on each, more to send (engine: jax).",
    )
    shuffle_window: Count = Field(
        131_072,
        description="Samples that are shuffled among themselves: blocks of 1,024 that every epoch"
        " takes from all over the split. Twice as many are in memory.",
    )
    validation: Validation = section(Validation)
    log_every: Count = Field(20, description="Steps between rows of training.csv.")
    steps_per_execution: Count = Field(
        1, description="Steps that run on the accelerator between two returns to Python."
    )
    checkpoint: Checkpoint = section(Checkpoint)
    profile: Annotated[list[Count], Field(min_length=2, max_length=2)] | None = Field(
        None,
        description="Write a profiler trace of steps [first, last] into the state directory; null:"
        " none.",
    )
    export_every_epochs: Count | None = Field(
        None,
        description="Also export the model every so many epochs into the state directory; null:"
        " never.",
    )

    @model_validator(mode="before")
    @classmethod
    def _default_length_gives_way(cls, given: Any) -> Any:
        return with_its_length_alone(given, {"steps": cls.model_fields["steps"].default})

    def updates(self, samples: int, sequence_length: int, batch: int) -> int:
        """Updates of the weights that `steps`, `epochs` or `tokens` come to.

        `samples` are those of the train split, `batch` those of an update. A last batch that an
        epoch only partly fills counts as one. Raises MlmError for more than a step counter holds.
        """
        if self.steps:
            steps = self.steps
        elif self.epochs:
            steps = max(1, math.ceil(self.epochs * samples / batch))
        else:
            steps = max(1, math.ceil(self.tokens / (batch * sequence_length)))
        if steps > _MOST_STEPS:
            asked = next(key for key in LENGTHS if getattr(self, key))
            raise MlmError(
                f"pretraining.{asked}: {getattr(self, asked):g} comes to {steps:.3g} steps; at "
                f"most {_MOST_STEPS:,} are counted"
            )
        return steps

    def contradictions_with(self, family: str) -> list[str]:
        """What is asked for that the engine of a family does not have, one line each."""
        if engine_for(self.engine, family) == "jax":
            return []
        asked = {
            "attend": self.attend == "document",
            "rematerialise": self.rematerialise,
            "shard_optimizer": self.shard_optimizer,
        }
        return [
            f"pretraining.{name}: {getattr(self, name)}, which pretraining.engine: tensorflow does "
            f"not have. Set engine: jax, or leave {name} out"
            for name, beyond in asked.items()
            if beyond
        ]

    def contradictions(self) -> list[str]:
        problems = problems_of("pretraining.forget", self.forget)
        problems += named_twice("pretraining.forget", self.forget)
        lengths = {k: v for k in LENGTHS if (v := getattr(self, k))}
        if len(lengths) != 1:
            found = ", ".join(f"{k}: {v}" for k, v in lengths.items()) or "none of them"
            problems.append(
                f"pretraining: exactly one of steps, epochs, tokens must be set; found {found}"
                + "; set the others to null" * bool(lengths)
            )
        start = self.continue_from
        if (start.run is None) != (start.step is None):
            problems.append(
                "pretraining.continue_from: run and step go together; found "
                f"run: {start.run}, step: {start.step}"
            )
        elif start.step and self.steps and start.step >= self.steps:
            problems.append(
                f"pretraining.continue_from.step: {start.step} leaves nothing to train of "
                f"steps: {self.steps}"
            )
        if self.profile:
            first, last = self.profile
            if first > last:
                problems.append(
                    f"pretraining.profile: the first step {first} is after the last, {last}"
                )
            elif self.steps and last > self.steps:
                problems.append(
                    f"pretraining.profile: step {last} is beyond the last, {self.steps}"
                )
        momentum = Optimizer.model_fields["momentum"].default
        if self.optimizer.name == "adamw" and self.optimizer.momentum != momentum:
            problems.append(
                f"pretraining.optimizer.momentum: {self.optimizer.momentum}, which is for muon; "
                f"adamw has beta_1 instead. Set name: muon, or leave momentum at {momentum}"
            )
        if self.masking.mask_token + self.masking.random_token > 1 + 1e-9:
            problems.append(
                "pretraining.masking: mask_token and random_token add up to more than 1"
            )
        return problems
