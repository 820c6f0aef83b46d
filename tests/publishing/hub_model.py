"""What a Hub for tests holds: accounts, repositories with their commits, and faults to come."""

import hashlib
import re
from dataclasses import dataclass, field


@dataclass
class Account:
    """Who holds a token: `role` is that of the token, `orgs` those that may be written to."""

    name: str
    role: str = "write"
    orgs: tuple[str, ...] = ()


@dataclass
class Fault:
    """What befalls the next `times` requests that match, after `after` that pass.

    `status` is answered instead; with `reset_after`, the connection is cut off after so many
    bytes of the body. `headers` and `body` go with the answer.
    """

    method: str
    path: str
    status: int | None = None
    reset_after: int | None = None
    times: int = 1
    after: int = 0
    headers: dict = field(default_factory=dict)
    body: dict = field(default_factory=dict)

    def strikes(self, method: str, path: str) -> bool:
        """Whether this request is struck; counts."""
        if method != self.method or not re.search(self.path, path):
            return False
        if self.after > 0:
            self.after -= 1
            return False
        self.times -= 1
        return self.times >= 0


@dataclass
class Repo:
    """A repository: files by path in every commit, and the branches' newest commits."""

    private: bool
    commits: dict[str, dict[str, tuple[str, bytes]]] = field(default_factory=dict)
    titles: dict[str, str] = field(default_factory=dict)
    parents: dict[str, str] = field(default_factory=dict)
    branches: dict[str, str] = field(default_factory=dict)

    def commit(self, branch: str, title: str, files: dict[str, tuple[str, bytes]]) -> str:
        """Put `files` on the branch; the commit's id."""
        parent = self.branches.get(branch, "")
        material = repr((title, parent, len(self.commits))).encode()
        made = hashlib.sha1(material).hexdigest()
        self.commits[made], self.titles[made], self.parents[made] = files, title, parent
        self.branches[branch] = made
        return made

    def history(self, revision: str) -> list[str]:
        """Ids of the commits up to `revision`, the newest first; none where it is not there."""
        found, at = [], self.branches.get(revision, revision)
        while at in self.commits:
            found.append(at)
            at = self.parents.get(at, "")
        return found
