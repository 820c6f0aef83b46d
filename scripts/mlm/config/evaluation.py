"""Section `evaluation`: what a finished model is asked."""

from typing import Annotated, ClassVar

from pydantic import Field

from mlm.config.fields import (
    Confidence,
    Count,
    Fraction,
    NotNegativeCount,
    ProperFraction,
    Resamples,
    Section,
    Seed,
    Text,
    TokenCount,
    section,
)


class Bootstrap(Section):
    resamples: Resamples = 1000
    confidence: Confidence = 0.95


class Evaluation(Section):
    renamed: ClassVar[dict[str, str]] = {"mask_share": "mlm_probability"}

    batch_size: Count = Field(
        64, description="Samples in one batch; changes no figure beyond rounding."
    )
    max_tokens: TokenCount = Field(
        2_000_000,
        description="Tokens of the test split that are evaluated; of a larger split, samples at"
        " equal distances.",
    )
    mlm_probability: ProperFraction = Field(
        0.15, description="Share of the tokens that are predicted, and the seed of the choice."
    )
    seed: Seed = 0
    mask_token: Fraction = Field(
        0.8,
        description="What becomes of the chosen ones: shares of the mask token and of random"
        " tokens; the rest stay as they are. With less than 1 in all, the model sees some of the"
        " answers, which the baselines never do.",
    )
    random_token: Fraction = 0.1
    prompts: list[Text] = Field(
        [
            "Goal of my life is to [MASK].",
            "The [MASK] of the United States.",
            "We must [MASK] our armed forces.",
        ],
        description="Sentences to fill in, each with exactly one mask token.",
    )
    top_k: Annotated[int, Field(ge=1, le=100)] = Field(5, description="Answers shown for a prompt.")
    bootstrap: Bootstrap = section(
        Bootstrap, "Bootstrap over groups: the number of resamples and what the intervals hold."
    )
    frequency_bands: list[Count] = Field(
        [10, 100, 1000],
        description="Upper ranks of the token-frequency bands (the last band takes the rest).",
    )
    calibration_bins: Annotated[int, Field(ge=2, le=100)] = Field(
        10, description="Bins of the calibration curve."
    )
    samples: Annotated[int, Field(ge=0, le=100)] = Field(
        5,
        description="Best and worst predicted samples kept for the report, and masked ones shown.",
    )
    train_samples: NotNegativeCount | None = Field(
        None,
        description="Samples of the train split that are evaluated too, to show a gap. null: as"
        " many as of the test split. 0: none.",
    )
    minimal_pairs: list[Annotated[list[Text], Field(min_length=2, max_length=2)]] = Field(
        [],
        description="Pairs [acceptable, unacceptable] of sentences, compared by"
        " pseudo-log-likelihood.",
    )

    def contradictions(self) -> list[str]:
        return self._impossible_shares() + [
            f"evaluation.minimal_pairs: {first!r} stands on both sides of a pair, so that nothing "
            "is compared; change one, or leave the pair out"
            for first, second in self.minimal_pairs
            if first == second
        ]

    def _impossible_shares(self) -> list[str]:
        replaced = self.mask_token + self.random_token
        if replaced > 1 + 1e-9:
            return [f"evaluation: mask_token and random_token add up to {replaced:g}, more than 1"]
        if replaced <= 0:
            return [
                "evaluation: mask_token and random_token are both 0, so that the model would be "
                "shown every token that it is to predict; at least one must be more"
            ]
        return []

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

        A word is a token at least, and two more stand around the text. Samples, and a pair's
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
