"""Shards that were made elsewhere, `name-<shard>-<samples>.tfrecord` as in transformers' TPU
example of masked language modelling: found, read through, and given a manifest."""

import re
import sys
from itertools import pairwise
from typing import NamedTuple

from mlm.foundations.digests import file_sha256
from mlm.foundations.errors import MlmError, listed
from mlm.foundations.progress_line import Progress
from mlm.samples.manifests import Manifest, ShardEntry, totals
from mlm.samples.object_storage import list_files, local_copy

_NAME = re.compile(r"(?:.*/)?([^/]+)-(\d+)-(\d+)\.tfrecord")


class PrebuiltShard(NamedTuple):
    """A file that its name says is shard `shard` of the set `name`, with `samples` samples."""

    shard: int
    path: str
    name: str
    samples: int


def find_shards(place: str, split: str) -> list[PrebuiltShard]:
    """The shards in directory or under prefix `place`, by number. MlmError for none and gaps."""
    key, files = f"shards.prebuilt.{split}", list_files(place)
    matches = [match for path in files if (match := _NAME.fullmatch(path))]
    shards = sorted(PrebuiltShard(int(m[2]), m[0], m[1], int(m[3])) for m in matches)
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
    if shards[0].shard > 1:
        raise MlmError(f"{key}: the first shard is {shards[0].path}; those before it are missing")
    for before, after in pairwise(shards):
        if after.shard == before.shard:
            raise MlmError(f"{key}: {before.path} and {after.path} are both shard {after.shard}")
        if after.shard != before.shard + 1:
            raise MlmError(
                f"{key}: shard {before.shard + 1} is missing between {before.path} and {after.path}"
            )
    return shards


def prebuilt_manifest(split: str, place: str, schema) -> Manifest:
    """The manifest of the shards in `place`. Raises MlmError that names every record that is not
    what `schema`, or its shard's name, says."""
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


def _described(shard: PrebuiltShard, schema) -> tuple[ShardEntry, list[str]]:
    # Here, since the plan finds shards with Snakemake's packages alone.
    from mlm.samples.verification import Scan, scan_shard

    with local_copy(shard.path) as file:
        with file.open("rb") as stream:
            compressed = stream.read(2) == b"\x1f\x8b"
        scan = Scan() if compressed else scan_shard(file, schema)
        size, sha256 = file.stat().st_size, file_sha256(file)
    problems = scan.named_problems()
    if compressed:
        problems.append("is compressed by gzip; unpack it (gunzip), and name that")
    elif scan.num_samples != shard.samples:
        problems.append(f"holds {scan.num_samples} samples; its name says {shard.samples}")
    counts = scan.num_samples, scan.num_tokens, scan.num_padding, size, sha256
    offsets = tuple(scan.block_offsets)
    return ShardEntry(_base(shard.path), shard.path, *counts, offsets), problems


def _base(path: str) -> str:
    return path.rsplit("/", 1)[-1]
