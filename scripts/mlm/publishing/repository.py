"""One repository of the Hub: made if it is missing, listed, and written to by commits."""

import hashlib
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from huggingface_hub import CommitOperationAdd, CommitOperationDelete, HfApi
from huggingface_hub.errors import RepositoryNotFoundError, RevisionNotFoundError
from huggingface_hub.hf_api import RepoFile

from mlm.foundations.digests import file_sha256
from mlm.foundations.errors import MlmError
from mlm.publishing.destination import Destination
from mlm.publishing.upload_progress import CountedFile, UploadProgress

_THREADS = 4
#: Files below this are compared by git's own digest where the Hub keeps them in git itself.
_LARGEST_IN_GIT = 50_000_000


@dataclass(frozen=True)
class PublishedFile:
    """A file as it will stand in the repository: its path there, and its bytes.

    `content` is a local file or the bytes themselves. `sha256` and `size` are theirs.
    """

    path: str
    content: Path | bytes
    sha256: str
    size: int

    @classmethod
    def of(cls, path: str, content: str | Path | bytes) -> "PublishedFile":
        """With size and digest worked out. Raises OSError for a file that is not there."""
        if isinstance(content, bytes):
            return cls(path, content, hashlib.sha256(content).hexdigest(), len(content))
        file = Path(content)
        return cls(path, file, file_sha256(file), file.stat().st_size)

    def is_same_as(self, remote: RepoFile | None) -> bool:
        """Whether the Hub's file has the same bytes, by its digest: sha256, or git's."""
        if remote is None or remote.size != self.size:
            return False
        if remote.lfs is not None:
            return remote.lfs.sha256 == self.sha256
        if self.size >= _LARGEST_IN_GIT:
            return False
        content = self.content if isinstance(self.content, bytes) else self.content.read_bytes()
        return remote.blob_id == hashlib.sha1(b"blob %d\0" % len(content) + content).hexdigest()


@dataclass(frozen=True)
class Holder:
    """Whose token it is: the user, the organisations, and the token's role (or "")."""

    name: str
    organisations: tuple[str, ...]
    role: str

    @classmethod
    def ask(cls, api: HfApi) -> "Holder":
        """What the Hub says of the token. Raises the client's errors."""
        found = api.whoami()
        role = ((found.get("auth") or {}).get("accessToken") or {}).get("role") or ""
        organisations = tuple(sorted(o["name"] for o in found.get("orgs") or []))
        return cls(found["name"], organisations, role)

    def __str__(self) -> str:
        more = f", in {', '.join(self.organisations)}" if self.organisations else ""
        return f" (the token is {self.name}'s{more})"


class Repository:
    """The repository of a destination, behind the client `api`."""

    def __init__(self, api: HfApi, destination: Destination, holder: Holder):
        self._api, self.destination, self.holder = api, destination, holder
        self._place = {"repo_id": destination.repository, "repo_type": destination.kind}

    def make(self) -> None:
        """Make repository and branch where they are missing, private if that is asked for.

        Raises MlmError for a token that may only read, and where a repository that is to be
        private is public already.
        """
        asked, place = self.destination, f"{self.destination.kind} {self.destination.repository}"
        if self.holder.role == "read":
            raise MlmError(
                f"The token in HF_TOKEN may only read{self.holder}. Publishing needs one with "
                "write permission: make it in the settings of the account"
            )
        try:
            found = self._api.repo_info(**self._place)
        except RepositoryNotFoundError:
            self._api.create_repo(**self._place, private=asked.private, exist_ok=True)
            found = self._api.repo_info(**self._place)
        if asked.private and not found.private:
            owner = asked.repository.split("/")[0]
            if owner not in (self.holder.name, *self.holder.organisations):
                raise MlmError(
                    f"The {place} exists and belongs to someone else{self.holder}. Name a "
                    "repository of your own in publish"
                )
            raise MlmError(
                f"The {place} exists and is public, and publish.private is true. Make it private "
                "in its settings, name another, or set publish.private: false. Nothing was "
                "uploaded"
            )
        if asked.branch != "main":
            self._api.create_branch(**self._place, branch=asked.branch, exist_ok=True)

    def listing(self) -> tuple[str, dict[str, RepoFile]]:
        """The branch's newest commit, and the files in it by path."""
        head = self._api.repo_info(**self._place, revision=self.destination.branch).sha
        found = self._api.list_repo_tree(**self._place, revision=head, recursive=True)
        return head, {entry.path: entry for entry in found if isinstance(entry, RepoFile)}

    def commit(
        self,
        files: Sequence[PublishedFile],
        gone: Sequence[str],
        message: str,
        parent: str,
        progress: UploadProgress,
    ) -> str:
        """Upload `files`, remove the paths `gone`, in one commit after `parent`; its id.

        What the Hub's storage holds already is not sent again, committed or not.
        """
        with _additions(files, progress) as additions:
            branch = self.destination.branch
            self._api.preupload_lfs_files(
                additions=additions,
                revision=branch,
                num_threads=_THREADS,
                **self._place,
            )
            removals = [CommitOperationDelete(path, is_folder=False) for path in gone]
            done = self._api.create_commit(
                operations=[*additions, *removals],
                commit_message=message,
                revision=branch,
                parent_commit=parent,
                **self._place,
            )
        return done.oid

    def commits(self) -> list[tuple[str, str]]:
        """Ids and titles of the branch's commits, the newest first; none where there is none."""
        try:
            found = self._api.list_repo_commits(**self._place, revision=self.destination.branch)
        except (RepositoryNotFoundError, RevisionNotFoundError):
            return []
        return [(commit.commit_id, commit.title) for commit in found]


@contextmanager
def _additions(
    files: Sequence[PublishedFile], progress: UploadProgress
) -> Iterator[list[CommitOperationAdd]]:
    with ExitStack() as opened:
        additions = []
        for file in files:
            content = file.content
            if isinstance(content, Path):
                content = opened.enter_context(CountedFile(content, progress))
            addition = CommitOperationAdd(file.path, content)
            if addition.upload_info.sha256.hex() != file.sha256:
                raise MlmError(
                    f"{file.content} changed while it was being published. Run the same command "
                    "again when nothing else writes to it"
                )
            additions.append(addition)
        progress.counting = True
        try:
            yield additions
        finally:
            progress.counting = False
