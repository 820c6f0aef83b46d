"""Where passages are in the corpus and in the samples of their split, and what a training shows of
them and when: in the order of `mlm.samples.batch_order`, and masks of `mlm.samples.masking`.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from pathlib import Path
from typing import Literal

import numpy as np
import pyarrow.compute as pc

from mlm.corpus.artefacts import document_range
from mlm.corpus.corpus_reading import SplitDocuments
from mlm.corpus.words_and_minhash import inside_word
from mlm.foundations.errors import MlmError
from mlm.samples.manifests import SHARDS_REMEDY, Manifest, check_shards
from mlm.samples.masking import mask_batch
from mlm.samples.shard_reading import joined, read_samples, samples_in_order
from mlm.tokenizer.encoding import Encoder
from mlm.training.resolved_run import Run

#: By the position of each target of a sample, the id that the model sees there.
Targets = dict[int, int]


@dataclass(frozen=True)
class Stretch:
    """Characters `start` to `end` of a document of a split, whose whole text is `text`."""

    split: str
    document: int
    text: str
    start: int
    end: int

    @property
    def passage(self) -> str:
        return self.text[self.start : self.end]


def occurrences(sentence: str, splits: Mapping[str, SplitDocuments]) -> list[Stretch]:
    """Return where `sentence` occurs, in the order of the splits; any white space equals any other,
    and in scripts with spaces between words a match neither begins nor ends inside a word."""
    return [
        match
        for split, documents in splits.items()
        for number, text in _texts_with(max(sentence.split(), key=len), documents)
        for match in matches(sentence, split, number, text)
    ]


def _texts_with(part: str, documents: SplitDocuments) -> Iterator[tuple[int, str]]:
    """Yield number and text of each document with the characters of `part`."""
    first = 0
    for rows in documents.batches(["text"], 8192):
        column = rows.column("text")
        # pyarrow's to_numpy imports pandas, which takes longer than all else.
        has_part = pc.call_function("match_substring", [column], pc.MatchSubstringOptions(part))
        for place in np.from_dlpack(pc.call_function("indices_nonzero", [has_part])).tolist():
            yield first + place, column[place].as_py()
        first += len(rows)


def matches(sentence: str, split: str, document: int, text: str) -> list[Stretch]:
    """Return where a document has `sentence`; any white space equals any other."""
    return [
        Stretch(split, document, text, match.start(), match.end())
        for match in re.finditer(r"\s+".join(map(re.escape, sentence.split())), text)
        if not (inside_word(text, match.start()) or inside_word(text, match.end()))
    ]


@dataclass(frozen=True)
class Token:
    """A token of the passage: its position in the sample, its id and its text."""

    position: int
    id: int
    text: str


@dataclass(frozen=True)
class Masked:
    """A target, and what the model saw in its place: the mask token, a random token or itself."""

    position: int
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


Parts = dict[Stretch, tuple[Part, ...]]


def packed_parts(
    stretches: Sequence[Stretch], manifest: Manifest, root: str | Path, encoder: Encoder
) -> Parts:
    """Return the parts of each of the `stretches`, all of one split; MlmError if a shard below
    `root` is not what the manifest says, or `encoder` divides a document differently."""
    parts, first, length = {}, 0, manifest.sequence_length
    for number, shard in enumerate(manifest.shards):
        held = document_range(manifest.documents, number, len(manifest.shards))
        if inside := [stretch for stretch in stretches if stretch.document in held]:
            alone = replace(manifest, shards=(shard,), num_samples=shard.num_samples, group_by=None)
            check_shards(alone, root)
            samples = joined(list(read_samples(alone, root)))
            # All tokens one after the other: only at the end of a shard is padding.
            stream = samples.input_ids[samples.attention_mask]
            begins = np.flatnonzero(stream == encoder.special_ids.cls)
            if encoder.special_ids.cls == encoder.special_ids.sep:
                begins = begins[::2]
            for stretch in inside:
                ids, offsets = encoder.encode_with_offsets(stretch.text)
                document = stretch.document - held.start
                start = int(begins[document]) if document < len(begins) else len(stream)
                if stream[start : start + len(ids)].tolist() != ids:
                    raise MlmError(
                        f"{shard.path}: its document {document} is not document "
                        f"{stretch.document} of the {manifest.split} split as the tokenizer "
                        f"divides it. {SHARDS_REMEDY}"
                    )
                # Row and position of each token of the stretch; the first and the last are special.
                tokens = [
                    (*divmod(start + i, length), token, stretch.text[begin:end].strip())
                    for i, (token, (begin, end)) in enumerate(zip(ids, offsets, strict=True))
                    if 0 < i < len(ids) - 1
                    and begin < stretch.end
                    and max(begin + 1, end) > stretch.start
                ]
                of_stretch = []
                for row, of_row in groupby(tokens, lambda token: token[0]):
                    shown = tuple(Token(p, t, s or _text_of(encoder, t)) for _, p, t, s in of_row)
                    of_stretch.append(Part(first + row, shard.name, row, shown))
                parts[stretch] = tuple(of_stretch)
        first += shard.num_samples
    return parts


def uses_of(run: Run, samples: Sequence[int]) -> list[list[tuple[int, int, Targets]]]:
    """Return for each of the stored `samples` of the train split step (from 1), epoch of its phase
    (from 0) and targets of each update of `run` that uses it, in order."""
    uses: list[list[tuple[int, int, Targets]]] = [[] for _ in samples]
    for phase in run.phases:
        train, batches = phase.train, phase.order_from(0)
        rows, places = train.rows_with(np.asarray(samples, np.int64))
        length = train.sequence_length // train.row_samples
        parts = [(i, *train.decoded(r)) for i, r in samples_in_order(train, np.unique(rows))]
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


def with_uses(parts: Parts, run: Run, encoder: Encoder, reached: int) -> Parts:
    """Return the `parts` of the train split with the updates that use them; the training is known
    to have made `reached` of them."""
    samples = [part.sample for of_stretch in parts.values() for part in of_stretch]
    uses = iter(uses_of(run, samples) if samples else ())

    def described(part: Part) -> Iterator[Use]:
        for step, epoch, targets in next(uses):
            masked = tuple(_masked(part, targets, run, encoder))
            yield Use(step, epoch + 1, step <= reached, masked)

    return {
        stretch: tuple(replace(part, uses=tuple(described(part))) for part in of_stretch)
        for stretch, of_stretch in parts.items()
    }


def _masked(part: Part, targets: Targets, run: Run, encoder: Encoder) -> Iterator[Masked]:
    for token in part.tokens:
        if (now := targets.get(token.position)) is not None:
            mask = now == run.plan.mask_id
            kind = "mask" if mask else "itself" if now == token.id else "random"
            yield Masked(token.position, kind, now, _text_of(encoder, now))


def _targets(batch: Mapping[str, np.ndarray]) -> list[Targets]:
    """Return those of each sample of a masked batch."""
    rows = zip(batch["input_ids"], batch["positions"], batch["weights"], strict=True)
    return [
        {place: int(ids[place]) for place in positions[weights > 0].tolist()}
        for ids, positions, weights in rows
    ]


def _text_of(encoder: Encoder, token: int) -> str:
    """Return how a token reads by itself; its name in the vocabulary if that is nothing."""
    text = encoder.decode([token], skip_special_tokens=False).strip()
    return text if text and "\ufffd" not in text else encoder.names()[token]
