"""What git is asked for to judge two commits: nothing that lists the tree, the index or the checkout."""

from __future__ import annotations

import os
import shutil

import pytest

from touchgate.gate import cli

DIFF = "diff-tree -r -z --raw --no-abbrev --no-renames --ignore-submodules=none --no-ext-diff --no-textconv --no-relative"


@pytest.fixture
def asked(project, tmp_path):
    """Puts a `git` that notes its arguments in front of the real one; gives what was asked for since, without settings."""
    log, shim = tmp_path / "asked", tmp_path / "shim/git"
    shim.parent.mkdir()
    real = shutil.which("git")
    shim.write_text(f"#!/bin/sh\n{{ printf '%s\\037' \"$@\"; echo; }} >> '{log}'\nexec '{real}' \"$@\"\n")
    shim.chmod(0o755)

    def since():
        lines = log.read_text().splitlines() if log.exists() else []
        log.unlink(missing_ok=True)
        return [" ".join(_without_settings(line.split("\037")[:-1])) for line in lines]

    project.environ["PATH"] = f"{shim.parent}{os.pathsep}{project.environ['PATH']}"
    return since


def _without_settings(words):
    while words[0] in ("-c", "-C"):
        words = words[2:]
    return words


@pytest.fixture
def branches(project):
    """main has moved on since the branch was cut: (merge base, main, the branch's head)."""
    cut = project.git("rev-parse", "HEAD")
    project.write("docs/new.md", "new\n")
    head = project.commit()
    project.git("checkout", "-q", "main")
    project.write("docs/a.md", "changed\n")
    base = project.commit()
    project.git("checkout", "-q", "work")
    return cut, base, head


def listed(cut, base, head):
    return ["cat-file --batch", f"merge-base --all {base} {head}", f"{DIFF} {cut} {head} --"]


def test_of_two_commits_the_index_is_not_read(project, branches, monkeypatch, capsys):
    """Git would read it by itself, whatever it is asked; one that can't be read shows that it does not."""
    _, base, head = branches
    (project.root / ".git/index").write_bytes(b"no index of git's")
    monkeypatch.chdir(project.root)
    assert cli.main([base, head], project.environ) == 0
    said = capsys.readouterr()
    assert (said.out, "everything runs" in said.err) == ("false\n", False)


def test_of_two_commits_only_the_difference_is_asked_for(project, branches, asked, monkeypatch, capsys):
    cut, base, head = branches
    monkeypatch.chdir(project.root)
    assert cli.main([base, head], project.environ) == 0
    assert capsys.readouterr().out == "false\n"
    assert asked() == listed(cut, base, head)


def test_a_touched_lane_asks_for_no_more(project, branches, asked, monkeypatch, capsys):
    cut, base, _ = branches
    project.write("src/a.txt", "changed\n")
    head = project.commit()
    asked()
    monkeypatch.chdir(project.root)
    assert cli.main([base, head], project.environ) == 0
    assert capsys.readouterr().out == "true\n"
    assert asked() == listed(cut, base, head)


def test_doit_asks_for_no_more_where_both_are_named(project, branches, asked):
    cut, base, head = branches
    done = project.doit("--base", base, "--head", head)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.splitlines()[-1].startswith("nothing touched: 2 lanes looked at, 1 path")
    assert asked() == listed(cut, base, head)


def test_a_lane_for_every_folder_reads_trees_by_name(project, branches, asked, monkeypatch, capsys):
    project.write(
        "tasks/each.yml",
        "lanes:\n"
        "  crate-{name}:\n"
        "    each: crates/*\n"
        "    about: the crate {name}\n"
        "    paths: ['{path}/**']\n"
        "    checks:\n"
        "      - command: test -d {path}\n",
    )
    project.write("crates/one/deep/a.rs", "a\n")
    cut = project.commit()
    project.write("docs/more.md", "more\n")
    head = project.commit()
    asked()
    monkeypatch.chdir(project.root)
    assert cli.main([cut, head], project.environ) == 0
    assert capsys.readouterr().out == "false\n"
    # The base is head's parent: no merge base to ask for.
    assert asked() == ["cat-file --batch", f"{DIFF} {cut} {head} --"]
