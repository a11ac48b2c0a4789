"""Content ids: equal content, equal id; git's index is believed only where it can't be wrong."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from touchgate.gate.git import Repository
from touchgate.gate.model import At, DeviceWish, Lane, PathPattern
from touchgate.results import contents
from touchgate.results.contents import Contents, ContentsFault

folds = pytest.mark.skipif(sys.platform == "darwin", reason="its file systems fold case and refuse such names")
HERE = At("tasks/x.yml", 1, 1)


def lane(name: str, *patterns: str) -> Lane:
    paths = tuple(PathPattern(text, HERE) for text in patterns)
    return Lane(name, "", paths, (), ("smoke",), DeviceWish(), 30, 60, (), (), HERE)


def blob(text: bytes, mode: str = "100644") -> str:
    import hashlib

    return f"{mode}:{hashlib.sha1(b'blob %d' % len(text) + bytes(1) + text).hexdigest()}"


A, B = blob(b"a\n"), blob(b"b\n")


def look(project, *patterns: str) -> dict[str, str]:
    with Repository(project.root, project.environ) as repository:
        return Contents(repository).files([lane("one", *patterns)])["one"]


def ids(project, *paths: str) -> dict[str, str]:
    with Repository(project.root, project.environ) as repository:
        return Contents(repository).of(paths)


@pytest.fixture
def hashed(monkeypatch) -> list[str]:
    """The paths whose file was read."""
    read: list[str] = []
    real = contents._Hasher._file

    def note(self, file, path):
        read.append(path)
        return real(self, file, path)

    monkeypatch.setattr(contents._Hasher, "_file", note)
    return read


def test_a_clean_file_is_known_from_the_index_without_reading_it(project, hashed):
    assert look(project, "src/**", "lib/**") == {"lib/b.txt": B, "src/a.txt": A}
    assert ids(project, "src/a.txt") == {"src/a.txt": A}
    assert hashed == []


def test_several_lanes_are_answered_at_once(project):
    with Repository(project.root, project.environ) as repository:
        found = Contents(repository).files([lane("a", "src/**"), lane("b", "**", "!src/**", "!*.toml"), lane("c", "x")])
    assert found["a"] == {"src/a.txt": A}
    assert sorted(found["b"]) == ["docs/a.md", "lib/b.txt", "tasks/lanes.yml"]
    assert found["c"] == {}


def test_edited_staged_untracked_and_deleted_files_count_as_they_lie_there(project):
    project.write("src/a.txt", "b\n")
    project.write("src/new.txt", "a\n")
    project.write("src/staged.txt", "a\n")
    project.git("add", "src/staged.txt")
    project.write("src/staged.txt", "b\n")
    (project.root / "lib/b.txt").unlink()
    project.write(".gitignore", "*.log\n")
    project.write("src/ignored.log", "x\n")
    assert look(project, "src/**", "lib/**") == {
        "lib/b.txt": "absent",
        "src/a.txt": B,
        "src/new.txt": A,
        "src/staged.txt": B,
    }


def test_committing_does_not_change_an_id(project):
    project.write("src/a.txt", "new\n")
    project.write("src/more.txt", "more\n")
    before = look(project, "src/**")
    project.commit()
    assert look(project, "src/**") == before


def test_another_clone_and_another_commit_have_the_same_ids(project, tmp_path):
    project.git("clone", "-q", str(project.root), str(tmp_path / "clone"))
    with Repository(tmp_path / "clone", project.environ) as repository:
        cloned = Contents(repository).files([lane("one", "**")])["one"]
    assert cloned == look(project, "**")


@pytest.mark.parametrize("mark", ["--assume-unchanged", "--skip-worktree"])
def test_marks_in_the_index_are_not_believed(project, mark):
    project.git("update-index", mark, "src/a.txt")
    project.write("src/a.txt", "b\n")
    assert look(project, "src/**") == {"src/a.txt": B}
    assert ids(project, "src/a.txt") == {"src/a.txt": B}


def test_intent_to_add_is_no_empty_file(project):
    project.write("src/new.txt", "a\n")
    project.git("add", "-N", "src/new.txt")
    assert look(project, "src/new.txt") == {"src/new.txt": A}


def test_an_edit_of_the_same_size_in_the_same_instant_is_seen(project):
    # Racy: written right after the index, same size, and the old time put back.
    path = project.root / "src/a.txt"
    old = path.stat()
    path.write_text("b\n")
    os.utime(path, ns=(old.st_atime_ns, old.st_mtime_ns))
    assert look(project, "src/**") == {"src/a.txt": B}


@pytest.mark.parametrize(
    ("attributes", "settings"),
    [
        ("*.txt text eol=crlf\n", {}),
        ("*.txt text=auto\n", {}),
        ("*.txt ident\n", {}),
        ("*.txt filter=up\n", {"filter.up.clean": "tr A-Z a-z", "filter.up.smudge": "tr a-z A-Z"}),
        ("", {"core.autocrlf": "true"}),
        ("", {"core.autocrlf": "input"}),
    ],
)
def test_where_git_converts_the_file_itself_is_hashed(project, hashed, attributes, settings):
    for name, value in settings.items():
        project.git("config", name, value)
    if attributes:
        project.write(".gitattributes", attributes)
        project.commit()
    content = b"A\r\n"
    (project.root / "src/a.txt").write_bytes(content)
    project.git("add", "src/a.txt")
    assert look(project, "src/a.txt") == {"src/a.txt": blob(content)}
    assert hashed == ["src/a.txt"]


def test_attributes_that_switch_conversion_off_cost_nothing(project, hashed):
    project.write(".gitattributes", "*.txt -text -filter\n*.txt diff=x\n")
    project.commit()
    assert look(project, "src/**") == {"src/a.txt": A}
    assert hashed == []


def test_the_executable_bit_counts_also_where_git_is_told_to_ignore_it(project):
    project.git("config", "core.fileMode", "false")
    (project.root / "src/a.txt").chmod(0o755)
    assert look(project, "src/**") == {"src/a.txt": blob(b"a\n", "100755")}


def test_a_link_counts_with_its_target_and_what_lies_there(project):
    link = project.root / "src/link"
    link.symlink_to("a.txt")
    project.commit()
    name = blob(b"a.txt", "120000")
    assert look(project, "src/link") == {"src/link": f"{name}:{A}"}
    project.write("src/a.txt", "b\n")
    assert look(project, "src/link") == {"src/link": f"{name}:{B}"}
    link.unlink()
    link.symlink_to("nowhere")
    assert look(project, "src/link") == {"src/link": f"{blob(b'nowhere', '120000')}:absent"}
    link.unlink()
    link.symlink_to("link")
    assert look(project, "src/link") == {"src/link": f"{blob(b'link', '120000')}:absent"}
    link.unlink()
    elsewhere = project.root.parent / "elsewhere"
    elsewhere.mkdir()
    link.symlink_to(elsewhere)
    (elsewhere / "x").write_text("1")
    first = look(project, "src/link")["src/link"]
    (elsewhere / "x").write_text("2")
    assert look(project, "src/link")["src/link"] != first


def test_a_link_to_far_too_much_is_refused(project, monkeypatch):
    monkeypatch.setattr(contents, "MOST_ENTRIES", 3)
    elsewhere = project.root.parent / "elsewhere"
    elsewhere.mkdir()
    for name in "abcd":
        (elsewhere / name).write_text("")
    (project.root / "src/link").symlink_to(elsewhere)
    with pytest.raises(contents.ContentsFault, match=r"^src/link leads to folders with more than 3 entries"):
        look(project, "src/link")


def test_a_link_to_the_folder_around_it_ends(project):
    (project.root / "src/up").symlink_to("..")
    first = look(project, "src/up")["src/up"]
    assert ":folder:" in first
    project.write("lib/b.txt", "changed\n")
    assert look(project, "src/up")["src/up"] != first


def test_explicit_inputs_need_not_be_tracked(project):
    project.write(".gitignore", "gen/\n")
    project.write("gen/x.txt", "a\n")
    found = ids(project, "gen/x.txt", "gen/none", "gen/x.txt/below", "gen", "src/a.txt")
    assert found == {
        "gen/x.txt": A,
        "gen/none": "absent",
        "gen/x.txt/below": "absent",
        "gen": found["gen"],
        "src/a.txt": A,
    }
    assert found["gen"].startswith("folder:")
    project.write("gen/deep/y.txt", "y\n")
    assert ids(project, "gen")["gen"] != found["gen"]


def test_a_folder_or_a_pipe_where_a_file_was_is_a_state(project):
    (project.root / "src/a.txt").unlink()
    os.mkfifo(project.root / "src/a.txt")
    assert look(project, "src/**") == {"src/a.txt": "special:10000"}
    (project.root / "src/a.txt").unlink()
    project.write("src/a.txt/inner", "a\n")
    found = look(project, "src/**")
    assert found["src/a.txt"].startswith("folder:")
    assert found["src/a.txt/inner"] == A


@pytest.mark.parametrize("name", ["a b.txt", "é.txt", "caf\udce9.txt", 'q"\t.txt', "new\nline.txt", "-x.txt", "[a].txt"])
@folds
def test_names_are_bytes(project, name):
    (project.root / "src" / name).write_bytes(b"b\n")
    assert look(project, "src/**") == {"src/a.txt": A, f"src/{name}": B}
    project.commit()
    assert look(project, "src/**") == {"src/a.txt": A, f"src/{name}": B}
    assert ids(project, f"src/{name}") == {f"src/{name}": B}


def test_a_sha256_repository_has_ids_of_that_kind(tmp_path, project):
    root = tmp_path / "wide"
    subprocess.run(["git", "init", "-q", "--object-format=sha256", str(root)], check=True, env=project.environ)
    project.root = root
    project.write("a.txt", "a\n")
    project.commit()
    project.write("b.txt", "a\n")
    found = look(project, "**")
    assert found["a.txt"] == found["b.txt"]
    assert len(found["a.txt"]) == len("100644:") + 64


@pytest.mark.skipif(os.geteuid() == 0, reason="root reads everything")
def test_an_unreadable_file_is_named(project):
    project.write("src/new.txt", "a\n").chmod(0)
    with pytest.raises(ContentsFault, match=r"src/new\.txt can't be read: Permission denied"):
        look(project, "src/**")


def test_a_file_that_can_not_be_opened_is_named(project, monkeypatch):
    def refuse(*_arguments: object) -> str:
        raise PermissionError(13, "Permission denied")

    project.write("src/new.txt", "a\n")
    monkeypatch.setattr(contents._Hasher, "_file", refuse)
    with pytest.raises(ContentsFault, match=r"src/new\.txt can't be read: Permission denied"):
        look(project, "src/**")


def test_a_file_that_grows_while_it_is_read_is_named(project, monkeypatch):
    path = project.write("src/new.txt", "a\n")
    real = os.fstat

    def short(descriptor: int) -> os.stat_result:
        seen = real(descriptor)
        return os.stat_result([*seen[:6], 1, *seen[7:]]) if seen.st_ino == path.stat().st_ino else seen

    monkeypatch.setattr(contents.os, "fstat", short)
    with pytest.raises(ContentsFault, match=r"src/new\.txt changed while it was read"):
        look(project, "src/**")


@folds
def test_names_that_one_file_answers_to_are_refused(project, monkeypatch):
    project.write("src/A.txt", "a\n")
    project.commit()
    assert set(look(project, "src/**")) == {"src/A.txt", "src/a.txt"}
    # On a folding file system only one of the two is there, under one name, and both lead to it.
    (project.root / "src/A.txt").unlink()
    real = Path.lstat
    monkeypatch.setattr(Path, "lstat", lambda self: real(self.with_name("a.txt") if self.name == "A.txt" else self))
    with pytest.raises(ContentsFault, match=r"src/A\.txt and src/a\.txt are one file here"):
        look(project, "src/**")


@folds
def test_hard_links_are_two_files(project):
    os.link(project.root / "src/a.txt", project.root / "src/A.txt")
    assert set(look(project, "src/**")) == {"src/A.txt", "src/a.txt"}


# ---- submodules


@pytest.fixture
def module(project, tmp_path):
    other = tmp_path / "other"
    subprocess.run(["git", "init", "-q", str(other)], check=True, env=project.environ)
    (other / "m.txt").write_text("a\n")
    for words in (["add", "-A"], ["commit", "-q", "-m", "m"]):
        subprocess.run(["git", "-C", str(other), *words], check=True, env=project.environ)
    project.git("-c", "protocol.file.allow=always", "submodule", "add", "-q", str(other), "ext/mod")
    project.commit()
    return project.root / "ext/mod"


def test_a_submodule_counts_with_the_files_in_it(project, module):
    assert look(project, "ext/**") == {"ext/mod/m.txt": A}
    assert look(project, "ext/mod") == {"ext/mod/m.txt": A}
    assert look(project, "ext/mod/*.txt") == {"ext/mod/m.txt": A}
    (module / "m.txt").write_text("b\n")
    (module / "new.txt").write_text("a\n")
    assert look(project, "ext/**") == {"ext/mod/m.txt": B, "ext/mod/new.txt": A}


def test_marks_inside_a_submodule_are_not_believed_either(project, module):
    subprocess.run(["git", "-C", str(module), "update-index", "--assume-unchanged", "m.txt"], check=True, env=project.environ)
    (module / "m.txt").write_text("b\n")
    assert look(project, "ext/**") == {"ext/mod/m.txt": B}


@pytest.mark.usefixtures("module")
def test_a_submodule_that_is_not_checked_out_is_a_state(project):
    project.git("submodule", "deinit", "-q", "-f", "ext/mod")
    (state,) = look(project, "ext/**").values()
    assert state.startswith("folder:")


def test_a_checkout_inside_the_checkout_counts(project):
    inner = project.root / "src/inner"
    subprocess.run(["git", "init", "-q", str(inner)], check=True, env=project.environ)
    (inner / "i.txt").write_text("b\n")
    assert look(project, "src/**") == {"src/a.txt": A, "src/inner/i.txt": B}
