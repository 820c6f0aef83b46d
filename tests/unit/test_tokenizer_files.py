import json

import pyarrow
import pyarrow.parquet
import pytest

from mlm.config.overlays import resolve
from mlm.config.special_tokens import SpecialIds
from mlm.config.tokenizer import TOKENIZER_FILES, Tokenizer
from mlm.corpus.corpus_reading import SplitDocuments
from mlm.foundations.errors import MlmError
from mlm.tokenizer.encoding import Encoder
from mlm.tokenizer.pretrained import check_ids, load_pretrained, source_files
from mlm.tokenizer.tokenizer_statistics import make_tokenizer

SECTION = resolve({"tokenizer": {"vocabulary_size": 75}}).tokenizer.model_dump()
SPECIAL = SECTION["special_tokens"]
TEXTS = [
    "We the people of the United States, in order to form a more perfect union,",
    "establish justice, insure domestic tranquility, provide for the common defense,",
    "promote the general welfare, and secure the blessings of liberty to ourselves",
    "and our posterity, do ordain and establish this constitution. ``Quoted'' [MASK] text.",
]


def corpus(folder, texts, split="train") -> SplitDocuments:
    path = folder / f"{split}.parquet"
    pyarrow.parquet.write_table(pyarrow.table({"text": pyarrow.array(texts, "string")}), path)
    return SplitDocuments([(path, len(texts))], sum(len(text.encode()) for text in texts))


def make(folder, families=(), texts=TEXTS, **changes):
    of_splits = {"train": texts, "validation": TEXTS[:1], "test": ["zebra ☃ <pad>"]}
    corpora = {split: corpus(folder, texts, split) for split, texts in of_splits.items()}
    directory = folder / "tokenizer"
    files = directory / "tokenizer.json", directory / "tokenizer_stats.json"
    make_tokenizer(corpora, Tokenizer(**SECTION | changes), families, *files)
    return directory


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    return make(tmp_path_factory.mktemp("made"))


@pytest.mark.parametrize("kind", ["unigram", "bpe", "wordpiece"])
def test_transformers_knows_the_special_tokens(tmp_path, kind):
    from transformers import AutoTokenizer, PreTrainedTokenizerFast

    directory = make(tmp_path, kind=kind, vocabulary_size=75 if kind == "unigram" else 100)
    tokenizer = AutoTokenizer.from_pretrained(directory)
    assert type(tokenizer) is PreTrainedTokenizerFast
    for i, (name, text) in enumerate(SPECIAL.items()):
        assert getattr(tokenizer, f"{name}_token") == text
        assert getattr(tokenizer, f"{name}_token_id") == i
    ids = tokenizer("We the [MASK].")["input_ids"]
    assert (ids[0], ids[-1], ids.count(4)) == (0, 2, 1)
    # The mask takes the space before it, and what follows it is no new word.
    assert tokenizer.convert_ids_to_tokens(ids)[-3:] == ["[MASK]", ".", "[SEP]"]


def test_transformers_and_the_encoder_agree_on_text_without_special_strings(made):
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(made)
    texts = [t for t in TEXTS if "[MASK]" not in t] + ["", " two  spaces ", "zebra ☃"]
    assert Encoder.load(made / "tokenizer.json").encode(texts) == tokenizer(texts)["input_ids"]


def test_the_files_are_canonical_and_the_same_every_time(made, tmp_path):
    other = make(tmp_path)
    for name in (*TOKENIZER_FILES, "tokenizer_stats.json"):
        text = (made / name).read_text(encoding="utf-8")
        assert text == (other / name).read_text(encoding="utf-8")
        again = json.dumps(json.loads(text), sort_keys=True, ensure_ascii=False, indent=2)
        assert text == again + "\n" and str(made.parent) not in text


def test_statistics_count_what_is_there(made):
    stats = json.loads((made / "tokenizer_stats.json").read_text())
    encoder = Encoder.load(made / "tokenizer.json")
    train, test = stats["splits"]["train"], stats["splits"]["test"]
    ids = [i for one in encoder.encode(TEXTS) for i in one[1:-1]]
    assert train["tokens"] == len(ids)
    assert train["vocabulary_used"] == len(set(ids))
    assert train["tokens_per_word"] == len(ids) / sum(len(t.split()) for t in TEXTS)
    assert (train["special_literals"], test["special_literals"]) == (1, 1)
    # z, the snowman, and the brackets of <pad> are not in the training text.
    assert (train["unknown"], test["unknown"]) == (0, 4)
    assert test["unknown_rate"] == 4 / test["tokens"]
    assert (test["characters"], test["bytes"]) == (13, 15)
    size = sum(map(len, TEXTS))
    assert train["bytes"] == size
    assert stats["training"] == {"documents": 4, "bytes": size - 2, "sampled": False}


