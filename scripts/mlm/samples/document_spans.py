"""Where whole documents stand in the samples of a split, with the special tokens around them."""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np

from mlm.corpus.shares import document_range
from mlm.foundations.errors import MlmError
from mlm.samples.manifests import Manifest, shard_file, shard_problem, shards_remedy
from mlm.samples.split_samples import Samples, joined, read_samples
from mlm.tokenizer.encoding import Encoder

#: A document's tokens in one sample: the sample's index, and where they begin and end in it.
Span = tuple[int, int, int]


def document_spans(
    manifest: Manifest, root: str | Path, encoder: Encoder, texts: Mapping[int, str]
) -> dict[int, list[Span]]:
    """By the number of each document of `texts`, the spans that it takes, in order.

    `root` is the directory that the manifest's paths are relative to. Raises MlmError where a shard
    is not what the manifest says, or does not hold a document as `encoder` divides it.
    """
    found, first, shards = {}, 0, len(manifest.shards)
    for number, entry in enumerate(manifest.shards):
        held = document_range(manifest.documents, number, shards)
        if wanted := [document for document in sorted(texts) if document in held]:
            stream = shard_tokens(checked_samples(manifest, number, root))
            begins = document_begins(stream, encoder)
            rows = encoder.encode([texts[document] for document in wanted])
            for document, ids in zip(wanted, rows, strict=True):
                place = document - held.start
                start = int(begins[place]) if place < len(begins) else len(stream)
                if stream[start : start + len(ids)].tolist() != ids:
                    raise MlmError(
                        f"{entry.path}: its document {place} is not document {document} of the "
                        f"{manifest.split} split as the tokenizer divides it. "
                        f"{shards_remedy(manifest)}"
                    )
                spans = _by_sample(start, start + len(ids), manifest.sequence_length)
                found[document] = [(first + sample, a, b) for sample, a, b in spans]
        first += entry.num_samples
    return found


def merged_spans(spans: list[Span]) -> list[Span]:
    """`spans` in ascending order, those that touch each other in a sample as one."""
    found: list[Span] = []
    for sample, begin, end in sorted(spans):
        if found and found[-1][0] == sample and found[-1][2] >= begin:
            found[-1] = (sample, found[-1][1], max(end, found[-1][2]))
        else:
            found.append((sample, begin, end))
    return found


def _by_sample(start: int, end: int, length: int) -> Iterator[Span]:
    """Tokens `start` to `end` of a shard's stream, sample by sample."""
    for sample in range(start // length, -(-end // length)):
        first = sample * length
        yield sample, max(start - first, 0), min(end - first, length)


def checked_samples(manifest: Manifest, number: int, root: str | Path) -> Samples:
    """The samples of a shard, without their groups; `index` counts from its first.

    Raises MlmError where it is not what the manifest says.
    """
    check_shard(manifest, number, root)
    entry = manifest.shards[number]
    alone = replace(manifest, shards=(entry,), num_samples=entry.num_samples, group_by=None)
    return joined(list(read_samples(alone, root)))


def check_shard(manifest: Manifest, number: int, root: str | Path) -> None:
    """Raise MlmError where a shard is not what the manifest says."""
    entry = manifest.shards[number]
    with shard_file(entry, root) as file:
        if problem := shard_problem(entry, file):
            raise MlmError(f"{problem}. {shards_remedy(manifest)}")


def shard_tokens(samples: Samples) -> np.ndarray:
    """All tokens of a shard one after the other: only at its end is padding."""
    return samples.input_ids[samples.attention_mask]


def document_begins(stream: np.ndarray, encoder: Encoder) -> np.ndarray:
    """Where each document begins in a shard's tokens."""
    special = encoder.special_ids
    begins = np.flatnonzero(stream == special.cls)
    # One token may begin a document and end it.
    return begins[::2] if special.cls == special.sep else begins
