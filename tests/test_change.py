"""What is judged, built with real git: base and head, the merge base and its proof, the touched paths."""

from __future__ import annotations

import json
import os
import random
import shutil
import subprocess
from pathlib import Path

import pytest

from touchgate.gate import change, nested
from touchgate.gate.git import GitFault, Repository
from touchgate.gate.model import TouchedPath


def judge(project, environ=None, **options):
    with Repository(project.root, project.environ) as repo:
        return change.resolve(repo, environ=environ or {}, **options)


def touched(judged):
    """The touched paths, and that the change is neither open nor due."""
    assert judged.change.open_reason is None
    assert judged.due is None
    return [path.path for path in judged.change.paths]


def clone(project, folder, *options):
    """A clone over the file protocol, so that --depth counts. Its origin/HEAD is main, where there is one."""
    project.git("clone", "-q", *options, f"file://{project.root}", str(folder))
    made = type(project)(Path(folder), project.environ)
    if made.git("branch", "--remotes", "--list", "origin/main"):
        made.git("remote", "set-head", "origin", "main")
    return made


@pytest.fixture
def event(project, tmp_path):
    """Makes the environment of a GitHub job. sha None: the commit checked out in `at` (the project)."""

    def make(name, payload, at=project, sha=None, **variables):
        path = tmp_path / "event.json"
        path.write_text(json.dumps({"repository": {"default_branch": "main"}, **payload}))
        sha = sha or at.git("rev-parse", "HEAD")
        return {"GITHUB_EVENT_NAME": name, "GITHUB_EVENT_PATH": str(path), "GITHUB_SHA": sha, **variables}

    return make


def pull(head, base="main", sha=None):
    """A pull request's payload, with the sha that its base had when the event was made."""
    return {"pull_request": {"base": {"ref": base, "sha": sha}, "head": {"sha": head}}}


def commit_file(project, name, text="x"):
    project.write(name, text)
    return project.commit(name)


class TestLocal:
    def test_a_branch_is_judged_from_where_it_left_main(self, project):
        base = project.git("rev-parse", "main")
        head = commit_file(project, "src/new.txt")
        project.git("checkout", "-q", "main")
        commit_file(project, "lib/mains_own.txt")
        main = project.git("rev-parse", "main")
        project.git("checkout", "-q", "work")
        judged = judge(project)
        assert judged.change.paths == (TouchedPath("src/new.txt", "A"),)
        assert (judged.change.base, judged.change.head, judged.change.merge_base) == (main, head, base)
        assert judged.change.head_is_worktree
        assert judged.change.proof == "the whole history is here"
        assert judged.change.base_from == "main, the default branch, by the local branch main, as nothing else names it"
        assert judged.change.head_from == "HEAD, with nothing uncommitted"
        project.write("src/more.txt", "x")
        judged = judge(project)
        assert judged.change.paths == (TouchedPath("src/more.txt", "?"), TouchedPath("src/new.txt", "A"))
        assert judged.change.head_from == "HEAD with what is uncommitted"
        assert (judged.base_tip, judged.default_branch, judged.due) == (main, "main", None)

    def test_staged_unstaged_and_untracked_count_sorted_by_path(self, project):
        commit_file(project, "src/committed.txt")
        project.write("src/staged.txt", "x")
        project.git("add", "-A")
        project.write("lib/b.txt", "unstaged")
        project.write("docs/untracked.md", "x")
        (project.root / "docs/a.md").unlink()
        assert judge(project).change.paths == (
            TouchedPath("docs/a.md", "D"),
            TouchedPath("docs/untracked.md", "?"),
            TouchedPath("lib/b.txt", "M"),
            TouchedPath("src/committed.txt", "A"),
            TouchedPath("src/staged.txt", "A"),
        )

    def test_a_clean_checkout_of_the_default_branch_is_due(self, project):
        project.git("checkout", "-q", "main")
        judged = judge(project)
        head = project.git("rev-parse", "HEAD")
        assert judged.due == f"{head[:12]} is already part of main, and nothing else is changed"
        assert (judged.change.base, judged.change.merge_base, judged.change.paths) == (head, head, ())
        project.write("src/a.txt", "dirty")
        assert touched(judge(project)) == ["src/a.txt"]

    def test_behind_the_default_branch_is_part_of_it(self, project):
        project.git("checkout", "-q", "main")
        commit_file(project, "lib/new.txt")
        project.git("checkout", "-q", "--detach", "HEAD~1")
        assert "is already part of main" in judge(project).due

    def test_change_and_revert_touch_nothing(self, project):
        commit_file(project, "src/a.txt", "b\n")
        project.git("revert", "--no-edit", "HEAD")
        judged = judge(project)
        assert touched(judged) == []

    def test_from_a_worktree(self, project, tmp_path):
        commit_file(project, "src/new.txt")
        project.git("worktree", "add", "-q", "--detach", str(tmp_path / "tree"), "HEAD")
        other = type(project)(tmp_path / "tree", project.environ)
        other.write("lib/only_here.txt", "x")
        assert touched(judge(other)) == ["lib/only_here.txt", "src/new.txt"]

    def test_there_is_no_commit_yet(self, tmp_path, project):
        new = type(project)(tmp_path / "new", project.environ)
        new.root.mkdir()
        new.git("init", "-q")
        for environ in ({}, {"GITHUB_EVENT_NAME": "schedule"}, {"TOUCHGATE_HEAD": "HEAD"}):
            judged = judge(new, environ)
            assert judged.change.open_reason
            assert judged.change.head is None
        assert judge(new).change.open_reason == "there is no commit yet"

    def test_git_can_t_be_used(self, project, tmp_path):
        with Repository(project.root, {"PATH": str(tmp_path)}) as repo, pytest.raises(GitFault):
            change.resolve(repo, environ={})

    def test_a_broken_object_store_is_open_with_git_s_words(self, project):
        head = commit_file(project, "src/new.txt")
        tree = project.git("rev-parse", f"{head}^{{tree}}")
        (project.root / ".git" / "objects" / tree[:2] / tree[2:]).unlink()
        judged = judge(project)
        assert judged.change.open_reason.startswith("git diff-tree failed")
        assert judged.change.paths == ()

    def test_names_that_are_not_read_as_utf_8_are_open(self, project, monkeypatch):
        commit_file(project, "src/new.txt")
        monkeypatch.setattr("sys.getfilesystemencoding", lambda: "iso8859-1")
        assert "PYTHONUTF8=1" in judge(project).change.open_reason