def test_a_pretrained_directory_gives_the_same_ids(made, tmp_path):
    pretrained = {"path": str(made), "revision": None}
    directory = make(tmp_path, families=["roberta"], kind="pretrained", pretrained=pretrained)
    first, second = (Encoder.load(d / "tokenizer.json") for d in (made, directory))
    assert first.special_ids == second.special_ids
    assert first.encode(TEXTS) == second.encode(TEXTS)
    stats = json.loads((directory / "tokenizer_stats.json").read_text())
    assert stats["pretrained"]["path"] == "tokenizer"
    assert [f.rsplit("/", 1)[1] for f in source_files(str(made))] == sorted(TOKENIZER_FILES)


def bert(folder, *words):
    """A directory with a vocabulary of BERT's form, whose padding has id 0."""
    words = ["[PAD] [UNK] [CLS] [SEP] [MASK] we the people ##s ,", *words]
    folder.mkdir()
    (folder / "vocab.txt").write_text("\n".join(" ".join(words).split()), encoding="utf-8")
    config = {"tokenizer_class": "BertTokenizer", "model_max_length": 512, "do_lower_case": False}
    (folder / "tokenizer_config.json").write_text(json.dumps(config))
    return {"path": str(folder), "revision": None}


def test_a_pretrained_tokenizer_must_suit_the_family(tmp_path):
    ready = {"kind": "pretrained", "pretrained": bert(tmp_path / "bert")}
    directory = make(tmp_path, ["bert"], ["we, the peoples, we the people"], **ready)
    encoder = Encoder.load(directory / "tokenizer.json")
    assert encoder.special_ids == SpecialIds(cls=2, pad=0, sep=3, unk=1, mask=4)
    assert encoder.encode(["we the peoples, [MASK]"]) == [[2, 5, 6, 7, 8, 9, 1, 1, 1, 3]]
    assert json.loads((directory / "tokenizer_config.json").read_text())["model_max_length"] == 512
    with pytest.raises(MlmError, match=r"padding token has id 0.*model\.family roberta"):
        check_ids(encoder, "roberta")


DNA = ["ACGT" * 75, "ACGGT" * 100] * 20


@pytest.mark.parametrize(
    ("texts", "kind", "words"),
    [
        (DNA, "wordpiece", ["100.0% of the tokens", "wordpiece"]),
        # One unknown token in 31, but nearly all of the text.
        ([f"{'we the people ' * 10} {DNA[0] * 9}"] * 9, "wordpiece", ["of the characters"]),
        (["we the люди"] * 9, "pretrained", ["'люди'"]),
        (["the cafe\u0301"] * 9, "pretrained", ["normalisation: NFC"]),
    ],
)
def test_a_text_that_the_tokenizer_does_not_know_is_refused(tmp_path, texts, kind, words):
    ready = {"pretrained": bert(tmp_path / "bert", "café")} if kind == "pretrained" else {}
    with pytest.raises(MlmError) as refusal:
        make(tmp_path, texts=texts, kind=kind, vocabulary_size=None, **ready)
    assert not [word for word in words if word not in str(refusal.value)]
    assert not (tmp_path / "tokenizer").exists()


def test_words_that_the_corpus_marks_as_unknown_are_not_refused(tmp_path):
    texts = ["we <unk> the people <unk> and their union"] * 20
    make(tmp_path, texts=texts, unknown_literal="<unk>", vocabulary_size=None)
    statistics = json.loads((tmp_path / "tokenizer" / "tokenizer_stats.json").read_text())
    assert statistics["splits"]["train"]["unknown_rate"] > 0.05


OWN_CODE = '{"tokenizer_class": "Mine", "auto_map": {"AutoTokenizer": ["mine.Mine", null]}}'


@pytest.mark.parametrize(
    ("files", "words"),
    [
        ({}, "holds no tokenizer"),
        ({"tokenizer.json": "{"}, "cannot read a tokenizer"),
        ({"tokenizer.json": "{}", "tokenizer_config.json": OWN_CODE}, "own code"),
    ],
)
def test_a_directory_without_a_readable_tokenizer_is_refused(made, tmp_path, files, words):
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    if not files:  # before the first job
        with pytest.raises(MlmError, match=words):
            source_files(str(tmp_path))
    with pytest.raises(MlmError, match=words) as refusal:
        load_pretrained(str(tmp_path), None)
    assert "trust" not in str(refusal.value)


def test_a_tokenizer_without_its_special_tokens_is_refused(made, tmp_path):
    (tmp_path / "tokenizer.json").write_bytes((made / "tokenizer.json").read_bytes())
    with pytest.raises(MlmError, match="special_tokens_map"):
        Encoder.load(tmp_path / "tokenizer.json")
    (tmp_path / "special_tokens_map.json").write_text('{"cls_token": "[CLS]"}')
    with pytest.raises(MlmError, match="pad_token"):
        Encoder.load(tmp_path / "tokenizer.json")
