"""The Hub's own client, set up for unattended uploads: time limits, no secrets in its log.

Large files go by Git LFS (one PUT, or one for each part), the transfer that the Hub takes
from every client.
"""

import contextlib
import logging
import os
import sys
from collections.abc import Iterator

import huggingface_hub
import requests
from huggingface_hub.utils import disable_progress_bars

from mlm.foundations.errors import MlmError
from mlm.publishing.secrecy import scrubbed

#: Seconds to connect, and seconds without a byte. A commit of many files takes its time.
TIME_LIMITS = (10.0, 120.0)
DEFAULT_ENDPOINT = "https://huggingface.co"


class _WithTimeLimits(requests.adapters.HTTPAdapter):
    """The client sends most requests without any limit and would wait for ever."""

    def send(self, request, *arguments, **named):
        if named.get("timeout") is None:
            named["timeout"] = TIME_LIMITS
        return super().send(request, *arguments, **named)


def _session() -> requests.Session:
    session = requests.Session()
    session.mount("http://", _WithTimeLimits())
    session.mount("https://", _WithTimeLimits())
    # Else a .netrc would take the place of the token.
    session.auth = lambda request: request
    return session


class _Scrubbing(logging.Handler):
    """Prints the client's warnings to stderr, without signed links and the token."""

    def __init__(self, token: str):
        super().__init__(logging.WARNING)
        self._token = token

    def emit(self, record: logging.LogRecord) -> None:
        print(scrubbed(self.format(record), self._token), file=sys.stderr)


@contextlib.contextmanager
def hub_client(token: str) -> Iterator[huggingface_hub.HfApi]:
    """The client for HF_ENDPOINT (else huggingface.co) with `token`.

    Its settings are global to the process and put back at the end. Raises MlmError where
    the environment keeps the client offline.
    """
    if huggingface_hub.constants.HF_HUB_OFFLINE:
        raise MlmError(
            "Publishing needs the Hub, but HF_HUB_OFFLINE (or TRANSFORMERS_OFFLINE) is set. "
            "Unset it and run the same command again"
        )
    endpoint = os.environ.get("HF_ENDPOINT", DEFAULT_ENDPOINT).rstrip("/")
    if not endpoint.startswith(("http://", "https://")):
        raise MlmError(
            f"HF_ENDPOINT is {scrubbed(endpoint, token)!r}; an address that begins with https:// "
            "is expected. Unset it for huggingface.co"
        )
    if "@" in endpoint.split("/")[2]:
        raise MlmError(
            "HF_ENDPOINT holds a user name or password, which would be sent in the place of the "
            "token. Take it out; its value is not shown here"
        )
    logger = logging.getLogger("huggingface_hub")
    handlers, logger.handlers = logger.handlers, [_Scrubbing(token)]
    constants = huggingface_hub.constants
    xet, constants.HF_HUB_DISABLE_XET = constants.HF_HUB_DISABLE_XET, True
    disable_progress_bars()
    huggingface_hub.configure_http_backend(_session)
    try:
        yield huggingface_hub.HfApi(endpoint=endpoint, token=token)
    finally:
        logger.handlers, constants.HF_HUB_DISABLE_XET = handlers, xet
        huggingface_hub.configure_http_backend()
