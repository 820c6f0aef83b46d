from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from test_pieces import SPECIAL, trained
from transformers import PreTrainedTokenizerFast

from mlm.config.evaluation import Evaluation
from mlm.evaluation import visible_context
from mlm.evaluation.artefacts import ContextOfNgram, ContextStep, Difference
from mlm.evaluation.baselines import Ngrams
from mlm.evaluation.bootstrap import Resampling
from mlm.evaluation.neighbour_mixture import NeighbourMixtures, unigram_probabilities
from mlm.evaluation.predictions import positions_of
from mlm.evaluation.scoring import AnsweringModel, Scorer
from mlm.evaluation.verdicts import on_context
from mlm.evaluation.visible_context import AskedPositions, context_curve
from mlm.samples.split_samples import Samples
from mlm.samples.token_counts import count_tokens

CLS, PAD, SEP, MASK, STOP, VOCABULARY, LENGTH = 0, 1, 2, 4, 5, 30, 40
HOW = Resampling(resamples=100, confidence=0.95, seed=0)


class Tokenizer:
    cls_token_id, sep_token_id, mask_token_id = CLS, SEP, MASK
    all_special_ids = tuple(range(5))

    def __len__(self):
        return VOCABULARY

    def convert_ids_to_tokens(self, ids):
        return ["▁U.S.”" if i == STOP else f"▁w{i}" for i in ids]


