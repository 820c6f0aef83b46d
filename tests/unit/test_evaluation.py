import shutil
from dataclasses import replace

import evaluated_project as project
import numpy as np
import pytest
import report_artefacts as made
from scipy.special import log_softmax
from test_masks_page import code_of_the_page
from tests.conftest import refusal
from tiny_encoder import logits

from mlm.config.accelerator import Accelerator
from mlm.config.evaluation import Evaluation
from mlm.corpus.artefacts import FilesSource
from mlm.evaluation.artefacts import EvaluationFigures, rounded
from mlm.evaluation.exported_model import load_tokenizer, open_model
from mlm.evaluation.fill_mask import answers
from mlm.evaluation.intervals import Estimate
from mlm.evaluation.minimal_pair_files import Pair
from mlm.evaluation.model_evaluation import Evaluated, evaluate
from mlm.foundations.artefacts import as_json
from mlm.foundations.errors import MlmError
from mlm.model.model_files import read_exported
from mlm.samples.manifests import Manifest

PAIR = ["the public of the states and the public", "the the of public states and the public"]
CHARACTERS = 5000
FILES = FilesSource("files", "line", ())
#: The id of the only word of a test split, and why it is refused.
WORDS = {"a word": (7, "too few .*held_out.test"), "unknown": (3, "too few .*character_coverage")}
COUNTS = ("num_samples", "num_tokens", "num_padding", "documents")


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    root = tmp_path_factory.mktemp("project")
    directory = project.export(root / "random")
    for split in project.SAMPLES:
        project.write_split(root, split, directory)
    return root


def _evaluation(root, model=None, **settings):
    manifests = {split: root / f"{split}.json" for split in project.SAMPLES}
    section, texts = Evaluation(**settings), {"one": PAIR, "other": PAIR[::-1], "none": ["", " "]}
    pairs = [Pair(*two, "a.tsv", name) for name, two in texts.items()]
    described = replace(made.corpus("test"), source=FILES, characters=CHARACTERS)
    corpus = {"test": described, "train": described}
    evaluated = Evaluated(manifests, corpus, pairs=pairs, root=root)
    return evaluate("a run", model or root / "random", section, Accelerator(kind="cpu"), evaluated)


def numbers_of_sets(ids, real, share, seed=0):
    """The set of each token by the page, -1 for none, and how many sets there are."""
    page, numbers = code_of_the_page(), np.full(ids.shape, -1)
    for index, row in enumerate(ids.tolist()):
        text = [i < real[index] and id_ not in range(5) for i, id_ in enumerate(row)]
        A, *_ = page["words"](seed, 2**32 - 1, index, len(row))
        sets, found = page["sets_of"](text, A, share)
        numbers[index] = [-1 if number is None else number for number in found]
    return numbers, sets


def log_probabilities(root, ids, attention):
    """Log-probabilities [samples, sequence, vocabulary] by the random model."""
    architecture, weights = read_exported(root / "random")
    scores = logits(weights, architecture, ids, np.int32(attention))
    return log_softmax(scores.astype(np.float64), axis=-1)


def test_the_headline_is_what_the_specification_alone_gives(root, random_model):
    """Every text token once, in the sets of docs/masks.md."""
    ids, real = project.samples("test", root / "random")
    attention = np.arange(project.LENGTH) < real[:, None]
    numbers, sets = numbers_of_sets(ids, real, 0.15)
    losses, right = [], []
    for number in range(sets):
        hidden = numbers == number
        shares = log_probabilities(root, np.where(hidden, 4, ids), attention)[hidden]
        losses += (-shares[np.arange(len(shares)), ids[hidden]]).tolist()
        right += (shares.argmax(-1) == ids[hidden]).tolist()
    test = random_model["test"]
    assert sets == 7 and test["num_predictions"] == len(losses) == np.sum(numbers >= 0)
    assert test["loss"] == pytest.approx(np.mean(losses), abs=1e-5)
    assert test["accuracy"] == pytest.approx(np.mean(right), abs=1e-6)
    assert test["perplexity"] == pytest.approx(np.exp(np.mean(losses)), rel=1e-5)
    text = Manifest.read(root / "test.json")
    density = (text.num_tokens - 2 * text.documents) / CHARACTERS
    assert test["bits_per_character"] == pytest.approx(test["loss"] / np.log(2) * density)
    unknown = np.sum((ids == 3) & attention)
    assert test["unknown_share"] == pytest.approx(unknown / (unknown + len(losses)))


