"""The only module that runs git: whatever the user's configuration, the environment or the names are."""

from __future__ import annotations

import os
import stat
import subprocess
from pathlib import Path

import pytest

from touchgate.gate import checkout, git, process
from touchgate.gate.git import Difference, GitFault, Repository, find_root

ODD_NAMES = (
    b"tab\there",
    b"new\nline",
    b'quote"d',
    b"caf\xe9.cu",
    "é b.cu".encode(),
    b"-rf",
    b":(glob)*.cu",
    b"a;b|c",
    b"back\\slash",
    b"\x1b[31m",
)

HOSTILE = """
[diff]
    external = false
    relative = true
    noprefix = true
    ignoreSubmodules = all
    renames = copies
    orderFile = /nowhere
    mnemonicPrefix = true
    submodule = log
    statGraphWidth = 1
    autoRefreshIndex = false
[color]
    ui = always
    status = always
    diff = always
[core]
    quotePath = true
    fsmonitor = /bin/false
    untrackedCache = true
    checkStat = minimal
    trustctime = false
    ignoreStat = true
    pager = false
    hooksPath = /nowhere
    abbrev = 4
[status]
    showUntrackedFiles = no
    relativePaths = true
    short = true
    branch = true
    showStash = true
    submoduleSummary = true
[log]
    showSignature = true
[alias]
    diff-tree = "!false"
    status = "!false"
    cat-file = "!false"
[submodule]
    recurse = true
[pager]
    status = false
"""


def odd_paths() -> list[str]:
    return [os.fsdecode(name) for name in ODD_NAMES]


@pytest.fixture
def repo(project):
    with Repository(project.root, project.environ) as opened:
        yield opened


@pytest.fixture
def fake_git(tmp_path):
    """Makes an environment whose git is a shell script."""

    def make(script: str) -> dict[str, str]:
        program = tmp_path / "bin" / "git"
        program.parent.mkdir(exist_ok=True)
        program.write_text(f"#!/bin/sh\n{script}\n")
        program.chmod(0o755)
        return {"PATH": str(program.parent)}

    return make


class TestFindRoot:
    def test_from_a_subfolder(self, project):
        assert find_root(project.root / "src") == project.root.resolve()

    def test_in_a_worktree(self, project, tmp_path):
        project.git("worktree", "add", "-q", str(tmp_path / "other"), "main")
        assert find_root(tmp_path / "other" / "src") == (tmp_path / "other").resolve()

    def test_from_inside_the_git_folder_it_is_the_checkout_around(self, project):
        assert find_root(project.root / ".git" / "hooks") == project.root.resolve()

    def test_outside_there_is_none(self, tmp_path):
        assert find_root(tmp_path) is None

    def test_an_empty_folder_named_git_is_no_repository(self, project):
        (project.root / "src" / ".git").mkdir()
        assert find_root(project.root / "src") == project.root.resolve()

    @pytest.mark.parametrize(
        "spoil", ["empty head", "no refs", "no objects", "a head of words", "a file of words", "to nowhere"]
    )
    def test_what_git_does_not_take_for_a_repository_is_none(self, project, spoil):
        dot_git = project.root / "docs" / ".git"
        if spoil in ("a file of words", "to nowhere"):
            dot_git.write_text("hello\n" if spoil == "a file of words" else "gitdir: /nowhere\n")
        else:
            subprocess.run(["git", "init", "-q", str(project.root / "docs")], check=True, env=project.environ)
            if spoil == "empty head":
                (dot_git / "HEAD").write_text("")
            elif spoil == "a head of words":
                (dot_git / "HEAD").write_text("hello\n")
            else:
                folder = dot_git / spoil.removeprefix("no ")
                folder.rename(folder.with_name("moved"))
        assert find_root(project.root / "docs") == project.root.resolve()

    @pytest.mark.parametrize("head", ["branch", "detached", "link", "sha256"])
    def test_every_head_that_git_writes(self, project, tmp_path, head):
        folder = tmp_path / "other"
        options = ["--object-format=sha256"] if head == "sha256" else []
        subprocess.run(["git", "init", "-q", *options, str(folder)], check=True, env=project.environ)
        other = type(project)(folder, project.environ)
        other.commit()
        if head == "link":
            (folder / ".git/HEAD").unlink()
            (folder / ".git/HEAD").symlink_to("refs/heads/main")
        elif head != "branch":
            other.git("checkout", "-q", "--detach")
        assert find_root(folder) == folder.resolve()

    def test_in_a_submodule(self, project):
        project.git("-c", "protocol.file.allow=always", "submodule", "--quiet", "add", str(project.root), "sub")
        assert find_root(project.root / "sub" / "src") == (project.root / "sub").resolve()

    def test_git_is_not_run(self, project, fake_git, monkeypatch):
        monkeypatch.setenv("PATH", fake_git("exit 9")["PATH"])
        assert find_root(project.root / "docs") == project.root.resolve()