class TestDefaultBranch:
    def test_origin_s_head_comes_first(self, project, tmp_path):
        project.git("branch", "-m", "main", "trunk")
        project.git("checkout", "-q", "trunk")
        project.git("branch", "main")
        commit_file(project, "lib/newer.txt")
        made = clone(project, tmp_path / "clone")
        made.git("remote", "set-head", "origin", "trunk")
        made.git("checkout", "-q", "-b", "mine", "origin/main")
        commit_file(made, "src/mine.txt")
        judged = judge(made)
        assert (judged.default_branch, judged.default_branch_from) == ("trunk", "origin/HEAD")
        assert judged.change.base == made.git("rev-parse", "origin/trunk")
        assert judged.change.base_from == "origin/trunk, the default branch, by origin/HEAD"
        assert touched(judged) == ["src/mine.txt"]

    @pytest.mark.parametrize("name", ["main", "master"])
    def test_else_origin_s_main_or_master_and_not_a_stale_local_one(self, project, tmp_path, name):
        project.git("branch", "-m", "main", name) if name != "main" else None
        made = clone(project, tmp_path / "clone")
        made.git("remote", "set-head", "origin", "--delete")
        made.git("branch", "-f", name, "HEAD")
        commit_file(made, "src/mine.txt")
        judged = judge(made)
        assert (judged.default_branch, judged.default_branch_from) == (name, f"origin/{name}, as nothing else names it")

    def test_a_dangling_origin_head_is_passed_over(self, project, tmp_path):
        made = clone(project, tmp_path / "clone")
        made.git("symbolic-ref", "refs/remotes/origin/HEAD", "refs/remotes/origin/gone")
        commit_file(made, "src/mine.txt")
        assert judge(made).default_branch_from == "origin/main, as nothing else names it"

    def test_none_is_open(self, project):
        project.git("branch", "-m", "main", "trunk")
        judged = judge(project)
        assert judged.change.open_reason == "no default branch is known: neither origin/HEAD nor a main or master"
        assert judged.default_branch is None

    def test_the_forge_s_word_wins_and_a_branch_that_is_not_here_is_open(self, project, event):
        environ = event("push", {"repository": {"default_branch": "trunk"}}, GITHUB_REF="refs/heads/work")
        commit_file(project, "src/a.txt", "b")
        environ["GITHUB_SHA"] = project.git("rev-parse", "HEAD")
        judged = judge(project, environ)
        assert judged.default_branch == "trunk"
        assert judged.change.open_reason.startswith("the branch trunk is not in this clone; fetch the whole history")
        project.git("branch", "trunk", "main")
        assert touched(judge(project, environ)) == ["src/a.txt"]


