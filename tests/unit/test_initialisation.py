import numpy as np
import pytest

from mlm.model.initialisation import OFFSETS, neighbour_heads, positions_apart_from_words
from mlm.training.in_tensorflow.model import KerasWeights

LENGTH = 64
IDS = np.random.default_rng(3).integers(5, 300, (4, LENGTH)).astype(np.int32)
FAMILIES = ("roberta", "roberta-prelayernorm", "xlm-roberta", "bert", "distilbert", "electra")


def small_config(family: str, **fields):
    from transformers import AutoConfig

    sizes = {"vocab_size": 300, "hidden_size": 128, "intermediate_size": 96, "pad_token_id": 1}
    sizes |= {"num_hidden_layers": 2, "num_attention_heads": 4, "output_attentions": True}
    sizes |= {"max_position_embeddings": LENGTH + 2}
    if family == "distilbert":
        sizes |= {"dim": 128, "n_layers": 2, "n_heads": 4, "hidden_dim": 96}
    elif family in ("electra", "albert"):
        sizes |= {"embedding_size": 128}
    return AutoConfig.for_model(family, **(sizes | fields))


def built(family: str, initialisation: str, **fields):
    from mlm.training.in_tensorflow.model import build_model

    return build_model(small_config(family, **fields), initialisation, 0)


def assert_heads_attend_to_their_offsets(attention: np.ndarray) -> None:
    inner = np.arange(2, LENGTH - 2)
    for head, offset in enumerate(OFFSETS):
        share = attention[:, head, inner, inner + offset]
        assert share.mean() > 0.6, (head, offset, share.mean())
        assert np.median(attention[:, head, inner].argmax(-1) == inner + offset) == 1


def weights_of(model) -> dict[str, np.ndarray]:
    """By name, less the model's own, in which Keras counts the models of a process."""
    return {v.name.split("/", 1)[1]: v.numpy() for v in model.weights}


@pytest.mark.parametrize("family", FAMILIES)
def test_every_head_attends_to_its_offset_at_step_zero(family):
    model, inputs = built(family, "neighbour_heads"), {"input_ids": IDS}
    outputs = model(inputs | {"attention_mask": np.ones_like(IDS)}, training=False)
    assert_heads_attend_to_their_offsets(outputs.attentions[0].numpy())


def test_with_rotary_positions_every_head_attends_to_its_offset_at_step_zero(monkeypatch):
    import jax

    from mlm.model import network
    from mlm.model.architecture import Architecture
    from mlm.model.weights import initial_parameters
    from mlm.training.in_jax.engine import NamedWeights

    config = small_config("modernbert", global_rope_theta=100.0, max_position_embeddings=LENGTH)
    architecture, compared = Architecture.of(config.to_dict()), []
    weights = initial_parameters(architecture, jax.random.key(0))
    weights = {name: np.array(value) for name, value in weights.items()}
    neighbour_heads(NamedWeights(weights, architecture), config, seed=0)

    def noted(query, key, value, *_):
        compared.append((query, key))
        return value

    monkeypatch.setattr(network, "_whole_attention", noted)
    network.hidden_states(weights, architecture, IDS, np.ones_like(IDS))
    query, key = compared[0]
    scores = np.einsum("btnh,bsnh->bnts", query, key) / np.sqrt(query.shape[-1])
    assert_heads_attend_to_their_offsets(np.asarray(jax.nn.softmax(scores)))


@pytest.mark.parametrize("family", ["roberta", "bert"])
def test_positions_apart_from_words_leave_attention_alone(family):
    plain, changed = built(family, "standard"), built(family, "standard")
    assert positions_apart_from_words(KerasWeights(changed), changed.config, seed=0) == 96
    plain, changed = weights_of(plain), weights_of(changed)
    moved = {name for name in plain if not np.array_equal(plain[name], changed[name])}
    assert len(moved) == 2 and all("embeddings" in name for name in moved)
    words = changed[next(name for name in moved if "word" in name)]
    assert words[5:, :32].std() < 0.05 * words[5:, 32:].std()
    albert = built("albert", "standard")  # which has no table of positions
    assert positions_apart_from_words(KerasWeights(albert), albert.config, seed=0) is None
