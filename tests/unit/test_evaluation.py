import shutil
from dataclasses import replace

import evaluated_project as project
import numpy as np
import pytest
import report_artefacts as made
from safetensors.numpy import load_file, save_file
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

PAIR = ["the public of the states", "the the of public states"]
CHARACTERS = 5000
FILES = FilesSource("files", "line", ())
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
    section, names = Evaluation(**settings), ["one", "other"]
    pairs = [Pair(*two, "a.tsv", n) for n, two in zip(names, (PAIR, PAIR[::-1]), strict=True)]
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
    assert pairs["total"]["accuracy"] == 0.5


@pytest.fixture(scope="module")
def random_model(root):
    return as_json(_evaluation(root))


def test_one_set_of_as_many_samples_of_train_as_of_test_is_evaluated(root):
    figures = as_json(_evaluation(root, max_tokens=200))
    test, train, gap = (figures[name] for name in ("test", "train", "gap_to_train"))
    # Of 200 tokens, the special and unknown ones are not predicted.
    assert 80 < test["num_predictions"] < 200 and train["num_predictions"] > 50
    assert 60 < test["num_samples"] <= 70 and 45 < train["num_samples"] <= 60
    low, high = gap["interval"]
    assert low < gap["value"] < high and gap["value"] != test["loss"] - train["loss"]
    assert any("of the test split's" in verdict["text"] for verdict in figures["verdicts"])


def test_the_seed_decides_what_is_hidden_together_and_hardly_the_headline(root, random_model):
    other = as_json(_evaluation(root, seed=1))["test"]
    assert other["loss"] != random_model["test"]["loss"]
    assert other["loss"] == pytest.approx(random_model["test"]["loss"], abs=0.02)


def test_the_bands_add_up_to_the_whole(random_model):
    total = sum(band["num_predictions"] for band in random_model["frequency_bands"])
    assert total == random_model["test"]["num_predictions"]


@pytest.fixture(scope="module")
def grouped(root, tmp_path_factory):
    """The random model's test split with tokens of 30 and of 5 groups, by their number."""
    found = {}
    for groups in (30, 5):
        place = tmp_path_factory.mktemp("grouped")
        for split in project.SAMPLES:
            project.write_split(place, split, root / "random", groups)
        found[groups] = as_json(_evaluation(place, root / "random"))
    return found


def test_intervals_are_over_the_sums_by_group(grouped):
    for groups in (30, 5):
        sums, test = grouped[groups]["cluster_sums"], grouped[groups]["test"]
        loss, counts = np.array(sums["loss"]), np.array(sums["predictions"])
        assert len(loss) == groups == test["num_clusters"]
        assert counts.sum() == test["num_predictions"]
        assert loss.sum() / counts.sum() == pytest.approx(test["loss"])
        ends = Estimate.of(np.column_stack([loss, counts])).interval
        assert test["loss_interval"] == pytest.approx(ends)
        assert grouped[groups]["cluster_by"] == "speech"


def test_a_token_counts_for_the_group_of_its_own_document(root, grouped):
    ids, real = project.samples("test", root / "random")
    sample, place = np.nonzero(numbers_of_sets(ids, real, 0.15)[0] >= 0)
    group = (sample + (place >= real[sample] // 2)) % 5
    expected = np.bincount(group, minlength=5).tolist()
    assert grouped[5]["cluster_sums"]["predictions"] == expected


@pytest.mark.parametrize("fault", ["a byte of a shard", "test", "validation", "a weight"])
def test_inputs_that_are_damaged_or_empty_are_refused(root, tmp_path, fault):
    copy = shutil.copytree(root, tmp_path / "copy")
    if fault == "a byte of a shard":
        shard, said = copy / "shards" / "test-0.tfrecord", "not those of their manifest"
        data = bytearray(shard.read_bytes())
        data[-10] ^= 1
        shard.write_bytes(data)
    elif fault in ("test", "validation"):
        said, none = f"{fault} split has no ", dict.fromkeys(COUNTS, 0)
        empty = replace(Manifest.read(root / f"{fault}.json"), shards=(), **none)
        empty.write(copy / f"{fault}.json")
    else:
        file, said = copy / "random" / "model.safetensors", "found nothing, expected"
        weights = load_file(file)
        del weights["bert.encoder.layer.0.attention.self.query.weight"]
        save_file(weights, file, metadata={"format": "pt"})
    with pytest.raises(MlmError, match=said):
        _evaluation(copy)


def test_a_second_evaluation_gives_the_same_file_which_is_read_back(tmp_path, root, random_model):
    _evaluation(root).write(tmp_path / "evaluation.json")
    assert as_json(EvaluationFigures.read(tmp_path / "evaluation.json")) == rounded(random_model)


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


def test_all_wrong_prompts_are_named_at_once(root):
    prompts = ["", "the [MASK]", "[MASK] of [MASK]", "the " * 40 + "[MASK]"]
    said = refusal(answers, root / "random", prompts, 5, cpu_threads=1)
    assert "'' has no [MASK]" in said
    assert "'[MASK] of [MASK]' has 2 [MASK]" in said
    assert "43 tokens; the model takes at most 16" in said and "'the [MASK]'" not in said
