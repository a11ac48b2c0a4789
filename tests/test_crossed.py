"""Kernels on other instruction sets: the same values as here, the same faults, whatever the byte order and the width."""

import hashlib
import os
import shutil
import stat
import textwrap

import numpy as np
import pytest

from touchgate.devices import BuildFault, LaunchFault, Unavailable, crossed, emulated
from touchgate.devices.targets import TARGETS, tools_of

MACHINES = [name for name, target in TARGETS.items() if not target.is_here]

pytestmark = pytest.mark.skipif(not (shutil.which("g++") or shutil.which("clang++")), reason="no C++ compiler")


@pytest.fixture(scope="session")
def build_dir(tmp_path_factory):
    return tmp_path_factory.mktemp("crossed")


def opened(machine, build_dir):
    if machine == "here":
        return emulated.open_device(build_dir)
    try:
        return crossed.open_device(build_dir, TARGETS[machine])
    except Unavailable as missing:
        pytest.skip(str(missing))


@pytest.fixture(params=["here", *MACHINES])
def device(request, build_dir):
    found = opened(request.param, build_dir)
    found.machine = request.param
    yield found
    found.close()


@pytest.fixture
def compiled(device, build_dir):
    def module(text):
        text = textwrap.dedent(text)
        source = build_dir / hashlib.sha256(text.encode()).hexdigest()[:12] / "k.cu"
        source.parent.mkdir(exist_ok=True)
        source.write_text(text)
        return device.module(source)

    return module


def launched(device, kernel, out, *arguments, block=32, shared=0):
    buffer = device.buffer(out.nbytes)
    buffer.write(out)
    kernel.launch((1, 1, 1), (block, 1, 1), [buffer.pointer, *arguments], shared)
    found = buffer.read().view(out.dtype)
    buffer.free()
    return found


def test_values_of_every_width_are_the_same_everywhere(device, compiled):
    kernel = compiled("""
        struct Mixed { short a; unsigned char b; long long c; };
        extern "C" __global__ void k(long long* out, const Mixed* in, signed char* bytes,
                                     long long l, unsigned char b, float f, double d, size_t n) {
            __shared__ int shared[64];
            const int t = threadIdx.x;
            shared[t] = t * t;
            __syncthreads();
            const int swapped = __shfl_xor_sync(0xffffffffu, shared[63 - t] + t, 5);
            const long long wide = __shfl_down_sync(0xffffffffu, (long long)t << 40, 1);
            bytes[t] -= 1;
            out[t] = swapped + wide + in[t].c + in[t].a + in[t].b + l + b + (long long)f + (long long)d + (long long)n +
                     (long long)__reduce_add_sync(0xffffffffu, t) + __popc(__ballot_sync(0xffffffffu, t & 1));
        }
    """).kernel("k")
    t = np.arange(64)
    mixed = np.zeros(64, np.dtype([("a", np.int16), ("b", np.uint8), ("c", np.int64)], align=True))
    mixed["a"], mixed["b"], mixed["c"] = -t, 200 + t % 50, (t - 30) << 33
    arrays = mixed, np.full(64, -128, np.int8)
    buffers = [device.buffer(one.nbytes) for one in arrays]
    for buffer, one in zip(buffers, arrays, strict=True):
        buffer.write(one)
    scalars = np.int64(-(1 << 50)), np.uint8(255), np.float32(-3), np.float64(1 << 40), np.uint64(77)
    out = launched(device, kernel, np.zeros(64, np.int64), *(buffer.pointer for buffer in buffers), *scalars, block=64)
    lane, first = t % 32, t // 32 * 32
    other = first + (lane ^ 5)
    down = np.where(lane == 31, t, t + 1)
    wanted = (63 - other) ** 2 + other + (down << 40) + mixed["c"] + mixed["a"] + mixed["b"]
    wanted = wanted - (1 << 50) + 255 - 3 + (1 << 40) + 77 + np.where(t < 32, 496, 496 + 1024) + 16
    assert out.tolist() == wanted.tolist()
    assert buffers[1].read().view(np.int8).tolist() == [127] * 64
    assert buffers[0].read().tobytes() == mixed.tobytes()


