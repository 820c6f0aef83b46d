import gzip
import io
import subprocess
import sys

import numpy as np
import pytest

from mlm.foundations.errors import MlmError
from mlm.samples.packing import Spans
from mlm.samples.tf_example import (
    SampleError,
    decode_grouped_samples,
    decode_samples,
)
from mlm.samples.tfrecord import SampleWriter, encode_samples, read_records


def encoded(*samples) -> bytes:
    """Samples as they stand in a shard."""
    return b"".join(encode_samples(*samples))


LENGTH = 8


@pytest.fixture
def samples():
    generator = np.random.default_rng(0)
    sizes = np.array([2, 100, 130, 20_000, 3_000_000, 2**31])[
        generator.integers(0, 6, (50, LENGTH))
    ]
    ids = generator.integers(0, sizes)
    real = np.full(50, LENGTH)
    real[-1] = 3
    return ids, real


def written(path, samples, compression="none"):
    with SampleWriter(path, compression) as writer:
        writer.write(samples[0][:20], samples[1][:20])
        writer.write(samples[0][20:], samples[1][20:])
    return writer


def records_of(data):
    return list(read_records(io.BytesIO(data), "x.tfrecord"))


def test_the_bytes_of_a_sample_are_these():
    """Shards are compared by their sha256: a library that lays them out anew must be noticed."""
    spans = Spans(np.array([2**56 + 1]), np.array([2]), np.array([1]))
    assert encoded(np.array([[5, 300, 0]]), np.array([2]), spans).hex() == (
        "6900000000000000360b3c6e0a670a190a0e617474656e74696f6e5f6d61736b12071a050a030101000a150a"
        "09696e7075745f69647312081a060a0405ac02000a1c0a0b7370616e5f67726f757073120d1a0b0a09818080"
        "8080808080010a150a0c7370616e5f6c656e6774687312051a030a0102c0b55003"
    )


@pytest.mark.parametrize("compression", ["none", "gzip"])
def test_what_is_written_is_read_back(tmp_path, samples, compression):
    path = tmp_path / "a.tfrecord"
    writer = written(path, samples, compression)
    with path.open("rb") as file:
        ids, mask = decode_samples(read_records(file, "a"), LENGTH)
    assert (ids == samples[0]).all()
    assert (mask == (np.arange(LENGTH) < samples[1][:, None])).all()
    assert (writer.num_samples, writer.num_tokens, writer.num_padding) == (50, 395, 5)
    assert writer.num_bytes == path.stat().st_size


def test_gzip_holds_no_time_and_no_name(tmp_path, samples):
    first, second = tmp_path / "a", tmp_path / "other"
    written(first, samples, "gzip")
    written(second, samples, "gzip")
    assert first.read_bytes() == second.read_bytes()
    assert first.read_bytes()[4:8] == b"\0\0\0\0"


def test_every_damaged_byte_is_noticed(samples):
    data = encoded(samples[0][:2], samples[1][:2])
    for place in range(len(data)):
        damaged = bytearray(data)
        damaged[place] ^= 0x10
        with pytest.raises(MlmError, match=r"x\.tfrecord: record [01] at byte"):
            records_of(bytes(damaged))


def test_a_cut_off_file_is_noticed_wherever_it_was_cut(samples):
    data = encoded(samples[0][:2], samples[1][:2])
    boundary = len(encoded(samples[0][:1], samples[1][:1]))
    for end in range(1, len(data)):
        if end != boundary:
            with pytest.raises(MlmError, match="ends after"):
                records_of(data[:end])
    assert len(records_of(data)) == 2


def test_a_truncated_gzip_is_noticed(samples):
    data = gzip.compress(encoded(*samples))
    with pytest.raises(MlmError, match=r"record \d+ at byte \d+: the gzip stream is truncated"):
        records_of(data[:-30])


def test_samples_of_another_length_are_named(samples):
    records = records_of(encoded(*samples))
    with pytest.raises(SampleError, match="attention_mask holds 8 values; 9 are expected"):
        decode_samples(records, 9)


def test_what_is_no_example_is_named(samples):
    records = records_of(encoded(*samples))
    records[3] = b"\x0a\xff\x01rest"
    with pytest.raises(SampleError, match=r"is not a tf\.train\.Example") as caught:
        decode_samples(records, LENGTH)
    assert caught.value.place == 3


