"""TFRecord files of fixed-length token samples, written and read without TensorFlow.

A record is, little endian: uint64 length | uint32 masked crc32c of the length | data | uint32
masked crc32c of the data. The data is a serialised `tf.train.Example` with int64 features:
`input_ids`, `attention_mask` and, if groups are known, `span_groups` and `span_lengths`, the runs
of tokens of one group. TensorFlow gives the same bytes, but its import takes 5 s and 730 MB.
"""

import os
import struct
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager
from itertools import chain
from pathlib import Path
from typing import Any, BinaryIO

import google_crc32c
import numpy as np
from google.protobuf import text_format
from google.protobuf.descriptor_pb2 import FileDescriptorProto
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message import DecodeError
from google.protobuf.message_factory import GetMessageClass

from mlm.foundations.digests import file_sha256
from mlm.foundations.errors import MlmError
from mlm.samples.manifests import Shard
from mlm.samples.sample_order import BLOCK_SAMPLES

#: The group of padding.
NO_GROUP = -1
#: Bytes of a record beside its data.
FRAME_BYTES = 16
_FEATURES = ("attention_mask", "input_ids")
_SPANS = ("span_groups", "span_lengths")
#: Of tensorflow/core/example/{example,feature}.proto the part that holds integers.
_MESSAGES = """
name: "example.proto" package: "mlm" syntax: "proto3"
message_type { name: "Int64List"
  field { name: "value" number: 1 label: LABEL_REPEATED type: TYPE_INT64 } }
message_type { name: "Feature"
  field { name: "int64_list" number: 3 type: TYPE_MESSAGE type_name: ".mlm.Int64List" } }
message_type { name: "Features"
  field { name: "feature" number: 1 label: LABEL_REPEATED
    type: TYPE_MESSAGE type_name: ".mlm.Features.FeatureEntry" }
  nested_type { name: "FeatureEntry" options { map_entry: true }
    field { name: "key" number: 1 type: TYPE_STRING }
    field { name: "value" number: 2 type: TYPE_MESSAGE type_name: ".mlm.Feature" } } }
message_type { name: "Example"
  field { name: "features" number: 1 type: TYPE_MESSAGE type_name: ".mlm.Features" } }
"""
# A separate pool: TensorFlow's messages may be loaded beside these.
_pool = DescriptorPool()
_pool.Add(text_format.Parse(_MESSAGES, FileDescriptorProto()))
_Example: Any = GetMessageClass(_pool.FindMessageTypeByName("mlm.Example"))


def masked_crc32c(data: bytes) -> bytes:
    """Return the crc32c of `data`, rotated and offset, as TFRecord files store it."""
    crc = google_crc32c.value(data)
    return struct.pack("<I", (((crc >> 15) | (crc << 17)) + 0xA282EAD8) & 0xFFFFFFFF)


def encode_samples(
    input_ids: np.ndarray, real_tokens: np.ndarray, groups: np.ndarray | None = None
) -> list[bytes]:
    """Return the framed record of each sample of `input_ids` [batch, sequence], of which
    `real_tokens` [batch] have mask 1; `groups` [batch, sequence] are those of the tokens."""
    records = []
    for row, tokens in enumerate(real_tokens.tolist()):
        example = _Example()
        feature = example.features.feature
        mask = [1] * tokens + [0] * (input_ids.shape[1] - tokens)
        feature["attention_mask"].int64_list.value.extend(mask)
        feature["input_ids"].int64_list.value.extend(input_ids[row].tolist())
        if groups is not None:
            of_tokens = groups[row, :tokens]
            starts = np.flatnonzero(np.append(True, of_tokens[1:] != of_tokens[:-1])[:tokens])
            lengths = np.diff(starts, append=tokens)
            feature["span_groups"].int64_list.value.extend(of_tokens[starts].tolist())
            feature["span_lengths"].int64_list.value.extend(lengths.tolist())
        data = example.SerializeToString(deterministic=True)
        length = struct.pack("<Q", len(data))
        records.append(b"".join((length, masked_crc32c(length), data, masked_crc32c(data))))
    return records


class SampleWriter(AbstractContextManager):
    """Context manager: writes samples to a TFRecord file, and counts them."""

    def __init__(self, path: str | os.PathLike):
        self._path, self._file = path, open(path, "wb")
        self.num_samples = self.num_tokens = self.num_padding = 0
        self.block_offsets: tuple[int, ...] = ()

    def write(
        self, input_ids: np.ndarray, real_tokens: np.ndarray, groups: np.ndarray | None = None
    ) -> None:
        """Append a batch of samples, as `encode_samples` takes it."""
        for record in encode_samples(input_ids, real_tokens, groups):
            if self.num_samples % BLOCK_SAMPLES == 0:
                self.block_offsets += (self._file.tell(),)
            self._file.write(record)
            self.num_samples += 1
        tokens = int(real_tokens.sum())
        self.num_tokens += tokens
        self.num_padding += input_ids.size - tokens

    def shard(self, path: str | os.PathLike) -> Shard:
        """Return the closed file as a manifest names it, at `path`."""
        counts = self.num_samples, self.num_tokens, self.num_padding
        written = os.stat(self._path).st_size, file_sha256(self._path), self.block_offsets
        return Shard(Path(path).name, str(path), *counts, *written)

    def __exit__(self, *_: object) -> None:
        self._file.close()


def read_records(stream: BinaryIO, name: str) -> Iterator[bytes]:
    """Yield the data of each record of a TFRecord file. Raises MlmError, with record and byte, for
    damage."""
    number, offset = 0, 0
    while head := stream.read(12):
        is_whole = head[8:] == masked_crc32c(head[:8])
        (length,) = struct.unpack("<Q", head[:8]) if is_whole else (0,)
        body = stream.read(length + 4)
        data = body[:length]
        if not is_whole or body[length:] != masked_crc32c(data):
            raise MlmError(f"{name}: record {number} at byte {offset} is cut off or damaged")
        yield data
        number, offset = number + 1, offset + length + FRAME_BYTES


def decode_samples(
    records: Iterable[bytes], sequence_length: int, grouped: bool = False
) -> tuple[np.ndarray, ...]:
    """Return `input_ids`, `attention_mask` and, if `grouped`, the group of each token, -1 at
    padding: int64 [batch, sequence]. Raises MlmError for records of another form."""
    lists: dict[str, list] = {name: [] for name in (*_FEATURES, *(_SPANS if grouped else ()))}
    try:
        for data in records:
            features = _Example.FromString(data).features.feature
            for name, values in lists.items():
                values.append(features[name].int64_list.value)
        shape = len(lists["input_ids"]), sequence_length
        mask, ids = (np.array(lists[name], np.int64).reshape(shape) for name in _FEATURES)
        return (ids, mask, _groups(mask, lists)) if grouped else (ids, mask)
    except (DecodeError, ValueError) as error:
        raise MlmError(
            f"A record is no sample of {sequence_length} tokens ({error}). Delete the shards and "
            "run the same command again, so that they are made again"
        ) from None


def _groups(mask: np.ndarray, lists: dict[str, list]) -> np.ndarray:
    groups, lengths = (np.fromiter(chain.from_iterable(lists[name]), np.int64) for name in _SPANS)
    group = np.full(mask.shape, NO_GROUP, np.int64)
    group[np.arange(mask.shape[1]) < mask.sum(axis=1)[:, None]] = np.repeat(groups, lengths)
    return group
