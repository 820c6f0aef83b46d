"""Minimal pairs: files as BLiMP and MultiBLiMP have them, scores, ties and the bigram."""

import csv
import json
from types import SimpleNamespace

import numpy as np
import pytest
from tests.conftest import refusal
from transformers import PreTrainedTokenizerFast

from mlm.evaluation.hidden_sets import positions_of
from mlm.evaluation.minimal_pair_files import Pair, read_pair_files
from mlm.evaluation.minimal_pairs import score_pairs
from mlm.evaluation.ngram_baselines import NeighbourMixtures
from mlm.foundations.errors import MlmError
from mlm.samples.ngram_counts import count_tokens

SPECIAL = ["[CLS]", "<pad>", "[SEP]", "<unk>", "[MASK]"]
PIECES = ["the", "cat", "cats", "walk", "##s", "##ed", "."]
IDS = {piece: i for i, piece in enumerate([*SPECIAL, *PIECES])}


@pytest.fixture(scope="module")
def tokenizer():
    from tokenizers import Tokenizer, models, pre_tokenizers, processors

    found = Tokenizer(models.WordPiece(IDS, unk_token="<unk>"))
    found.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    found.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", special_tokens=[("[CLS]", 0), ("[SEP]", 2)]
    )
    names = ("cls_token", "pad_token", "sep_token", "unk_token", "mask_token")
    return PreTrainedTokenizerFast(tokenizer_object=found, **dict(zip(names, SPECIAL, strict=True)))


def counted(*sentences: str) -> NeighbourMixtures:
    """The bigram of a corpus of words and pieces, all parts of equal weight."""
    rows = [[0, *(IDS[piece] for piece in sentence.split()), 2] for sentence in sentences]
    width = max(map(len, rows))
    ids = np.array([row + [1] * (width - len(row)) for row in rows])
    counts = count_tokens([(ids, np.int64(ids != 1))], len(IDS), range(5), two=False)
    return NeighbourMixtures(counts, range(5))


class Asked:
    """A model that gives every token the same, and remembers the rows that it was shown."""

    def __init__(self):
        self.rows = []

    def __call__(self, question):
        for shown, place in zip(question["input_ids"], question["positions"], strict=True):
            self.rows.append((shown.tolist(), int(place[0])))
        return np.full(len(question["labels"]), -1.0)


def pair(acceptable: str, unacceptable: str, phenomenon: str = "x") -> Pair:
    return Pair(acceptable, unacceptable, "a.tsv", phenomenon)


def scored(tokenizer, pairs, ask=None, bigram=None, length=12):
    bigram = bigram or counted("the cat walk ##s .")
    how = {"tokenizer": tokenizer, "length": length, "log_probabilities": ask or Asked()}
    return score_pairs(pairs, SimpleNamespace(**how), bigram)


def test_the_later_tokens_of_a_word_are_masked_with_each(tokenizer):
    ask = Asked()
    scored(tokenizer, [pair("cat walks .", "cat walked .")], ask)
    hidden = [tuple(np.flatnonzero(np.array(shown) == 4)) for shown, _ in ask.rows[:4]]
    assert hidden == [(1,), (2, 3), (3,), (4,)]
    assert [place for _, place in ask.rows] == [1, 2, 3, 4] * 2
    assert {len(shown) for shown, _ in ask.rows} == {8}


def test_a_tie_counts_as_half_and_the_same_tokens_tie(tokenizer):
    ties = [pair("the cat", "cat the", "order"), pair("the dog", "the fish")]
    shorter = pair("the", "the cat")
    found = scored(tokenizer, [*ties, shorter])
    order, other = found.phenomena
    assert (order.accuracy, order.num_ties, order.margin) == (0.5, 1, 0)
    assert (other.accuracy, other.num_pairs, other.margin) == (0.75, 2, 0.5)
    assert found.total.accuracy == pytest.approx(2 / 3)


