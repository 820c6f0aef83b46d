import json
import math
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from fake_tokenizer import CharacterTokenizer
from test_corpus_parts import in_parts

from mlm.config.evaluation import Evaluation
from mlm.config.resolution import resolve
from mlm.config.tokenizer import Shards
from mlm.corpus.artefacts import CorpusSplit
from mlm.corpus.split_documents import SplitDocuments
from mlm.evaluation.bits_by_group import MOST_GROUPS, TextOfGroups, bits_by_group
from mlm.evaluation.bootstrap import Resampling
from mlm.evaluation.further_files import further_texts
from mlm.evaluation.further_text import on_further_texts
from mlm.evaluation.metrics import group_sums, summary_of
from mlm.evaluation.predictions import Scored, Scores, positions_of
from mlm.foundations.errors import MlmError
from mlm.samples.manifest_merging import merged_manifest
from mlm.samples.sharding import write_shard
from mlm.samples.split_samples import spread_samples
from mlm.tokenizer.encoding import Encoder

RECORD = Path("results/corpus/test.json")
HOW = Resampling(resamples=50, confidence=0.95, seed=0)


def _text(source: str, author: int, place: int) -> str:
    """Longer with each author, who has a letter."""
    return f"{source}{author:02d} {place} " + chr(ord("α") + author) * (40 + 5 * author)


@pytest.fixture(params=["author", "document"])
def made(request, tmp_path, monkeypatch):
    """What groups the documents, and the manifest of the test split of a mix of two sources."""
    monkeypatch.chdir(tmp_path)
    mix = {}
    for source in ("letters", "speeches"):
        files = {}
        for split in ("train", "validation", "test"):
            rows = [
                {"text": f"{split} {_text(source, author, place)}", "author": f"<i>{author}</i>"}
                for place in range(2)
                for author in range(20)
            ]
            files[split] = [f"{source}-{split}.jsonl"]
            Path(files[split][0]).write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
        group_by = "author" if request.param == "author" else None
        mix[source] = {"source": "files", "weight": 1, "files": files, "group_by": group_by}
    in_parts(RECORD.parent, resolve({"corpus": {"source": "mix", "mix": mix}})["corpus"], 1)
    tokenizer, shard = Path("tokenizer.json"), "test-00000-of-00001.tfrecord"
    tokenizer.write_text("{}")
    documents, section = SplitDocuments.described(RECORD), Shards(sequence_length=32)
    encoder = CharacterTokenizer()
    summary = write_shard("test", 0, 1, section, encoder, tokenizer, documents, shard)
    corpus = CorpusSplit.read(RECORD)
    return request.param, merged_manifest("test", [(shard, summary)], corpus, tokenizer)


def _scored(samples, name="", by=100) -> Scored:
    """Every third token is asked, with a loss by its id; every ninth is visible."""
    ids, chosen = samples.input_ids, samples.attention_mask & (samples.input_ids > 4)
    chosen &= np.arange(ids.size).reshape(ids.shape) % 3 == 0
    kept = np.arange(ids.size).reshape(ids.shape) % 9 == 0
    shown = np.where(chosen & ~kept, 4, ids)
    asked = positions_of(ids, samples.attention_mask, shown, chosen, samples.index, samples.group)
    ones = np.ones(len(asked), int)
    return Scored(asked, Scores(-asked.truth / by, ones == 1, ones, ones))


