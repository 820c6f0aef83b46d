import shutil
from dataclasses import replace

import evaluated_project as project
import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from mlm.config.accelerator import Accelerator
from mlm.config.evaluation import Evaluation
from mlm.evaluation.artefacts import EvaluationFigures, rounded
from mlm.evaluation.bootstrap import interval, resampled_means
from mlm.evaluation.model_evaluation import evaluate
from mlm.foundations.errors import MlmError
from mlm.foundations.typed_artefacts import as_json
from mlm.samples.manifests import Manifest

SECTION = {
    "mask_token": 1.0,
    "random_token": 0.0,
    "bootstrap": {"resamples": 100},
    "frequency_bands": [10, 100],
    "samples": 3,
    "train_samples": 60,
    "minimal_pairs": [["the public of the states", "the the of public states"]],
}
CHARACTERS = {"train": 5000, "test": 5000}
COUNTS = ("num_samples", "num_tokens", "num_padding", "documents")


@pytest.fixture(scope="module", autouse=True)
def one_device():
    """No change of devices or threads in a process that other tests share."""
    from types import SimpleNamespace

    from mlm.evaluation import in_tensorflow
    from mlm.foundations.framework import tf

    with pytest.MonkeyPatch.context() as patch:
        strategy = tf.distribute.OneDeviceStrategy("/cpu:0")
        opened = SimpleNamespace(strategy=strategy)
        patch.setattr(in_tensorflow, "open_strategy", lambda settings: opened)
        yield


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    root = tmp_path_factory.mktemp("project")
    directory = project.export(project.build_model(), root / "random")
    for split in project.SAMPLES:
        project.write_split(root, split, directory)
    return root


def _evaluation(root, model=None, **changes):
    """The figures of the shards below `root`."""
    manifests = {split: root / f"{split}.json" for split in project.SAMPLES}
    asked = Evaluation(**SECTION | changes), {"kind": "cpu"}
    return evaluate("a run", model or root / "random", manifests, CHARACTERS, *asked, root=root)


def _evaluated(root, model=None, **changes):
    return as_json(_evaluation(root, model, **changes))


@pytest.fixture(scope="module")
def random_model(root):
    return _evaluated(root)


def test_a_model_of_random_weights_is_said_to_be_no_better_than_the_unigram(random_model):
    assert random_model["verdicts"][0]["text"].startswith("Not better than the unigram baseline")
    assert random_model["test"]["loss"] > random_model["baselines"]["unigram"]["loss"] - 0.1
    assert not any(v["text"].startswith("Memorised") for v in random_model["verdicts"])


def test_as_many_samples_of_train_as_of_test_are_evaluated_and_the_gap_has_an_interval(root):
    found = _evaluated(root, train_samples=None, max_tokens=20 * project.LENGTH)
    assert found["settings"]["train_samples"] == 20
    gap = found["gap"]
    difference = found["test"]["loss"] - found["train"]["loss"]
    assert gap["difference"] == pytest.approx(difference)
    assert gap["difference_interval"][0] < difference < gap["difference_interval"][1]
    without = _evaluated(root, train_samples=0)
    assert without["train"] is without["gap"] is None
    assert without["settings"]["train_samples"] == 0


def test_the_figures_agree_with_a_recount_in_numpy(root, random_model):
    """The model's full logits, masks and softmax once more, sample by sample."""
    from mlm.evaluation.exported_model import load_model, load_tokenizer
    from mlm.samples.masking import MaskingPlan, mask_batch

    model = load_model(root / "random")
    plan = MaskingPlan(0.15, 1.0, 0.0, 4, (0, 1, 2, 3, 4), 120, project.LENGTH)
    losses, hits, top5, counts = [], [], [], 0
    for index, (ids, real) in enumerate(
        zip(*project.samples("test", root / "random"), strict=True)
    ):
        attention = (np.arange(project.LENGTH) < real).astype(np.int32)[None]
        batch = mask_batch(ids[None].astype(np.int32), attention, [index], plan, 0)
        shown = batch["input_ids"]
        logits = model({"input_ids": shown, "attention_mask": attention}).logits.numpy()[0]
        logits = logits.astype(np.float64)
        for place in np.flatnonzero(shown[0] != ids):
            assert shown[0, place] == 4
            row = logits[place]
            losses.append(np.log(np.exp(row).sum()) - row[ids[place]])
            order = np.argsort(-row)
            hits.append(order[0] == ids[place])
            top5.append(ids[place] in order[:5])
            counts += 1
    found = rounded(random_model)["test"]
    assert found["num_predictions"] == counts
    assert found["loss"] == pytest.approx(np.mean(losses), abs=1e-5)
    assert found["accuracy"] == pytest.approx(np.mean(hits), abs=1e-6)
    assert found["top5_accuracy"] == pytest.approx(np.mean(top5), abs=1e-6)
    assert found["perplexity"] == pytest.approx(np.exp(np.mean(losses)), rel=1e-5)

    tokenizer, (pair,) = load_tokenizer(root / "random"), random_model["minimal_pairs"]["pairs"]
    for sentence, score in zip(SECTION["minimal_pairs"][0], pair["scores"], strict=True):
        ids, total = np.array(tokenizer(sentence)["input_ids"]), 0.0
        for place in range(1, len(ids) - 1):
            shown = np.where(np.arange(len(ids)) == place, 4, ids)
            row = model({"input_ids": shown[None]}).logits.numpy()[0, place].astype(np.float64)
            total += row[ids[place]] - np.log(np.exp(row).sum())
        assert score == pytest.approx(total, abs=1e-4)


