"""Where passages of documents are in the samples of a split."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from mlm.asking.documents import Stretch
from mlm.samples.document_spans import document_spans
from mlm.samples.manifests import Manifest
from mlm.samples.split_samples import joined, read_samples
from mlm.tokenizer.encoding import Encoder


@dataclass(frozen=True)
class Packed:
    """Consecutive tokens of one sample, from place `start` to `end` of it, with their `texts`.

    `sample` is its index in the split, `shard_sample` in the file `shard`; `input_ids` and
    `attention_mask` [sequence] are those of the whole sample.
    """

    sample: int
    shard: str
    shard_sample: int
    start: int
    end: int
    input_ids: np.ndarray
    attention_mask: np.ndarray
    texts: tuple[str, ...]


def packed_parts(
    stretches: Sequence[Stretch], manifest: Manifest, root: str | Path, encoder: Encoder
) -> list[list[Packed]]:
    """For each of `stretches` of the manifest's split, its parts in order.

    `root` is the directory that the manifest's paths are relative to. Raises MlmError if a shard is
    not what the manifest says, or does not hold a document as `encoder` divides it.
    """
    if not stretches:
        return []
    texts = {one.document: one.text for one in stretches}
    spans = document_spans(manifest, root, encoder, texts)
    samples = np.unique([sample for of_one in spans.values() for sample, _, _ in of_one])
    rows = joined(list(read_samples(manifest, root, samples)))
    firsts = np.cumsum([0, *(shard.num_samples for shard in manifest.shards)])
    found: list[list[Packed]] = []
    for one in stretches:
        _, places = encoder.encode_with_places(one.text)
        # The first token and the last are special.
        inside = [
            token
            for token, (begin, end) in enumerate(places[1:-1], 1)
            if begin < one.end and max(begin + 1, end) > one.start
        ]
        found.append([])
        before = 0
        for sample, start, end in spans[one.document] if inside else ():
            first = max(inside[0], before)
            last = min(inside[-1] + 1, before + end - start)
            if first < last:
                shard = int(np.searchsorted(firsts, sample, "right")) - 1
                row = int(np.searchsorted(samples, sample))
                found[-1].append(
                    Packed(
                        sample=sample,
                        shard=manifest.shards[shard].name,
                        shard_sample=sample - int(firsts[shard]),
                        start=start + first - before,
                        end=start + last - before,
                        input_ids=rows.input_ids[row],
                        attention_mask=rows.attention_mask[row],
                        texts=tuple(one.text[a:b].strip() for a, b in places[first:last]),
                    )
                )
            before += end - start
    return found
