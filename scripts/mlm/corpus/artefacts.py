"""The records of the corpus stage: `results/corpus/{split}.json` and those of parts; and the equal
shares of a split's documents, of which each file has one. Light, for Snakemake."""

from collections.abc import Mapping, Sequence
from dataclasses import astuple, dataclass, field
from operator import add
from typing import Annotated, Literal, Self

from pydantic import Field

from mlm.foundations.artefacts import OPTIONAL, Artefact
from mlm.foundations.digests import value_sha256

#: Texts shown of what a rule took of a split, and characters of each.
SAMPLES, SAMPLE_CHARACTERS = 3, 300


@dataclass(frozen=True, kw_only=True)
class _Source:
    """The origin of a split that was carved from another: which one, the share, and the seed."""

    carved_from: str | None = field(default=None, metadata=OPTIONAL)
    share: float | None = field(default=None, metadata=OPTIONAL)
    seed: int | None = field(default=None, metadata=OPTIONAL)


@dataclass(frozen=True)
class EmbeddedSource(_Source):
    """The speeches of a package, the president of each, and the sha256 of all their text."""

    kind: Literal["embedded"]
    package: str
    sha256: str
    speeches: tuple[str, ...]
    presidents: tuple[str, ...]

    def __str__(self) -> str:
        return f"the State of the Union addresses (package {self.package.replace('==', ' ')})"


@dataclass(frozen=True)
class SourceFile:
    """A file that `corpus.files` names."""

    path: str
    bytes: int
    sha256: str


@dataclass(frozen=True)
class FilesSource(_Source):
    """Files that `corpus.files` names; `document_per` is its setting."""

    kind: Literal["files"]
    document_per: str
    files: tuple[SourceFile, ...]

    def __str__(self) -> str:
        return f"{len(self.files):,} text file{'' if len(self.files) == 1 else 's'}"


@dataclass(frozen=True)
class HubSource(_Source):
    """A split of a dataset of the Hugging Face Hub."""

    kind: Literal["hub"]
    split: str
    dataset: str
    config: str | None
    revision: str | None

    def __str__(self) -> str:
        config = f" ({self.config})" if self.config else ""
        revision = f" at revision {self.revision[:12]}" if self.revision else ""
        return f"the Hugging Face dataset {self.dataset}{config}{revision}"


@dataclass(frozen=True)
class Mixed:
    """The name and the weight of a part's source, and the seed of the choice."""

    name: str
    weight: float
    seed: int


SingleSource = Annotated[EmbeddedSource | FilesSource | HubSource, Field(discriminator="kind")]


@dataclass(frozen=True)
class MixedSource:
    """A source of a mix: documents by filter, and those of the split, with repeats."""

    name: str
    weight: float
    documents: int
    filters: dict[str, int]
    source: SingleSource

    def __str__(self) -> str:
        return f"{self.name}, {self.weight:g} time{'s' * (self.weight != 1)} ({self.source})"


@dataclass(frozen=True)
class MixSource(_Source):
    """Several sources, in the order of their names."""

    kind: Literal["mix"]
    sources: tuple[MixedSource, ...]

    def __str__(self) -> str:
        return f"a mix of {'; '.join(map(str, self.sources))}"


CorpusSource = Annotated[
    EmbeddedSource | FilesSource | HubSource | MixSource, Field(discriminator="kind")
]


@dataclass(frozen=True)
class Encoding:
    """Replaced bytes that were no UTF-8, replaced NULs, and removed byte-order marks."""

    replaced_bytes: int = 0
    nul_bytes: int = 0
    byte_order_marks: int = 0

    def __add__(self, other: Self) -> Self:
        return type(self)(*map(add, astuple(self), astuple(other)))


