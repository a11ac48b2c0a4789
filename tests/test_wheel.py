"""The wheel in an empty virtual environment, over a repository that has never heard of us."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import venv
from importlib.metadata import distribution
from pathlib import Path

import pytest

from tests.conftest import Project, clean_environment

ROOT = Path(__file__).resolve().parent.parent
NEEDED = ("doit", "PyYAML", "GitPython", "gitdb", "smmap", "filelock", "numpy", "tomli", "cloudpickle")

pytestmark = pytest.mark.slow


def lend(folder: Path) -> None:
    """Links to the dependencies that are installed here, so that no package index is asked; touchgate is not among them."""
    folder.mkdir()
    for name in NEEDED:
        try:
            files = distribution(name).files or []
        except ModuleNotFoundError:
            continue  # tomli is there on Python 3.10 only, cloudpickle by chance
        site = Path(str(distribution(name).locate_file("")))
        for top in {Path(str(file)).parts[0] for file in files} - {"..", "__pycache__"}:
            link = folder / top
            if not link.exists():
                link.symlink_to(site / top)


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The bin folder of a virtual environment with our wheel in it."""
    folder = tmp_path_factory.mktemp("wheel")
    source = folder / "source"
    # A copy: building writes beside the sources.
    subprocess.run(["git", "clone", "-q", str(ROOT), str(source)], check=True)
    overlay = subprocess.run(["git", "diff", "HEAD", "--binary"], cwd=ROOT, check=True, capture_output=True).stdout
    if overlay:
        subprocess.run(["git", "apply"], cwd=source, input=overlay, check=True)
    build = [sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "--no-build-isolation", "-w", str(folder), str(source)]
    subprocess.run(build, check=True, env={**os.environ, "PYTHONWARNINGS": "ignore"})
    (wheel,) = folder.glob("touchgate-*.whl")
    venv.create(folder / "venv", with_pip=False, symlinks=True)
    lend(folder / "lent")
    (site,) = (folder / "venv" / "lib").glob("python*/site-packages")
    (site / "lent.pth").write_text(f"{folder / 'lent'}\n")
    pip = [sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--no-index"]
    # Without this, pip would first remove the touchgate that runs these tests.
    install = [*pip, "--ignore-installed", "--prefix", str(folder / "venv")]
    subprocess.run([*install, str(wheel)], check=True)
    for script in ("touchgate",):
        path = folder / "venv" / "bin" / script
        text = path.read_text().splitlines()
        path.write_text("\n".join([f"#!{folder}/venv/bin/python", *text[1:]]) + "\n")
    return folder / "venv" / "bin"


def test_a_foreign_repository_with_three_lines_of_lane_and_two_of_settings(tmp_path: Path, installed: Path) -> None:
    home = tmp_path / "home"
    home.mkdir()
    foreign = Project(tmp_path / "foreign", clean_environment(home))
    foreign.root.mkdir()
    foreign.git("init", "-q", "-b", "main")
    foreign.write("src/a.c", "int a;\n")
    foreign.write("Makefile", "test:\n\ttest -s src/a.c\n")
    foreign.commit()

    def doit(*arguments: str) -> subprocess.CompletedProcess[str]:
        command = [str(installed / "python"), "-m", "doit", *arguments]
        return subprocess.run(command, cwd=foreign.root, env=foreign.environ, capture_output=True, text=True, check=False)

    begun = doit("lanes", "init")
    assert (begun.returncode, begun.stderr) == (0, "")
    assert (foreign.root / "tasks/lanes.yml").read_text() == (
        "lanes:\n  tests:\n    {about: the tests, paths: ['**'], checks: [{command: make test}]}\n"
    )
    assert (foreign.root / "pyproject.toml").read_text() == ('[tool.doit]\nloader = "touchgate"\nreporter = "touchgate"\n')
    assert doit("lanes", "init").returncode == 3
    first, second = doit(), doit()
    assert (first.returncode, first.stderr, second.returncode, second.stderr) == (0, "", 0, "")
    assert "passed" in first.stdout
    assert "cached" in second.stdout
    foreign.write("src/a.c", "")
    broken = doit()
    assert broken.returncode == 1
    assert "repeat: doit --fresh tests:command" in broken.stdout
    gate = subprocess.run(
        [str(installed / "touchgate"), "gate", "--json"],
        cwd=foreign.root, env=foreign.environ, capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert json.loads(gate.stdout)["run"] is True


def test_the_wheel_carries_the_emulation_headers_and_type_marker(installed: Path) -> None:
    code = (
        "import touchgate, pathlib; p = pathlib.Path(touchgate.__file__).parent; print(p);"
        "print(sorted(f.name for f in p.iterdir() if f.name == 'py.typed'));"
        "print(any((p / 'devices' / 'emulation').glob('*.h')))"
    )
    done = subprocess.run([str(installed / "python"), "-c", code], capture_output=True, text=True, check=True)
    where, marker, headers = done.stdout.splitlines()
    assert Path(where).is_relative_to(installed.parent)
    assert (marker, headers) == ("['py.typed']", "True")
