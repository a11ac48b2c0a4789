"""nvcc: found, asked, its cubins cached under all that changes them. A fake stands in; the real one where it is."""

import json
import os
import textwrap

import pytest

from touchgate.devices import BuildFault, Unavailable, nvcc

FAKE = """\
#!/bin/sh
echo "$@" >> {log}
case "$*" in
  *--version*) echo "nvcc: a driver"; echo "Cuda compilation tools, release 13.0, V13.0.88"; exit 0;;
esac
out=
for word; do
  [ "$previous" = -o ] && out=$word
  previous=$word
  last=$word
  source=$word
done
case "$*" in
  *sm_42*) echo "nvcc fatal   : Unsupported gpu architecture 'sm_42'" >&2; exit 1;;
  *" -E "*) echo "# 1 \\"$last\\""; cat "$last"; exit 0;;
esac
case "$*" in *broken.cu*) echo "broken.cu(1): error: this is wrong" >&2; exit 2;; esac
case "$*" in *homeless.cu*) echo "sh: 1: gcc: not found" >&2; exit 1;; esac
echo "cubin" > "$out"
echo "ptxas info    : Compiling entry function 'k' for 'sm_90'" >&2
echo "ptxas info    : Function properties for k" >&2
echo "    8 bytes stack frame, 4 bytes spill stores, 12 bytes spill loads" >&2
echo "ptxas info    : Used 24 registers, used 1 barriers, 8 bytes cumulative stack size, 256 bytes smem" >&2
"""


@pytest.fixture
def fake(tmp_path):
    """A folder with a fake nvcc, and how often it compiled."""
    folder, log = tmp_path / "bin", tmp_path / "log"
    folder.mkdir()
    program = folder / "nvcc"
    program.write_text(FAKE.format(log=log))
    program.chmod(0o755)
    environ = {"PATH": f"{folder}{os.pathsep}{os.environ['PATH']}"}

    def compiled():
        return sum(" -cubin " in line for line in log.read_text().splitlines())

    return environ, compiled, program


def test_found_on_path_then_in_cuda_home_then_nowhere(tmp_path, fake, monkeypatch):
    environ, _, program = fake
    assert nvcc.find(environ) == program
    nowhere = {"PATH": str(tmp_path)}
    home = tmp_path / "cuda"
    (home / "bin").mkdir(parents=True)
    (home / "bin" / "nvcc").write_text("#!/bin/sh\n")
    monkeypatch.setattr(nvcc, "STANDARD_HOME", str(tmp_path / "none"))
    assert nvcc.find(nowhere | {"CUDA_HOME": str(home)}) is None  # not executable
    (home / "bin" / "nvcc").chmod(0o755)
    assert nvcc.find(nowhere | {"CUDA_HOME": str(home)}) == home / "bin" / "nvcc"
    assert nvcc.find(nowhere | {"CUDA_PATH": str(home)}) == home / "bin" / "nvcc"
    assert nvcc.find(nowhere) is None
    monkeypatch.setattr(nvcc, "STANDARD_HOME", str(home))
    assert nvcc.find(nowhere) == home / "bin" / "nvcc"


def test_version(fake, tmp_path):
    assert nvcc.version(fake[2]) == "13.0.88"
    broken = tmp_path / "broken"
    broken.write_text("#!/bin/sh\necho 'no licence' >&2; exit 1\n")
    broken.chmod(0o755)
    with pytest.raises(Unavailable, match="does not work: no licence"):
        nvcc.version(broken)
    with pytest.raises(Unavailable, match="does not start"):
        nvcc.version(tmp_path / "none")


def test_a_cubin_is_built_once_for_each_thing_that_changes_it(fake, tmp_path):
    environ, compiled, _ = fake
    source = tmp_path / "k.cu"
    source.write_text("one\n")

    def build(arch="sm_90", **more):
        return nvcc.build_cubin(source, arch, tmp_path / "build", **{"environ": environ, **more})

    first = build()
    assert first.resources == {"k": nvcc.Resources(24, 256, 8, 4, 12)}
    assert first.resources["k"].spills
    assert (build(), compiled()) == (first, 1)
    for count, more in enumerate(
        [
            {"arch": "sm_87"},
            {"defines": {"A": "1"}},
            {"text": "two\n"},
            *({"environ": environ | {name: "--x"}} for name in nvcc.VARIABLES),
        ],
        2,
    ):
        assert build(**more).path != first.path
        assert (build(**more).path.read_text(), compiled()) == ("cubin\n", count)
    source.write_text("three\n")
    assert build().path != first.path
    count = compiled()
    # Damage of any kind is repaired.
    cubin = build()
    for damage in (
        lambda: cubin.path.write_text("cub"),
        lambda: cubin.path.with_suffix(".json").unlink(),
        lambda: cubin.path.with_suffix(".json").write_text("[1"),
        lambda: cubin.path.with_suffix(".json").write_text('{"k": {"colour": 1}}'),
        cubin.path.unlink,
    ):
        damage()
        count += 1
        assert (build(), compiled()) == (cubin, count)
        assert cubin.path.read_text() == "cubin\n"
    assert [path.name for path in cubin.path.parent.iterdir() if path.name.startswith(".")] == []


