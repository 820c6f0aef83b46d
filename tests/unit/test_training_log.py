import csv
from dataclasses import replace

import pytest

from mlm.training.training_log import Row, TrainingProgress, write_rows

ROW = Row(20, 0.5, 4.25, 0.125, None, None, 3e-4, 1234.5)


def test_a_row_reads_back_as_it_was_written(tmp_path):
    write_rows(tmp_path / "training.csv", [ROW, Row(40, 1.0, 4.0, 0.2, 4.1, 0.19, 1e-4, 99.0)])
    with open(tmp_path / "training.csv") as file:
        first, second = csv.DictReader(file)
    assert list(first) == list(Row.__dataclass_fields__)
    assert (first["validation_loss"], first["validation_accuracy"]) == ("", "")
    assert float(first["loss"]) == 4.25
    assert float(second["validation_loss"]) == 4.1
    assert float(first["learning_rate"]) == 3e-4


def test_a_row_at_the_step_that_compiles_tells_no_time_left(monkeypatch, capsys):
    """Compilation, as after a resume one step before a row, is no measure of what is to come."""
    clock = iter([100.0, 100.0, 100.0, 110.0, 110.0])
    monkeypatch.setattr("mlm.training.training_log.time.monotonic", lambda: next(clock))
    progress = TrainingProgress("base", steps=1040, tokens_per_step=64, _start=0.0)
    progress.begin(20)
    row = replace(ROW, step=20, tokens_per_second=progress.rate(20))
    assert row.tokens_per_second is None and "" in row.cells()
    progress.show(row)
    said = capsys.readouterr().err
    assert "base: compiled in 0:01:40" in said
    assert "step 20/1040" in said and "left" not in said and "tokens/s" not in said
    progress.begin(40)
    row = replace(ROW, step=40, tokens_per_second=progress.rate(40))
    assert row.tokens_per_second == pytest.approx(20 * 64 / 10)
    progress.show(row)
    # A thousand steps at half a second each.
    assert "128 tokens/s, 0:08:20 left" in capsys.readouterr().err
