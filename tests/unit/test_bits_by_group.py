import json
import math
from pathlib import Path

import numpy as np
import pytest
from fake_tokenizer import CharacterTokenizer
from test_corpus_parts import in_parts

from mlm.config.overlays import resolve
from mlm.config.tokenizer import Shards
from mlm.evaluation.bits_by_group import MOST_GROUPS, TextOfGroups, bits_by_group
from mlm.evaluation.hidden_sets import Scores, positions_of
from mlm.evaluation.intervals import Clusters
from mlm.evaluation.metrics import cluster_sums
from mlm.foundations.errors import MlmError
from mlm.samples.shard_reading import spread_samples
from mlm.samples.sharding import write_shard

RECORD = Path("results/corpus/test.json")


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
    in_parts(RECORD.parent, resolve({"corpus": {"source": "mix", "mix": mix}}), 1)
    tokenizer, shard = Path("tokenizer.json"), "test-00000-of-00001.tfrecord"
    tokenizer.write_text("{}")
    section, encoder = Shards(sequence_length=32), CharacterTokenizer()
    return request.param, write_shard(shard, (0, 1), RECORD, section, encoder, tokenizer)


def _scored(samples, manifest):
    """Every third token is asked, with a loss by its id: positions, scores and clusters."""
    ids, chosen = samples.input_ids, samples.attention_mask & (samples.input_ids > 4)
    chosen &= np.arange(ids.size).reshape(ids.shape) % 3 == 0
    asked = positions_of(ids, samples.attention_mask, ids, chosen, samples.index, samples.group)
    ones = np.ones(len(asked), int)
    scores = Scores(-asked.truth / 100, ones == 1, ones)
    return asked, scores, Clusters(asked.sample, asked.group, manifest.group_by, None)


def test_bits_of_groups_and_sources_are_those_of_their_own_text(made):
    kind, manifest = made
    texts = TextOfGroups.read(RECORD, manifest, ".")
    asked, scores, clusters = _scored(spread_samples(manifest), manifest)
    losses = scores.loss
    found, sums = bits_by_group(asked, losses, texts), cluster_sums(clusters, scores, texts)
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
    assert len(bits) == MOST_GROUPS and bits == pytest.approx(sorted(bits, reverse=True))
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
