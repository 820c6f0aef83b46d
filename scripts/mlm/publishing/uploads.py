"""Uploads into a repository: retried, resumed, and nothing private into a public one.

huggingface_hub sends neither what the Hub's storage has nor what the branch has already, so a retry
after a failure and a rerun after a kill are the same thing.
"""

import re
import sys
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

from huggingface_hub import CommitOperationAdd, CommitOperationDelete, HfApi
from huggingface_hub.errors import RepositoryNotFoundError

from mlm.foundations.errors import MlmError
from mlm.publishing.artefacts import Destination
from mlm.publishing.hub import KEPT, hub_client, hub_error, is_transient, seconds_asked_for
from mlm.publishing.secrecy import scrubbed, token_from_environment

#: Files in one commit: what a commit holds is safe, and the Hub wants few of them.
FILES_IN_A_COMMIT = 50
_LONGEST_PAUSE = 60.0


def sha256_of(file: CommitOperationAdd) -> str:
    """The digest of a file's content when it was listed."""
    return file.upload_info.sha256.hex()


def publish(
    destination: Destination,
    files: Sequence[CommitOperationAdd],
    title: str,
    attempts: int,
    stale: re.Pattern | None = None,
) -> str:
    """Upload `files`, in this order, to a repository that is made if it is missing, remove its
    other files that match `stale`, and give the commit. A request that fails for a moment is sent
    up to `attempts` times. MlmError, without secrets, if the token or the destination is unfit, a
    file changed since it was listed, or the Hub or the network fails for longer."""
    with _connected(destination) as api:
        tried = partial(_retried, attempts)
        tried(lambda: _make(api, destination))
        listed = partial(api.list_repo_files, **destination.place)
        there = set(tried(listed))
        wanted = {file.path_in_repo for file in files}
        gone = [p for p in sorted(there - wanted) if stale and stale.fullmatch(p)]
        count = -(-len(files) // FILES_IN_A_COMMIT)
        for number in range(1, count + 1):
            group = files[FILES_IN_A_COMMIT * (number - 1) : FILES_IN_A_COMMIT * number]
            words = f"{title} ({number}/{count})" if count > 1 else title
            total = sum(file.upload_info.size for file in group)
            where = f"{destination.repository}: {words}"
            print(f"{where}: {len(group)} file(s), {total:,} bytes", file=sys.stderr, flush=True)
            removed = gone if number == count else []
            commit = tried(partial(_commit, api, destination, group, removed, words))
        if missing := sorted(wanted - set(tried(listed))):
            raise MlmError(
                f"{', '.join(missing[:3])}: {destination} does not hold what was uploaded. Is "
                "there a .gitignore in it?"
            )
        return commit


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
            words = hub_error(error, destination)
            if words is None:
                print(scrubbed(traceback.format_exc(), token), file=sys.stderr)
                words = f"Publishing to {destination} failed: {type(error).__name__}: {error}"
            raise MlmError(scrubbed(f"{words}. {KEPT}", token)) from None


def _make(api: HfApi, destination: Destination) -> None:
    """Make the repository if it is missing; MlmError if a public one is to be private."""
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
            "false. Nothing was uploaded"
        )


def _commit(
    api: HfApi,
    destination: Destination,
    files: Sequence[CommitOperationAdd],
    gone: Sequence[str],
    title: str,
) -> str:
    """Upload `files` and remove the paths `gone` in one commit, if anything differs; its id."""
    # Operations remember what was sent, and are made anew for every attempt.
    operations = [CommitOperationAdd(file.path_in_repo, file.path_or_fileobj) for file in files]
    for listed, file in zip(files, operations, strict=True):
        if sha256_of(file) != sha256_of(listed):
            raise MlmError(
                f"{file.path_or_fileobj} changed while it was being published. Run the same "
                "command again when nothing else writes to it"
            )
    done = api.create_commit(
        **destination.place,
        operations=[*operations, *(CommitOperationDelete(path, is_folder=False) for path in gone)],
        commit_message=title,
        num_threads=4,
    )
    return done.oid


def _retried(attempts: int, act: Callable[[], Any]) -> Any:
    """The value of `act`, tried `attempts` times with growing pauses if it may still succeed."""
    for number in range(1, attempts):
        try:
            return act()
        except Exception as error:
            if not is_transient(error):
                raise
            pause = max(min(2.0 ** (number - 1), _LONGEST_PAUSE), seconds_asked_for(error))
            print(
                f"Warning: the Hub or the network failed ({type(error).__name__}); trying again "
                f"in {pause:.0f} s ({number} of {attempts - 1})",
                file=sys.stderr,
                flush=True,
            )
            time.sleep(pause)
    return act()
