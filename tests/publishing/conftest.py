"""A Hub on this machine, and a token for it."""

import pytest
from huggingface_hub import constants

from tests.publishing.hub_server import HubServer

TOKEN = "hf_" + "TestOnly" * 4
READING = "hf_" + "ReadOnly" * 4


@pytest.fixture
def hub(monkeypatch):
    """The Hub with a token that may write (in HF_TOKEN) and one that may only read."""
    with HubServer({TOKEN: True, READING: False}) as server:
        monkeypatch.setenv("HF_TOKEN", TOKEN)
        monkeypatch.setenv("HF_ENDPOINT", server.address)
        # The client reads the address once, when it is imported.
        monkeypatch.setattr(constants, "ENDPOINT", server.address)
        yield server
    assert server.wrong == []