def _samples(count: int, seed: int) -> Samples:
    """Rows of two documents, of words that mostly follow from the one before; the last is short."""
    random = np.random.default_rng(seed)
    ids = random.integers(5, VOCABULARY, (count, LENGTH)).astype(np.int32)
    for place in range(1, LENGTH):
        follows = 5 + (ids[:, place - 1] * 7) % (VOCABULARY - 5)
        ids[:, place] = np.where(random.random(count) < 0.7, follows, ids[:, place])
    ids[:, [0, 22]], ids[:, [21, 39]] = CLS, SEP
    mask = np.ones_like(ids, bool)
    ids[-1, 30:], mask[-1, 30:] = PAD, False
    return Samples(np.arange(count) * 3, ids, mask, np.tile(np.arange(count)[:, None] // 4, LENGTH))


def _positions(samples: Samples):
    ids, mask = samples.input_ids, samples.attention_mask
    return positions_of(ids, mask, ids, mask & (ids > MASK), samples.index, samples.group)


@pytest.fixture(scope="module")
def ngrams() -> Ngrams:
    train, special = _samples(300, 1), range(5)
    counted = [(train.input_ids, train.attention_mask)]
    counts = count_tokens(counted, VOCABULARY, special, two=True)
    mixtures = NeighbourMixtures(counts, special)
    mixtures.fit(_positions(_samples(60, 2)))
    return Ngrams(unigram_probabilities(counts, special), mixtures)


def _counting_model(ngrams: Ngrams, name: str) -> AnsweringModel:
    """A model that knows an n-gram's counts, and looks at its visible neighbours alone."""

    def answers(batch):
        ids, labels = batch["input_ids"], batch["labels"]
        asked = np.arange(ids.shape[1]) == batch["positions"]
        assert (ids[asked] == MASK).all() and batch["attention_mask"][ids == MASK].all()
        assert (ids[:, [0, 22]] == CLS).all()
        places = replace(positions_of(ids, batch["attention_mask"], ids, asked), truth=labels[:, 0])
        return {"log_probability": ngrams.scores(places, "")[name].log_probability[:, None]}

    return AnsweringModel(answers, replicas=1, vocabulary=VOCABULARY)


@pytest.mark.parametrize(("name", "reach"), [("unigram", 0), ("bigram", 1), ("trigram", 2)])
def test_a_model_that_is_an_ngram_gains_nothing_from_its_order_on(monkeypatch, ngrams, name, reach):
    samples, tokenizer = _samples(60, 3), Tokenizer()
    scorer = Scorer(_counting_model(ngrams, name), Evaluation(), tokenizer, LENGTH)
    asked = _positions(samples), samples
    how = tokenizer, False, scorer.log_probabilities, ngrams.scores, HOW
    found = context_curve(AskedPositions.blocks(*asked, 200, tokenizer), *how)
    assert found.num_predictions == 200
    steps = {step.visible: step for step in found.steps}
    assert list(steps) == [0, 1, 2, 4, 8, 16, "sentence", "all"]
    for visible, step in steps.items():
        if visible not in range(reach) and visible != "sentence":
            assert step.loss == found.ngrams[name].loss
            assert step.loss_interval == found.ngrams[name].loss_interval
            assert (step.difference, step.difference_interval) == (0, (0, 0))
    assert steps[0].loss == pytest.approx(found.ngrams["unigram"].loss)
    assert all(steps[less].difference > 0.1 for less in range(min(reach, 1)))
    assert found.ngrams[name].same == found.ngrams[name].all == Difference(0, (0, 0))
    assert (found.ngrams["unigram"].all.tone == "better") == (name != "unigram")
    monkeypatch.setattr(visible_context, "_TOKENS_AT_ONCE", 70 * LENGTH)
    assert context_curve(AskedPositions.blocks(*asked, 200, tokenizer), *how) == found
    assert context_curve(AskedPositions.blocks(*asked, 0, tokenizer), *how) is None


def test_a_window_has_so_many_tokens_and_stays_within_its_document():
    samples = _samples(8, 4)
    samples.input_ids[samples.input_ids == STOP] = 6
    samples.input_ids[:, [10, 16, 30]] = STOP
    (asked,) = AskedPositions.blocks(_positions(samples), samples, 10**9, Tokenizer())
    place, index = asked.positions.position[:, None], np.arange(LENGTH)
    within, across = (asked.windows(Tokenizer(), documents) for documents in (True, False))
    document, sentence = (np.digitize(index, ends) for ends in ([22], [11, 17, 22, 31]))
    for visible, window in within.items():
        alike = document == document[place]
        if visible == "sentence":
            alike &= sentence == sentence[place]
        if isinstance(visible, int):
            alike &= abs(index - place) <= visible
        assert np.array_equal(window, alike & asked.samples.attention_mask)
    assert np.array_equal(across["all"], asked.samples.attention_mask)
    assert (across[16] & ~within[16]).any()
    assert np.array_equal(across["sentence"], within["sentence"])
    seen = asked.seeing(within[2])
    assert (seen.left[place[:, 0] == 23].tolist()) == [[CLS, -1]] * 8
    samples.input_ids[:, [10, 16, 30]] = 6
    (asked,) = AskedPositions.blocks(_positions(samples), samples, 10**9, Tokenizer())
    assert list(asked.windows(Tokenizer(), False)) == [v for v in across if v != "sentence"]


@pytest.mark.parametrize("kind", ["wordpiece", "bytes", "metaspace"])
def test_a_sentence_is_known_by_its_mark_with_every_kind_of_tokenizer(kind):
    tokenizer = trained(kind)
    parts = [tokenizer.encode(s).ids for s in ("The people are free.", "It is so.", "We go on")]
    names = dict(zip(("cls_token", "pad_token", "sep_token", "unk_token"), SPECIAL, strict=False))
    fast = PreTrainedTokenizerFast(tokenizer_object=tokenizer, mask_token="[MASK]", **names)
    ids = np.array([[CLS, *np.concatenate(parts), SEP]])
    samples = Samples(np.zeros(1, int), ids, ids >= 0, np.zeros_like(ids))
    (asked,) = AskedPositions.blocks(_positions(samples), samples, 10**9, fast)
    first, *others, last = np.repeat(range(3), [len(part) for part in parts])
    number = np.array([first, first, *others, last, last])
    expected = number == number[asked.positions.position[:, None]]
    assert np.array_equal(asked.windows(fast, False)["sentence"], expected)


def _said(losses: dict, ngram: float, positions: int = 100) -> list:
    steps = [
        ContextStep(d, (d - 0.1, d + 0.1), visible, 0, d, (d, d)) for visible, d in losses.items()
    ]
    beside = Difference(ngram, (ngram - 0.1, ngram + 0.1))
    ngrams = {"bigram": ContextOfNgram(1, 4.0, (3, 5), Difference(0.02, (-0.1, 0.1)), beside)}
    found = SimpleNamespace(num_predictions=positions, steps=steps, ngrams=ngrams)
    return on_context(found, 0.95)


def test_it_is_said_how_far_context_helps_and_whether_the_model_is_more_than_an_ngram():
    losses = {0: 3.0, 1: 1.0, 2: 0.2, 4: 0.01, "sentence": 0.5, "all": 0.0}
    far, more = _said(losses, -0.5)
    assert far.text.startswith("More context helps beyond ±2 tokens: with these alone the loss is")
    assert (
        "0.200 nats above that with all" in far.text
        and "from ±4 on, no further gain is shown" in far.text
    )
    assert more.tone == "better" and more.text.startswith(
        "Uses more context than an n-gram: with all"
    )
    assert "ahead of the bigram (−0.500 nats, −0.600 to −0.400)" in more.text
    assert "not to be told apart from the bigram (+0.020 nats" in more.text
    none, less = _said({0: 0.05, "all": 0.0}, 0.3)
    assert none.tone == less.tone == "worse" and less.text.startswith(
        "Does not use more context than an n-gram"
    )
    assert _said(losses, -0.05)[1].text.startswith("Not shown to use more context than an n-gram")
    (few,) = _said(losses, -0.5, positions=99)
    assert few.tone == "plain" and "99 positions are too few" in few.text


def test_rounding_is_no_context_that_helps():
    step = ContextStep(1e-7, (1e-8, 1e-6), 4, 8.0, 3.0, (2.9, 3.1))
    found = SimpleNamespace(num_predictions=100, steps=[step], ngrams={})
    assert [one.text for one in on_context(found, 0.95)] == ["Context does not help beyond chance."]
