"""What C, C++ and CUDA files include: every file that a compiler reads, and every include that another parser sees."""

from __future__ import annotations

import random
import re
import shutil
import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from touchgate.gate.closure.cache import Cache
from touchgate.gate.closure.cxx import read, scan
from touchgate.gate.closure.graph import Graph, Source
from touchgate.gate.closure.references import Settings

from .closure_trees import Memory


def named(text: str) -> list[str]:
    shown = {"quotes": '"{}"', "angles": "<{}>", "bytes": "bytes {}"}
    return [shown[one.how].format(one.text) for one in scan(text).references]


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ('#include "a.cuh"\n#include <b/c.h>\n', ['"a.cuh"', "<b/c.h>"]),
        ("#inc\\\nlude /* */ <a>// x\n%:include <b>\n#import <c>\n#include_next <d>\n", ["<a>", "<b>", "<c>", "<d>"]),
        ('auto s = R"(\n#include <a>\n)";\n/* #include <b> */ // #include <c>\n#include <d>\n', ["<d>"]),
        ('#if __has_include(<a>) && __has_include("b")\n', ["<a>", '"b"']),
        ('#embed "a.bin"\n#embed <b.bin>\n#if __has_embed("c.bin")\n', ["bytes a.bin", "bytes <b.bin>", "bytes c.bin"]),
        ('import "a.h";\nexport import <b.h>;\nint import = 3;\nimport c.d;\n', ['"a.h"', "<b.h>"]),
        ("#if 0\n#include <a>\n#else\n#include <b>\n#endif\n", ["<a>", "<b>"]),
        ("x = a <b> c; // <d>\n", []),
        ("#include <a\\\n>\n", ["<a>"]),
        ("??=include <a>\n??=inc??/\nlude <b>\n#include <c??/ \nd>\n", ["<a>", "<b>", "<cd>"]),
        ("// ??/\n#include <a>\n", ["<a>"]),
        ("x\r#include <a>\r", ["<a>"]),
        ("// x\r#include <a>\n#include <b>\n", ["<b>", "<a>"]),
        ("#/* x\n */ include /**/ <a>\n#\0 include\0<b>\n", ["<a>", "<b>"]),
        ("#\\\n\\\ninc\\ \nlude \\\n<a\\\n.h>\n", ["<a.h>"]),
        ('auto s = R"(\\\n)\\\n")"; \n#include <a>\n', ["<a>"]),
        ('auto s = R"a"b()b")a"b";\n#include <a>\n', ["<a>"]),
        ('R"x()x\\\n"\n#include <no>\n)x"\n#include <a>\n', ["<a>"]),
        ('#pragma GCC dependency "a.h"\n#pragma clang dependency <b.h> why\n', ["bytes a.h", "bytes <b.h>"]),
        ('#pragma include_alias("a.h", "b.h")\n%:pragma include_alias( <c> , <d> )\n', ['"b.h"', "<d>"]),
        ('#pragma comment(lib, "a.lib")\n#pragma once\n#pragma omp parallel\n', ["bytes a.lib"]),
        (
            '_Pragma("GCC dependency \\"a.h\\"") __pragma(include_alias("x", "b.h")) _Pragma("once") _Pragma(#x)',
            ["bytes a.h", '"b.h"'],
        ),
        ('asm(".incbin \\"a.bin\\"\\n\\t.include \\"b.inc\\"");\n', ["bytes a.bin", '"b.inc"']),
        ('.incbin "a.bin", 4\n  .INCLUDE "b.s"\n# it\'s\n#include "c.h"\n', ['"c.h"', "bytes a.bin", '"b.s"']),
        ('#if __has_include_next(<a>)\n#line 3 "no.h"\n# 4 "no.h"\n', ["<a>"]),
        ('#include MACRO /* "\n#include <no> */\n#include <a>\n', ["<a>"]),
    ],
)
def test_names(text, names):
    assert named(text) == names


