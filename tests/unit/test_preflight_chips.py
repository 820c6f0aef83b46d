"""Names of targets, the table of chips, and the arithmetic of the estimate."""

import pytest

from mlm.preflight.roofline import estimate
from mlm.preflight.tpu_chips import CHIPS, TOPOLOGIES, nearest_targets, number_of_chips


@pytest.mark.parametrize(
    ("meant", "first"),
    [
        ("v5e-8", "v5e:2x4"),
        ("v5litepod-16", "v5e:4x4"),
        ("v3-8", "v3:2x2"),
        ("v4-8", "v4:2x2x1"),
        ("v5e:3x3", "v5e:2x4"),
        ("v6:2x2", "v6e:2x2"),
    ],
)
def test_an_unknown_target_gets_the_nearest_names(meant, first):
    assert nearest_targets(meant)[0] == first


def test_every_chip_names_its_source_and_has_topologies():
    for generation, facts in CHIPS.items():
        assert facts.source.startswith("https://cloud.google.com/tpu/docs/")
        assert generation in TOPOLOGIES


def test_a_grid_counts_its_chips():
    assert number_of_chips("v4:2x2x4") == 16


def test_the_estimate_gives_a_replica_its_share_of_the_chip():
    found = estimate(
        CHIPS["v3"],
        flops=123e12,
        bytes_accessed=900e9,
        replicas=8,
        chips=4,
        steps=10,
        utilisation=(0.25, 0.5),
    )
    # Two replicas on a chip have half its peak each: 2 s at the peak.
    assert found.step_seconds == (4.0, 8.0)
    assert found.run_seconds == (40.0, 80.0)
    assert found.bandwidth_seconds == 2.0
