"""The emulated device: what CUDA defines is computed, what CUDA leaves undefined is seen."""

import hashlib
import os
import re
import shutil
import subprocess
import sys
import textwrap
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

from touchgate.devices import BuildFault, LaunchFault, Unavailable, compilers, emulated, toolchain

pytestmark = pytest.mark.skipif(not (shutil.which("g++") or shutil.which("clang++")), reason="no C++ compiler")


@pytest.fixture(scope="session")
def build_dir(tmp_path_factory):
    return tmp_path_factory.mktemp("build")


@pytest.fixture
def device(build_dir):
    opened = emulated.open_device(build_dir)
    yield opened
    opened.close()


@pytest.fixture
def compiled(device, build_dir):
    """Compile a text as k.cu; the same text is compiled once."""

    def module(text, on=device):
        text = textwrap.dedent(text)
        source = build_dir / hashlib.sha256(text.encode()).hexdigest()[:12] / "k.cu"
        source.parent.mkdir(exist_ok=True)
        source.write_text(text)
        return on.module(source)

    return module


def launched(device, kernel, out, *arguments, grid=1, block=32, shared=0):
    """Launch with an output array first; what it holds afterwards."""
    buffer = device.buffer(out.nbytes)
    buffer.write(out)
    kernel.launch((grid, 1, 1), (block, 1, 1), [buffer.pointer, *arguments], shared)
    return buffer.read().view(out.dtype)


def fault_of(device, kernel, out, *arguments, **where):
    with pytest.raises(LaunchFault) as caught:
        launched(device, kernel, out, *arguments, **where)
    return str(caught.value)


REDUCTION = """
    extern "C" __global__ void total(int* out, int n) {
        __shared__ int part[256];
        const int t = threadIdx.x;
        part[t] = t < n ? t : 0;
        FIRST
        for (int step = blockDim.x / 2; step; step /= 2) {
            if (t < step) part[t] += part[t + step];
            SECOND
        }
        if (t == 0) *out = part[0];
    }
"""


def test_a_reduction_is_right_in_any_order_and_a_missing_barrier_shows_in_some(build_dir, compiled):
    whole = REDUCTION.replace("FIRST", "__syncthreads();").replace("SECOND", "__syncthreads();")
    wrong = {}
    for name, text in {
        "whole": whole,
        "first": REDUCTION.replace("FIRST", "").replace("SECOND", "__syncthreads();"),
        "second": REDUCTION.replace("FIRST", "__syncthreads();").replace("SECOND", ""),
    }.items():
        wrong[name] = []
        for seed in range(4):
            device = emulated.open_device(build_dir, seed=seed)
            got = launched(device, compiled(text, device).kernel("total"), np.zeros(1, np.int32), np.int32(200), block=256)
            if got[0] != 200 * 199 // 2:
                wrong[name].append(seed)
    assert wrong["whole"] == []
    assert wrong["first"]
    assert wrong["second"]


def test_one_seed_gives_one_order(build_dir, compiled):
    text = """
        extern "C" __global__ void order(unsigned int* out) {
            __shared__ unsigned int next;
            if (threadIdx.x == 0) next = 0;
            __syncthreads();
            out[threadIdx.x] = atomicAdd(&next, 1u);
        }
    """
    orders = {}
    for seed in (0, 7, 7, 8):
        device = emulated.open_device(build_dir, seed=seed)
        order = launched(device, compiled(text, device).kernel("order"), np.zeros(64, np.uint32), block=64)
        assert sorted(order) == list(range(64))
        assert (orders.setdefault(seed, order) == order).all()
    assert list(orders[0]) == list(range(64))
    assert list(orders[7]) not in (list(orders[0]), list(orders[8]))


def test_a_divergent_barrier_names_both_places_and_how_many_wait_where(device, compiled):
    module = compiled("""\
        extern "C" __global__ void k(int* out) {
            if (threadIdx.x < 40) {
                __syncthreads();
            } else {
                out[0] = __shfl_sync(0xffffffffu, 1, 0);
            }
        }
    """)
    told = fault_of(device, module.kernel("k"), np.zeros(1, np.int32), block=96)
    file = module._source
    assert told.splitlines() == [
        "divergent barrier: no thread of the block can go on",
        "  in kernel k, block (0, 0, 0), 96 threads, 32 ended",
        f"  {file}:3: 40 threads wait in __syncthreads: 0..39",
        f"  {file}:5: 24 threads wait in __shfl_sync(mask 0xffffffff): 40..63",
    ]


def test_two_barriers_are_not_one(device, compiled):
    told = fault_of(
        device,
        compiled("""\
            extern "C" __global__ void k(int* out) {
                if (threadIdx.x & 1) {
                    __syncthreads();
                } else {
                    __syncthreads();
                }
            }
        """).kernel("k"),
        np.zeros(1, np.int32),
    )
    assert "k.cu:3: 16 threads wait in __syncthreads: 1, 3, 5" in told
    assert "k.cu:5: 16 threads wait in __syncthreads: 0, 2, 4" in told


def test_threads_that_ended_are_not_waited_for(device, compiled):
    text = """
        extern "C" __global__ void k(int* out, int n) {
            if ((int)threadIdx.x >= n) return;
            __syncthreads();
            out[threadIdx.x] = __syncthreads_count(threadIdx.x % 3 == 0);
            int sum = __reduce_add_sync(0xffffffffu, 1);
            out[threadIdx.x] += 1000 * sum;
        }
    """
    got = launched(device, compiled(text).kernel("k"), np.zeros(64, np.int32), np.int32(40), block=64)
    assert list(got) == [32014] * 32 + [8014] * 8 + [0] * 24


