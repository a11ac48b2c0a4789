"""The lanes of both sides of a change, with real git: what head removed, what the base gained, what can't be read."""

from __future__ import annotations

import pytest

from touchgate.gate import change
from touchgate.gate.declared import read_both
from touchgate.gate.git import Repository

NEW = "lanes:\n  new: {paths: [docs/**], checks: [command: x]}\n"


@pytest.fixture
def declared(project):
    """Judges the project and reads both sides; `options` as for `change.resolve`."""

    def make(**options):
        with Repository(project.root, project.environ) as repo:
            return read_both(repo, change.resolve(repo, environ={}, **options))

    return make


def on_main(project, act):
    """Commit on main, and come back."""
    project.git("checkout", "-q", "main")
    act()
    project.commit("on main")
    project.git("checkout", "-q", "work")


def touch(project, path="docs/new.md"):
    project.write(path, "x")
    project.commit(path)


def test_both_sides_the_same(project, declared):
    touch(project)
    found = declared()
    assert list(found.head) == ["one", "two"]
    assert found.base is found.head
    assert found.gained == frozenset()


@pytest.mark.parametrize("committed", [True, False])
def test_a_lane_that_main_gained_counts_where_the_change_touches_it(project, declared, committed):
    on_main(project, lambda: project.write("tasks/new.yml", NEW))
    touch(project, "src/new.txt")
    assert declared().gained == frozenset()
    touch(project)
    found = declared(base="main", head="HEAD") if committed else declared()
    assert (list(found.head), list(found.base), found.gained) == (["one", "two"], ["one", "two", "new"], {"new"})
    assert found.judged.change.open_reason is None
    project.git("merge", "-q", "--no-edit", "main")
    assert declared().gained == frozenset()


def test_also_where_it_is_touched_through_a_lane_that_it_needs(project, declared):
    on_main(project, lambda: project.write("tasks/new.yml", NEW.replace("checks", "needs: [one], checks")))
    touch(project, "src/new.txt")
    assert declared().gained == {"new"}


@pytest.mark.parametrize("moved_on", [True, False])
def test_a_lane_that_head_removed_was_not_gained(project, declared, moved_on):
    on_main(project, lambda: project.write("tasks/new.yml", NEW))
    project.git("merge", "-q", "--no-edit", "main")
    if moved_on:
        on_main(project, lambda: project.write("lib/more.txt", "x"))
    project.git("rm", "-q", "tasks/new.yml")
    touch(project)
    found = declared()
    assert (list(found.base), found.gained) == (["one", "two", "new"], frozenset())


def test_a_merge_base_whose_lanes_can_t_be_read_shows_no_removal(project, declared):
    on_main(project, lambda: project.write("tasks/broken.yml", "lanes: [\n"))
    project.git("merge", "-q", "--no-edit", "main")
    project.git("rm", "-q", "tasks/broken.yml")
    project.commit()
    on_main(project, lambda: (project.git("rm", "-q", "tasks/broken.yml"), project.write("tasks/new.yml", NEW)))
    touch(project)
    assert declared().gained == {"new"}


def test_head_declares_nothing_and_the_base_does(project, declared):
    project.git("rm", "-q", "-r", "tasks")
    project.commit()
    found = declared()
    assert found.judged.change.open_reason.startswith("head declares no lane, though the base branch's tip does: ")
    assert (found.head, list(found.base), found.gained) == ({}, ["one", "two"], {"one", "two"})


@pytest.mark.parametrize("lost", ["main^{tree}", "main:tasks", "main:tasks/new.yml"])
def test_missing_objects_of_the_base_are_open_with_head_s_lanes(project, declared, lost):
    on_main(project, lambda: project.write("tasks/new.yml", NEW))
    touch(project)
    oid = project.git("rev-parse", lost)
    (project.root / ".git" / "objects" / oid[:2] / oid[2:]).unlink()
    found = declared()
    assert "is missing from this clone" in found.judged.change.open_reason
    assert (list(found.head), found.base, found.judged.change.paths) == (["one", "two"], None, ())


@pytest.mark.parametrize("removed", [True, False])
def test_one_of_several_merge_bases_without_the_lane_is_enough(project, declared, removed):
    """Main gained the lane, and took what the branch had by then; the branch took main's lane, and may have dropped it."""
    touch(project, "src/ours.txt")
    project.git("branch", "left")
    on_main(project, lambda: project.write("tasks/new.yml", NEW))
    project.git("checkout", "-q", "main")
    project.git("merge", "-q", "--no-edit", "left")
    project.git("checkout", "-q", "work")
    project.git("merge", "-q", "--no-edit", "main~1")
    if removed:
        project.git("rm", "-q", "tasks/new.yml")
    touch(project)
    found = declared(base="main", head="HEAD")
    assert len(found.judged.merge_bases) == 2
    assert found.gained == ({"new"} if removed else frozenset())
