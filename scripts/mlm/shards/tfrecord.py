"""TFRecord files of fixed-length token samples, written and read without TensorFlow.

A TFRecord file is a sequence of records, each framed as

    uint64 length | uint32 masked crc32c of the length | data | uint32 masked crc32c of the data

(https://www.tensorflow.org/tutorials/load_data/tfrecord#tfrecords_format_details), all little
endian. The data is a serialised `tf.train.Example` with the int64 features `input_ids` and
`attention_mask`, and, where groups are known, `span_groups` and `span_lengths`: the runs of
tokens of one group, in order (`mlm.shards.packing.Spans`). The bytes are those of protobuf's
deterministic serialisation: map keys in sorted order, lists packed (https://protobuf.dev/programming-guides/encoding/).
"""

import gzip
import hashlib
import io
import os
import struct
import zlib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from functools import cache
from typing import BinaryIO

import google_crc32c
import numpy as np

from mlm.foundations.errors import MlmError
from mlm.shards.packing import Spans

FEATURES = ("attention_mask", "input_ids")
SPAN_FEATURES = ("span_groups", "span_lengths")
COMPRESSIONS = ("none", "gzip")
_GZIP_MAGIC = b"\x1f\x8b"
_READ_BYTES = 1 << 20


def masked_crc32c(data: bytes) -> int:
    """The crc32c of `data`, rotated and offset as TFRecord files store it."""
    return _mask(google_crc32c.value(data))


def _mask(crc: int) -> int:
    return (((crc >> 15) | (crc << 17)) + 0xA282EAD8) & 0xFFFFFFFF


