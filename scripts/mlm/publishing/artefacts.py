"""Where something is published, and the record of it in `results/publish/*.json`."""

from dataclasses import dataclass, field

from mlm.foundations.artefacts import OPTIONAL, Artefact


@dataclass(frozen=True)
class Destination:
    """A repository `owner/name`, of models in the Hub's words."""

    repository: str
    private: bool


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
