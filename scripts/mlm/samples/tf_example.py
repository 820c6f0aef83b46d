"""Samples as serialised `tf.train.Example` messages, through protobuf alone.

A message has the int64 features `input_ids` and `attention_mask`, and, where groups are known,
`span_groups` and `span_lengths`: the runs of tokens of one group, in order
(`mlm.samples.packing.Spans`). The bytes are those of protobuf's deterministic serialisation: map
keys in sorted order. TensorFlow's own class needs the import that `mlm.samples.tfrecord` avoids.
"""

from collections.abc import Iterable, Iterator
from itertools import chain

import numpy as np
from google.protobuf import text_format
from google.protobuf.descriptor_pb2 import FileDescriptorProto
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message import DecodeError
from google.protobuf.message_factory import GetMessageClass

from mlm.samples.packing import Spans

FEATURES = ("attention_mask", "input_ids")
SPAN_FEATURES = ("span_groups", "span_lengths")

#: Of tensorflow/core/example/{example,feature}.proto what holds integers.
_MESSAGES = """
name: "example.proto" package: "mlm" syntax: "proto3"
message_type {
  name: "Int64List"
  field { name: "value" number: 1 label: LABEL_REPEATED type: TYPE_INT64 }
}
message_type {
  name: "Feature"
  field { name: "int64_list" number: 3 type: TYPE_MESSAGE type_name: ".mlm.Int64List" }
}
message_type {
  name: "Features"
  field {
    name: "feature" number: 1 label: LABEL_REPEATED
    type: TYPE_MESSAGE type_name: ".mlm.Features.FeatureEntry"
  }
  nested_type {
    name: "FeatureEntry" options { map_entry: true }
    field { name: "key" number: 1 type: TYPE_STRING }
    field { name: "value" number: 2 type: TYPE_MESSAGE type_name: ".mlm.Feature" }
  }
}
message_type {
  name: "Example"
  field { name: "features" number: 1 type: TYPE_MESSAGE type_name: ".mlm.Features" }
}
"""
# A pool of its own: TensorFlow's messages may be loaded beside these.
_pool = DescriptorPool()
_pool.Add(text_format.Parse(_MESSAGES, FileDescriptorProto()))
_Example = GetMessageClass(_pool.FindMessageTypeByName("mlm.Example"))


class SampleError(ValueError):
    """Record `place` of a batch is not the sample that was expected."""

    def __init__(self, place: int, problem: str):
        super().__init__(problem)
        self.place = place


def encode_examples(
    input_ids: np.ndarray, real_tokens: np.ndarray, spans: Spans | None = None
) -> Iterator[bytes]:
    """The message of each sample of a batch.

    `input_ids` is [batch, sequence]; `real_tokens` [batch] says how many ids at the start of each
    row have attention mask 1, the others having 0. `spans` are the groups of the tokens, where
    they are known.
    """
    sequence = input_ids.shape[1]
    features = {
        "attention_mask": [[1] * n + [0] * (sequence - n) for n in real_tokens.tolist()],
        "input_ids": input_ids.tolist(),
    }
    if spans:
        rows = np.cumsum(spans.counts)[:-1]
        features["span_groups"] = [row.tolist() for row in np.split(spans.groups, rows)]
        features["span_lengths"] = [row.tolist() for row in np.split(spans.lengths, rows)]
    for sample in zip(*features.values(), strict=True):
        example = _Example()
        for name, values in zip(features, sample, strict=True):
            example.features.feature[name].int64_list.value.extend(values)
        yield example.SerializeToString(deterministic=True)


def decode_samples(records: Iterable[bytes], sequence_length: int) -> tuple[np.ndarray, np.ndarray]:
    """`input_ids` and `attention_mask`, int64 [batch, sequence], of serialised Examples.

    Raises SampleError, with the record's place in the batch, for a missing feature, one of
    another type, or one of another length.
    """
    lists = _int64_lists(records, FEATURES)
    mask, ids = (_matrix(lists[name], name, sequence_length) for name in FEATURES)
    return ids, mask


def decode_grouped_samples(
    records: Iterable[bytes], sequence_length: int
) -> tuple[np.ndarray, np.ndarray, Spans]:
    """As `decode_samples`, and the spans of the groups.

    Raises SampleError also where these are missing, or are not those of the sample's tokens.
    """
    lists = _int64_lists(records, (*FEATURES, *SPAN_FEATURES))
    mask, ids = (_matrix(lists[name], name, sequence_length) for name in FEATURES)
    (groups, counts), (lengths, others) = (_values(lists[name]) for name in SPAN_FEATURES)
    samples = np.repeat(np.arange(len(counts)), counts)
    fits = counts == others
    if fits.all():
        fits = np.bincount(samples, lengths, len(counts)) == mask.sum(axis=1)
        fits &= np.bincount(samples, lengths < 1, len(counts)) == 0
    if not fits.all():
        place = int(np.flatnonzero(~fits)[0])
        raise SampleError(place, "span_groups and span_lengths are not those of its tokens")
    return ids, mask, Spans(groups, lengths, counts)


def _int64_lists(records: Iterable[bytes], names: tuple[str, ...]) -> dict[str, list]:
    """The values of the features `names`, record after record."""
    lists: dict[str, list] = {name: [] for name in names}
    for place, data in enumerate(records):
        try:
            features = _Example.FromString(data).features.feature
        except DecodeError as error:
            raise SampleError(place, f"is not a tf.train.Example ({error})") from None
        for name in names:
            if name not in features:
                raise SampleError(place, f"{name} is missing")
            if not features[name].HasField("int64_list"):
                raise SampleError(place, f"{name} is of another type than int64")
            lists[name].append(features[name].int64_list.value)
    return lists


def _values(lists: list) -> tuple[np.ndarray, np.ndarray]:
    """All values of a feature, int64, and how many each record has, int64 [batch]."""
    counts = np.array([len(values) for values in lists], np.int64)
    return np.fromiter(chain.from_iterable(lists), np.int64, counts.sum()), counts


def _matrix(lists: list, name: str, sequence_length: int) -> np.ndarray:
    for place, values in enumerate(lists):
        if len(values) != sequence_length:
            raise SampleError(
                place, f"{name} holds {len(values)} values; {sequence_length} are expected"
            )
    return np.array(lists, np.int64).reshape(len(lists), sequence_length)
