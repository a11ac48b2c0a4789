"""The lane files of head and of the base branch's tip."""

from __future__ import annotations

import os

import pytest

from touchgate.gate import change, sources
from touchgate.gate.git import GitFault, Repository
from touchgate.gate.located import DeclarationError

LANES = b"lanes: {}\n"


@pytest.fixture
def read(project):
    """Judges the project and reads its lane files, as (head, base); `options` as for `change.resolve`."""

    def make(**options):
        with Repository(project.root, project.environ) as repo:
            found = sources.read(repo, change.resolve(repo, environ={}, **options))
        return found.head, found.base

    return make


@pytest.fixture
def first(project):
    """What the project's lane file holds at first."""
    return (project.root / "tasks/lanes.yml").read_bytes()


def test_yml_and_yaml_directly_in_tasks(project, read, first):
    for name in ("b.yaml", "a.yml", "a.yml.bak", "note.txt", ".hidden.yml", "below/c.yml", "folder.yml/d.yml"):
        project.write(f"tasks/{name}", "lanes: {}\n")
    expected = {"tasks/a.yml": LANES, "tasks/b.yaml": LANES, "tasks/lanes.yml": first}
    assert read() == (expected, {"tasks/lanes.yml": first})
    project.commit()
    assert read(head="HEAD") == (expected, {"tasks/lanes.yml": first})
    assert list(read(head="HEAD")[0]) == sorted(expected)


def test_a_working_tree_counts_with_what_is_uncommitted_and_a_commit_without(project, read, first):
    project.write("tasks/lanes.yml", "lanes: {}\n")
    assert read() == ({"tasks/lanes.yml": LANES}, {"tasks/lanes.yml": first})
    assert read(head="HEAD") == ({"tasks/lanes.yml": first}, {"tasks/lanes.yml": first})


def test_the_base_is_its_branch_s_tip_and_not_the_merge_base(project, read, first):
    project.commit()
    project.git("checkout", "-q", "main")
    project.write("tasks/newer.yml", "lanes: {}\n")
    project.commit()
    project.git("checkout", "-q", "work")
    assert read() == ({"tasks/lanes.yml": first}, {"tasks/lanes.yml": first, "tasks/newer.yml": LANES})


def test_without_a_base_branch_it_is_none(project, read, first):
    project.git("branch", "-m", "main", "trunk")
    assert read() == ({"tasks/lanes.yml": first}, None)


def test_no_folder(project, read, first):
    project.git("rm", "-q", "-r", "tasks")
    assert read() == ({}, {"tasks/lanes.yml": first})
    project.commit()
    assert read(head="HEAD") == ({}, {"tasks/lanes.yml": first})


def test_a_sparse_checkout_does_not_hide_the_lanes_of_a_commit(project, read, first):
    project.git("sparse-checkout", "set", "docs")
    assert not (project.root / "tasks").exists()
    assert read(head="HEAD") == ({"tasks/lanes.yml": first}, {"tasks/lanes.yml": first})


def test_nor_those_of_the_working_tree(project, read, first):
    project.write("tasks/more.yaml", "lanes: {}\n")
    project.write("tasks/gone.yml", "lanes: {}\n")
    project.write("tasks/below/no.yml", "lanes: {}\n")
    project.commit()
    expected = {"tasks/gone.yml": LANES, "tasks/lanes.yml": first, "tasks/more.yaml": LANES}
    project.git("sparse-checkout", "set", "docs")
    assert not (project.root / "tasks").exists()
    assert read()[0] == expected
    project.write("tasks/lanes.yml", "lanes: {}\n")
    assert read()[0] == {**expected, "tasks/lanes.yml": LANES}, "what lies there counts"
    (project.root / "tasks/lanes.yml").unlink()
    project.git("sparse-checkout", "disable")
    (project.root / "tasks/gone.yml").unlink()
    assert read()[0] == {"tasks/lanes.yml": first, "tasks/more.yaml": LANES}, "deleted by hand"
    project.git("update-index", "--skip-worktree", "tasks/gone.yml")
    assert read()[0] == expected
    assert read()[1] == {"tasks/lanes.yml": first}


def test_a_workflow_that_a_sparse_checkout_leaves_out(project):
    project.write("ci/w.yml", "on: push\n")
    project.commit()
    project.git("sparse-checkout", "set", "docs", "tasks")
    with Repository(project.root, project.environ) as repo:
        read_file = sources.head_reader(repo, change.resolve(repo, environ={}))
        assert read_file("ci/w.yml") == b"on: push\n"
        assert read_file("ci/none.yml") is None


