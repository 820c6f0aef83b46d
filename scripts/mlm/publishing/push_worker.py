"""The process that pushes checkpoints while another one trains.

Reads one request a line from standard input, {"step": 400, "directory": "…"}, uploads the
directory's files as the commit "Step 400", and answers with a line of JSON. It runs at the
lowest priority, takes no Ctrl-C, and ends when its input does, in the middle of a push if
that is where it is.

    python -m mlm.publishing.push_worker '{"repository": "me/model", "branch": "checkpoints", …}'
"""

import json
import os
import queue
import signal
import sys
import threading
from pathlib import Path

_NICENESS = 19


class Worker:
    """Pushes to one branch of one repository."""

    def __init__(self, settings: dict):
        from mlm.publishing.destination import Destination

        self._attempts = settings.pop("attempts")
        self._destination = Destination(kind="model", **settings)
        self._holder = None

    def answer(self, request: dict) -> dict:
        """The answer to one request: {"step", "commit"} or {"step", "failure": words}."""
        from mlm.foundations.errors import MlmError
        from mlm.publishing.repository import PublishedFile
        from mlm.publishing.transfer import Upload, publish

        step, directory = request["step"], Path(request["directory"])
        try:
            files = tuple(PublishedFile.of(f.name, f) for f in sorted(directory.iterdir()))
            upload = Upload(files, f"Step {step}", self._attempts)
            done = publish(self._destination, upload, self._holder)
        except (MlmError, OSError) as error:
            self._holder = None
            return {"step": step, "failure": str(error)}
        self._holder = done.holder
        return {"step": step, "commit": done.commit}


def _requests(waiting: queue.SimpleQueue) -> None:
    for line in sys.stdin:
        waiting.put(json.loads(line))
    # Whoever asked is gone, or has waited long enough.
    os._exit(0)


def main(argument: str) -> None:
    """Answer requests until standard input ends."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    os.setpriority(os.PRIO_PROCESS, 0, _NICENESS)
    waiting: queue.SimpleQueue = queue.SimpleQueue()
    threading.Thread(target=_requests, args=(waiting,), daemon=True).start()
    worker = Worker(json.loads(argument))
    while True:
        print(json.dumps(worker.answer(waiting.get())), flush=True)


if __name__ == "__main__":
    main(sys.argv[1])