class TestAsked:
    def test_the_command_line_wins_over_everything(self, project, event):
        first = project.git("rev-parse", "main")
        second = commit_file(project, "src/one.txt")
        commit_file(project, "lib/two.txt")
        environ = event("schedule", {}, TOUCHGATE_BASE="HEAD", TOUCHGATE_HEAD="HEAD")
        judged = judge(project, environ, base="main", head="HEAD~1")
        assert touched(judged) == ["src/one.txt"]
        assert (judged.change.base, judged.change.head, judged.base_tip) == (first, second, first)
        assert (judged.change.base_from, judged.change.head_from) == (
            "main, from the command line",
            "HEAD~1, from the command line",
        )
        assert not judged.change.head_is_worktree

    def test_then_the_variables(self, project):
        commit_file(project, "src/one.txt")
        commit_file(project, "lib/two.txt")
        judged = judge(project, {"TOUCHGATE_BASE": "HEAD~1", "TOUCHGATE_HEAD": "HEAD"})
        assert touched(judged) == ["lib/two.txt"]
        assert judged.change.base_from == "HEAD~1, from TOUCHGATE_BASE"
        assert touched(judge(project, {"TOUCHGATE_BASE": "", "TOUCHGATE_HEAD": ""})) == ["lib/two.txt", "src/one.txt"]

    def test_a_base_alone_judges_the_working_tree(self, project):
        commit_file(project, "src/one.txt")
        project.write("docs/dirty.md", "x")
        judged = judge(project, base="HEAD")
        assert touched(judged) == ["docs/dirty.md"]
        assert judged.change.head_is_worktree

    def test_a_head_alone_is_judged_from_the_default_branch_and_dirt_does_not_count(self, project):
        commit_file(project, "src/one.txt")
        commit_file(project, "lib/two.txt")
        project.write("docs/dirty.md", "x")
        assert touched(judge(project, head="HEAD~1")) == ["src/one.txt"]

    def test_a_head_that_is_part_of_the_default_branch_is_due_also_where_it_was_asked_for(self, project):
        commit_file(project, "src/one.txt")
        project.write("docs/dirty.md", "x")
        main = project.git("rev-parse", "main")
        for options in ({"head": "main"}, {"environ": {"TOUCHGATE_HEAD": "main"}}):
            judged = judge(project, **options)
            assert (judged.change.head, judged.change.open_reason) == (main, None)
            assert judged.due == f"{main[:12]} is already part of main, and nothing else is changed"
        assert touched(judge(project, base="main", head="main")) == [], "a base that was asked for is the word"

    @pytest.mark.parametrize("kind", ["head", "base"])
    def test_a_tag_named_like_a_branch_of_another_commit_is_open(self, project, kind):
        first = project.git("rev-parse", "main")
        second = commit_file(project, "src/one.txt")
        project.git("tag", "main", second)
        reason = (
            f"'main' is ambiguous: it stands for refs/tags/main ({second[:12]}) and refs/heads/main ({first[:12]}); "
            "write the one that is meant in full"
        )
        assert judge(project, **{kind: "main"}).change.open_reason == reason
        assert "is ambiguous: it stands for refs/tags/main^0 (" in judge(project, **{kind: "main^0"}).change.open_reason
        assert touched(judge(project, base="refs/heads/main", head="HEAD")) == ["src/one.txt"]
        assert touched(judge(project, base="heads/main", head="HEAD")) == ["src/one.txt"]
        project.git("tag", "-f", "main", first)
        assert touched(judge(project, base="main", head="HEAD")) == ["src/one.txt"], "both name one commit"

    def test_so_is_a_tag_named_like_a_branch_of_origin_alone(self, project, tmp_path):
        commit_file(project, "src/one.txt")
        made = clone(project, tmp_path / "clone")
        made.git("tag", "main", "origin/work")
        made.git("tag", "origin/main", "origin/work")
        for base in ("main", "origin/main"):
            assert f"'{base}' is ambiguous" in judge(made, base=base, head="HEAD").change.open_reason
        assert judge(made).change.base == project.git("rev-parse", "main"), "no tag is taken for the default branch"

    @pytest.mark.parametrize("length", [4, 7, 12, 39])
    @pytest.mark.parametrize("shape", ["refs/heads/{}", "refs/tags/{}", "refs/remotes/origin/{}"])
    def test_an_id_cut_short_that_is_a_ref_s_name_is_ambiguous(self, project, length, shape):
        """Git takes the ref without a word, and the base that was meant is another."""
        first = project.git("rev-parse", "main")
        second = commit_file(project, "src/one.txt")
        short = first[:length]
        assert judge(project, base=short, head="HEAD").change.base == first
        ref = shape.format(short)
        project.git("update-ref", ref, second)
        reason = judge(project, base=short, head="HEAD").change.open_reason
        both = {f"an id that is cut short ({first[:12]})", f"{ref} ({second[:12]})"}
        stands, cure = reason.removeprefix(f"'{short}' is ambiguous: it stands for ").split("; ")
        assert (set(stands.split(" and ")), cure) == (both, "write the one that is meant in full")
        assert "is ambiguous: it stands for " in judge(project, base=f"{short}^0", head="HEAD").change.open_reason
        assert judge(project, base=first, head="HEAD").change.base == first
        assert judge(project, base=ref, head="HEAD").change.base == second
        project.git("update-ref", ref, first)
        assert judge(project, base=short, head="HEAD").change.base == first, "both name one commit"

    def test_a_branch_named_like_an_id_that_is_none_is_a_branch(self, project):
        tip = commit_file(project, "src/one.txt")
        project.git("branch", "deadbeef")
        assert judge(project, base="deadbeef", head="HEAD").change.base == tip

    def test_a_local_branch_behind_origin_s_is_what_its_name_says(self, project, tmp_path):
        commit_file(project, "src/one.txt")
        made = clone(project, tmp_path / "clone", "--branch=work")
        made.git("branch", "main", "origin/work")
        judged = judge(made, base="main", head="HEAD")
        assert (touched(judged), judged.change.base_from) == ([], "main, from the command line")

    def test_a_branch_of_origin_in_a_detached_checkout(self, project, tmp_path):
        commit_file(project, "src/one.txt")
        made = clone(project, tmp_path / "clone")
        made.git("checkout", "-q", "--detach")
        made.git("branch", "-D", "work")
        judged = judge(made, base="main", head="HEAD")
        assert touched(judged) == ["src/one.txt"]
        assert judged.change.base_from == "main, from the command line: origin/main"

    @pytest.mark.parametrize("name", ["none", "--upload-pack=touch ran", "-h", "0" * 40, "src", "a\nb", "main..work"])
    @pytest.mark.parametrize("side", ["base", "head"])
    def test_what_is_no_commit_is_open(self, project, name, side):
        judged = judge(project, **{side: name})
        unknown = "names nothing here: no branch, tag or commit; what only the remote has comes with --fetch"
        why = "is no commit of this clone; fetch it first" if len(name) == 40 else unknown
        assert judged.change.open_reason == f"{name!r} {why}"
        assert judged.change.paths == ()
        assert not (project.root / "ran").exists()

    @pytest.mark.parametrize(
        ("name", "why"),
        [
            ("mian", "; did you mean 'main'?"),
            ("wrok", "; did you mean 'work'?"),
            ("origin/mian", "; did you mean 'origin/main'?"),
            ("v1.0.0", "; did you mean 'v1.0.1'?"),
            ("featur", "; did you mean 'feature'?"),
            ("mian~1", "; did you mean 'main'?"),
            ("main~7", ": main does, but its history has no such commit"),
            ("feature~7", ": feature does, but its history has no such commit"),
        ],
    )
    def test_a_name_that_is_mistyped(self, project, tmp_path, name, why):
        project.git("tag", "v1.0.1")
        project.git("branch", "feature")
        made = clone(project, tmp_path / "clone")
        made.git("branch", "main", "origin/main")
        assert judge(made, base=name).change.open_reason == f"{name!r} names nothing here{why}"
        assert judge(made, base="main", head=name).change.open_reason == f"{name!r} names nothing here{why}"

    def test_branches_named_like_paths(self, project):
        project.git("branch", "src")
        project.git("branch", "docs/a.md", "main")
        commit_file(project, "src/one.txt")
        assert touched(judge(project, base="src")) == ["src/one.txt"]
        assert touched(judge(project, base="docs/a.md", head="work")) == ["src/one.txt"]

    def test_a_base_newer_than_the_fork_point_is_judged_from_the_merge_base(self, project):
        commit_file(project, "src/one.txt")
        project.git("checkout", "-q", "main")
        latest = commit_file(project, "lib/mains.txt")
        project.git("checkout", "-q", "work")
        assert touched(judge(project, base=latest, head="HEAD")) == ["src/one.txt"]


