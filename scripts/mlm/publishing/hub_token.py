"""The token of the Hugging Face Hub, and its removal from everything that is written."""

import os
import re

from mlm.foundations.errors import MlmError

#: A user and password before an address, and what follows its ?, where upload links are signed.
_SECRETS = re.compile(r"(?<=//)[^/\s@]+@|(?<=\w)\?[^\s'\"<>]+")


def token_from_environment() -> str:
    """Return the token in HF_TOKEN. Raises MlmError if there is none or it cannot be one."""
    token = os.environ.get("HF_TOKEN", "").strip()
    # The libraries would show such a value in their error.
    if not (token.isascii() and token.isprintable()) or not token or " " in token:
        raise MlmError(
            "Publishing needs a token of the Hugging Face Hub in the environment variable "
            "HF_TOKEN, and there is none, or it has blanks or other characters that no token has. "
            "Make one with write permission (huggingface.co/settings/tokens), export it, and run "
            "the same command again"
        )
    return token


def scrubbed(text: str, token: str) -> str:
    """Return `text` without the token and what else in an address gives access."""
    return _SECRETS.sub("…", text.replace(token, "…"))