class TestEnvironment:
    def test_only_what_reaches_a_remote_or_names_the_configuration_is_handed_on(self):
        kept = {
            "GIT_SSH_COMMAND": "ssh -v",
            "GIT_SSL_NO_VERIFY": "1",
            "GIT_CONFIG_GLOBAL": "/x",
            "HOME": "/h",
            "PATH": "/p",
        }
        dropped = dict.fromkeys(
            [
                "GIT_DIR",
                "GIT_WORK_TREE",
                "GIT_INDEX_FILE",
                "GIT_PREFIX",
                "GIT_OBJECT_DIRECTORY",
                "GIT_ALTERNATE_OBJECT_DIRECTORIES",
                "GIT_COMMON_DIR",
                "GIT_NAMESPACE",
                "GIT_EXTERNAL_DIFF",
                "GIT_CONFIG_PARAMETERS",
                "GIT_CONFIG",
                "GIT_SHALLOW_FILE",
                "GIT_GLOB_PATHSPECS",
                "GIT_ICASE_PATHSPECS",
                "GIT_TRACE",
                "GIT_REPLACE_REF_BASE",
                "GIT_CEILING_DIRECTORIES",
                "GIT_DEFAULT_HASH",
            ],
            "x",
        )
        made = git.environment({**kept, **dropped, "LC_ALL": "de_DE"})
        assert {name: made[name] for name in kept} == kept
        assert not set(dropped) & set(made)
        assert made["LC_ALL"] == "C"
        assert made["GIT_GRAFT_FILE"] == os.devnull

    @pytest.mark.parametrize("name", ["GIT_DIR", "GIT_INDEX_FILE", "GIT_WORK_TREE", "GIT_OBJECT_DIRECTORY"])
    def test_a_hook_s_variable_changes_nothing(self, project, name):
        project.write("src/a.txt", "changed\n")
        with Repository(project.root, {**project.environ, name: "/nowhere"}) as repo:
            assert repo.head() == project.git("rev-parse", "HEAD")
            assert [difference.path for difference in repo.uncommitted()] == ["src/a.txt"]