def test_a_mask_without_the_caller_and_a_lane_that_never_comes(device, compiled):
    module = compiled("""\
        extern "C" __global__ void outside(int* out) { out[0] = __any_sync(0x1u, 1); }
        extern "C" __global__ void missing(int* out) {
            if (threadIdx.x < 8) __syncwarp(0x1ffu); else __syncthreads();
        }
    """)
    told = fault_of(device, module.kernel("outside"), np.zeros(1, np.int32))
    assert "k.cu:1: __any_sync(mask 0x00000001): the mask does not name the calling lane 1" in told
    assert "block (0, 0, 0), thread (1, 0, 0)" in told
    told = fault_of(device, module.kernel("missing"), np.zeros(1, np.int32))
    assert "k.cu:3: 8 threads wait in __syncwarp(mask 0x000001ff): 0..7" in told
    assert "k.cu:3: 24 threads wait in __syncthreads: 8..31" in told


SHUFFLES = """
    template <class T> __device__ void all(T* out, T v, int w) {
        const int t = threadIdx.x, n = blockDim.x;
        out[t] = __shfl_sync(0xffffffffu, v, 5, w);
        out[n + t] = __shfl_up_sync(0xffffffffu, v, 3, w);
        out[2 * n + t] = __shfl_down_sync(0xffffffffu, v, 3, w);
        out[3 * n + t] = __shfl_xor_sync(0xffffffffu, v, 6, w);
    }
    #include <cuda_fp16.h>
    #include <cuda_bf16.h>
    #define K(name, T) extern "C" __global__ void s_##name(T* out, const T* in, int w) { all(out, in[threadIdx.x], w); }
    K(i32, int) K(u64, unsigned long long) K(f32, float) K(f64, double) K(f16, __half) K(bf16, __nv_bfloat16)
"""


@pytest.mark.parametrize("width", [32, 16, 8, 2])
@pytest.mark.parametrize(
    ("name", "dtype"),
    [("i32", "i4"), ("u64", "u8"), ("f32", "f4"), ("f64", "f8"), ("f16", "f2"), ("bf16", "u2")],
)
def test_shuffles_move_values_as_ptx_says(device, compiled, name, dtype, width):
    data = np.arange(1, 65).astype(dtype)
    given = device.buffer(data.nbytes)
    given.write(data)
    kernel = compiled(SHUFFLES).kernel(f"s_{name}")
    got = launched(device, kernel, np.zeros(256, dtype), given.pointer, np.int32(width), block=64).reshape(4, 64)
    lane = np.arange(64)
    first, last = lane // width * width, lane // width * width + width - 1
    sources = [
        first + 5 % width,
        np.where(lane - 3 < first, lane, lane - 3),
        np.where(lane + 3 > last, lane, lane + 3),
        np.where((lane ^ 6) > last, lane, lane ^ 6),
    ]
    for row, source in zip(got, sources, strict=True):
        np.testing.assert_array_equal(row, data[source])


def test_votes_and_matches(device, compiled):
    text = """
        extern "C" __global__ void k(unsigned int* out) {
            const unsigned int t = threadIdx.x, half = t < 16 ? 0x0000ffffu : 0xffff0000u;
            out[t] = __ballot_sync(half, t % 3 == 0);
            out[32 + t] = __any_sync(half, t == 3) * 2 + __all_sync(half, t >= 16);
            out[64 + t] = __match_any_sync(0xffffffffu, t % 4);
            int same;
            out[96 + t] = __match_all_sync(0xffffffffu, 7, &same) + same;
            out[128 + t] = __syncthreads_and(t < 31) * 2 + __syncthreads_or(t == 31);
            out[160 + t] = __activemask();
        }
    """
    got = launched(device, compiled(text).kernel("k"), np.zeros(192, np.uint32)).reshape(6, 32)
    threes = sum(1 << t for t in range(0, 32, 3))
    lane = np.arange(32)
    np.testing.assert_array_equal(got[0], np.where(lane < 16, threes & 0xFFFF, threes & 0xFFFF0000))
    np.testing.assert_array_equal(got[1], np.where(lane < 16, 2, 1))
    np.testing.assert_array_equal(got[2], 0x11111111 << (lane % 4))
    np.testing.assert_array_equal(got[3], [0] * 32)  # 0xffffffff + 1
    np.testing.assert_array_equal(got[4], [1] * 32)
    np.testing.assert_array_equal(got[5], 1 << lane)


def test_a_shuffle_from_a_lane_that_is_not_there_is_no_number(device, compiled):
    text = """
        extern "C" __global__ void k(float* out) { out[threadIdx.x] = __shfl_down_sync(0xffffffffu, 1.0f, 16); }
    """
    got = launched(device, compiled(text).kernel("k"), np.zeros(20, np.float32), block=20)
    assert list(got[:4]) == [1.0] * 4
    assert np.isnan(got[4:16]).all()


def test_shared_memory_is_poisoned_for_each_block(device, compiled):
    text = """
        template <class T> __device__ float peek() { __shared__ T x[3]; float was = x[1]; x[1] = 5; return was; }
        extern "C" __global__ void k(float* out) {
            __shared__ __align__(16) float a[7], b;
            extern __shared__ float rest[];
            out[4 * blockIdx.x] = a[6];
            out[4 * blockIdx.x + 1] = b;
            out[4 * blockIdx.x + 2] = rest[9];
            out[4 * blockIdx.x + 3] = peek<float>() + peek<double>();
            a[6] = b = rest[9] = 1;
        }
    """
    got = launched(device, compiled(text).kernel("k"), np.zeros(16, np.float32), grid=4, block=1, shared=40)
    assert np.isnan(got).all()


def test_shared_memory_outside_of_functions_and_in_structs(device, compiled):
    text = """
        extern __shared__ __align__(16) unsigned char raw[];
        __shared__ int counter;
        namespace ours { static __device__ int* numbers() { return reinterpret_cast<int*>(raw) + 1; } }
        extern "C" {
        __global__ void k(int* out) {
            __shared__ struct { int a; float b; } both;
            volatile __shared__ int seen[2];
            if (threadIdx.x == 0) { counter = 3; both.a = 4; seen[1] = 5; ours::numbers()[0] = 6; }
            __syncthreads();
            out[threadIdx.x] = counter * 1000 + both.a * 100 + seen[1] * 10 + ours::numbers()[0];
        }
        }
    """
    got = launched(device, compiled(text).kernel("k"), np.zeros(32, np.int32), grid=3, shared=16)
    assert list(got) == [3456] * 32