def test_products_of_64_bits_have_their_upper_half(device, compiled):
    kernel = compiled("""
        extern "C" __global__ void k(long long* out, const long long* a, const long long* b) {
            const int t = threadIdx.x;
            out[2 * t] = __mul64hi(a[t], b[t]);
            out[2 * t + 1] = (long long)__umul64hi((unsigned long long)a[t], (unsigned long long)b[t]);
        }
    """).kernel("k")
    random = np.random.default_rng(1)
    a, b = (random.integers(-(1 << 63), 1 << 63, 64, np.int64) for _ in range(2))
    edges = [0, 1, -1, (1 << 63) - 1, -(1 << 63), (1 << 32) - 1, 1 << 32, -(1 << 32)]
    a[:32], b[:32] = np.repeat(edges[:4], 8), edges * 4
    a[32:48], b[32:48] = edges * 2, np.repeat(edges[4:6], 8)
    buffers = [device.buffer(512) for _ in range(2)]
    for buffer, one in zip(buffers, (a, b), strict=True):
        buffer.write(one)
    out = launched(device, kernel, np.zeros(128, np.int64), *(buffer.pointer for buffer in buffers), block=64)
    unsigned = out[1::2].view(np.uint64).tolist()
    pairs = list(zip(a.tolist(), b.tolist(), strict=True))
    assert out[::2].tolist() == [x * y >> 64 for x, y in pairs]
    assert unsigned == [(x % (1 << 64)) * (y % (1 << 64)) >> 64 for x, y in pairs]


def test_a_char_is_what_it_is_there(device, compiled):
    kernel = compiled('extern "C" __global__ void k(int* out) { char c = (char)200; *out = c < 0; }').kernel("k")
    signed = device.machine == "x86_64" or (device.machine == "here" and TARGETS["x86_64"].is_here)
    assert launched(device, kernel, np.zeros(1, np.int32), block=1).tolist() == [int(signed)]


DEADLY = {
    "out[100000] = 1;": "illegal address",
    "*(volatile int*)nullptr = 1;": "a null pointer",
    "__shared__ int s[4]; for (int i = 0; i < 5; ++i) s[i] = i; out[0] = s[0];": "k.cu:{line}: index 4 out of bounds",
    "((int4*)(out + 1))[0] = make_int4(1, 2, 3, 4);": "misaligned",
    "out[0] = out[2] / out[1];": "k.cu:{line}: integer division by zero",
    "assert(out[1] == 7);": "k.cu:{line}: assertion failed: out[1] == 7",
    "volatile char big[400000]; big[out[1]] = 1; out[0] = big[out[2]];": "stack overflow",
    "__syncthreads();": "divergent barrier",
    # Frames larger than a page and smaller than 64 KiB, each written at one place only.
    "out[0] = deep(out[1] + 9);": "stack overflow",
}
DEEP = """static __device__ __noinline__ int deep(int n) {
    volatile char frame[30000]; frame[29000] = (char)n; return n ? deep(n - 1) + frame[29000] : 0; }
"""


def test_what_a_gpu_would_not_survive_is_told_from_there(device, compiled):
    text = f"#include <cassert>\n{DEEP}" + "".join(
        f'extern "C" __global__ void k{i}(int* out) {{ if (threadIdx.x == 3) {{\n{body}\n}} '
        f"{'else if (threadIdx.x == 4) __syncthreads();' if 'sync' in body else ''} }}\n"
        for i, body in enumerate([*DEADLY, 'printf("words of a kernel\\n"); out[0] = 1;'])
    )
    module = compiled(text)
    for number, told in enumerate(DEADLY.values()):
        with pytest.raises(LaunchFault) as caught:
            launched(device, module.kernel(f"k{number}"), np.zeros(256, np.int32))
        # That compiler does not touch large frames page by page.
        other = "illegal address" if told == "stack overflow" and device.machine == "riscv64" else told
        assert any(words.format(line=5 + 3 * number) in str(caught.value) for words in (told, other))
        assert f"in kernel k{number}, block (0, 0, 0)" in str(caught.value)
    assert launched(device, module.kernel(f"k{len(DEADLY)}"), np.zeros(32, np.int32)).sum() == 1