def test_bits_of_groups_and_sources_are_those_of_their_own_text(made):
    kind, manifest = made
    texts, test = TextOfGroups.read(RECORD, manifest, "."), _scored(spread_samples(manifest))
    hidden = test.where_hidden(4)
    found, sums = bits_by_group(hidden, texts, HOW), group_sums(hidden, texts)
    asked, losses = hidden.positions, hidden.scores.loss
    assert sum(sums.tokens) == manifest.num_tokens - 2 * manifest.documents
    # Each character is a token here.
    assert sums.tokens == sums.characters and sum(sums.characters) == texts.described.characters
    assert [one.name for one in found.sources] == ["letters", "speeches"]
    for one, (name, groups) in zip(found.sources, texts.sources(), strict=True):
        loss = losses[np.isin(asked.group, groups)]
        assert all(name in read for read in texts.names(groups))
        assert one.bits_per_character == pytest.approx(loss.mean() / math.log(2))
        assert one.num_groups == found.num_groups // 2 and one.num_predictions == len(loss)
        low, high = one.bits_per_character_interval
        assert low < one.bits_per_character < high
    assert found.num_groups == (40 if kind == "author" else 80)
    bits = [one.bits_per_character for one in found.groups]
    assert len(bits) == MOST_GROUPS and bits == sorted(bits, reverse=True)
    known = dict(zip(texts.names(texts.ids), texts.ids, strict=True))
    for one in found.groups:
        own = asked.group == known[one.name]
        assert one.bits_per_character == pytest.approx(losses[own].mean() / math.log(2))
        assert one.num_groups == 1 and 1 < one.num_samples < 30
        # Such as "letters: <i>7</i>" or "7: test letters07 0 κκκ".
        author = one.name[-6:-4].lstrip(">") if kind == "author" else one.name.split()[2][-2:]
        assert asked.truth[own].max() == 5 + ord("α") + int(author)


def test_a_text_that_the_shards_are_not_of_is_refused(made):
    _, manifest = made
    with pytest.raises(MlmError, match="is not the text that the test shards were made from"):
        TextOfGroups.read(RECORD.with_name("validation.json"), manifest, ".")


def test_further_text_is_read_packed_and_masked_as_a_split_of_the_same_documents(made, monkeypatch):
    kind, manifest = made
    (rows,) = SplitDocuments.described(RECORD).batches(["text", "group"], 1000)
    rows = [{"text": text, "by": by} for text, by in zip(*rows.to_pydict().values(), strict=True)]
    text = "\n".join(map(json.dumps, [{"text": " ", "by": "nobody"}, *rows]))
    Path("same.jsonl").write_text(text, encoding="utf-8")
    corpus = {"source": "files", "files": {"train": ["unread"]}}
    corpus |= {"group_by": "by"} if kind == "author" else {}
    config = {"corpus": corpus, "evaluation": {"also": {"same": ["same*.jsonl"]}}}
    texts = further_texts(resolve(config), "base")
    monkeypatch.setattr(Encoder, "load", lambda path: CharacterTokenizer())
    asked = []
    scorer = SimpleNamespace(length=32, score=lambda *one: asked.append(one[0]) or _scored(*one))
    found = on_further_texts(texts, Path(), Evaluation(), scorer, None, 4, HOW)["same"]
    (samples,), split = asked, spread_samples(manifest)
    for name in ("index", "input_ids", "attention_mask"):
        assert np.array_equal(getattr(samples, name), getattr(split, name)), name
    test = _scored(split)
    assert (found.documents, found.tokens) == (len(rows), manifest.num_tokens - 2 * len(rows))
    assert found.tokens == found.characters
    # Groups have other ids, and other draws.
    same, own = summary_of(test, 4, 1.0, HOW), found.model
    for name in ("loss", "bits_per_character", "num_samples", "num_groups"):
        assert getattr(own, name) == getattr(same, name), name
    assert own.hidden.loss == same.hidden.loss != own.loss
    low, high = own.bits_per_character_interval
    assert low < own.bits_per_character == own.hidden.loss / math.log(2) < high
    # A token's loss was twice as high.
    worse = SimpleNamespace(length=32, score=lambda *one: _scored(*one, by=50))
    few = on_further_texts(texts, Path(), Evaluation(max_tokens=64), scorer, worse, 4, HOW)["same"]
    assert few.model.num_samples == 2 and few.tokens == found.tokens
    assert found.before is None and few.before.loss == pytest.approx(2 * few.model.loss)
    assert few.change.difference == pytest.approx(-few.model.bits_per_character)
    low, high = few.change.difference_interval
    assert low < few.change.difference < high < 0


def test_further_text_too_short_to_be_asked_anything_is_named(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("empty.jsonl").write_text('{"text": " "}')
    monkeypatch.setattr(Encoder, "load", lambda path: CharacterTokenizer())
    texts = further_texts(resolve({"evaluation": {"also": {"news": ["empty.jsonl"]}}}), "base")
    with pytest.raises(MlmError, match="news: 0 documents"):
        on_further_texts(texts, Path(), Evaluation(), SimpleNamespace(length=32), None, 4, HOW)