class TestHistories:
    def test_unrelated(self, project):
        project.git("checkout", "-q", "--orphan", "lonely")
        project.commit()
        assert judge(project).change.open_reason == "base and head have no history in common"

    def test_criss_cross_is_the_union_over_both_merge_bases(self, project):
        commit_file(project, "src/ours.txt")
        project.git("branch", "left")
        project.git("checkout", "-q", "main")
        commit_file(project, "lib/theirs.txt")
        project.git("merge", "-q", "--no-edit", "left")
        project.git("checkout", "-q", "work")
        project.git("merge", "-q", "--no-edit", "main~1")
        commit_file(project, "docs/after.md")
        judged = judge(project)
        assert touched(judged) == ["docs/after.md", "lib/theirs.txt", "src/ours.txt"]
        assert judged.change.proof.startswith("the whole history is here; 2 merge bases")

    def test_a_force_push_counts_from_main_and_not_from_the_old_tip(self, project, event):
        base = project.git("rev-parse", "main")
        before = commit_file(project, "src/old.txt")
        project.git("reset", "-q", "--hard", "main")
        commit_file(project, "lib/new.txt")
        environ = event("push", {"before": before, "forced": True}, GITHUB_REF="refs/heads/work")
        judged = judge(project, environ)
        assert touched(judged) == ["lib/new.txt"]
        assert judged.change.merge_base == base

    def test_a_branch_cut_from_a_branch_that_was_squashed(self, project):
        commit_file(project, "src/one.txt", "squashed\n")
        project.git("checkout", "-q", "main")
        project.write("src/one.txt", "squashed\n")
        project.commit("the branch, squashed")
        project.git("checkout", "-q", "work")
        commit_file(project, "lib/two.txt")
        assert touched(judge(project)) == ["lib/two.txt", "src/one.txt"]

    def test_replaced_and_grafted_commits_are_seen_through(self, project):
        first = project.git("rev-parse", "main")
        one = commit_file(project, "src/one.txt")
        two = commit_file(project, "lib/two.txt")
        project.git("replace", "--graft", two, first)
        (project.root / ".git/info/grafts").write_text(f"{two} {first}\n{one}\n")
        assert touched(judge(project)) == ["lib/two.txt", "src/one.txt"]


class TestShallow:
    def test_the_merge_base_is_believed_where_nothing_above_it_is_cut_off(self, project, tmp_path):
        for number in range(6):
            commit_file(project, f"docs/{number}.md")
        made = clone(project, tmp_path / "clone", "--depth=9", "--no-single-branch", "--branch=work")
        assert judge(made).change.proof == "the whole history is here", "a depth that reaches the root cuts nothing"
        made = clone(project, tmp_path / "other", "--depth=7", "--no-single-branch", "--branch=work")
        commit_file(project, "docs/more.md")
        assert len(touched(judge(made))) == 6

    def shallow(self, project, folder, depth):
        """main and work have moved on from a fork point that lies three commits back, on ten commits of history."""
        project.git("checkout", "-q", "main")
        for number in range(10):
            commit_file(project, "docs/history.md", str(number))
        project.git("checkout", "-q", "-B", "work")
        for name in ("src/one.txt", "src/two.txt", "src/three.txt"):
            commit_file(project, name)
        project.git("checkout", "-q", "main")
        for name in ("lib/one.txt", "lib/two.txt"):
            commit_file(project, name)
        project.git("checkout", "-q", "work")
        return clone(project, folder, f"--depth={depth}", "--no-single-branch", "--branch=work")

    def test_deep_enough(self, project, tmp_path):
        made = self.shallow(project, tmp_path / "clone", 5)
        judged = judge(made)
        assert touched(judged) == ["src/one.txt", "src/three.txt", "src/two.txt"]
        assert judged.change.merge_base == project.git("merge-base", "main", "work")
        assert judged.change.proof == (
            "a shallow clone, but none of the 5 commits above the merge base is cut off from its parents"
        )

    def test_no_common_commit(self, project, tmp_path):
        made = self.shallow(project, tmp_path / "clone", 2)
        judged = judge(made)
        assert judged.change.open_reason == (
            "base and head have no commit in common in this shallow clone; "
            "fetch the whole history (`fetch-depth: 0` in CI, or `git fetch --unshallow`), or give --fetch"
        )
        assert (judged.change.paths, judged.change.merge_base) == ((), None)

    def test_a_merge_base_that_is_too_old_is_not_believed(self, project, tmp_path):
        """Both sides merged an old side branch: git shows that one's tip, exits 0, and hides src/kernel.cu."""
        project.git("checkout", "-q", "main")
        commit_file(project, "src/kernel.cu", "old\n")
        project.git("checkout", "-q", "-b", "side")
        commit_file(project, "docs/side.md")
        project.git("checkout", "-q", "main")
        commit_file(project, "src/kernel.cu", "new\n")
        project.git("checkout", "-q", "-B", "work")
        commit_file(project, "src/kernel.cu", "old\n")
        for branch in ("work", "main"):
            project.git("checkout", "-q", branch)
            for number in range(4):
                commit_file(project, f"docs/{branch}.md", str(number))
            project.git("merge", "-q", "--no-edit", "side")
        made = clone(project, tmp_path / "clone", "--depth=4", "--no-single-branch", "--branch=work")
        shown = made.git("merge-base", "--all", "origin/main", "HEAD")
        assert shown == project.git("rev-parse", "side"), "the situation: git shows one, and the wrong one"
        assert made.git("diff", "--name-only", f"{shown}..HEAD") == "docs/work.md"
        assert "a nearer one may lie behind" in judge(made).change.open_reason
        made.git("fetch", "-q", "--unshallow")
        assert "src/kernel.cu" in touched(judge(made))

    @pytest.mark.parametrize("seed", range(8))
    def test_random_histories(self, project, tmp_path, seed):
        assert compare_random_history(project, tmp_path, seed) in (0, 1)

    @pytest.mark.slow
    def test_many_random_histories(self, project, tmp_path):
        believed = 0
        for seed in range(100, 250):
            made = type(project)(tmp_path / f"made{seed}", project.environ)
            made.root.mkdir()
            made.git("init", "-q", "-b", "main")
            believed += compare_random_history(made, tmp_path / str(seed), seed)
            shutil.rmtree(made.root)
        assert 25 < believed < 150