def test_valid_declarations_with_operators_of_two_marks(device, compiled):
    text = """
        template <int A, int B> struct P { static const int n = A + B; int v[A]; };
        extern "C" __global__ void __launch_bounds__(P<1, 2>::n << 4, 1) k(int* out) {
            __shared__ int t[1 << 5], u[(3 >= 2) && (1 == 1) ? 64 >> 1 : 1];
            __shared__ P<1 << 5, 2> p;
            t[threadIdx.x] = u[threadIdx.x] = p.v[threadIdx.x] = threadIdx.x;
            out[threadIdx.x] = t[threadIdx.x] + u[threadIdx.x] + p.v[threadIdx.x] + (sizeof(t) == sizeof(u));
        }
    """
    kernel = compiled(text).kernel("k")
    assert list(launched(device, kernel, np.zeros(32, np.int32))) == [3 * i + 1 for i in range(32)]
    assert "__launch_bounds__ says 48" in fault_of(device, kernel, np.zeros(64, np.int32), block=64)


def test_shared_memory_outside_of_functions_is_poisoned_and_a_local_name_hides_it(device, compiled):
    text = """
        __shared__ __align__(16) int s[64], *where;
        namespace ours { static __shared__ float f; }
        static __device__ int twice(int s) { return 2 * s; }
        extern "C" __global__ void k(int* out) {
            __shared__ struct { int a; } both;
            out[blockIdx.x] = s[5] + (ours::f != ours::f) + both.a + twice(s[63]) + (reinterpret_cast<size_t>(s) % 16 == 0);
            s[5] = s[63] = both.a = 7;
            ours::f = 1;
            where = s;
        }
    """
    got = launched(device, compiled(text).kernel("k"), np.zeros(6, np.int32), grid=6, block=1)
    assert list(got) == [-1 + 1 - 1 - 2 + 1] * 6


@pytest.mark.parametrize(
    ("kernel", "shared", "told"),
    [
        ("inside", 0, "49156 bytes of static shared memory: ptxas takes at most 49152\n  in kernel inside"),
        ("outside", 0, "49156 bytes of static shared memory: ptxas takes at most 49152\n  in kernel outside"),
        ("piece", 227 * 1024 - 32767, "232449 bytes of shared memory, 32768 static and 199681 dynamic: more than 232448"),
        ("piece", 227 * 1024 - 32768, None),
        ("other", 227 * 1024 - 32768, None),
    ],
)
def test_shared_memory_has_limits_for_each_kernel(device, compiled, kernel, shared, told):
    kernel = compiled("""
        __shared__ int all[12289];
        extern "C" __global__ void inside(int* out) {
            __shared__ int a[6000], b[6289];
            a[0] = b[0] = 1;
            out[0] = a[0] + b[0];
        }
        extern "C" __global__ void outside(int* out) { all[3] = 1; out[0] = all[3]; }
        extern "C" __global__ void piece(int* out) { __shared__ int a[8192]; a[0] = 1; out[0] = a[0]; }
        extern "C" __global__ void other(int* out) { __shared__ int a[8192]; a[0] = 1; out[0] = a[0]; }
    """).kernel(kernel)
    if told is None:
        assert launched(device, kernel, np.zeros(1, np.int32), shared=shared)[0] == 1
    else:
        assert told in fault_of(device, kernel, np.zeros(1, np.int32), shared=shared)


def test_two_barriers_on_one_line_are_not_one(device, compiled):
    module = compiled("""\
        #define EITHER(x) if (x) __syncthreads(); else __syncthreads();
        extern "C" __global__ void k(int* out) { if (threadIdx.x < 8) __syncthreads(); else __syncthreads(); }
        extern "C" __global__ void m(int* out) { EITHER(threadIdx.x < 8) }
        extern "C" __global__ void c(int* out) { out[0] = (threadIdx.x < 8 ? __syncthreads_or(1) : __syncthreads_or(0)); }
    """)
    for line, name in ((2, "k"), (3, "m"), (4, "c")):
        told = fault_of(device, module.kernel(name), np.zeros(1, np.int32)).splitlines()
        wait = "__syncthreads_or" if name == "c" else "__syncthreads"
        assert told[2:] == [
            f"  {module._source}:{line}: 8 threads wait in {wait}: 0..7",
            f"  {module._source}:{line}: 24 threads wait in {wait} (another call on this line): 8..31",
        ]


def test_headers_see_a_cuda_compiler_and_no_architecture(device, compiled):
    text = """
        #ifdef __CUDACC__
        #define BOTH __host__ __device__
        #endif
        BOTH inline int which() {
        #ifdef __CUDA_ARCH__
            return 1;
        #else
            return 2;
        #endif
        }
        extern "C" __global__ void k(int* out) { out[0] = which(); }
    """
    assert launched(device, compiled(text).kernel("k"), np.zeros(1, np.int32))[0] == 2


DEADLY = {
    "out[256] = 1;": "illegal address",
    "out[-400000] = 1;": "illegal address",
    "out[100000] = 1;": "illegal address",
    "*(volatile int*)nullptr = 1;": "a null pointer",
    "__shared__ int s[4]; for (int i = 0; i < 5; ++i) s[i] = i; out[0] = s[0];": "k.cu:{line}: index 4 out of bounds",
    "extern __shared__ int d[]; d[4] = 1;": "illegal address",
    "((int4*)(out + 1))[0] = make_int4(1, 2, 3, 4);": "misaligned",
    "out[0] = out[2] / out[1];": "k.cu:{line}: integer division by zero",
    "assert(out[1] == 7);": "k.cu:{line}: assertion failed: out[1] == 7",
    "__trap();": "k.cu:{line}: __trap()",
    "volatile char big[200000]; big[out[1]] = 1; out[0] = big[out[2]];": "stack overflow",
}


