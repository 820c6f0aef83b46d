"""A failure is one clear message without the token, and nothing is lost."""

import traceback
from unittest import mock

import pytest

from mlm.foundations.errors import MlmError
from mlm.publishing.uploads import Destination, publish, scrubbed
from tests.publishing.conftest import READING, TOKEN
from tests.publishing.hub_server import Repo

UNKNOWN = "hf_" + "Revoked" * 5


def refusal(repository: str = "me/model", private: bool = True) -> str:
    files = {"model.safetensors": "\0" * 1000, "README.md": "---\nlicense: other\n---\n"}
    with pytest.raises(MlmError) as caught:
        publish(Destination(repository, private), files, "Publish")
    shown = "".join(traceback.format_exception(caught.value))
    assert not any(token in shown for token in (TOKEN, READING, UNKNOWN))
    return str(caught.value)


def test_a_stored_login_or_a_garbled_token_is_not_used(hub, monkeypatch, tmp_path):
    (tmp_path / "token").write_text(TOKEN)
    monkeypatch.setenv("HF_TOKEN_PATH", str(tmp_path / "token"))
    for value in ("", "  \n", f"{TOKEN} x", f"{TOKEN}\n{TOKEN}", f"{TOKEN}é"):
        monkeypatch.setenv("HF_TOKEN", value)
        assert "HF_TOKEN" in refusal()
    assert hub.requests == []


@pytest.mark.parametrize(("token", "status"), [(UNKNOWN, "401"), (READING, "403")])
def test_a_token_that_is_unknown_or_may_not_write(hub, monkeypatch, token, status):
    monkeypatch.setenv("HF_TOKEN", token)
    hub.repos["me/model"] = Repo(private=True)
    message = refusal()
    assert status in message and "HF_TOKEN" in message
    assert hub.files("me/model") == {} and hub.uploads == []


@pytest.mark.parametrize("private", [True, False])
def test_a_repository_of_someone_else(hub, private):
    hub.repos["other/model"] = Repo(private)
    assert "403" in refusal("other/model", private)


def test_nothing_private_goes_into_a_public_repository(hub):
    hub.repos["me/model"] = Repo(private=False)
    assert "publish.private" in refusal()
    assert hub.files("me/model") == {} and hub.uploads == []


def test_no_network(hub, monkeypatch):
    monkeypatch.setattr("huggingface_hub.constants.ENDPOINT", "http://127.0.0.1:9")
    message = refusal()
    assert "Connection refused" in message and "HF_ENDPOINT" in message
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    assert "HF_HUB_OFFLINE" in refusal()
    assert hub.requests == []


def test_an_error_of_the_program_shows_its_traceback_and_no_token(hub, monkeypatch, capsys):
    broken = mock.Mock(side_effect=RuntimeError(f"headers were Authorization: Bearer {TOKEN}"))
    monkeypatch.setattr("mlm.publishing.uploads._published", broken)
    assert "RuntimeError" in refusal()
    shown = capsys.readouterr().err
    assert "Traceback" in shown and TOKEN not in shown


def test_secrets_are_left_out_of_a_text():
    text = f"""token {TOKEN} via http://user:s3cret@proxy:3128/
        PUT https://bucket.s3.amazonaws.com/x?X-Amz-Signature=s3cret&y=1 failed"""
    assert not [secret for secret in (TOKEN, "s3cret") if secret in scrubbed(text, TOKEN)]
