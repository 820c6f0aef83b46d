"""Names of targets, the table of chips, and the arithmetic of the estimate."""

import pytest

from mlm.accelerators.roofline import estimate
from mlm.config.chips import (
    CHIPS,
    TOPOLOGIES,
    hosts_of,
    number_of_chips,
    replicas_of,
    target_problem,
)


def test_every_chip_has_topologies():
    assert set(CHIPS) == set(TOPOLOGIES)


@pytest.mark.parametrize("generation", TOPOLOGIES)
def test_every_usual_topology_is_accepted(generation):
    for grid in TOPOLOGIES[generation]:
        assert target_problem(f"{generation}:{grid}") is None


@pytest.mark.parametrize(
    ("misspelt", "nearest"),
    [
        ("V5E:2X2", "v5e:2x2"),
        ("v4:1000x1000x1000", "v4:8x8x8"),
        ("v4:2x2", "v4:2x2x1"),
        ("v5e:1x1", "v5e:2x2"),
        ("v5e:3x3", "v5e:2x4"),
        ("v5litepod-16", "v5e:4x4"),
        ("v3-8", "v3:2x2"),
        ("v6:2x2", "v6e:2x2"),
        ("", "v"),
    ],
)
def test_a_misspelt_target_is_told_with_the_nearest_and_what_is_accepted(misspelt, nearest):
    problem = target_problem(misspelt)
    assert f"{misspelt!r} is not a TPU topology; nearest: {nearest}" in problem
    assert "v4 up to 16x16x16" in problem


def test_a_target_counts_its_chips_replicas_and_machines():
    assert number_of_chips("v4:2x2x4") == 16
    assert [replicas_of(t) for t in ("v3:2x2", "v4:2x2x1", "v5e:2x4")] == [8, 4, 8]
    # libtpu describes a machine of eight chips as two.
    assert [hosts_of(t, 2) for t in ("v5e:2x4", "v6e:2x4", "v4:2x2x2")] == [1, 1, 2]
    assert hosts_of("v5e:4x4", 4) == 4


def test_the_estimate_gives_a_replica_its_share_of_the_chip():
    counted = {"flops": 61.5e12, "bytes_accessed": 900e9, "collectives": []}
    found = estimate(CHIPS["v3"], **counted, replicas=8, chips=4, steps=10)
    # Two replicas on a chip have half its peak each: 1 s at the peak.
    assert found.step_seconds == (1.667, 5.0)
    assert found.run_seconds == (16.67, 50.0)
    assert found.bandwidth_seconds == 2.0
    assert found.collective_seconds == 0.0
