"""Random data that device and host make alike, and the search for what the memory can do."""

import shutil
from pathlib import Path

import numpy as np
import pytest

from touchgate.benchmarks import fills, traffic
from touchgate.checks import numerics
from touchgate.devices import emulated, nvcc
from touchgate.devices.stopwatch import Conditions


@pytest.fixture(scope="module")
def device(tmp_path_factory):
    return emulated.open_device(tmp_path_factory.mktemp("build"))


@pytest.mark.parametrize("dtype", fills.PATTERNS)
def test_the_device_makes_what_the_host_makes(device, dtype):
    """More elements than the grid has threads, in an array that is not aligned to 16 bytes, and nothing beside them."""
    module, size, count = device.module(fills.SOURCE), numerics.FORMATS[dtype].size, 3000
    buffer = device.buffer((count + 8) * size)
    fills.flood(module, buffer.pointer, count + 8, size, 0x1234)
    fills.fill(module, buffer.pointer.offset(4 * size), count, dtype, 77)
    found = buffer.read().view(f"u{size}")
    assert found[4:-4].tolist() == fills.bits(np.arange(count), dtype, 77).tolist()
    assert set(found[:4]) | set(found[-4:]) == {0x1234}


def test_a_stride_beyond_the_grid(device, monkeypatch):
    monkeypatch.setattr(fills, "BLOCKS", 2)
    buffer = device.buffer(4 * 2000)
    fills.fill(device.module(fills.SOURCE), buffer.pointer, 2000, "int32", 1)
    assert buffer.read().view(np.uint32).tolist() == fills.bits(np.arange(2000), "int32", 1).tolist()


def test_nothing_to_fill(device):
    fills.fill(device.module(fills.SOURCE), device.buffer(4).pointer, 0, "int32", 1)


@pytest.mark.parametrize("dtype", fills.PATTERNS)
def test_no_element_is_zero_and_all_are_ordinary(dtype):
    values = numerics.load(fills.bits(np.arange(100_000), dtype, 5).view(numerics.FORMATS[dtype].storage), dtype)
    assert (values != 0).all()
    assert 0.45 < (values < 0).mean() < 0.55
    if dtype != "int32":
        assert ((np.abs(values) >= 0.5) & (np.abs(values) < 1)).all()
    distinct = len(np.unique(values))
    assert distinct == {"float32": distinct, "int32": distinct, "float16": 2048, "bfloat16": 256}[dtype]
    assert distinct > 200


def test_arrays_differ_and_large_indices_count():
    first = fills.bits(np.arange(1000), "int32", fills.seed_of("a"))
    assert (first != fills.bits(np.arange(1000), "int32", fills.seed_of("b"))).mean() > 0.99
    assert (first != fills.bits(np.arange(1000) + (1 << 32), "int32", fills.seed_of("a"))).mean() > 0.99


@pytest.mark.parametrize(
    ("read", "written", "name"),
    [
        (100, 0, "read"),
        (100, 1, "read"),
        (2, 1, "stream"),
        (1, 1, "copy"),
        (1, 9, "copy"),
        (100, 90, "copy"),
        (5, 1, "stream"),
    ],
)
def test_the_mix_nearest_to_a_ratio(read, written, name):
    assert traffic.mix_of(read, written).name == name


class Kernel:
    def __init__(self, name):
        self.name = name
        self.launches = []

    def launch(self, *how):
        self.launches.append(how)


class Module:
    def __init__(self, names):
        self.names = names

    def kernel(self, name):
        self.names.append(name)
        return Kernel(name)


class Address:
    def __init__(self, at):
        self.at = at

    def offset(self, size):
        return Address(self.at + size)


class Buffer:
    def __init__(self, size):
        self.size, self.pointer, self.freed = size, Address(0), False

    def free(self):
        self.freed = True


class Device:
    def __init__(self):
        self.buffers, self.names = [], []

    def module(self, source):
        assert source.is_file()
        return Module(self.names)

    def buffer(self, size):
        self.buffers.append(Buffer(size))
        return self.buffers[-1]


