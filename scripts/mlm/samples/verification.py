"""Reading shards again, record by record, to see that they are what their manifest says."""

from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np

from mlm.foundations.errors import MlmError, listed
from mlm.foundations.progress_line import Progress
from mlm.samples.artefacts import SplitVerification
from mlm.samples.manifests import SHARDS_REMEDY, Manifest, ShardEntry, shard_problem
from mlm.samples.tfrecord import SampleError, decode_samples, read_records

_BATCH = 2048
#: Problems of one shard that are named; more are counted.
_NAMED = 20
_COUNTS = ("num_samples", "num_tokens", "num_padding")


@dataclass(frozen=True)
class SampleSchema:
    """What every sample must be: so many ids below `vocabulary_size`, `pad_id` where the mask is 0,
    and if `grouped` a group for each token."""

    sequence_length: int
    vocabulary_size: int
    pad_id: int
    grouped: bool = False


@dataclass
class Scan:
    """What a shard's records held, and `problems` that name records."""

    num_samples: int = 0
    num_tokens: int = 0
    num_padding: int = 0
    problems: list[str] = field(default_factory=list)

    def named_problems(self) -> list[str]:
        """The first problems, and how many others there are."""
        others = len(self.problems) - _NAMED
        return self.problems[:_NAMED] + ([f"and {others} problems more"] if others > 0 else [])


def scan_shard(file: Path, schema: SampleSchema) -> Scan:
    """Compare every record of a file, up to one whose frame is damaged, with `schema`."""
    scan, batch, damage = Scan(), [], []
    with file.open("rb") as stream:
        try:
            for record in read_records(stream, file.name):
                batch.append(record)
                if len(batch) == _BATCH:
                    _scan_batch(batch, schema, scan)
                    batch = []
        except MlmError as error:
            damage = [str(error).removeprefix(f"{file.name}: ")]
    _scan_batch(batch, schema, scan)
    scan.problems += damage
    return scan


def _scan_batch(records: list[bytes], schema: SampleSchema, scan: Scan) -> None:
    first, size, pad = scan.num_samples, schema.vocabulary_size, schema.pad_id
    try:
        ids, mask, *_ = decode_samples(records, schema.sequence_length, schema.grouped)
    except SampleError as error:
        if len(records) > 1:
            for record in records:
                _scan_batch([record], schema, scan)
        else:
            scan.num_samples += 1
            scan.problems.append(f"record {first}: {error}")
        return
    scan.num_samples += len(records)
    scan.num_tokens += int((mask == 1).sum())
    scan.num_padding += int((mask == 0).sum())
    outside, neither, unpadded = (
        (ids < 0) | (ids >= size),
        mask & ~1 != 0,
        (mask == 0) & (ids != pad),
    )
    for wrong, found, what in (
        (outside, ids, f"input_ids holds {{}}, outside the vocabulary of {size} ids"),
        (neither, mask, "attention_mask holds {}, which is neither 0 nor 1"),
        (unpadded, ids, f"input_ids holds {{}} where the mask is 0; the padding id is {pad}"),
    ):
        for row in np.flatnonzero(wrong.any(axis=1)):
            value = int(found[row][wrong[row]][0])
            scan.problems.append(f"record {first + int(row)}: {what.format(value)}")


def verify_split(
    manifest: Manifest, schema: SampleSchema, root: str | Path = "."
) -> SplitVerification:
    """What the shards of a split below `root` hold, and each difference from the manifest."""
    problems, scans = [], []
    progress = Progress(f"{manifest.split}: verified", len(manifest.shards), "shards")
    schema = replace(schema, grouped=manifest.group_by is not None)
    for number, shard in enumerate(manifest.shards, 1):
        try:
            scan, found = _verified(shard, schema, root)
            scans.append(scan)
            problems += found
        except MlmError as error:
            problems.append(str(error))
        progress.to(number)
    return SplitVerification(
        split=manifest.split,
        shards=len(manifest.shards),
        **{key: sum(getattr(scan, key) for scan in scans) for key in _COUNTS},
        num_bytes=sum(s.num_bytes for s in manifest.shards),
        problems=tuple(problems),
    )


def _verified(shard: ShardEntry, schema: SampleSchema, root: str | Path) -> tuple[Scan, list[str]]:
    problem, file = shard_problem(shard, root), Path(root) / shard.path
    problems = [problem] if problem else []
    if not file.is_file():
        return Scan(), problems
    scan = scan_shard(file, schema)
    problems += [f"{shard.path}: {p}" for p in scan.named_problems()]
    return scan, problems + [
        f"{shard.path}: {key} is {found}; the manifest says {expected}"
        for key in _COUNTS
        if (found := getattr(scan, key)) != (expected := getattr(shard, key))
    ]


def verification_text(results: list[SplitVerification]) -> str:
    """A line for each split."""
    return "\n".join(
        f"{r.split:<12}{r.shards:>6} shards  {r.num_samples:>12,} samples  "
        f"{r.num_tokens:>15,} tokens  {r.num_padding:>9,} padding  "
        f"{'as the manifest says' if not r.problems else f'{len(r.problems)} problems'}"
        for r in results
    )


def raise_problems(results: list[SplitVerification]) -> None:
    """Raise MlmError with every problem, if there is one."""
    problems = [p for r in results for p in r.problems]
    if problems:
        raise MlmError(
            f"The shards have {len(problems)} problem{'s' if len(problems) > 1 else ''}:\n"
            f"{listed(problems)}\n{SHARDS_REMEDY}"
        )
