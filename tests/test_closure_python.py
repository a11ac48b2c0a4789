"""What Python files import: tables, and every import that Python's own parser sees, in made and in installed code."""

from __future__ import annotations

import ast
import contextlib
import importlib.util
import posixpath
import random
import sys
import sysconfig
import warnings
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from touchgate.gate.closure.cache import Cache
from touchgate.gate.closure.graph import Graph, Source
from touchgate.gate.closure.python import read
from touchgate.gate.closure.python_calls import FUNCTIONS
from touchgate.gate.closure.references import Settings

from .closure_trees import Memory


def named(text: str | bytes) -> list[str]:
    """Each reference in short: `a.b`, or `.a: b, c`."""
    found = read(text.encode() if isinstance(text, str) else text)
    return [f"{one.text}: {', '.join(one.candidates)}" if one.how == "from" else one.text for one in found.references]


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("import a.b as c, d", ["a.b", "d"]),
        ("import a . b , \\\n  c", ["a.b", "c"]),
        ("from . import x", [".: x"]),
        ("from.import x;import y", [".: x", "y"]),
        ("from ...a.b import(c as d,\n  # why\n  e\n  as f,)", ["...a.b: c, e"]),
        ("from a import *", ["a: *"]),
        ("from .... import x", ["....: x"]),
        ("def f():\n  if x: import a\n  else:import b", ["a", "b"]),
        ("try:\n\timport a\nexcept ImportError: from b import c", ["a", "b: c"]),
        ("class A: import a;from b import c ; x = 1", ["a", "b: c"]),
        ('\'import a\'\n"""\nimport b\n"""\n# import c\nimport d', ["d"]),
        ("x = 'it\\'s' ; import a\ny = '''x'y''' ; import b", ["a", "b"]),
        ("x = r'\\' ; import a'\nimport b", ["b"]),
        ("x = 'open\nimport a", ["a"]),
        ("def f():\n    yield from a.b\nimport c", ["c"]),
        ("raise X from y\nimport c", ["c"]),
        ("x = f'{a}{{' ; import b", ["b"]),
        ("x = f'{a!r:>{width}}' ; import b", ["b"]),
        ("x = f'{d[\"import a\"]}' ; import b", ["b"]),
        # As of 3.12.
        ("x = f'{d['import a']}' ; import b", ["b"]),
        ("x = f'{f'{f'{1}'}'}' ; import b", ["b"]),
        ("x = f'{a:{'}'}}' ; import b", ["b"]),
        ("x = f'{\na # } \\'\n}' ; import b", ["b"]),
        ("x = f'''{a:\n{b}''' ; import b", ["b"]),
        ("x = rf'\\{a}' ; y = f'\\N{DIGIT ONE}{a}' ; import b", ["b"]),
        ("x = t'{a}' ; import b", ["b"]),
        ("x = f'{__import__('a')}'", ["a"]),
        ('x = ur\'\\\\\' ; y = bR"\\"" ; import b', ["b"]),
        ("import a\rimport b\r\nimport c\f\nimport d", ["a", "b", "c", "d"]),
        ("# comment\rimport a", ["a"]),
        ("\ufeffimport a", ["a"]),
        ("import \U0001d41a, \uff41b", ["a", "ab"]),
        ("import a·b", ["a·b"]),
        ("\fimport a\n\f  import b \\\r\n , c", ["a", "b", "c"]),
        ("x = t'{a:{'}'}}' ; import b", ["b"]),
        ('x = f"{f"{"a"}"}" ; import b', ["b"]),
        ("importlib.import_module('a.b')", ["a.b"]),
        ("import_module(\n  '.x', __package__)", [".x"]),
        ("importlib.import_module(name='a' \"b\")", ["ab"]),
        ("__import__('a\\x62')", ["ab"]),
        ("import_module(__import__('a').name)", ["a"]),
        ("pytest.importorskip('a')", ["a"]),
        ("pytest_plugins = ['a.b', 'c']", ["a.b", "c"]),
        ("def import_module(name): pass", []),
        ("from importlib import import_module as load", ["importlib: import_module"]),
        ("def f(): im('a')\nfrom importlib import import_module as im", ["a", "importlib: import_module"]),
        ("im = importlib.import_module; im('a'); i2 = im; i2('b')", ["a", "b"]),
        ("def f(load=import_module): load('a')\nself.load = import_module; self.load('b')", ["a", "b"]),
        ("import importlib as il; il.import_module('a')", ["importlib", "a"]),
        ("getattr(importlib, 'import_module')('a'); vars(importlib)['import_module']('b')", ["a", "b"]),
        ("importlib.__dict__['import_module']('a'); __builtins__['__import__']('b')", ["a", "b"]),
        (
            "import_module('.q', 'p'); import_module('..q', package='p.r'); import_module(package='p', name='.s')",
            ["p.q", "p.s"],
        ),
        ("import_module('.q', __package__); import_module('.q', package=__name__)", [".q"]),
        (
            "__import__('a', fromlist=['b', 'c']); __import__(name='d', level=2); __import__('e', None, None, (), 0)",
            ["a: b, c", "..d", "e"],
        ),
        ("spec_from_file_location('h', 'x/h.py'); SourceFileLoader('g', path='g.py')", ["x/h.py", "g.py"]),
        (
            "from runpy import run_path; run_path('a.py'); runpy.run_module('p.m')",
            ["runpy: run_path", "a.py", "p.m", "p.m: __main__"],
        ),
        ("exec('import a\\nfrom b import c'); eval(\"__import__('d')\"); exec(\"exec('import e')\")", ["a", "b: c", "d", "e"]),
        ("exec 'import a'", ["a"]),
        ("exec(open('a.py').read()); exec(compile(Path('b.py').read_text(), 'b.py', 'exec'))", ["a.py", "b.py"]),
        ("imp.load_source('a', 'a.py'); load_dynamic('b', 'b.so'); imp.load_dynamic('b', 'b.so')", ["a.py", "b.so"]),
        ("pkgutil.get_data('p', 'd/f.bin'); resources.read_text('p', 'g')", ["p", "d/f.bin", "g"]),
        ("importlib.resources.files('p') / 'd' / 'f'; files('q').joinpath('g', 'h')", ["p", "d/f", "q", "g/h"]),
        ("mock.patch('a.b.c'); x.patch('/url'); setattr(x, 'a.b', 1); resolve_name('d:e')", ["a.b.c", "d.e"]),
        (
            "pytest_plugins = 'a'\npytest_plugins = ('b', 'c')\npytest_plugins += ['d']\npytest_plugins: list[str] = ['e']",
            ["a", "b", "c", "d", "e"],
        ),
        ("import a; import b\nif x: import c", ["a", "b", "c"]),
        ("import a\0\nimport b", ["a", "b"]),
        ("model.eval(); re.compile('import no'); x.exec('import no'); eval = 3", []),
        ("__all__ = ['a', *b]\n__all__ += ('c',)", ["a", "*", "c"]),
        ("__all__: list[str] = ['a']", ["a"]),
        ("for name in __all__:\n    'x'", []),
        ("x.__all__ = ['a']", []),
        ("print 'python 2', `x`\nimport a", ["a"]),
        ("", []),
    ],
)
def test_names(text, names):
    assert named(text) == names


