"""Where whole documents are in the samples of a split, and what a run without them does without."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from mlm.config.pretraining import parsed
from mlm.corpus.equal_shares import document_range
from mlm.corpus.forgotten_documents import TrainDocuments
from mlm.corpus.split_documents import SplitDocuments
from mlm.foundations.digests import file_sha256
from mlm.foundations.errors import MlmError
from mlm.samples.artefacts import HolesOfRun, LeftOut
from mlm.samples.manifests import SHARDS_REMEDY, Manifest, check_shards, project_root
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


def merged_spans(spans: list[Span]) -> list[Span]:
    """`spans` in ascending order, those that touch each other in a sample as one."""
    found: list[Span] = []
    for sample, begin, end in sorted(spans):
        if found and found[-1][0] == sample and found[-1][2] >= begin:
            found[-1] = (sample, found[-1][1], max(end, found[-1][2]))
        else:
            found.append((sample, begin, end))
    return found


def holes_of(
    run: str,
    forget: Sequence[str],
    *,
    described: str | Path,
    manifest: str | Path,
    tokenizer: str | Path,
    settings: dict,
) -> HolesOfRun:
    """The holes that the items of `forget` leave in the train split, by its files and the settings
    of its corpus. Raises MlmError for an item that names nothing, and files that do not belong
    together."""
    try:
        whats = [parsed(what) for what in dict.fromkeys(forget)]
    except ValueError as error:
        raise MlmError(f"{error}") from None
    shards = Manifest.read(manifest)
    documents = TrainDocuments(described, settings)
    texts = SplitDocuments.described(described)
    if texts.sha256() != shards.corpus_sha256:
        raise MlmError(
            f"{texts.named}: is not the text that the train shards were made from. The same "
            "snakemake command makes them from it"
        )
    selected = documents.selected(whats)
    numbers = sorted({number for found in selected.values() for number in found})
    root, encoder = project_root(manifest), Encoder.load(tokenizer)
    spans = document_spans(shards, root, encoder, documents.texts(numbers))
    lengths = {n: sum(end - begin for _, begin, end in of_one) for n, of_one in spans.items()}
    merged = merged_spans([span for of_one in spans.values() for span in of_one])
    return HolesOfRun(
        run=run,
        forget=[
            LeftOut(what, len(found), sum(lengths[number] for number in found))
            for what, found in selected.items()
        ],
        documents=len(numbers),
        tokens=sum(lengths.values()),
        samples=len({sample for sample, _, _ in merged}),
        manifest=file_sha256(manifest),
        holes=merged,
    )
