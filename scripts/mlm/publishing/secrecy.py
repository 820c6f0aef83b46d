"""The token, and its removal from everything that is written."""

import os
import re

from mlm.foundations.errors import MlmError

_SECRETS = (
    # user:password@ in an address, such as that of a proxy.
    (re.compile(r"(?<=//)[^/\s@]+@"), ""),
    # What follows the ? of an address: upload links are signed there.
    (re.compile(r"(https?://[^\s?'\"<>]+)\?[^\s'\"<>]*"), r"\1?…"),
    (re.compile(r"(?i)\b(bearer|basic)\s+[^\s'\",)]+"), r"\1 …"),
    (re.compile(r"\bhf_[A-Za-z0-9]{8,}"), "hf_…"),
)


def token_from_environment() -> str:
    """The token in HF_TOKEN. Raises MlmError if there is none or it cannot be one."""
    token = os.environ.get("HF_TOKEN", "").strip()
    if not token:
        raise MlmError(
            "Publishing needs a token of the Hugging Face Hub in the environment variable "
            "HF_TOKEN, and there is none. Make one with write permission "
            "(huggingface.co/settings/tokens), export it, and run the same command again"
        )
    # The libraries would show such a value in their error.
    if not (token.isascii() and token.isprintable()) or " " in token:
        raise MlmError(
            "HF_TOKEN holds characters that no token has (blanks, line ends or others). Copy the "
            "token again; its value is not shown here"
        )
    return token


def scrubbed(text: str, token: str) -> str:
    """`text` without the token and anything else that gives access."""
    text = text.replace(token, "…")
    for pattern, replacement in _SECRETS:
        text = pattern.sub(replacement, text)
    return text