def test_the_parts_add_up_to_the_whole(random_model):
    total = random_model["test"]["num_predictions"]
    parts = {
        "bands": random_model["frequency_bands"],
        "positions": random_model["positions"],
        "words": list(random_model["word_initial"].values()),
        "bins": random_model["calibration"]["bins"],
        "shown": list(random_model["shown_as"].values()),
    }
    for name, rows in parts.items():
        assert sum(r["num_predictions"] for r in rows) == total, name


def test_best_and_worst_samples_show_their_tokens(random_model):
    shown = random_model["samples"]
    assert len(shown["best"]) == len(shown["worst"]) == 3
    for sample in shown["best"] + shown["worst"]:
        masked = [t for t in sample["tokens"] if t["truth"]]
        assert masked and all(t["predicted"] for t in masked)
        right = sum(t["predicted"]["correct"] for t in masked)
        assert sample["accuracy"] == pytest.approx(right / len(masked))
        assert sample["tokens"][0]["text"] == "[CLS]"
        assert "<pad>" not in [t["text"] for t in sample["tokens"]]
    assert shown["best"][0]["loss"] < shown["worst"][0]["loss"]


@pytest.fixture(scope="module")
def grouped(root, tmp_path_factory):
    """The random model's test split with tokens of 30, of 5 and of 1 groups, by their number."""
    found = {}
    for groups in (30, 5, 1):
        place = tmp_path_factory.mktemp("grouped")
        for split in project.SAMPLES:
            project.write_split(place, split, root / "random", groups)
        found[groups] = _evaluated(place, root / "random")
    return found


def test_groups_change_the_intervals_and_no_other_figure(random_model, grouped):
    expected = rounded(random_model)["test"]
    for groups, found in grouped.items():
        test = rounded(found)["test"]
        different = {k for k in test if test[k] != expected[k]}
        assert different <= {"num_groups", "loss_interval", "accuracy_interval", "hidden"}
        assert test["num_groups"] == groups
        assert test["hidden"]["loss"] == expected["hidden"]["loss"]
        assert (test["loss_interval"] == expected["loss_interval"]) == (groups == 1)
        said = " ".join(v["text"] for v in found["verdicts"])
        assert ("Few groups: the intervals resample the 5 groups (speech)" in said) == (groups == 5)
        assert ("One group:" in said) == (groups == 1)
    assert any(v["text"].startswith("No groups: these") for v in random_model["verdicts"])


def test_intervals_resample_the_sums_by_group(grouped):
    for groups in (30, 5):
        found = grouped[groups]
        sums = found["group_sums"]
        assert len(sums["loss"]) == groups
        assert sum(sums["predictions"]) == found["test"]["num_predictions"]
        mean = sum(sums["loss"]) / sum(sums["predictions"])
        assert mean == pytest.approx(found["test"]["loss"])
        means = resampled_means(
            np.array(sums["loss"])[:, None], np.array(sums["predictions"]), 100, 0
        )
        assert found["test"]["loss_interval"] == pytest.approx(interval(means[:, 0], 0.95))


