"""Tool versions, and the digest of the package's own code."""

from __future__ import annotations

import ast
import hashlib
import platform
import subprocess
import sys
from pathlib import Path

import pytest

import touchgate
from touchgate.results import tools

PACKAGE = Path(touchgate.__file__).parent


def program(folder: Path, name: str, text: str) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / name
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return path


def digits(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()[:16]


def test_every_known_name_has_an_answer():
    told = tools.versions(tools.KNOWN)
    assert set(told) == set(tools.KNOWN) >= {"python", "numpy", "pycuda", "pytest", "g++", "nvcc", "compute-sanitizer", "sh"}
    assert all(told.values())
    assert told["python"].split()[1] == ".".join(map(str, sys.version_info[:3]))


def test_an_unknown_name_is_an_error():
    with pytest.raises(KeyError):
        tools.versions(["gcc"])


def test_a_compiler_or_emulator_of_another_machine_is_told_by_its_version_and_bytes(tmp_path):
    folder = tmp_path / "bin"
    compiler = program(folder, "s390x-linux-gnu-g++", 'echo "s390x-linux-gnu-g++ 12"; echo more')
    other = program(folder, "qemu-s390x", 'echo "qemu-s390x 8"')
    told = tools.versions(["s390x-linux-gnu-g++", "clang++"], {"PATH": str(folder)})
    assert told == {"s390x-linux-gnu-g++": f"s390x-linux-gnu-g++ 12 {digits(compiler)}", "clang++": "absent"}
    # The static one first, as the device takes them.
    static = program(tmp_path / "more", "qemu-s390x-static", 'echo "qemu-s390x 7"')
    told = tools.versions(["qemu-s390x"], {"PATH": f"{folder}:{tmp_path / 'more'}"})
    assert told == {"qemu-s390x": f"qemu-s390x 7 {digits(static)}"}
    assert tools.versions(["qemu-s390x"], {"PATH": str(folder)}) == {"qemu-s390x": f"qemu-s390x 8 {digits(other)}"}


def test_cargo_is_asked_with_the_places_of_its_toolchains(tmp_path):
    cargo = program(tmp_path / "bin", "cargo", 'echo "cargo of ${RUSTUP_TOOLCHAIN:-none} in $HOME, $SECRET"')
    environ = {"PATH": f"{tmp_path / 'bin'}:/usr/bin:/bin", "HOME": "/home/me", "RUSTUP_TOOLCHAIN": "beta", "SECRET": "x"}
    assert tools.versions(["cargo"], environ) == {"cargo": f"cargo of beta in /home/me, {digits(cargo)}"}


def test_programs_are_found_through_path_and_asked_once(tmp_path):
    count = tmp_path / "count"
    folder = tmp_path / "bin"
    program(folder, "g++", f'echo x >> {count}; echo "g++ (Own) 99.1"; echo more')
    program(folder, "nvcc", 'echo "nvcc: NVIDIA"; echo "Cuda compilation tools, release 13.0, V13.0.88"; echo "Build 1"')
    environ = {"PATH": f"{folder}:/usr/bin:/bin"}
    for _ in range(2):
        told = tools.versions(["g++", "nvcc"], environ)
    assert told["g++"].startswith("g++ (Own) 99.1 ")
    assert told["nvcc"] == f"Cuda compilation tools, release 13.0, V13.0.88 Build 1 {digits(folder / 'nvcc')}"
    assert count.read_text() == "x\n"


def test_an_nvcc_outside_of_path_is_asked_where_it_is_taken_from(tmp_path):
    (tmp_path / "cuda").mkdir()
    program(tmp_path / "cuda" / "bin", "nvcc", 'echo "release 12.9, V12.9.1"; echo "Build 2"')
    environ = {"PATH": "/nowhere", "CUDA_HOME": str(tmp_path / "cuda")}
    assert tools.versions(["nvcc"], environ) == {
        "nvcc": f"release 12.9, V12.9.1 Build 2 {digits(tmp_path / 'cuda' / 'bin' / 'nvcc')}"
    }


def test_compute_sanitizer_is_asked_where_it_is_taken_from_and_told_by_version_build_and_bytes(tmp_path, monkeypatch):
    monkeypatch.setattr("touchgate.devices.nvcc.STANDARD_HOME", str(tmp_path / "none"))
    environ = {"PATH": "/nowhere", "CUDA_HOME": str(tmp_path / "cuda")}
    told = []
    for count in range(2):
        text = f'# {count}\necho "NVIDIA (R) Compute Sanitizer"; echo "Version 2025.3.1.0 (build 364)"'
        tool = program(tmp_path / "cuda" / "bin", "compute-sanitizer", text) if count else None
        tools._compute_sanitizer.cache_clear()
        told.append(tools.versions(["compute-sanitizer"], environ)["compute-sanitizer"])
    assert told == ["absent", f"Version 2025.3.1.0 (build 364) {digits(tool)}"]


@pytest.mark.parametrize("environ", [{}, {"CXX": "g++ -m64"}, {"CXX": "launch g++"}, {"CXX": "g++-link"}])
@pytest.mark.parametrize("name", ["g++", "nvcc"])
def test_a_wrapper_that_changes_and_tells_the_same_version_is_another_tool(tmp_path, environ, name):
    told = []
    for count in range(2):
        for tool in ("g++", "nvcc"):
            program(
                tmp_path / "bin", tool, f'# {count if tool == name else 0}\necho "g++ 1"; echo "release 1"; echo "Build 1"'
            )
        program(tmp_path / "bin", "launch", 'exec "$@"')
        if not (tmp_path / "bin" / "g++-link").is_symlink():
            (tmp_path / "bin" / "g++-link").symlink_to("g++")
        tools._gxx.cache_clear()
        tools._nvcc.cache_clear()
        told.append(tools.versions(["g++", "nvcc"], {"PATH": f"{tmp_path / 'bin'}:/usr/bin:/bin", **environ}))
    assert [tool for tool in ("g++", "nvcc") if told[0][tool] != told[1][tool]] == [name]


def test_a_large_program_is_told_by_its_version_alone(tmp_path, monkeypatch):
    monkeypatch.setattr(tools, "LARGEST_PROGRAM", 10)
    program(tmp_path / "bin", "g++", 'echo "g++ 1"')
    found = tools.versions(["g++"], {"PATH": str(tmp_path / "bin"), "CXX": ""})["g++"]
    assert found == f"g++ 1 {platform.machine()}"


def test_what_is_missing_is_absent(tmp_path, monkeypatch):
    monkeypatch.setattr("touchgate.devices.nvcc.STANDARD_HOME", str(tmp_path))
    assert tools.versions(["g++", "nvcc", "git"], {"PATH": str(tmp_path)}) == {
        "g++": "absent",
        "nvcc": "absent",
        "git": "absent",
    }


def test_the_first_compiler_that_is_there_is_taken(tmp_path):
    program(tmp_path / "bin", "c++", 'echo "c++ 1"')
    environ = {"PATH": str(tmp_path / "bin")}
    assert tools.versions(["g++"], environ)["g++"].startswith("c++ 1 ")
    program(tmp_path / "bin2", "clang++", 'echo "clang 2"')
    environ = {"PATH": f"{tmp_path / 'bin'}:{tmp_path / 'bin2'}"}
    assert tools.versions(["g++"], environ)["g++"].startswith("clang 2 ")


@pytest.mark.parametrize(
    ("value", "told"),
    [
        ("mine", "mine 3 "),
        ("mine -m64 -O1", "mine 3 "),
        ("not-there", "absent"),
        ("'open", "CXX can't be read: 'open"),
        ("  ", "absent"),
    ],
)
def test_cxx_is_honoured_with_its_flags(tmp_path, value, told):
    program(tmp_path / "bin", "mine", 'echo "mine 3"')
    found = tools.versions(["g++"], {"PATH": str(tmp_path / "bin"), "CXX": value})["g++"]
    assert found.startswith(told)
    assert found.endswith("-m64 -O1") == ("-m64" in value)


def test_a_tool_that_fails_is_there_but_of_unknown_version(tmp_path, monkeypatch):
    program(tmp_path / "bin", "nvcc", "exit 3")
    program(tmp_path / "bin", "g++", "exec sleep 60")
    monkeypatch.setattr(tools, "TIME_LIMIT", 0.2)
    told = tools.versions(["nvcc", "g++"], {"PATH": f"{tmp_path / 'bin'}:/usr/bin:/bin"})
    assert told["nvcc"].startswith("of unknown version (exit 3)")
    assert told["g++"].startswith("of unknown version (")
    assert "timed out" in told["g++"]


def test_a_package_without_metadata_is_of_unknown_version(tmp_path, monkeypatch):
    (tmp_path / "pycuda").mkdir()
    (tmp_path / "pycuda" / "__init__.py").write_text("raise SystemExit('imported')")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(tools.metadata, "version", missing)
    assert tools._package("pycuda")("", "") == "of unknown version"


def missing(name: str) -> str:
    raise tools.metadata.PackageNotFoundError(name)


def test_asking_imports_nothing_heavy():
    code = (
        "import sys; from touchgate.results import tools; tools.versions(tools.KNOWN);"
        "print([name for name in ('numpy', 'pycuda', 'pytest', 'git') if name in sys.modules])"
    )
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert told.stdout == "[]\n"


# ---- the package's own code


@pytest.fixture
def package(tmp_path) -> Path:
    for name, text in {
        "a/x.py": "1",
        "a/deep/y.h": "2",
        "a/__pycache__/x.cpython-311.pyc": "3",
        "one.py": "4",
        "other.py": "5",
    }.items():
        path = tmp_path / "package" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return tmp_path / "package"


def digest(package: Path) -> str:
    tools._digest.cache_clear()
    return tools.package_digest(["a", "one.py", "not there.py"], package)


@pytest.mark.parametrize(
    ("name", "text", "counts"),
    [
        ("a/x.py", "1 ", True),
        ("a/deep/y.h", "", True),
        ("a/new.py", "", True),
        ("one.py", "5", True),
        ("not there.py", "", True),
        ("other.py", "6", False),
        ("a/__pycache__/x.cpython-311.pyc", "7", False),
        ("a/notes.txt", "7", False),
    ],
)
def test_the_digest_follows_the_named_sources(package, name, text, counts):
    before = digest(package)
    (package / name).write_text(text)
    assert (digest(package) != before) == counts


def test_a_moved_file_is_another_digest(package):
    before = digest(package)
    (package / "a" / "x.py").rename(package / "a" / "z.py")
    assert digest(package) != before


def imports(path: Path) -> set[str]:
    """The touchgate modules that a file imports when it runs, wherever in it (not those for the type checker)."""
    found: set[str] = set()

    def walk(node: ast.AST) -> None:
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test):
            for other in node.orelse:
                walk(other)
            return
        if isinstance(node, ast.Import):
            found.update(alias.name for alias in node.names)
        if isinstance(node, ast.ImportFrom) and node.module:
            assert node.level == 0, f"{path}: a relative import"
            found.update(f"{node.module}.{alias.name}" for alias in node.names)
            found.add(node.module)
        for child in ast.iter_child_nodes(node):
            walk(child)

    walk(ast.parse(path.read_text(encoding="utf-8")))
    return {name for name in found if name.split(".")[0] == "touchgate"}