def test_pairs_are_scored_a_token_at_a_time(root, random_model):
    tokenizer, pairs = load_tokenizer(root / "random"), random_model["minimal_pairs"]
    scores = []
    for sentence in PAIR:
        ids, score = np.array(tokenizer(sentence)["input_ids"]), 0.0
        for place in range(1, len(ids) - 1):
            shown = np.where(np.arange(len(ids)) == place, 4, ids)
            shares = log_probabilities(root, shown[None], np.ones_like(ids)[None])
            score += shares[0, place, ids[place]]
        scores.append(score)
    one, other = pairs["phenomena"]
    assert one["margin"] == pytest.approx(scores[0] - scores[1], abs=1e-4)
    assert other["margin"] == pytest.approx(scores[1] - scores[0], abs=1e-4)
    assert one["accuracy"] == (scores[0] > scores[1]) == (not other["accuracy"])
    assert pairs["total"]["accuracy"] == 0.5 and pairs["num_left_out"] == 1


@pytest.fixture(scope="module")
def random_model(root):
    return as_json(_evaluation(root))


def test_one_set_of_as_many_samples_of_train_as_of_test_is_evaluated(root):
    figures = as_json(_evaluation(root, max_tokens=200))
    test, train = figures["test"], figures["train"]
    # Of 200 tokens, the special and unknown ones are not predicted.
    assert 80 < test["num_predictions"] < 200 and train["num_predictions"] > 50
    assert 60 < test["num_samples"] <= 70 and 45 < train["num_samples"] <= 60
    assert any("of the test split's" in verdict["text"] for verdict in figures["verdicts"])


def test_the_unigram_adds_one_and_leaves_out_a_token_that_it_predicts(root, random_model):
    splits = [project.samples(split, root / "random") for split in ("train", "test")]
    (ids, numbers), (test_ids, text) = ((i, numbers_of_sets(i, n, 0.15)[0]) for i, n in splits)
    counts, text = np.bincount(ids[numbers >= 0], minlength=120), test_ids[text >= 0]
    truth = ids[numbers == np.arange(len(ids))[:, None] % 7]
    on_test = np.log(counts.sum() + 120 - 5) - np.log(counts[text] + 1).mean()
    on_train = np.log(counts.sum() - 1 + 120 - 5) - np.log(counts[truth] - 1 + 1).mean()
    test, train, gap = (random_model[name] for name in ("test", "train", "gap_to_train"))
    unigram = random_model["baselines"]["unigram"]
    assert unigram["loss"] == pytest.approx(on_test)
    assert unigram["accuracy"] == pytest.approx(np.mean(text == np.argmax(counts)))
    beyond = test["loss"] - on_test, train["loss"] - on_train
    assert gap["value"] == pytest.approx(beyond[0] - beyond[1], abs=1e-5)


@pytest.fixture(scope="module")
def grouped(root, tmp_path_factory):
    """The random model's test split with tokens of 5 groups, by their number."""
    place = tmp_path_factory.mktemp("grouped")
    for split in project.SAMPLES:
        project.write_split(place, split, root / "random", 5)
    return as_json(_evaluation(place, root / "random"))