def test_a_text_is_cached_wherever_its_temporary_file_lay(fake, tmp_path):
    environ, compiled, _ = fake
    source = tmp_path / "k.cu"
    for _ in range(2):
        nvcc.build_cubin(source, "sm_90", tmp_path / "build", environ=environ, text="mutant\n")
    assert compiled() == 1


def test_never_fast_math():
    assert not any("fast" in flag for flag in nvcc.FLAGS)


def test_what_goes_wrong_is_told_by_its_kind(fake, tmp_path, monkeypatch):
    environ, _, _ = fake

    def build(name, arch="sm_90", environ=environ):
        source = tmp_path / name
        source.write_text("x\n")
        nvcc.build_cubin(source, arch, tmp_path / "build", environ=environ)

    with pytest.raises(BuildFault, match="error: this is wrong"):
        build("broken.cu")
    with pytest.raises(nvcc.UnknownArchitecture, match="Unsupported gpu architecture"):
        build("k.cu", "sm_42")
    with pytest.raises(Unavailable, match="host compiler: install g"):
        build("homeless.cu")
    with pytest.raises(BuildFault, match="no such file"):
        nvcc.build_cubin(tmp_path / "none.cu", "sm_90", tmp_path / "build", environ=environ)
    monkeypatch.setattr(nvcc, "STANDARD_HOME", str(tmp_path / "none"))
    with pytest.raises(Unavailable, match="no nvcc: install the CUDA toolkit"):
        build("k.cu", environ={"PATH": str(tmp_path)})


def test_what_ptxas_says_is_read_for_kernels_alone():
    text = """\
        ptxas info    : 0 bytes gmem, 64 bytes cmem[3]
        ptxas info    : Function properties for device_function
            16 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
        ptxas info    : Compiling entry function 'b' for 'sm_90'
        ptxas info    : Function properties for b
            400 bytes stack frame, 408 bytes spill stores, 412 bytes spill loads
        ptxas info    : Function properties for helper
            8 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
        ptxas info    : Used 32 registers, used 0 barriers, 400 bytes cumulative stack size
        ptxas info    : Compiling entry function 'a' for 'sm_90'
        ptxas info    : Function properties for a
            0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
        ptxas info    : Used 10 registers, 356 bytes cmem[0], 1024+0 bytes smem
        ptxas info    : Compile time = 10.767 ms
    """
    assert nvcc.parse_resources(textwrap.dedent(text)) == {
        "a": nvcc.Resources(registers=10, shared=1024, stack=0, spill_stores=0, spill_loads=0),
        "b": nvcc.Resources(registers=32, shared=0, stack=400, spill_stores=408, spill_loads=412),
    }
    assert nvcc.parse_resources("nothing of the kind") == {}


@pytest.mark.skipif(nvcc.find() is None, reason="no nvcc")
def test_the_real_one(tmp_path):
    (tmp_path / "v.cuh").write_text("#define VALUE 7\n")
    source = tmp_path / "k.cu"
    source.write_text(
        '#include "v.cuh"\nextern "C" __global__ void k(int* o) { __shared__ int s[4]; s[threadIdx.x] = VALUE; *o = s[*o]; }\n'
    )
    cubin = nvcc.build_cubin(source, "sm_90", tmp_path / "build")
    assert cubin.path.read_bytes()[:4] == b"\x7fELF"
    assert cubin.resources["k"].shared == 16
    assert cubin.resources["k"].registers > 0
    stamp = cubin.path.stat().st_mtime_ns
    assert nvcc.build_cubin(source, "sm_90", tmp_path / "build").path.stat().st_mtime_ns == stamp
    (tmp_path / "v.cuh").write_text("#define VALUE 8\n")
    assert nvcc.build_cubin(source, "sm_90", tmp_path / "build").path != cubin.path
    mutant = nvcc.build_cubin(source, "sm_90", tmp_path / "build", text=source.read_text().replace("VALUE", "VALUE + 1"))
    assert json.loads(mutant.path.with_suffix(".json").read_text())["k"]["shared"] == 16
    with pytest.raises(BuildFault, match=r"k.cu\(1\): error"):
        nvcc.build_cubin(source, "sm_90", tmp_path / "build", text="wrong;")
