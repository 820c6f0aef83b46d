import io

import numpy as np
import pytest

from mlm.foundations.errors import MlmError
from mlm.samples.tfrecord import decode_samples, encode_samples, read_records


def encoded(*samples) -> bytes:
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


def records_of(data):
    return list(read_records(io.BytesIO(data), "x.tfrecord"))


def test_the_bytes_of_a_sample_are_these():
    """Shards are compared by their sha256: a library that lays them out anew must be noticed."""
    groups = np.array([[2**56 + 1, 2**56 + 1, -1]])
    assert encoded(np.array([[5, 300, 0]]), np.array([2]), groups).hex() == (
        "6900000000000000360b3c6e0a670a190a0e617474656e74696f6e5f6d61736b12071a050a030101000a150a"
        "09696e7075745f69647312081a060a0405ac02000a1c0a0b7370616e5f67726f757073120d1a0b0a09818080"
        "8080808080010a150a0c7370616e5f6c656e6774687312051a030a0102c0b55003"
    )


def test_every_damaged_byte_and_every_cut_is_noticed(samples):
    data = encoded(samples[0][:2], samples[1][:2])
    boundary = len(encoded(samples[0][:1], samples[1][:1]))
    for place in range(len(data)):
        damaged = bytearray(data)
        damaged[place] ^= 0x10
        with pytest.raises(MlmError, match=r"x\.tfrecord: record [01] at byte"):
            records_of(bytes(damaged))
        if place not in (0, boundary):
            with pytest.raises(MlmError, match="is cut off or damaged"):
                records_of(data[:place])
    assert len(records_of(data)) == 2


@pytest.fixture
def groups():
    """Those of the samples' tokens, large and small: one or two in each sample."""
    index = np.arange(50)[:, None] * 2**56
    return np.where((np.arange(50)[:, None] % 3 > 0) & (np.arange(LENGTH) > 4), index + 1, index)


def example_of(**features):
    tf = pytest.importorskip("tensorflow")
    example = tf.train.Example()
    for name, values in features.items():
        example.features.feature[name].int64_list.value.extend(int(v) for v in values)
    return example


def test_tensorflow_reads_and_writes_the_same_bytes_with_groups(samples, groups):
    tf = pytest.importorskip("tensorflow")
    records = records_of(encoded(*samples, groups))
    spec = {n: tf.io.FixedLenFeature((LENGTH,), tf.int64) for n in ("input_ids", "attention_mask")}
    assert (tf.io.parse_example(records, spec)["input_ids"].numpy() == samples[0]).all()
    for i, record in enumerate(records[:5]):
        values, starts, lengths = np.unique(groups[i], return_index=True, return_counts=True)
        order = np.argsort(starts)
        example = example_of(
            input_ids=samples[0][i],
            attention_mask=np.arange(LENGTH) < samples[1][i],
            span_groups=values[order],
            span_lengths=lengths[order],
        )
        assert example.SerializeToString(deterministic=True) == record
        # In any order of the features, and with others between them.
        example.features.feature["note"].bytes_list.value.append(b"x")
        ids, _, found = decode_samples([example.SerializeToString()], LENGTH, grouped=True)
        assert (ids[0] == samples[0][i]).all() and (found[0] == groups[i]).all()


def test_negative_and_large_values_are_read_and_what_is_no_example_is_refused(samples):
    records = records_of(encoded(*samples))
    records[3] = b"\x0a\xff\x01rest"
    with pytest.raises(MlmError, match="no sample of 8 tokens"):
        decode_samples(records, LENGTH)
    example = example_of(input_ids=[-1, 2**62, 0], attention_mask=[1, 1, 0])
    ids, mask = decode_samples([example.SerializeToString()], 3)
    assert ids.tolist() == [[-1, 2**62, 0]] and mask.tolist() == [[1, 1, 0]]
    for feature in ("input_ids", "attention_mask"):
        other = example_of(input_ids=[1, 2, 3], attention_mask=[1, 1, 0])
        other.features.feature[feature].bytes_list.value.append(b"text")
        with pytest.raises(MlmError, match="no sample of 3 tokens"):
            decode_samples([other.SerializeToString()], 3)
