import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from mlm.samples.sharding import Packer

documents = st.lists(
    st.tuples(st.integers(0, 3), st.lists(st.integers(2, 2**31 - 1), max_size=40)), max_size=12
)


@given(documents, st.integers(1, 17))
def test_packing_keeps_every_token_in_order(packed, sequence_length):
    """And every token keeps the group of its document; padding has none."""
    packer = Packer(sequence_length, pad_id=1)
    parts = [
        packer.add(np.array(tokens, np.int32), np.full(len(tokens), group))
        for group, tokens in packed
    ]
    *last, count = packer.finish()
    rows, groups = (np.concatenate(part).reshape(-1) for part in zip(*parts, last, strict=True))
    expected = [(token, group) for group, tokens in packed for token in tokens]
    found = list(zip(rows.tolist(), groups.tolist(), strict=True))
    assert found[: len(expected)] == expected
    assert all(padding == (1, -1) for padding in found[len(expected) :])
    assert len(found) - len(expected) < sequence_length
    assert count == (len(expected) % sequence_length if len(last[0]) else 0)
