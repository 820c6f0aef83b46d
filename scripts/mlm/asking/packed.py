"""Where the tokens of a document, or a row of tokens, are in the samples of a split."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from mlm.corpus.shares import document_range
from mlm.foundations.errors import MlmError
from mlm.samples.blocks import ShardBlocks
from mlm.samples.document_spans import check_shard, checked_samples, document_begins, shard_tokens
from mlm.samples.manifests import Manifest, place_of, shards_remedy
from mlm.samples.shuffling import BLOCK_SAMPLES
from mlm.samples.split_samples import Rows, Samples, joined
from mlm.samples.tfrecord import SampleError, decode_samples
from mlm.tokenizer.encoding import Encoder


@dataclass(frozen=True)
class Packed:
    """Tokens that follow one another in one sample, at the places `start` to `end` of it.

    `sample` is its index in the split, `shard` its file's name, `shard_sample` its index there;
    `input_ids` and `attention_mask` [sequence] are those of the whole sample. `texts` are those of
    the tokens.
    """

    sample: int
    shard: str
    shard_sample: int
    start: int
    end: int
    input_ids: np.ndarray
    attention_mask: np.ndarray
    texts: tuple[str, ...]


@dataclass(frozen=True)
class _Rows(Rows):
    """Samples that follow one another: int32 and bool, [samples, sequence]."""

    input_ids: np.ndarray
    attention_mask: np.ndarray


class PackedSplit:
    """The samples of a split, read shard by shard when they are asked for.

    `root` is the directory that the manifest's paths are relative to. If `tokens` gives how many
    tokens each document of a shard has, no more of a shard is read than the blocks with the
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

    def of_characters(self, document: int, text: str, start: int, end: int) -> list[Packed]:
        """The parts that hold characters `start` to `end` of the document, in order.

        Raises MlmError if the shard does not hold the document as it is tokenised.
        """
        ids, places = self._encoder.encode_with_places(text)
        inside = [
            i for i, (a, b) in enumerate(places[1:-1], 1) if a < end and max(a + 1, b) > start
        ]
        if not inside:
            return []
        shard, number = self._shard_of(document)
        begin = self._begin_of(shard, number)
        if begin is None or self._row_of(shard, begin, len(ids)) != ids:
            raise MlmError(
                f"{self._manifest.shards[shard].path}: its document {number} is not document "
                f"{document} of the {self._manifest.split} split as "
                "results/tokenizer/tokenizer.json divides it. "
                f"{shards_remedy(self._manifest)}"
            )
        first, last = inside[0], inside[-1] + 1
        texts = [text[a:b].strip() for a, b in places[first:last]]
        return self._parts(shard, begin + first, begin + last, texts)

    def of_ids(self, rows: Sequence[Sequence[int]]) -> list[list[Packed]]:
        """Each place where one of `rows` of ids is, as its parts; in order."""
        found = []
        for shard in range(len(self._manifest.shards)):
            stream = shard_tokens(self._samples(shard))
            starts = sorted({(at, len(row)) for row in rows for at in _places_of(row, stream)})
            found += [self._parts(shard, at, at + length, [""] * length) for at, length in starts]
        return found

    def _shard_of(self, document: int) -> tuple[int, int]:
        """The shard of a document, and its number there."""
        documents, shards = self._manifest.documents, len(self._manifest.shards)
        for shard in range(shards):
            held = document_range(documents, shard, shards)
            if document in held:
                return shard, document - held.start
        raise MlmError(
            f"results/manifests/{self._manifest.split}.json: its shards hold {documents} "
            f"documents, so that there is no document {document}. {shards_remedy(self._manifest)}"
        )

    def _begin_of(self, shard: int, number: int) -> int | None:
        """The first token of a shard's document, None if it has fewer documents."""
        if self._tokens:
            counts = self._tokens(shard)
            return int(counts[:number].sum()) if number < len(counts) else None
        begins = document_begins(shard_tokens(self._samples(shard)), self._encoder)
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
        """A block of a shard; MlmError if the shard is not what its manifest says."""
        if (shard, number) not in self._blocks:
            entry = self._manifest.shards[shard]
            if not any(known == shard for known, _ in self._blocks):
                check_shard(self._manifest, shard, self._root)
            stored = ShardBlocks(
                place_of(entry, self._root),
                entry.path,
                entry.num_samples,
                entry.block_offsets,
            )
            try:
                ids, mask = decode_samples(stored.read(number), self._manifest.sequence_length)
            except SampleError as error:
                raise MlmError(f"{entry.path}: block {number}: {error}.") from None
            self._blocks[shard, number] = _Rows(ids.astype(np.int32), mask.astype(bool))
        return self._blocks[shard, number]

    def _samples(self, shard: int) -> Samples:
        """The samples of a shard; MlmError if it is not what its manifest says."""
        if shard not in self._kept:
            self._kept[shard] = checked_samples(self._manifest, shard, self._root)
        return self._kept[shard]

    def _parts(self, shard: int, start: int, end: int, texts: Sequence[str]) -> list[Packed]:
        """Tokens `start` to `end` of a shard's stream, with their texts, by sample."""
        length = self._manifest.sequence_length
        first, last = start // length, -(-end // length)
        rows, parts = self._rows(shard, first, last), []
        for number in range(first, last):
            begin, stop = max(start, number * length), min(end, (number + 1) * length)
            parts.append(
                Packed(
                    sample=int(self._first[shard]) + number,
                    shard=self._manifest.shards[shard].name,
                    shard_sample=number,
                    start=begin - number * length,
                    end=stop - number * length,
                    input_ids=rows.input_ids[number - first],
                    attention_mask=rows.attention_mask[number - first],
                    texts=tuple(texts[begin - start : stop - start]),
                )
            )
        return parts


def _places_of(row: Sequence[int], stream: np.ndarray) -> Iterator[int]:
    """Where `row` begins in `stream`."""
    if not row or len(row) > len(stream):
        return
    places = np.flatnonzero(stream[: len(stream) - len(row) + 1] == row[0])
    for offset, token in enumerate(row[1:], start=1):
        places = places[stream[places + offset] == token]
    yield from places.tolist()
