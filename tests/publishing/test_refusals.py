"""Whatever is wrong comes out as one clear message, without the token, and nothing is lost."""

import traceback

import pytest
from huggingface_hub import CommitOperationAdd

from mlm.foundations.errors import MlmError
from mlm.publishing.artefacts import Destination
from mlm.publishing.secrecy import scrubbed, token_from_environment
from mlm.publishing.uploads import publish
from tests.publishing.conftest import LIMITED, READING, TOKEN
from tests.publishing.hub_server import Fault

UNKNOWN = "hf_" + "Revoked" * 5
FILES = (
    CommitOperationAdd("model.safetensors", b"\0" * 1000),
    CommitOperationAdd("README.md", b"---\nlicense: other\n---\n"),
)


def refusal(repository: str = "me/model", private: bool = True, attempts: int = 2) -> str:
    with pytest.raises(MlmError) as caught:
        publish(Destination(repository, "model", private), FILES, "Publish", attempts)
    shown = "".join(traceback.format_exception(caught.value))
    assert not any(token in shown for token in (TOKEN, READING, LIMITED, UNKNOWN))
    return str(caught.value)


def test_without_a_token_nothing_is_asked(hub, monkeypatch):
    for value in (None, "", "  \n"):
        monkeypatch.delenv("HF_TOKEN") if value is None else monkeypatch.setenv("HF_TOKEN", value)
        assert "in the environment variable HF_TOKEN, and there is none" in refusal()
    assert hub.requests == []


def test_a_stored_login_is_not_used(hub, monkeypatch, tmp_path):
    monkeypatch.delenv("HF_TOKEN")
    (tmp_path / "token").write_text(TOKEN)
    monkeypatch.setenv("HF_TOKEN_PATH", str(tmp_path / "token"))
    assert "there is none" in refusal()


@pytest.mark.parametrize("value", [f"{TOKEN} x", f"{TOKEN}\n{TOKEN}", f"{TOKEN}é", f"{TOKEN}\x00"])
def test_a_garbled_token_is_told_and_not_shown(monkeypatch, value):
    monkeypatch.setattr("os.environ", {"HF_TOKEN": value})
    with pytest.raises(MlmError, match="characters that no token has") as caught:
        token_from_environment()
    assert TOKEN not in str(caught.value)
    monkeypatch.setattr("os.environ", {"HF_TOKEN": f" {TOKEN}\n"})
    assert token_from_environment() == TOKEN, "the blanks around it do no harm"


@pytest.mark.parametrize(
    "token, words",
    [
        (UNKNOWN, "does not know the token in HF_TOKEN (401): it is mistyped, expired or"),
        (READING, "has no write permission"),
        (LIMITED, "Not allowed to write to the model repository me/model (403: This token lacks"),
    ],
)
def test_a_token_that_is_unknown_or_may_not_write(hub, monkeypatch, token, words):
    monkeypatch.setenv("HF_TOKEN", token)
    if token != UNKNOWN:
        hub.make_repo("model", "me/model", private=True)
    assert words in refusal()
    assert hub.uploads == []


@pytest.mark.parametrize("exists", ["not", "private", "public"])
def test_a_repository_of_someone_else(hub, exists):
    if exists != "not":
        hub.make_repo("model", "other/model", private=exists == "private")
    assert "belongs to someone else" in refusal("other/model", private=exists != "public")
    if exists != "not":
        assert hub.files("other/model") == {}


def test_nothing_private_goes_into_a_public_repository(hub):
    hub.make_repo("model", "me/model", private=False)
    assert "exists and is public, and publish.private is true" in refusal()
    assert hub.files("me/model") == {} and hub.uploads == []


QUOTA = "Private repository storage limit reached, please upgrade your plan"
LICENCE = {"errors": [{"message": '"license" must be one of [apache-2.0, …]'}]}


@pytest.mark.parametrize(
    "fault, words",
    [
        (Fault("POST", "validate-yaml", status=400, body=LICENCE), '"license" must be one of'),
        (
            Fault("POST", "batch", status=403, headers={"X-Error-Message": QUOTA}),
            f"refuses to take more into the model repository me/model (403): {QUOTA}",
        ),
        (Fault("POST", "preupload", status=429, times=9), "too many requests (429)"),
        (Fault("GET", "models/me/model", status=200, body={"hello": "world"}), "me/model failed"),
    ],
)
def test_what_the_hub_says_is_told(hub, pauses, fault, words):
    hub.faults.append(fault)
    assert words in refusal()
    assert pauses == ([1.0] if fault.status == 429 else [])


def test_no_network(hub, monkeypatch, pauses):
    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:9")
    message = refusal(attempts=3)
    assert "cannot be reached: Connection refused (http://127.0.0.1:9)" in message
    assert message.endswith("the same command resumes")
    assert pauses == [1.0, 2.0]
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    assert "HF_HUB_OFFLINE" in refusal()


def test_a_hub_that_does_not_answer(hub, pauses, monkeypatch):
    monkeypatch.setattr("mlm.publishing.hub.TIME_LIMITS", (1.0, 0.2))
    hub.rate = 500
    assert "cannot be reached: timed out" in refusal()


def test_an_endpoint_that_is_no_address_or_holds_a_password(hub, monkeypatch):
    """The client would send it in the place of the token."""
    monkeypatch.setenv("HF_ENDPOINT", "huggingface.co")
    assert "No scheme supplied" in (message := refusal()) and "See HF_ENDPOINT" in message
    monkeypatch.setenv("HF_ENDPOINT", hub.address.replace("//", "//user:s3cret@"))
    message = refusal()
    assert "HF_ENDPOINT holds a user name or password" in message and "s3cret" not in message
    assert hub.requests == []


def test_an_error_of_the_program_itself_shows_no_token(hub, monkeypatch, capsys):
    def broken(*_):
        raise RuntimeError(f"headers were Authorization: Bearer {TOKEN}")

    monkeypatch.setattr("mlm.publishing.uploads._commit", broken)
    assert "RuntimeError" in refusal()
    shown = capsys.readouterr().err
    assert "in broken" in shown, "a bug keeps its traceback"
    assert TOKEN not in shown


def test_warnings_of_the_client_show_no_signed_link(hub, pauses, capsys):
    hub.faults.append(Fault("PUT", "storage", status=503))
    publish(Destination("me/model", "model", True), FILES, "Publish", 2)
    shown = capsys.readouterr().err
    assert "HTTP Error 503 thrown while requesting PUT" in shown
    assert "signed-secret" not in shown and TOKEN not in shown


@pytest.mark.parametrize(
    "text",
    [
        f"token {TOKEN}.",
        "Bearer abcdef0123456789",
        "authorization: Basic dXNlcjpzZWNyZXQ=",
        "via http://user:s3cret@proxy:3128/",
        "PUT https://bucket.s3.amazonaws.com/x?X-Amz-Signature=s3cret&y=1 failed",
        "another hf_AbCdEfGhIjKl0123",
    ],
)
def test_secrets_are_left_out_of_a_text(text):
    secrets = (TOKEN, "abcdef", "dXNl", "s3cret", "hf_AbCdEfGh")
    assert not [s for s in secrets if s in scrubbed(text, TOKEN)]
