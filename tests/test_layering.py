"""Who imports what, read from the sources: the arrows point one way, and what is heavy is imported late."""

from __future__ import annotations

import ast
import re
import sys
from importlib.metadata import entry_points
from pathlib import Path

import pytest

import touchgate

PACKAGE = Path(touchgate.__file__).parent
MODULES = sorted(PACKAGE.rglob("*.py"))
HEAVY = {"numpy", "git", "gitdb", "filelock", "rich", "pycuda", "pynvml", "psycopg", "doit"}
HEAVY |= {"jsonschema", "hypothesis", "pytest"}

BASIC = {"outcome", "places", "golden", "ladder", "processes"}
LAYERS = {
    # part of the package: the parts that it may import beside itself, while it runs
    **{part: set() for part in ("__init__", "gate", "bundle", *BASIC)},
    **{part: {"gate", *BASIC} for part in ("leases", "devices", "worktrees")},
    "migrate": {"gate"},
    "pinned": {*BASIC},
    "results": {"gate", "devices", *BASIC},
    "benchmarks": {"gate", "devices", *BASIC},
    "checks": {"gate", "results", "leases", "devices", "benchmarks", "pinned", *BASIC},
    "reports": {"gate", "results", "leases", "devices", "checks", *BASIC},
    "adding": {"checks", "pinned", *BASIC},
    "replay": {"gate", "reports", *BASIC},
    "edge": {"*"},
    "console": {"*"},
}

LIGHT = (
    *(
        "__init__",
        "gate/",
        "edge/",
        "results/",
        "reports/",
        "leases/",
        "places",
        "outcome",
        "console",
        "golden",
        "ladder",
        "pinned",
    ),
    *("checks/__init__", "checks/registry"),
)
"""What an untouched or fully cached run imports."""


def name_of(module: Path) -> str:
    return module.relative_to(PACKAGE).with_suffix("").as_posix()


def part_of(module: Path) -> str:
    return name_of(module).partition("/")[0]


class Imports(ast.NodeVisitor):
    """Every import of a module: (top, full name, whether at run time, whether inside a function)."""

    def __init__(self, module: Path) -> None:
        self.package = ["touchgate", *module.relative_to(PACKAGE).parts[:-1]]
        self.found: list[tuple[str, bool, bool]] = []
        self.depth = 0
        self.typing = 0
        self.visit(ast.parse(module.read_text(encoding="utf-8")))

    def add(self, name: str) -> None:
        self.found.append((name, not self.typing, self.depth > 0))

    def visit_Import(self, node: ast.Import) -> None:
        for alias in node.names:
            self.add(alias.name)

    def visit_ImportFrom(self, node: ast.ImportFrom) -> None:
        base = ".".join(self.package[: len(self.package) - node.level + 1]) if node.level else ""
        module = ".".join(part for part in (base, node.module) if part)
        for alias in node.names:
            self.add(f"{module}.{alias.name}")

    def visit_FunctionDef(self, node: ast.FunctionDef) -> None:
        self.depth += 1
        self.generic_visit(node)
        self.depth -= 1

    visit_AsyncFunctionDef = visit_Lambda = visit_FunctionDef  # noqa: N815 - the names that ast looks for

    def visit_If(self, node: ast.If) -> None:
        if ast.unparse(node.test) not in ("TYPE_CHECKING", "typing.TYPE_CHECKING"):
            self.generic_visit(node)
            return
        self.typing += 1
        for child in node.body:
            self.visit(child)
        self.typing -= 1
        for child in node.orelse:
            self.visit(child)

    def visit_Call(self, node: ast.Call) -> None:
        if ast.unparse(node.func) in ("importlib.import_module", "import_module", "__import__"):
            first = node.args[0] if node.args else None
            if isinstance(first, ast.Constant) and isinstance(first.value, str):
                self.add(first.value)
        self.generic_visit(node)


IMPORTS = {module: Imports(module).found for module in MODULES}


def top(name: str) -> str:
    return name.partition(".")[0]


def importers(package: str, *, at_run_time: bool = True) -> set[str]:
    return {
        name_of(module)
        for module, found in IMPORTS.items()
        for name, runs, _ in found
        if top(name) == package and (runs or not at_run_time)
    }


def test_the_sources_are_found():
    assert {"gate/model", "gate/patterns", "gate/plan", "outcome"} <= {name_of(module) for module in MODULES}


def test_the_gate_needs_yaml_and_the_standard_library():
    allowed = {*sys.stdlib_module_names, "yaml"}
    foreign = {
        (name_of(module), name)
        for module, found in IMPORTS.items()
        if part_of(module) == "gate"
        for name, _, _ in found
        if top(name) not in allowed
        and name != "touchgate.gate"
        and not name.startswith("touchgate.gate.")
        # The package's own version is a constant of its __init__, which imports nothing.
        and name != "touchgate.__version__"
    }
    assert foreign == set()


