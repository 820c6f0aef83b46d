import shutil
from dataclasses import replace
from types import SimpleNamespace

import evaluated_project as project
import numpy as np
import pytest
from both_frameworks import FRAMEWORKS, alike, each_framework
from safetensors.numpy import load_file, save_file
from tests.conftest import refusal
from tiny_encoder import logits

from mlm.config.accelerator import Accelerator
from mlm.config.evaluation import Evaluation
from mlm.evaluation.artefacts import EvaluationFigures, rounded
from mlm.evaluation.bootstrap import interval, resampled_means
from mlm.evaluation.exported_model import load_tokenizer
from mlm.evaluation.fill_mask import answers
from mlm.evaluation.model_evaluation import evaluate
from mlm.evaluation.opened_model import open_model
from mlm.evaluation.pair_files import Pair
from mlm.foundations.artefacts import as_json
from mlm.foundations.errors import MlmError
from mlm.model.weights import read_exported
from mlm.samples.manifests import Manifest

PAIR = ["the public of the states", "the the of public states"]
SECTION = {"mask_token": 1.0, "random_token": 0.0, "bootstrap": {"resamples": 100}}
SECTION |= {"train_samples": 60, "minimal_pairs": [PAIR, PAIR[::-1]]}
CHARACTERS = {"train": 5000, "test": 5000}
COUNTS = ("num_samples", "num_tokens", "num_padding", "documents")


@pytest.fixture(scope="module", autouse=True)
def one_device():
    """No change of devices or threads in a process that other tests share."""
    from mlm.foundations.tensorflow_setup import tf
    from mlm.training.in_tensorflow import devices

    with pytest.MonkeyPatch.context() as patch:
        opened = SimpleNamespace(strategy=tf.distribute.OneDeviceStrategy("/cpu:0"))
        patch.setattr(devices, "open_strategy", lambda settings: opened)
        yield


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    root = tmp_path_factory.mktemp("project")
    directory = project.export(root / "random")
    for split in project.SAMPLES:
        project.write_split(root, split, directory)
    return root


def _evaluation(root, model=None, **changes):
    manifests = {split: root / f"{split}.json" for split in project.SAMPLES}
    asked = Evaluation(**SECTION | changes), Accelerator(kind="cpu")
    pairs = [Pair(*pair) for pair in asked[0].minimal_pairs]
    place = model or root / "random"
    return evaluate("a run", place, manifests, CHARACTERS, *asked, pairs, root=root)


def masked_test(root):
    """The test split's ids, its attention, and the ids with the masks of an evaluation."""
    from mlm.samples.masking import MaskingPlan, mask_batch

    plan = MaskingPlan(0.15, 1.0, 0.0, 4, (0, 1, 2, 3, 4), 120, project.LENGTH)
    ids, real = project.samples("test", root / "random")
    ids, attention = ids.astype(np.int32), np.int32(np.arange(project.LENGTH) < real[:, None])
    return ids, attention, mask_batch(ids, attention, np.arange(len(ids)), plan, 0)["input_ids"]


@pytest.fixture(scope="module")
def random_model(root):
    return as_json(_evaluation(root))


def test_as_many_samples_of_train_as_of_test_are_evaluated_and_the_gap_has_an_interval(root):
    found = as_json(_evaluation(root, train_samples=None, max_tokens=20 * project.LENGTH))
    assert found["settings"]["train_samples"] == 20
    gap = found["gap"]
    difference = found["test"]["hidden"]["loss"] - found["train"]["hidden"]["loss"]
    assert gap["difference"] == pytest.approx(difference)
    assert gap["difference_interval"][0] < difference < gap["difference_interval"][1]
    assert found["gap_beyond_unigram"]["difference"] != gap["difference"]
    without = as_json(_evaluation(root, train_samples=0))
    assert without["train"] is without["gap"] is without["gap_beyond_unigram"] is None
    assert without["settings"]["train_samples"] == 0


def test_the_figures_agree_with_a_recount_in_numpy(root, random_model):
    (architecture, weights), (ids, attention, shown) = (
        read_exported(root / "random"),
        masked_test(root),
    )
    every = logits(weights, architecture, shown, attention).astype(np.float64)
    losses, ranks = [], []
    for row, place in zip(*np.nonzero(shown != ids), strict=True):
        assert shown[row, place] == 4
        scores = every[row, place]
        losses.append(np.log(np.exp(scores).sum()) - scores[ids[row, place]])
        ranks.append(np.argsort(-scores).tolist().index(ids[row, place]))
    found, ranks = rounded(random_model)["test"], np.array(ranks)
    assert found["num_predictions"] == len(losses)
    assert found["loss"] == pytest.approx(np.mean(losses), abs=1e-5)
    assert found["accuracy"] == pytest.approx(np.mean(ranks == 0), abs=1e-6)
    assert found["top5_accuracy"] == pytest.approx(np.mean(ranks < 5), abs=1e-6)
    assert found["perplexity"] == pytest.approx(np.exp(np.mean(losses)), rel=1e-5)

    tokenizer, pairs = load_tokenizer(root / "random"), random_model["minimal_pairs"]
    pair, turned = pairs["pairs"]
    for sentence, score in zip(PAIR, pair["scores"], strict=True):
        ids, total = np.array(tokenizer(sentence)["input_ids"]), 0.0
        for place in range(1, len(ids) - 1):
            shown = np.where(np.arange(len(ids)) == place, 4, ids)
            scores = logits(weights, architecture, shown[None], np.ones_like(ids)[None])[0, place]
            total += scores[ids[place]] - np.log(np.exp(scores.astype(float)).sum())
        assert score == pytest.approx(total, abs=1e-4)
    first, second = pair["scores"]
    assert turned["scores"] == pytest.approx([second, first], abs=1e-4)
    assert pair["correct"] == (first > second) == (not turned["correct"])
    assert pairs["total"]["accuracy"] == 0.5 == pairs["phenomena"][0]["accuracy"]


