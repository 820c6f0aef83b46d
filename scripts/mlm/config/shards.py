"""Section `shards`: how the tokens are packed into files."""

from typing import Annotated, Literal

from pydantic import Field

from mlm.config.fields import SPLITS, FileCount, Section, section


class Prebuilt(Section):
    train: str | None = None
    validation: str | None = None
    test: str | None = None


class ShardCount(Section):
    train: FileCount = 4
    validation: FileCount = 1
    test: FileCount = 1


class Shards(Section):
    source: Literal["corpus", "prebuilt"] = Field(
        "corpus",
        description="corpus: made from the corpus. prebuilt: TFRecords that exist already"
        " (shards.prebuilt).",
    )
    prebuilt: Prebuilt = section(
        Prebuilt,
        "By split, a directory or gs:// prefix with files called name-<shard>-<samples>.tfrecord."
        " Where a manifest is beside them (<split>.json or manifest.json, as in"
        " results/manifests/), its digests of tokenizer and shards are checked.",
    )
    sequence_length: Annotated[int, Field(ge=8, le=65_536)] = Field(
        64, description="Tokens in a sample, special tokens and padding included."
    )
    count: ShardCount = section(
        ShardCount, "Number of shards by split: each is one file and one job."
    )
    compression: Literal["none", "gzip"] = Field(
        "none", description="Compression of the files: none or gzip."
    )
    read_batch: Annotated[int, Field(ge=1, le=1_000_000)] = Field(
        1000,
        description="Documents tokenised at a time: bounds the memory of a job, changes no byte.",
    )

    def contradictions(self) -> list[str]:
        if self.source != "prebuilt":
            return []
        return [
            f"shards.prebuilt.{split}: missing; a directory or gs:// prefix is expected"
            for split in SPLITS
            if not getattr(self.prebuilt, split)
        ]
