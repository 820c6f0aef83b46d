"""Trains one run in this process: alone, or as one of several that the rule's job has started.

As a program it is one of several, and reads from its parent what to train.
"""

from contextlib import contextmanager
from pathlib import Path

import job_adapter  # noqa: F401  (the library's path)


def train(request):
    """Train as `request` says: what rule `pretrain` asks for, JSON-like."""
    from mlm.accelerators.gate import require_passed
    from mlm.publishing.background import PushSettings, background_pushes
    from mlm.tokenizer.tokenizer_files import TOKENIZER_FILES
    from mlm.training.live import LiveSettings, live_page
    from mlm.training.periodic_actions import DoneElsewhere
    from mlm.training.pretrain import RunResults, train_and_export
    from mlm.training.run_inputs import RunFiles, RunSettings

    settings = dict(request["settings"])
    if settings["parent"]:
        settings["parent"] = RunSettings(**settings["parent"])
    settings, files = RunSettings(**settings), RunFiles(**request["files"])
    pushing = PushSettings(**request["push"]) if request["push"]["every"] else None
    beside = tuple(Path(files.tokenizer).parent / name for name in TOKENIZER_FILES)

    def before_found_tpu(run, step):
        if request["preflight"]:
            require_passed(request["preflight"], run, step)

    @contextmanager
    def pushes(state, leads):
        # All processes stop to look at the same steps, whether there is a token or not.
        elsewhere = DoneElsewhere(pushing.every) if pushing else None
        with background_pushes(pushing if leads else None, state, beside) as own:
            yield own or elsewhere

    live = LiveSettings(**request["live"]) if request["live"] else None

    def shown(run, framework, state):
        return live_page(live, run, framework, files.tokenizer, state)

    results = RunResults(**request["results"])
    # Where a checkpoint is pushed, all processes stop to look.
    alike = {"publish.checkpoints.every": request["push"]["every"]}
    train_and_export(settings, files, results, before_found_tpu, pushes, shown, alike)


def main():
    from mlm.training.processes import ended_at_once, request_of_parent

    with ended_at_once():
        train(request_of_parent())


if __name__ == "__main__":
    main()
