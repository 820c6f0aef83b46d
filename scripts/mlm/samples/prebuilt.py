"""Shards that were made elsewhere: found by their names, read through, and given a manifest.

They are called `name-<shard>-<samples>.tfrecord`, as in transformers' TPU example of masked
language modelling; what they hold is counted, and a name must agree.
"""

import itertools
import re
import sys
from dataclasses import dataclass

from mlm.foundations.digests import file_sha256
from mlm.foundations.errors import MlmError, listed
from mlm.foundations.progress_line import Progress
from mlm.samples.manifests import Manifest, ShardEntry, totals
from mlm.samples.object_storage import list_files, local_copy
from mlm.samples.shuffling import BLOCK_SAMPLES
from mlm.samples.tfrecord import framed_records
from mlm.samples.verification import SampleSchema, Scan, scan_shard

_NAME = re.compile(r"(?P<name>.+)-(?P<shard>\d+)-(?P<samples>\d+)\.tfrecord")


@dataclass(frozen=True)
class PrebuiltShard:
    """A file that its name says is shard `shard`, with `samples` samples."""

    path: str
    name: str
    shard: int
    samples: int


def find_shards(place: str, split: str) -> list[PrebuiltShard]:
    """The shards in directory or under prefix `place`, in the order of their numbers. Raises
    MlmError if there is none, if two have the same number, or if one is missing."""
    key, files, shards = f"shards.prebuilt.{split}", list_files(place), []
    for path in files:
        if match := _NAME.fullmatch(_base(path)):
            number, samples = int(match["shard"]), int(match["samples"])
            shards.append(PrebuiltShard(path, match["name"], number, samples))
    if not shards:
        others = ", ".join(map(_base, files[:3])) + (" …" if len(files) > 3 else "")
        raise MlmError(
            f"{key}: no file called name-<shard>-<samples>.tfrecord in {place}; found "
            f"{f'{len(files)} files: {others}' if files else 'nothing'}"
        )
    if len(names := sorted({s.name for s in shards})) > 1:
        raise MlmError(
            f"{key}: {place} holds the shards of several sets: {', '.join(names)}. Name one of "
            f"them: {place.rstrip('/')}/{names[0]}"
        )
    shards.sort(key=lambda s: (s.shard, s.path))
    if shards[0].shard > 1:
        raise MlmError(f"{key}: the first shard is {shards[0].path}; those before it are missing")
    for before, after in itertools.pairwise(shards):
        if after.shard == before.shard:
            raise MlmError(f"{key}: {before.path} and {after.path} are both shard {after.shard}")
        if after.shard != before.shard + 1:
            raise MlmError(
                f"{key}: shard {before.shard + 1} is missing between {before.path} and {after.path}"
            )
    return shards


def prebuilt_manifest(split: str, place: str, schema: SampleSchema) -> Manifest:
    """The manifest of the shards in `place`, each record of which was checked. Raises MlmError,
    naming every record that is not what `schema`, or its shard's name, says."""
    shards = find_shards(place, split)
    print(
        f"{split}: which tokenizer made the shards in {place} is not known; that the ids are "
        "those of the configured one is taken on trust",
        file=sys.stderr,
    )
    progress = Progress(f"{split}: read", len(shards), "shards")
    entries, problems = [], []
    for number, shard in enumerate(shards, 1):
        entry, found = _described(shard, schema)
        entries.append(entry)
        problems += [f"{shard.path}: {problem}" for problem in found]
        progress.to(number)
    if problems:
        raise MlmError(
            f"shards.prebuilt.{split}: these shards cannot be trained on:\n{listed(problems)}\n"
            f"Every record needs input_ids and attention_mask, int64, of {schema.sequence_length} "
            "values (shards.sequence_length), made with the tokenizer that is configured."
        )
    return Manifest(
        split=split,
        sequence_length=schema.sequence_length,
        tokenizer_sha256=None,
        corpus_sha256=None,
        documents=None,
        special_literals=None,
        **totals(tuple(entries)),
        shards=tuple(entries),
    )


def _described(shard: PrebuiltShard, schema: SampleSchema) -> tuple[ShardEntry, list[str]]:
    offsets, problems = (), []
    with local_copy(shard.path) as file, file.open("rb") as stream:
        if stream.read(2) == b"\x1f\x8b":
            scan, problems = Scan(), ["is compressed by gzip; unpack it (gunzip), and name that"]
        else:
            scan = scan_shard(file, schema)
            problems = scan.named_problems()
            stream.seek(0)
            if not problems:
                starts = [start for start, _ in framed_records(stream, file.name)]
                offsets = tuple(starts[::BLOCK_SAMPLES])
            if scan.num_samples != shard.samples:
                problems.append(f"holds {scan.num_samples} samples; its name says {shard.samples}")
        size, sha256 = file.stat().st_size, file_sha256(file)
    entry = ShardEntry(
        name=_base(shard.path),
        path=shard.path,
        num_samples=scan.num_samples,
        num_tokens=scan.num_tokens,
        num_padding=scan.num_padding,
        num_bytes=size,
        sha256=sha256,
        block_offsets=offsets,
    )
    return entry, problems


def _base(path: str) -> str:
    return path.rsplit("/", 1)[-1]