class Watch:
    """A work takes 10 us, the best shape 5; that one's second look is worse."""

    l2 = 60 << 20
    bandwidth = None

    def __init__(self):
        self.looks = []

    def prepared(self, steps):
        ((kernel, grid, block, arguments, shared),) = steps
        assert shared == 0
        return kernel.name, grid[0], block[0], arguments

    def timed(self, work, repetitions):
        best = work[0] == "stream_4_streaming" and work[2] == 512
        self.looks.append((work[0], repetitions))
        return [6e-6 if best and repetitions > traffic.FIRST_LOOK else 5e-6 if best else 1e-5] * repetitions

    def conditions(self):
        return Conditions()

    def strangers(self):
        return ()


def test_the_best_of_all_shapes_is_timed_anew_and_once():
    device, watch = Device(), Watch()
    memory = traffic.Memory(device, watch)
    assert device.buffers[1].size >= 4 * watch.l2
    found = memory.ceiling(2 << 20, 1 << 20)
    assert found == traffic.Ceiling(
        "stream", 3 * ((3 << 20) // 48) * 16, 6e-6, "stream, 4 packs a thread, streaming, 512 threads"
    )
    assert found.rate == found.bytes / 6e-6
    assert len(watch.looks) == 1 + len(traffic.SHAPES) + 3
    assert memory.ceiling(2 << 20, 1 << 20) is found
    assert len(watch.looks) == 1 + len(traffic.SHAPES) + 3
    assert [buffer.freed for buffer in device.buffers] == [False, False, True]
    memory.free()
    assert all(buffer.freed for buffer in device.buffers)


def test_the_parts_lie_behind_each_other_and_every_pack_is_covered():
    device, watch = Device(), Watch()
    seen = []
    watch.timed = lambda work, repetitions: seen.append(work) or [1e-5] * repetitions
    traffic.Memory(device, watch).ceiling(2 * 48_000, 48_000)
    for name, blocks, threads, (a, b, out, count) in seen[1:]:  # the first is the probe's warm-up
        assert (a.at, b.at, out.at, int(count)) == (0, 48_000, 96_000, 3000)
        packs = int(name.split("_")[1])
        assert (blocks - 1) * threads * packs < 3000 <= blocks * threads * packs


def test_a_probe_is_a_copy_looked_at_until_what_our_own_work_did_is_over(monkeypatch):
    watch = Watch()
    memory = traffic.Memory(Device(), watch)
    pauses = []
    monkeypatch.setattr(traffic.time, "sleep", pauses.append)
    looks = iter((3e-5, 2e-5, *[4e-5] * 6, 2.01e-5, 2.2e-5, 2.03e-5, *[2.5e-5] * 8))
    watch.timed = lambda work, repetitions: [next(looks)] * repetitions if work[0] == "copy_4" else []
    # The first takes all its looks; then one is enough that is as good; a slow one is looked at again; and it may stay slow.
    assert [memory.probe() for _ in range(4)] == [2e-5, 2.01e-5, 2.03e-5, 2.5e-5]
    assert pauses == [traffic.PAUSE] * (7 + 1 + 7)


@pytest.mark.skipif(nvcc.find() is None and shutil.which("nvcc") is None, reason="no nvcc")
@pytest.mark.parametrize("source", [traffic.SOURCE, fills.SOURCE], ids=lambda path: path.stem)
def test_it_compiles_without_spills_and_has_every_kernel(tmp_path, source: Path):
    cubin = nvcc.build_cubin(source, "sm_90", tmp_path)
    wanted = {"fill_2", "fill_4"}
    if source == traffic.SOURCE:
        wanted = {f"{mix.name}_{packs}{hint}" for mix in traffic.MIXES for packs, hint, _ in traffic.SHAPES}
    assert set(cubin.resources) == wanted
    assert not any(one.spills for one in cubin.resources.values())
