"""Shards that were made elsewhere: found by their names, read through, and given a manifest.

The names are those of the published TPU recipe for masked language models in transformers'
examples: `name-<shard>-<samples>.tfrecord`. Shard and sample counts are never taken from a
name; the name only has to agree with what the file holds.
"""

import itertools
import re
from dataclasses import dataclass

from mlm.digests import file_sha256
from mlm.errors import MlmError
from mlm.progress_line import Progress
from mlm.shards.manifests import Manifest, ShardEntry, totals
from mlm.shards.object_storage import list_files, local_copy
from mlm.shards.tfrecord import compression_of
from mlm.shards.verification import SampleSchema, scan_shard

_NAME = re.compile(r"(?P<name>.+)-(?P<shard>\d+)-(?P<samples>\d+)\.tfrecord")


@dataclass(frozen=True)
class PrebuiltShard:
    """A file that its name says is shard `shard`, with `samples` samples."""

    path: str
    name: str
    shard: int
    samples: int


def find_shards(place: str, split: str) -> list[PrebuiltShard]:
    """The shards in directory or under prefix `place`, in the order of their numbers.

    Raises MlmError where there is none, where two have the same number, or one is missing.
    """
    key, files = f"shards.prebuilt.{split}", list_files(place)
    shards = []
    for path in files:
        file_name = path.rsplit("/", 1)[-1]
        if match := _NAME.fullmatch(file_name):
            number, samples = int(match["shard"]), int(match["samples"])
            shards.append(PrebuiltShard(path, match["name"], number, samples))
    if not shards:
        others = ", ".join(p.rsplit("/", 1)[-1] for p in files[:3])
        raise MlmError(
            f"{key}: no file called name-<shard>-<samples>.tfrecord in {place}; found "
            f"{f'{len(files)} files: {others}' if files else 'nothing'}"
            f"{' …' if len(files) > 3 else ''}"
        )
    names = sorted({s.name for s in shards})
    if len(names) > 1:
        raise MlmError(
            f"{key}: {place} holds the shards of several sets: {', '.join(names)}. Name one of "
            f"them: {place.rstrip('/')}/{names[0]}"
        )
    shards.sort(key=lambda s: (s.shard, s.path))
    for before, after in itertools.pairwise(shards):
        if after.shard == before.shard:
            raise MlmError(f"{key}: {before.path} and {after.path} are both shard {after.shard}")
        if after.shard != before.shard + 1:
            raise MlmError(
                f"{key}: shard {before.shard + 1} is missing between {before.path} and {after.path}"
            )
    if shards[0].shard > 1:
        raise MlmError(f"{key}: the first shard is {shards[0].path}; those before it are missing")
    return shards


def prebuilt_manifest(
    split: str, place: str, schema: SampleSchema, tokenizer_sha256: str
) -> Manifest:
    """The manifest of the shards in `place`, each record of which was checked.

    Raises MlmError, naming every bad shard and record, where one is not what `schema` says or
    a file holds another number of samples than its name says.
    """
    shards = find_shards(place, split)
    progress = Progress(f"{split}: read", len(shards), "shards")
    entries, compressions, problems = [], [], []
    for number, shard in enumerate(shards, 1):
        entry, compression, found = _described(shard, schema)
        entries.append(entry)
        compressions.append(compression)
        problems += found
        progress.to(number)
    if len(set(compressions)) > 1:
        problems.append(f"{place}: some shards are compressed by gzip and some are not")
    if problems:
        lines = "\n".join(f"  - {p}" for p in problems)
        raise MlmError(
            f"shards.prebuilt.{split}: these shards cannot be trained on:\n{lines}\n"
            f"Every record needs input_ids and attention_mask, int64, of {schema.sequence_length} "
            "values (shards.sequence_length), made with the tokenizer that is configured."
        )
    return Manifest(
        split=split,
        sequence_length=schema.sequence_length,
        compression=compressions[0],
        tokenizer_sha256=tokenizer_sha256,
        corpus_sha256=None,
        documents=None,
        special_literals=None,
        **totals(tuple(entries)),
        shards=tuple(entries),
    )


def _described(shard: PrebuiltShard, schema: SampleSchema) -> tuple[ShardEntry, str, list[str]]:
    """A shard's manifest entry, its compression, and every problem found in it."""
    with local_copy(shard.path) as file:
        with file.open("rb") as stream:
            compression = compression_of(stream)
        scan = scan_shard(file, schema)
        size, sha256 = file.stat().st_size, file_sha256(file)
    problems = scan.named_problems()
    if scan.num_samples != shard.samples:
        problems.append(f"holds {scan.num_samples} samples; its name says {shard.samples}")
    entry = ShardEntry(
        name=shard.path.rsplit("/", 1)[-1],
        path=shard.path,
        num_samples=scan.num_samples,
        num_tokens=scan.num_tokens,
        num_padding=scan.num_padding,
        num_bytes=size,
        sha256=sha256,
    )
    return entry, compression, [f"{shard.path}: {p}" for p in problems]
