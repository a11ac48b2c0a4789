"""Fetching, submodules and worktrees through GitPython, from remotes in the same temporary folder."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from touchgate import fetching
from touchgate.fetching import FetchFault, Submodule


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


def test_a_branch_comes_with_the_whole_history(project, clone):
    told = []
    assert clone.git("rev-list", "--count", "HEAD") == "1"
    fetching.fetch_base(clone.root, "main", told.append)
    assert clone.git("rev-parse", "origin/main") == project.git("rev-parse", "main")
    assert clone.git("merge-base", "origin/main", "HEAD") == project.git("rev-parse", "main")
    assert told[0] == "fetching main from origin"


def test_without_a_name_it_is_the_remote_s_head(project, clone):
    told = []
    fetching.fetch_base(clone.root, None, told.append)
    assert clone.git("rev-parse", "origin/main") == project.git("rev-parse", "main")
    assert told[0] == "fetching main from origin"


@pytest.mark.parametrize("name", ["origin/main", "refs/heads/main", "refs/remotes/origin/main"])
def test_other_spellings_of_a_branch(project, clone, name):
    fetching.fetch_base(clone.root, name, lambda _: None)
    assert clone.git("rev-parse", "origin/main") == project.git("rev-parse", "main")


def test_a_commit_by_its_id(project, clone):
    commit = project.git("rev-parse", "main")
    fetching.fetch_base(clone.root, commit, lambda _: None)
    assert clone.git("cat-file", "-t", commit) == "commit"


def test_a_hook_s_variables_do_not_mislead_it_and_are_left_as_they_were(clone, monkeypatch):
    monkeypatch.setenv("GIT_DIR", "/nowhere")
    monkeypatch.setenv("GIT_INDEX_FILE", "/nowhere/index")
    before = dict(os.environ)
    fetching.fetch_base(clone.root, "main", lambda _: None)
    assert dict(os.environ) == before


@pytest.mark.parametrize("name", ["none", "--upload-pack=touch ran"])
def test_what_can_t_be_fetched_is_one_line(clone, name):
    with pytest.raises(FetchFault) as fault:
        fetching.fetch_base(clone.root, name, lambda _: None)
    assert len(str(fault.value).splitlines()) == 1
    assert name in str(fault.value)
    assert not (clone.root / "ran").exists()


def test_there_is_no_remote(clone):
    clone.git("remote", "remove", "origin")
    with pytest.raises(FetchFault) as fault:
        fetching.fetch_base(clone.root, "main", lambda _: None)
    assert str(fault.value) == "there is no remote named origin to fetch from; add it: git remote add origin URL"


@pytest.mark.usefixtures("clone")
def test_no_repository(tmp_path):
    with pytest.raises(FetchFault, match="is not a git repository"):
        fetching.fetch_base(tmp_path, "main", lambda _: None)


def test_git_is_missing(clone, tmp_path):
    # GitPython looks for git when it is imported: a process of its own.
    program = (
        "import pathlib, sys\nfrom touchgate import fetching\n"
        "try: fetching.submodules(pathlib.Path(sys.argv[1]))\nexcept fetching.FetchFault as fault: print(fault)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, str(clone.root)],
        env={"PATH": str(tmp_path)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == "fetching needs git on PATH; install it (the package is named git)\n"


def test_submodules(project, clone, tmp_path):
    assert fetching.submodules(clone.root) == []
    url = f"file://{project.root}"
    clone.git("-c", "protocol.file.allow=always", "submodule", "--quiet", "add", "-b", "main", url, "third/party")
    clone.commit()
    commit = project.git("rev-parse", "main")
    assert fetching.submodules(clone.root) == [Submodule("third/party", url, commit, is_here=True)]
    other = tmp_path / "other"
    clone.git("clone", "-q", ".", str(other))
    assert fetching.submodules(other) == [Submodule("third/party", url, commit, is_here=False)]


def test_worktrees(clone, tmp_path):
    folder = tmp_path / "tree"
    fetching.add_worktree(clone.root, "HEAD", folder)
    assert (folder / "src" / "a.txt").read_text() == "a\n"
    fetching.remove_worktree(clone.root, folder)
    assert not folder.exists()
    with pytest.raises(FetchFault, match="is no branch and no commit"):
        fetching.add_worktree(clone.root, "--orphan", folder)
    with pytest.raises(FetchFault, match="can't be removed"):
        fetching.remove_worktree(clone.root, folder)


def test_progress_is_told_once_a_tenth():
    told = []
    tenths = fetching._Tenths(told.append)
    for done in range(101):
        tenths.update("received objects", done, 100)
    assert told == [f"received objects {tenth * 10} of 100" for tenth in range(11)]


def test_git_python_is_imported_here_only_and_late():
    program = "import sys, touchgate.fetching, touchgate.console, touchgate.gate.cli; print('git' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"
