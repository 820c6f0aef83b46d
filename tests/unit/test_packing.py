import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from mlm.shards.packing import Packer

documents = st.lists(st.lists(st.integers(2, 2**31 - 1), max_size=40), max_size=12)


@given(documents, st.integers(1, 17))
def test_packing_keeps_every_token_in_order(tokens, sequence_length):
    packer = Packer(sequence_length, pad_id=1)
    rows = [packer.add(np.array(t, np.int32)) for t in tokens]
    last, count = packer.finish()
    packed = np.concatenate([*rows, last]).reshape(-1).tolist()
    expected = [t for document in tokens for t in document]
    assert packed[: len(expected)] == expected
    assert all(t == 1 for t in packed[len(expected) :])
    assert len(packed) - len(expected) < sequence_length
    assert count == (len(expected) % sequence_length if len(last) else 0)


def test_only_the_last_sample_is_padded_and_none_is_made_of_padding_alone():
    packer = Packer(4, pad_id=1)
    assert packer.add(np.arange(10, 18, dtype=np.int32)).shape == (2, 4)
    last, count = packer.finish()
    assert last.shape == (0, 4) and count == 0
    packer.add(np.array([7], np.int32))
    last, count = packer.finish()
    assert last.tolist() == [[7, 1, 1, 1]] and count == 1
