"""A Hub on this machine, a token for it, and pauses that are noted instead of waited for."""

from types import SimpleNamespace

import huggingface_hub
import pytest

from mlm.publishing import uploads
from tests.publishing.hub_server import Account, HubServer

TOKEN = "hf_" + "TestOnly" * 4
READING = "hf_" + "ReadOnly" * 4
LIMITED = "hf_" + "NoWrites" * 4


@pytest.fixture
def hub(monkeypatch):
    """The Hub: `me` with a token that may write (in HF_TOKEN), one that reads, one that may not."""
    accounts = {
        TOKEN: Account("me", orgs=("lab",)),
        READING: Account("me", role="read"),
        LIMITED: Account("me", role="none"),
    }
    with HubServer(accounts) as server:
        monkeypatch.setenv("HF_TOKEN", TOKEN)
        monkeypatch.setenv("HF_ENDPOINT", server.address)
        # The client reads the address once, when it is imported.
        monkeypatch.setattr(huggingface_hub.constants, "ENDPOINT", server.address)
        yield server
    assert server.wrong == []


@pytest.fixture
def pauses(monkeypatch) -> list[float]:
    """Seconds that would have been waited for between attempts."""
    waited: list[float] = []
    clock = SimpleNamespace(sleep=waited.append)
    monkeypatch.setattr(uploads, "time", clock)
    monkeypatch.setattr(huggingface_hub.utils._http, "time", clock)
    return waited
