import pytest

from mlm.training.devices import cpu_multiplies_bfloat16, local_gpu, local_tpu


def machine(root, pci=(), nodes=()):
    for number, (vendor, device) in enumerate(pci):
        place = root / "sys" / "bus" / "pci" / "devices" / f"0000:00:{number:02x}.0"
        place.mkdir(parents=True)
        (place / "vendor").write_text(vendor + "\n")
        (place / "device").write_text(device + "\n")
    for node in nodes:
        (root / "dev" / node).parent.mkdir(parents=True, exist_ok=True)
        (root / "dev" / node).touch()
    return root


@pytest.mark.parametrize(
    "pci, nodes, tpu, gpu",
    [
        ([("0x8086", "0x1237"), ("0x1ae0", "0x0063")], ["vfio/0", "vfio/vfio"], True, None),
        ([("0x1ae0", "0x006f")], [], True, None),
        ([("0x10de", "0x2330")], ["accel/accel0", "nvidia0"], False, "/dev/nvidia0"),
        # Every machine of Google's cloud has its network card and disk, and may have /dev/vfio.
        ([("0x1ae0", "0x0042"), ("0x1ae0", "0x001f")], ["vfio/vfio"], False, None),
        ([], [], False, None),
    ],
)
def test_a_tpu_is_known_by_its_chip_and_a_gpu_by_its_node(tmp_path, pci, nodes, tpu, gpu):
    root = machine(tmp_path, pci, nodes)
    assert bool(local_tpu(root, {})) == tpu
    assert local_gpu(root, {}) == gpu


def test_variables_name_a_tpu_and_hide_a_gpu(tmp_path):
    root = machine(tmp_path, nodes=["nvidia0"])
    assert "TPU_NAME" in local_tpu(root, {"TPU_NAME": "0"})
    assert local_tpu(root, {"TPU_NAME": ""}) is None
    for visible, gpu in (("", None), ("-1", None), ("0", "/dev/nvidia0")):
        assert local_gpu(root, {"CUDA_VISIBLE_DEVICES": visible}) == gpu


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        (["flags\t\t: fpu avx512f avx512_bf16 sse"] * 2, True),
        (["Features\t: fp asimd bf16 i8mm"], True),
        (["flags\t\t: fpu avx512_bf16", "flags\t\t: fpu avx512f"], False),
    ],
)
def test_the_kernel_tells_whether_the_processor_multiplies_bfloat16(tmp_path, lines, expected):
    (tmp_path / "proc").mkdir()
    (tmp_path / "proc" / "cpuinfo").write_text("\n".join(["processor\t: 0", *lines, "bugs\t: "]))
    assert cpu_multiplies_bfloat16(tmp_path) is expected
    assert not cpu_multiplies_bfloat16(tmp_path / "no-such-machine")
