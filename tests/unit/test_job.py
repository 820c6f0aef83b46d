import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from tests.conftest import refusal

from mlm.foundations.artefacts import made_from, write_artefact
from mlm.foundations.job import record_job
from mlm.foundations.snakemake_session import hold_directory

SCRIPTS = Path(__file__).parents[2] / "scripts"
#: A job's script, which does what is put in.
PROGRAM = """
import os, signal, sys, time
from types import SimpleNamespace
from mlm.foundations.artefacts import write_artefact
from mlm.foundations.atomic import replacing
from mlm.foundations.errors import MlmError
from mlm.foundations.job import Done, Job
from mlm.foundations.terminal import answer
class Files(dict):
    __iter__ = lambda self: iter(self.values())
def main(job):
    {does}
named = dict(input=Files({input}), output=Files({output}), params=Files(), wildcards=Files())
job = Job(SimpleNamespace(log=["logs/x.log"], rule="x", **named))
job.begin()
job.run(main)
"""
WAITS = """print('at work', sys.argv[1], flush=True)
    while not os.path.exists('go'):
        time.sleep(0.01)
    open('order', 'a').write(sys.argv[1] + chr(10))"""
KILLS_ITSELF = """with replacing('x.json') as temporary:
        temporary.write_text('half')
        os.kill(os.getpid(), {})"""


def started(does, *arguments, input="", output=""):
    """A job under way in the working directory."""
    return subprocess.Popen(
        [sys.executable, "-c", PROGRAM.format(does=does, input=input, output=output), *arguments],
        env=os.environ | {"PYTHONPATH": str(SCRIPTS)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def shown_by(does, status=0, **files):
    """What a job shows: on standard output, and at the terminal."""
    ran = started(does, **files)
    shown = ran.communicate(timeout=60)
    assert ran.returncode == status, shown
    return shown


@pytest.mark.parametrize(
    "error, words",
    [
        ("MlmError('the file is empty')", "Error in rule x: the file is empty"),
        ("PermissionError(13, 'Permission denied', 'r')", "r: Permission denied. Give this user"),
        (r"MlmError('\x1b[31m \x9b1A \u202eb \udc80')", r"\x1b[31m \x9b1A \u202eb \udc80"),
        (
            "RuntimeError('{{node x}} state/a/events.v2; Disk quota exceeded\\\\n\\\\tFailed')",
            "No space left on the disk or in the quota (state/a/events.v2)",
        ),
        ("ZeroDivisionError('oops')", "Traceback"),
    ],
    ids=["a user's", "a refused write", "codes for the terminal", "a full disk", "a bug"],
)
def test_a_bug_alone_has_a_traceback_and_no_message_controls_the_terminal(here, error, words):
    _, shown = shown_by(f"raise {error}", status=1)
    assert words in shown and ("Traceback" in shown) == ("Zero" in error)
    assert (here / "logs/x.log").read_text() == shown


def test_a_full_disk_is_told_in_words_though_the_log_fails_first(here):
    """/dev/full answers every write as a full disk does."""
    (here / "logs").mkdir()
    (here / "logs/x.log").symlink_to("/dev/full")
    printed, shown = shown_by("open('/dev/full', 'w').write('results' * 10_000)", status=1)
    assert "Traceback" not in shown + printed
    assert "Error in rule x: No space left on the disk" in shown


def test_a_job_waits_for_the_same_job_of_a_killed_run(here):
    (here / ".snakemake").mkdir()
    first = started(WAITS, "first")
    assert first.stdout.readline() == "at work first\n"
    second = started(WAITS, "second")
    said = next(line for line in second.stderr if "is still at work" in line)
    (here / "go").touch()
    second.communicate(timeout=60)
    first.communicate(timeout=60)
    assert (here / "order").read_text() == "first\nsecond\n"
    assert f"kill process {first.pid} on " in said


def test_a_directory_is_held_until_its_process_ends_however_it_ends(here):
    (here / ".snakemake").mkdir()
    holds = "from mlm.foundations.snakemake_session import hold_directory\n    hold_directory()"
    first = started(f"{holds}\n    {WAITS}", "first")
    assert first.stdout.readline() == "at work first\n"
    assert f"process {first.pid} on " in refusal(hold_directory)
    first.kill()
    first.communicate(timeout=60)
    hold_directory()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_a_job_through_its_clean_up_in_one_line(here, number):
    _, shown = shown_by(KILLS_ITSELF.format(int(number)), status=128 + number)
    assert shown == f"x: started\n\nStopped by {number.name}. The same command continues.\n"
    assert [p.name for p in here.iterdir()] == ["logs"]


def test_what_was_fetched_from_a_bucket_changes_no_record(here):
    manifest, shard, summary = (f"results/{name}" for name in ("m.json", "s.tfrecord", "t.json"))
    (here / "results").mkdir()
    (here / shard).write_bytes(b"samples")
    write_artefact(manifest, {"shards": 1})
    record_job("manifest", {}, {}, [manifest, shard])
    records = []
    for staged in ("", f", staged='{shard}'"):
        files = {"input": f"manifest='{manifest}'{staged}", "output": f"summary='{summary}'"}
        shown_by(f"write_artefact('{summary}', dict(step=1))", **files)
        records.append(made_from(summary))
    assert records[0] == records[1] and list(records[0].inputs) == [manifest]


def test_details_are_in_the_log_alone_and_the_terminal_shows_beginning_and_end(here):
    does = """print('a detail', file=sys.stderr)
    os.write(2, b'of a library in C\\n')
    answer(chr(27) + ']0;title')
    return Done('7 documents')"""
    printed, shown = shown_by(does)
    assert re.fullmatch(r"x: started\nx: done in [\d.]+ s \(7 documents\)\n", shown)
    assert printed == "\\x1b]0;title\n", "an answer cannot control the terminal"
    first, *details, last = (here / "logs/x.log").read_text().splitlines()
    assert [first, last] == shown.splitlines()
    assert details == ["a detail", "of a library in C", "\\x1b]0;title"]