def test_the_parts_add_up_to_the_whole(random_model):
    calibration = random_model["calibration"]["bins"]
    for rows in (calibration, random_model["frequency_bands"]):
        total = sum(r["num_predictions"] for r in rows)
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


def test_intervals_resample_the_sums_by_group(grouped):
    for groups in (30, 5):
        sums, test = grouped[groups]["group_sums"], grouped[groups]["test"]
        loss, counts = np.array(sums["loss"]), np.array(sums["predictions"])
        assert len(loss) == groups and counts.sum() == test["num_predictions"]
        assert loss.sum() / counts.sum() == pytest.approx(test["loss"])
        means = resampled_means(loss[:, None], counts, 100, 0)
        assert test["loss_interval"] == pytest.approx(interval(means[:, 0], 0.95))


def test_a_masked_token_counts_for_the_group_of_its_own_document(root, grouped):
    ids, attention, shown = masked_test(root)
    sample, place = np.nonzero(shown != ids)
    group = (sample + (place >= attention.sum(axis=1)[sample] // 2)) % 5
    expected = np.bincount(group, minlength=5).tolist()
    assert grouped[5]["group_sums"]["predictions"] == expected


def test_a_baseline_is_compared_and_bits_are_counted_where_the_answer_is_hidden(root):
    found = as_json(_evaluation(root, mlm_probability=0.5, mask_token=0.4, random_token=0.3))
    hidden, bands = found["test"]["hidden"], found["frequency_bands"]
    count = sum(band["num_predictions"] for band in bands)
    assert count < found["test"]["num_predictions"]
    loss = sum((b["loss"] or 0) * b["num_predictions"] for b in bands) / count
    assert (hidden["num_predictions"], hidden["loss"]) == (count, pytest.approx(loss))
    text = Manifest.read(root / "test.json")
    density = (text.num_tokens - 2 * text.documents) / CHARACTERS["test"]
    assert found["test"]["bits_per_character"] == pytest.approx(loss / np.log(2) * density)
    baseline = found["baselines"]["unigram"]
    assert baseline["difference"] == pytest.approx(loss - baseline["hidden"]["loss"])


def test_a_test_split_of_visible_targets_alone_has_no_headline(root):
    said = refusal(_evaluation, root, mask_token=1e-9)
    assert "all of them stayed visible" in said and "evaluation.mlm_probability" in said


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


def test_every_framework_answers_alike(root):
    ids, attention, _ = masked_test(root)
    batch = {
        "input_ids": ids[:6],
        "attention_mask": attention[:6],
        "positions": np.tile([1, 2], (6, 1)).astype(np.int32),
        "labels": ids[:6, 1:3],
    }
    ours, theirs = (open_model(root / "random", framework, CPU) for framework in FRAMEWORKS)
    assert (ours.replicas, ours.vocabulary) == (theirs.replicas, theirs.vocabulary)
    alike(ours.answers(batch), theirs.answers(batch), atol=1e-5)


@each_framework
def test_a_model_that_was_trained_within_documents_is_evaluated_so(root, framework):
    """Of two documents in a row, the second answers as it does alone, at positions of its own."""
    half = project.LENGTH // 2
    document = np.random.default_rng(0).integers(5, 120, (1, half)).astype(np.int32)
    document[0, 0] = 0

    def asked(ids, place):
        places = {"positions": np.array([[place]]), "labels": document[:, 3:4]}
        return places | {"input_ids": ids, "attention_mask": np.int32(ids != 1)}

    row = asked(np.concatenate([document, document], axis=1), half + 3)
    alone = asked(np.concatenate([document, np.full_like(document, 1)], axis=1), 3)
    within = open_model(root / "random", framework, CPU, begins_document=0).answers
    across = open_model(root / "random", framework, CPU).answers
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
    (found,) = answers(root / "random", [prompt], 5)
    assert found.prompt == prompt
    assert [a.token for a in found.answers] == tokenizer.convert_ids_to_tokens(likeliest)
    filled = [prompt.replace("[MASK]", answer.token) for answer in found.answers]
    assert [a.sequence for a in found.answers] == filled
    assert [a.score for a in found.answers] == pytest.approx(shares[likeliest], rel=1e-4)


def test_all_wrong_prompts_are_named_at_once(root):
    prompts = ["", "the [MASK]", "[MASK] of [MASK]", "the " * 40 + "[MASK]"]
    said = refusal(answers, root / "random", prompts, 5)
    assert "'' has no [MASK]" in said
    assert "'[MASK] of [MASK]' has 2 [MASK]" in said
    assert "43 tokens; the model takes at most 16" in said and "'the [MASK]'" not in said
