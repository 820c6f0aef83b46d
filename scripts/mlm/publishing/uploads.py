"""Uploads into a branch of a repository: retried, resumed, and nothing private into a public one.

huggingface_hub sends neither what the Hub's storage has nor what the branch has already, so a retry
after a failure and a rerun after a kill are the same thing.

    python -m mlm.publishing.uploads REQUEST < pipe

is the process that pushes a checkpoint during a training (see `background`): it ignores Ctrl-C, and
ends when its standard input does.
"""

import hashlib
import json
import os
import re
import signal
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from huggingface_hub import CommitOperationAdd, CommitOperationDelete, HfApi
from huggingface_hub.errors import RepositoryNotFoundError, RevisionNotFoundError

from mlm.foundations.digests import file_sha256
from mlm.foundations.errors import MlmError
from mlm.publishing.artefacts import Destination
from mlm.publishing.client import hub_client
from mlm.publishing.failures import (
    KEPT,
    in_words,
    is_of_the_hub,
    is_transient,
    seconds_asked_for,
)
from mlm.publishing.secrecy import scrubbed, token_from_environment

#: Files in one commit: what a commit holds is safe, and the Hub wants few of them.
FILES_IN_A_COMMIT = 50
_LONGEST_PAUSE = 60.0


class PublishedFile(NamedTuple):
    """A file for a repository: its path there, and its content, a local file or bytes."""

    path: str
    content: Path | bytes
    sha256: str
    num_bytes: int

    @classmethod
    def of(cls, path: str, content: Path | bytes) -> "PublishedFile":
        """With digest and size. Raises OSError for a file that is missing."""
        if isinstance(content, bytes):
            return cls(path, content, hashlib.sha256(content).hexdigest(), len(content))
        return cls(path, content, file_sha256(content), content.stat().st_size)

    def addition(self) -> CommitOperationAdd:
        """What the client commits. Raises MlmError if the content is not that of `sha256`."""
        addition = CommitOperationAdd(self.path, self.content)
        if addition.upload_info.sha256.hex() != self.sha256:
            raise MlmError(
                f"{self.content} changed while it was being published. Run the same command "
                "again when nothing else writes to it"
            )
        return addition


@dataclass(frozen=True)
class Upload:
    """What a branch is to hold.

    `files` are uploaded in this order. Of the branch's other files, those are removed whose path
    matches `stale`. A request that fails for a moment is sent up to `attempts` times in a row.
    """

    files: Sequence[PublishedFile]
    title: str
    attempts: int
    stale: re.Pattern | None = None


def publish(destination: Destination, upload: Upload) -> str:
    """Bring the destination to what `upload` says, and give the commit that holds it.

    A missing repository or branch is made. Raises MlmError, without secrets, if the token or the
    destination is unfit, or if the Hub or the network failed `attempts` times in a row.
    """
    with _connected(destination) as api:
        tried = partial(_retried, upload.attempts)
        tried(lambda: _make(api, destination))
        there = tried(lambda: _paths(api, destination))
        wanted = {file.path for file in upload.files}
        stale = [p for p in sorted(there - wanted) if upload.stale and upload.stale.fullmatch(p)]
        size = FILES_IN_A_COMMIT
        groups = [upload.files[i : i + size] for i in range(0, len(upload.files), size)]
        for number, group in enumerate(groups, 1):
            title = upload.title
            title += f" ({number}/{len(groups)})" if len(groups) > 1 else ""
            gone = stale if number == len(groups) else []
            total = sum(file.num_bytes for file in group)
            where = f"{destination.repository}: {title}"
            print(f"{where}: {len(group)} file(s), {total:,} bytes", file=sys.stderr, flush=True)
            commit = tried(partial(_commit, api, destination, group, gone, title))
        if missing := sorted(wanted - tried(lambda: _paths(api, destination))):
            raise MlmError(
                f"{', '.join(missing[:3])}: {destination} does not hold what was uploaded. Is "
                "there a .gitignore in it?"
            )
        return commit


