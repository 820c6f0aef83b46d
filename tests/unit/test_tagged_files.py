"""Sentences with tags: their files, their scores, and their baseline."""

import json
import re
from dataclasses import replace

import numpy as np
import pytest
from evaluated_project import write_word_tokenizer

from mlm.config.finetune import Finetune, FinetuneData
from mlm.finetuning.artefacts import Example
from mlm.finetuning.counting_baselines import predict_tags
from mlm.finetuning.encoded_examples import NO_TAG, EncodedTexts, first_pieces
from mlm.finetuning.example_sources import labelled_examples
from mlm.finetuning.finetuning_metrics import entities, metric_of
from mlm.finetuning.fold_assignment import assign_folds
from mlm.finetuning.score_comparison import scores_of
from mlm.foundations.errors import MlmError
from mlm.tokenizer.encoding import Encoder

GOOD = "-DOCSTART- O\n\nAnna B-PER\nlives O\n\n\nin O\nNew B-LOC\nYork I-LOC\n"


def read(tmp_path, content, source="conll", **columns):
    file = tmp_path / "words"
    file.write_text(content, encoding="utf-8")
    data = FinetuneData(source=source, file=str(file), **columns)
    return labelled_examples(data, "token_classification")


def test_conll_and_jsonl_are_read_by_sentence_and_document(tmp_path):
    documents = read(tmp_path, GOOD + "-DOCSTART- O\n\nend O")
    first = Example("line 3", "Anna\tlives", "B-PER O", "document 1")
    second = Example("line 7", "in\tNew\tYork", "O B-LOC I-LOC", "document 1")
    assert documents == [first, second, Example("line 12", "end", "O", "document 2")]
    four = "\n".join(
        f"{line.split()[0]}\tX\tY\t{line.split()[1]}" for line in GOOD.split("\n")[2:4]
    )
    assert read(tmp_path, four) == [replace(first, id="line 1", group="")]
    line = {"tokens": ["An\u2028na", "lives"], "tags": ["B-PER", "O"], "of": 7}
    text = json.dumps(line, ensure_ascii=False)
    found = read(tmp_path, text, "jsonl", group_column="of")
    assert found == [Example("line 1", "An\u2028na\tlives", "B-PER O", "7")]


@pytest.mark.parametrize(
    ("source", "content", "named"),
    [
        ("conll", "a O\nb I-PER\n", r"line 1, word 2 \('b'\): I-PER follows O.*B-PER"),
        ("conll", "a B-LOC\nb I-PER\n", r"I-PER follows B-LOC"),
        ("conll", "a B-LOC\nb LOC\n", r"line 1, word 2 \('b'\).*'LOC' is neither O"),
        ("conll", "a\tO\nb O\n", r"line 2: 'b O' is not a word and its tag.*by tabs"),
        ("conll", "a O\nb\tO\n\nc O x\n", r"line 4: 'c O x' is not a word and its tag"),
        ("conll", "a O\n" * 10_000, r"line 1: a sentence of 10,000 words.*blank lines"),
        ("conll", "\n\n", "no row or sentence"),
        ("jsonl", '{"tokens": [], "tags": []}\n', "line 1: a sentence without words"),
        ("jsonl", '\n{"tokens": ["a"], "tags": ["O", "O"]}\n', "line 2: expected an object with"),
        ("jsonl", '{"tokens": ["a"], "tags": [1]}\n', "line 1: expected an object with"),
        ("jsonl", '{"tokens": [" "], "tags": ["O"]}\n', "line 1: a word is empty"),
    ],
)
def test_bad_lines_are_refused_with_their_numbers(tmp_path, source, content, named):
    with pytest.raises(MlmError, match=named):
        read(tmp_path, content, source)


def test_a_tag_of_one_fold_alone_is_refused_with_its_line():
    rare = [Example(f"line {i}", f"word {i}", "B-ODD" if i == 3 else "O") for i in range(9)]
    with pytest.raises(MlmError, match=r"'B-ODD': fold \d \(line 3\)"):
        assign_folds(rare, "token_classification", 3, 0)
    several = [replace(e, target="O B-ODD" if int(e.id[5:]) % 3 else "O") for e in rare]
    folds = assign_folds(several, "token_classification", 3, 0)
    odd = {f for e, f in zip(several, folds, strict=True) if "B-ODD" in e.target}
    assert odd == {0, 1, 2}, "the rarest tag is in every fold"