class TestObjects:
    def test_names_of_a_commit(self, project, repo):
        head = project.git("rev-parse", "HEAD")
        project.git("tag", "-a", "-m", "x", "annotated")
        for name in ("HEAD", "main", "work", "refs/heads/main", "annotated", head, head[:10]):
            assert repo.commit(name).id == head
        assert repo.commit("HEAD").tree == project.git("rev-parse", "HEAD^{tree}")

    @pytest.mark.parametrize(
        "name",
        [
            "",
            "nope",
            "--upload-pack=touch x",
            "-h",
            "HEAD\nHEAD",
            "HEAD:src",
            "main...work",
            "0" * 40,
            "f" * 40,
            "HEAD^9",
            "@{",
            " ",
        ],
    )
    def test_what_is_no_commit_is_none(self, repo, name):
        assert repo.commit(name) is None
        assert repo.commit("HEAD") is not None, "the reader must still be in step"

    def test_a_branch_named_like_a_path_or_with_odd_letters(self, project, repo):
        head = project.git("rev-parse", "HEAD")
        for name in ("src", "docs/a.md", "é", "missing"):
            project.git("branch", name)
            assert repo.commit(name).id == head

    def test_parents(self, project, repo):
        first = project.git("rev-parse", "HEAD")
        second = project.commit()
        assert repo.parents(second) == (first,)
        assert repo.parents(first) == ()
        assert repo.parents("nope") == ()

    def test_the_first_commit_is_still_to_come(self, tmp_path, project):
        subprocess.run(["git", "init", "-q", str(tmp_path / "new")], check=True, env=project.environ)
        with Repository(tmp_path / "new", project.environ) as repo:
            assert repo.head() is None

    def test_a_folder_of_a_commit(self, project, repo):
        project.write("run.sh", "x")
        (project.root / "run.sh").chmod(0o755)
        (project.root / "link").symlink_to("run.sh")
        commit = project.commit()
        assert {name: oct(entry.mode) for name, entry in repo.folder(commit, "").items()} == {
            "docs": "0o40000",
            "lib": "0o40000",
            "link": "0o120000",
            "pyproject.toml": "0o100644",
            "run.sh": "0o100755",
            "src": "0o40000",
            "tasks": "0o40000",
        }
        assert list(repo.folder(commit, "src")) == ["a.txt"]
        assert repo.folder(commit, "none") is None
        assert repo.folder(commit, "run.sh") is None

    def test_contents_arrive_whole_and_in_order(self, project, repo):
        contents = {"empty": b"", "line": b"\n", "binary": bytes(range(256)) * 5000, "zeros": b"\0" * 65536}
        for name, content in contents.items():
            (project.root / name).write_bytes(content)
        commit = project.commit()
        entries = repo.folder(commit, "")
        ids = [entries[name].id for name in contents]
        assert repo.blobs(ids) == list(contents.values())
        assert repo.blobs([ids[2], "0" * 40, ids[1]], limit=10) == [bytes(range(11)), None, b"\n"]
        assert repo.file(commit, "binary") == contents["binary"]
        assert repo.file(commit, "none") is None
        assert repo.file(commit, "src") is None
        assert repo.file(commit, "a\nb") is None

    @pytest.mark.parametrize("lost", ["HEAD^{tree}", "HEAD:src", "HEAD:src/a.txt"])
    def test_a_missing_object_is_not_an_absent_path(self, project, repo, lost):
        oid = project.git("rev-parse", lost)
        (project.root / ".git" / "objects" / oid[:2] / oid[2:]).unlink()
        with pytest.raises(GitFault, match=r"is missing from this clone: fetch it, or clone again"):
            repo.file("HEAD", "src/a.txt")
        if lost != "HEAD^{tree}":
            assert repo.file("HEAD", "src.txt") is None
            assert repo.file("HEAD", "lib/b.txt") == b"b\n"
        if lost != "HEAD:src/a.txt":
            with pytest.raises(GitFault, match="is missing"):
                repo.folder("HEAD", "src")

    def test_an_entry_of_a_commit(self, project, repo):
        (project.root / "link").symlink_to("src")
        commit = project.commit()
        for path, mode in {"src": 0o40000, "src/a.txt": 0o100644, "link": 0o120000}.items():
            entry = repo.entry(commit, path)
            assert (entry.mode, entry.id) == (mode, project.git("rev-parse", f"{commit}:{path}"))
        for path in ("none", "link/a.txt", "src/a.txt/b", "src/", "/src", "", "src//a.txt", "./src", "src/../src"):
            assert repo.entry(commit, path) is None

    def test_sha256(self, tmp_path, project):
        folder = tmp_path / "sha256"
        subprocess.run(["git", "init", "-q", "--object-format=sha256", str(folder)], check=True, env=project.environ)
        other = type(project)(folder, project.environ)
        other.write("a/b", "x")
        first = other.commit()
        other.write("a/c", "y")
        second = other.commit()
        with Repository(folder, project.environ) as repo:
            assert (repo.head(), repo.parents(second)) == (second, (first,))
            assert list(repo.folder(second, "a")) == ["b", "c"]
            assert [(one.path, one.status) for one in repo.diff(first, second)] == [("a/c", "A")]


