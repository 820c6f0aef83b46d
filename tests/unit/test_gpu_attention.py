"""cuDNN's attention as far as it shows without a GPU: when it is taken, and what it is asked."""

from dataclasses import replace
from types import SimpleNamespace

import jax
import numpy as np
import pytest
from tiny_encoder import LENGTH, VOCABULARY, hidden, tiny_config, tiny_encoder

from mlm.config.accelerator import Accelerator
from mlm.model import jax_ops
from mlm.model.architecture import Architecture
from mlm.model.network import document_numbers
from mlm.training.attention_kernel import reason_for_xla, with_attention
from mlm.training.devices import Devices
from mlm.training.processes import Peers

FAST = {"precision": "bfloat16", "deterministic": False}


def architecture_of(**config) -> Architecture:
    return Architecture.of(tiny_config("roberta") | {"attention_probs_dropout_prob": 0.0} | config)


def mesh_of(kind="NVIDIA A100-SXM4-40GB", capability="8.0"):
    card = SimpleNamespace(device_kind=kind, compute_capability=capability)
    return SimpleNamespace(devices=np.array([card]))


@pytest.mark.parametrize(
    ("settings", "kind", "config", "length", "taken"),
    [
        (FAST, "gpu", {}, 64, "cudnn"),
        # Nobody has seen that it gives the same bits twice.
        (FAST | {"deterministic": True}, "gpu", {}, 64, "xla"),
        (FAST | {"precision": "auto"}, "gpu", {}, 64, "xla"),
        (FAST, "cpu", {}, 64, "xla"),
        (FAST, "gpu", {"attention_probs_dropout_prob": 0.1}, 64, "xla"),
        (FAST, "gpu", {}, 63, "xla"),
    ],
)
def test_cudnn_computes_attention_where_it_can_and_may(settings, kind, config, length, taken):
    reason = reason_for_xla(Accelerator(**settings), kind, architecture_of(**config), length)
    assert ("xla" if reason else "cudnn") == taken


def test_what_computes_attention_is_part_of_a_saved_state():
    devices = Devices("jax", mesh_of(), "gpu", "bfloat16", 1, {"deterministic": False}, Peers())
    model = architecture_of(), 64
    fast = with_attention(devices, Accelerator(**FAST), *model)
    assert fast == replace(devices, arithmetic={"deterministic": False, "attention": "cudnn"})
    assert with_attention(devices, Accelerator(precision="bfloat16"), *model) == devices
    older = replace(devices, strategy=mesh_of("Tesla T4", "7.5"))
    assert with_attention(older, Accelerator(**FAST), *model) == older


@pytest.mark.parametrize(
    ("family", "documents", "positions"),
    [("roberta", False, None), ("modernbert", True, np.array([[1, 5], [2, 3]]))],
)
def test_cudnn_is_asked_for_the_attention_that_xla_computes(
    monkeypatch, family, documents, positions
):
    """By an implementation of the same function that a CPU has."""
    asked = []

    def on_a_cpu(*given, implementation, **how):
        asked.append(implementation)
        return attention(*given, implementation="xla", **how)

    attention = jax.nn.dot_product_attention
    monkeypatch.setattr(jax.nn, "dot_product_attention", on_a_cpu)
    architecture, weights = tiny_encoder(family)
    ids = np.random.default_rng(0).integers(5, VOCABULARY, (2, LENGTH))
    ids[:, 0] = ids[0, LENGTH // 2] = 0
    seen = np.ones_like(ids)
    ids[1, -3:], seen[1, -3:] = 1, 0
    documents = document_numbers(jax_ops, ids, 0) if documents else None
    given = {"documents": documents, "positions": positions}
    found, wanted = (
        hidden(weights, architecture, ids, seen, how={"attention": attention}, **given)
        for attention in ("cudnn", "xla")
    )
    assert set(asked) == {"cudnn"}
    real = slice(None) if positions is not None else seen == 1
    np.testing.assert_allclose(found[real], wanted[real], atol=2e-5)
