"""The Hub's own client, set up for unattended uploads by Git LFS, and what the Hub or the network
answered, in words."""

import contextlib
import os
import re
from collections.abc import Iterator
from urllib.parse import urlsplit

import huggingface_hub
import requests
from huggingface_hub.utils import disable_progress_bars, logging
from urllib3.util.retry import Retry

from mlm.foundations.errors import MlmError
from mlm.publishing.artefacts import Destination

#: Seconds to connect, and seconds without a byte. A commit of many files takes its time.
TIME_LIMITS = (10.0, 120.0)
#: For failures that may pass: a lost connection, too many requests, a conflict with another commit.
#: The client repeats uploads (PUT) itself.
RETRIES = Retry(
    total=4,
    allowed_methods={"GET", "HEAD", "POST"},
    status_forcelist={408, 412, 425, 429, 500, 502, 503, 504},
    backoff_factor=1.0,
    backoff_max=60,
    retry_after_max=300,
    # The last answer says what is wrong.
    raise_on_status=False,
)
_HINTS = {
    401: "The token in HF_TOKEN is mistyped, expired or revoked: make one with write permission",
    402: "Free some space there, or ask for more",
    403: "Name a repository of your own in publish, set HF_TOKEN to a token that may write there, "
    "or free some space",
    429: "Wait for a while",
}


class _Patient(requests.adapters.HTTPAdapter):
    """Repeats requests, and gives up one without an answer, for which the client waits for ever."""

    def send(self, request, *arguments, **named):
        named["timeout"] = named.get("timeout") or TIME_LIMITS
        return super().send(request, *arguments, **named)


def _session() -> requests.Session:
    session = requests.Session()
    for scheme in ("http://", "https://"):
        session.mount(scheme, _Patient(max_retries=RETRIES))
    # Else a .netrc would take the place of the token.
    session.auth = lambda request: request
    return session


@contextlib.contextmanager
def hub_client(token: str) -> Iterator[huggingface_hub.HfApi]:
    """The client for HF_ENDPOINT (else huggingface.co) with `token`; its settings are global, and
    restored at the end. MlmError if the environment does not allow it."""
    constants = huggingface_hub.constants
    if constants.HF_HUB_OFFLINE:
        raise MlmError("HF_HUB_OFFLINE or TRANSFORMERS_OFFLINE is set. Unset it to publish")
    endpoint = os.environ.get("HF_ENDPOINT", "https://huggingface.co").rstrip("/")
    if "@" in urlsplit(endpoint).netloc:
        # They would be sent in the place of the token.
        raise MlmError("HF_ENDPOINT holds a user name or password. Remove it; it is not shown here")
    xet, constants.HF_HUB_DISABLE_XET = constants.HF_HUB_DISABLE_XET, True
    # The client's warnings show signed links.
    verbosity = logging.get_verbosity()
    logging.set_verbosity_error()
    disable_progress_bars()
    huggingface_hub.configure_http_backend(_session)
    try:
        yield huggingface_hub.HfApi(endpoint=endpoint, token=token)
    finally:
        logging.set_verbosity(verbosity)
        constants.HF_HUB_DISABLE_XET = xet
        huggingface_hub.configure_http_backend()


def hub_error(error: Exception, destination: Destination) -> str | None:
    """What went wrong and what to do; None if neither the Hub nor the network is to blame."""
    cause: BaseException | None = error
    # The client wraps what an upload raised.
    while cause and not isinstance(cause, requests.RequestException):
        cause = cause.__cause__ or cause.__context__
    if cause is None:
        return None
    response = cause.response
    if response is None:
        reasons = re.findall(r"\[Errno -?\d+\] ([^'\"()]+)|(timed out)", str(cause))
        reason = "".join(reasons[-1]).strip() if reasons else f"{type(cause).__name__}: {cause}"
        return f"The Hub cannot be reached: {reason}. Check the network and HF_ENDPOINT"
    status = response.status_code
    answer = getattr(cause, "server_message", None) or response.text or response.reason
    message = " ".join(answer.split())[:300].rstrip(".")
    words = f"The Hub refused what was sent to {destination} ({status}): {message}"
    return f"{words}. {_HINTS[status]}" if status in _HINTS else words
