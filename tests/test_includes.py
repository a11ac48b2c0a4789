"""Which files a .cu file names: comments and strings don't count, missing files do."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from touchgate.checks.includes import closure, included


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
        ("", []),
    ],
)
def test_names(text, names):
    assert included(text) == names


@given(st.text(alphabet="#include \"a/*\n\\'R()<>"))
def test_any_text_is_read_to_its_end(text):
    assert isinstance(included(text), list)
    assert included("/**/\n" + '#include "z"\n' + text)[0] == "z"


def test_the_closure_follows_each_file_from_its_own_folder(tmp_path):
    for path, text in {
        "k/gemv/gemv.cu": '#include "../common/a.cuh"\n#include "gone.cuh"\n',
        "k/common/a.cuh": '#include "deep/b.cuh"\n#include "./a.cuh"\n#include "../../../outside.h"\n',
        "k/common/deep/b.cuh": '#include "../a.cuh"\n#include "c.cuh"\n',
        "k/common/deep/c.cuh": "\xff",
    }.items():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_bytes(text.encode("latin-1"))
    assert closure("k/gemv/gemv.cu", tmp_path) == [
        "k/gemv/gemv.cu",
        "k/common/a.cuh",
        "k/gemv/gone.cuh",
        "k/common/deep/b.cuh",
        "../outside.h",
        "k/common/deep/c.cuh",
    ]


def test_a_missing_source_is_its_own_closure(tmp_path):
    assert closure("./k.cu", tmp_path) == ["k.cu"]