@pytest.mark.parametrize(
    ("text", "unresolved"),
    [
        ("x\nimport_module(name)", [(2, "import_module(name)")]),
        ("__import__('a' + b)", [(1, "__import__('a'+b)")]),
        ("import_module(f'a.{b}')", [(1, "import_module(b'...')")]),
        ("load = importlib.import_module\n", [(1, "import_module")]),
        ("importlib.util.find_spec(name)", []),
        ("from importlib import import_module as im\nx = map(im, names)", [(2, "im")]),
        ("importlib.import_module('.q', package=p)", [(1, "import_module('.q',package=p)")]),
        ("__import__('a', g, l, names)", [(1, "__import__('a',g,l,names)")]),
        ("spec_from_file_location('h', path)", [(1, "spec_from_file_location('h',path)")]),
        ("SourceFileLoader('h', x / 'y')", [(1, "SourceFileLoader('h',x/'y')")]),
        ("class A(SourceFileLoader): pass", [(1, "SourceFileLoader")]),
        ("runpy.run_path(p); run_path(p); f(run_path)", [(1, "run_path(p)")]),
        ("exec(code); eval(f'{a}')", [(1, "exec(code)"), (1, "eval(a'...')")]),
        ("f(exec)\nmodel.eval()", [(1, "exec")]),
        ("getattr(importlib, name)(x)\ngetattr(x, name)", [(1, "getattr(importlib,name)(x)")]),
        ("f = getattr(importlib, 'import_module')", [(1, "getattr(importlib,'import_module')")]),
        ("pytest_plugins = [a, 'b']", [(1, "pytest_plugins")]),
        ("pkgutil.get_data(p, f); resources.files('p').iterdir()", [(1, "get_data(p,f)"), (1, "files('p').iterdir()")]),
        ("sys.path.insert(0, 'lib')\nfor p in sys.path: print(sys.path[0])", [(1, "path.insert(0,'lib')")]),
        ("import sys as s\ns.path += [x]; self.path.append(y)", [(2, "path+=[x]")]),
        ("from sys import path as p\np.append(x)", [(2, "p.append(x)")]),
        ("sys.path[0:0] = ['a']\nsys.path = ['b'] + sys.path", [(1, "path[0:0]=['a']"), (2, "path=['b']+sys.path")]),
        ("sys.meta_path.insert(0, F())\n__path__ = extend_path(__path__, __name__)", [(1, "sys.meta_path"), (2, "__path__")]),
        ("monkeypatch.syspath_prepend(x); site.addsitedir('a')", [(1, "syspath_prepend(x)"), (1, "addsitedir('a')")]),
        ("# coding: nothing-like-it\nimport a", [(1, "the encoding nothing-like-it")]),
    ],
)
def test_what_is_computed_is_said(text, unresolved):
    assert [(one.line, one.text) for one in read(text.encode()).unresolved] == unresolved