@pytest.mark.parametrize(
    ("text", "unresolved"),
    [
        ("\n#include MACRO(x)\n", [(2, "#include MACRO(x)", "a macro says what")]),
        ("import a.b;\n", [(1, "import a.b", "a module's file has any name")]),
        (
            "import :part;\nmodule a.b;\n",
            [(1, "import :part", "a module's file has any name"), (2, "module a.b", "a module's file has any name")],
        ),
        (
            'asm(".incbin " FILE "\\n");\n.incbin NAME\n',
            [(1, ".incbin", "the assembler reads a file"), (2, ".incbin", "the assembler reads a file")],
        ),
        ('asm("\\t.include " FILE "\\n"); x.include = "a";', [(1, ".include", "the assembler reads a file")]),
        ("#pragma GCC dependency FILE\n", [(1, "#pragma GCC dependency", "a macro says what")]),
        ('_Pragma(R"(GCC dependency "x")")', [(1, "_Pragma(R", "a macro says what")]),
        ("#pragma clang module import a.b\n", [(1, "#pragma clang module import a.b", "a module's file has any name")]),
    ],
)
def test_what_can_not_be_told_is_said(text, unresolved):
    assert list(scan(text).unresolved) == unresolved


def test_lines():
    text = '/*\n*/ #include "a"\n#in\\\nclude <b>\r\n#if __has_include("c")\n'
    assert [(one.text, one.line) for one in read(text.encode()).references] == [("a", 2), ("b", 4), ("c", 5)]


@given(st.binary())
def test_any_bytes_are_read_to_their_end(content):
    assert "z" in [one.text for one in read(b'#include "z"\n' + content).references]


@pytest.mark.parametrize("text", ['R"x(', "__has_include ( ", '#include "a"\n', "defined(__has_include ", "/* ", "#in\\\n"])
def test_much_of_the_same_is_read_in_one_go(text):
    """Read anew for each, these would take minutes."""
    read((text * 50_000).encode())


def reached(files, *sources, settings=None) -> list[str]:
    return sorted(Graph(Memory(files), Cache(None)).closure(map(Source, sources), settings or Settings()).files)


@pytest.mark.parametrize(
    ("include", "others", "found"),
    [
        ('"a.h"', ["p/q/a.h", "p/a.h", "a.h", "include/a.h", "lib/a.h"], ["a.h", "include/a.h", "lib/a.h", "p/q/a.h"]),
        ("<a.h>", ["p/q/a.h", "a.h", "include/a.h", "lib/a.h"], ["a.h", "include/a.h", "lib/a.h"]),
        ('"../a.h"', ["p/a.h", "a.h"], ["a.h", "p/a.h"]),
        ('"./..//q/a.h"', ["p/q/a.h"], ["p/q/a.h"]),
        ('"../../../a.h"', ["a.h"], []),
        ('"/a.h"', ["a.h"], []),
        ("<vector>", ["lib/vectors"], []),
        ('"d"', ["p/q/d/x.h"], []),
        ('"a.h/"', ["p/q/a.h"], ["p/q/a.h"]),
    ],
)
def test_resolution(include, others, found):
    files = {"p/q/x.cu": f"#include {include}\n", **dict.fromkeys(others, "")}
    settings = Settings(include=("lib",))
    # A folder of the declared ones is looked up like the file's own: so "../a.h" is found from lib, too.
    assert reached(files, "p/q/x.cu", settings=settings) == sorted([*found, "p/q/x.cu"])


def test_a_file_is_read_as_what_includes_it():
    files = {"a.cu": '#include "table.xyz"\n#embed "data.h"\n', "table.xyz": '#include "b.h"\n', "data.h": '#include "c.h"\n'}
    files |= {"b.h": "", "c.h": ""}
    assert reached(files, "a.cu") == ["a.cu", "b.h", "data.h", "table.xyz"]


def test_a_submodule_stands_for_what_may_be_in_it():
    files = {"a.cu": "#include <cub/cub.cuh>\n", "third/cub": ("gitlink",)}
    assert reached(files, "a.cu") == ["a.cu"]
    assert reached(files, "a.cu", settings=Settings(include=("third/cub",))) == ["a.cu", "third/cub"]


