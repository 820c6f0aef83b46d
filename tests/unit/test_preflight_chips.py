import pytest

from mlm.config.chips import GPUS, existing_target, hosts_of, number_of_chips
from mlm.preflight.artefacts import Target
from mlm.preflight.compiler import COMPILED
from mlm.preflight.costs import add_times


def test_grids_of_tpus_and_gpus_of_one_machine_are_accepted():
    names = [name for gpu in GPUS for name in (gpu, f"{gpu}:8")]
    names += ["v4:2x2x1", "v4:4x4x8", "v5e:2x4", "v5p:16x16x24", "v6e:16x16"]
    assert list(map(existing_target, names)) == names


def test_a_misspelt_target_is_told_with_the_nearest():
    for misspelt, nearest in (("v4:2x2", "v4:2x2x1"), ("h100:16", "h100"), ("t4:2x2", "")):
        with pytest.raises(ValueError, match=f"nearest: {nearest}"):
            existing_target(misspelt)


def test_a_target_counts_its_chips_and_machines():
    targets = ("v4:2x2x4", "v5e:2x4", "h100", "h100:8")
    assert [number_of_chips(t) for t in targets] == [16, 8, 1, 8]
    hosts = {"v4:2x2x1": 1, "v5e:2x4": 1, "v4:2x2x2": 2, "v5e:4x4": 4, "v4:4x4x4": 16, "h100:8": 1}
    assert {target: hosts_of(target) for target in hosts} == hosts


def estimate(name, flops, steps, precision, bytes_accessed):
    shape = number_of_chips(name), 1, 0, 0
    target = Target(name, COMPILED, "", precision, *shape, flops_per_step=flops)
    target.bytes_accessed = bytes_accessed
    add_times(target, steps)
    return target.estimate


def test_the_estimate_gives_a_replica_its_share_of_the_chip():
    counted = {"bytes_accessed": 2 * 819e9, "precision": "float32"}
    found = estimate("v5e:2x2", 0.27 * 197e12, 10, **counted)
    assert (found.step_seconds, found.run_seconds, found.bound) == (2.0, 20.0, "memory")
    found = estimate("v5e:2x2", 4 * 0.27 * 197e12, 10, **counted)
    assert (found.step_seconds, found.run_seconds, found.bound) == (4.0, 40.0, "arithmetic")

    # A GPU's peak is that of its precision.
    for precision, peak in (("bfloat16", 989.4e12), ("float32", 66.9e12)):
        counted = {"bytes_accessed": 0.0, "precision": precision}
        assert estimate("h100:2", 0.27 * peak, 3600, **counted).run_seconds == 3600.0