def module_file(name: str) -> Path | None:
    path = PACKAGE.parent.joinpath(*name.split("."))
    for candidate in (path.with_suffix(".py"), path / "__init__.py"):
        if candidate.is_file():
            return candidate
    return None


CANNOT_CHANGE_A_RESULT = {
    "__init__.py": "the version number; a change of behaviour is a change of the code that behaves",
    "places.py": "where things are kept",
    "gate/closure/__init__.py": "it says what the package is, and no more",
    **dict.fromkeys(
        (
            *("gate/git.py", "gate/checkout.py", "gate/find.py", "gate/process.py", "gate/child.py", "gate/records.py"),
            "gate/objects.py",
        ),
        "the base's sources, by ids that stand in the key",
    ),
    **dict.fromkeys(
        ("gate/__init__.py", "gate/located.py", "gate/values.py", "gate/model.py", "processes.py"),
        "whether the host is fit, which is asked before any check",
    ),
    **dict.fromkeys(
        ("gate/listed.py", "gate/shell_words.py", "gate/patterns.py", "gate/automaton.py", "gate/dialect.py", "gate/plan.py"),
        "which files a declaration names: these stand in the key themselves",
    ),
    "results/tools.py": "which names of tools there are, and their versions, which stand in the key themselves",
}


def test_every_import_of_a_kind_that_can_change_a_result_is_in_the_digest():
    todo = [path for part in ("checks", "devices") for path in (PACKAGE / part).rglob("*.py")]
    assert len(todo) > 5
    seen: set[Path] = set()
    while todo:
        path = todo.pop()
        if path in seen:
            continue
        seen.add(path)
        todo += [file for name in imports(path) if (file := module_file(name)) is not None]
    outside = {
        path.relative_to(PACKAGE).as_posix()
        for path in seen
        if not any(path == PACKAGE / part or path.is_relative_to(PACKAGE / part) for part in tools.RESULT_CODE)
    }
    assert outside <= set(CANNOT_CHANGE_A_RESULT), "name it in RESULT_CODE, or here with the reason why not"


def test_the_named_parts_exist():
    assert [part for part in tools.RESULT_CODE if not (PACKAGE / part).exists()] == []