def test_a_masked_token_counts_for_the_group_of_its_own_document(root, grouped):
    """The masks once more, and of each sample the two halves with their groups."""
    from mlm.samples.masking import MaskingPlan, mask_batch

    plan = MaskingPlan(0.15, 1.0, 0.0, 4, (0, 1, 2, 3, 4), 120, project.LENGTH)
    ids, real = project.samples("test", root / "random")
    attention = (np.arange(project.LENGTH) < real[:, None]).astype(np.int32)
    batch = mask_batch(ids.astype(np.int32), attention, np.arange(len(ids)), plan, 0)
    sample, place = np.nonzero(batch["input_ids"] != ids)
    group = (sample + (place >= real[sample] // 2)) % 5
    expected = np.bincount(group, minlength=5).tolist()
    assert grouped[5]["group_sums"]["predictions"] == expected


def test_bits_per_character_are_counted_where_the_answer_is_hidden(root):
    found = _evaluated(root, mlm_probability=0.5, mask_token=0.4, random_token=0.3)
    parts = [found["shown_as"][name] for name in ("mask", "random")]
    count = sum(p["num_predictions"] for p in parts)
    loss = sum(p["loss"] * p["num_predictions"] for p in parts) / count
    hidden = found["test"]["hidden"]
    assert (hidden["num_predictions"], hidden["loss"]) == (count, pytest.approx(loss))
    assert hidden["loss_interval"][0] < loss < hidden["loss_interval"][1]
    text = Manifest.read(root / "test.json")
    tokens = text.num_tokens - 2 * text.documents
    expected = loss / np.log(2) * tokens / CHARACTERS["test"]
    assert found["test"]["bits_per_character"] == pytest.approx(expected)
    baseline = found["baselines"]["unigram"]
    assert baseline["hidden"]["num_predictions"] == count
    assert baseline["difference"] == pytest.approx(loss - baseline["hidden"]["loss"])


def test_of_a_large_test_split_samples_at_equal_distances_are_evaluated(root, random_model):
    assert not any("Evaluated on" in v["text"] for v in random_model["verdicts"])
    found = _evaluated(root, max_tokens=20 * project.LENGTH + 7)
    # Of some samples no token is chosen for prediction.
    assert 15 < found["test"]["num_samples"] <= 20
    told = [v for v in found["verdicts"] if "Evaluated on 20 of the test split's 70" in v["text"]]
    assert told and told[0]["tone"] == "plain"
    # Each is asked what it is asked among all.
    rows = [
        {(n, round(loss, 3)) for n, loss in zip(s["predictions"], s["loss"], strict=True)}
        for s in (found["group_sums"], random_model["group_sums"])
    ]
    assert rows[0] < rows[1] and len(rows[0]) == found["test"]["num_samples"]
    assert _evaluated(root, max_tokens=1)["test"]["num_samples"] == 1


@pytest.mark.parametrize("fault", ["a byte of a shard", "no samples", "a weight"])
def test_inputs_that_are_damaged_or_empty_are_refused(root, tmp_path, fault):
    copy = shutil.copytree(root, tmp_path / "copy")
    if fault == "a byte of a shard":
        shard, said = copy / "shards" / "test-0.tfrecord", "not those of their manifest"
        data = bytearray(shard.read_bytes())
        data[-10] ^= 1
        shard.write_bytes(data)
    elif fault == "no samples":
        said, none = "test split has no samples", dict.fromkeys(COUNTS, 0)
        replace(Manifest.read(root / "test.json"), shards=(), **none).write(copy / "test.json")
    else:
        file, said = copy / "random" / "model.safetensors", "lacks 1 weights"
        weights = load_file(file)
        del weights["bert.encoder.layer.0.attention.self.query.weight"]
        save_file(weights, file, metadata={"format": "pt"})
    with pytest.raises(MlmError, match=said):
        _evaluation(copy)


def test_a_second_evaluation_gives_the_same_file_which_is_read_back(tmp_path, root, random_model):
    _evaluation(root).write(tmp_path / "evaluation.json")
    assert as_json(EvaluationFigures.read(tmp_path / "evaluation.json")) == rounded(random_model)


def test_tensorflow_and_jax_answer_alike(root):
    from mlm.evaluation import in_jax, in_tensorflow

    settings = Accelerator(kind="cpu", precision="float32", cpu_threads=1)
    ids, real = project.samples("test", root / "random")
    batch = {
        "input_ids": ids.astype(np.int32)[:6],
        "attention_mask": (np.arange(project.LENGTH) < real[:, None]).astype(np.int32)[:6],
        "positions": np.tile([1, 2], (6, 1)).astype(np.int32),
        "labels": ids[:6, 1:3].astype(np.int32),
    }
    theirs = in_tensorflow.open_model(root / "random", settings, seed=0)
    ours = in_jax.open_model(root / "random", settings)
    assert (ours.replicas, ours.vocabulary) == (theirs.replicas, theirs.vocabulary)
    ours, theirs = ours.answers(batch), theirs.answers(batch)
    for name in ("rank", "top"):
        np.testing.assert_array_equal(ours[name], theirs[name])
    for name in ("log_probability", "top_probability"):
        np.testing.assert_allclose(ours[name], theirs[name], atol=1e-5)


def test_a_model_that_was_trained_within_documents_is_evaluated_so(root):
    """Of two documents in a row, the second answers as it does alone, at positions of its own."""
    from mlm.evaluation import in_jax

    settings = Accelerator(kind="cpu", precision="float32", cpu_threads=1)
    half = project.LENGTH // 2
    document = np.random.default_rng(0).integers(5, 120, (1, half)).astype(np.int32)
    document[0, 0] = 0
    row = np.concatenate([document, document], axis=1)
    asked = {"positions": np.array([[half + 3]]), "labels": document[:, 3:4]}
    batch = asked | {"input_ids": row, "attention_mask": np.ones_like(row)}
    padded = np.concatenate([document, np.full_like(document, 1)], axis=1)
    alone = {
        "positions": np.array([[3]]),
        "labels": document[:, 3:4],
        "input_ids": padded,
        "attention_mask": (padded != 1).astype(np.int32),
    }
    within = in_jax.open_model(root / "random", settings, begins_document=0).answers
    across = in_jax.open_model(root / "random", settings).answers
    expected = across(alone)["log_probability"]
    np.testing.assert_allclose(within(batch)["log_probability"], expected, atol=1e-5)
    assert abs(across(batch)["log_probability"] - expected).max() > 1e-3
