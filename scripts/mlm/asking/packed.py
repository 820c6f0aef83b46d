"""Where the tokens of a document, or a row of tokens, stand in the samples of a split."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from mlm.asking.documents import best_stretch, likeliest, weight
from mlm.corpus.shares import document_range
from mlm.foundations.errors import MlmError
from mlm.samples.blocks import ShardBlocks
from mlm.samples.document_spans import (
    check_shard,
    checked_samples,
    document_begins,
    shard_tokens,
)
from mlm.samples.manifests import Manifest, place_of, shards_remedy
from mlm.samples.shuffling import BLOCK_SAMPLES
from mlm.samples.split_samples import Rows, Samples, joined
from mlm.samples.tf_example import SampleError, decode_samples
from mlm.tokenizer.encoding import Encoder


@dataclass(frozen=True)
class Packed:
    """Tokens that stand together in one sample.

    `sample` is its index in the split, `shard` its file's name, `shard_sample` its index there.
    The tokens take the places `start` to `end` of it; `input_ids` and `attention_mask` are
    those of the whole sample, [sequence].
    """

    sample: int
    shard: str
    shard_sample: int
    start: int
    end: int
    input_ids: np.ndarray
    attention_mask: np.ndarray


@dataclass(frozen=True)
class _Rows(Rows):
    """Samples that follow one another: int32 and bool, [samples, sequence]."""

    input_ids: np.ndarray
    attention_mask: np.ndarray


class PackedSplit:
    """The samples of a split, read shard by shard when they are asked for.

    `root` is the directory that the manifest's paths are relative to. Where `tokens` gives how many
    tokens each document of a shard has, no more of a shard is read than the blocks that hold the
    passage.
    """

    def __init__(
        self,
        manifest: Manifest,
        root: str | Path,
        encoder: Encoder,
        tokens: Callable[[int], np.ndarray] | None = None,
    ):
        self._manifest, self._root, self._encoder = manifest, root, encoder
        self._first = np.cumsum([0, *(shard.num_samples for shard in manifest.shards)])
        self._tokens = tokens
        self._kept: dict[int, Samples] = {}
        self._blocks: dict[tuple[int, int], _Rows] = {}

    def with_tokens(self, tokens: Callable[[int], np.ndarray]) -> "PackedSplit":
        """The same, which knows how many tokens each document of a shard has."""
        return PackedSplit(self._manifest, self._root, self._encoder, tokens)

    def of_characters(
        self, document: int, text: str, start: int, end: int
    ) -> tuple[list[Packed], list[str]]:
        """The parts that hold characters `start` to `end` of the document, and the text of each
        of their tokens, in order.

        Raises MlmError where the shard does not hold the document as it is tokenised.
        """
        ids, places = self._encoder.encode_with_places(text)
        inside = [
            i for i, (a, b) in enumerate(places[1:-1], 1) if a < end and max(a + 1, b) > start
        ]
        if not inside:
            return [], []
        shard, number = self._shard_of(document)
        begin = self._begin_of(shard, number)
        if begin is None or self._row_of(shard, begin, len(ids)) != ids:
            name = self._manifest.shards[shard].path
            raise MlmError(
                f"{name}: its document {number} is not document {document} of the "
                f"{self._manifest.split} split as results/tokenizer/tokenizer.json divides it. "
                f"{shards_remedy(self._manifest)}"
            )
        first, last = inside[0], inside[-1] + 1
        texts = [text[a:b].strip() for a, b in places[first:last]]
        return self._parts(shard, begin + first, begin + last), texts

    def of_ids(self, rows: Sequence[Sequence[int]]) -> list[list[Packed]]:
        """Each place where one of `rows` of ids stands, as its parts; in order."""
        found = []
        for shard in range(len(self._manifest.shards)):
            stream = self._stream(shard)
            starts = sorted({(at, len(row)) for row in rows for at in _places_of(row, stream)})
            found += [self._parts(shard, at, at + length) for at, length in starts]
        return found

    def nearest_ids(self, row: Sequence[int], count: int) -> list[tuple[list[Packed], int, float]]:
        """The `count` stretches of samples that share the most ids with `row`, each id weighing the
        more the rarer it is; best first, each with how many it shares, and their weight."""
        wanted, having, found = sorted(set(row)), [], []
        if not wanted:
            return []
        for shard in range(len(self._manifest.shards)):
            ids = self._samples(shard).input_ids
            having.append(np.stack([(ids == i).any(axis=1) for i in wanted]))
        having = np.concatenate(having, axis=1)
        counts = having.sum(axis=1).tolist()
        weights = {i: weight(n, having.shape[1]) for i, n in zip(wanted, counts, strict=True)}
        for sample in likeliest(np.array(list(weights.values())) @ having).tolist():
            shard = int(np.searchsorted(self._first, sample, side="right")) - 1
            within = sample - int(self._first[shard])
            first, last, shared, score = best_stretch(
                self._samples(shard).input_ids[within].tolist(), list(row), weights
            )
            length = self._manifest.sequence_length
            at = within * length
            found.append((self._parts(shard, at + first, at + last), shared, score))
        return sorted(found, key=lambda one: -one[2])[:count]

    def _shard_of(self, document: int) -> tuple[int, int]:
        """The shard of a document, and its number there."""
        documents, shards = self._manifest.documents, len(self._manifest.shards)
        for shard in range(shards):
            held = document_range(documents, shard, shards)
            if document in held:
                return shard, document - held.start
        raise MlmError(
            f"results/manifests/{self._manifest.split}.json: its shards hold {documents} "
            f"documents, so that there is no document {document}. "
            f"{shards_remedy(self._manifest)}"
        )

    def _begin_of(self, shard: int, number: int) -> int | None:
        """The first token of a shard's document, None where it has fewer documents."""
        if self._tokens:
            counts = self._tokens(shard)
            return int(counts[:number].sum()) if number < len(counts) else None
        begins = document_begins(self._stream(shard), self._encoder)
        return int(begins[number]) if number < len(begins) else None

    def _row_of(self, shard: int, begin: int, count: int) -> list[int]:
        """`count` tokens of a shard's stream, or as many as there are."""
        length = self._manifest.sequence_length
        rows = self._rows(shard, begin // length, -(-(begin + count) // length))
        stream = rows.input_ids[rows.attention_mask]
        return stream[begin % length : begin % length + count].tolist()

    def _rows(self, shard: int, first: int, last: int) -> _Rows:
        """Samples `first` to `last` of a shard, by their number there."""
        if self._tokens is None:
            samples = self._samples(shard)[first:last]
            return _Rows(samples.input_ids, samples.attention_mask)
        begin, end = first // BLOCK_SAMPLES, -(-last // BLOCK_SAMPLES)
        blocks = joined([self._block(shard, number) for number in range(begin, end)])
        return blocks[first - begin * BLOCK_SAMPLES : last - begin * BLOCK_SAMPLES]

    def _block(self, shard: int, number: int) -> _Rows:
        """A block of a shard, which was compared with its manifest; MlmError where they differ."""
        if (shard, number) not in self._blocks:
            entry = self._manifest.shards[shard]
            if not any(known == shard for known, _ in self._blocks):
                check_shard(self._manifest, shard, self._root)
            stored = ShardBlocks(
                place_of(entry, self._root),
                entry.path,
                entry.num_samples,
                self._manifest.compression,
                entry.block_offsets,
            )
            try:
                ids, mask = decode_samples(stored.read(number), self._manifest.sequence_length)
            except SampleError as error:
                raise MlmError(f"{entry.path}: block {number}: {error}.") from None
            self._blocks[shard, number] = _Rows(ids.astype(np.int32), mask.astype(bool))
        return self._blocks[shard, number]

    def _samples(self, shard: int) -> Samples:
        """The samples of a shard, which was compared with its manifest; MlmError where they differ.

        `index` counts from the shard's first.
        """
        if shard not in self._kept:
            self._kept[shard] = checked_samples(self._manifest, shard, self._root)
        return self._kept[shard]

    def _stream(self, shard: int) -> np.ndarray:
        """All tokens of a shard one after the other: only at its end is padding."""
        return shard_tokens(self._samples(shard))

    def _parts(self, shard: int, start: int, end: int) -> list[Packed]:
        """Tokens `start` to `end` of a shard's stream, by sample."""
        length = self._manifest.sequence_length
        first, last = start // length, -(-end // length)
        rows = self._rows(shard, first, last)
        return [
            Packed(
                sample=int(self._first[shard]) + number,
                shard=self._manifest.shards[shard].name,
                shard_sample=number,
                start=max(start, number * length) - number * length,
                end=min(end, (number + 1) * length) - number * length,
                input_ids=rows.input_ids[number - first],
                attention_mask=rows.attention_mask[number - first],
            )
            for number in range(first, last)
        ]


def _places_of(row: Sequence[int], stream: np.ndarray) -> Iterator[int]:
    """Where `row` begins in `stream`."""
    if not row or len(row) > len(stream):
        return
    places = np.flatnonzero(stream[: len(stream) - len(row) + 1] == row[0])
    for offset, token in enumerate(row[1:], start=1):
        places = places[stream[places + offset] == token]
    yield from places.tolist()