def _varint(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def _delimited(field: int, payload_length: int) -> bytes:
    """Tag and length that stand before a length-delimited field's payload."""
    return _varint(field << 3 | 2) + _varint(payload_length)


def _feature_head(name: str, payload_length: int) -> bytes:
    """All of a map entry `name: Feature` that stands before the packed int64 values."""
    values = _delimited(1, payload_length)  # Int64List.value
    kind = _delimited(3, len(values) + payload_length)  # Feature.int64_list
    feature = _delimited(2, len(kind) + len(values) + payload_length)  # entry.value
    key = _delimited(1, len(name)) + name.encode()
    size = len(key) + len(feature) + len(kind) + len(values) + payload_length
    return _delimited(1, size) + key + feature + kind + values  # Features.feature


def encode_varints(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """`values` [n], not negative, as base-128 varints: their bytes and each one's length [n]."""
    values = values.astype(np.uint64, copy=False)
    largest = int(values.max()) if values.size else 0
    width = max(1, -(-largest.bit_length() // 7))
    sizes = np.ones(values.shape, np.int64)
    for k in range(1, width):
        sizes += values >= np.uint64(1 << (7 * k))
    columns = np.arange(width, dtype=np.uint64)
    groups = (values[:, None] >> (columns * np.uint64(7))).astype(np.uint8) & np.uint8(0x7F)
    last = (sizes - 1)[:, None]
    positions = columns.astype(np.int64)
    groups[positions < last] |= 0x80
    return groups[positions <= last], sizes


def decode_varints(data: np.ndarray) -> np.ndarray:
    """The int64 values of the varints in `data` (uint8), a whole number of them.

    Raises ValueError where the last one is cut off or one is longer than 10 bytes.
    """
    if not data.size:
        return np.zeros(0, np.int64)
    if data[-1] & 0x80:
        raise ValueError("the last integer is cut off")
    ends = np.flatnonzero(data < 0x80)
    starts = np.concatenate(([0], ends[:-1] + 1))
    sizes = ends - starts + 1
    if sizes.max() > 10:
        raise ValueError("an integer is longer than 10 bytes")
    values = (data[starts] & 0x7F).astype(np.uint64)
    for k in range(1, int(sizes.max())):
        longer = np.flatnonzero(sizes > k)
        part = (data[starts[longer] + k] & 0x7F).astype(np.uint64)
        values[longer] |= part << np.uint64(7 * k)
    return values.view(np.int64)


@cache
def _frame_head(mask: bytes, ids_length: int, spans_length: int) -> tuple[bytes, int]:
    """What precedes the ids of a record, frame included, and the crc32c of the data so far.

    `mask` is the attention mask, a byte a token; `ids_length` the bytes of the encoded ids,
    `spans_length` those of all that follows them. Few of each exist, so this is computed once.
    """
    mask_feature = _feature_head("attention_mask", len(mask)) + mask
    body = mask_feature + _feature_head("input_ids", ids_length)
    rest = ids_length + spans_length
    head = _delimited(1, len(body) + rest) + body  # Example.features
    length = struct.pack("<Q", len(head) + rest)
    frame = length + struct.pack("<I", masked_crc32c(length))
    return frame + head, google_crc32c.value(head)


def encode_samples(
    input_ids: np.ndarray, real_tokens: np.ndarray, spans: Spans | None = None
) -> bytes:
    """Framed TFRecord records of a batch of samples.

    `input_ids` is [batch, sequence], not negative; `real_tokens` [batch] says how many ids at
    the start of each row have attention mask 1, the others having 0. `spans` are the groups of
    the tokens, where they are known.
    """
    batch, sequence = input_ids.shape
    masks = {n: b"\1" * n + b"\0" * (sequence - n) for n in set(real_tokens.tolist())}
    tails = _encoded_spans(spans) if spans else [b""] * batch
    extend = google_crc32c.extend
    parts, crcs = [], []
    payloads = _encoded_rows(input_ids.reshape(-1), np.full(batch, sequence))
    for tokens, ids, tail in zip(real_tokens.tolist(), payloads, tails, strict=True):
        head, crc = _frame_head(masks[tokens], len(ids), len(tail))
        crcs.append(extend(extend(crc, ids), tail))
        parts += (head, ids, tail, b"")
    crc = np.array(crcs, np.uint32)
    crc = (crc >> np.uint32(15) | crc << np.uint32(17)) + np.uint32(0xA282EAD8)
    footers = crc.astype("<u4").tobytes()
    parts[3::4] = [footers[i : i + 4] for i in range(0, len(footers), 4)]
    return b"".join(parts)


def _encoded_rows(values: np.ndarray, counts: np.ndarray) -> list[bytes]:
    """The varints of each row of `values` [sum of counts], row i with `counts[i]` values."""
    payload, sizes = encode_varints(values)
    ends = np.concatenate(([0], np.cumsum(sizes)))[np.cumsum(counts)].tolist()
    data = payload.tobytes()
    return [data[a:b] for a, b in zip([0, *ends[:-1]], ends, strict=True)]


@cache
def _span_head(name: str, payload_length: int) -> bytes:
    return _feature_head(name, payload_length)


def _encoded_spans(spans: Spans) -> list[bytes]:
    """The span features of each sample."""
    rows = [_encoded_rows(values, spans.counts) for values in (spans.groups, spans.lengths)]
    heads = [
        [_span_head(n, len(row)) for row in r] for n, r in zip(SPAN_FEATURES, rows, strict=True)
    ]
    return [b"".join(parts) for parts in zip(heads[0], rows[0], heads[1], rows[1], strict=True)]


class _Digesting(io.RawIOBase):
    """A writable stream that counts and hashes what goes through it."""

    def __init__(self, target: BinaryIO):
        self.target, self.sha256, self.num_bytes = target, hashlib.sha256(), 0

    def writable(self) -> bool:
        return True

    def write(self, data) -> int:
        self.sha256.update(data)
        self.num_bytes += len(data)
        self.target.write(data)
        return len(data)


class SampleWriter:
    """Writes samples to one TFRecord file and counts what it wrote.

    `num_samples`, `num_tokens` (mask 1) and `num_padding` (mask 0) hold at any time;
    `num_bytes` and `sha256` of the file once `close` was called.
    """

    def __init__(self, path: str | os.PathLike, compression: str = "none"):
        self._file = open(path, "wb")
        self._digesting = _Digesting(self._file)
        # No time and no name in the header: the same samples give the same bytes.
        self._stream = (
            gzip.GzipFile("", "wb", compresslevel=6, fileobj=self._digesting, mtime=0)
            if compression == "gzip"
            else self._digesting
        )
        self.num_samples = self.num_tokens = self.num_padding = 0

    def write(
        self, input_ids: np.ndarray, real_tokens: np.ndarray, spans: Spans | None = None
    ) -> None:
        """Append a batch of samples, as `encode_samples` takes it."""
        if not len(input_ids):
            return
        self._stream.write(encode_samples(input_ids, real_tokens, spans))
        tokens = int(real_tokens.sum())
        self.num_samples += len(input_ids)
        self.num_tokens += tokens
        self.num_padding += input_ids.size - tokens

    def close(self) -> None:
        """Finish the file. Nothing may be written afterwards."""
        if self._stream is not self._digesting:
            self._stream.close()
        self._file.close()
        self.num_bytes = self._digesting.num_bytes
        self.sha256 = self._digesting.sha256.hexdigest()

    def __enter__(self) -> "SampleWriter":
        return self

    def __exit__(self, *_) -> None:
        self.close()


@contextmanager
def _decompressed(stream: BinaryIO) -> Iterator[BinaryIO]:
    """`stream`, through gzip where it starts as gzip does."""
    if compression_of(stream) == "gzip":
        with gzip.GzipFile(fileobj=stream, mode="rb") as inner:
            yield io.BufferedReader(inner, _READ_BYTES)
    else:
        yield stream


def compression_of(stream: BinaryIO) -> str:
    """`gzip` or `none`, by the first bytes of a TFRecord file; `stream` is rewound."""
    start = stream.read(2)
    stream.seek(0)
    return "gzip" if start == _GZIP_MAGIC else "none"


def read_records(stream: BinaryIO, name: str) -> Iterator[bytes]:
    """The data of each record of an open TFRecord file, gzip or not, its checksums verified.

    `name` is what an error calls the file. Raises MlmError, with record and byte offset, for
    a wrong checksum or a file that ends within a record.
    """
    number, offset = 0, 0

    def wrong(what: str) -> MlmError:
        return MlmError(f"{name}: record {number} at byte {offset}: {what}")

    try:
        with _decompressed(stream) as source:
            while head := source.read(12):
                if len(head) < 12:
                    raise wrong(f"the file ends after {len(head)} of the 12 bytes of its header")
                if struct.unpack("<I", head[8:])[0] != masked_crc32c(head[:8]):
                    raise wrong("the checksum of its length is wrong; the file is damaged")
                length = struct.unpack("<Q", head[:8])[0]
                body = source.read(length + 4)
                if len(body) < length + 4:
                    raise wrong(f"the file ends after {len(body)} of {length + 4} bytes of it")
                data = body[:length]
                if struct.unpack("<I", body[length:])[0] != masked_crc32c(data):
                    raise wrong("the checksum of its data is wrong; the file is damaged")
                yield data
                number, offset = number + 1, offset + 16 + length
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise wrong(f"the gzip stream is truncated or damaged ({error})") from None


def _fields(data: bytes, start: int, end: int) -> Iterator[tuple[int, int, int, int]]:
    """Field number, wire type, and where its payload starts and ends, of a protobuf message."""
    while start < end:
        tag, start = _read_varint(data, start, end)
        kind = tag & 7
        if kind == 0:
            _, stop = _read_varint(data, start, end)
        elif kind == 2:
            size, start = _read_varint(data, start, end)
            stop = start + size
        elif kind in (1, 5):
            stop = start + (8 if kind == 1 else 4)
        else:
            raise ValueError(f"wire type {kind} is unknown")
        if stop > end:
            raise ValueError("a field reaches beyond its message")
        yield tag >> 3, kind, start, stop
        start = stop


def _read_varint(data: bytes, start: int, end: int) -> tuple[int, int]:
    value = shift = 0
    while start < end:
        byte = data[start]
        start += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, start
        shift += 7
    raise ValueError("an integer is cut off")


def parse_example(data: bytes) -> dict[str, bytes | None]:
    """The features of a serialised `tf.train.Example` by name.

    A value is the int64 list's varints one after the other, or None for a feature of another
    type. Raises ValueError where the bytes are not such a message.
    """
    found: dict[str, bytes | None] = {}
    for number, kind, start, end in _fields(data, 0, len(data)):
        if (number, kind) != (1, 2):
            continue
        for entry_number, entry_kind, first, last in _fields(data, start, end):
            if (entry_number, entry_kind) != (1, 2):
                continue
            name, value = b"", None
            for part, _, a, b in _fields(data, first, last):
                if part == 1:
                    name = data[a:b]
                elif part == 2:
                    value = _int64_list(data, a, b)
            found[name.decode("utf-8", "replace")] = value
    return found


def _int64_list(data: bytes, start: int, end: int) -> bytes | None:
    values, is_int64 = [], False
    for number, _, a, b in _fields(data, start, end):
        if number == 3:
            is_int64 = True
            # Packed and unpacked lists both hold plain varints.
            values += [data[c:d] for part, _, c, d in _fields(data, a, b) if part == 1]
    return b"".join(values) if is_int64 else None


def decode_samples(records: Iterable[bytes], sequence_length: int) -> tuple[np.ndarray, np.ndarray]:
    """`input_ids` and `attention_mask`, int64 [batch, sequence], of serialised Examples.

    Raises SampleError, with the record's place in the batch, for a missing feature, one of
    another type, or one of another length.
    """
    payloads = _payloads(records, FEATURES)
    mask, ids = (_matrix(payloads[name], name, sequence_length) for name in FEATURES)
    return ids, mask


def decode_grouped_samples(
    records: Iterable[bytes], sequence_length: int
) -> tuple[np.ndarray, np.ndarray, Spans]:
    """As `decode_samples`, and the spans of the groups.

    Raises SampleError also where these are missing, or are not those of the sample's tokens.
    """
    payloads = _payloads(records, (*FEATURES, *SPAN_FEATURES))
    mask, ids = (_matrix(payloads[name], name, sequence_length) for name in FEATURES)
    (groups, counts), (lengths, others) = (_values(payloads[name]) for name in SPAN_FEATURES)
    samples = np.repeat(np.arange(len(counts)), counts)
    fits = counts == others
    if fits.all():
        fits = np.bincount(samples, lengths, len(counts)) == mask.sum(axis=1)
        fits &= np.bincount(samples, lengths < 1, len(counts)) == 0
    if not fits.all():
        place = int(np.flatnonzero(~fits)[0])
        raise SampleError(place, "span_groups and span_lengths are not those of its tokens")
    return ids, mask, Spans(groups, lengths, counts)


def _payloads(records: Iterable[bytes], names: tuple[str, ...]) -> dict[str, list[bytes]]:
    """The varints of the features `names`, record after record."""
    payloads: dict[str, list[bytes]] = {name: [] for name in names}
    for place, data in enumerate(records):
        try:
            example = _as_written(data) or parse_example(data)
        except ValueError as error:
            raise SampleError(place, f"is no tf.train.Example ({error})") from None
        for name in names:
            payload = example.get(name)
            if payload is None:
                kind = "is of another type than int64" if name in example else "is missing"
                raise SampleError(place, f"{name} {kind}")
            payloads[name].append(payload)
    return payloads


def _as_written(data: bytes) -> dict[str, bytes] | None:
    """What `parse_example` gives, for a record laid out as the writer here does; else None."""
    _, start = _read_varint(data, 1, len(data))
    found = {}
    for name in (*FEATURES, *SPAN_FEATURES):
        if start == len(data) and found:
            break
        size, payload = _read_varint(data, start + 1, len(data))
        head, stop = _entry_head(name, payload - start + size), payload + size
        if head is None or not data.startswith(head, start) or stop > len(data):
            return None
        found[name] = data[start + len(head) : stop]
        start = stop
    return found if start == len(data) else None


@cache
def _entry_head(name: str, entry_length: int) -> bytes | None:
    """What stands before the values of feature `name` in a map entry of `entry_length` bytes."""
    for head_length in range(len(name) + 10, min(len(name) + 30, entry_length + 1)):
        head = _feature_head(name, entry_length - head_length)
        if len(head) == head_length:
            return head
    return None


class SampleError(ValueError):
    """Record `place` of a batch is not the sample that was expected."""

    def __init__(self, place: int, problem: str):
        super().__init__(problem)
        self.place = place


def _values(payloads: list[bytes]) -> tuple[np.ndarray, np.ndarray]:
    """All values of a feature, int64, and how many each record has, int64 [batch]."""
    data = np.frombuffer(b"".join(payloads), np.uint8)
    closed = np.concatenate(([0], np.cumsum(data < 0x80)))
    ends = np.cumsum([0] + [len(p) for p in payloads])
    return decode_varints(data), np.diff(closed[ends])


def _matrix(payloads: list[bytes], name: str, sequence_length: int) -> np.ndarray:
    values, counts = _values(payloads)
    wrong = np.flatnonzero(counts != sequence_length)
    if wrong.size:
        place = int(wrong[0])
        raise SampleError(
            place, f"{name} holds {int(counts[place])} values; {sequence_length} are expected"
        )
    return values.reshape(len(payloads), sequence_length)
