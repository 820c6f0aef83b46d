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


def answers_to(request: dict, destination, attempts: int) -> dict:
    """The answer to one request: {"step", "commit"} or {"step", "failure": words}."""
    from mlm.errors import MlmError
    from mlm.publishing.repository import PublishedFile
    from mlm.publishing.transfer import Upload, publish

    step, directory = request["step"], Path(request["directory"])
    try:
        files = tuple(PublishedFile.of(f.name, f) for f in sorted(directory.iterdir()))
        done = publish(destination, Upload(files, f"Step {step}", attempts))
    except (MlmError, OSError) as error:
        return {"step": step, "failure": str(error)}
    return {"step": step, "commit": done.commit}


def _requests(waiting: queue.SimpleQueue) -> None:
    for line in sys.stdin:
        waiting.put(json.loads(line))
    # Whoever asked is gone, or has waited long enough.
    os._exit(0)


def main(argument: str) -> None:
    """Answer requests until standard input ends."""
    os.nice(_NICENESS)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    waiting: queue.SimpleQueue = queue.SimpleQueue()
    threading.Thread(target=_requests, args=(waiting,), daemon=True).start()
    from mlm.publishing.settings import Destination

    settings = json.loads(argument)
    attempts = settings.pop("attempts")
    destination = Destination(kind="model", **settings)
    while True:
        answer = answers_to(waiting.get(), destination, attempts)
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main(sys.argv[1])