def entities_of_a_grammar(tags):
    """What seqeval's strict IOB2 counts, by regular expressions over one character a tag."""
    kinds = sorted({tag[2:] for tag in tags if tag[1:2] == "-"})
    code = {f"{p}-{k}": chr(c + i) for i, k in enumerate(kinds) for p, c in (("B", 65), ("I", 97))}
    text = "".join(code.get(tag, ".") for tag in tags)
    return {
        (match.start(), match.end(), kind)
        for i, kind in enumerate(kinds)
        for match in re.finditer(f"{chr(65 + i)}{chr(97 + i)}*", text)
    }


def test_entity_f1_is_that_of_strict_iob2_in_random_cases():
    rng = np.random.default_rng(0)
    tags = ["O", *(f"{p}-{k}" for p in "BI" for k in ("PER", "LOC", "ORG")), NO_TAG]
    for _ in range(200):
        sentences = [rng.choice(tags[:-1], rng.integers(1, 12)) for _ in range(5)]
        examples, predictions, common, both = [], {}, 0, 0
        for i, true in enumerate(sentences):
            change = rng.random(len(true)) < 0.3
            said = np.where(change, rng.choice(tags, len(true)), true)
            examples.append(Example(str(i), "", " ".join(true)))
            predictions[str(i)] = " ".join(said)
            sets = [entities_of_a_grammar(list(x)) for x in (true, said)]
            assert [entities(x) for x in (true, said)] == sets
            common, both = common + len(sets[0] & sets[1]), both + sum(map(len, sets))
        f1 = 2 * common / both if both else 0.0
        score = metric_of("token_classification", tags).of(examples, predictions)
        assert score == pytest.approx(f1)


def test_labels_are_at_the_first_piece_and_cut_words_have_none(tmp_path):
    write_word_tokenizer(tmp_path)
    encoder = Encoder.load(tmp_path / "tokenizer.json")
    words = ["the", "nation", "of", "people"]
    ids, offsets = encoder.encode_with_offsets(" ".join(words))
    _, places = first_pieces(words, encoder, None)
    text = " ".join(words)
    begins = [text[slice(*offsets[place])].strip() for place in places]
    assert all(word.startswith(begin) for word, begin in zip(words, begins, strict=True))
    texts = ["\t".join(words), "the\t\u2003\tof", ""]
    cut = EncodedTexts.of(texts, encoder, places[2] + 1, has_tags=True)
    assert cut.arrays["input_ids"][0].tolist() == [*ids[: places[2]], ids[-1]]
    assert cut.pieces[0][2:] == [0, 0] and cut.pieces[1][1] == 0 and cut.pieces[2] == []
    assert cut.truncated == 1


def test_the_baseline_takes_the_words_tag_and_else_its_suffixes():
    train = [("walking", "V"), ("talking", "V"), ("tables", "N"), ("walking", "V"), ("the", "D")]
    rows = [Example(f"{i}", w, t, fold=1) for i, (w, t) in enumerate(train)]
    rows.append(Example("new", "the\tsinging\tchairs\tx", "D V N X", fold=0))
    assert predict_tags(rows, 2)["new"] == "D V N V"


def test_entities_are_compared_by_document_and_the_baseline_is_named():
    rows = [
        Example(f"{i}", f"a\tb {i}", "O B-X", f"document {i // 4}", fold=i % 2) for i in range(40)
    ]
    wrong = {"pretrained": 4, "random": 2, "baseline": 3}
    predictions = {
        name: {e.id: "O B-X" if i % each else "O O" for i, e in enumerate(rows)}
        for name, each in wrong.items()
    }
    section = Finetune(task="token_classification", folds=2)
    found = scores_of(rows, predictions, section)
    assert found["score"] == "f1"
    assert found["models"]["pretrained"].score == pytest.approx(60 / 70, abs=1e-6)
    assert any("the most frequent tag of each word" in v.text for v in found["verdicts"])


@pytest.mark.parametrize(
    ("task", "source", "named"),
    [("token_classification", "csv", "set conll or jsonl"), ("classification", "conll", "set csv")],
)
def test_a_source_must_have_examples_of_the_task(task, source, named):
    section = Finetune(task=task, data=FinetuneData(source=source, file="x"))
    assert any(named in problem for problem in section.contradictions())