@pytest.mark.parametrize(
    "text",
    [
        "# -*- coding: latin-1 -*-\nx = '\xe9' ; import a".encode("latin-1"),
        "#!python\n# vim: set fileencoding=shift_jis :\nx = '\u8868' ; import a".encode("shift_jis"),
        b"# coding: utf-16-le\nimport a",
        b"\xff\xfe\x00 \nimport a",
        b"# coding: utf-7\nx = '+AGE-'\nimport a",
    ],
)
def test_encodings(text):
    assert [one.text for one in read(text).references] in (["a"], [])
    assert named(text) == ["a"] or b"utf-16" in text


def test_lines():
    text = "'''\n\n'''\nimport a\nx = f'''\n{y\n}''' \\\n ; import b\nimport_module(\n'c')\r\nfrom d import (\n e)"
    assert [(one.text, one.line) for one in read(text.encode()).references] == [("a", 4), ("b", 8), ("c", 9), ("d", 11)]


@given(st.text(alphabet="import from a.b,()'\"\\#{}:;fr\n") | st.binary())
def test_any_text_is_read_to_its_end(text):
    start = text.encode() if isinstance(text, str) else text
    read(start)
    assert "z" in named(b"import z\n" + start)


def test_deep_nesting_ends():
    read(b"f'{" * 50_000)
    read(b"f'{(" * 20_000 + b"x" + b")}'" * 20_000)
    read(b"from a import " + b"(" * 100_000)
    read(b"__all__ = (\n" * 50_000)


