"""Section `tokenizer`: how text becomes ids."""

from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field

from mlm.config.fields import Section, Text, WordForNull, section
from mlm.config.hub_names import unpinned

#: Kinds that can write a character outside the vocabulary as its UTF-8 bytes.
BYTE_FALLBACK_KINDS = ("unigram", "bpe")
#: Below this sentencepiece, which trains the kind unigram, refuses the coverage.
LEAST_UNIGRAM_COVERAGE = 0.98
_SPECIAL_TOKENS, _BYTES = 5, 256
_Ids = Annotated[int, Field(ge=6, le=4_000_000)]


class SpecialTokens(Section):
    cls: Text = "[CLS]"
    pad: Text = "<pad>"
    sep: Text = "[SEP]"
    unk: Text = "<unk>"
    mask: Text = "[MASK]"

    def contradictions(self) -> list[str]:
        problems, tokens = [], self.model_dump()
        for name, text in tokens.items():
            if any(c.isspace() for c in text):
                problems.append(
                    f"tokenizer.special_tokens.{name}: {text!r} holds white space, which no token "
                    "may"
                )
            elif len(text) < 3 or text[0].isalnum() or text[-1].isalnum():
                problems.append(
                    f"tokenizer.special_tokens.{name}: {text!r} is ordinary text, which a corpus "
                    "and a prompt may hold; put it between marks, as in "
                    f"{'[' + name.upper() + ']'!r} or {'<' + name + '>'!r}"
                )
        if len(set(tokens.values())) != len(tokens):
            problems.append(f"tokenizer.special_tokens: two are the same in {[*tokens.values()]}")
        return problems


class Pretrained(Section):
    path: str | None = Field(
        None,
        description="For the kind pretrained: a directory, or a Hub id with the commit to pin it"
        " to.",
    )
    revision: str | None = None

    def contradictions(self) -> list[str]:
        if not self.path:
            return ["tokenizer.pretrained.path: missing; name a directory or a Hub id"]
        if Path(self.path).is_dir():
            return []
        return [
            f"{line}. ({self.path!r} is not a directory here, so it is taken for a Hub id)"
            for line in unpinned("tokenizer.pretrained.revision", self.revision)
        ]


class Tokenizer(Section):
    kind: Literal["unigram", "bpe", "wordpiece", "pretrained"] = Field(
        "unigram",
        description="unigram, bpe or wordpiece, trained on the train split; or pretrained.",
    )
    vocabulary_size: Annotated[_Ids | None, WordForNull("auto")] = Field(
        None,
        description="Number of ids, special tokens included. auto, or null: 8,000 where the train"
        " split has 10 MB or more, else about 2.5 times the square root of its bytes (1.5 MB:"
        " 3,100), and as many as its alphabet needs and its text gives.",
    )
    special_tokens: SpecialTokens = section(
        SpecialTokens,
        "The text of the five special tokens, between marks such as [ ] or < >; their ids are 0 to"
        " 4 in this order.",
    )
    byte_fallback: bool = Field(
        False,
        description="Characters outside the vocabulary become their UTF-8 bytes instead of the"
        " unknown token. Costs 256 ids.",
    )
    replacements: list[Annotated[list[str], Field(min_length=2, max_length=2)]] = Field(
        [["``", '"'], ["''", '"']],
        description="Replacements in the text before all else, in this order.",
    )
    unknown_literal: Text | None = Field(
        None,
        description='A string that stands for an unknown word in the corpus (WikiText: "<unk>"),'
        " mapped to the unknown token; null: none.",
    )
    character_coverage: Annotated[float, Field(ge=0.5, le=1)] = Field(
        1.0,
        description="The share of the training text's characters that the vocabulary has to spell."
        " Below 1, the rarest of the alphabet are left to the unknown token, or to bytes (0.9995"
        " suits a large corpus, or thousands of Chinese characters). At least 0.98 for unigram.",
    )
    max_training_bytes: Annotated[int, Field(ge=100_000, le=10**13)] = Field(
        1_000_000_000,
        description="A larger train split is sampled evenly down to this many bytes for the"
        " training.",
    )
    training_threads: Annotated[int, Field(ge=1, le=256)] = Field(
        2,
        description="Threads of the trainer. They shape the result, so they are never taken from"
        " --cores.",
    )
    pretrained: Pretrained = section(Pretrained)

    def contradictions(self) -> list[str]:
        problems = []
        if self.byte_fallback and self.kind not in BYTE_FALLBACK_KINDS:
            reason = (
                "longest-match-first has no piece for a single byte inside a word"
                if self.kind == "wordpiece"
                else "a pretrained tokenizer brings its own treatment of unknown characters"
            )
            problems.append(
                f"tokenizer.byte_fallback: true is not possible for kind {self.kind} ({reason}); "
                f"set it to false, or choose {' or '.join(BYTE_FALLBACK_KINDS)}"
            )
        if self.kind == "pretrained":
            return problems + self.pretrained.contradictions()
        reserved = _SPECIAL_TOKENS + (_BYTES if self.byte_fallback else 0)
        if self.vocabulary_size is not None and self.vocabulary_size <= reserved:
            problems.append(
                f"tokenizer.vocabulary_size: {self.vocabulary_size} leaves no room beside "
                f"{reserved} ids for special tokens and bytes; set at least {reserved + 100}"
            )
        if self.kind == "unigram" and self.character_coverage < LEAST_UNIGRAM_COVERAGE:
            problems.append(
                f"tokenizer.character_coverage: {self.character_coverage}; sentencepiece, which "
                f"trains the kind unigram, takes {LEAST_UNIGRAM_COVERAGE} to 1. Set that, or "
                "choose bpe or wordpiece"
            )
        problems += self.special_tokens.contradictions()
        problems += [
            f"tokenizer.replacements: {old!r} is to be replaced by {new!r}; the first of the two "
            "must not be empty"
            for old, new in self.replacements
            if not old
        ]
        return problems