class TestDiff:
    def test_odd_names_survive_in_commits_and_in_the_checkout(self, project, repo):
        base = project.git("rev-parse", "HEAD")
        for path in odd_paths():
            project.write(path, "x")
        assert sorted(one.path for one in repo.uncommitted()) == sorted(odd_paths())
        head = project.commit()
        assert sorted(one.path for one in repo.diff(base, head)) == sorted(odd_paths())
        for path in odd_paths():
            assert [entry.path for entry in repo.tracked([path])] == [path]

    def test_every_kind_of_change(self, project, repo):
        project.write("mode", "x")
        project.write("gone", "x")
        project.write("old/name", "the same content\n" * 20)
        project.write("becomes_link", "x")
        (project.root / "link").symlink_to("mode")
        base = project.commit()
        (project.root / "mode").chmod(0o755)
        (project.root / "gone").unlink()
        (project.root / "new").mkdir()
        project.git("mv", "old/name", "new/name")
        (project.root / "becomes_link").unlink()
        (project.root / "becomes_link").symlink_to("mode")
        (project.root / "link").unlink()
        (project.root / "link").symlink_to("gone")
        expected = {
            ("becomes_link", "T"),
            ("gone", "D"),
            ("link", "M"),
            ("mode", "M"),
            ("new/name", "A"),
            ("old/name", "D"),
        }
        assert {(one.path, one.status) for one in repo.uncommitted()} == expected
        head = project.commit()
        assert {(one.path, one.status) for one in repo.diff(base, head)} == expected

    def test_objects_and_modes(self, project, repo):
        base = project.git("rev-parse", "HEAD")
        old = project.git("rev-parse", "HEAD:src/a.txt")
        project.write("src/a.txt", "b\n")
        head = project.commit()
        new = project.git("rev-parse", "HEAD:src/a.txt")
        assert repo.diff(base, head) == [Difference("src/a.txt", "M", 0o100644, 0o100644, old, new)]

    def test_a_hostile_configuration_changes_nothing(self, project):
        home = Path(project.environ["HOME"])
        (home / ".gitconfig").write_text(HOSTILE)
        environ = {name: value for name, value in project.environ.items() if not name.startswith("GIT_CONFIG")}
        base = project.git("rev-parse", "HEAD")
        (project.root / "src").rename(project.root / "moved")
        head = project.commit()
        project.write("lib/b.txt", "changed\n")
        project.write("docs/new file.md", "new\n")
        with Repository(project.root, environ) as repo:
            assert [(one.path, one.status) for one in repo.diff(base, head)] == [
                ("moved/a.txt", "A"),
                ("src/a.txt", "D"),
            ]
            assert [(one.path, one.status) for one in repo.uncommitted()] == [
                ("lib/b.txt", "M"),
                ("docs/new file.md", "?"),
            ]
            assert repo.changed_in_worktree(["docs", "lib"]) == {"lib/b.txt", "docs/new file.md"}
            assert repo.merge_bases(base, head) == (base,)

    def test_no_hook_and_no_fsmonitor_is_run(self, project, tmp_path):
        mark = tmp_path / "ran"
        hook = project.root / ".git" / "hooks" / "post-index-change"
        hook.parent.mkdir(exist_ok=True)
        hook.write_text(f"#!/bin/sh\ntouch '{mark}'\n")
        hook.chmod(0o755)
        project.git("config", "core.fsmonitor", str(hook))
        os.utime(project.root / "src/a.txt", (1, 1))
        with Repository(project.root, project.environ) as repo:
            assert repo.uncommitted() == []
        assert not mark.exists()

    def test_grafts_and_replacements_do_not_change_history(self, project, repo):
        first = project.git("rev-parse", "HEAD")
        second = project.commit()
        third = project.commit()
        (project.root / ".git" / "info").mkdir(exist_ok=True)
        (project.root / ".git" / "info" / "grafts").write_text(f"{third}\n")
        project.git("replace", "-f", second, first)
        assert repo.parents(third) == (second,)
        assert repo.merge_bases(second, third) == (second,)
        assert repo.reachable([third], without=[first]) == [third, second]


