import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from mlm.samples.packing import GroupPacker, Packer, Spans

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


@given(
    st.lists(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 40)), max_size=6), max_size=5),
    st.integers(1, 17),
)
def test_every_token_keeps_the_group_of_its_document(portions, sequence_length):
    packer = GroupPacker(sequence_length)
    parts = []
    for portion in portions:
        groups, lengths = (np.array([d[i] for d in portion], np.int64) for i in (0, 1))
        parts.append(packer.add(groups, lengths))
    parts.append(packer.finish())
    found = np.concatenate([p.of_tokens(sequence_length).reshape(-1) for p in parts]).tolist()
    expected = [g for portion in portions for g, length in portion for _ in range(length)]
    assert found[: len(expected)] == expected
    assert all(g == -1 for g in found[len(expected) :])
    assert len(found) - len(expected) < sequence_length
    for spans in parts:
        assert (spans.lengths > 0).all() and spans.counts.sum() == len(spans.lengths)


def test_neighbours_of_one_group_are_one_span():
    spans = GroupPacker(4).add(np.array([7, 7, 7, 8, 9]), np.array([2, 1, 3, 1, 1]))
    assert spans.groups.tolist() == [7, 7, 8, 9]
    assert spans.lengths.tolist() == [4, 2, 1, 1]
    assert spans.counts.tolist() == [1, 3]


def test_padding_is_of_no_group():
    spans = Spans(np.array([5, 6]), np.array([2, 1]), np.array([2]))
    assert spans.of_tokens(5).tolist() == [[5, 5, 6, -1, -1]]