def commits_of(destination: Destination) -> list[tuple[str, str]]:
    """Ids and titles of the branch's commits, the newest first; none if it does not exist."""
    with _connected(destination) as api:
        try:
            found = api.list_repo_commits(**destination.place, revision=destination.branch)
        except (RepositoryNotFoundError, RevisionNotFoundError):
            return []
        return [(commit.commit_id, commit.title) for commit in found]


@contextmanager
def _connected(destination: Destination) -> Iterator[HfApi]:
    """The client; what fails inside is raised as MlmError without secrets."""
    token = token_from_environment()
    with hub_client(token) as api:
        try:
            yield api
        except MlmError as error:
            raise MlmError(scrubbed(str(error), token)) from None
        except Exception as error:
            if not is_of_the_hub(error):
                print(scrubbed(traceback.format_exc(), token), file=sys.stderr)
            words = in_words(error, destination, _holder(api))
            raise MlmError(scrubbed(f"{words}. {KEPT}", token)) from None


def _holder(api: HfApi) -> str:
    """Whose token it is, to be put behind a sentence; "" if the Hub does not say."""
    with suppress(Exception):
        found = api.whoami()
        more = ", ".join(sorted(each["name"] for each in found.get("orgs") or []))
        return f" (the token is {found['name']}'s{', in ' + more if more else ''})"
    return ""


def _make(api: HfApi, destination: Destination) -> None:
    """Make the repository and the branch if they are missing.

    Raises MlmError if a repository that is to be private is public already.
    """
    place = destination.place
    try:
        found = api.repo_info(**place)
    except RepositoryNotFoundError:
        api.create_repo(**place, private=destination.private, exist_ok=True)
        found = api.repo_info(**place)
    if destination.private and not found.private:
        raise MlmError(
            f"{destination} exists and is public, and publish.private is true. Make it private in "
            "its settings, name another if it belongs to someone else, or set publish.private: "
            f"false. Nothing was uploaded{_holder(api)}"
        )
    if destination.branch != "main":
        api.create_branch(**place, branch=destination.branch, exist_ok=True)


def _paths(api: HfApi, destination: Destination) -> set[str]:
    return set(api.list_repo_files(**destination.place, revision=destination.branch))


def _commit(api: HfApi, destination: Destination, files, gone: Sequence[str], title: str) -> str:
    """Upload `files` and remove the paths `gone` in one commit, if anything differs; its id."""
    operations = [file.addition() for file in files]
    operations += [CommitOperationDelete(path, is_folder=False) for path in gone]
    done = api.create_commit(
        **destination.place,
        operations=operations,
        commit_message=title,
        revision=destination.branch,
        num_threads=4,
    )
    return done.oid


def _retried(attempts: int, act: Callable[[], Any]) -> Any:
    """What `act` gives, tried `attempts` times with growing pauses if it may still succeed."""
    for number in range(1, attempts + 1):
        try:
            return act()
        except MlmError:
            raise
        except Exception as error:
            if number == attempts or not is_transient(error):
                raise
            pause = max(min(2.0 ** (number - 1), _LONGEST_PAUSE), seconds_asked_for(error))
            print(
                f"Warning: the Hub or the network failed ({type(error).__name__}); trying again "
                f"in {pause:.0f} s ({number} of {attempts - 1})",
                file=sys.stderr,
                flush=True,
            )
            time.sleep(pause)
    raise AssertionError("attempts are 1 or more")


def request_of(directory: Path, step: int, destination: Destination, attempts: int) -> str:
    """The argument with which this module, as a program, pushes the files of a directory."""
    request = {"directory": str(directory.resolve()), "step": step, "attempts": attempts}
    return json.dumps(request | {"destination": asdict(destination)})


def _end_with_standard_input() -> None:
    while os.read(0, 1):
        pass
    os._exit(2)


def main(request: str) -> int:
    """Push as `request_of` says; prints the commit, or what failed with status 1."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with_standard_input, daemon=True).start()
    asked = json.loads(request)
    try:
        directory = sorted(Path(asked["directory"]).iterdir())
        files = [PublishedFile.of(file.name, file) for file in directory]
        upload = Upload(files, f"Step {asked['step']}", asked["attempts"])
        print(publish(Destination(**asked["destination"]), upload))
    except (MlmError, OSError) as error:
        print(error)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
