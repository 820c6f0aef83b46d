"""Sections `evaluation` and `report`: what a finished model is asked, and what the page shows."""

from collections.abc import Iterator
from typing import Annotated

from pydantic import Field

from mlm.config import fields
from mlm.config.fields import Count, Distinct, FilePath, Name, Section, Text

PairFile = Annotated[FilePath, Field(pattern=r"\.(jsonl|tsv)$")]


class Evaluation(Section):
    seed: fields.Seed = 0
    """Seed of the division of tokens into hidden sets, the same for all runs."""
    mlm_probability: fields.ProperFraction = 0.15
    """Share of a sample's tokens that are hidden together, 1 / n of them for the nearest whole n.
    Each set is hidden in turn, so that every token is predicted."""
    batch_size: Count = 64
    """Samples in a batch; affects figures only by rounding."""
    max_tokens: fields.TokenCount = 500_000
    """Maximum test tokens to predict; of a larger split, evenly spaced sets are."""
    prompts: list[Text] = [
        "Goal of my life is to [MASK].",
        "The [MASK] of the United States.",
        "We must [MASK] our armed forces.",
    ]
    """Sentences to fill in, each with exactly one mask token."""
    minimal_pair_files: Annotated[list[PairFile], Distinct] = []
    """Files of minimal pairs of sentences: .jsonl with BLiMP's fields (sentence_good, sentence_bad,
    UID), .tsv with MultiBLiMP's columns (sen, wrong_sen, phenomenon)."""

    def unmasked_prompts(self, mask: str) -> Iterator[str]:
        """A line for each prompt that does not hold the mask token `mask` exactly once."""
        for prompt in self.prompts:
            if (count := prompt.count(mask)) != 1:
                yield f"prompts: {mask_problem(prompt, mask, count)}"

    def card_prompt(self, embedded: bool) -> str | None:
        """The prompt for a model's card, if any; a default, in English, only if `embedded`."""
        are_english = self.prompts == type(self).model_fields["prompts"].default
        return self.prompts[0] if self.prompts and (embedded or not are_english) else None


def mask_problem(prompt: str, mask: str, count: int) -> str:
    """Say what is wrong with a prompt that holds the token `mask` `count` times, not once."""
    if not count:
        return f"{prompt!r} has no {mask}. Write {mask} in the place of one word"
    return f"{prompt!r} has {count} {mask}. Keep one of them"


class Report(Section):
    title: Text = "A masked language model from scratch"
    """Heading of the page."""
    runs: Annotated[list[str], Field(min_length=1), Distinct] | None = None
    """Runs to show; null: all."""
    also: dict[Name, FilePath] = {}
    """Finished runs of other working directories to compare in bits per character, each with a
    name: {wordpiece: ../wordpiece/results/runs/base}. They are not changed."""
