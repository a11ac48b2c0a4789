"""Which files a .cu file names: comments and strings don't count, missing files do."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from touchgate.checks import Inputs
from touchgate.checks.includes import _never, reach, scan, unresolved_arguments, with_includes


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ('#include "a.cuh"\n  #  include\t"b.h"\n', ["a.cuh", "b.h"]),
        ("#include <cuda_fp16.h>\n", []),
        ('// #include "a"\n/* \n#include "b"\n*/\n#include "c"\n', ["c"]),
        ('/* open\n#include "a"\n', []),
        ('const char* s = "\\\n#include \\"a\\"";\n#include "b"\n', ["b"]),
        ('auto s = R"x(\n#include "a"\n)" )x";\n#include "b"\n', ["b"]),
        ("int n = 1'000'000; char q = '\"';\n#include \"a\"\n", ["a"]),
        ('#incl\\\nude "a.cuh"\n', ["a.cuh"]),
        ('#include /* why */ "a.cuh" // because\r\n#include "b"\r\n', ["a.cuh", "b"]),
        ('#if __has_include("maybe.cuh")\n#include "maybe.cuh"\n#endif\n', ["maybe.cuh"]),
        ('int x; #include "a"\n', []),
        ('#include_next "a"\n', ["a"]),
        ('#include "unfinished\n#include "b"\n', ["b"]),
        ('%:include "a"\n%\\\n:\tinclude "b"\n', ["a", "b"]),
        ('#import "a"\n#imp\\\nort "b"\n#embed "c"\n', ["a", "b", "c"]),
        ('# /* c */ include "a"\n/* \n */ # /**/ /**/ include/**/"b"\n', ["a", "b"]),
        ('/\\\n* #include "a"\n*\\\n/\n#include "b"\n', ["b"]),
        ('// ends \\\n#include "a"\n#include "b"\n', ["b"]),
        ('#include "a\\b.h"\n#include "c\\"\n#include "d//e/*f"\n#include <x/*y>\n#include "g"\n',
         ["a\\b.h", "c\\", "d//e/*f", "g"]),
        ('#if 0\ndon\'t /* " \n#include "a"\n#endif\n', ["a"]),
        ('#error no " /*\n#include "a"\n', ["a"]),
        ('auto s = R"(\\\n)\\\n" /* )";\n#include "a"\n', ["a"]),
        ('auto s = R"(\\\n" )"; /*\n#include "b" */\n#include "a"\n', ["a"]),
        ('auto s = u8R"(")"; auto t = FOOR"("; auto u = LR\\\n"(/*)";\n#include "a"\n', ["a"]),
        ('\ufeff#include "a"\n', ["a"]),
        ('\v#\finclude "a"\n', ["a"]),
        ('int x; /*\n*/ #include "a"\n', []),
        ('#if __has_include /**/ ( "a\\" ) || __has_\\\ninclude("b")\n', ["a\\", "b"]),
        ('#include "a\0b"\n#include "c"\n', ["c"]),
        ('asm(".incbin \\"data\\"");\n', ["data"]),
        ('int a;\r#include "b"\r\n', ["b"]),
        ("", []),
    ],
)  # fmt: skip
def test_names(text, names):
    assert list(scan(text).names) == names


@pytest.mark.parametrize(
    ("text", "unresolved"),
    [
        ("\n#include MACRO\n", {2: "#include MACRO"}),
        ("#include <a>\n/* \n */%:import \\\n NAME(1) // why\n", {3: "#import NAME(1) // why"}),
        ('#include "open\n', {1: '#include "open'}),
        ("#if __has_include(WHAT)\n", {1: "__has_include("}),
        ("#ifdef __has_include\n#if defined(__has_include) && defined __has_include_next\n", {}),
        ("#define ASK __has_include\n", {1: "__has_include"}),
        ("#if __has_include(<a>)\n", {}),
        ("#includes MACRO\n// #include MACRO\n", {}),
        ('auto s = R"(\n#include "a"\n', {1: "a raw string"}),
        ('#define X \\\n R"(\n)"\n', {2: "a raw string"}),
        ('#define X R"(one line)"\nauto s = "b"R"x(\n', {}),
        ('asm(".incbin " FILE);\n', {1: ".incbin"}),
        ('asm(".incbin \\"data\\"");\n', {}),
        ("int a;\r#include <b>\r\n", {}),
    ],
)
def test_what_can_not_be_told_is_said(text, unresolved):
    assert scan(text).unresolved == unresolved


@given(st.text(alphabet="#include \"a/*\n\\'R()<>"))
def test_any_text_is_read_to_its_end(text):
    assert scan("/**/\n" + '#include "z"\n' + text).names[0] == "z"


def test_the_closure_follows_each_file_from_its_own_folder(tmp_path):
    for path, text in {
        "k/gemv/gemv.cu": '#include "../common/a.cuh"\n#include "gone.cuh"\n',
        "k/common/a.cuh": '#include "deep/b.cuh"\n#include "./a.cuh"\n#include "../../../outside.h"\n',
        "k/common/deep/b.cuh": '#include "../a.cuh"\n#include "c.cuh"\n',
        "k/common/deep/c.cuh": "\xff",
    }.items():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_bytes(text.encode("latin-1"))
    assert reach("k/gemv/gemv.cu", tmp_path).files == (
        "k/gemv/gemv.cu",
        "k/common/a.cuh",
        "k/gemv/gone.cuh",
        "k/common/deep/b.cuh",
        "../outside.h",
        "k/common/deep/c.cuh",
    )


def test_a_missing_source_is_its_own_closure(tmp_path):
    assert reach("./k.cu", tmp_path).files == ("k.cu",)


def test_a_folder_is_no_header(tmp_path):
    (tmp_path / "k.cu").write_text('#include "."\n#include "/"\n#include "a"\n')
    assert reach("k.cu", tmp_path).files == ("k.cu", "a")


def test_a_way_up_from_a_linked_folder_is_taken_both_ways(tmp_path):
    for path, text in {
        "k/k.cu": '#include "link/../a.h"\n#include "link/b.h"\n',
        "other/deep/b.h": '#include "../c.h"\n',
        "other/a.h": "",
        "other/c.h": "",
    }.items():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(text)
    (tmp_path / "k" / "link").symlink_to("../other/deep")
    assert set(reach("k/k.cu", tmp_path).files) == {"k/k.cu", "k/a.h", "other/a.h", "k/link/b.h", "k/c.h", "other/c.h"}


def test_a_line_that_can_not_be_told_makes_a_key_that_never_comes_again(tmp_path, monkeypatch):
    (tmp_path / "k.cu").write_text('#include "a.h"\n')
    (tmp_path / "a.h").write_text("#define X\n#include X\n")
    own = Inputs(("k.py",), ("python",), {"more": "1"})
    one, again = (with_includes(own, "k.cu", tmp_path, "gpu", {}, ()) for _ in "12")
    assert (one.files, one.tools, one) == (("a.h", "k.cu", "k.py"), ("python",), again)
    assert list(one.extra) == ["more", "unresolved include a.h:2"]
    assert one.extra["unresolved include a.h:2"].startswith("#include X ")
    _never.cache_clear()  # as in the next process
    assert with_includes(own, "k.cu", tmp_path, "gpu", {}, ()) != one


@pytest.mark.parametrize(
    ("place", "environ", "found"),
    [
        ("emulated", {"CXX": "ccache g++ -m64 -O1 -DX=1 -std=c++17"}, []),
        ("emulated", {"CXX": "g++ -Iinclude"}, ["CXX"]),
        ("emulated", {"CXX": "g++ -include a.h"}, ["CXX"]),
        ("emulated", {"CXX": "g++ -isystem a"}, ["CXX"]),
        ("emulated", {"CXX": "g++ -iquote a"}, ["CXX"]),
        ("emulated", {"CXX": "g++ '-Ia b'"}, ["CXX"]),
        ("emulated", {"CXX": "g++ @arguments"}, ["CXX"]),
        ("emulated", {"CXX": "g++ -Wp,-Ia"}, ["CXX"]),
        ("emulated", {"CXX": "clang++ --config=a"}, ["CXX"]),
        ("emulated", {"NVCC_APPEND_FLAGS": "-Ia"}, []),
        ("gpu", {"CXX": "g++ -Ia", "NVCC_APPEND_FLAGS": "-lineinfo -O2"}, []),
        ("host", {"NVCC_PREPEND_FLAGS": "-Xcompiler=-Ia"}, ["NVCC_PREPEND_FLAGS"]),
        ("gpu", {"NVCC_APPEND_FLAGS": "--include-path a"}, ["NVCC_APPEND_FLAGS"]),
        ("gpu", {"NVCC_APPEND_FLAGS": "-optf a"}, ["NVCC_APPEND_FLAGS"]),
        ("gpu", {"CPATH": "a", "CPLUS_INCLUDE_PATH": ""}, ["CPATH", "CPLUS_INCLUDE_PATH"]),
        ("gpu", {"C_INCLUDE_PATH": "a"}, []),
    ],
)
def test_headers_from_elsewhere_are_noticed(place, environ, found):
    assert list(unresolved_arguments(place, environ, ["CPATH", "CPLUS_INCLUDE_PATH"])) == found


def test_many_comments_are_read_in_one_go():
    text = "/* a * b **/ /* c */\n" * 20_000
    assert scan(text + '#include "a"\n').names == ("a",)
