"""Where whole documents are in the samples of a split."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np

from mlm.corpus.artefacts import document_range
from mlm.foundations.errors import MlmError
from mlm.samples.manifests import SHARDS_REMEDY, Manifest, check_shards
from mlm.samples.split_samples import joined, read_samples
from mlm.tokenizer.encoding import Encoder

#: A document's tokens in one sample: the sample's index, and where they begin and end in it.
Span = tuple[int, int, int]


def document_spans(
    manifest: Manifest, root: str | Path, encoder: Encoder, texts: Mapping[int, str]
) -> dict[int, list[Span]]:
    """The spans in order, by the number of each document of `texts`; MlmError if a shard below
    `root` is not what the manifest says, or `encoder` divides a document differently."""
    found, first, length = {}, 0, manifest.sequence_length
    for number, entry in enumerate(manifest.shards):
        held = document_range(manifest.documents, number, len(manifest.shards))
        if wanted := [document for document in sorted(texts) if document in held]:
            alone = replace(manifest, shards=(entry,), num_samples=entry.num_samples, group_by=None)
            check_shards(alone, root)
            samples = joined(list(read_samples(alone, root)))
            # All tokens one after the other: only at the end of a shard is padding.
            stream = samples.input_ids[samples.attention_mask]
            begins = np.flatnonzero(stream == encoder.special_ids.cls)
            if encoder.special_ids.cls == encoder.special_ids.sep:
                begins = begins[::2]
            rows = encoder.encode([texts[document] for document in wanted])
            for document, ids in zip(wanted, rows, strict=True):
                place = document - held.start
                start = int(begins[place]) if place < len(begins) else len(stream)
                end = start + len(ids)
                if stream[start:end].tolist() != ids:
                    raise MlmError(
                        f"{entry.path}: its document {place} is not document {document} of the "
                        f"{manifest.split} split as the tokenizer divides it. "
                        f"{SHARDS_REMEDY}"
                    )
                found[document] = [
                    (first + row, max(start - row * length, 0), min(end - row * length, length))
                    for row in range(start // length, -(-end // length))
                ]
        first += entry.num_samples
    return found
