"""What the Hub or the network answered, in words; and whether trying again can help."""

import re
from urllib.parse import urlsplit

import requests

from mlm.publishing.destination import Destination
from mlm.publishing.secrecy import scrubbed

#: Too early, too many, in conflict with another commit, or out of order for a while.
_PASSING_STATUS = {408, 409, 412, 425, 429, 500, 502, 503, 504}
_PASSING = (
    requests.ConnectionError,
    requests.Timeout,
    requests.exceptions.ChunkedEncodingError,
    requests.exceptions.ContentDecodingError,
)
_QUOTA = re.compile(r"quota|storage limit|limit reached|exceed|payment|upgrade", re.I)
#: What every message ends with.
KEPT = "Nothing is lost: what was uploaded stays there, and the same command goes on from it"


class NotThereYet(Exception):
    """The Hub took files and does not list them."""


def _chain(error: BaseException):
    """The error and what led to it; the client wraps what an upload raised."""
    seen = set()
    while error is not None and id(error) not in seen:
        seen.add(id(error))
        yield error
        error = error.__cause__ or error.__context__


def _response(error: BaseException):
    """The answer that the error is about, or None."""
    for link in _chain(error):
        if (response := getattr(link, "response", None)) is not None:
            return response
    return None


def is_of_the_hub(error: BaseException) -> bool:
    """Whether the Hub or the network is to blame, and not this program."""
    known = (requests.exceptions.RequestException, NotThereYet)
    return any(isinstance(link, known) for link in _chain(error))


def is_passing(error: BaseException) -> bool:
    """Whether the same request may succeed a little later."""
    response = _response(error)
    if response is not None:
        return response.status_code in _PASSING_STATUS
    return any(isinstance(link, (*_PASSING, NotThereYet)) for link in _chain(error))


def seconds_asked_for(error: BaseException) -> float:
    """Seconds that the answer says to wait (Retry-After in seconds), at most 300; else 0."""
    response = _response(error)
    asked = "" if response is None else response.headers.get("Retry-After", "")
    return min(float(asked), 300.0) if re.fullmatch(r"\d+(\.\d+)?", asked) else 0.0


def in_words(error: BaseException, destination: Destination, token: str, holder: str) -> str:
    """One sentence or two on what went wrong and what to do, free of secrets.

    `holder` says whose token it is, as far as that is known.
    """
    place = f"the {destination.kind} repository {destination.repository}"
    response = _response(error)
    if response is None:
        return scrubbed(_without_answer(error, place), token)
    said = _said(error, response)
    status = response.status_code
    if status == 401:
        words = (
            "The Hub does not know the token in HF_TOKEN (401): it is mistyped, expired or "
            f"revoked. Make a new one with write permission ({_host(response.url)}/settings/tokens)"
        )
    elif status == 402 or (status in (403, 413, 507) and _QUOTA.search(said)):
        words = (
            f"The Hub refuses to take more into {place} ({status}): {said}. Free some space "
            "there, or ask for more"
        )
    elif status == 403:
        words = (
            f"Not allowed to write to {place} (403{': ' + said if said else ''}). Either it "
            f"belongs to someone else or the token in HF_TOKEN has no write permission{holder}. "
            "Name a repository of your own in publish, or take a token that may write there"
        )
    elif status == 404:
        words = f"There is no such thing on the Hub (404): {place}, or its branch, has gone"
    elif status == 429:
        words = "The Hub says that there were too many requests (429). Wait for a while"
    elif status >= 500:
        words = f"The Hub is out of order ({status}{': ' + said if said else ''})"
    else:
        words = f"The Hub refused what was sent to {place} ({status}): {said or response.reason}"
    return scrubbed(words, token)


def _without_answer(error: BaseException, place: str) -> str:
    for link in _chain(error):
        if isinstance(link, NotThereYet):
            return f"{link}: {place} does not hold what was uploaded. Is there a .gitignore in it?"
        if isinstance(link, requests.exceptions.JSONDecodeError):
            return (
                "What answers at HF_ENDPOINT does not speak the Hub's protocol. Unset HF_ENDPOINT, "
                "or name a Hub in it"
            )
        if isinstance(link, requests.exceptions.SSLError):
            return f"No safe connection to the Hub: {_innermost(link)}"
        if isinstance(link, _PASSING):
            return f"The Hub cannot be reached: {_innermost(link)}. Is there a network here?"
        if isinstance(link, requests.exceptions.RequestException):
            return f"The Hub cannot be asked ({type(link).__name__}: {link}). See HF_ENDPOINT"
    first = (str(error).splitlines() or [""])[0]
    return f"Publishing to {place} failed: {type(error).__name__}: {first}"


def _innermost(error: BaseException) -> str:
    """The system's own words in an error of the network."""
    request = getattr(error, "request", None)
    where = f" ({_host(request.url)})" if getattr(request, "url", None) else ""
    found = re.findall(r"\[Errno -?\d+\] ([^'\"()]+)", str(error))
    timed_out = "timed out" if isinstance(error, requests.Timeout) else "connection failed"
    words = found[-1].strip() if found else timed_out
    return f"{words}{where}"


def _host(url: str | None) -> str:
    """Scheme, host and port of an address, without what stands before an @."""
    parts = urlsplit(url or "")
    port = f":{parts.port}" if parts.port else ""
    return f"{parts.scheme}://{parts.hostname}{port}"


def _said(error: BaseException, response) -> str:
    """The server's own message, in one line of at most 300 characters."""
    found = next((m for link in _chain(error) if (m := getattr(link, "server_message", None))), "")
    found = found or response.headers.get("X-Error-Message", "")
    return " ".join(str(found).split())[:300].rstrip(".")
