"""Where passages are in the samples of their split, and what a training shows of them and when: in
the order of `mlm.samples.stored_batches`, with the masks of `mlm.samples.masking`."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from pathlib import Path
from typing import Literal

import numpy as np

from mlm.asking.documents import Stretch
from mlm.corpus.artefacts import document_range
from mlm.foundations.errors import MlmError
from mlm.samples.manifests import SHARDS_REMEDY, Manifest, Shard, check_shards
from mlm.samples.masking import mask_batch
from mlm.samples.split_samples import Samples, joined, read_samples, samples_in_order
from mlm.tokenizer.encoding import Encoder
from mlm.training.run import Run

#: By the place of each target of a sample, the id that the model sees there.
Targets = dict[int, int]


@dataclass(frozen=True)
class Token:
    """A token of the passage: its place in the sample, its id and its text."""

    place: int
    id: int
    text: str


@dataclass(frozen=True)
class Masked:
    """A target, and what the model saw in its place: the mask token, a random token or itself."""

    place: int
    kind: Literal["mask", "random", "itself"]
    shown_id: int
    shown: str


@dataclass(frozen=True)
class Use:
    """An update that used the sample; `reached` if the training is known to have made it."""

    step: int
    epoch: int
    reached: bool
    masked: tuple[Masked, ...]


@dataclass(frozen=True)
class Part:
    """A passage's part in one sample: number `sample` of the split, `shard_sample` of `shard`."""

    sample: int
    shard: str
    shard_sample: int
    tokens: tuple[Token, ...]
    uses: tuple[Use, ...] = ()


@dataclass(frozen=True)
class PackedDocument:
    """A document in the samples of its split: its tokens begin at `start` of the first of
    `samples`, which is number `shard_sample` of `shard`."""

    shard: Shard
    shard_sample: int
    samples: Samples
    start: int

    def parts(self, stretch: Stretch, encoder: Encoder) -> Iterator[tuple[Part, Samples]]:
        """The parts of a stretch of the document in order, each with its sample."""
        _, offsets = encoder.encode_with_offsets(stretch.text)
        # The first token and the last are special.
        inside = [
            token
            for token, (begin, end) in enumerate(offsets[1:-1], 1)
            if begin < stretch.end and max(begin + 1, end) > stretch.start
        ]
        if not inside:
            return
        places = range(self.start + inside[0], self.start + inside[-1] + 1)
        length = self.samples.input_ids.shape[1]
        for row, in_row in groupby(places, lambda place: place // length):
            tokens = []
            for place in in_row:
                token = int(self.samples.input_ids[row, place % length])
                begin, end = offsets[place - self.start]
                text = stretch.text[begin:end].strip() or _text_of(encoder, token)
                tokens.append(Token(place % length, token, text))
            index = int(self.samples.index[row])
            part = Part(index, self.shard.name, self.shard_sample + row, tuple(tokens))
            yield part, self.samples[row : row + 1]


def packed_documents(
    manifest: Manifest, root: str | Path, encoder: Encoder, texts: Mapping[int, str]
) -> dict[int, PackedDocument]:
    """Each document of `texts` by its number in the split; MlmError if a shard below `root` is not
    what the manifest says, or `encoder` divides a document differently."""
    documents, first, length = {}, 0, manifest.sequence_length
    for number, shard in enumerate(manifest.shards):
        held = document_range(manifest.documents, number, len(manifest.shards))
        if wanted := [document for document in sorted(texts) if document in held]:
            alone = replace(manifest, shards=(shard,), num_samples=shard.num_samples, group_by=None)
            check_shards(alone, root)
            samples = joined(list(read_samples(alone, root)))
            # All tokens one after the other: only at the end of a shard is padding.
            stream = samples.input_ids[samples.attention_mask]
            begins = np.flatnonzero(stream == encoder.special_ids.cls)
            if encoder.special_ids.cls == encoder.special_ids.sep:
                begins = begins[::2]
            encoded = encoder.encode([texts[document] for document in wanted])
            for document, ids in zip(wanted, encoded, strict=True):
                place = document - held.start
                start = int(begins[place]) if place < len(begins) else len(stream)
                end = start + len(ids)
                if stream[start:end].tolist() != ids:
                    raise MlmError(
                        f"{shard.path}: its document {place} is not document {document} of the "
                        f"{manifest.split} split as the tokenizer divides it. "
                        f"{SHARDS_REMEDY}"
                    )
                row = start // length
                rows = samples[row : -(-end // length)]
                rows = replace(rows, index=rows.index + first)
                documents[document] = PackedDocument(shard, row, rows, start % length)
        first += shard.num_samples
    return documents


def uses_of(run: Run, samples: Sequence[int]) -> list[list[tuple[int, int, Targets]]]:
    """For each of the stored `samples` of the train split, step (from 1), epoch of its phase (from
    0) and targets of each update of `run` that uses it, in order."""
    uses: list[list[tuple[int, int, Targets]]] = [[] for _ in samples]
    for phase in run.phases:
        train, batches = phase.train, phase.order_from(0)
        rows, places = train.rows_with(np.asarray(samples, np.int64))
        length = train.sequence_length // train.row_samples
        parts = [(i, *train.decoded(i, r)) for i, r in samples_in_order(train, np.unique(rows))]
        index, ids, mask = (np.concatenate(arrays) for arrays in zip(*parts, strict=True))
        order = batches.of_samples(train)
        for epoch in range(-(-batches.end // order.num_samples)):
            turns = order.places(index, epoch)
            used = np.flatnonzero(turns < batches.end)
            if not len(used):
                continue
            stored = ids[used], mask[used], index[used]
            batch = mask_batch(*stored, phase.plan, phase.seed, np.full(len(used), epoch))
            steps = batches.updates_of(turns[used]).tolist()
            of_row = dict(zip(index[used], zip(steps, _targets(batch), strict=True), strict=True))
            for of_sample, row, place in zip(uses, rows, places * length, strict=True):
                if row in of_row:
                    step, targets = of_row[row]
                    within = {p - place: t for p, t in targets.items() if 0 <= p - place < length}
                    of_sample.append((step, epoch, within))
    return uses


def with_uses(
    parts: Sequence[tuple[Part, Samples]], run: Run, encoder: Encoder, reached: int
) -> Iterator[Part]:
    """The parts of the train split with the updates, below `reached`, that use them."""
    if not parts:
        return
    uses_by_part = uses_of(run, [part.sample for part, _ in parts])
    for (part, _), uses in zip(parts, uses_by_part, strict=True):
        described = (
            Use(step, epoch + 1, step <= reached, tuple(_masked(part, targets, run, encoder)))
            for step, epoch, targets in uses
        )
        yield replace(part, uses=tuple(described))


def _masked(part: Part, targets: Targets, run: Run, encoder: Encoder) -> Iterator[Masked]:
    for token in part.tokens:
        if (now := targets.get(token.place)) is not None:
            mask = now == run.plan.mask_id
            kind = "mask" if mask else "itself" if now == token.id else "random"
            yield Masked(token.place, kind, now, _text_of(encoder, now))


def _targets(batch: dict) -> list[Targets]:
    """Those of each sample of a masked batch."""
    rows = zip(batch["input_ids"], batch["positions"], batch["weights"], strict=True)
    return [
        {place: int(ids[place]) for place in positions[weights > 0].tolist()}
        for ids, positions, weights in rows
    ]


def _text_of(encoder: Encoder, token: int) -> str:
    """How a token reads by itself; its name in the vocabulary if that is nothing."""
    text = encoder.decode([token], skip_special_tokens=False).strip()
    return text if text and "\ufffd" not in text else encoder.names()[token]
