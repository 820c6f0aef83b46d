"""What `results/corpus/{split}.json` says of a split of the corpus."""

from dataclasses import dataclass, field
from typing import Annotated, Literal

from pydantic import Field

from mlm.results.typed_artefacts import OPTIONAL, Artefact


@dataclass(frozen=True, kw_only=True)
class _Source:
    """Of a split carved from another: which, the share that it took, and the seed."""

    carved_from: str | None = field(default=None, metadata=OPTIONAL)
    share: float | None = field(default=None, metadata=OPTIONAL)
    seed: int | None = field(default=None, metadata=OPTIONAL)


@dataclass(frozen=True)
class EmbeddedSource(_Source):
    """The speeches of a package, `sha256` that of all their text."""

    kind: Literal["embedded"]
    package: str
    sha256: str
    speeches: tuple[str, ...]


@dataclass(frozen=True)
class SourceFile:
    """A file of the user's."""

    path: str
    bytes: int
    sha256: str


@dataclass(frozen=True)
class FilesSource(_Source):
    """Files of the user's; `document_per` says what of a file is a document."""

    kind: Literal["files"]
    document_per: str
    files: tuple[SourceFile, ...]


@dataclass(frozen=True)
class HubSource(_Source):
    """A split of a dataset of the Hugging Face Hub."""

    kind: Literal["hub"]
    split: str
    dataset: str
    config: str | None
    revision: str | None


CorpusSource = Annotated[EmbeddedSource | FilesSource | HubSource, Field(discriminator="kind")]


@dataclass(frozen=True)
class Encoding:
    """Bytes that were no UTF-8, and NULs, that were replaced."""

    replaced_bytes: int
    nul_bytes: int


@dataclass(frozen=True)
class CorpusSplit(Artefact):
    """A split's source, its size, and by filter how many documents it took."""

    split: str
    source: CorpusSource
    documents: int
    groups: int
    group_by: str
    bytes: int
    characters: int
    words: int
    filters: dict[str, int]
    encoding: Encoding
