"""docs/tutorial.md, block by block: what it says is typed is typed, and what it shows is seen."""

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
evaluation: {bootstrap: {resamples: 100}, train_samples: 32, samples: 2}
""")
#: What another machine, or a smaller model, prints otherwise: in lines that begin so, and anywhere.
VARIES = {
    r"Disk: |corpus |tokenizer |shards |pretrain \[libros\] |evaluate |in all |Times are ": [
        (r"([\d.]+ to )?[\d.]+ (s|min|kB|MB|GB)\b", "N"),
        (r" {2,}", "  "),
    ],
    r".+: done in ": [(r"(?<=[ (])\d[\d.,%]*( min| ms| s)?", "N")],
    r" +[\d.]+%  ": [(r".+", "an answer")],
    r"Error in rule pretrain: Stopped by ": [(r"(after step) \d+|[0-9a-f]{16}", r"\1 N")],
    # With smaller batches a sample's step is another; its epoch and its masks are not.
    r"Run libros: | +step ": [(r"(step|of) [\d,]+", r"\1 N")],
    # A busy machine says so, and a stage that takes half a minute shows its progress.
    r"Note: Other processes |[\w ]+: [\w ]+: [\d,.]+( \w+)? of ": [(r".*\n", "")],
}


def blocks(page: str) -> list[tuple[str, str]]:
    found = re.findall(r"^```(\w+)\n(.*?)^```$", page, re.M | re.S)
    assert 2 * len(found) == len(re.findall(r"^ *```", page, re.M))
    return found


def commands(block: str) -> list[tuple[str, list[str]]]:
    """The commands of a console block, each with the lines that are shown below it."""
    assert block.startswith("$ ")
    parts = [part.splitlines() for part in re.split(r"^\$ ", block, flags=re.M)[1:]]
    return [(command, shown) for command, *shown in parts]


def merged(below: dict, above: dict) -> dict:
    both = {k: merged(below[k], v) for k, v in above.items() if isinstance(below.get(k), dict)}
    return below | above | both


def unvarying(line: str) -> str:
    line += "\n"
    for beginning, replacements in VARIES.items():
        if re.match(beginning, line):
            for pattern, instead in replacements:
                line = re.sub(pattern, instead, line)
    return line


def assert_shown(shown: list[str], printed: str) -> None:
    """`shown` is what was `printed`; a line of … stands for any number of lines."""
    if not shown:
        return
    wanted = [unvarying(line) for line in shown if line != "^C"]
    pattern = "".join(r"(?:.*\n)*?" if line == "…\n" else re.escape(line) for line in wanted)
    lines = [unvarying(line) for line in printed.splitlines()]
    # Jobs that do not wait for each other stand in any order.
    if sorted(wanted) == sorted(lines):
        return
    seen = "".join(lines)
    assert re.fullmatch(pattern, seen), f"{''.join(wanted)}\n--- is not in ---\n{printed}"


def run(block: list[tuple[str, list[str]]], place: Path, environment: dict) -> list[str]:
    """Run the commands of a block in one shell; what each printed.

    Where ^C is shown, Ctrl-C is pressed once a training has begun. What is asked for at the
    terminal is the token.
    """
    end = "--- end of a command ---"
    script = "\n".join(f"{command}\necho '{end}'" for command, _ in block)
    interrupted = [command for command, shown in block if "^C" in shown]
    assert len(interrupted) in (0, len(block))
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
                training = place / "logs/pretrain/libros.log"
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
    printed = log.read_text()
    assert bool(status) is bool(interrupted), printed
    return [printed] if interrupted else printed.split(f"{end}\n")[:-1]


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
            block = commands(content)
            for (command, shown), printed in zip(
                block, run(block, place, environment), strict=True
            ):
                assert_shown(shown, printed)
                ran.append(command)
    # Each line that looks like a command stands in a block.
    assert ran == re.findall(r"^ *\$ (.+)", page, re.M)

    assert {name for _, name in hub.repos} == {"me/libros-tokenizer", "me/libros-shards"} | {
        "me/libros-1909"
    }
    assert {repo.private for repo in hub.repos.values()} == {True}
    card = hub.files("me/libros-1909")["README.md"].decode()
    for told in ("license: cc0-1.0", "language: es", "Reina-Valera of 1909", "Y dijo [MASK] á M"):
        assert told in card
    assert re.search(r"^\| test, answers hidden \| \d", card, re.M) and "| Steps | 1,600 |" in card
    assert "## Limits" in card and TOKEN not in card
