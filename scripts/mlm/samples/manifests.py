"""The manifest of a split or of one shard, and whether shards are as it says."""

import os
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Self

from mlm.foundations.artefacts import OPTIONAL, Artefact
from mlm.foundations.digests import file_sha256
from mlm.foundations.errors import MlmError, listed
from mlm.samples.sample_order import rows_of

#: What to do about shards that are not those of their manifests.
SHARDS_REMEDY = "Delete the shards named here and run again, so that they are remade."


@dataclass(frozen=True)
class Shard:
    """A shard: `path` is relative to the project's root; `num_tokens` counts mask 1."""

    name: str
    path: str
    num_samples: int
    num_tokens: int
    num_padding: int
    num_bytes: int
    sha256: str
    block_offsets: tuple[int, ...]

    def problem(self, root: str | os.PathLike) -> str | None:
        """Return what is wrong with the file below `root`, or None."""
        file = Path(root) / self.path
        if not file.is_file():
            return f"{self.path}: is missing"
        if (digest := file_sha256(file)) != self.sha256:
            return (
                f"{self.path}: its content changed since the manifest was written (sha256 "
                f"{digest[:12]}…, expected {self.sha256[:12]}…)"
            )
        return None


@dataclass(frozen=True)
class Manifest(Artefact):
    """Shards of a split, in order, its `documents` and totals; `group_by` may be None."""

    split: str
    sequence_length: int
    tokenizer_sha256: str
    corpus_sha256: str
    documents: int
    special_literals: int
    num_samples: int
    num_tokens: int
    num_padding: int
    shards: tuple[Shard, ...]
    group_by: str | None = None
    #: Of a view of the split in rows: stored samples in each.
    row_samples: int = field(default=1, metadata=OPTIONAL)

    @classmethod
    def of(cls, shards: Iterable[Shard], **fields: Any) -> Self:
        """Return the manifest of `shards`, with their totals and the other `fields`."""
        shards, names = tuple(shards), ("num_samples", "num_tokens", "num_padding")
        totals = {name: sum(getattr(shard, name) for shard in shards) for name in names}
        return cls(shards=shards, **totals, **fields)

    def in_rows(self, row_samples: int) -> Self:
        """Return the split in rows of so many consecutive samples, which count as samples."""
        rows = sum(rows_of(shard.num_samples, row_samples) for shard in self.shards)
        length = self.sequence_length * row_samples
        return replace(self, sequence_length=length, num_samples=rows, row_samples=row_samples)


def project_root(path: str | os.PathLike) -> Path:
    """Return the directory above `results/manifests/`, also of fetched results; "." for others."""
    parts = Path(path).parts
    return Path(*parts[:-3]) if parts[-3:-1] == ("results", "manifests") else Path()


def check_sequence_length(manifest: Manifest, expected: int) -> None:
    """Raise MlmError if the samples are of another length than `expected` tokens."""
    if manifest.sequence_length != expected:
        raise MlmError(
            f"The {manifest.split} shards hold samples of {manifest.sequence_length} tokens; "
            f"{expected} are expected. Make shards.sequence_length and the shards agree."
        )


def check_shards(manifest: Manifest, root: str | os.PathLike = ".") -> None:
    """Raise MlmError, naming every shard below `root` that is not what the manifest says."""
    problems = [shard.problem(root) for shard in manifest.shards]
    if problems := [problem for problem in problems if problem]:
        raise MlmError(
            f"The {manifest.split} shards are not those of their manifest:\n{listed(problems)}\n"
            f"{SHARDS_REMEDY}"
        )
