import pytest

from mlm.accelerators.artefacts import Collective, Target
from mlm.accelerators.compiler import COMPILED
from mlm.accelerators.hlo_collectives import collectives_of
from mlm.accelerators.roofline import add_times, bytes_sent
from mlm.config.chips import GPUS, TPUS
from mlm.config.targets import (
    TOPOLOGIES,
    hosts_of,
    number_of_chips,
    replicas_of,
    target_problem,
)


@pytest.mark.parametrize("generation", {**TPUS, **TOPOLOGIES})
def test_every_usual_topology_is_accepted(generation):
    assert generation in TPUS
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
        ("RTX 4090", "rtx4090"),
        ("4090", "rtx4090"),
        ("a100", "a100-40gb, a100-80gb"),
        ("NVIDIA H100", "h100"),
        ("h100:16", "h100"),
        ("h100:0", "h100"),
        ("t4:2x2", "t4"),
        ("L40", "l40s"),
        ("h10O", "h1"),
    ],
)
def test_a_misspelt_target_is_told_with_the_nearest_and_what_is_accepted(misspelt, nearest):
    problem = target_problem(misspelt)
    assert f"{misspelt!r} is neither a GPU nor a TPU topology; nearest: {nearest}" in problem
    assert "v4 up to 16x16x16" in problem


@pytest.mark.parametrize("name", GPUS)
def test_a_gpu_is_one_chip_and_up_to_eight_share_a_machine(name):
    assert [target_problem(t) for t in (name, f"{name}:8")] == [None, None]
    assert [replicas_of(t) for t in (name, f"{name}:8")] == [1, 8]
    assert hosts_of(f"{name}:8", 1) == 1


def test_a_target_counts_its_chips_replicas_and_machines():
    assert number_of_chips("v4:2x2x4") == 16
    assert [replicas_of(t) for t in ("v3:2x2", "v4:2x2x1", "v5e:2x4")] == [8, 4, 8]
    # libtpu describes a machine of eight chips as two.
    assert [hosts_of(t, 2) for t in ("v5e:2x4", "v6e:2x4", "v4:2x2x2")] == [1, 1, 2]
    assert hosts_of("v5e:4x4", 4) == 4


def estimate(name, flops, steps, **figures):
    target = Target(name, COMPILED, flops_per_step=flops, **figures)
    add_times(target, steps)
    return target.estimate


def test_the_estimate_gives_a_replica_its_share_of_the_chip():
    counted = {"bytes_accessed": 900e9, "precision": "float32"}
    found = estimate("v3:2x2", 61.5e12, 10, **counted, replicas=8, chips=4)
    # Two replicas on a chip have half its peak each: 1 s at the peak.
    assert found.step_seconds == (1.667, 5.0)
    assert found.run_seconds == (16.67, 50.0)
    assert found.bandwidth_seconds == 2.0
    assert found.collective_seconds == 0.0


@pytest.mark.parametrize(("precision", "peak"), [("bfloat16", 989.4e12), ("float32", 66.9e12)])
def test_the_estimate_for_a_gpu_is_by_the_peak_of_its_precision(precision, peak):
    counted = {"bytes_accessed": 0.0, "precision": precision}
    found = estimate("h100:2", 0.6 * peak, 3600, **counted, replicas=2, chips=2)
    assert (found.step_seconds, found.run_seconds) == ((1.0, 3.0), (3600.0, 10800.0))


#: Lines as XLA's compilers for TPUs, GPUs and CPUs write them.
HLO = """
  %a.1 = f32[]{:T(128)} all-reduce(%x), channel_id=1, replica_groups={{0,1,2,3}}, to_apply=%add
  ROOT %a.2 = (f32[500]{0:T(512)}, bf16[3,32]{1,0:T(8,128)}, /*index=2*/pred[8]{0}) all-reduce(%y, \
%z), replica_groups=[1,4]<=[4], to_apply=%add
  %get-tuple-element.600 = f32[] get-tuple-element(%all-reduce.33), index=30
  %s = (f32[8]{0}, f32[32]{0}) all-gather-start(%w), replica_groups={{0,1,2,3}}, dimensions={0}
  %d = f32[32]{0} all-gather-done(%s)
  %r = f32[8,16]{1,0} reduce-scatter(%g), replica_groups=[2,2]<=[4], dimensions={0}
  %all = f32[4]{0} all-reduce(%v), replica_groups={}, to_apply=%add
""".replace("\\\n", "")


def test_collectives_are_counted_with_the_bytes_of_whole_arrays():
    assert collectives_of(HLO, replicas=4) == [
        Collective("all-reduce", 4, count=3, bytes=4 + (2000 + 192 + 8) + 16),
        Collective("all-gather", 4, count=1, bytes=128),
        Collective("reduce-scatter", 2, count=1, bytes=2 * 8 * 16 * 4),
    ]


@pytest.mark.parametrize(
    ("kind", "replicas", "per_chip", "sent"),
    [
        ("all-reduce", 4, 1, 150),
        ("all-gather", 4, 1, 75),
        ("reduce-scatter", 4, 1, 75),
        ("collective-permute", 4, 1, 100),
        # Two cores of a chip add up first.
        ("all-reduce", 4, 2, 100),
        ("all-reduce", 2, 2, 0),
        ("all-reduce", 1, 1, 0),
    ],
)
def test_a_chip_sends_its_part_of_a_ring(kind, replicas, per_chip, sent):
    assert bytes_sent(Collective(kind, replicas, 1, 100), per_chip) == sent