def test_intervals_are_over_the_sums_of_tokens_by_the_group_of_their_document(root, grouped):
    sums, test = grouped["cluster_sums"], grouped["test"]
    loss, counts = np.array(sums["loss"]), np.array(sums["predictions"])
    assert len(loss) == 5 == test["num_clusters"] and grouped["cluster_by"] == "speech"
    assert loss.sum() / counts.sum() == pytest.approx(test["loss"])
    ends = Estimate.of(np.column_stack([loss, counts])).interval
    assert test["loss_interval"] == pytest.approx(ends)
    ids, real = project.samples("test", root / "random")
    sample, place = np.nonzero(numbers_of_sets(ids, real, 0.15)[0] >= 0)
    group = (sample + (place >= real[sample] // 2)) % 5
    assert sums["predictions"] == np.bincount(group, minlength=5).tolist()


@pytest.mark.parametrize("fault", [*WORDS, "a byte of a shard", "test", "validation"])
def test_inputs_that_are_damaged_or_empty_are_refused(root, tmp_path, fault, monkeypatch):
    copy = shutil.copytree(root, tmp_path / "copy")
    if fault == "a byte of a shard":
        shard, said = copy / "shards" / "test-0.tfrecord", "not those of their manifest"
        data = bytearray(shard.read_bytes())
        data[-10] ^= 1
        shard.write_bytes(data)
    elif fault in WORDS:
        word, said = WORDS[fault]
        rows = np.array([[0, word, 2] + [1] * (project.LENGTH - 3)] * 2), np.array([3, 3])
        monkeypatch.setattr(project, "samples", lambda *_: rows)
        project.write_split(copy, "test", root / "random")
    else:
        said, none = f"{fault} split has ", dict.fromkeys(COUNTS, 0)
        empty = replace(Manifest.read(root / f"{fault}.json"), shards=(), **none)
        empty.write(copy / f"{fault}.json")
    with pytest.raises(MlmError, match=said):
        _evaluation(copy)


def test_a_second_evaluation_gives_the_same_file_another_seed_hardly_another_headline(
    tmp_path, root, random_model
):
    _evaluation(root).write(tmp_path / "evaluation.json")
    assert as_json(EvaluationFigures.read(tmp_path / "evaluation.json")) == rounded(random_model)
    other, loss = _evaluation(root, seed=1).test, random_model["test"]["loss"]
    assert other.loss != loss and other.loss == pytest.approx(loss, abs=0.02)


CPU = Accelerator(kind="cpu", precision="float32", cpu_threads=1)


def test_a_model_that_was_trained_within_documents_is_evaluated_so(root):
    """Of two documents in a row, the second answers as it does alone, at positions of its own."""
    half = project.LENGTH // 2
    document = np.random.default_rng(0).integers(5, 120, (1, half)).astype(np.int32)
    document[0, 0] = 0

    def asked(ids, place):
        places = {"positions": np.array([[place]]), "labels": document[:, 3:4]}
        return places | {"input_ids": ids, "attention_mask": np.int32(ids != 1)}

    row = asked(np.concatenate([document, document], axis=1), half + 3)
    alone = asked(np.concatenate([document, np.full_like(document, 1)], axis=1), 3)
    within = open_model(root / "random", CPU, begins_document=0).answers
    across = open_model(root / "random", CPU).answers
    expected = across(alone)["log_probability"]
    np.testing.assert_allclose(within(row)["log_probability"], expected, atol=1e-5)
    assert abs(across(row)["log_probability"] - expected).max() > 1e-3


def test_the_answers_are_the_likeliest_tokens_in_place_of_the_mask(root):
    prompt, tokenizer = "the public of the [MASK] states", load_tokenizer(root / "random")
    ids = np.array([tokenizer(prompt)["input_ids"]])
    (place,) = np.flatnonzero(ids[0] == tokenizer.mask_token_id)
    architecture, weights = read_exported(root / "random")
    scores = logits(weights, architecture, ids, np.ones_like(ids))[0, place].astype(np.float64)
    shares = np.exp(scores) / np.exp(scores).sum()
    likeliest = np.argsort(-shares)[:5].tolist()
    (found,) = answers(root / "random", [prompt], 5, cpu_threads=1)
    assert found.prompt == prompt
    assert [a.token for a in found.answers] == tokenizer.convert_ids_to_tokens(likeliest)
    filled = [prompt.replace("[MASK]", answer.token) for answer in found.answers]
    assert [a.sequence for a in found.answers] == filled
    assert [a.score for a in found.answers] == pytest.approx(shares[likeliest], rel=1e-4)
    (every,) = answers(root / "random", [prompt], 200, cpu_threads=1)
    assert sorted(a.token for a in every.answers) == sorted(tokenizer.get_vocab())


def test_all_wrong_prompts_are_named_at_once(root):
    prompts = ["", "the [MASK]", "[MASK] of [MASK]", "the " * 40 + "[MASK]"]
    said = refusal(answers, root / "random", prompts, 5, cpu_threads=1)
    assert "'' has no [MASK]" in said
    assert "'[MASK] of [MASK]' has 2 [MASK]" in said
    assert "43 tokens; the model takes at most 16" in said and "'the [MASK]'" not in said
