"""Shards that were made elsewhere: found by their names, read through, and given a manifest.

The names are those of the published TPU recipe for masked language models in transformers'
examples: `name-<shard>-<samples>.tfrecord`. Shard and sample counts are never taken from a
name; the name only has to agree with what the file holds.

A manifest may stand beside the shards: `<split>.json`, `<name>.json` or `manifest.json`, in this
workflow's own format. Of it, `tokenizer_sha256` and each shard's `sha256` count.
"""

import itertools
import re
import sys
from dataclasses import dataclass

from mlm.foundations.atomic import read_json
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
    """The shards in directory or under prefix `place`, in the order of their numbers.

    Raises MlmError if there is none, if two have the same number, or if one is missing.
    """
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


def manifests_beside(place: str, split: str) -> list[str]:
    """The paths of what may be a manifest of the shards in `place`."""
    names = {f"{split}.json", f"{find_shards(place, split)[0].name}.json", "manifest.json"}
    return [path for path in list_files(place) if _base(path) in names]


def prebuilt_manifest(
    split: str, place: str, schema: SampleSchema, tokenizer_sha256: str
) -> Manifest:
    """The manifest of the shards in `place`, each record of which was checked.

    `tokenizer_sha256` is that of the configured tokenizer; the manifest has that of the shards,
    None if nothing beside them says. Raises MlmError, naming every bad shard and record, if one is
    not what `schema` says, or the name or the manifest beside them says something else.
    """
    shards = find_shards(place, split)
    beside, tokenizer, digests = _given(place, split)
    if tokenizer not in (None, tokenizer_sha256):
        raise MlmError(
            f"shards.prebuilt.{split}: by {beside}, the shards were made with another tokenizer "
            f"(sha256 {tokenizer[:12]}…) than the one that is configured "
            f"({tokenizer_sha256[:12]}…), so that their ids mean other pieces. Name that tokenizer "
            "in tokenizer.pretrained.path"
        )
    if tokenizer is None:
        print(
            f"{split}: which tokenizer made the shards in {place} is not known; that the ids are "
            "those of the configured one is taken on trust",
            file=sys.stderr,
        )
    progress = Progress(f"{split}: read", len(shards), "shards")
    entries, problems = [], []
    for number, shard in enumerate(shards, 1):
        entry, found = _described(shard, schema)
        expected = digests.get(entry.name, entry.sha256)
        if expected != entry.sha256:
            found.append(f"sha256 {entry.sha256[:12]}…, but {beside} says {expected[:12]}…")
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
        tokenizer_sha256=tokenizer,
        corpus_sha256=None,
        documents=None,
        special_literals=None,
        **totals(tuple(entries)),
        shards=tuple(entries),
    )


def _given(place: str, split: str) -> tuple[str | None, str | None, dict[str, str]]:
    """The manifest beside the shards, and its digests of the tokenizer and of shards by name."""
    found = manifests_beside(place, split)
    if not found:
        return None, None, {}
    if len(found) > 1:
        raise MlmError(
            f"shards.prebuilt.{split}: several manifests stand beside the shards: "
            f"{', '.join(found)}. Leave one of them"
        )
    try:
        with local_copy(found[0]) as file:
            content = read_json(file)
        shards = {shard["name"]: shard["sha256"] for shard in content.get("shards", [])}
        return found[0], content.get("tokenizer_sha256"), shards
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise MlmError(
            f"{found[0]}: is not a manifest ({error}). One JSON object is expected beside the "
            "shards, as in results/manifests/; mend it, or move it away"
        ) from None


def _described(shard: PrebuiltShard, schema: SampleSchema) -> tuple[ShardEntry, list[str]]:
    """A shard's manifest entry, and every problem found in it."""
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