def compare_random_history(project, folder, seed):
    """Judge a random history in a shallow clone and whole. 1: it was believed, and rightly; 0: open."""
    chance = random.Random(seed)
    lines = ["feature done\n"]
    marks = []
    for mark in range(1, 25):
        parents = chance.sample(marks[-6:], min(len(marks), chance.choice([1, 1, 2]))) if marks else []
        date = 1_700_000_000 + 60 * mark + chance.choice([0, 0, 5000, -5000])
        lines.append(f"commit refs/heads/b{mark}\nmark :{mark}\ncommitter A <a@b> {date} +0000\ndata 1\nx\n")
        lines += [f"from :{parents[0]}\n", *(f"merge :{parent}\n" for parent in parents[1:])] if parents else []
        lines.append(f"M 100644 inline f{chance.randrange(8)}\ndata 1\n{chance.randrange(3)}\n")
        marks.append(mark)
    base, head = chance.sample(marks[-5:], 2)
    lines.append(f"reset refs/heads/base\nfrom :{base}\n\nreset refs/heads/head\nfrom :{head}\n\ndone\n")
    text = "".join(lines).encode()
    subprocess.run(["git", "fast-import", "--quiet", "--force"], input=text, cwd=project.root, env=project.environ, check=True)
    whole = judge(project, base="base", head="head").change
    folder.mkdir(exist_ok=True)
    made = type(project)(folder / "clone", project.environ)
    made.root.mkdir()
    made.git("init", "-q")
    depth = chance.randrange(2, 8)
    refs = ["refs/heads/base:refs/heads/base", "refs/heads/head:refs/heads/head"]
    made.git("fetch", "-q", f"--depth={depth}", f"file://{project.root}", *refs)
    shown = judge(made, base="base", head="head").change
    shutil.rmtree(made.root)
    if shown.open_reason:
        return 0
    assert (shown.merge_base, shown.paths) == (whole.merge_base, whole.paths)
    return 1


