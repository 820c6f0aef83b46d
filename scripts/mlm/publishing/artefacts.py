"""Where something is published, and the record of it in `results/publish/*.json`."""

from dataclasses import dataclass, field
from typing import Any

from mlm.foundations.artefacts import OPTIONAL, Artefact


@dataclass(frozen=True)
class Destination:
    """A repository `owner/name`; `kind` is `model` or `dataset`, in the Hub's words."""

    repository: str
    kind: str
    private: bool
    branch: str = "main"

    @property
    def place(self) -> dict[str, Any]:
        """The repository as the client's arguments."""
        return {"repo_id": self.repository, "repo_type": self.kind}

    def __str__(self) -> str:
        return f"the {self.kind} repository {self.repository}"


@dataclass(frozen=True)
class SentFile:
    """A file in the repository."""

    path: str
    num_bytes: int
    sha256: str


@dataclass(frozen=True)
class PublishRecord(Artefact):
    """A publication, without clock, address of the Hub, or anything secret; `run` for a model."""

    what: str
    destination: Destination
    commit: str
    files: list[SentFile]
    run: str | None = field(default=None, metadata=OPTIONAL)