def test_links_in_circles_and_out_of_the_tree_end():
    files = {
        "a.c": '#include "l/x.h"\n#include "m"\n#include "n"\n',
        "l": ("link", "l"),
        "m": ("link", "../m"),
        "n": ("link", "/n"),
    }
    assert reached(files, "a.c") == ["a.c"]


# ---- against g++

NAMES = ("a.h", "b.cuh", "c.inc", "d d.h", "e.hpp", "x-y.h")
FOLDERS = ("", "k/", "k/deep/", "inc/", "inc/lib/", "other/")
NOISE = (
    'const char *s{n} = "#include \\"no.h\\" /* ";',
    'const char *r{n} = R"x(\n#include "no.h"\n)" )x";',
    "/* ' \" \n#include <no.h>\n*/",
    "// \" ' /* \\\n#include <no.h>",
    "int i{n} = 1'000'000; char c{n} = '\"'; char d{n} = '\\'';",
    "#define STRING{n}(x) #x \"//\" '/*'",
    "#define LONG{n}(x) do {{ \\\n x; \\\n }} while (0)",
    "#if 0\nit's not \" code /* \n*/\n#endif",
    "#pragma once",
    'const char *q{n} = R"x(\\\n#include "no.h"\n)\\\nx" )x";',
    'const char *p{n} = R"(\n#include "no.h" \\\n)" "//" R"??/(/*)??/"; // */',
    '_Pragma("GCC poison no{n}") int o{n}; \\\n\\\n\\\n',
    "#pragma GCC diagnostic push /* \n#include <no.h>\n*/",
    '#define SAID{n} _Pragma("once") /* */ L"//" u8R"(/*)"',
    "??/",
    "#line 7",
)


def a_directive(choose: random.Random, name: str, *, trigraphs: bool) -> str:
    sharps = ("#", "# ", "#\t", " #", "%:", "/* x */ #", "/*\n*/#", "# /* \n */ ", "#\\\n", "%\\\n\\\n:", "/\\\n**/#", "\f#")
    sharp = choose.choice((*sharps, "??=", "??=??/\n", "?\\\n?=") if trigraphs else sharps)
    words = ("include", "include", "include", "inc\\\nlude", "in\\\r\nclude", "i\\\n\\\n\\\nnclude")
    word = choose.choice((*words, "in??/\nclude") if trigraphs else words)
    gap = choose.choice((" ", "", "\t", "/**/", " \\\n ", '  /* " */ ', "/\\\n* x *\\\n/", "\v"))
    end = choose.choice(("", " ", " // why", " /* why */", " /* why\n */"))
    return f"{sharp}{word}{gap}{name}{end}"


def has_trigraphs(seed: int) -> bool:
    return bool(seed % 2)


def a_tree(seed: int) -> dict[str, str]:
    choose = random.Random(seed)
    trigraphs = has_trigraphs(seed)
    paths = sorted({choose.choice(FOLDERS) + choose.choice(NAMES) for _ in range(choose.randint(2, 16))})
    files = {}
    for path in ["k/main.cu", *paths]:
        lines = ["#pragma once"]
        for n in range(choose.randint(0, 6)):
            kind = choose.random()
            target = choose.choice(paths)
            if kind < 0.35:
                lines.append(
                    choose.choice(NOISE).replace("{n}", f"{n}_{abs(hash(path)) % 99}").replace("{{", "{").replace("}}", "}")
                )
            elif kind < 0.6 and target.startswith("inc/"):
                name = target.removeprefix("inc/")
                lines.append(a_directive(choose, choose.choice((f"<{name}>", f'"{name}"')), trigraphs=trigraphs))
            else:
                up = "../" * path.count("/")
                spelled = choose.choice(("", "./")) + up + choose.choice(("", "k/../" if "k/" in str(paths) else "")) + target
                lines.append(a_directive(choose, f'"{spelled}"', trigraphs=trigraphs))
            if choose.random() < 0.1:
                lines[-1] = f"#if __has_include(<{choose.choice(NAMES)}>)\n#endif\n{lines[-1]}"
        files[path] = "\n".join(lines) + choose.choice(("\n", "\n\n", ""))
    return files