@dataclass(frozen=True)
class TakenByRule:
    """Documents and characters that a rule removed from a split, and a few texts, shortened."""

    documents: int = 0
    characters: int = 0
    samples: tuple[str, ...] = ()

    @classmethod
    def of_one(cls, characters: int, sample: str) -> Self:
        """Count a document, of which `sample` is shown."""
        more = "…" * (len(sample) > SAMPLE_CHARACTERS)
        return cls(1, characters, (sample[:SAMPLE_CHARACTERS] + more,))

    def __add__(self, other: Self) -> Self:
        sums = self.documents + other.documents, self.characters + other.characters
        return type(self)(*sums, (self.samples + other.samples)[:SAMPLES])


NOTHING = TakenByRule()


def add_taken(counts: dict[str, TakenByRule], more: Mapping[str, TakenByRule]) -> None:
    """Add to `counts` what rules took of further documents."""
    for rule, taken in more.items():
        counts[rule] = counts.get(rule, NOTHING) + taken


@dataclass(frozen=True)
class CorpusFile:
    """One of a split's Parquet files; `bytes` is its size on disk."""

    name: str
    documents: int
    bytes: int
    sha256: str


def document_range(documents: int, share: int, shares: int) -> range:
    """Return the contiguous documents of share `share` of `shares`; sizes differ by at most one."""
    return range(documents * share // shares, documents * (share + 1) // shares)


def overlapping(share: int, shares: int, others: int) -> range:
    """Return which of `others` equal shares can have documents of `share` of `shares`."""
    return range(share * others // shares, -(-(share + 1) * others // shares))


def file_name(split: str, share: int, shares: int) -> str:
    """Return the name of the Parquet file with share `share` of a split's documents."""
    return f"{split}.parquet" if shares == 1 else f"{split}-{share:05d}-of-{shares:05d}.parquet"


def joint_sha256(digests: Sequence[str]) -> str:
    """Return one digest of a split's files: that of a single file."""
    return digests[0] if len(digests) == 1 else value_sha256(list(digests))


@dataclass(frozen=True)
class NearDuplicate:
    """The beginnings of a removed document and of the first of its cluster, in `kept_in`."""

    text: str
    kept: str
    kept_in: str


@dataclass(frozen=True)
class NearDuplicatesOfSplit:
    """The number of clusters that lost documents of a split, and evenly spread samples of these."""

    clusters: int
    samples: tuple[NearDuplicate, ...]


@dataclass(frozen=True)
class WordOverlap:
    """The number of a held-out split's `words` in runs of `run_words` that are `shared` with train,
    and of the `documents` with such runs. Shorter documents have no run: they are unmeasured."""

    run_words: int
    words: int
    shared: int
    documents: int
    unmeasured_words: int
    unmeasured_documents: int

    @property
    def share(self) -> float | None:
        """The share of the measured words; None if there are none."""
        return self.shared / self.words if self.words else None

    @property
    def is_measured(self) -> bool:
        """Whether at least half of the words are in documents that are long enough for a run."""
        return self.words >= max(1, self.unmeasured_words)


@dataclass(frozen=True)
class CorpusSplit(Artefact):
    """A split's source, its size, and what each filter took; `rules` are those switched on. File f
    of F holds documents K·f // F to K·(f + 1) // F of all K, in their order."""

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
    files: tuple[CorpusFile, ...]
    rules: dict[str, TakenByRule] | None = field(default=None, metadata=OPTIONAL)
    near_duplicates: NearDuplicatesOfSplit | None = field(default=None, metadata=OPTIONAL)
    overlap_with_train: WordOverlap | None = field(default=None, metadata=OPTIONAL)

    @property
    def sha256(self) -> str:
        return joint_sha256([file.sha256 for file in self.files])


@dataclass(frozen=True)
class ReadSplit:
    """What a part read of a split; `batches` are the sizes of those that it stored."""

    filters: dict[str, int]
    encoding: Encoding
    batches: tuple[int, ...]
    source: SingleSource
    rules: dict[str, TakenByRule]


@dataclass(frozen=True)
class ReadPart(Artefact):
    """What a part of the source held, by split."""

    splits: dict[str, ReadSplit]
    group_by: str
    carved: dict[str, float]
    mixed: Mixed | None = None
