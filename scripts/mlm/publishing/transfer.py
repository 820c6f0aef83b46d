"""Bringing a branch of a repository to the files that it should hold.

What differs is found by comparing digests, uploaded and committed, until nothing differs any
more. Trying again after a failure and going on after a kill are therefore the same thing.
"""

import re
import sys
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from huggingface_hub import HfApi

from mlm.foundations.errors import MlmError
from mlm.publishing.client import hub_client
from mlm.publishing.destination import Destination
from mlm.publishing.failures import (
    KEPT,
    NotThereYet,
    in_words,
    is_of_the_hub,
    is_passing,
    seconds_asked_for,
)
from mlm.publishing.repository import Holder, PublishedFile, Repository
from mlm.publishing.secrecy import scrubbed, token_from_environment
from mlm.publishing.upload_progress import UploadProgress

#: Files in one commit: what a commit holds is safe, and the Hub wants few of them.
FILES_IN_A_COMMIT = 50
_LONGEST_PAUSE = 60.0


@dataclass(frozen=True)
class Upload:
    """What a branch is to hold.

    `files` are uploaded in this order. `stale` matches paths of files that went there
    earlier and are to go where they are not among `files`. `attempts` is how often in a row
    something is tried that fails for a moment.
    """

    files: tuple[PublishedFile, ...]
    title: str
    attempts: int
    stale: re.Pattern | None = None


@dataclass(frozen=True)
class Uploaded:
    """The end of an upload: the branch's commit that holds all, and what was sent for it.

    `holder` is whose token it was; another upload to the same place need not ask again.
    """

    commit: str
    sent: tuple[str, ...]
    holder: Holder


def publish(destination: Destination, upload: Upload, holder: Holder | None = None) -> Uploaded:
    """Bring the destination to what `upload` says; a repository that is missing is made.

    With the `holder` of an earlier upload, the repository is taken to be there.
    Raises MlmError, in words without secrets, where the token or the destination will not
    do, and where the Hub or the network failed `attempts` times in a row.
    """
    with connected(destination, holder) as connection:
        return bring(connection, upload, made=holder is not None)


@contextmanager
def connected(destination: Destination, holder: Holder | None = None) -> Iterator["Connection"]:
    """A connection for `destination`, out of which errors come as MlmError without secrets."""
    token = token_from_environment()
    with hub_client(token) as api:
        connection = Connection(api, destination, holder)
        try:
            yield connection
        except MlmError as error:
            raise MlmError(scrubbed(str(error), token)) from None
        except Exception as error:
            if not is_of_the_hub(error):
                print(scrubbed(traceback.format_exc(), token), file=sys.stderr)
            words = in_words(error, destination, token, connection.holder_in_words)
            raise MlmError(f"{words}. {KEPT}") from None


class Connection:
    """A client, a destination, and whose token it is once the Hub was asked."""

    def __init__(self, api: HfApi, destination: Destination, holder: Holder | None):
        self._api, self._destination, self._holder = api, destination, holder

    @property
    def holder_in_words(self) -> str:
        """Whose token it is, to be put behind another sentence; "" before the Hub was asked."""
        return str(self._holder) if self._holder else ""

    def repository(self) -> Repository:
        """The repository; the first call asks the Hub whose token it is."""
        if self._holder is None:
            self._holder = Holder.ask(self._api)
        return Repository(self._api, self._destination, self._holder)


def bring(connection: Connection, upload: Upload, made: bool) -> Uploaded:
    """Compare and upload until nothing differs; see `publish`. Raises the client's errors.

    `made` says that the repository is there.
    """
    failures, sent = _Failures(upload.attempts), []
    while True:
        try:
            repository = connection.repository()
            if not made:
                repository.make()
                made = True
            head, there = repository.listing()
            differing = [f for f in upload.files if not f.is_same_as(there.get(f.path))]
            wanted = {f.path for f in upload.files}
            gone = [p for p in sorted(there) if upload.stale and upload.stale.fullmatch(p)]
            gone = [p for p in gone if p not in wanted]
            if not differing and not gone:
                return Uploaded(head, tuple(sorted(set(sent))), repository.holder)
            if again := sorted(f.path for f in differing if f.path in sent):
                failures.note(NotThereYet(", ".join(again[:3])))
            _commit_in_groups(repository, upload, differing, gone, head, sent, failures.forget)
        except Exception as error:
            if isinstance(error, MlmError) or not is_passing(error):
                raise
            failures.note(error)


class _Failures:
    """Failures in a row, with growing pauses; the last of them is raised."""

    def __init__(self, attempts: int):
        self._attempts, self._count = attempts, 0

    def note(self, error: Exception) -> None:
        self._count += 1
        if self._count >= self._attempts:
            raise error
        pause = max(min(2.0 ** (self._count - 1), _LONGEST_PAUSE), seconds_asked_for(error))
        kind = type(error.__cause__ or error).__name__
        print(
            f"Warning: the Hub or the network failed ({kind}); trying again in {pause:.0f} s "
            f"({self._count} of {self._attempts - 1})",
            file=sys.stderr,
            flush=True,
        )
        time.sleep(pause)

    def forget(self) -> None:
        self._count = 0


def _commit_in_groups(
    repository: Repository,
    upload: Upload,
    differing: Sequence[PublishedFile],
    gone: Sequence[str],
    parent: str,
    sent: list[str],
    succeeded: Callable[[], None],
) -> None:
    """Upload `differing` in its order, group by group; what is stale goes with the last."""
    size = sum(file.size for file in differing)
    where = repository.destination.repository
    print(f"{where}: {len(differing)} file(s), {size:,} bytes to upload", file=sys.stderr)
    progress = UploadProgress(where, size)
    groups = [
        differing[i : i + FILES_IN_A_COMMIT] for i in range(0, len(differing), FILES_IN_A_COMMIT)
    ] or [[]]
    for number, group in enumerate(groups, 1):
        last = number == len(groups)
        title = upload.title if len(groups) == 1 else f"{upload.title} ({number}/{len(groups)})"
        parent = repository.commit(group, gone if last else (), title, parent, progress)
        repeated = [file.path for file in group if file.path in sent]
        sent += [file.path for file in group]
        if not repeated:
            succeeded()