# ---- against Python's own parser


def imports_of(tree: ast.AST) -> set[tuple[str, tuple[str, ...]]]:
    found: set[tuple[str, tuple[str, ...]]] = set()
    renamed = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found |= {(alias.name, ()) for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            found.add(("." * node.level + (node.module or ""), tuple(alias.name for alias in node.names)))
            renamed |= {alias.asname: alias.name for alias in node.names if alias.asname and alias.name in FUNCTIONS}
        elif isinstance(node, (ast.Assign, ast.NamedExpr)) and isinstance(node.value, ast.Attribute):
            targets = node.targets[-1:] if isinstance(node, ast.Assign) else [node.target]
            names = {target.id for target in targets if isinstance(target, ast.Name) and node.value.attr in FUNCTIONS}
            renamed |= dict.fromkeys(names, node.value.attr)
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            name = getattr(node.func, "id", getattr(node.func, "attr", None))
            found |= called(renamed.get(name, name), isinstance(node.func, ast.Attribute), node)
    return found


def called(name: str | None, is_method: bool, call: ast.Call) -> set[tuple[str, tuple[str, ...]]]:
    def constant(index: int, keyword: str) -> object:
        values = [one.value for one in call.keywords if one.arg == keyword] or call.args[index : index + 1]
        return values[0].value if values and isinstance(values[0], ast.Constant) else None

    if name in ("exec", "eval") and not is_method and isinstance(constant(0, ""), str):
        try:
            return imports_of(ast.parse(constant(0, "")))
        except (SyntaxError, ValueError, RecursionError):
            return set()
    function = FUNCTIONS.get(name)
    value = constant(function.position, function.keyword) if function else None
    if not value or not isinstance(value, str) or function.kind == "root":
        return set()
    if function.kind in ("file", "bytes"):
        return set() if function.common and not is_method else {(value, ())}
    if function.kind == "relative" and len(call.args) + len(call.keywords) > 1:
        package = constant(1, "package")
        with contextlib.suppress(ImportError):
            return {(importlib.util.resolve_name(value, package), ())} if isinstance(package, str) and package else set()
        return set()
    if (function.kind == "object" and not ("." in value and ":" not in value)) or (
        name == "__import__" and len([*call.args, *call.keywords]) > 1
    ):
        return set()
    return {(value, ())}


def missed(content: bytes) -> set[object] | None:
    """The imports that the parser sees and the reader does not; None where Python can't read the text."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            tree = ast.parse(content)
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            return None
        seen = imports_of(tree)
    mine = read(content).references
    found = {(posixpath.normpath(text), ()) for how, text, *_ in mine if how in ("file", "bytes")}
    found |= {(one.text, tuple(name for name in one.candidates if ":" not in name)) for one in mine if one.how != "all"}
    return {one for one in seen if one not in found and (posixpath.normpath(one[0]), ()) not in found}


NAMES = ("a", "b_1", "Cc", "importer", "fromage", "as_", "f", "rb", "\u00e9t\u00e9", "match", "_")
TEXTS = (
    *("'import x'", '"from x import y"', "'''\nimport x\n'''", 'r"\\\\"', "b'\\''", '"\\\n"', "''", '""""a"""', "'\\\\'"),
    *('f"{a}"', "f'{{import}}'", 'f"{a!r:>{b_1}}"', "f'''{a:\n}'''", "rf'\\{a}'", 'f"{a[1]}"'),
    *("f'{lambda_}'", "'it\\'s'", 'u"x" r"y"', "'#'", 'F"{{{a}}}"', "f'{a=}'", "f'{a:%H:%M}'", "f'{(lambda: 1)()}'"),
)


def a_module(choose: random.Random, *, relative: bool = False) -> str:
    name = ".".join(choose.choice(NAMES) for _ in range(choose.randint(1, 3)))
    return "." * choose.randint(1, 4) + choose.choice(("", name)) if relative else name


