"""The token, and how it is kept out of everything that is written."""

import os
import re

from mlm.foundations.errors import MlmError

TOKEN_VARIABLE = "HF_TOKEN"
_SECRETS = (
    # user:password@ in an address, such as that of a proxy.
    (re.compile(r"(?<=//)[^/\s@]+@"), ""),
    # What follows the ? of an address: upload links are signed there.
    (re.compile(r"(https?://[^\s?'\"<>]+)\?[^\s'\"<>]*"), r"\1?…"),
    (re.compile(r"(?i)\b(bearer|basic)\s+[^\s'\",)]+"), r"\1 …"),
    (re.compile(r"\bhf_[A-Za-z0-9]{8,}"), "hf_…"),
)


def token_from_environment() -> str:
    """The token in HF_TOKEN. Raises MlmError where there is none or it can be none."""
    token = os.environ.get(TOKEN_VARIABLE, "").strip()
    if not token:
        raise MlmError(
            f"Publishing needs a token of the Hugging Face Hub in the environment variable "
            f"{TOKEN_VARIABLE}, and there is none. Make one with write permission "
            "(huggingface.co/settings/tokens), export it, and run the same command again. It "
            "belongs in no file of the project"
        )
    # The libraries would show such a value in their error.
    if not (token.isascii() and token.isprintable()) or " " in token:
        raise MlmError(
            f"{TOKEN_VARIABLE} holds characters that no token has (blanks, line ends or "
            "others). Copy the token again; its value is not shown here"
        )
    return token


def scrubbed(text: str, token: str) -> str:
    """`text` without the token and without what else in it would give access to something."""
    text = text.replace(token, "…")
    for pattern, replacement in _SECRETS:
        text = pattern.sub(replacement, text)
    return text