@pytest.mark.parametrize("number", range(len(DEADLY)), ids=list(DEADLY))
def test_what_a_gpu_would_not_survive_ends_the_launch_and_names_the_thread(device, compiled, number):
    text = "#include <cassert>\n" + "".join(
        f'extern "C" __global__ void k{i}(int* out) {{ if (threadIdx.x == 3) {{\n{body}\n}} }}\n'
        for i, body in enumerate([*DEADLY, "out[0] = 1;"])
    )
    module = compiled(text)
    told = list(DEADLY.values())[number].format(line=3 + 3 * number)
    message = fault_of(device, module.kernel(f"k{number}"), np.zeros(256, np.int32), shared=16)
    assert told in message
    # A compiler may set up the large frame before it looks at the thread's number.
    thread = "" if told == "stack overflow" else "3, 0, 0)"
    assert f"in kernel k{number}, block (0, 0, 0), thread ({thread}" in message
    # The device goes on.
    assert launched(device, module.kernel(f"k{len(DEADLY)}"), np.zeros(32, np.int32)).sum() == 1


def test_a_write_into_the_slack_behind_a_buffer_is_found(device, compiled):
    kernel = compiled('extern "C" __global__ void k(int* out) { out[threadIdx.x] = 1; }').kernel("k")
    told = fault_of(device, kernel, np.zeros(31, np.int32))
    assert told == "write out of bounds: byte 124 of a buffer of 124 bytes\n  after kernel k"
    assert list(launched(device, kernel, np.zeros(32, np.int32))) == [1] * 32


def test_arguments_are_checked_against_the_parameters(device, compiled):
    kernel = compiled("""
        #include <cuda_fp16.h>
        extern "C" __global__ void k(float* out, long long n, float x, __half h, bool b) {}
    """).kernel("k")
    right = [np.int64(1), np.float32(2), np.float16(3), np.bool_(True)]
    out = np.zeros(1, np.float32)
    launched(device, kernel, out, *right)
    for at, wrong, told in [
        (0, np.int32(1), "argument 2 is numpy.int32, the parameter an integer of 8 bytes"),
        (1, np.float64(1), "argument 3 is numpy.float64, the parameter a float of 4 bytes"),
        (1, np.int32(1), "argument 3 is numpy.int32, the parameter a float of 4 bytes"),
        (2, np.uint16(1), "argument 4 is numpy.uint16, the parameter a float of 2 bytes"),
        (0, 5, "argument 2 is a int, not a pointer or a numpy scalar"),
    ]:
        given = [*right]
        given[at] = wrong
        assert told in fault_of(device, kernel, out, *given)
    assert "has 5 parameters, 4 were given" in fault_of(device, kernel, out, *right[:-1])
    freed = device.buffer(4)
    pointer = freed.pointer
    freed.free()
    with pytest.raises(LaunchFault, match="used after it was freed"):
        kernel.launch((1, 1, 1), (1, 1, 1), [pointer, *right])


@pytest.mark.parametrize(
    ("where", "told"),
    [
        (((0, 1, 1), (1, 1, 1), 0), "invalid grid"),
        (((1, 65536, 1), (1, 1, 1), 0), "invalid grid"),
        (((1, 1, 1), (1025, 1, 1), 0), "invalid block"),
        (((1, 1, 1), (32, 32, 2), 0), "invalid block"),
        (((1, 1, 1), (129, 1, 1), 0), "__launch_bounds__ says 128"),
        (((1, 1, 1), (1, 1, 1), 232449), "dynamic shared memory"),
        (((1, 1, 1), (-1, 1, 1), 0), "can't be negative"),
    ],
)
def test_a_configuration_no_gpu_takes(device, compiled, where, told):
    kernel = compiled("""
        constexpr int most = 64;
        extern "C" __global__ void __launch_bounds__(most * 2, 4) k(int* out) {}
    """).kernel("k")
    with pytest.raises(LaunchFault) as caught:
        kernel.launch(*where[:2], [device.buffer(4).pointer], where[2])
    assert told in str(caught.value)


def test_indices_in_three_dimensions(device, compiled):
    kernel = compiled("""
        extern "C" __global__ void k(int* out) {
            const int b = blockIdx.x + gridDim.x * (blockIdx.y + gridDim.y * blockIdx.z);
            const int t = threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z);
            out[b * blockDim.x * blockDim.y * blockDim.z + t] += 1 + b + t;
        }
    """).kernel("k")
    out = device.buffer(2 * 3 * 4 * 5 * 3 * 2 * 4)
    out.write(np.zeros(720, np.int32))
    kernel.launch((2, 3, 4), (5, 3, 2), [out.pointer])
    blocks, threads = np.divmod(np.arange(720), 30)
    np.testing.assert_array_equal(out.read().view(np.int32), 1 + blocks + threads)


def test_atomics_are_atomic_across_blocks(device, compiled):
    device.workers = 4
    text = """
        extern "C" __global__ void k(unsigned int* out) {
            atomicAdd(out, 1u); atomicAdd((float*)out + 1, 1.0f); atomicSub((int*)out + 2, 2);
            atomicMax(out + 3, blockIdx.x);
            atomicMin(out + 4, blockIdx.x); atomicInc(out + 5, 6); atomicXor(out + 6, 1u << (threadIdx.x & 31));
            atomicAdd((double*)(out + 8), 0.5); atomicAdd((unsigned long long*)(out + 10), 1ull << 33);
            unsigned int seen = out[7], old;
            do { old = seen; seen = atomicCAS(out + 7, old, old + 3); } while (seen != old);
        }
    """
    start = np.zeros(12, np.uint32)
    start[4] = 999
    got = launched(device, compiled(text).kernel("k"), start, grid=64, block=64)
    n = 64 * 64
    assert (got[0], got[1:2].view("f4")[0], got[2].astype(np.int32)) == (n, n, -2 * n)
    assert (got[3], got[4], got[5], got[6], got[7]) == (63, 0, n % 7, 0, 3 * n)
    assert (got[8:10].view("f8")[0], got[10:12].view("u8")[0]) == (n / 2, n << 33)


