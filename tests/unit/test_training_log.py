from types import SimpleNamespace

from mlm.config.optimizers import Optimizer
from mlm.training.console import Console
from mlm.training.learning_rate import with_lengths
from mlm.training.periodic_actions import Logging
from mlm.training.training_log import TrainingLog


def test_a_row_at_the_step_that_compiles_tells_no_time_left(monkeypatch, capsys):
    """Compilation, as after a resume one step before a row, is no measure of what is to come."""
    clock = SimpleNamespace(now=0.0)
    monkeypatch.setattr("mlm.training.console.time.monotonic", lambda: clock.now)
    section = SimpleNamespace(
        optimizer=with_lengths(Optimizer(), 1040),
        validation=SimpleNamespace(every=1000),
        log_every=20,
    )
    train = SimpleNamespace(num_samples=100, sequence_length=16)
    run = SimpleNamespace(name="base", steps=1040, batch_size=4, train=train, pretraining=section)
    log, console = TrainingLog(), Console(run)
    logging = Logging(run, log, console)
    for step, now in ((20, 100.0), (40, 110.0)):
        clock.now = now
        log.sums.add({"loss": 4.0, "accuracy": 0.1}, 20)
        console.advanced(step)
        logging.act(step, None)
    compiled, first, second = capsys.readouterr().err.splitlines()
    assert compiled == "base: compiled in 0:01:40"
    assert "step 20/1040" in first and "left" not in first and "tokens/s" not in first
    # A thousand steps at half a second each.
    assert "128 tokens/s, 0:08:20 left" in second
