"""Submodules and worktrees through GitPython."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from touchgate import worktrees
from touchgate.worktrees import Submodule, WorktreeFault


@pytest.fixture
def clone(project, tmp_path, monkeypatch):
    """A shallow clone of the project's branch `work`, which lies two commits ahead of main."""
    for name in list(os.environ):
        if name.startswith("GIT_"):
            monkeypatch.delenv(name)
    for name, value in project.environ.items():
        if name.startswith(("GIT_", "HOME")):
            monkeypatch.setenv(name, value)
    project.commit("second")
    project.commit("third")
    project.git("symbolic-ref", "HEAD", "refs/heads/main")
    folder = tmp_path / "clone"
    project.git("clone", "-q", "--depth=1", "--branch=work", f"file://{project.root}", str(folder))
    return type(project)(folder, project.environ)


def test_a_hook_s_variables_do_not_mislead_it_and_are_left_as_they_were(clone, monkeypatch):
    monkeypatch.setenv("GIT_DIR", "/nowhere")
    monkeypatch.setenv("GIT_INDEX_FILE", "/nowhere/index")
    before = dict(os.environ)
    assert worktrees.submodules(clone.root) == []
    assert dict(os.environ) == before


@pytest.mark.usefixtures("clone")
def test_no_repository(tmp_path):
    with pytest.raises(WorktreeFault, match="is not a git repository"):
        worktrees.submodules(tmp_path)


def test_git_is_missing(clone, tmp_path):
    # GitPython looks for git when it is imported: a process of its own.
    program = (
        "import pathlib, sys\nfrom touchgate import worktrees\n"
        "try: worktrees.submodules(pathlib.Path(sys.argv[1]))\nexcept worktrees.WorktreeFault as fault: print(fault)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, str(clone.root)],
        env={"PATH": str(tmp_path)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == "this needs git on PATH; install it (the package is named git)\n"


def test_submodules(project, clone, tmp_path):
    assert worktrees.submodules(clone.root) == []
    url = f"file://{project.root}"
    clone.git("-c", "protocol.file.allow=always", "submodule", "--quiet", "add", "-b", "main", url, "third/party")
    clone.commit()
    commit = project.git("rev-parse", "main")
    assert worktrees.submodules(clone.root) == [Submodule("third/party", url, commit, is_here=True)]
    other = tmp_path / "other"
    clone.git("clone", "-q", ".", str(other))
    assert worktrees.submodules(other) == [Submodule("third/party", url, commit, is_here=False)]


def test_worktrees(clone, tmp_path):
    folder = tmp_path / "tree"
    worktrees.add_worktree(clone.root, "HEAD", folder)
    assert (folder / "src" / "a.txt").read_text() == "a\n"
    worktrees.remove_worktree(clone.root, folder)
    assert not folder.exists()
    with pytest.raises(WorktreeFault, match="is no commit"):
        worktrees.add_worktree(clone.root, "--orphan", folder)
    with pytest.raises(WorktreeFault, match="can't be removed"):
        worktrees.remove_worktree(clone.root, folder)


def test_git_python_is_imported_here_only_and_late():
    program = "import sys, touchgate.worktrees, touchgate.console, touchgate.gate.cli; print('git' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"