def test_integer_builtins(device, compiled):
    text = """
        extern "C" __global__ void k(unsigned int* o, unsigned int x, unsigned int y) {
            int i = 0;
            o[i++] = __popc(x); o[i++] = __clz(x); o[i++] = __clz(0); o[i++] = __ffs(x); o[i++] = __brev(x);
            o[i++] = __umulhi(x, y); o[i++] = __mul24(x, y); o[i++] = __byte_perm(x, y, 0x5140);
            o[i++] = __funnelshift_l(x, y, 9); o[i++] = __funnelshift_r(x, y, 9);
            o[i++] = __clzll(x); o[i++] = __popcll(~0ull); o[i++] = (unsigned int)__umul64hi(1ull << 63, 6);
            o[i++] = __float2int_rn(2.5f); o[i++] = __float2int_rz(-3e10f);
            o[i++] = __float2uint_rn(__int_as_float(-1)); o[i++] = min(-1, 1); o[i++] = max(x, 1u);
            o[i++] = __float_as_uint(max(__uint_as_float(~0u), -2.0f));
            o[i++] = warpSize;
        }
    """
    x, y = 0x12345678, 0x9ABCDEF0
    both = y << 32 | x

    def signed24(v):
        return (v & 0xFFFFFF) - ((v & 0x800000) << 1)

    expected = [
        x.bit_count(), 32 - x.bit_length(), 32, 4, int(f"{x:032b}"[::-1], 2),
        x * y >> 32, signed24(x) * signed24(y) & 0xFFFFFFFF, 0xDE56F078,
        both << 9 >> 32 & 0xFFFFFFFF, both >> 9 & 0xFFFFFFFF,
        64 - x.bit_length(), 64, 3,
        2, 0x80000000, 0,
        0xFFFFFFFF, x, 0xC0000000,
        32,
    ]  # fmt: skip
    got = launched(device, compiled(text).kernel("k"), np.zeros(20, np.uint32), np.uint32(x), np.uint32(y), block=1)
    assert [hex(v) for v in got] == [hex(v) for v in expected]


def test_floats_become_integers_as_ptx_says(device, compiled):
    text = """
        extern "C" __global__ void k(long long* o, float f, double d, __half h) {
            o[0] = __float2int_rz(f); o[1] = __float2uint_rn(f); o[2] = __float2ll_rd(f); o[3] = __float2ull_ru(f);
            o[4] = __double2int_rz(d); o[5] = __double2uint_rn(d); o[6] = __double2ll_rd(d); o[7] = __double2ull_ru(d);
            o[8] = __half2int_rn(h); o[9] = __half2int_rz(h);
        }
    """
    kernel = compiled("#include <cuda_fp16.h>\n" + text).kernel("k")
    least, most, upper = -(2**31), 2**31 - 1, 2**63 - 1
    nan = [0, 0, -upper - 1, -upper - 1, least, 2**31, -upper - 1, -upper - 1, 0, 0]
    for value, expected in [
        (np.nan, nan),
        (-np.nan, nan),
        (np.inf, [most, 2**32 - 1, upper, -1, most, 2**32 - 1, upper, -1, most, most]),
        (-np.inf, [least, 0, -upper - 1, 0, least, 0, -upper - 1, 0, least, least]),
        (-1.5, [-1, 0, -2, 0, -1, 0, -2, 0, -2, -1]),
        (2.5, [2, 2, 2, 3, 2, 2, 2, 3, 2, 2]),
    ]:
        with np.errstate(invalid="ignore"):
            given = [np.float32(value), np.float64(value), np.float16(value)]
        assert list(launched(device, kernel, np.zeros(10, np.int64), *given, block=1)) == expected, value


HALVES = """
    #include <cuda_fp16.h>
    #include <cuda_bf16.h>
    #define AT const int i = blockIdx.x * 256 + threadIdx.x
    #define K(name, T) \\
    extern "C" __global__ void from_##name(T* out, const float* in) { AT; out[i] = T(in[i]); } \\
    extern "C" __global__ void to_##name(float* out, const T* in) { AT; out[i] = float(in[i]); } \\
    extern "C" __global__ void fma_##name(T* out, const T* a, const T* b, const T* c) { \\
        AT; out[i] = __hfma(a[i], b[i], c[i]); }
    K(f16, __half)
    K(bf16, __nv_bfloat16)
    extern "C" __global__ void sums(__half* out, const __half* a, const __half* b) {
        AT;
        out[4 * i] = a[i] + b[i];
        out[4 * i + 1] = a[i] - b[i];
        out[4 * i + 2] = __hmul(a[i], b[i]);
        out[4 * i + 3] = a[i] / b[i];
    }
"""


def filled(device, data):
    buffer = device.buffer(data.nbytes)
    buffer.write(data)
    return buffer


def bfloat16_values(bits):
    return (bits.astype(np.uint32) << 16).view(np.float32)


def nearest_bfloat16(x):
    """Round float64 to the nearest bfloat16, by choosing among neighbours."""
    low = (x.astype(np.float32).view(np.uint32) >> 16).astype(np.int64)
    best = np.zeros(len(x), np.uint16)
    distance = np.full(len(x), np.inf)
    for step in (-1, 0, 1):
        candidate = np.clip(low + step, 0, 0xFFFF).astype(np.uint16)
        away = np.abs(bfloat16_values(candidate).astype(np.float64) - x)
        better = (away < distance) | ((away == distance) & (candidate & 1 == 0))
        best, distance = np.where(better, candidate, best), np.where(better, away, distance)
    return best


def test_every_half_and_bfloat16_becomes_its_own_float(device, compiled):
    module = compiled(HALVES)
    bits = np.arange(65536, dtype=np.uint16)
    given = filled(device, bits)
    half = launched(device, module.kernel("to_f16"), np.zeros(65536, np.float32), given.pointer, grid=256, block=256)
    np.testing.assert_array_equal(half, bits.view(np.float16).astype(np.float32))
    brain = launched(device, module.kernel("to_bf16"), np.zeros(65536, np.float32), given.pointer, grid=256, block=256)
    np.testing.assert_array_equal(brain, bfloat16_values(bits))


