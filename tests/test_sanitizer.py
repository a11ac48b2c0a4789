"""Where compute-sanitizer is, and whether it is the one of the toolkit that compiles."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from touchgate.devices import Unavailable, sanitizer
from touchgate.devices.sanitizer import Tool, find, fitting

NVCC = 'case "$1" in --dryrun) echo "#$ TOP={top}" >&2;; *) echo "Cuda compilation tools, release {cuda}, V{cuda}.88";; esac'
TOLD = 'echo "NVIDIA (R) Compute Sanitizer"; echo "Version {version} (build 36400806) (public-release)"'


def program(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return path


def toolkit(home: Path, cuda: str = "13.0", version: str | None = "2025.3.1.0", folder: str = "bin") -> Path:
    """A CUDA toolkit of two scripts; its home."""
    program(home / "bin" / "nvcc", NVCC.format(top=f"{home}/bin/..", cuda=cuda))
    if version is not None:
        program(home / folder / "compute-sanitizer", TOLD.format(version=version))
    return home


@pytest.fixture(autouse=True)
def _no_toolkit_of_this_machine(tmp_path, monkeypatch):
    monkeypatch.setattr("touchgate.devices.nvcc.STANDARD_HOME", str(tmp_path / "standard"))


def of(*folders: Path, **variables: str) -> dict[str, str]:
    return {"PATH": ":".join([*map(str, folders), "/usr/bin", "/bin"]), **variables}


@pytest.mark.parametrize("folder", ["bin", "compute-sanitizer"])
def test_it_is_taken_from_nvcc_s_own_toolkit_first(tmp_path, folder):
    home, other = toolkit(tmp_path / "cuda", folder=folder), toolkit(tmp_path / "other")
    links = tmp_path / "links"
    links.mkdir()
    (links / "nvcc").symlink_to(home / "bin" / "nvcc")
    environ = of(links, other / "bin", CUDA_HOME=str(other))
    assert fitting(environ) == Tool(home / folder / "compute-sanitizer", "2025.3.1.0", "13.0")


def test_then_from_the_named_toolkit_then_the_usual_one_then_path(tmp_path):
    bare = toolkit(tmp_path / "bare", version=None) / "bin"
    homes = [toolkit(tmp_path / name) for name in ("home", "path", "standard")]
    last = program(tmp_path / "bin" / "compute-sanitizer", TOLD.format(version="2025.3.2"))
    environ = of(bare, tmp_path / "bin", CUDA_HOME=str(homes[0]), CUDA_PATH=str(homes[1]))
    for home, variable in zip(homes, ("CUDA_HOME", "CUDA_PATH", ""), strict=True):
        tool = home / "bin" / "compute-sanitizer"
        assert find(environ) == tool
        environ.pop(variable, None)
        tool.unlink()
    assert fitting(environ) == Tool(last, "2025.3.2", "13.0")
    last.chmod(0o644)
    assert find(environ) is None


def test_a_missing_one_names_the_package(tmp_path):
    with pytest.raises(Unavailable) as caught:
        fitting(of(toolkit(tmp_path / "cuda", "12.9", None) / "bin"))
    assert str(caught.value) == (
        "no compute-sanitizer: install cuda-sanitizer-12-9 or the whole CUDA toolkit, "
        "and put it on PATH or its folder into CUDA_HOME"
    )
    assert "cuda-sanitizer-<release of nvcc>" in sanitizer.missing()


def test_without_nvcc_there_is_nothing_to_watch(tmp_path):
    with pytest.raises(Unavailable, match=r"^no nvcc: "):
        fitting({"PATH": str(tmp_path)})


@pytest.mark.parametrize(("version", "cuda"), [("2025.2.1.0", "12.9"), ("2025.4.1.0", "13.1"), ("2024.1.0", "12.4")])
def test_one_of_another_release_does_not_count_wherever_it_lies(tmp_path, version, cuda):
    home = toolkit(tmp_path / "cuda", "13.0", version)
    with pytest.raises(Unavailable) as caught:
        fitting(of(home / "bin"))
    tool = home / "bin" / "compute-sanitizer"
    assert str(caught.value) == f"{tool} {version} is of CUDA {cuda}, nvcc is of 13.0: install cuda-sanitizer-13-0"


def test_one_of_a_release_that_is_not_known_counts_beside_nvcc_alone(tmp_path):
    home = toolkit(tmp_path / "cuda", "14.2", "2029.7.1", folder="compute-sanitizer")
    # A script elsewhere that starts the toolkit's nvcc: where that is, nvcc says.
    wrapper = program(tmp_path / "usr" / "nvcc", f'exec {home}/bin/nvcc "$@"').parent
    tool = home / "compute-sanitizer" / "compute-sanitizer"
    assert fitting(of(wrapper, tool.parent)) == Tool(tool, "2029.7.1", "14.2")
    stray = program(tmp_path / "stray" / "compute-sanitizer", TOLD.format(version="2029.7.1"))
    with pytest.raises(Unavailable, match=rf"^{re.escape(str(stray))} 2029.7.1 lies in no folder of nvcc's toolkit, "):
        fitting(of(wrapper, stray.parent))


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("echo broken >&2; exit 3", "does not work: broken"),
        ("exit 3", "does not work: exit 3"),
        ("echo Version unknown", "does not work: Version unknown"),
        ("exec sleep 60", "does not start: "),
    ],
)
def test_one_that_does_not_tell_its_version_is_none(tmp_path, monkeypatch, text, words):
    monkeypatch.setattr(sanitizer, "TIME_LIMIT", 0.3)
    home = toolkit(tmp_path / "cuda", version=None)
    program(home / "bin" / "compute-sanitizer", text)
    with pytest.raises(Unavailable, match=f"compute-sanitizer {words}"):
        fitting(of(home / "bin"))
