"""Sections `tokenizer` and `shards`: how text becomes ids, and ids become files."""

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, ClassVar, Literal, Self

from pydantic import Field

from mlm.config.config_json import content_of
from mlm.config.fields import (
    FileCount,
    FilePath,
    NoBoolean,
    Section,
    Text,
    section,
    unexpanded,
    unpinned,
)
from mlm.config.special_tokens import SpecialTokens

#: The files of a tokenizer in the layout of transformers.
TOKENIZER_FILES = ("tokenizer.json", "tokenizer_config.json", "special_tokens_map.json")
#: How the embedded corpus, which has several forms of quotes, is normalised.
EMBEDDED_REPLACEMENTS = [["``", '"'], ["''", '"']]
#: As many ids as `tokenizer.vocabulary_size: null` gives a text, for all but large alphabets.
MOST_BY_ITSELF = 8000
_Pair = Annotated[list[str], Field(min_length=2, max_length=2)]


class PretrainedTokenizer(Section):
    path: FilePath | None = None
    """For kind pretrained: a directory, or a Hub id."""
    revision: str | None = None
    """The pinned commit of a Hub id."""


class Tokenizer(Section):
    kind: Literal["unigram", "bpe", "wordpiece", "pretrained"] = "unigram"
    """unigram, bpe or wordpiece: trained on the train split. pretrained: tokenizer.pretrained."""
    vocabulary_size: Annotated[int, Field(ge=6, le=4_000_000), NoBoolean] | None = None
    """Number of ids, special tokens included. null: 8,000 if the train split has 10 MB or
    more, else about 2.5 times the square root of its bytes (1.5 MB: 3,100)."""
    special_tokens: SpecialTokens = section(SpecialTokens)
    replacements: list[_Pair] | None = None
    """Pairs [old, new] of text, replaced in this order before anything else. null: in the embedded
    corpus, two backticks or two single quotes become a double quote; else none."""
    unknown_literal: Text | None = None
    """A string that marks unknown words in the corpus (WikiText: "<unk>"); null: none."""
    character_coverage: Annotated[float, Field(ge=0.5, le=1), NoBoolean] = 1.0
    """Share of the training text's characters that the vocabulary covers, at least 0.98 for
    unigram. 0.9995 suits a large corpus, or thousands of Chinese characters."""
    max_training_bytes: Annotated[int, Field(ge=100_000, le=10**13), NoBoolean] = 1_000_000_000
    """Maximum number of bytes to train on: an evenly spaced sample of a larger train split."""
    #: Threads of the trainer. They affect the result, so --cores does not set them.
    training_threads: ClassVar[int] = 2
    pretrained: PretrainedTokenizer = section(PretrainedTokenizer)

    @property
    def directory(self) -> str | None:
        """The path of a pretrained tokenizer, or its Hub id; None of one that is trained."""
        return self.pretrained.path if self.kind == "pretrained" else None

    @property
    def expected_size(self) -> int | None:
        """Number of ids, or the most of them; None for a pretrained tokenizer."""
        if self.kind != "pretrained":
            return self.vocabulary_size or MOST_BY_ITSELF
        try:
            beside = content_of(f"{self.pretrained.path}/config.json").get("vocab_size")
        except ValueError:
            return None
        return beside if type(beside) is int else None

    def for_corpus(self, source: str) -> Self:
        """The section with the replacements that suit a corpus of the kind `source`."""
        if self.replacements is not None:
            return self
        quotes = source == "embedded" and self.kind != "pretrained"
        return self.model_copy(update={"replacements": EMBEDDED_REPLACEMENTS if quotes else []})

    def contradictions(self) -> Iterator[str]:
        if self.kind == "pretrained":
            path = self.pretrained.path
            if not path:
                yield "pretrained.path: missing; name a directory or a Hub id"
            elif not Path(path).is_dir():
                for line in unpinned("pretrained.revision", self.pretrained.revision):
                    yield f"{line}. {path!r}, no directory here, is a Hub id{unexpanded(path)}"
            if self.replacements:
                yield "replacements: a pretrained tokenizer has its own; leave them out"
            return
        if self.pretrained.path and "kind" not in self.model_fields_set:
            yield f"kind: {self.kind}, which does not read pretrained.path. Set kind: pretrained"
        if (coverage := self.character_coverage) < 0.98 and self.kind == "unigram":
            yield f"character_coverage: {coverage}; set 0.98 to 1, or another kind than unigram"
        if not all(old for old, _ in self.replacements or ()):
            yield "replacements: the first text of a pair must not be empty"


class ShardCount(Section):
    train: FileCount = 4
    """Number of shards of train: each is one file and one job."""
    validation: FileCount = 1
    test: FileCount = 1


class Shards(Section):
    sequence_length: Annotated[int, Field(ge=8, le=65_536), NoBoolean] = 64
    """Tokens in a sample, special tokens and padding included."""
    count: ShardCount = section(ShardCount)