def space(choose: random.Random) -> str:
    return choose.choice((" ", "  ", "\t", " \\\n ", " \f"))


def an_import(choose: random.Random) -> str:
    gap = space(choose)
    alias = lambda: choose.choice(("", f" as {choose.choice(NAMES)}"))  # noqa: E731
    kind = choose.randrange(6)
    if kind <= 1:
        return f"import{gap}" + f",{gap}".join(a_module(choose) + alias() for _ in range(choose.randint(1, 3)))
    module = a_module(choose, relative=choose.random() < 0.5)
    start = f"from{'' if module[0] == '.' and choose.random() < 0.3 else gap}{module}{gap}import"
    names = [choose.choice(NAMES) + alias() for _ in range(choose.randint(1, 3))]
    if kind <= 3:
        return f"{start}{gap}" + ", ".join(names)
    if kind == 4:
        first, last = choose.choice(("", "\n")), choose.choice(("", ",", "\n"))
        joint = choose.choice((", ", ",\n  ", ", # import no\n", "\n,\n"))
        return f"{start}{choose.choice(('', ' '))}({first}{joint.join(names)}{last})"
    if choose.random() < 0.6:
        return choose.choice(CALLS).replace("MODULE", a_module(choose)).replace("NAME", choose.choice(NAMES[:4]))
    return f"{choose.choice(('importlib.import_module', '__import__', 'import_module'))}({choose.choice(TEXTS[:1])})"


CALLS = (
    "from importlib import import_module as NAME; NAME('MODULE')",
    "NAME = importlib.import_module; NAME(name='MODULE')",
    "g(NAME := importlib.import_module) ; NAME(\n'MODULE')",
    "import importlib as il; il . import_module ('MODULE', )",
    "import_module('..x.NAME', 'MODULE.z.y')",
    "import_module(package='MODULE', name='.NAME')",
    "util.spec_from_file_location('NAME', 'x/NAME.py')",
    "spec_from_file_location(location='NAME.py', name='h')",
    "m.SourceFileLoader(fullname='NAME', path='lib/NAME.py').load_module()",
    "runpy.run_path('x/NAME.py', run_name='__main__')",
    "runpy.run_module('MODULE')",
    "exec('import MODULE; from NAME import b as c')",
    'exec("""\\nimport MODULE\\nexec(\'import NAME\')""" , {})',
    "eval('__import__(\"MODULE\")')",
    "pkgutil.resolve_name('MODULE.NAME')",
    "mock.patch('MODULE.NAME')",
)


def a_statement(choose: random.Random) -> str:
    return choose.choice(
        (
            lambda: an_import(choose),
            lambda: an_import(choose),
            lambda: f"x = {choose.choice(TEXTS)}",
            lambda: f"x = [{choose.choice(TEXTS)},\n {choose.choice(TEXTS)}] # {choose.choice(TEXTS[:2])}",
            lambda: f"g({choose.choice(TEXTS)}, k={choose.choice(TEXTS)})",
            lambda: f"x: int = {{1: {choose.choice(TEXTS)}}}[1:2]",
            lambda: choose.choice(("pass", "x = 1if y else 2", "x = .5", "x @ y", "x = ...")),
        )
    )()


def a_file(seed: int) -> bytes:
    choose = random.Random(seed)
    lines: list[str] = []
    depth = 0
    for _ in range(choose.randint(1, 25)):
        statement = "; ".join(a_statement(choose) for _ in range(choose.choice((1, 1, 2, 3))))
        indent = "    " * depth
        kind = choose.randrange(8)
        if kind == 0:
            lines.append(f"{indent}{choose.choice(('if x', 'while 0', 'class A', 'def f(a=1)', 'with x'))}:{statement}")
        elif kind == 1 and depth < 3:
            lines.append(f"{indent}{choose.choice(('def f():', 'try:', 'for i in x: # import no', 'class A(B):', 'else:'))}")
            lines.append(f"{indent}    {statement}")
            if lines[-2].strip() == "try:":
                lines.append(f"{indent}finally: {an_import(choose)}")
            elif lines[-2].strip() == "else:":
                lines[-2] = f"{indent}if x:"
        else:
            lines.append(f"{indent}{statement}")
    ends = choose.choice(("\n", "\n", "\r\n", "\r"))
    return ends.join("\n".join(lines).split("\n")).encode()


