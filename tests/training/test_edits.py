"""A state belongs to the values that its bits follow from, and to no others."""

import json
from pathlib import Path

import pytest
from small_run import LENGTH, small_run

from mlm.training import state_basis
from mlm.training.devices import Devices


def basis(root: Path, overrides: dict | None = None, replicas: int = 1) -> dict:
    devices = Devices("tensorflow", None, "cpu", "float32", replicas, {})
    return state_basis.state_basis(*small_run(root, overrides, replicas), devices)


def test_a_state_belongs_to_every_value_that_its_bits_follow_from(root, monkeypatch):
    sections = [
        *({"steps": 41}, {"seed": 7}, {"per_replica_batch_size": 4}, {"shuffle_window": 50}),
        *({"masking": {name: value}} for name, value in (("slots", 3), ("whole_word", True))),
        *({"log_every": 10}, {"masking": {"random_token": 0.0}}, {"validation": {"samples": 40}}),
        *(
            {"optimizer": {"learning_rate": 0.01}},
            {"optimizer": {"gradient_accumulation_steps": 2}},
        ),
    ]
    found = [basis(root), basis(root, replicas=2)]
    found += [basis(root, {"pretraining": section}) for section in sections]
    monkeypatch.setattr(state_basis, "package_versions", lambda names: dict.fromkeys(names))
    found.append(basis(root))
    assert len({json.dumps(one, sort_keys=True) for one in found}) == len(sections) + 3


@pytest.mark.parametrize(
    "section",
    [
        {"checkpoint": {"every": 3, "keep": 1}},
        {"steps": None, "tokens": 40 * 8 * LENGTH},
        {"seed": 0},
    ],
    ids=str,
)
def test_a_state_does_not_belong_to_what_comes_to_the_same(root, section):
    assert basis(root, {"pretraining": section}) == basis(root)