class TestCheckout:
    def test_nothing_is_written(self, project, repo):
        project.write("src/a.txt", "changed\n")
        os.utime(project.root / "lib/b.txt", (1, 1))

        def state():
            return {
                str(file.relative_to(project.root)): (file.stat().st_mtime_ns, file.stat().st_size)
                for file in (project.root / ".git").rglob("*")
            }

        before = state()
        assert [one.path for one in repo.uncommitted()] == ["src/a.txt"]
        assert repo.changed_in_worktree(["src", "lib"]) == {"src/a.txt"}
        repo.tracked(["src"])
        assert state() == before

    def test_staged_then_changed_back_still_counts(self, project, repo):
        project.write("src/a.txt", "changed\n")
        project.git("add", "-A")
        project.write("src/a.txt", "a\n")
        assert [one.path for one in repo.uncommitted()] == ["src/a.txt"]

    def test_ignored_files_do_not_count(self, project, repo):
        project.write(".gitignore", "*.o\n")
        project.write("src/a.o", "x")
        assert [one.path for one in repo.uncommitted()] == [".gitignore"]

    def test_an_unresolved_merge(self, project, repo):
        project.write("src/a.txt", "one\n")
        project.commit()
        project.git("checkout", "-q", "-b", "other", "main")
        project.write("src/a.txt", "two\n")
        project.commit()
        with pytest.raises(subprocess.CalledProcessError):
            project.git("merge", "work")
        assert [(one.path, one.status) for one in repo.uncommitted()] == [("src/a.txt", "U")]
        assert repo.changed_in_worktree() == {"src/a.txt"}
        assert [entry.stage for entry in repo.tracked(["src/a.txt"])] == [1, 2, 3]
        assert not any(entry.is_trusted for entry in repo.tracked(["src/a.txt"]))

    @pytest.mark.parametrize("mark", ["--assume-unchanged", "--skip-worktree"])
    def test_marks_hide_nothing(self, project, repo, mark):
        project.git("update-index", mark, "src/a.txt", "lib/b.txt")
        project.write("src/a.txt", "changed behind the mark\n")
        assert [(one.path, one.status) for one in repo.uncommitted()] == [("src/a.txt", "M")]
        assert repo.changed_in_worktree() == set(), "the caller looks at the flags instead"
        (entry,) = repo.tracked(["src"])
        assert entry.flags == {mark.removeprefix("--")}
        assert not entry.is_trusted

    @pytest.mark.parametrize("mark", ["--assume-unchanged", "--skip-worktree"])
    def test_nor_do_they_hide_another_kind_or_mode(self, project, repo, mark):
        names = ["exec", "becomes_link", "becomes_folder", "same", "link", "same_link", '"quoted', "end\r", "new\nline"]
        for name in names:
            if name.endswith("link") and name != "becomes_link":
                (project.root / name).symlink_to("target")
            else:
                project.write(name, "x")
        project.commit()
        project.git("update-index", mark, *names)
        assert repo.uncommitted() == []
        (project.root / "exec").chmod(0o755)
        (project.root / "becomes_link").unlink()
        (project.root / "becomes_link").symlink_to("same")
        (project.root / "becomes_folder").unlink()
        (project.root / "becomes_folder").mkdir()
        (project.root / "link").unlink()
        (project.root / "link").symlink_to("elsewhere")
        for name in ('"quoted', "end\r", "new\nline"):
            project.write(name, "changed")
        assert {(one.path, one.status) for one in repo.uncommitted()} == {
            ("exec", "M"),
            ("becomes_link", "T"),
            ("becomes_folder", "T"),
            ("link", "M"),
            ('"quoted', "M"),
            ("end\r", "M"),
            ("new\nline", "M"),
        }
        project.git("config", "core.fileMode", "false")
        assert "exec" not in {one.path for one in repo.uncommitted()}

    def test_a_deleted_file_is_a_change_where_it_was_assumed_unchanged_and_left_out_where_it_was_skipped(self, project, repo):
        project.git("update-index", "--assume-unchanged", "src/a.txt")
        project.git("update-index", "--skip-worktree", "lib/b.txt")
        (project.root / "src/a.txt").unlink()
        (project.root / "lib/b.txt").unlink()
        assert [(one.path, one.status) for one in repo.uncommitted()] == [("src/a.txt", "D")]
        assert repo.left_out("src/a.txt") is None
        assert repo.left_out("lib/b.txt").blob == project.git("rev-parse", "HEAD:lib/b.txt")
        assert [entry.path for entry in repo.left_out_in("lib")] == ["lib/b.txt"]
        project.git("update-index", "--assume-unchanged", "lib/b.txt")
        repo.uncommitted()
        assert repo.left_out("lib/b.txt") is not None, "both marks: a sparse checkout did leave it out"

    def test_a_person_s_own_ignored_files_are_not_ignored(self, project, tmp_path):
        (tmp_path / "ignore").write_text("*.cu\n")
        home = Path(project.environ["HOME"])
        (home / ".gitconfig").write_text(f"[core]\nexcludesFile = {tmp_path / 'ignore'}\n")
        (home / ".config" / "git").mkdir(parents=True)
        (home / ".config" / "git" / "ignore").write_text("*.cuh\n")
        project.write("src/a.cu", "x")
        project.write("src/a.cuh", "x")
        project.write("src/a.o", "x")
        (project.root / ".git" / "info" / "exclude").write_text("*.o\n")
        environ = {name: value for name, value in project.environ.items() if not name.startswith(("GIT_CONFIG", "XDG_"))}
        with Repository(project.root, environ) as repo:
            assert [one.path for one in repo.uncommitted()] == ["src/a.cu", "src/a.cuh"]

    def test_names_are_hashed_as_they_are(self, project, repo):
        names = ['"a"', '"', '"\\101', "A", "a\nb", "a\r", "back\\slash", "caf\udce9", '"caf\udce9\n']
        for number, name in enumerate(names):
            project.write(name, str(number))
        assert [project.git("hash-object", "--", name) for name in names] == repo.hash_files(names)

    def test_a_sparse_checkout_is_no_change(self, project, repo):
        project.git("sparse-checkout", "set", "docs")
        assert not (project.root / "src").exists()
        assert repo.uncommitted() == []

    def test_tracked(self, project, repo):
        assert [entry.path for entry in repo.tracked()] == sorted(project.git("ls-files").split("\n"))
        assert [entry.path for entry in repo.tracked(["src", "docs/a.md", "src/a.txt"])] == ["docs/a.md", "src/a.txt"]
        assert repo.tracked([]) == []
        assert repo.tracked(["sr*", ":(glob)**", ":/", "none"]) == []
        (entry,) = repo.tracked(["src"])
        assert (entry.mode, entry.stage, entry.flags, entry.is_trusted) == (0o100644, 0, frozenset(), True)
        assert entry.blob == project.git("rev-parse", "HEAD:src/a.txt")

    def test_more_paths_than_a_command_line_holds(self, project, repo, monkeypatch):
        monkeypatch.setattr(checkout, "_ARGUMENT_BYTES", 20)
        project.write("src/a.txt", "changed\n")
        paths = ["src", "src/a.txt", "lib/b.txt", "docs"]
        assert [entry.path for entry in repo.tracked(paths)] == ["lib/b.txt", "src/a.txt", "docs/a.md"]
        assert repo.changed_in_worktree(paths) == {"src/a.txt"}

    def test_a_worktree_has_its_own_head_and_shares_the_rest(self, project, tmp_path):
        project.git("worktree", "add", "-q", str(tmp_path / "other"), "main")
        with Repository(tmp_path / "other", project.environ) as repo:
            assert repo.common_dir.resolve() == (project.root / ".git").resolve()
            assert repo.git_dir.resolve() == (project.root / ".git" / "worktrees" / "other").resolve()
            assert repo.uncommitted() == []


