"""Sections `evaluation` and `report`: what a finished model is asked, and what the page shows."""

from typing import Annotated, Literal, get_args

from pydantic import Field

from mlm.config.fields import (
    Confidence,
    Count,
    Fraction,
    NotNegativeCount,
    ProperFraction,
    ResampleCount,
    Section,
    Seed,
    Text,
    TokenCount,
    named_twice,
    section,
    told,
)

_Part = Literal[
    *("summary", "pipeline", "corpus", "tokenizer", "shards", "preflight", "preview", "training"),
    *("runs", "evaluation", "fill_mask", "samples", "asked", "finetune", "provenance"),
]


class Bootstrap(Section):
    resamples: ResampleCount = 1000
    """Number of resamples, each over groups."""
    confidence: Confidence = 0.95
    """Confidence level of the intervals."""


class Evaluation(Section):
    batch_size: Count = 64
    """Samples in a batch; changes figures by rounding only."""
    max_tokens: TokenCount = 2_000_000
    """Maximum number of tokens of the test split to evaluate, in samples at equal distances."""
    mlm_probability: ProperFraction = 0.15
    """Share of the tokens to predict."""
    seed: Seed = 0
    """Seed of the choice of these tokens, the same for all runs."""
    mask_token: Fraction = 0.8
    """Share of the chosen tokens replaced by the mask token."""
    random_token: Fraction = 0.1
    """Share of the chosen tokens replaced by a random token; the rest stay visible."""
    prompts: list[Text] = [
        "Goal of my life is to [MASK].",
        "The [MASK] of the United States.",
        "We must [MASK] our armed forces.",
    ]
    """Sentences to fill in, each with exactly one mask token."""
    top_k: Annotated[int, Field(ge=1, le=100)] = 5
    """Answers to show for each prompt."""
    bootstrap: Bootstrap = section(Bootstrap)
    frequency_bands: list[Count] = [10, 100, 1000]
    """Upper ranks of the bands of token frequency; a last band has the rest."""
    calibration_bins: Annotated[int, Field(ge=2, le=100)] = 10
    """Number of bins of the calibration curve."""
    samples: Annotated[int, Field(ge=0, le=100)] = 5
    """Best and worst predicted samples to show in the report, and masked ones."""
    train_samples: NotNegativeCount | None = None
    """Samples of the train split to evaluate as well; null: as many as of the test split."""
    minimal_pairs: list[Annotated[list[Text], Field(min_length=2, max_length=2)]] = []
    """Pairs [acceptable, unacceptable] of sentences, compared by pseudo-log-likelihood."""

    def contradictions(self) -> list[str]:
        replaced = self.mask_token + self.random_token
        return told(
            (
                replaced > 1 + 1e-9,
                f"evaluation: mask_token and random_token add up to {replaced:g}, more than 1",
            ),
            (
                replaced <= 0,
                "evaluation: mask_token and random_token are both 0; at least one must be more",
            ),
            *(
                (
                    first == second,
                    f"evaluation.minimal_pairs: {first!r} is on both sides of a pair; change one",
                )
                for first, second in self.minimal_pairs
            ),
        )

    def unmasked_prompts(self, mask: str) -> list[str]:
        """A line for each prompt that does not hold the mask token `mask` exactly once."""
        return [
            f"evaluation.prompts: {prompt!r} holds {mask} {prompt.count(mask)} times; exactly once "
            "is expected"
            for prompt in self.prompts
            if prompt.count(mask) != 1
        ]

    def too_long(self, sequence_length: int, positions: int | None) -> list[str]:
        """A line for each prompt and sentence with more words than fit tokens.

        A word is a token at least, and two special tokens surround the text. Samples, and a pair's
        sentences, are of `sequence_length` tokens; the model takes `positions` (None: unknown).
        """
        texts = [("prompts", prompt, positions) for prompt in self.prompts if positions]
        texts += [
            ("minimal_pairs", text, sequence_length) for pair in self.minimal_pairs for text in pair
        ]
        return [
            f"evaluation.{key}: {text!r} is of {tokens} tokens at least; at most {longest} fit. "
            "Shorten it"
            for key, text, longest in texts
            if (tokens := len(text.split()) + 2) > longest
        ]

    @classmethod
    def card_prompt(cls, prompts: list[str], embedded: bool) -> str | None:
        """The one of `prompts` that a model's card shows, if any.

        Those of the default are in English, and only for a corpus that is `embedded`.
        """
        own = prompts != cls.model_fields["prompts"].default
        return prompts[0] if prompts and (own or embedded) else None


class Report(Section):
    title: Text = "A masked language model from scratch"
    """Heading of the page."""
    sections: list[_Part] = list(get_args(_Part))
    """Sections of the page, in this order; those with nothing to show are left out."""
    runs: list[str] | None = None
    """Runs to show; null: all."""

    def contradictions(self) -> list[str]:
        problems = named_twice("report.sections", self.sections)
        return problems + named_twice("report.runs", self.runs)