def test_made_files_against_ast():
    found = [missed(a_file(seed)) for seed in range(4000)]
    assert sum(one is not None for one in found) > 2000
    assert [seed for seed, one in enumerate(found) if one] == []


def _installed() -> list[Path]:
    folders = {sysconfig.get_path("stdlib"), *(path for path in sys.path if path.endswith("site-packages"))}
    return sorted({file for folder in folders for file in Path(folder).rglob("*.py")})


def test_a_part_of_the_installed_code_against_ast():
    files = _installed()[::97]
    assert [str(file) for file in files if missed(file.read_bytes())] == []


@pytest.mark.long
def test_all_installed_code_against_ast():
    assert [str(file) for file in _installed() if missed(file.read_bytes())] == []


def test_made_files_against_tree_sitter():
    parser = pytest.importorskip("tree_sitter", reason="tree-sitter is not installed: pip install '.[dev]'")
    grammar = pytest.importorskip("tree_sitter_python", reason="tree-sitter-python is not installed: pip install '.[dev]'")
    parse = parser.Parser(parser.Language(grammar.language())).parse
    for seed in range(0, 4000, 20):
        content = a_file(seed).replace(b"\r\n", b"\n").replace(b"\r", b"\n")
        tree = parse(content)
        if tree.root_node.has_error:
            continue
        waiting = [tree.root_node]
        lines = {one.line for one in read(content).references}
        while waiting:
            node = waiting.pop()
            waiting += node.children
            if node.type in ("import_statement", "import_from_statement"):
                assert node.start_point[0] + 1 in lines, (seed, node.text)


# ---- what names mean in a tree


def reached(files, *sources, settings=None) -> list[str]:
    return sorted(Graph(Memory(files), Cache(None)).closure(map(Source, sources), settings or Settings()).files)


@pytest.mark.parametrize(
    ("source", "others", "found"),
    [
        ("import a.b", ["a/__init__.py", "a/b.py", "a/c.py"], ["a/__init__.py", "a/b.py"]),
        ("import a.b", ["a/b/__init__.py", "a/b.pyi"], ["a/b.pyi", "a/b/__init__.py"]),
        ("import a.b", ["a.py", "src/a/b.py"], ["a.py", "src/a/b.py"]),
        ("import a", ["a.cpython-311-x86_64-linux-gnu.so", "a.b.py", "a.pyx", "ab.py"],
         ["a.cpython-311-x86_64-linux-gnu.so", "a.pyx"]),
        ("from a import b, c", ["a/__init__.py", "a/b.py", "a/c/__init__.py", "a/d.py"],
         ["a/__init__.py", "a/b.py", "a/c/__init__.py"]),
        ("from a import *", ["a/__init__.py", "a/b.py"], ["a/__init__.py"]),
        ("import lib", ["p/lib.py", "lib.py", "p/q/lib.py"], ["lib.py", "p/q/lib.py"]),
        ("from . import b", ["p/q/b.py", "b.py"], ["p/q/b.py"]),
        ("from .. import b", ["p/b.py", "p/__init__.py", "p/q/__init__.py"],
         ["p/__init__.py", "p/b.py", "p/q/__init__.py"]),
        ("from ..b.c import d", ["p/b/c/d.py"], ["p/b/c/d.py"]),
        ("from .... import b", ["b.py"], []),
        ("import os.path", ["os"], []),
        ("import outer", ["p/__init__.py", "p/q/__init__.py", "outer.py"], ["outer.py", "p/__init__.py", "p/q/__init__.py"]),
    ],
)  # fmt: skip
def test_resolution(source, others, found):
    files = {"p/q/x.py": source, **dict.fromkeys(others, "")}
    assert reached(files, "p/q/x.py") == sorted([*found, "p/q/x.py"])


