"""Uploads into a repository, nothing private into a public one.

huggingface_hub sends neither what the Hub's storage has nor what the branch has already, so a rerun
resumes after a failure or a kill.
"""

import re
import sys
import traceback
from collections.abc import Sequence

from huggingface_hub import CommitOperationAdd, CommitOperationDelete, HfApi
from huggingface_hub.errors import RepositoryNotFoundError

from mlm.foundations.errors import MlmError
from mlm.publishing.artefacts import Destination
from mlm.publishing.hub import hub_client, hub_error
from mlm.publishing.secrecy import scrubbed, token_from_environment

#: Files in one commit: the Hub recommends few hundreds at most.
FILES_IN_A_COMMIT = 50


def sha256_of(file: CommitOperationAdd) -> str:
    """The digest of a file's content when it was listed."""
    return file.upload_info.sha256.hex()


def publish(
    destination: Destination,
    files: Sequence[CommitOperationAdd],
    title: str,
    stale: re.Pattern | None = None,
) -> str:
    """Upload `files`, in this order, to a repository that is made if it is missing, remove its
    other files that match `stale`, and return the last commit. MlmError, without secrets, if the
    token or the destination is unfit, or the Hub or the network fails."""
    token = token_from_environment()
    with hub_client(token) as api:
        try:
            return _published(api, destination, files, title, stale)
        except MlmError as error:
            raise MlmError(scrubbed(str(error), token)) from None
        except Exception as error:
            words = hub_error(error, destination)
            if words is None:
                print(scrubbed(traceback.format_exc(), token), file=sys.stderr)
                words = f"Publishing to {destination} failed: {type(error).__name__}: {error}"
            resumed = "What was uploaded stays there, and the same command resumes"
            raise MlmError(scrubbed(f"{words}. {resumed}", token)) from None


def _published(
    api: HfApi,
    destination: Destination,
    files: Sequence[CommitOperationAdd],
    title: str,
    stale: re.Pattern | None,
) -> str:
    _make(api, destination)
    there = set(api.list_repo_files(**destination.place))
    wanted = {file.path_in_repo for file in files}
    commit = ""
    for start in range(0, len(files), FILES_IN_A_COMMIT):
        group = files[start : start + FILES_IN_A_COMMIT]
        total = sum(file.upload_info.size for file in group)
        where = f"{destination.repository}: {title}, {start + len(group)} of {len(files)} file(s)"
        print(f"{where}, {total:,} bytes", file=sys.stderr, flush=True)
        operations: list[CommitOperationAdd | CommitOperationDelete] = [*group]
        if group[-1] is files[-1] and stale:
            gone = (path for path in sorted(there - wanted) if stale.fullmatch(path))
            operations += [CommitOperationDelete(path, is_folder=False) for path in gone]
        made = api.create_commit(
            **destination.place, operations=operations, commit_message=title, num_threads=4
        )
        commit = made.oid
    # The client skips without a word what the repository's .gitignore matches.
    if missing := sorted(wanted - set(api.list_repo_files(**destination.place))):
        names = ", ".join(missing[:3])
        raise MlmError(f"{names}: not in {destination} after the upload. Has it a .gitignore?")
    return commit


def _make(api: HfApi, destination: Destination) -> None:
    """Make the repository if it is missing; MlmError if a public one is to be private."""
    place = destination.place
    try:
        repository = api.repo_info(**place)
    except RepositoryNotFoundError:
        api.create_repo(**place, private=destination.private, exist_ok=True)
        repository = api.repo_info(**place)
    if destination.private and not repository.private:
        raise MlmError(
            f"{destination} exists and is public, and publish.private is true. Make it private in "
            "its settings, name another, or set publish.private: false. Nothing was uploaded"
        )