class TestFaults:
    def test_git_is_missing(self, project, tmp_path):
        with Repository(project.root, {"PATH": str(tmp_path)}) as repo:
            with pytest.raises(GitFault, match=r"^git is not on PATH; install it"):
                repo.head()
            with pytest.raises(GitFault, match=r"^git is not on PATH; install it"):
                repo.uncommitted()

    def test_no_repository(self, tmp_path, project):
        with Repository(tmp_path, project.environ) as repo, pytest.raises(GitFault) as fault:
            repo.head()
        assert str(fault.value) == f"{tmp_path} is not a git repository; run touchgate inside a clone"

    def test_a_bare_repository(self, tmp_path, project):
        bare = tmp_path / "bare.git"
        project.git("clone", "-q", "--bare", ".", str(bare))
        with Repository(bare, project.environ) as repo, pytest.raises(GitFault) as fault:
            repo.uncommitted()
        assert str(fault.value) == f"{bare} is a bare repository, it has no files; run touchgate inside a checkout"

    def test_somebody_else_s_repository(self, project, fake_git):
        environ = fake_git("echo \"fatal: detected dubious ownership in repository at '/x'\" >&2; exit 128")
        expected = (
            f"git refuses {project.root}, which belongs to another user; if you trust it: "
            f"git config --global --add safe.directory {project.root}"
        )
        with Repository(project.root, environ) as repo:
            for ask in (repo.head, repo.uncommitted):
                with pytest.raises(GitFault) as fault:
                    ask()
                assert str(fault.value) == expected

    def test_an_answer_cut_in_the_middle(self, project, fake_git):
        environ = fake_git("read name; printf '%s commit 500\\ntree ' 1234567890123456789012345678901234567890")
        with Repository(project.root, environ) as repo, pytest.raises(GitFault, match=r"^git cat-file failed \(0\)"):
            repo.head()

    def test_a_process_that_hangs(self, project, fake_git, monkeypatch):
        monkeypatch.setattr(process, "TIME_LIMIT", 0.2)
        environ = {"PATH": f"{fake_git('exec sleep 60')['PATH']}:{os.environ['PATH']}"}
        with Repository(project.root, environ) as repo:
            with pytest.raises(GitFault, match="did not answer within"):
                repo.head()
            with pytest.raises(GitFault, match="did not end within"):
                repo.uncommitted()

    def test_a_talkative_process_does_not_stall(self, project, fake_git):
        chatter = "i=0; while [ $i -lt 20000 ]; do echo warning: blah >&2; i=$((i+1)); done"
        text = f"read name; {chatter}; echo $name missing; read x"
        with Repository(project.root, fake_git(text)) as repo:
            assert repo.commit("x") is None

    def test_git_s_own_first_line_is_told(self, project, fake_git):
        environ = fake_git("echo 'hint: no' >&2; echo 'fatal: bad index file' >&2; exit 128")
        with Repository(project.root, environ) as repo, pytest.raises(GitFault) as fault:
            repo.uncommitted()
        assert str(fault.value) == "git status failed (128): fatal: bad index file"

    def test_after_a_fault_the_next_question_is_answered(self, project):
        with Repository(project.root, project.environ) as repo:
            assert repo.head()
            repo._objects._git.process.kill()
            repo._objects._git.process.wait()
            with pytest.raises(GitFault):
                repo.head()
            assert repo.head() == project.git("rev-parse", "HEAD")


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_a_read_only_git_folder(project):
    folders = [folder for folder in (project.root / ".git").rglob("*") if folder.is_dir()]
    project.write("src/a.txt", "changed\n")
    try:
        for folder in (*folders, project.root / ".git"):
            folder.chmod(stat.S_IRUSR | stat.S_IXUSR)
        with Repository(project.root, project.environ) as repo:
            assert [one.path for one in repo.uncommitted()] == ["src/a.txt"]
    finally:
        for folder in (project.root / ".git", *folders):
            folder.chmod(0o755)


def test_an_empty_home(project):
    environ = {**project.environ, "HOME": ""}
    del environ["GIT_CONFIG_GLOBAL"]
    with Repository(project.root, environ) as repo:
        assert repo.head() == project.git("rev-parse", "HEAD")
        assert repo.uncommitted() == []


def test_an_interrupt_that_git_got_first_is_ours_too(project):
    """Ctrl-C reaches every process of the terminal: that git is dead already is no fault of the repository's."""
    with Repository(project.root, project.environ) as repo:
        repo.head()
        os.kill(repo._objects._git.process.pid, 2)
        repo._objects._git.process.wait()
        with pytest.raises(KeyboardInterrupt):
            repo.commit("main")