class TestEvents:
    @pytest.fixture
    def merge_ref(self, project):
        """A pull request 7 whose branch has one commit; main has landed 18 others since. -> (origin, its head)."""
        frozen = project.git("rev-parse", "main")
        head = commit_file(project, "src/mine.txt")
        project.git("checkout", "-q", "main")
        for number in range(18):
            commit_file(project, f"lib/{number}.txt")
        project.git("checkout", "-q", "--detach", "main")
        project.git("merge", "-q", "--no-edit", "work")
        project.git("update-ref", "refs/pull/7/merge", "HEAD")
        project.git("checkout", "-q", "work")
        return head, frozen

    def checkout(self, project, folder, ref, *options):
        """What actions/checkout does: one ref, detached."""
        made = type(project)(folder, project.environ)
        made.root.mkdir()
        made.git("init", "-q")
        made.git("remote", "add", "origin", f"file://{project.root}")
        made.git("fetch", "-q", *options, "origin", f"+{ref}:refs/remotes/pull/7/merge")
        made.git("checkout", "-q", "--detach", "refs/remotes/pull/7/merge")
        return made

    def test_a_merge_ref_at_depth_two_is_exact(self, project, tmp_path, event, merge_ref):
        head, frozen = merge_ref
        made = self.checkout(project, tmp_path / "made", "refs/pull/7/merge", "--depth=2")
        environ = event("pull_request", pull(head, sha=frozen), at=made, GITHUB_REF="refs/pull/7/merge")
        judged = judge(made, environ)
        assert touched(judged) == ["src/mine.txt"]
        assert judged.change.base == judged.base_tip == project.git("rev-parse", "main")
        assert judged.change.base_from == "main as GitHub merged it: the merge commit's first parent"
        assert judged.change.proof == "base is a parent of head"
        assert not judged.change.head_is_worktree

    def test_a_merge_ref_at_depth_one_is_open_with_the_cure(self, project, tmp_path, event, merge_ref):
        made = self.checkout(project, tmp_path / "made", "refs/pull/7/merge", "--depth=1")
        environ = event("pull_request", pull(merge_ref[0]), at=made, GITHUB_REF="refs/pull/7/merge")
        reason = judge(made, environ).change.open_reason
        assert reason.startswith("the branch main is not in this clone; fetch the whole history")
        assert reason.endswith("with `fetch-depth: 2` the merge commit's first parent would do")

    def test_the_head_ref_with_the_whole_history(self, project, tmp_path, event, merge_ref):
        head, frozen = merge_ref
        made = clone(project, tmp_path / "made", "--branch=work")
        environ = event("pull_request", pull(head, sha=frozen), at=made, GITHUB_REF="refs/pull/7/head", GITEA_ACTIONS="true")
        judged = judge(made, environ)
        assert touched(judged) == ["src/mine.txt"]
        assert judged.change.base_from == "origin/main, the target branch, for Gitea's pull_request event"

    @pytest.mark.usefixtures("merge_ref")
    def test_the_author_s_own_merge_commit_is_not_taken_for_the_forge_s(self, project, event):
        project.git("merge", "-q", "--no-edit", "main")
        head = project.git("rev-parse", "HEAD")
        assert project.git("diff", "--name-only", "HEAD^1", "HEAD").split("\n")[0].startswith("lib/")
        for ref in ("refs/pull/7/merge", "refs/pull/7/head"):
            judged = judge(project, event("pull_request", pull(head), GITHUB_REF=ref))
            assert touched(judged) == ["src/mine.txt"]

    def test_the_frozen_base_sha_alone_is_not_enough(self, project, tmp_path, event, merge_ref):
        head, frozen = merge_ref
        made = self.checkout(project, tmp_path / "made", "refs/heads/work")
        assert made.git("cat-file", "-t", frozen) == "commit"
        judged = judge(made, event("pull_request", pull(head, sha=frozen), at=made, GITHUB_REF="refs/pull/7/head"))
        assert judged.change.open_reason.startswith("the branch main is not in this clone")

    def test_another_commit_checked_out_is_open(self, project, event, merge_ref):
        environ = event("pull_request", pull(merge_ref[0]), sha=merge_ref[0])
        project.git("checkout", "-q", "main")
        assert (
            "is not the one that GitHub's pull_request event started this run for"
            in judge(project, environ).change.open_reason
        )

    def test_pull_request_target_is_judged_by_its_head(self, project, event, merge_ref):
        head, _ = merge_ref
        project.git("checkout", "-q", "main")
        environ = event("pull_request_target", pull(head))
        judged = judge(project, environ)
        assert touched(judged) == ["src/mine.txt"]
        assert judged.change.head == head
        project.git("checkout", "-q", "work")
        assert touched(judge(project, environ)) == ["src/mine.txt"]
        missing = judge(project, event("pull_request_target", pull("7" * 40)))
        assert "is not in this clone" in missing.change.open_reason

    def test_uncommitted_files_of_a_job_do_not_count(self, project, event):
        commit_file(project, "src/mine.txt")
        project.write("docs/built.md", "x")
        assert touched(judge(project, event("push", {}, GITHUB_REF="refs/heads/work"))) == ["src/mine.txt"]

    def test_a_push_of_several_commits_and_a_merge_at_the_tip(self, project, event):
        commit_file(project, "src/kernel.cu")
        commit_file(project, "docs/one.md")
        project.git("checkout", "-q", "-b", "side", "main")
        commit_file(project, "docs/side.md")
        project.git("checkout", "-q", "work")
        project.git("merge", "-q", "--no-edit", "side")
        environ = event("push", {"before": "0" * 40, "created": True}, GITHUB_REF="refs/heads/work")
        assert touched(judge(project, environ)) == ["docs/one.md", "docs/side.md", "src/kernel.cu"]

    def test_the_second_push_still_counts_from_main(self, project, event):
        before = commit_file(project, "src/kernel.cu")
        commit_file(project, "docs/one.md")
        environ = event("push", {"before": before}, GITHUB_REF="refs/heads/work")
        assert touched(judge(project, environ)) == ["docs/one.md", "src/kernel.cu"]

    def test_a_merge_queue_counts_from_the_target(self, project, event):
        ahead = commit_file(project, "src/ahead_in_the_queue.txt")
        commit_file(project, "docs/mine.md")
        payload = {"merge_group": {"base_ref": "refs/heads/main", "base_sha": ahead}}
        judged = judge(project, event("merge_group", payload, GITHUB_REF="refs/heads/gh-readonly-queue/main/pr-7"))
        assert touched(judged) == ["docs/mine.md", "src/ahead_in_the_queue.txt"]

    def test_due(self, project, event):
        head = commit_file(project, "src/mine.txt")
        for environ in (
            event("schedule", {}),
            event("workflow_dispatch", {"inputs": {"suite": "full"}}),
            event("push", {}, GITHUB_REF="refs/heads/main"),
            event("push", {}, GITHUB_REF="refs/tags/v1"),
            event("push", {"repository": None}, GITHUB_REF="refs/heads/main"),
            {"GITLAB_CI": "1", "CI_PIPELINE_SOURCE": "schedule"},
        ):
            judged = judge(project, environ)
            assert judged.due
            assert judged.change.open_reason is None
            assert (judged.change.head, judged.change.base, judged.change.paths) == (head, None, ())
            assert judged.base_tip == project.git("rev-parse", "main")

    @pytest.mark.parametrize("by", ["option", "variable"])
    def test_a_head_that_was_asked_for_does_not_switch_the_event_off(self, project, event, by):
        head = commit_file(project, "docs/mine.md")
        commit_file(project, "docs/more.md")

        def ask(environ):
            if by == "option":
                return judge(project, environ, head="HEAD~1")
            return judge(project, {**environ, "TOUCHGATE_HEAD": "HEAD~1"})

        for environ in (
            event("schedule", {}),
            event("workflow_dispatch", {"inputs": {}}),
            event("push", {}, GITHUB_REF="refs/heads/main"),
            event("push", {"repository": None}, GITHUB_REF="refs/heads/main"),
            event("push", {}, GITHUB_REF="refs/tags/v1"),
            {"GITLAB_CI": "1", "CI_PIPELINE_SOURCE": "web"},
        ):
            judged = ask(environ)
            assert judged.due
            assert (judged.change.open_reason, judged.change.head) == (None, head)
        for environ in (event("issue_comment", {}), event("merge_groups", {}), {"GITLAB_CI": "1"}):
            assert "event: " in ask(environ).change.open_reason
        environ = event("push", {}, GITHUB_REF="refs/heads/work")
        assert touched(ask(environ)) == ["docs/mine.md"]
        Path(environ["GITHUB_EVENT_PATH"]).write_text("{")
        assert "is not JSON" in ask(environ).change.open_reason
        missing = judge(project, event("schedule", {}), head="nope")
        assert missing.change.open_reason.startswith("'nope' names nothing here: no branch, tag or commit")
        assert touched(judge(project, event("schedule", {}), base="main", head="HEAD~1")) == ["docs/mine.md"]

    @pytest.mark.parametrize("forge", ["GitHub", "Gitea", "diff base", "target"])
    def test_a_target_that_is_older_here_than_the_forge_says_is_open(self, project, tmp_path, event, forge):
        """The pull request takes back what main gained, while the clone's main is from before: nothing would differ."""
        made = clone(project, tmp_path / "clone")
        project.git("checkout", "-q", "main")
        landed = commit_file(project, "src/a.txt", "gained\n")
        project.git("checkout", "-q", "-B", "work")
        project.git("revert", "--no-edit", "HEAD")
        head = project.git("rev-parse", "HEAD")
        made.git("fetch", "-q", "origin", "work")
        made.git("checkout", "-q", "--detach", head)
        stale = made.git("rev-parse", "origin/main")
        assert made.git("diff", "--name-only", "origin/main...HEAD") == "", "the situation"

        def environ(sha):
            if forge in ("GitHub", "Gitea"):
                variables = {"GITEA_ACTIONS": "1"} if forge == "Gitea" else {}
                return event("pull_request", pull(head, sha=sha), at=made, GITHUB_REF="refs/pull/7/head", **variables)
            name = {"diff base": "DIFF_BASE_SHA", "target": "TARGET_BRANCH_SHA"}[forge]
            return {
                "GITLAB_CI": "true",
                "CI_COMMIT_SHA": head,
                "CI_PIPELINE_SOURCE": "merge_request_event",
                "CI_MERGE_REQUEST_TARGET_BRANCH_NAME": "main",
                f"CI_MERGE_REQUEST_{name}": sha,
            }

        for sha in (landed, "9" * 40):
            reason = judge(made, environ(sha)).change.open_reason
            assert f"names {sha[:12]} as a commit of main, and the main of this clone, {stale[:12]}, " in reason
            assert "run `git fetch origin main`" in reason
        made.git("fetch", "-q", "origin")
        for sha in (landed, stale):
            assert touched(judge(made, environ(sha))) == ["src/a.txt"]

    def test_a_payload_with_half_a_character_is_open(self, project, event):
        commit_file(project, "docs/mine.md")
        environ = event("push", {"repository": {"default_branch": "ma\ud800in"}}, GITHUB_REF="refs/heads/work")
        assert judge(project, environ).change.open_reason == (
            "GitHub's push event: the payload's repository.default_branch holds half a character: 'ma\\ud800in'"
        )

    def test_a_payload_that_is_no_file_is_open_at_once(self, project, event, tmp_path):
        os.mkfifo(tmp_path / "pipe")
        for name in (tmp_path / "pipe", "/dev/zero", tmp_path):
            environ = event("push", {}, GITHUB_REF="refs/heads/work", GITHUB_EVENT_PATH=str(name))
            reason = judge(project, environ).change.open_reason
            assert reason.endswith((f"payload {name} is not a file", f"can't be read: {name}: Is a directory"))

    def test_a_head_that_is_part_of_its_target_already_is_due(self, project, event):
        judged = judge(project, event("push", {}, GITHUB_REF="refs/heads/work"))
        assert "is already part of main" in judged.due

    def test_a_dispatched_sha_is_judged_like_a_pull_request(self, project, event):
        head = commit_file(project, "src/mine.txt")
        environ = event("workflow_dispatch", {"inputs": {"head_sha": head}})
        judged = judge(project, environ)
        assert (touched(judged), judged.change.head) == (["src/mine.txt"], head)
        project.git("checkout", "-q", "main")
        judged = judge(project, environ)
        assert (touched(judged), judged.change.head) == (["src/mine.txt"], head)
        assert judged.change.head_from == "the head that GitHub's workflow_dispatch event names"
        missing = judge(project, event("workflow_dispatch", {"inputs": {"head_sha": "7" * 40}}))
        assert missing.change.open_reason == (
            f"{'7' * 40}, the head of GitHub's workflow_dispatch event, is not in this clone; fetch it first"
        )

    @pytest.mark.parametrize("name", ["merge_groups", "issue_comment", "workflow_run"])
    def test_unknown_events_are_open(self, project, event, name):
        commit_file(project, "docs/mine.md")
        judged = judge(project, event(name, {}))
        assert judged.change.open_reason.startswith(f"GitHub's {name} event: ")
        assert judged.change.paths == ()

    def test_an_unreadable_payload_is_open(self, project, event):
        environ = event("push", {}, GITHUB_REF="refs/heads/work")
        Path(environ["GITHUB_EVENT_PATH"]).write_text("{")
        assert "is not JSON" in judge(project, environ).change.open_reason

    def test_gitlab(self, project):
        head = commit_file(project, "src/mine.txt")
        common = {"GITLAB_CI": "true", "CI_COMMIT_SHA": head, "CI_DEFAULT_BRANCH": "main"}
        push = {**common, "CI_PIPELINE_SOURCE": "push", "CI_COMMIT_BRANCH": "work", "CI_COMMIT_BEFORE_SHA": head}
        assert touched(judge(project, push)) == ["src/mine.txt"]
        merge = {
            **common,
            "CI_PIPELINE_SOURCE": "merge_request_event",
            "CI_MERGE_REQUEST_TARGET_BRANCH_NAME": "main",
            "CI_MERGE_REQUEST_DIFF_BASE_SHA": project.git("rev-parse", "main"),
        }
        assert touched(judge(project, merge)) == ["src/mine.txt"]