def test_the_package_itself_imports_nothing_heavy():
    """Importing any module imports touchgate/__init__ first."""
    assert {top(name) for name, _, _ in IMPORTS[PACKAGE / "__init__.py"]} <= sys.stdlib_module_names


def test_one_module_of_the_gate_runs_programs():
    """`gate/process`, by what `gate/child` starts for it."""
    assert {name for name in importers("subprocess") if name.startswith("gate/")} == {"gate/process"}
    starters = {name_of(module) for module, found in IMPORTS.items() for name, _, _ in found if ".child." in f"{name}."}
    assert {name for name in starters if name.startswith("gate/")} == {"gate/process"}
    calls = re.compile(r"\bos\.(system|popen|exec\w*|spawn\w*|posix_spawn\w*)\(")
    callers = [name_of(module) for module in MODULES if part_of(module) == "gate" and calls.search(module.read_text())]
    assert callers == ["gate/child"]


def test_pycuda_is_imported_by_one_module():
    assert importers("pycuda", at_run_time=False) <= {"devices/cuda"}


def test_gitpython_is_imported_by_one_module():
    found = importers("git", at_run_time=False)
    assert {name.rpartition("/")[2] for name in found} <= {"worktrees"}
    assert len(found) <= 1


def test_doit_is_imported_at_the_edge():
    assert {name for name in importers("doit", at_run_time=False) if not name.startswith("edge/")} == set()


@pytest.mark.parametrize("part", sorted(LAYERS))
def test_arrows_point_one_way(part):
    allowed = LAYERS[part] | {part, "__init__", "__version__"}
    wrong = {
        (name_of(module), name)
        for module, found in IMPORTS.items()
        if part_of(module) == part and "*" not in allowed
        for name, runs, _ in found
        if runs and name.startswith("touchgate.") and name.split(".")[1] not in allowed
    }
    assert wrong == set()


def test_every_part_has_its_layer():
    """A new folder or module takes a place in the table above."""
    assert {part_of(module) for module in MODULES} - LAYERS.keys() == set()


@pytest.mark.parametrize("module", [module for module in MODULES if name_of(module).startswith(LIGHT)], ids=name_of)
def test_what_is_heavy_is_imported_late(module):
    """doit itself is there already when the edge is imported."""
    heavy = HEAVY - {"doit"} if part_of(module) == "edge" else HEAVY
    early = {name for name, runs, inside in IMPORTS[module] if runs and not inside and top(name) in heavy}
    assert early == set()


def test_the_gate_loads_nothing_else(tmp_path):
    """The same at run time, for all modules of the gate at once: what python loads for them."""
    import subprocess

    names = [f"touchgate.{name_of(module).replace('/', '.')}" for module in MODULES if part_of(module) == "gate"]
    names = [name.removesuffix(".__init__") for name in names]
    code = f"import sys\nfor name in {names!r}: __import__(name)\nprint(sorted(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=tmp_path)
    loaded = {top(name) for name in ast.literal_eval(done.stdout)}
    assert loaded & HEAVY == set()
    assert {name for name in loaded if name in ("touchgate", "yaml")} == {"touchgate", "yaml"}


def test_the_gate_knows_the_kinds_of_checks_as_they_are():
    """It imports none of them, so it holds their names and keys as data."""
    from touchgate.checks import registry
    from touchgate.gate import kinds

    known = registry.KnownOptions()
    assert {name: set(keys) for name, keys in kinds.OPTIONS.items()} == {name: set(known[name]) for name in registry.OWN}
    assert kinds.GROUP == registry.GROUP


def test_the_gate_knows_the_commands_of_doit_as_they_are():
    """No lane is called like one, and where doit is not installed that is known all the same."""
    from doit.doit_cmd import DoitMain

    from touchgate.gate.check_declarations import COMMANDS

    assert set(DoitMain().get_cmds()) >= COMMANDS
    ours = {point.name for point in entry_points(group="doit.COMMAND") if point.value.startswith("touchgate.")}
    assert {*(command.get_name() for command in DoitMain.DOIT_CMDS), *ours} == COMMANDS


def test_the_reading_of_imports(tmp_path, monkeypatch):
    """The reader itself: it sees late, typing-only, relative and computed imports."""
    monkeypatch.setitem(globals(), "PACKAGE", tmp_path)
    module = tmp_path / "gate" / "x.py"
    module.parent.mkdir()
    lines = [
        "from typing import TYPE_CHECKING",
        "import a.b",
        "if TYPE_CHECKING:",
        "    import c",
        "else:",
        "    import d",
        "from . import e",
        "from ..f import g",
        "def h():",
        "    import i",
        "    import importlib",
        "    importlib.import_module('j')",
    ]
    module.write_text("\n".join(lines))
    assert Imports(module).found == [
        ("typing.TYPE_CHECKING", True, False),
        ("a.b", True, False),
        ("c", False, False),
        ("d", True, False),
        ("touchgate.gate.e", True, False),
        ("touchgate.f.g", True, False),
        ("i", True, True),
        ("importlib", True, True),
        ("j", True, True),
    ]
