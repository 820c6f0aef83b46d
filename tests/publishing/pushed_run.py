"""A small pretraining in a process of its own, with checkpoints pushed or not."""

import multiprocessing
import os
import sys
from pathlib import Path
from unittest import mock

TESTS = Path(__file__).parents[1]
_CONTEXT = multiprocessing.get_context("forkserver")


def train(root: str, name: str, pushing: dict | None, environment: dict, fault: dict) -> None:
    """The whole of a training, its standard error appended to root/name.stderr.

    Ends with 3 after an MlmError. `fault` is that of small_run.
    """
    with open(f"{root}/{name}.stderr", "a") as log:
        os.dup2(log.fileno(), 2)
    os.environ.update(environment)
    import small_run

    from mlm.config.publish import Publish
    from mlm.foundations.errors import MlmError
    from mlm.publishing.background import background_pushes
    from mlm.tokenizer.tokenizer_files import TOKENIZER_FILES
    from mlm.training.pretrain import prepare, pretrain

    small_run._arm(fault)
    job = small_run.small_job(Path(root), name, {"pretraining": {"steps_per_execution": 3}})
    publish = Publish.of_param(pushing) if pushing else None
    beside = [Path(root) / "tokenizer" / file for file in TOKENIZER_FILES]
    try:
        training = prepare(*job)
        with background_pushes(publish, training.states.path, beside) as pushes:
            pretrain(training, small_run.small_results(Path(root), name), [pushes] * bool(pushes))
    except MlmError as error:
        print(f"MlmError: {error}", file=sys.stderr)
        sys.stderr.flush()
        os._exit(3)


def run(root: Path, name: str, pushing: dict | None = None, fault: dict | None = None) -> int:
    """Train to the end, good or bad; the exit status."""
    places = [str(TESTS / "training"), str(TESTS.parent / "scripts"), str(TESTS.parent)]
    # Imported once, and forked.
    _CONTEXT.set_forkserver_preload(["mlm.training.pretrain", "small_run"])
    names = ("HF_TOKEN", "HF_ENDPOINT")
    environment = {key: os.environ[key] for key in names if key in os.environ}
    arguments = (str(root), name, pushing, environment, fault or {})
    child = _CONTEXT.Process(target=train, args=arguments)
    with mock.patch.dict(os.environ, {"PYTHONPATH": os.pathsep.join(places)}):
        child.start()
    child.join()
    return child.exitcode
