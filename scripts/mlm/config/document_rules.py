"""Sections of `corpus.filters` beside quality: personal data."""

from typing import Literal

from pydantic import Field

from mlm.config.fields import Section, section

_Action = Literal["keep", "replace", "drop"]


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
