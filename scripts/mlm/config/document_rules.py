"""Sections of `corpus.filters` beside quality: personal data, language, decontamination."""

from typing import Literal

from pydantic import Field

from mlm.config.fields import Count, Fraction, Section, Text, named_twice, section

_Action = Literal["keep", "replace", "drop"]
_Judging = Literal["prompts", "minimal_pairs", "finetuning", "validation", "test"]


class Placeholders(Section):
    email: str = "<email>"
    ip_address: str = "<ip-address>"
    phone_number: str = "<phone-number>"


class PersonalData(Section):
    email: _Action = Field(
        "keep",
        description="What happens to e-mail addresses, IP addresses (v4 and v6) and phone numbers"
        " (international, with + or 00, or North American): keep; replace puts the placeholder in"
        " their place; drop leaves out the document.",
    )
    ip_address: _Action = "keep"
    phone_number: _Action = "keep"
    placeholders: Placeholders = section(
        Placeholders, 'The text that is put there; "" takes them out.'
    )


class Language(Section):
    model: Text | None = Field(
        None,
        description="Keep documents of these languages alone: a file in fastText's format, such as"
        " lid.176.ftz, the languages as the model calls them ([en, de]), and how likely the model"
        " has to find it. null: any language. Needs envs/requirements-language.txt as well.",
    )
    keep: list[Text] = Field([])
    min_probability: Fraction = 0.65

    def contradictions(self) -> list[str]:
        problems = named_twice("corpus.filters.language.keep", self.keep)
        if self.model is not None and not self.keep:
            problems.append(
                "corpus.filters.language.keep: empty, so that no document would be left; name the "
                "languages, as the model calls them"
            )
        if self.model is None and self.keep:
            problems.append(
                "corpus.filters.language: keep is set, and model is not: name the file of a model"
            )
        return problems


class Decontamination(Section):
    against: list[Text] = Field(
        [],
        description="Files of texts that the model is judged by, in the formats of corpus.files, a"
        " text a line or row: a document of train with as many words in a row in common with one of"
        " them is left out (Brown et al., 2020, arXiv 2005.14165: 13), whatever their case and"
        " punctuation. A text of 8 words or more that is shorter is looked for as a whole.",
    )
    also: list[_Judging] | None = Field(
        None,
        description="Texts of this configuration that are looked for as well: prompts and"
        " minimal_pairs (evaluation, of all runs), finetuning (finetune.data.file), validation and"
        " test (also if they are carved from train). null: validation and test with the embedded"
        " corpus, whose speakers quote one another; nothing with other sources.",
    )
    words: Count = 13
    text_column: Text = "text"

    def contradictions(self) -> list[str]:
        return named_twice("corpus.filters.decontamination.against", self.against) + named_twice(
            "corpus.filters.decontamination.also", self.also
        )
