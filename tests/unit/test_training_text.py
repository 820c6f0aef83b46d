"""The text that trainers see: nothing lost by cutting, an even sample, broken literals."""

from hypothesis import given
from hypothesis import strategies as st

from mlm.tokenizer.training_text import cut, evenly

words = st.text(alphabet="ab é국", max_size=200)


@given(line=words, longest=st.integers(1, 20))
def test_cutting_loses_nothing_but_the_space_at_a_cut(line, longest):
    stretches = list(cut(line, longest))
    assert all(len(s) <= longest for s in stretches)
    assert line.count(" ") - "".join(stretches).count(" ") < len(stretches)
    assert "".join(stretches).replace(" ", "") == line.replace(" ", "")


def test_a_line_is_cut_at_its_last_space_that_fits():
    assert list(cut("one two three", 8)) == ["one two", "three"]
    assert list(cut("one two three", 7)) == ["one two", "three"]
    assert list(cut("일이삼사오", 2)) == ["일이", "삼사", "오"]


@given(sizes=st.lists(st.integers(1, 50), min_size=1), share=st.floats(0, 1))
def test_a_sample_keeps_to_its_share_all_along(sizes, share):
    sentences = ["x" * n for n in sizes]
    taken = list(evenly(sentences, share))
    assert sum(map(len, taken)) <= share * sum(sizes) + 1e-9
    if share == 1:
        assert taken == sentences


def test_a_sample_is_spread_from_the_beginning_to_the_end():
    taken = list(evenly((f"{i:04d}" for i in range(1000)), 0.1))
    assert len(taken) == 100
    assert [int(s) // 100 for s in taken] == [i // 10 for i in range(100)]