def test_floats_round_to_the_nearest_half_and_bfloat16(device, compiled):
    module = compiled(HALVES)
    random = np.random.default_rng(1)
    values = random.integers(0, 1 << 32, 65536, dtype=np.uint32).view(np.float32).copy()
    # Every border between two halves, and its neighbours.
    halves = np.arange(0, 31744, dtype=np.uint16).view(np.float16).astype(np.float64)
    borders = ((halves[1:] + halves[:-1]) / 2).astype(np.float32)
    values[:31743] = borders
    values[31743:47615] = np.nextafter(borders[:15872], np.float32(np.inf))
    values[47615:63487] = np.nextafter(borders[15871:], np.float32(0))
    values[63487:63495] = [65504, 65519.996, 65520, -65520, np.inf, -np.inf, np.nan, -0.0]
    given = filled(device, values)
    got = launched(device, module.kernel("from_f16"), np.zeros(65536, np.uint16), given.pointer, grid=256, block=256)
    with np.errstate(over="ignore"):
        expected = values.astype(np.float16).view(np.uint16)
    expected = np.where(np.isnan(values), 0x7FFF, expected)
    np.testing.assert_array_equal(got, expected)
    values = random.integers(0, 1 << 32, 65536, dtype=np.uint32).view(np.float32).copy()
    values[::3] = (values[::3].view(np.uint32) & 0xFFFF0000 | 0x8000).view(np.float32)  # halfway
    values[::5] = (values[::5].view(np.uint32) & 0x807FFFFF).view(np.float32)  # subnormal
    values = values[np.isfinite(values) & (np.abs(values) < 3.38e38)][:65024]
    given = filled(device, values)
    got = launched(device, module.kernel("from_bf16"), np.zeros(65024, np.uint16), given.pointer, grid=254, block=256)
    assert ((got & 0x8000) == (values.view(np.uint32) >> 16 & 0x8000)).all()
    expected = nearest_bfloat16(np.abs(values.astype(np.float64)))
    np.testing.assert_array_equal(got & 0x7FFF, expected)


def test_half_arithmetic_rounds_after_each_operation(device, compiled):
    random = np.random.default_rng(2)
    a, b = random.integers(0, 1 << 16, (2, 65536), dtype=np.uint16).view(np.float16)
    kernel = compiled(HALVES).kernel("sums")
    first, second = filled(device, a), filled(device, b)
    got = launched(
        device, kernel, np.zeros(4 * 65536, np.float16), first.pointer, second.pointer, grid=256, block=256
    ).reshape(-1, 4)
    with np.errstate(all="ignore"):
        expected = np.stack([a + b, a - b, a * b, a / b], 1)
    np.testing.assert_array_equal(got, expected)
    np.testing.assert_array_equal(np.signbit(got)[~np.isnan(got)], np.signbit(expected)[~np.isnan(got)])


def test_a_fused_multiply_add_rounds_once(device, compiled):
    from fractions import Fraction

    random = np.random.default_rng(3)
    a, b, c = random.integers(0, 1 << 16, (3, 1024), dtype=np.uint16)
    c[:512] = random.integers(0, 64, 512)  # tiny addends decide ties
    kernel = compiled(HALVES).kernel("fma_f16")
    parts = [filled(device, x) for x in (a, b, c)]
    got = launched(device, kernel, np.zeros(1024, np.float16), *(p.pointer for p in parts), grid=4, block=256)
    x, y, z = (v.view(np.float16) for v in (a, b, c))
    for i in range(1024):
        if not all(np.isfinite(v) for v in (x[i], y[i], z[i])):
            continue
        exact = Fraction(float(x[i])) * Fraction(float(y[i])) + Fraction(float(z[i]))
        if not np.isfinite(got[i]):
            assert abs(exact) >= 65520
            continue
        error = abs(Fraction(float(got[i])) - exact)
        for other in (np.nextafter(got[i], np.float16(np.inf)), np.nextafter(got[i], np.float16(-np.inf))):
            if np.isfinite(other):
                assert error <= abs(Fraction(float(other)) - exact), (i, a[i], b[i], c[i])


def test_kernels_from_macros_in_blocks_and_behind_comments(compiled):
    module = compiled("""
        /* extern "C" __global__ void commented(int* o) {} */
        // extern "C" __global__ void also(int* o) {}
        const char* text = "extern \\"C\\" __global__ void quoted(int* o) {}";
        #define TWICE(n) __global__ void n##_1(int* o) {} __global__ void n##_2(int* o) {}
        extern "C" { TWICE(k) }
        extern "C" __global__ void declared(int* o);
        extern "C" __global__ __launch_bounds__(32) void declared(int* o) { }
        __global__ void mangled(int* o) {}
        #if 0
        extern "C" __global__ void hidden(int* o) {}
        #endif
    """)
    assert sorted(module._names) == ["declared", "k_1", "k_2"]
    with pytest.raises(BuildFault, match=r"function mangled \(it has: declared, k_1, k_2\)"):
        module.kernel("mangled")


def test_a_compile_error_names_the_line_of_the_cu_file(compiled):
    with pytest.raises(BuildFault) as caught:
        compiled('extern "C" __global__ void k(int* o) {\n  __shared__ int a[3],\n    b;\n  nonsense(a, b);\n}\n')
    assert "/k.cu:4:" in str(caught.value)


def test_a_changed_text_finds_what_the_file_includes(device, tmp_path):
    (tmp_path / "common").mkdir()
    (tmp_path / "k").mkdir()
    (tmp_path / "common" / "c.cuh").write_text("__device__ inline int three() { return 3; }\n")
    source = tmp_path / "k" / "k.cu"
    source.write_text('#include "../common/c.cuh"\nextern "C" __global__ void k(int* o) { *o = three(); }\n')
    assert launched(device, device.module(source).kernel("k"), np.zeros(1, np.int32))[0] == 3
    text = source.read_text().replace("three()", "three() + 1")
    assert launched(device, device.module_from_text(text, source).kernel("k"), np.zeros(1, np.int32))[0] == 4
    with pytest.raises(BuildFault, match=f"{source}:2:"):
        device.module_from_text(text.replace("three", "four"), source)