def read_by_compiler(files: dict[str, str], folder: Path, *options: str) -> set[str] | None:
    for path, text in files.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_bytes(text.encode())
    command = ["g++", "-x", "c++", "-std=c++17", "-w", "-MM", "-MT", "x", "-I", "inc", *options, "k/main.cu"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    if done.returncode:
        return None
    names = re.split(r"(?<!\\)\s+", done.stdout.removeprefix("x:").replace("\\\n", " ").strip())
    return {(folder / name.replace("\\ ", " ")).resolve().relative_to(folder.resolve()).as_posix() for name in names}


def compare(seeds: range, folder: Path) -> int:
    files_read = 0
    for seed in seeds:
        files = a_tree(seed)
        mine = reached(files, "k/main.cu", settings=Settings(include=("inc",)))
        theirs = read_by_compiler(files, folder / str(seed), *(["-trigraphs"] if has_trigraphs(seed) else []))
        assert theirs is None or theirs <= set(mine), (seed, theirs - set(mine))
        files_read += len(theirs or ())
    return files_read


needs_compiler = pytest.mark.skipif(not shutil.which("g++"), reason="g++ is not installed: apt install g++")


@needs_compiler
def test_made_trees_against_the_compiler(tmp_path):
    assert compare(range(120), tmp_path) > 200


@pytest.mark.slow
@needs_compiler
def test_many_made_trees_against_the_compiler(tmp_path):
    assert compare(range(120, 2000), tmp_path) > 3000


# ---- against tree-sitter


def includes_seen(parse, content: bytes) -> set[str]:
    waiting = [parse(content).root_node]
    found = set()
    while waiting:
        node = waiting.pop()
        waiting += node.children
        if node.type == "preproc_include" and not node.has_error:
            path = node.child_by_field_name("path")
            if path is not None and path.type in ("string_literal", "system_lib_string"):
                found.add(path.text.decode("utf-8", "surrogateescape")[1:-1])
    return found


def parser_of(grammar: str):
    tree_sitter = pytest.importorskip("tree_sitter", reason="tree-sitter is not installed: pip install '.[dev]'")
    found = pytest.importorskip(grammar, reason=f"{grammar} is not installed: pip install '.[dev]'")
    return tree_sitter.Parser(tree_sitter.Language(found.language())).parse


def headers() -> list[Path]:
    """What is installed: public code, though not of our choice."""
    return sorted(path for path in Path("/usr/include").rglob("*") if path.suffix in (".h", ".hpp", "") and path.is_file())


def not_seen(parse, files: list[Path]) -> list[object]:
    missed = []
    for file in files:
        content = file.read_bytes()
        mine = {one.text for one in read(content).references}
        missed += [(str(file), name) for name in includes_seen(parse, content) - mine]
    return missed


@pytest.mark.filterwarnings("ignore:int argument support is deprecated")
@pytest.mark.parametrize("grammar", ["tree_sitter_cpp", "tree_sitter_cuda"])
def test_made_files_against_tree_sitter(grammar):
    parse = parser_of(grammar)
    seen = 0
    for seed in range(300):
        for path, text in a_tree(seed).items():
            plain = re.sub(r"\\\r?\n", "", text)
            if any(noise in plain for noise in ('R"x(', "'000", "#if 0", "??/")):
                continue  # where the grammar itself loses its way
            found = includes_seen(parse, plain.encode())
            seen += len(found)
            assert found <= {one.text for one in scan(text).references} | {"no.h"}, (seed, path)
    assert seen > 500


@pytest.mark.filterwarnings("ignore:int argument support is deprecated")
def test_a_part_of_the_installed_headers_against_tree_sitter():
    assert not_seen(parser_of("tree_sitter_cpp"), headers()[::23]) == []


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:int argument support is deprecated")
def test_all_installed_headers_against_tree_sitter():
    assert not_seen(parser_of("tree_sitter_cpp"), headers()) == []