class TestMoreThanAnApiLists:
    def test_thousands_of_files_before_the_one_that_matters(self, project):
        for number in range(3453):
            (project.root / "docs" / f"icon{number}.svg").write_text("x")
        commit_file(project, "src/mine.txt")
        paths = touched(judge(project))
        assert len(paths) == 3454
        assert paths[-1] == "src/mine.txt"


class TestNested:
    @pytest.fixture
    def outer(self, project, tmp_path):
        """The project with third/outer, a submodule that has a submodule inner/ of its own, all checked out."""
        made = {}
        for name in ("inner", "outer"):
            made[name] = type(project)(tmp_path / name, project.environ)
            made[name].root.mkdir()
            made[name].git("init", "-q", "-b", "main")
            made[name].write("file.txt", name)
            made[name].commit()
        allow = ("-c", "protocol.file.allow=always")
        made["outer"].git(*allow, "submodule", "--quiet", "add", str(made["inner"].root), "inner")
        made["outer"].commit()
        project.git("checkout", "-q", "main")
        project.git(*allow, "submodule", "--quiet", "add", str(made["outer"].root), "third/outer")
        project.git(*allow, "submodule", "--quiet", "update", "--init", "--recursive")
        project.commit()
        project.git("checkout", "-q", "-B", "work")
        return type(project)(project.root / "third" / "outer", project.environ)

    def bump(self, project, outer):
        inner = type(project)(outer.root / "inner", project.environ)
        inner.write("deep.cu", "x")
        inner.commit()
        outer.commit()
        return inner

    def test_a_bump_two_levels_deep(self, project, outer):
        self.bump(project, outer)
        project.commit()
        expected = ["third/outer", "third/outer/inner", "third/outer/inner/deep.cu"]
        assert touched(judge(project)) == expected
        for ignore in ("all", "dirty"):
            project.git("config", "-f", ".gitmodules", "submodule.third/outer.ignore", ignore)
            project.commit()
            assert touched(judge(project)) == [".gitmodules", *expected]

    def test_dirt_counts_though_the_modules_file_says_ignore(self, project, outer):
        project.git("config", "-f", ".gitmodules", "submodule.third/outer.ignore", "all")
        project.git("config", "diff.ignoreSubmodules", "all")
        project.commit()
        outer.write("untracked.cu", "x")
        assert touched(judge(project)) == [".gitmodules", "third/outer", "third/outer/untracked.cu"]

    def test_a_submodule_that_is_not_checked_out(self, project, outer, tmp_path):
        self.bump(project, outer)
        project.commit()
        made = clone(project, tmp_path / "clone", "--branch=work")
        assert touched(judge(made)) == ["third/outer", "third/outer/"]

    @pytest.mark.parametrize("committed", [True, False])
    def test_a_submodule_that_came_or_went(self, project, outer, committed):
        project.git("rm", "-q", "third/outer")
        if committed:
            project.commit()
        letters = {path.path: path.status for path in judge(project).change.paths}
        assert letters == {".gitmodules": "M", "third/outer": "D", "third/outer/": "D"}
        project.commit()
        back = judge(project, base="HEAD", head="main").change
        # The merge base is main itself; between the two commits it came.
        assert back.paths == ()
        with Repository(project.root, project.environ) as repo:
            came = nested.between(repo, project.git("rev-parse", "HEAD"), project.git("rev-parse", "main"))
        assert {path.path: path.status for path in came}["third/outer/"] == "A"

    @pytest.mark.parametrize("mark", ["--assume-unchanged", "--skip-worktree"])
    @pytest.mark.parametrize("level", [1, 2])
    def test_marks_inside_a_submodule_hide_nothing(self, project, outer, mark, level):
        inner = outer if level == 1 else type(project)(outer.root / "inner", project.environ)
        inner.git("update-index", mark, "file.txt")
        assert judge(project).due
        inner.write("file.txt", "changed behind the mark")
        expected = ["third/outer", "third/outer/file.txt"]
        if level == 2:
            expected = ["third/outer", "third/outer/inner", "third/outer/inner/file.txt"]
        assert touched(judge(project)) == expected

    @pytest.mark.parametrize("by", ["modules file", "configuration", "mark on the submodule"])
    def test_nothing_inside_the_outer_submodule_hides_the_inner_one(self, project, outer, by):
        if by == "modules file":
            outer.git("config", "-f", ".gitmodules", "submodule.inner.ignore", "all")
            outer.commit()
            project.commit()
        elif by == "configuration":
            outer.git("config", "submodule.inner.ignore", "all")
            outer.git("config", "diff.ignoreSubmodules", "all")
        else:
            outer.git("update-index", "--assume-unchanged", "inner")
            project.git("update-index", "--assume-unchanged", "third/outer")
        before = [path.path for path in judge(project).change.paths]
        inner = type(project)(outer.root / "inner", project.environ)
        inner.write("untracked.cu", "x")
        expected = {"third/outer", "third/outer/inner", "third/outer/inner/untracked.cu"}
        assert set(touched(judge(project))) - set(before) == expected - set(before)
        assert expected <= set(touched(judge(project)))
        commit_file(inner, "committed.cu")
        assert "third/outer/inner/committed.cu" in touched(judge(project))

    def test_a_submodule_in_a_merge_that_is_not_resolved(self, project, outer):
        tips = []
        for name in ("left", "right"):
            outer.git("checkout", "-q", "-B", name, "main")
            tips.append(commit_file(outer, f"{name}.cu"))
            project.git("checkout", "-q", "-B", name, "main")
            project.commit()
        with pytest.raises(subprocess.CalledProcessError):
            project.git("merge", "-q", "left")
        assert project.git("diff", "--name-only", "--diff-filter=U").splitlines() == ["third/outer"]
        paths = [path.path for path in judge(project).change.paths]
        assert "third/outer" in paths
        assert "third/outer/" in paths

    def test_files_in_the_place_of_a_submodule_that_is_not_checked_out(self, project, outer, tmp_path):
        made = clone(project, tmp_path / "clone", "--branch=work")
        assert judge(made).due, "an empty folder is no change"
        (made.root / "third/outer/own.cu").write_text("x")
        assert touched(judge(made)) == ["third/outer", "third/outer/"]

    def test_a_folder_with_a_broken_git_folder_is_a_folder(self, project):
        project.write("vendor/.git/HEAD", "")
        project.write("vendor/a.cu", "x")
        assert "vendor/a.cu" in touched(judge(project))

    def test_inside_a_submodule_the_submodule_is_judged(self, outer):
        outer.git("checkout", "-q", "-b", "mine")
        commit_file(outer, "src/x.cu")
        assert touched(judge(outer)) == ["src/x.cu"]

    def test_an_untracked_repository(self, project):
        inner = type(project)(project.root / "vendor", project.environ)
        inner.root.mkdir()
        inner.git("init", "-q")
        inner.write("a/b.cu", "x")
        inner.commit()
        inner.write("c.cu", "x")
        assert touched(judge(project)) == ["vendor", "vendor/a/b.cu", "vendor/c.cu"]