def test_the_cache_follows_includes_and_defines_and_mends_itself(tmp_path):
    device = emulated.open_device(tmp_path / "build")
    header, source = tmp_path / "v.cuh", tmp_path / "k.cu"
    header.write_text("#define VALUE 1\n")
    source.write_text('#include "v.cuh"\nextern "C" __global__ void k(int* o) { *o = VALUE + EXTRA; }\n')

    def value(extra):
        module = device.module(source, defines={"EXTRA": extra})
        return int(launched(device, module.kernel("k"), np.zeros(1, np.int32))[0])

    def built():
        return sorted((tmp_path / "build" / "emulated").glob("k-*.so"))

    assert (value("0"), value("0"), len(built())) == (1, 1, 1)
    assert (value("5"), len(built())) == (6, 2)
    header.write_text("#define VALUE 2\n")
    assert (value("0"), len(built())) == (2, 3)
    assert [p.name for p in (tmp_path / "build" / "emulated").iterdir() if p.name.startswith(".")] == []
    header.write_text("#define VALUE 9\n")
    source.write_text(source.read_text() + "// another\n")
    # A file that was cut short, as after a full disk, in the place of the next build.
    before = set(built())
    assert value("0") == 9
    (new,) = set(built()) - before
    copy = tmp_path / "again"
    shutil.copytree(tmp_path / "build", copy)
    (copy / "emulated" / new.name).write_bytes(new.read_bytes()[:1000])
    again = emulated.open_device(copy)
    kernel = again.module(source, defines={"EXTRA": "0"}).kernel("k")
    assert launched(again, kernel, np.zeros(1, np.int32))[0] == 9


@pytest.mark.slow
def test_many_processes_build_the_same_at_once(tmp_path):
    source = tmp_path / "k.cu"
    source.write_text('extern "C" __global__ void k(int* o) { *o = 42; }\n')
    program = textwrap.dedent(f"""
        import numpy as np
        from pathlib import Path
        from touchgate.devices import emulated
        device = emulated.open_device(Path({str(tmp_path / "build")!r}))
        out = device.buffer(4)
        device.module(Path({str(source)!r})).kernel("k").launch((1, 1, 1), (1, 1, 1), [out.pointer])
        print(out.read().view(np.int32)[0])
    """)
    with ThreadPoolExecutor(4) as pool:
        answers = list(
            pool.map(
                lambda _: subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout,
                range(6),
            )
        )
    assert answers == ["42\n"] * 6


def test_no_compiler_says_what_to_install(tmp_path):
    with pytest.raises(Unavailable) as caught:
        emulated.open_device(tmp_path, environ={"PATH": str(tmp_path)})
    assert str(caught.value) == ("no C++ compiler: install g++ (Debian: apt-get install g++; macOS: xcode-select --install)")
    with pytest.raises(Unavailable, match="CXX names nosuch"):
        emulated.open_device(tmp_path, environ={"PATH": os.environ["PATH"], "CXX": "nosuch -m64"})


def test_a_compiler_that_does_not_work_is_named(tmp_path):
    fake = tmp_path / "g++"
    fake.write_text("#!/bin/sh\necho 'xcode-select: note: no developer tools were found' >&2\nexit 1\n")
    fake.chmod(0o755)
    with pytest.raises(Unavailable, match="no developer tools were found"):
        compilers.find({"PATH": str(tmp_path)})


KERNEL = 'extern "C" __global__ void k(int* o) { *o = 42; }\n'


def scripted(tmp_path, name, body):
    """A compiler of this name: what `--version` says, then `body` in the shell."""
    program = tmp_path / name
    version = 'if [ "$1" = --version ]; then echo "fake g++ 1.0"; exit 0; fi'
    program.write_text(f"#!/bin/sh\n{version}\n{body}\n")
    program.chmod(0o755)
    return {"PATH": os.environ["PATH"], "CXX": str(program)}


@pytest.mark.parametrize(
    ("body", "told"),
    [
        ("exit 1", "ended with 1 and said nothing"),
        ("echo 'cannot execute cc1plus' >&2; exit 1", "does not compile C++: cannot execute cc1plus"),
        ("exit 0", "ended with 0, but wrote no library (0 bytes)"),
        ('for to; do :; done; echo touchgate_launch > "$to"', "but wrote no library (17 bytes)"),
        ("for to; do :; done; printf '\\177ELFtouchgate_launch' > \"$to\"", "wrote a library that does not load"),
        ("exec sleep 20", "did not end within 0.2 s and was stopped"),
    ],
)
def test_a_compiler_that_does_not_compile_is_unavailable_in_words(tmp_path, monkeypatch, body, told):
    if "sleep" in body:
        monkeypatch.setattr(toolchain, "PATIENCE", 0.2)
    environ = scripted(tmp_path, "fake-g++", body)
    with pytest.raises(Unavailable) as caught:
        emulated.open_device(tmp_path / "build", environ=environ)
    assert told in str(caught.value)
    assert f"{tmp_path}/fake-g++ is fake g++ 1.0; set CXX to another compiler" in str(caught.value)
    assert list((tmp_path / "build" / "emulated").iterdir()) == []


def test_a_compiler_that_fails_later_names_itself(tmp_path):
    source = tmp_path / "k.cu"
    source.write_text(KERNEL)
    real = shutil.which("g++") or shutil.which("clang++")
    for number, (body, told) in enumerate(
        [
            ('case "$*" in *runtime*) exec REAL "$@";; *) exit 0;; esac', "did not preprocess"),
            ('case "$*" in *runtime*|*" -E "*) exec REAL "$@";; *) exit 3;; esac', "ended with 3 and said nothing"),
            ('case "$*" in *runtime*|*" -E "*) exec REAL "$@";; *) exit 0;; esac', "but wrote no library (0 bytes)"),
        ]
    ):
        environ = scripted(tmp_path, f"fake-{number}", body.replace("REAL", str(real)))
        device = emulated.open_device(tmp_path / f"build{number}", environ=environ)
        with pytest.raises(BuildFault, match=f"fake-{number} ended with .*{re.escape(told)}|fake-{number} {told}"):
            device.module(source)
        assert list((tmp_path / f"build{number}" / "emulated").glob("k-*")) == []