def test_pairs_of_a_file_that_are_too_long_are_counted(tokenizer):
    pairs = [pair("the", "the " * n) for n in range(2, 40)]
    found = scored(tokenizer, [*pairs, pair("the", ""), pair("cat", "the cat")])
    assert found.num_left_out == 40 - 11 + 1 and found.total.num_pairs == 10
    with pytest.raises(MlmError, match="no pair fits"):
        scored(tokenizer, [pair("the", "of " * 15)])


def test_the_bigram_sees_the_neighbours_that_the_model_is_shown(tokenizer):
    """Of `walk ##s`, nothing on the right is seen by the first piece; the second sees both."""
    bigram = counted(*["the cat walk ##s .", "the cats walk ."] * 5, "the cat walk ##ed .")
    given, of_bigram = [], bigram.log_probabilities
    spy = SimpleNamespace(
        log_probabilities=lambda asked: given.append(of_bigram(asked)) or given[-1]
    )

    def at(piece, left, right):
        return of_bigram(_positions(IDS[piece], IDS.get(left), IDS.get(right)))[0]

    first = at("the", "[CLS]", "cat") + at("cat", "the", "walk") + at("walk", "cat", None)
    whole = first + at("##s", "walk", ".") + at(".", "##s", "[SEP]")
    scored(tokenizer, [pair("the cat walks .", "the cat")], None, spy)
    assert given[-1][:5].sum() == pytest.approx(whole)
    assert at("walk", "cat", None) != at("walk", "cat", "##s")


def _positions(truth, left, right):
    ids = np.array([[4 if left is None else left, truth, 4 if right is None else right]])
    return positions_of(ids, np.ones((1, 3), int), ids, np.array([[0, 1, 0]]))


BLIMP = {"field": "syntax", "linguistics_term": "agreement", "UID": "walks_1", "pairID": "0"}


def test_files_of_both_forms_are_read(tmp_path):
    blimp, multi = tmp_path / "walks_1.jsonl", tmp_path / "eng.tsv"
    rows = [{"sentence_good": "the cat walks", "sentence_bad": "the cat walk"} | BLIMP]
    rows.append({k: v for k, v in rows[0].items() if k != "UID"})
    blimp.write_text("".join(json.dumps(row) + "\n" for row in rows))
    with multi.open("w", newline="") as file:
        writer = csv.writer(file, delimiter="\t")
        writer.writerow(["", "sen", "verb", "wrong_sen", "phenomenon"])
        writer.writerow([0, 'the "cat" walks', "walks", 'the "cat" walk', "SV-#"])
    named, term, quoted = read_pair_files([blimp, multi])
    assert named == Pair("the cat walks", "the cat walk", "walks_1.jsonl", "walks_1")
    assert term.phenomenon == "agreement"
    assert quoted == Pair('the "cat" walks', 'the "cat" walk', "eng.tsv", "SV-#")


def test_the_first_problem_of_each_file_is_named_with_its_line(tmp_path):
    fine = json.dumps({"sentence_good": "a", "sentence_bad": "b"}) + "\n"
    same = json.dumps({"sentence_good": "a", "sentence_bad": "a"})
    contents = {
        "a.jsonl, line 2: no valid JSON": f"{fine}{{".encode(),
        "b.jsonl, line 1: expected an object": b"[1]",
        "c.jsonl, line 1: found None": b'{"sentence_good": "a"}',
        "d.jsonl, line 2: 'a' is on both": (fine + same).encode(),
        "e.tsv, line 1: expected one column sen": b"good\tbad\n1\t2\n",
        "f.tsv, line 2: 1 fields": b"sen\twrong_sen\nx\n",
        "g.jsonl: holds no pair": b"",
        "j.tsv, line 1: expected one column sen": b"sen\twrong_sen\tsen\na\tb\tc\n",
        "k.tsv: cannot be read": b"sen\twrong_sen\n\xff\tx\n",
    }
    paths = [tmp_path / problem.split(":")[0].split(",")[0] for problem in contents]
    for path, content in zip(paths, contents.values(), strict=True):
        path.write_bytes(content)
    told = refusal(read_pair_files, [*paths, tmp_path / "missing.tsv"])
    assert all(problem in told for problem in (*contents, "missing.tsv: cannot be read"))
    assert told.count("\n  - ") == len(contents) + 1