def test_tensorflow_is_not_needed():
    modules = ["packing", "tfrecord", "sharding", "manifests", "shuffling", "masking"]
    code = "import importlib, sys\n"
    code += f"for m in {modules}: importlib.import_module('mlm.samples.' + m)\n"
    code += "assert not [m for m in sys.modules if m.split('.')[0] in ('tensorflow', 'keras')]"
    subprocess.run([sys.executable, "-c", code], check=True, env={"PYTHONPATH": "scripts"})


def test_the_reader_takes_what_tensorflow_may_write(tmp_path):
    tf = pytest.importorskip("tensorflow")
    example = tf.train.Example()
    example.features.feature["input_ids"].int64_list.value.extend([-1, 2**62, 0])
    example.features.feature["attention_mask"].int64_list.value.extend([1, 1, 0])
    example.features.feature["name"].bytes_list.value.append(b"text")
    example.features.feature["weight"].float_list.value.append(0.5)
    path = str(tmp_path / "b.tfrecord")
    with tf.io.TFRecordWriter(path) as writer:
        writer.write(example.SerializeToString())
    with open(path, "rb") as file:
        records = list(read_records(file, path))
    ids, mask = decode_samples(records, 3)
    assert ids.tolist() == [[-1, 2**62, 0]] and mask.tolist() == [[1, 1, 0]]
    example.features.feature["input_ids"].bytes_list.value.append(b"text")
    with pytest.raises(SampleError, match="input_ids is of another type than int64"):
        decode_samples([example.SerializeToString()], 3)


@pytest.fixture
def spans():
    """Spans of the samples: one or two of each, with small and large group ids."""
    counts = np.where(np.arange(50) % 3, 2, 1)
    counts[-1] = 2
    groups = np.arange(counts.sum()) * 2**56
    lengths = np.concatenate([[5, 3] if n == 2 else [8] for n in counts])
    lengths[-2:] = 2, 1
    return Spans(groups, lengths, counts)


def test_groups_travel_with_the_samples(samples, spans):
    records = records_of(encoded(*samples, spans))
    ids, mask, found = decode_grouped_samples(records, LENGTH)
    assert (ids == samples[0]).all() and (mask.sum(axis=1) == samples[1]).all()
    for name in ("groups", "lengths", "counts"):
        assert (getattr(found, name) == getattr(spans, name)).all()
    without = decode_samples(records, LENGTH)
    assert (without[0] == ids).all() and (without[1] == mask).all()


def test_tensorflow_reads_and_writes_the_same_bytes_with_groups(samples, spans):
    tf = pytest.importorskip("tensorflow")
    records = records_of(encoded(*samples, spans))
    spec = {n: tf.io.FixedLenFeature((LENGTH,), tf.int64) for n in ("input_ids", "attention_mask")}
    parsed = tf.io.parse_example(records, spec)
    assert (parsed["input_ids"].numpy() == samples[0]).all()
    parsed = tf.io.parse_example(records, spec | {"span_groups": tf.io.VarLenFeature(tf.int64)})
    assert parsed["span_groups"].values.numpy().tolist() == spans.groups.tolist()
    start = 0
    for i, count in enumerate(spans.counts):
        example = tf.train.Example()
        chosen, start = slice(start, start + count), start + count
        for name, values in {
            "input_ids": samples[0][i],
            "attention_mask": np.arange(LENGTH) < samples[1][i],
            "span_groups": spans.groups[chosen],
            "span_lengths": spans.lengths[chosen],
        }.items():
            example.features.feature[name].int64_list.value.extend(int(v) for v in values)
        assert example.SerializeToString(deterministic=True) == records[i]
        # In any order of the features, and with others between them.
        example.features.feature["note"].bytes_list.value.append(b"x")
        ids, _, found = decode_grouped_samples([example.SerializeToString()], LENGTH)
        assert (ids[0] == samples[0][i]).all()
        assert found.groups.tolist() == spans.groups[chosen].tolist()


def test_samples_without_groups_are_named(samples):
    records = records_of(encoded(*samples))
    with pytest.raises(SampleError, match="span_groups is missing"):
        decode_grouped_samples(records, LENGTH)


@pytest.mark.parametrize("lengths", [[4], [9], [8, 0]])
def test_spans_that_do_not_add_up_to_the_tokens_are_refused(samples, lengths):
    count = len(lengths)
    spans = Spans(np.arange(count), np.array(lengths), np.array([count]))
    records = records_of(encoded(samples[0][:1], samples[1][:1], spans))
    with pytest.raises(SampleError, match="are not those of its tokens"):
        decode_grouped_samples(records, LENGTH)
