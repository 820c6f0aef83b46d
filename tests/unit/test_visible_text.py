from html.parser import HTMLParser

from hypothesis import given
from hypothesis import strategies as st

from mlm.report.wording import is_shown_by_name, pieces_of, plain, visible
from mlm.samples.preview import PreviewSample, PreviewToken

SPECIAL = {"cls": "[CLS]", "pad": "<pad>", "sep": "[SEP]", "unk": "<unk>", "mask": "[MASK]"}


@given(st.text(st.characters(codec=None)))
def test_no_text_makes_markup_or_hides_anything(text):
    elements, read = [], []
    parser = HTMLParser()
    parser.handle_starttag = lambda tag, attributes: tag == "wbr" or elements.append(tag)
    parser.handle_data = read.append
    parser.feed(str(visible(text)))
    parser.close()
    assert set(elements) <= {"span"}
    assert len(elements) == sum(map(is_shown_by_name, text))
    assert not any(map(is_shown_by_name, "".join(read)))
    str(visible(text)).encode("utf-8")
    plain(text).encode("utf-8")


def test_bidirectional_controls_are_shown_as_code_points():
    assert 'title="RIGHT-TO-LEFT OVERRIDE">U+202E</span>' in visible("a\u202eb")
    assert plain("a\u202eb") == "a‹U+202E›b"


def test_scripts_keep_their_joiners_and_letters():
    text = "می‌خواهم 👩‍👧 שלום"
    assert visible(text) == text


def pieces(sample):
    return [(p.text.strip(), p.state, p.shown) for p in pieces_of(sample, SPECIAL)]


def test_a_preview_tells_hidden_replaced_and_kept_apart():
    tokens = {"[CLS]": None, " the": "[MASK]", " state": " gold", " of": " of", " our": None}
    tokens = tuple(PreviewToken(*token) for token in (tokens | {"<pad>": None}).items())
    assert pieces(PreviewSample(3, 1, "", "", tokens)) == [
        ("[CLS]", "special", None),
        ("the", "masked", "[MASK]"),
        ("state", "random", "gold"),
        ("of", "kept", "of"),
        ("our", "plain", None),
    ]


def test_what_no_space_divides_is_shown_without_spaces():
    """Characters that mark pieces in a vocabulary are text as well, and a space is seen."""
    texts = ["[CLS]", "我们", "的", "##", "国", "Ġ", " ", "[SEP]"]
    shown = {"国": "##家", " ": "[MASK]"}
    tokens = tuple(PreviewToken(text, shown.get(text)) for text in texts)
    found = pieces_of(PreviewSample(0, 1, "", "", tokens), SPECIAL)
    assert [p.space + p.text for p in found] == [
        *("[CLS]", "我们的##", "国", "Ġ", " ‹space›", "[SEP]")
    ]
    assert found[2].shown == "##家"