def test_all_of_a_package_counts_where_it_is_imported_by_star():
    files = {"p/__init__.py": "__all__ = ['a', 'no']", "p/a.py": "", "p/b.py": "", "x.py": "from p import *"}
    assert reached(files, "x.py") == ["p/__init__.py", "p/a.py", "x.py"]
    files["p/__init__.py"] = "__all__ = names()"
    assert reached(files, "x.py") == ["p/__init__.py", "p/a.py", "p/b.py", "x.py"]


def test_declared_folders():
    files = {"x.py": "import m.n", "deep/lib/m/n.py": "", "src/m/n.py": ""}
    assert reached(files, "x.py") == ["src/m/n.py", "x.py"]
    assert reached(files, "x.py", settings=Settings(python=("deep/lib",))) == ["deep/lib/m/n.py", "src/m/n.py", "x.py"]


def test_tests_come_with_what_pytest_loads():
    files = {
        "t/u/test_x.py": "import helper",
        "t/u/conftest.py": "",
        "t/conftest.py": "import other",
        "t/helper.py": "",
        "t/other.py": "",
        "conftest.py": "",
        "t/u/plain.py": "",
    }
    found = ["conftest.py", "t/conftest.py", "t/helper.py", "t/other.py", "t/u/conftest.py", "t/u/test_x.py"]
    assert reached(files, "t/u/test_x.py") == found
    assert reached(files, "t/u/plain.py") == ["t/u/plain.py"]


@pytest.mark.parametrize(
    ("source", "others", "found"),
    [
        ("spec_from_file_location('h', 'u/h.py')",
         ["p/q/u/h.py", "p/u/h.py", "u/h.py", "h.py"], ["p/q/u/h.py", "p/u/h.py", "u/h.py"]),
        ("runpy.run_path(os.path.join(os.path.dirname(__file__), '..', 'h.py'))", ["p/h.py", "h.py", "p/q/h.py"], ["p/h.py"]),
        ("runpy.run_path(Path(__file__).resolve().parent / 'u' / 'h.txt')", ["p/q/u/h.txt", "u/h.txt"], ["p/q/u/h.txt"]),
        ("runpy.run_path(str(Path(__file__).parents[1].joinpath('h')))", ["p/h/__main__.py", "p/h/x.py"], ["p/h/__main__.py"]),
        ("runpy.run_path(dirname(dirname(abspath(__file__))) + '/h.py')", ["p/h.py", "h.py"], ["p/h.py"]),
        ("runpy.run_path('/h.py'); runpy.run_path('../../../h.py')", ["h.py"], []),
        ("exec((Path(__file__).parent / 'h.py').read_text())", ["p/q/h.py", "h.py"], ["p/q/h.py"]),
        ("runpy.run_module('m')", ["m/__init__.py", "m/__main__.py", "m/x.py"], ["m/__init__.py", "m/__main__.py"]),
        ("import_module('.b', 'm')", ["m/__init__.py", "m/b.py", "p/q/b.py"], ["m/__init__.py", "m/b.py"]),
        ("__import__('m', fromlist=['b'])", ["m/__init__.py", "m/b.py"], ["m/__init__.py", "m/b.py"]),
        ("pkgutil.get_data('m', 'd/t.bin')", ["m/__init__.py", "m/d/t.bin", "d/t.bin"], ["m/__init__.py", "m/d/t.bin"]),
        ("sys.path.insert(0, 'lib'); import h, lib.i",
         ["lib/h.py", "lib/i.py", "p/q/lib/h.py"], ["lib/h.py", "lib/i.py", "p/q/lib/h.py"]),
        ("sys.path.insert(0, os.path.join(os.path.dirname(__file__), 'lib'))\nfrom h import i",
         ["lib/h.py", "p/q/lib/h.py"], ["p/q/lib/h.py"]),
        ("sys.path += [str(Path(__file__).parent.parent), 'x']; import h",
         ["p/h.py", "x/h.py", "h/h.py"], ["p/h.py", "x/h.py"]),
        ("exec('sys.path.append(\"lib\")'); import h", ["lib/h.py"], ["lib/h.py"]),
        ("def test_x(): pass", ["p/conftest.py", "conftest.py", "p/q/r/conftest.py"], ["conftest.py", "p/conftest.py"]),
        ("SourceFileLoader('h', 'h.so')", ["h.so"], ["h.so"]),
    ],
)  # fmt: skip
def test_files_and_folders_that_a_file_says(source, others, found):
    files = {"p/q/x.py": source, **dict.fromkeys(others, "")}
    assert reached(files, "p/q/x.py") == sorted([*found, "p/q/x.py"])


