"""Where passages are in the samples of their split, and what a training shows of them and when: in
the order of `mlm.samples.stored_batches`, with the masks of `mlm.samples.masking`."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal, NamedTuple

import numpy as np

from mlm.asking.documents import Stretch
from mlm.samples.documents_in_samples import Span
from mlm.samples.manifests import Manifest
from mlm.samples.masking import MaskingPlan, mask_batch
from mlm.samples.split_samples import ShardFiles, joined, read_samples
from mlm.samples.stored_batches import BatchOrder
from mlm.tokenizer.encoding import Encoder

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
    """The part of a passage in one sample: number `sample` of the split, `shard_sample` of the file
    `shard`."""

    sample: int
    shard: str
    shard_sample: int
    tokens: tuple[Token, ...]
    uses: tuple[Use, ...] = ()


class Packed(NamedTuple):
    """A part, with the `input_ids` and `attention_mask` [sequence] of its whole sample."""

    part: Part
    input_ids: np.ndarray
    attention_mask: np.ndarray


def packed_parts(
    stretches: Sequence[Stretch],
    spans: Mapping[int, Sequence[Span]],
    manifest: Manifest,
    root: str | Path,
    encoder: Encoder,
) -> list[list[Packed]]:
    """For each of `stretches` of the manifest's split, its parts in order; `spans` are those of
    their documents."""
    if not stretches:
        return []
    samples = np.unique([sample for of_one in spans.values() for sample, _, _ in of_one])
    rows = joined(list(read_samples(manifest, root, samples)))
    firsts = np.cumsum([0, *(shard.num_samples for shard in manifest.shards)])
    found: list[list[Packed]] = []
    for one in stretches:
        _, offsets = encoder.encode_with_offsets(one.text)
        # The first token and the last are special.
        inside = [
            token
            for token, (begin, end) in enumerate(offsets[1:-1], 1)
            if begin < one.end and max(begin + 1, end) > one.start
        ]
        found.append([])
        before = 0
        for sample, start, end in spans[one.document] if inside else ():
            first, last = max(inside[0], before), min(inside[-1] + 1, before + end - start)
            if first < last:
                shard = int(np.searchsorted(firsts, sample, "right")) - 1
                row = int(np.searchsorted(samples, sample))
                ids = rows.input_ids[row]
                tokens = []
                for place, (begin, stop) in enumerate(offsets[first:last], start + first - before):
                    token = int(ids[place])
                    text = one.text[begin:stop].strip() or text_of(encoder, token)
                    tokens.append(Token(place, token, text))
                within = sample - int(firsts[shard])
                part = Part(sample, manifest.shards[shard].name, within, tuple(tokens))
                found[-1].append(Packed(part, ids, rows.attention_mask[row]))
            before += end - start
    return found


@dataclass(frozen=True)
class UsedBatches:
    """What decides the batches of a training, of which `reached` are known to be made; `encoder`
    turns tokens into text."""

    order: BatchOrder
    shards: ShardFiles
    plan: MaskingPlan
    seed: int
    encoder: Encoder
    reached: int

    def uses(
        self, index: np.ndarray, input_ids: np.ndarray, attention_mask: np.ndarray
    ) -> list[list[tuple[int, int, Targets]]]:
        """For each of the samples `index` [samples] of the train split, step (from 1), epoch (from
        0) and targets of each update that uses it, in order. `input_ids` and `attention_mask`
        [samples, sequence] are what is stored."""
        samples = self.order.of_samples(self.shards)
        end = self.order.steps * self.order.global_batch_size
        found: list[list[tuple[int, int, Targets]]] = [[] for _ in index]
        for epoch in range(-(-end // samples.num_samples)):
            places = samples.places(index, epoch)
            used = np.flatnonzero(places < end)
            if not len(used):
                continue
            stored = input_ids[used], attention_mask[used], index[used]
            targets = _targets(mask_batch(*stored, self.plan, self.seed, np.full(len(used), epoch)))
            steps = self.order.updates_of(places[used]).tolist()
            for row, step, of_sample in zip(used, steps, targets, strict=True):
                found[row].append((step, epoch, of_sample))
        return found

    def with_uses(self, packed: Sequence[Packed]) -> list[Part]:
        """The parts of the train split with the updates that use them."""
        if not packed:
            return []
        parts, *stored = zip(*packed, strict=True)
        index, found = np.array([part.sample for part in parts], np.int64), []
        for part, uses in zip(parts, self.uses(index, *map(np.stack, stored)), strict=True):
            told = tuple(
                Use(step, epoch + 1, step <= self.reached, self._masked(part, targets))
                for step, epoch, targets in uses
            )
            found.append(replace(part, uses=told))
        return found

    def _masked(self, part: Part, targets: Targets) -> tuple[Masked, ...]:
        found = []
        for token in part.tokens:
            if (now := targets.get(token.place)) is not None:
                mask = now == self.plan.mask_id
                kind = "mask" if mask else "itself" if now == token.id else "random"
                found.append(Masked(token.place, kind, now, text_of(self.encoder, now)))
        return tuple(found)


def _targets(batch: dict) -> list[Targets]:
    """Those of each sample of a masked batch."""
    rows = zip(batch["input_ids"], batch["positions"], batch["weights"], strict=True)
    return [
        {place: int(ids[place]) for place in positions[weights > 0].tolist()}
        for ids, positions, weights in rows
    ]


def text_of(encoder: Encoder, token: int) -> str:
    """How a token reads by itself; its name in the vocabulary if that is nothing."""
    text = encoder.decode([token], skip_special_tokens=False).strip()
    return text if text and "\ufffd" not in text else encoder.names()[token]
