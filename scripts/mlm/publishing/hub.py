"""The Hub's own client, set up for unattended uploads by Git LFS; and what the Hub or the network
answered, in words, and whether trying again can help."""

import contextlib
import logging
import os
import re
import sys
from collections.abc import Iterator
from urllib.parse import urlsplit

import huggingface_hub
import requests
from huggingface_hub.utils import disable_progress_bars
from requests.exceptions import ChunkedEncodingError, ContentDecodingError

from mlm.foundations.errors import MlmError
from mlm.publishing.artefacts import Destination
from mlm.publishing.secrecy import scrubbed

#: Seconds to connect, and seconds without a byte. A commit of many files takes its time.
TIME_LIMITS = (10.0, 120.0)
#: Too early, too many, in conflict with another commit, or out of order for a while.
_TRANSIENT_STATUS = {408, 409, 412, 425, 429, 500, 502, 503, 504}
_TRANSIENT = (
    requests.ConnectionError,
    requests.Timeout,
    ChunkedEncodingError,
    ContentDecodingError,
)
_QUOTA = re.compile(r"quota|storage limit|limit reached|exceed|payment|upgrade", re.I)
#: What every message ends with.
KEPT = "Nothing is lost: what was uploaded stays there, and the same command resumes"


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
    """The client for HF_ENDPOINT (else huggingface.co) with `token`, whose settings are global to
    the process and put back at the end; MlmError if the environment does not allow it."""
    constants = huggingface_hub.constants
    if constants.HF_HUB_OFFLINE:
        raise MlmError(
            "Publishing needs the Hub, but HF_HUB_OFFLINE (or TRANSFORMERS_OFFLINE) is set. "
            "Unset it and run the same command again"
        )
    endpoint = os.environ.get("HF_ENDPOINT", "https://huggingface.co").rstrip("/")
    if "@" in urlsplit(endpoint).netloc:
        raise MlmError(
            "HF_ENDPOINT holds a user name or password, which would be sent in the place of the "
            "token. Take it out; its value is not shown here"
        )
    logger = logging.getLogger("huggingface_hub")
    handlers, logger.handlers = logger.handlers, [_Scrubbing(token)]
    xet, constants.HF_HUB_DISABLE_XET = constants.HF_HUB_DISABLE_XET, True
    disable_progress_bars()
    huggingface_hub.configure_http_backend(_session)
    try:
        yield huggingface_hub.HfApi(endpoint=endpoint, token=token)
    finally:
        logger.handlers, constants.HF_HUB_DISABLE_XET = handlers, xet
        huggingface_hub.configure_http_backend()


def _chain(error: BaseException | None) -> Iterator[BaseException]:
    """The error and what led to it; the client wraps what an upload raised."""
    while error is not None:
        yield error
        error = error.__cause__ or error.__context__


def _response(error: BaseException) -> requests.Response | None:
    """The answer that the error is about."""
    answers = (getattr(link, "response", None) for link in _chain(error))
    return next((answer for answer in answers if answer is not None), None)


def is_transient(error: BaseException) -> bool:
    """Whether the same request may succeed a little later."""
    response = _response(error)
    if response is not None:
        return response.status_code in _TRANSIENT_STATUS
    return any(isinstance(link, _TRANSIENT) for link in _chain(error))


def seconds_asked_for(error: BaseException) -> float:
    """Seconds that the answer says to wait (Retry-After in seconds), at most 300; else 0."""
    response = _response(error)
    asked = "" if response is None else response.headers.get("Retry-After", "")
    return min(float(asked), 300.0) if re.fullmatch(r"\d+(\.\d+)?", asked) else 0.0


def hub_error(error: BaseException, destination: Destination) -> str | None:
    """What went wrong and what to do; None if neither the Hub nor the network is to blame."""
    response = _response(error)
    if response is None:
        return _without_answer(error)
    found = [getattr(link, "server_message", None) for link in _chain(error)]
    found += [response.headers.get("X-Error-Message"), response.reason]
    said = " ".join(str(next(filter(None, found), "")).split())[:300].rstrip(".")
    status = response.status_code
    if status == 402 or (status in (403, 413, 507) and _QUOTA.search(said)):
        return (
            f"The Hub refuses to take more into {destination} ({status}): {said}. Free some space "
            "there, or ask for more"
        )
    if status >= 500:
        return f"The Hub is out of order ({status}: {said})"
    words = {
        401: "The Hub does not know the token in HF_TOKEN (401): it is mistyped, expired or "
        f"revoked. Make a new one with write permission ({_host(response.url)}/settings/tokens)",
        403: f"Not allowed to write to {destination} (403: {said}). Either it belongs to someone "
        f"else or the token in HF_TOKEN has no write permission. Name a repository of "
        "your own in publish, or use a token that may write there",
        429: "The Hub says that there were too many requests (429). Wait for a while",
    }
    return words.get(status, f"The Hub refused what was sent to {destination} ({status}): {said}")


def _without_answer(error: BaseException) -> str | None:
    """What the network or the client says, with the system's own words."""
    for link in _chain(error):
        if isinstance(link, _TRANSIENT):
            url = getattr(link.request, "url", None)
            where = f" ({_host(url)})" if url else ""
            timed_out = "timed out" if isinstance(link, requests.Timeout) else "connection failed"
            found = re.findall(r"\[Errno -?\d+\] ([^'\"()]+)", str(link)) or [timed_out]
            safe = isinstance(link, requests.exceptions.SSLError)
            reason = "no safe connection" if safe else found[-1].strip()
            return f"The Hub cannot be reached: {reason}{where}. Is there a network here?"
        if isinstance(link, requests.RequestException):
            return f"The Hub cannot be asked ({type(link).__name__}: {link}). See HF_ENDPOINT"
    return None


def _host(url: str | None) -> str:
    """Scheme, host and port of an address, without user name and password."""
    parts = urlsplit(url or "")
    port = f":{parts.port}" if parts.port else ""
    return f"{parts.scheme}://{parts.hostname}{port}"
