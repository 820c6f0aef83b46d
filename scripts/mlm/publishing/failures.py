"""What the Hub or the network answered, in words; and whether trying again can help."""

import re
from collections.abc import Iterator
from urllib.parse import urlsplit

import requests
from requests.exceptions import ChunkedEncodingError, ContentDecodingError

from mlm.publishing.artefacts import Destination

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


def _chain(error: BaseException | None) -> Iterator[BaseException]:
    """The error and what led to it; the client wraps what an upload raised."""
    while error is not None:
        yield error
        error = error.__cause__ or error.__context__


def _response(error: BaseException) -> requests.Response | None:
    """The answer that the error is about."""
    answers = (getattr(link, "response", None) for link in _chain(error))
    return next((answer for answer in answers if answer is not None), None)


def is_of_the_hub(error: BaseException) -> bool:
    """Whether the Hub or the network is to blame, and not this program."""
    return any(isinstance(link, requests.RequestException) for link in _chain(error))


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


def hub_error(error: BaseException, destination: Destination, holder: str) -> str:
    """What went wrong and what to do; `holder` says whose token it is, if that is known."""
    response = _response(error)
    if response is None:
        return _without_answer(error, destination)
    found = [getattr(link, "server_message", None) for link in _chain(error)]
    found += [response.headers.get("X-Error-Message", "")]
    said = " ".join(str(next(filter(None, found), "")).split())[:300].rstrip(".")
    status, more = response.status_code, f": {said}" if said else ""
    if status == 402 or (status in (403, 413, 507) and _QUOTA.search(said)):
        return (
            f"The Hub refuses to take more into {destination} ({status}): {said}. Free some space "
            "there, or ask for more"
        )
    if status >= 500:
        return f"The Hub is out of order ({status}{more})"
    words = {
        401: "The Hub does not know the token in HF_TOKEN (401): it is mistyped, expired or "
        f"revoked. Make a new one with write permission ({_host(response.url)}/settings/tokens)",
        403: f"Not allowed to write to {destination} (403{more}). Either it belongs to someone "
        f"else or the token in HF_TOKEN has no write permission{holder}. Name a repository of "
        "your own in publish, or use a token that may write there",
        404: f"The Hub has no such thing (404): {destination}, or its branch, has gone",
        429: "The Hub says that there were too many requests (429). Wait for a while",
    }
    refused = f"The Hub refused what was sent to {destination} ({status}): "
    return words.get(status, refused + (said or response.reason))


def _without_answer(error: BaseException, destination: Destination) -> str:
    for link in _chain(error):
        if isinstance(link, requests.JSONDecodeError):
            return (
                "What answers at HF_ENDPOINT does not speak the Hub's protocol. Unset HF_ENDPOINT, "
                "or name a Hub in it"
            )
        if isinstance(link, _TRANSIENT):
            return f"The Hub cannot be reached: {_innermost(link)}. Is there a network here?"
        if isinstance(link, requests.RequestException):
            return f"The Hub cannot be asked ({type(link).__name__}: {link}). See HF_ENDPOINT"
    first = (str(error).splitlines() or [""])[0]
    return f"Publishing to {destination} failed: {type(error).__name__}: {first}"


def _innermost(error: requests.RequestException) -> str:
    """The system's own words in an error of the network, and the host."""
    where = f" ({_host(error.request.url)})" if getattr(error.request, "url", None) else ""
    if isinstance(error, requests.exceptions.SSLError):
        return f"no safe connection{where}"
    found = re.findall(r"\[Errno -?\d+\] ([^'\"()]+)", str(error))
    timed_out = "timed out" if isinstance(error, requests.Timeout) else "connection failed"
    return f"{found[-1].strip() if found else timed_out}{where}"


def _host(url: str | None) -> str:
    """Scheme, host and port of an address, without user name and password."""
    parts = urlsplit(url or "")
    port = f":{parts.port}" if parts.port else ""
    return f"{parts.scheme}://{parts.hostname}{port}"
