"""docs/tutorial.md, block by block: each command that it shows ends well."""

import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import yaml

from tests.conftest import users_environment
from tests.publishing.hub_server import HubServer

from .conftest import ROOT, copy_of_the_repository

pytestmark = [pytest.mark.workflow, pytest.mark.slow]

TOKEN = "hf_" + "Tutorial" * 4
#: Laid under my-corpus.yaml, as other defaults: the steps of the page, each of them tiny.
SMALLER = yaml.safe_load("""
model:
  config:
    {hidden_size: 32, num_hidden_layers: 1, num_attention_heads: 4, intermediate_size: 64}
pretraining: {per_replica_batch_size: 16}
evaluation: {max_tokens: 4000}
""")


def blocks(page: str) -> list[tuple[str, str]]:
    found = re.findall(r"^```(\w+)\n(.*?)^```$", page, re.M | re.S)
    assert 2 * len(found) == len(re.findall(r"^ *```", page, re.M))
    return found


def commands(block: str) -> list[tuple[str, list[str]]]:
    """The commands of a console block, each with the lines that are shown below it."""
    assert block.startswith("$ ")
    parts = [
        part.replace("\\\n", "").splitlines() for part in re.split(r"^\$ ", block, flags=re.M)[1:]
    ]
    return [(command, shown) for command, *shown in parts]


def merged(below: dict, above: dict) -> dict:
    both = {k: merged(below[k], v) for k, v in above.items() if isinstance(below.get(k), dict)}
    return below | above | both


def run(block: list[tuple[str, list[str]]], place: Path, environment: dict) -> None:
    """Run the commands of a block in one shell.

    Where ^C is shown, Ctrl-C is pressed once a training has begun. What is asked for at the
    terminal is the token.
    """
    script = "\n".join(command for command, _ in block)
    interrupted = any("^C" in shown for _, shown in block)
    log = place.parent / "printed.txt"
    with open(log, "w") as out:
        shell = subprocess.Popen(
            ["bash", "-euo", "pipefail", "-c", script],
            cwd=place,
            env=environment,
            stdin=subprocess.PIPE,
            stdout=out,
            stderr=out,
            text=True,
            start_new_session=True,
        )
        try:
            shell.stdin.write(TOKEN + "\n")
            shell.stdin.close()
            if interrupted:
                # The configuration's last steps are far away then.
                training = place / "my-project/logs/pretrain/libros.log"
                begun = re.compile(r"^libros: step \d+/1600", re.M)
                # Snakemake removes the log of the training before.
                while not (training.exists() and begun.search(training.read_text())):
                    assert shell.poll() is None, log.read_text()
                    time.sleep(0.1)
                # As a terminal does: all that it runs in the foreground.
                os.killpg(shell.pid, signal.SIGINT)
            status = shell.wait(900)
        finally:
            if shell.poll() is None:
                os.killpg(shell.pid, signal.SIGKILL)
    assert bool(status) is interrupted, log.read_text()


@pytest.fixture
def hub():
    with HubServer({TOKEN: True}) as server:
        yield server
    assert server.wrong == []


def test_a_newcomer_comes_from_text_files_to_published_cards(tmp_path, hub):
    page = (ROOT / "docs" / "tutorial.md").read_text(encoding="utf-8")
    place = tmp_path / "clone"
    place.mkdir()
    copy_of_the_repository(place)
    (place / ".venv").symlink_to(sys.prefix)
    defaults = yaml.safe_load((place / "config.yaml").read_text())
    (place / "config.yaml").write_text(yaml.safe_dump(merged(defaults, SMALLER)))
    environment = users_environment() | {"HF_ENDPOINT": hub.address}
    environment.pop("HF_TOKEN", None)

    overlay, ran = place / "my-corpus.yaml", []
    for language, content in blocks(page):
        if language == "yaml" and not overlay.exists():
            overlay.write_text(content)
        elif language == "yaml":
            written = yaml.safe_load(overlay.read_text())
            overlay.write_text(yaml.safe_dump(merged(written, yaml.safe_load(content))))
        else:
            assert language == "console"
            run(block := commands(content), place, environment)
            ran += [command for command, _ in block]
    # Each line that looks like a command stands in a block.
    assert ran == re.findall(r"^ *\$ (.+)", page.replace("\\\n", ""), re.M)

    names = {"me/libros-tokenizer", "me/libros-1909"}
    assert set(hub.repos) == names
    assert {repo.private for repo in hub.repos.values()} == {True}
    card = hub.files("me/libros-1909")["README.md"].decode()
    assert "license: cc0-1.0" in card and "| Steps | 1,600 |" in card and TOKEN not in card