OPENED = [
    ('subprocess.run(["python", "p/m.py"])', "p/m.py"),
    ('subprocess.run("python p/m.py", shell=True)', "p/m.py"),
    ('subprocess.check_call([sys.executable, "-m", "m"])', "m.py"),
    ('from subprocess import run as r\nr(("python", "p/m.py"))', "p/m.py"),
    ('os.system("sh run.sh")', "run.sh"),
    ('os.execvp("python", ["python", "m.py"])', "m.py"),
    ('json.load(open("p/data/d.txt"))', "p/data/d.txt"),
    ('D = Path(__file__).parent / "data" / "d.txt"\nD.read_text()', "t/data/d.txt"),
    ('open(os.path.join(os.path.dirname(__file__), "data", "d.txt")).read()', "t/data/d.txt"),
    ('np.load("x.npy")', "x.npy"),
    ('Path("vectors/x").read_bytes()', "vectors/x"),
    ('D = Path(__file__).parent\nE = D / "e"\ndef f():\n    return (E / "x.txt").read_text()', "t/e/x.txt"),
    ('if y: D = "p"\nelse:\n    D = "q"\nopen(os.path.join(D, "x"))', "q/x"),
    ('cases = ["p/a.json", "p/b.json"]', "p/b.json"),
    ('for f in (Path(__file__).parent / "data").glob("*.json"): f()', "t/data/a.json"),
    ('os.listdir("v/w")', "v/w/z"),
    ('glob.glob("v/*.json")', "v/a.json"),
]


@pytest.mark.parametrize(("source", "path"), OPENED)
def test_what_is_opened_or_run(source, path):
    assert reached({"t/x.py": source, path: "", "t/other": "", "other": ""}, "t/x.py") == sorted(["t/x.py", path])


def test_what_is_run_is_read_and_what_is_opened_is_not():
    files = {"a.py": "subprocess.run(['python', 'p/m.py']); open('p/n.py')", "p/m.py": "import q", "p/n.py": "import r"}
    assert reached({**files, "q.py": "", "r.py": ""}, "a.py") == ["a.py", "p/m.py", "p/n.py", "q.py"]


@pytest.mark.parametrize("source", ['"""p/no.txt"""', "# p/no.txt", "x = 'no.txt'", "f('see p/no.txt')", "x = '/p/no.txt'"])
def test_what_is_no_path(source):
    assert reached({"x.py": source, "p/no.txt": "", "no.txt": ""}, "x.py") == ["x.py"]


def test_a_computed_file_of_a_told_folder_is_said():
    assert [one.line for one in read(b"D = Path(__file__).parent\nopen(D / 'data' / name)").unresolved] == [2]


def test_circles_and_submodules():
    files = {"a.py": "import b, third.x", "b.py": "import a", "third": ("gitlink",)}
    assert reached(files, "a.py") == ["a.py", "b.py", "third"]
