import os
import re
import signal
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from mlm.foundations.artefacts import made_from, record_job, write_artefact
from mlm.foundations.errors import MlmError
from mlm.foundations.job import run
from mlm.foundations.terminal import answer


class Files(dict):
    def __iter__(self):
        return iter(self.values())


def job(tmp_path, **files):
    named = {
        kind: Files(files.get(kind, {})) for kind in ("input", "output", "params", "wildcards")
    }
    return SimpleNamespace(log=[str(tmp_path / "logs" / "x.log")], rule="x", **named)


def message_of(error, tmp_path, capsys):
    def main(_job):
        raise error

    with pytest.raises(SystemExit) as ended:
        run(main, job(tmp_path))
    assert ended.value.code == 1
    shown = capsys.readouterr().err
    assert (tmp_path / "logs" / "x.log").read_text() == shown
    return shown


@pytest.mark.parametrize(
    "error, words",
    [
        (MlmError("the file is empty"), "Error in rule x: the file is empty"),
        (PermissionError(13, "Permission denied", "r"), "r: Permission denied. Give this user"),
        (MlmError("\x1b[31m \x9b1A \u202eb \udc80"), r"\x1b[31m \x9b1A \u202eb \udc80"),
        (ZeroDivisionError("oops"), "Traceback"),
    ],
    ids=["a problem for the user", "a refused write", "codes for the terminal", "a bug"],
)
def test_a_bug_alone_has_a_traceback_and_no_message_controls_the_terminal(
    tmp_path, capsys, error, words
):
    shown = message_of(error, tmp_path, capsys)
    assert words in shown and ("Traceback" in shown) == isinstance(error, ZeroDivisionError)


def test_a_full_disk_is_told_in_words_whichever_library_met_it(tmp_path, capsys):
    error = RuntimeError("{{function_node x}} state/a/events.v2; Disk quota exceeded\n\tFailed")
    shown = message_of(error, tmp_path, capsys)
    assert "No space left on the disk or in the quota (state/a/events.v2)" in shown
    assert "Traceback" not in shown


def test_a_full_disk_is_told_in_words_though_the_log_fails_first(tmp_path, capfd):
    """/dev/full answers every write as a full disk does."""
    (tmp_path / "logs").mkdir()
    (tmp_path / "logs" / "x.log").symlink_to("/dev/full")

    def main(_job):
        with open("/dev/full", "w") as output:
            output.write("results" * 10_000)

    with pytest.raises(SystemExit) as ended:
        run(main, job(tmp_path))
    shown = capfd.readouterr()
    assert ended.value.code == 1 and "Traceback" not in shown.err + shown.out
    assert "Error in rule x: No space left on the disk" in shown.err


def test_a_job_whose_log_alone_cannot_be_written_goes_on(tmp_path, capfd):
    (tmp_path / "logs").write_text("a file where the directory should be")
    run(lambda _job: print("done"), job(tmp_path))
    shown = capfd.readouterr()
    assert shown.out == "done\n" and "Warning: no log is written" in shown.err


#: A job's script, which does what is put in.
PROGRAM = """
import os, signal, sys, time
import job_adapter
from types import SimpleNamespace
from mlm.foundations.atomic import replacing
def main(job):
    {does}
job = SimpleNamespace(log=["x.log"], rule="x", input={{}}, output={{}}, params={{}}, wildcards={{}})
job_adapter.run(main, job)
"""
WAITS = """print('at work', sys.argv[1], flush=True)
    while not os.path.exists('go'):
        time.sleep(0.01)
    open('order', 'a').write(sys.argv[1] + chr(10))"""
KILLS_ITSELF = """with replacing('x.json') as temporary:
        temporary.write_text('half')
        os.kill(os.getpid(), {})"""


def started(program, place, *arguments):
    scripts = Path(__file__).parents[2] / "scripts"
    return subprocess.Popen(
        [sys.executable, "-c", program, *arguments],
        cwd=place,
        env=os.environ | {"PYTHONPATH": f"{scripts}:{scripts / 'jobs'}"},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def test_a_job_waits_for_the_same_job_of_a_killed_run(tmp_path):
    (tmp_path / ".snakemake").mkdir()
    first = started(PROGRAM.format(does=WAITS), tmp_path, "first")
    assert first.stdout.readline() == "at work first\n"
    second = started(PROGRAM.format(does=WAITS), tmp_path, "second")
    said = next(line for line in second.stderr if "is still at work" in line)
    (tmp_path / "go").touch()
    said += second.communicate(timeout=60)[1]
    first.communicate(timeout=60)
    assert (tmp_path / "order").read_text() == "first\nsecond\n"
    assert "A job of a run that was killed is still at work" in said
    assert f"kill {first.pid}\n" in said


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_a_job_through_its_clean_up_in_one_line(tmp_path, number):
    ran = started(PROGRAM.format(does=KILLS_ITSELF.format(int(number))), tmp_path)
    said = ran.communicate(timeout=60)[1]
    assert ran.returncode == 128 + number
    assert said == f"x: started\n\nStopped by {number.name}. The same command continues.\n"
    assert [p.name for p in tmp_path.iterdir()] == ["x.log"]


def test_what_was_fetched_from_a_bucket_changes_no_record(here):
    manifest, shard, summary = (f"results/{name}" for name in ("m.json", "s.tfrecord", "t.json"))
    (here / "results").mkdir()
    (here / shard).write_bytes(b"samples")
    write_artefact(manifest, {"shards": 1})
    record_job("manifest", {}, {}, [manifest, shard])

    def recorded(**inputs):
        of = job(here, input=inputs, output={"summary": summary})
        run(lambda _: write_artefact(summary, {"step": 1}), of)
        return made_from(summary)

    record = recorded(manifest=manifest)
    assert recorded(manifest=manifest, staged=shard) == record
    assert list(record.inputs) == [manifest]


def test_details_are_in_the_log_alone_and_the_terminal_shows_beginning_and_end(tmp_path):
    does = """print('a detail', file=sys.stderr)
    os.write(2, b'of a library in C\\n')
    return job_adapter.Done('7 documents')"""
    shown = started(PROGRAM.format(does=does), tmp_path).communicate(timeout=60)[1]
    assert re.fullmatch(r"x: started\nx: done in [\d.]+ m?s \(7 documents\)\n", shown)
    first, *details, last = (tmp_path / "x.log").read_text().splitlines()
    assert [first, last] == shown.splitlines() and details == ["a detail", "of a library in C"]


def test_an_answer_is_printed_and_in_the_log_and_cannot_control_the_terminal(tmp_path, capsys):
    run(lambda _job: answer("\x1b]0;title\x07"), job(tmp_path))
    assert capsys.readouterr().out == "\\x1b]0;title\\x07\n"
    assert "\\x1b]0;title" in (tmp_path / "logs" / "x.log").read_text()


def test_a_long_value_in_a_message_is_shortened_and_the_advice_is_not():
    value = repr("'\"x " * 3000)
    words = str(MlmError(f"{value}: wrong. It's the run's fault. Set {'it to 1 ' * 100}"))
    assert len(words) < 1200 and "characters left out" in words
    assert words.endswith(f"wrong. It's the run's fault. Set {'it to 1 ' * 100}")
