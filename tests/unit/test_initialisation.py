import numpy as np
import pytest

from mlm.config.families import FAMILIES
from mlm.config.model import unfit_neighbour_heads
from mlm.model.architecture import Architecture
from mlm.model.initialisation import (
    OFFSETS,
    initial_parameters,
    neighbour_heads,
    positions_apart_from_words,
)
from mlm.model.network import Network, ops_of

LENGTH = 64
IDS = np.random.default_rng(3).integers(5, 300, (4, LENGTH)).astype(np.int32)


def begun(family: str) -> tuple[dict, Architecture]:
    """Fresh weights of a small model."""
    config = {"vocab_size": 300, "hidden_size": 128, "intermediate_size": 96, "pad_token_id": 1}
    config |= {"num_hidden_layers": 2, "num_attention_heads": 4, "model_type": family}
    config |= {"max_position_embeddings": LENGTH + 2} | FAMILIES[family].required
    fields = {"embedding_size": 128} if family == "electra" else {}
    architecture = Architecture.of(config | fields)
    return initial_parameters(architecture, 0), architecture


@pytest.mark.parametrize(
    "family", [f for f in FAMILIES if f not in ("albert", "modernbert", "esm")]
)
def test_every_head_attends_to_its_offset_at_step_zero(monkeypatch, family):
    weights, architecture = begun(family)
    assert not unfit_neighbour_heads(family, vars(architecture))
    neighbour_heads(weights, architecture, seed=0)
    compared = []

    def noted(self, query, key, value, *_):
        compared.append((query, key))
        return value

    monkeypatch.setattr(Network, "_whole_attention", noted)
    network = Network(architecture, ops_of("jax"))
    network.hidden_states(weights, IDS, np.ones_like(IDS))
    query, key = compared[0]
    scores = np.einsum("btnh,bsnh->bnts", query, key) / np.sqrt(query.shape[-1])
    attention = np.exp(scores - scores.max(-1, keepdims=True))
    attention /= attention.sum(-1, keepdims=True)
    inner = np.arange(2, LENGTH - 2)
    for head, offset in enumerate(OFFSETS):
        share = attention[:, head, inner, inner + offset]
        assert share.mean() > 0.6, (head, offset, share.mean())
        assert np.median(attention[:, head, inner].argmax(-1) == inner + offset) == 1


@pytest.mark.parametrize("family", ["roberta", "bert"])
def test_positions_apart_from_words_leave_attention_alone(family):
    (plain, _), (changed, architecture) = begun(family), begun(family)
    assert positions_apart_from_words(changed, architecture, seed=0) == 96
    moved = {name for name in plain if not np.array_equal(plain[name], changed[name])}
    assert len(moved) == 2 and all("embeddings" in name for name in moved)
    words = changed[next(name for name in moved if "word" in name)]
    assert words[5:, :32].std() < 0.05 * words[5:, 32:].std()
    for other in ("albert", "esm"):
        (plain, _), (changed, architecture) = begun(other), begun(other)
        assert positions_apart_from_words(changed, architecture, seed=0) is None
        assert all(np.array_equal(plain[name], changed[name]) for name in plain)
