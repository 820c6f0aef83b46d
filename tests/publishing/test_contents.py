"""What goes into each repository: the files, their cards, and no text of the corpus."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
import yaml
from small_run import write_tokenizer

from mlm.config.publish import Publish
from mlm.foundations.artefacts import MadeFrom
from mlm.foundations.atomic import read_json, write_json
from mlm.foundations.job import record_job
from mlm.publishing.uploads import publish_model, publish_tokenizer
from mlm.training.artefacts import Training, WarmStartFigures
from tests.conftest import refusal
from tests.publishing.conftest import TOKEN
from tests.unit import report_artefacts as made

SECRET_TEXT = "Fellow citizens of the test split"
SOURCE = "text of ours"
MODEL = (
    *("model.safetensors", "config.json", "tokenizer.json", "tokenizer_config.json"),
    "special_tokens_map.json",
)


def section(**given) -> Publish:
    return Publish(**{"private": True, "license": "cc-by-4.0", "language": "en"} | given)


def header(card: bytes) -> dict:
    return yaml.safe_load(card.decode().split("---\n")[1])


@pytest.fixture
def results(tmp_path):
    """training.json and evaluation.json of a run, and a directory with its model."""
    directory = tmp_path / "model"
    write_tokenizer(directory)
    (directory / "model.safetensors").write_bytes(b"\0weights")
    write_json(directory / "config.json", {"model_type": "roberta"})
    final = {"loss": 2.9, "accuracy": 0.3, "validation_loss": 3.0, "validation_accuracy": 0.25}
    training = made.training("base", model_type="roberta", parameters=1000, steps=10, final=final)
    evaluation = made.evaluation("base", 3.5, verdicts=[{"tone": "plain", "text": "Fine."}])
    evaluation = replace(evaluation, minimal_pairs=made.minimal_pairs(SECRET_TEXT))
    training.write(tmp_path / "training.json")
    evaluation.write(tmp_path / "evaluation.json")
    made_files = [path for path in directory.rglob("*") if path.is_file()]
    record_job("pretrain", {}, {}, map(str, [tmp_path / "training.json", *made_files]))
    return {name: str(tmp_path / f"{name}.json") for name in ("training", "evaluation")}


def published_model(results, tmp_path, **given) -> dict:
    record = tmp_path / "record.json"
    prompt = "We must [MASK] on."
    asked = section(model="me/model", **given)
    paths = (results["training"], results["evaluation"])
    publish_model(asked, SOURCE, tmp_path / "model", *paths, prompt).write(record)
    return read_json(record)


def test_a_model_goes_with_card_tokenizer_figures_and_a_record(hub, results, tmp_path):
    record = published_model(results, tmp_path)
    found = hub.files("me/model")
    assert set(hub.digests("me/model")) == {
        *(*MODEL, "training.json", "evaluation.json", "README.md")
    }
    told = header(found["README.md"])
    assert (told["license"], told["language"]) == ("cc-by-4.0", "en")
    tested = told["model-index"][0]["results"][1]["metrics"][0]
    assert (tested["type"], tested["value"]) == ("loss", 3.5)
    text = found["README.md"].decode()
    assert 'model="me/model"' in text and "text of ours" in text and "We must [MASK] on." in text
    assert record["commit"] == hub.repos["me/model"].commits[-1]
    told = {"repository": "me/model", "private": True}
    assert record["destination"] == told
    weights = next(f for f in record["files"] if f["path"] == "model.safetensors")
    assert weights["num_bytes"] == 8 and len(weights["sha256"]) == 64
    text = json.dumps(record)
    assert not [s for s in ("127.0.0.1", "http", TOKEN) if s in text]


def test_an_adapted_model_goes_with_the_licence_of_its_base_or_not_at_all(hub, results, tmp_path):
    made_of = Training.read(results["training"])
    start = WarmStartFigures("me/base@" + "0" * 40, "ab" * 32, None, [], [], 3)
    replace(made_of, warm_start=start).write(results["training"])
    message = refusal(published_model, results, tmp_path, license="other")
    assert "publish.license" in message and start.checkpoint in message
    assert published_model(results, tmp_path)["commit"]
    replace(made_of, warm_start=replace(start, licence="mit")).write(results["training"])
    published_model(results, tmp_path, license="other")
    card = hub.files("me/model")["README.md"]
    assert header(card)["license"] == "mit" and header(card)["base_model"] == "me/base"


def test_no_text_of_the_corpus_goes_with_a_model(hub, results, tmp_path):
    published_model(results, tmp_path)
    found = hub.files("me/model")
    assert json.loads(found["evaluation.json"])["verdicts"] == [{"tone": "plain", "text": "Fine."}]
    assert not [name for name, content in found.items() if SECRET_TEXT.encode() in content]


def recorded_tokenizer(tmp_path) -> Path:
    """tokenizer_stats.json with the digests of the tokenizer's files, as its job records them."""
    stats = tmp_path / "tokenizer_stats.json"
    if not stats.exists():
        write_tokenizer(tmp_path / "tokenizer")
        made.tokenizer_stats(vocabulary_size=500).write(stats)
        files = (tmp_path / "tokenizer").iterdir()
        record_job("tokenizer", {}, {}, map(str, [stats, *files]))
    return stats


def publish_own_tokenizer(tmp_path) -> None:
    stats, directory = recorded_tokenizer(tmp_path), tmp_path / "tokenizer"
    publish_tokenizer(section(tokenizer="me/tokenizer"), SOURCE, directory, stats)


def flip_last_byte(path: Path) -> None:
    content = path.read_bytes()
    path.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))


@pytest.mark.parametrize("name", ["model.safetensors", "config.json"])
def test_a_damaged_model_is_not_published(hub, results, tmp_path, name):
    """One flipped byte beside a card and a training.json with the good digest."""
    flip_last_byte(path := tmp_path / "model" / name)
    message = refusal(published_model, results, tmp_path)
    assert str(path) in message and str(tmp_path / "training.json") in message
    assert hub.requests == [] and not (tmp_path / "record.json").exists()


def test_a_model_without_a_record_is_not_published(hub, results, tmp_path):
    training = Training.read(results["training"])
    replace(training, made_from=MadeFrom()).write(results["training"])
    assert "model.safetensors" in refusal(published_model, results, tmp_path)
    assert hub.requests == []


def test_a_damaged_tokenizer_is_not_published(hub, tmp_path):
    recorded_tokenizer(tmp_path)
    flip_last_byte(path := tmp_path / "tokenizer/tokenizer_config.json")
    assert str(path) in refusal(publish_own_tokenizer, tmp_path)
    assert hub.requests == []


def test_a_tokenizer_goes_with_a_card(hub, tmp_path):
    publish_own_tokenizer(tmp_path)
    found = hub.files("me/tokenizer")
    names = {"tokenizer.json", "tokenizer_config.json", "special_tokens_map.json", "README.md"}
    assert set(found) == names
    card = found["README.md"].decode()
    assert "500 ids" in card and SOURCE in card and "| mask_token | `[MASK]` |" in card