class TestHooks:
    def test_a_commit_hook_s_variables_do_not_mislead(self, project):
        commit_file(project, "src/mine.txt")
        index = project.root / ".git" / "other-index"
        shutil.copy(project.root / ".git" / "index", index)
        project.environ |= {
            "GIT_DIR": "/nowhere",
            "GIT_INDEX_FILE": str(index),
            "GIT_PREFIX": "src/",
            "GIT_EXTERNAL_DIFF": "false",
            "GIT_CONFIG_PARAMETERS": "'diff.relative'='true'",
            "GIT_LITERAL_PATHSPECS": "0",
        }
        assert touched(judge(project)) == ["src/mine.txt"]

    def test_odd_names(self, project):
        names = ["kern/a b.cu", "kern/é.cu", "kern/caf\udce9.cu", "kern/new\nline.cu", "kern/-x.cu", "kern/:(glob)*"]
        for name in names:
            project.write(name, "x")
        assert touched(judge(project)) == sorted(names)
        project.commit()
        assert set(touched(judge(project))) == set(names)
        assert os.fsencode(next(name for name in touched(judge(project)) if "caf" in name)) == b"kern/caf\xe9.cu"


@pytest.mark.skipif(Path(__file__).with_name("TEST_CHANGE.PY").exists(), reason="this file system folds names")
def test_names_that_a_setting_takes_for_one_are_two(project):
    project.git("config", "core.ignorecase", "true")
    project.write("src/A.txt", "a\n")
    assert touched(judge(project)) == ["src/A.txt"]
