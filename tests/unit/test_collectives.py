"""Bytes between devices, from the text of a compiled program."""

import pytest

from mlm.accelerators.artefacts import Collective
from mlm.accelerators.roofline import bytes_sent, collectives_of

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