def test_arguments_that_do_not_fit_are_refused(device, compiled):
    module = compiled("""
        #include <cuda_fp16.h>
        extern "C" __global__ void k(float* out, long long n, float x, int i) {}
    """)
    kernel = module.kernel("k")
    right = [np.int64(1), np.float32(2), np.int32(-3)]
    out = np.zeros(1, np.float32)
    launched(device, kernel, out, *right)
    for at, wrong, told in [
        (0, np.int32(1), "argument 2 is numpy.int32, the parameter an integer of 8 bytes"),
        (1, np.float64(1), "argument 3 is numpy.float64, the parameter a float of 4 bytes"),
        (2, np.int64(1 << 31), "argument 4 is numpy.int64, the parameter an integer of 4 bytes"),
        (0, 5, "argument 2 is a int, not a pointer or a numpy scalar"),
    ]:
        given = [*right]
        given[at] = wrong
        with pytest.raises(LaunchFault, match=told):
            launched(device, kernel, out, *given)
    with pytest.raises(LaunchFault, match="has 4 parameters, 3 were given"):
        launched(device, kernel, out, *right[:-1])
    with pytest.raises(BuildFault, match=r"has no extern .* function other .it has: k"):
        module.kernel("other")
    freed = device.buffer(4)
    pointer = freed.pointer
    freed.free()
    with pytest.raises(LaunchFault, match="a buffer of 4 bytes is used after it was freed"):
        kernel.launch((1, 1, 1), (1, 1, 1), [pointer, *right])


def test_two_modules_see_the_same_buffer(device, compiled):
    first = compiled('extern "C" __global__ void a(short* x) { x[threadIdx.x] += 300; }').kernel("a")
    second = compiled('extern "C" __global__ void b(short* x) { x[threadIdx.x] *= 2; }').kernel("b")
    buffer = device.buffer(64)
    buffer.write(np.arange(32, dtype=np.int16))
    for kernel in (first, second, first):
        kernel.launch((1, 1, 1), (32, 1, 1), [buffer.pointer])
    assert buffer.read().view(np.int16).tolist() == [(i + 300) * 2 + 300 for i in range(32)]


def test_a_changed_text_runs_in_the_place_of_its_file(device, build_dir):
    source = build_dir / "changed" / "k.cu"
    source.parent.mkdir(exist_ok=True)
    source.write_text('#include "k.cuh"\nextern "C" __global__ void k(int* out) { out[threadIdx.x] = NUMBER; }')
    source.with_suffix(".cuh").write_text("#define NUMBER 7\n")
    changed = device.module_from_text(source.read_text().replace("NUMBER;", "NUMBER + 1;"), source)
    assert launched(device, device.module(source).kernel("k"), np.zeros(32, np.int32)).tolist() == [7] * 32
    assert launched(device, changed.kernel("k"), np.zeros(32, np.int32)).tolist() == [8] * 32


def test_a_text_that_does_not_compile_is_a_build_fault(device, compiled):
    with pytest.raises(BuildFault, match=r"k\.cu:2:\d+: error: "):
        compiled("\nnonsense here;\n")


@pytest.mark.parametrize("machine", list(TARGETS))
def test_a_missing_tool_names_the_packages(machine, tmp_path):
    with pytest.raises(Unavailable) as missing:
        tools_of(TARGETS[machine], {"PATH": str(tmp_path)})
    triple = TARGETS[machine].compiler.removesuffix("-g++").replace("_", "-")
    assert f"apt-get install g++-{triple} qemu-user-static)" in str(missing.value)
    program(tmp_path / TARGETS[machine].compiler, "exit 1")
    with pytest.raises(Unavailable) as missing:
        tools_of(TARGETS[machine], {"PATH": str(tmp_path)})
    assert str(missing.value).startswith(f"no {TARGETS[machine].emulators[0]} in PATH")


def program(path, text):
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)


def test_an_emulator_that_dies_is_a_fault_with_its_words(tmp_path):
    machine = next(name for name in MACHINES if name != "x86_64")
    target = TARGETS[machine]
    # A compiler that compiles for this machine, so that the program starts without an emulator.
    program(tmp_path / target.compiler, f'exec {shutil.which("g++") or shutil.which("clang++")} "$@"')
    program(tmp_path / target.emulators[0], 'echo "qemu: no such CPU" >&2; exit 9')
    (tmp_path / "k.cu").write_text('extern "C" __global__ void k(int* out) { *out = 1; }')
    environ = {"PATH": f"{tmp_path}{os.pathsep}{os.environ['PATH']}"}
    device = crossed.open_device(tmp_path, target, environ=environ)
    with pytest.raises(LaunchFault) as fault:
        device.module(tmp_path / "k.cu")
    device.close()
    assert str(fault.value) == "the program ended with status 9: qemu: no such CPU"
