"""A published encoder is read from safetensors alone, under the names that this project uses."""

import json
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import save_file
from tiny_encoder import tiny_config

from mlm.config.families import FAMILIES
from mlm.foundations.errors import MlmError
from mlm.model.architecture import Architecture, parameter_shapes
from mlm.model.initialisation import WarmStart
from mlm.model.model_files import Checkpoint, checkpoint_files, fitting

COMMIT = "0123456789abcdef0123456789abcdef01234567"


@pytest.fixture
def published(tmp_path):
    """A directory with a tiny BERT, and its weights."""
    fields = tiny_config("bert")
    random = np.random.default_rng(0)
    shapes = parameter_shapes(Architecture.of(fields))
    weights = {n: random.normal(size=s).astype(np.float32) for n, s in shapes.items()}
    (tmp_path / "config.json").write_text(json.dumps(fields))
    save_file(weights, tmp_path / "model.safetensors")
    (tmp_path / "README.md").write_text("---\nlicense: apache-2.0\n---\n")
    return tmp_path, weights


def same(found, weights):
    return found.keys() == weights.keys() and all((found[n] == weights[n]).all() for n in weights)


def test_old_names_tied_decoders_and_a_bare_encoder_become_those_of_a_masked_language_model(
    published,
):
    place, weights = published
    whole = Checkpoint.read(str(place))
    assert same(whole.weights, weights) and whole.licence == "apache-2.0"
    old = {n.replace("LayerNorm.weight", "LayerNorm.gamma"): w for n, w in weights.items()}
    old = {n.replace("LayerNorm.bias", "LayerNorm.beta"): w for n, w in old.items()}
    old["cls.predictions.decoder.weight"] = weights["bert.embeddings.word_embeddings.weight"]
    old["cls.predictions.decoder.bias"] = old["cls.predictions.bias"]
    old["bert.embeddings.position_ids"] = np.arange(4)
    save_file(old, place / "model.safetensors")
    assert same(Checkpoint.read(str(place)).weights, weights)
    bare = {n.removeprefix("bert."): w for n, w in weights.items() if n.startswith("bert.")}
    save_file(bare, place / "model.safetensors")
    found = Checkpoint.read(str(place))
    assert same(found.weights, {f"bert.{n}": w for n, w in bare.items()})
    assert found.sha256 != whole.sha256


@pytest.mark.parametrize("family", FAMILIES)
def test_an_encoder_alone_and_one_with_its_decoder_are_read_in_every_family(tmp_path, family):
    architecture = Architecture.of(tiny_config(family))
    shapes = parameter_shapes(architecture)
    weights = {name: np.full(s, i, np.float32) for i, (name, s) in enumerate(shapes.items())}
    prefix = FAMILIES[family].encoder_prefix
    bare = {n.removeprefix(prefix): w for n, w in weights.items() if n.startswith(prefix)}
    decoder = architecture.names.decoder_bias.removesuffix("bias") + "weight"
    tied = weights | {decoder: weights[f"{architecture.names.words}.weight"]}
    (tmp_path / "config.json").write_text(json.dumps(tiny_config(family)))
    for stored, expected in ((tied, weights), (bare, {prefix + n: w for n, w in bare.items()})):
        save_file(stored, tmp_path / "model.safetensors")
        assert same(Checkpoint.read(str(tmp_path)).weights, expected)
        begun = WarmStart("some", Checkpoint.read(str(tmp_path))).over(dict(weights), architecture)
        biased = architecture.names.decoder_bias not in begun[1].missing
        assert not begun[1].unexpected and biased == (stored is tied)


def test_numbers_that_are_infinite_in_32_bits_are_refused(published):
    place, weights = published
    name = next(iter(weights))
    save_file(weights | {name: np.full(weights[name].shape, 1e300)}, place / "model.safetensors")
    with pytest.raises(MlmError, match=f"{name} .*not finite"):
        Checkpoint.read(str(place))


def test_weights_of_layers_that_the_configuration_lacks_are_refused(published):
    place, weights = published
    fewer = Architecture.of(tiny_config("bert", num_hidden_layers=1))
    fresh = {n: np.zeros(s, "f") for n, s in parameter_shapes(fewer).items()}
    start = WarmStart("some", Checkpoint.read(str(place)))
    with pytest.raises(MlmError, match=r"bert\.encoder\.layer\.1\."):
        start.over(fresh, fewer)
    with pytest.raises(MlmError, match=r"bert\.encoder\.layer\.1\."):
        fitting(weights, fewer, place)


def test_the_plan_knows_the_files_that_a_checkpoint_is_read_from(published):
    (published[0] / "pytorch_model.bin").touch()
    files = [Path(file).name for file in checkpoint_files(str(published[0]))]
    assert files == ["README.md", "config.json", "model.safetensors"]


def test_bfloat16_is_the_upper_half_of_float32(published):
    value = np.float32([1.0, -2.5, 0.0078125])
    data = (value.view(np.uint32) >> 16).astype(np.uint16).tobytes()
    tensor = {"dtype": "BF16", "shape": [3], "data_offsets": [0, len(data)]}
    header = json.dumps({"cls.predictions.bias": tensor}).encode()
    content = len(header).to_bytes(8, "little") + header + data
    (published[0] / "model.safetensors").write_bytes(content)
    assert same(Checkpoint.read(str(published[0])).weights, {"cls.predictions.bias": value})


@pytest.mark.parametrize(
    ("file", "content", "words"),
    [
        ("model.safetensors", None, "model.safetensors, but pytorch_model.bin"),
        ("model.safetensors", b"\x40\0\0\0\0\0\0\0{", "cannot be read as safetensors"),
        ("config.json", b'{"model_type": "bert", "auto_map": {"AutoModel": "x.X"}}', "auto_map"),
        ("config.json", b'{"model_type": "gpt2"}', "'gpt2' is not a masked language model"),
        ("config.json", None, "no such file"),
    ],
)
def test_what_is_no_checkpoint_is_refused_in_one_message(published, file, content, words):
    place, _ = published
    (place / "pytorch_model.bin").touch()
    (place / file).unlink() if content is None else (place / file).write_bytes(content)
    with pytest.raises(MlmError, match=words):
        Checkpoint.read(str(place))


def test_the_hub_must_have_the_commit(monkeypatch):
    import huggingface_hub

    def gone(*_, **__):
        raise huggingface_hub.errors.LocalEntryNotFoundError("gone")

    monkeypatch.setattr(huggingface_hub, "snapshot_download", gone)
    with pytest.raises(MlmError, match=f"at commit {COMMIT}"):
        Checkpoint.read(f"owner/name@{COMMIT}")