@pytest.mark.parametrize("lost", ["main^{tree}", "main:tasks", "main:tasks/lanes.yml"])
def test_missing_objects_are_not_absent_files(project, lost):
    main = project.git("rev-parse", "main")
    project.write("tasks/lanes.yml", "lanes: {}\n")
    project.commit()
    oid = project.git("rev-parse", lost)
    (project.root / ".git" / "objects" / oid[:2] / oid[2:]).unlink()
    with Repository(project.root, project.environ) as repo:
        with pytest.raises(GitFault, match="is missing from this clone"):
            sources.at_commit(repo, main)
        with pytest.raises(GitFault, match="is missing from this clone"):
            sources.commit_reader(repo, main)("tasks/lanes.yml")


class TestRefused:
    @pytest.mark.parametrize("shape", ["file", "folder", "huge"])
    def test_other_files_in_the_same_words(self, project, shape):
        project.write("ci/w.yml", "on: push\n")
        path, why = "link/w.yml", sources._LINK_ABOVE
        if shape == "file":
            (project.root / "ci/link.yml").symlink_to("w.yml")
            path, why = "ci/link.yml", sources._LINK
        elif shape == "folder":
            (project.root / "link").symlink_to("ci")
        else:
            project.write("ci/w.yml", "#" * (sources.LARGEST + 1))
            path, why = "ci/w.yml", sources._HUGE
        project.commit()
        with Repository(project.root, project.environ) as repo:
            local = change.resolve(repo, environ={})
            committed = change.resolve(repo, head="HEAD", base="HEAD", environ={})
            readers = [sources.head_reader(repo, local), sources.head_reader(repo, committed)]
            for reader in (*readers, sources.base_reader(repo, committed)):
                with pytest.raises(DeclarationError) as error:
                    reader(path)
                assert str(error.value) == f"{path}:1:1: {path} is {why}"

    def refuse(self, project, read, expected):
        with pytest.raises(DeclarationError) as error:
            read()
        assert str(error.value) == expected
        project.commit()
        with pytest.raises(DeclarationError) as error:
            read(head="HEAD")
        assert str(error.value) == expected

    def test_links_and_huge_files_all_at_once(self, project, read):
        (project.root / "tasks/a.yml").symlink_to("lanes.yml")
        (project.root / "tasks/b.yml").write_bytes(b"#" * (sources.LARGEST + 1))
        (project.root / "tasks/c.yml").write_bytes(b"#" * sources.LARGEST)
        self.refuse(
            project,
            read,
            f"tasks/a.yml:1:1: tasks/a.yml is {sources._LINK}\n"
            "tasks/b.yml:1:1: tasks/b.yml is larger than 1 MiB, which no lane file is",
        )

    def test_the_folder_is_a_link(self, project, read):
        (project.root / "tasks").rename(project.root / "moved")
        (project.root / "tasks").symlink_to("moved")
        with pytest.raises(DeclarationError, match="tasks is a symbolic link"):
            read()
        project.commit()
        with pytest.raises(DeclarationError, match="tasks is not a folder"):
            read(head="HEAD")

    def test_neither_file_nor_folder(self, project, read):
        os.mkfifo(project.root / "tasks/pipe.yml")
        with pytest.raises(DeclarationError, match=r"tasks/pipe\.yml is not a file"):
            read()

    @pytest.mark.skipif(os.geteuid() == 0, reason="root may read anything")
    def test_no_permission(self, project, read):
        (project.root / "tasks/lanes.yml").chmod(0)
        with pytest.raises(DeclarationError, match=r"tasks/lanes\.yml is a file that can't be read: Permission denied"):
            read()

    def test_in_the_base_they_become_a_text_that_no_reader_takes_for_lanes(self, project, read):
        project.git("checkout", "-q", "main")
        (project.root / "tasks/a.yml").symlink_to("lanes.yml")
        project.commit()
        project.git("checkout", "-q", "work")
        _, base = read()
        assert base["tasks/a.yml"].startswith(b"a symbolic link")


def test_other_files_of_both_sides(project):
    project.write("docs/a.md", "committed\n")
    project.commit()
    project.write("docs/a.md", "uncommitted\n")
    with Repository(project.root, project.environ) as repo:
        local = change.resolve(repo, environ={})
        assert sources.head_reader(repo, local)("docs/a.md") == b"uncommitted\n"
        assert sources.base_reader(repo, local)("docs/a.md") == b"a\n"
        committed = change.resolve(repo, head="HEAD", environ={})
        assert sources.head_reader(repo, committed)("docs/a.md") == b"committed\n"
        for path in ("none", "docs", "a\nb", ""):
            for judged in (local, committed):
                assert sources.head_reader(repo, judged)(path) is None
                assert sources.base_reader(repo, judged)(path) is None