def test_a_command_line_that_cannot_be_read_is_named(tmp_path):
    for wish, told in (('"x', 'CXX is no command line (no closing quotation): "x'), ("''", "CXX names nothing, which")):
        with pytest.raises(Unavailable) as caught:
            emulated.open_device(tmp_path, environ={"PATH": os.environ["PATH"], "CXX": wish})
        assert told in str(caught.value)


@pytest.mark.parametrize("foreign", ["library", "text", "folder"])
def test_what_is_not_ours_in_the_cache_is_built_anew(tmp_path, foreign):
    source = tmp_path / "k.cu"
    source.write_text(KERNEL)
    first = tmp_path / "first"
    emulated.open_device(first).module(source)
    # In folders of their own: a library that this process has loaded is not read again.
    copy = tmp_path / "copy"
    shutil.copytree(first, copy)
    for library in (copy / "emulated").glob("*.so"):
        note = library.with_name(library.name + ".sha256")
        if foreign == "folder":
            library.unlink()
            library.mkdir()
            (library / "x").write_text("")
        else:
            module = getattr(sys.modules["_ctypes"], "__file__", None) if foreign == "library" else None
            data = Path(module).read_bytes() if module else b"\x7fELF touchgate_launch touchgate_module"
            library.unlink()
            library.write_bytes(data)
            note.write_text(hashlib.sha256(data).hexdigest())
    again = emulated.open_device(copy)
    assert launched(again, again.module(source).kernel("k"), np.zeros(1, np.int32))[0] == 42


def test_printf_in_a_kernel_reaches_the_log(compiled, capfd):
    kernel = compiled("""
        extern "C" __global__ void k() { if (threadIdx.x == 1) printf("block %d\\n", blockIdx.x); }
    """).kernel("k")
    kernel.launch((2, 1, 1), (2, 1, 1), [])
    assert sorted(capfd.readouterr().out.splitlines()) == ["block 0", "block 1"]


def test_a_buffer_begins_poisoned_aligned_and_takes_what_fits(device):
    buffer = device.buffer(1000)
    assert buffer.read().tolist() == [255] * 1000
    assert buffer.pointer.address % 256 == 0
    assert buffer.pointer.offset(12).address - buffer.pointer.address == 12
    with pytest.raises(ValueError, match="do not fit"):
        buffer.write(np.zeros(1001, np.uint8))
    with pytest.raises(ValueError, match="contiguous"):
        buffer.write(np.zeros(100, np.uint8)[::2])
    assert device.buffer(0).read().size == 0


SANITIZED = """
import numpy as np
from pathlib import Path
from touchgate.devices import emulated
device = emulated.open_device(Path({build!r}), sanitize=True, seed=3)
module = device.module(Path({source!r}))
out = device.buffer(33 * 4)
out.write(np.zeros(33, np.int32))
module.kernel("fine").launch((4, 1, 1), (256, 1, 1), [out.pointer], 1024)
print(out.read().view(np.int32)[0], flush=True)
module.kernel({kernel!r}).launch((1, 1, 1), (64, 1, 1), [out.pointer], 256)
print("not seen")
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kernel", "told"),
    [
        ("beyond", "heap-buffer-overflow"),
        ("shared_beyond", "k.cu:14"),
        ("dynamic_beyond", "AddressSanitizer"),
        ("overflow", "signed integer overflow"),
        ("cast", "outside the range of representable values"),
        ("stack_beyond", "k.cu:21"),
    ],
)
def test_the_sanitized_build_names_the_line(tmp_path, build_dir, kernel, told):
    try:
        environment = emulated.sanitizer_environment()
    except Unavailable as missing:
        pytest.skip(str(missing))
    source = tmp_path / "k.cu"
    source.write_text(
        textwrap.dedent("""\
        extern "C" __global__ void fine(int* out) {
            __shared__ int part[256];
            extern __shared__ int more[];
            part[threadIdx.x] = 1;
            more[threadIdx.x] = 1;
            __syncthreads();
            if (threadIdx.x == 0) for (int i = 1; i < 256; ++i) part[0] += part[i];
            int v = __reduce_add_sync(0xffffffffu, more[threadIdx.x]);
            if (threadIdx.x == 0) out[0] = part[0] + v;
        }
        extern "C" __global__ void beyond(int* out) { if (threadIdx.x < 34) out[threadIdx.x] = 1; }
        extern "C" __global__ void shared_beyond(int* out) {
            __shared__ int a[8]; int* p = a;
            p[8 + (threadIdx.x & 1)] = 1;
            out[0] = a[0];
        }
        extern "C" __global__ void dynamic_beyond(int* out) { extern __shared__ int d[]; d[threadIdx.x + 1] = 1; }
        extern "C" __global__ void overflow(int* out) { out[0] = 2147483647 + (int)threadIdx.x; }
        extern "C" __global__ void cast(int* out) { out[0] = (int)(3e9f + threadIdx.x); }
        extern "C" __global__ void stack_beyond(int* out) {
            int local[4]; int* p = local; __syncthreads(); p[threadIdx.x] = 1; out[0] = p[0];
        }
        """)
    )
    program = SANITIZED.format(build=str(build_dir), source=str(source), kernel=kernel)
    ran = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False, env={**os.environ, **environment}
    )
    assert ran.stdout == "288\n", ran.stderr
    assert ran.returncode != 0
    assert told in ran.stderr
    assert "k.cu:" in ran.stderr


def test_a_sanitized_device_in_an_ordinary_process_is_refused(tmp_path):
    with pytest.raises(Unavailable, match="sanitizer_environment"):
        emulated.open_device(tmp_path, sanitize=True)
