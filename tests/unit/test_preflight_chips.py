import pytest

from mlm.config.chips import GPUS, existing_target, hosts_of, number_of_chips
from mlm.preflight.artefacts import Target
from mlm.preflight.compiler import COMPILED
from mlm.preflight.judging import _add_time


def test_grids_of_tpus_and_gpus_of_one_machine_are_accepted():
    names = [name for gpu in GPUS for name in (gpu, f"{gpu}:8")]
    names += ["v4:2x2x1", "v4:4x4x8", "v5e:2x4", "v5p:16x16x24", "v6e:16x16"]
    assert list(map(existing_target, names)) == names


@pytest.mark.parametrize("target", ["v4:2x2", "v5e:1x2", "h100:16", "t4:2x2", "h10", "v5e"])
def test_a_target_that_there_is_not_is_refused(target):
    with pytest.raises(ValueError, match="v5e up to 16x16"):
        existing_target(target)


def test_a_target_counts_its_chips_and_machines():
    targets = ("v4:2x2x4", "v5e:2x4", "h100", "h100:8")
    assert [number_of_chips(t) for t in targets] == [16, 8, 1, 8]
    hosts = {"v4:2x2x1": 1, "v5e:2x4": 1, "v4:2x2x2": 2, "v5e:4x4": 4, "v4:4x4x4": 16, "h100:8": 1}
    assert {target: hosts_of(target) for target in hosts} == hosts


def test_the_estimate_gives_a_replica_its_share_of_the_peak_of_its_precision():
    for precision, peak in (("bfloat16", 989.4e12), ("float32", 66.9e12)):
        shape = 2, 1, 0, 0
        target = Target("h100:2", COMPILED, "", precision, *shape)
        _add_time(target, flops=3600 * 0.27 * peak)
        assert target.run_seconds == 3600.0
