"""Fetching what a proof needs, with real servers on loopback: what comes, what stays as it was, what is said when it fails."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from tests import serving
from touchgate.gate import change, cli, forge, remote
from touchgate.gate.git import GitFault, Repository
from touchgate.gate.history import Fetch

NAMED = "; fetching it failed: origin ({})"
MORE = "TOUCHGATE_FETCH_SECONDS=N allows more, N seconds in all"
LANES = "lanes:\n  one: {paths: [src/**], checks: [command: x]}\n  two: {paths: [lib/**], checks: [command: x]}\n"


@pytest.fixture
def server(project, tmp_path):
    """A bare repository whose branch `work` left main 40 commits ago: 3 of its own, the last one touches src/."""
    project.write("tasks/lanes.yml", LANES)
    project.git("checkout", "-q", "main")
    project.write("tasks/lanes.yml", LANES)
    project.commit("lanes")
    empty_commits(project, "main", 120)
    project.git("checkout", "-q", "-B", "work")
    empty_commits(project, "work", 2)
    project.write("src/mine.txt", "x")
    project.commit("mine")
    project.git("checkout", "-q", "main")
    project.write("lib/theirs.txt", "x")
    project.commit("theirs")
    empty_commits(project, "main", 39)
    bare = tmp_path / "served" / "up.git"
    project.git("clone", "-q", "--bare", str(project.root), str(bare))
    made = type(project)(bare, project.environ)
    for name in serving.SETTINGS:
        made.git("config", name, "true")
    return made


def empty_commits(project, branch, count):
    """Commits that change nothing, on the branch that is checked out."""
    lines = [
        f"commit refs/heads/{branch}\ncommitter A <a@example.org> {1_700_000_000 + n} +0000\ndata 1\n.\n" for n in range(count)
    ]
    lines[0] += f"from refs/heads/{branch}^0\n"
    subprocess.run(
        ["git", "fast-import", "--quiet"], cwd=project.root, env=project.environ, input="".join(lines), text=True, check=True
    )


@pytest.fixture
def url(server):
    with serving.daemon(server.root.parent, server.environ) as at:
        yield f"{at}/up.git"


@pytest.fixture
def clone(server, url, tmp_path):
    """A depth-1 clone of `work`, detached, as a job has it."""
    folder = tmp_path / "clone"
    server.git("clone", "-q", "--depth=1", "--branch=work", url, str(folder))
    made = type(server)(folder, server.environ)
    made.git("checkout", "-q", "--detach")
    return made


def judge(project, environ=None, fetch=Fetch.NEEDED, **options):
    with Repository(project.root, project.environ) as repo:
        return change.resolve(repo, environ=environ or {}, fetch=fetch, **options)


def push(project, tmp_path, **variables):
    path = tmp_path / "event.json"
    path.write_text(json.dumps({"repository": {"default_branch": "main"}}))
    sha = project.git("rev-parse", "work")
    names = {"GITHUB_EVENT_NAME": "push", "GITHUB_EVENT_PATH": str(path), "GITHUB_SHA": sha, "GITHUB_REF": "refs/heads/work"}
    return {**names, **variables}


def snapshot(folder):
    """Every file of a folder with its content."""
    return {str(file.relative_to(folder)): file.read_bytes() for file in sorted(folder.rglob("*")) if file.is_file()}


def touched(judged):
    assert judged.change.open_reason is None
    return [path.path for path in judged.change.paths]


@pytest.fixture(autouse=True)
def own_temporary_folder(tmp_path, monkeypatch):
    folder = tmp_path / "tmp"
    folder.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(folder))
    yield folder
    assert list(folder.iterdir()) == [], "nothing is left behind"


def merge_checked_out(made, head, tmp_path):
    """The environment of a pull request's job whose merge of main and `head` is checked out in `made`."""
    payload = {"repository": {"default_branch": "main"}, "pull_request": {"base": {"ref": "main"}, "head": {"sha": head}}}
    path = tmp_path / "event.json"
    path.write_text(json.dumps(payload))
    return {
        "GITHUB_EVENT_NAME": "pull_request",
        "GITHUB_EVENT_PATH": str(path),
        "GITHUB_SHA": made.git("rev-parse", "HEAD"),
        "GITHUB_REF": "refs/pull/7/merge",
    }


class TestInACheckout:
    def test_a_push_gets_what_its_proof_needs_and_the_clone_stays_as_it_was(self, server, clone, tmp_path):
        before = snapshot(clone.root)
        judged = judge(clone, push(server, tmp_path))
        assert touched(judged) == ["src/mine.txt"]
        assert judged.change.base == server.git("rev-parse", "main")
        assert judged.change.merge_base == server.git("merge-base", "main", "work")
        assert judged.notes[0].endswith(": main, 80 more commits of history at most")
        assert snapshot(clone.root) == before

    def test_not_the_whole_history_comes(self, server, clone, tmp_path):
        with Repository(clone.root, clone.environ) as repo:
            judged = change.resolve(repo, environ=push(server, tmp_path), fetch=Fetch.NEEDED)
            assert touched(judged) == ["src/mine.txt"]
            assert judged.change.proof.startswith("a shallow clone, but none of the ")
            assert repo.shallow_commits()

    def test_steps_end(self, server, clone, tmp_path, monkeypatch):
        monkeypatch.setattr(remote, "STEPS", (4, 4))
        reason = judge(clone, push(server, tmp_path)).change.open_reason
        assert reason.endswith("the last 8 commits did not prove a merge base, and no more are fetched")

    def test_never_means_never(self, server, clone, tmp_path):
        judged = judge(clone, push(server, tmp_path), fetch=Fetch.NEVER)
        assert judged.change.open_reason.startswith("the branch main is not in this clone")
        assert judged.notes == ()

    def test_a_merge_ref_at_depth_one_costs_its_first_parent_alone(self, server, url, tmp_path, project):
        project.git("checkout", "-q", "--detach", "main")
        project.git("merge", "-q", "--no-edit", "work")
        project.git("push", "-q", str(server.root), "HEAD:refs/pull/7/merge")
        made = type(project)(tmp_path / "made", project.environ)
        made.root.mkdir()
        made.git("init", "-q")
        made.git("remote", "add", "origin", url)
        made.git("fetch", "-q", "--depth=1", "origin", "+refs/pull/7/merge:refs/remotes/pull/7/merge")
        made.git("checkout", "-q", "--detach", "refs/remotes/pull/7/merge")
        head, base = project.git("rev-parse", "work"), project.git("rev-parse", "main")
        environ = merge_checked_out(made, head, tmp_path)
        judged = judge(made, environ)
        assert touched(judged) == ["src/mine.txt"]
        assert (judged.change.base, judged.change.proof) == (base, "base is a parent of head")
        assert judged.notes[0].endswith(f": {base[:12]}")

    def test_a_dispatched_sha_that_is_not_here_is_fetched(self, server, clone, tmp_path):
        payload = {"repository": {"default_branch": "main"}, "inputs": {"head_sha": server.git("rev-parse", "work~1")}}
        path = tmp_path / "dispatch.json"
        path.write_text(json.dumps(payload))
        environ = push(server, tmp_path, GITHUB_EVENT_NAME="workflow_dispatch", GITHUB_EVENT_PATH=str(path))
        judged = judge(clone, environ)
        assert (touched(judged), judged.change.head) == ([], server.git("rev-parse", "work~1"))

    def test_fresh_takes_the_base_branch_as_it_is_now(self, server, url, tmp_path):
        folder = tmp_path / "whole"
        server.git("clone", "-q", "--branch=work", url, str(folder))
        made = type(server)(folder, server.environ)
        old = made.git("rev-parse", "origin/main")
        new = commit_on(server, "main", "newer")
        server.git("update-ref", "refs/heads/main", new)
        assert judge(made, base="main").change.base == old
        judged = judge(made, base="main", fetch=Fetch.FRESH)
        assert (judged.change.base, touched(judged)) == (new, ["src/mine.txt"])
        assert made.git("rev-parse", "origin/main") == old
        assert judge(made, fetch=Fetch.FRESH).change.base == new

    def test_fresh_finds_the_default_branch_that_nothing_here_names(self, server, clone):
        server.git("branch", "-m", "main", "trunk")
        server.git("symbolic-ref", "HEAD", "refs/heads/trunk")
        clone.git("update-ref", "-d", "--no-deref", "refs/remotes/origin/work")
        (clone.root / ".git/refs/remotes/origin/HEAD").unlink(missing_ok=True)
        judged = judge(clone, fetch=Fetch.FRESH)
        assert touched(judged) == ["src/mine.txt"]
        assert (judged.default_branch, judged.default_branch_from) == ("trunk", "origin/HEAD")

    def test_older_commits_by_a_name_are_deepened_for(self, server, clone):
        judged = judge(clone, base="HEAD~3", head="HEAD")
        assert (touched(judged), judged.change.base) == (["src/mine.txt"], server.git("rev-parse", "work~3"))

    def test_an_origin_branch_whose_commit_is_missing_is_fetched_and_no_local_one_stands_in(self, server, clone, tmp_path):
        clone.git("branch", "main", "HEAD")
        gone = server.git("rev-parse", "main")
        (clone.root / ".git/refs/remotes/origin").mkdir(parents=True, exist_ok=True)
        (clone.root / ".git/refs/remotes/origin/main").write_text(f"{gone}\n")
        environ = push(server, tmp_path)
        assert judge(clone, environ, fetch=Fetch.NEVER).change.open_reason.startswith("the branch main is not in this clone")
        assert judge(clone, environ).change.base == gone

    def test_a_checkout_that_can_t_be_written(self, server, clone, tmp_path):
        for folder in [clone.root / ".git", *(clone.root / ".git").rglob("*")]:
            folder.chmod(0o555 if folder.is_dir() else 0o444)
        try:
            assert touched(judge(clone, push(server, tmp_path))) == ["src/mine.txt"]
        finally:
            for folder in [clone.root / ".git", *(clone.root / ".git").rglob("*")]:
                folder.chmod(0o755)

    def test_a_worktree_of_a_shallow_clone(self, server, clone, tmp_path):
        clone.git("worktree", "add", "-q", "--detach", str(tmp_path / "tree"), "HEAD")
        assert touched(judge(type(clone)(tmp_path / "tree", clone.environ), push(server, tmp_path))) == ["src/mine.txt"]

    def test_a_repository_of_sha_256(self, project, tmp_path):
        made = type(project)(tmp_path / "long", project.environ)
        made.root.mkdir()
        made.git("init", "-q", "-b", "main", "--object-format=sha256")
        made.git("config", "uploadpack.allowFilter", "true")
        for name in ("a", "b", "c"):
            made.write(name, name)
            made.commit(name)
        made.git("checkout", "-q", "-b", "work", "HEAD~1")
        made.write("mine", "x")
        made.commit("mine")
        made.git("clone", "-q", "--depth=1", f"file://{made.root}", str(tmp_path / "short"))
        assert touched(judge(type(project)(tmp_path / "short", project.environ), base="main", fetch=Fetch.FRESH)) == ["mine"]

    def test_what_is_uncommitted_counts_beside_what_was_fetched(self, clone):
        clone.write("docs/new.md", "x")
        clone.write("src/mine.txt", "changed")
        judged = judge(clone, base="main", fetch=Fetch.FRESH)
        assert touched(judged) == ["docs/new.md", "src/mine.txt"]

    def test_settings_of_the_clone_reach_the_fetch(self, server, clone, tmp_path, url):
        clone.git("remote", "set-url", "origin", "elsewhere:up.git")
        clone.git("config", f"url.{url}.insteadOf", "elsewhere:up.git")
        assert touched(judge(clone, push(server, tmp_path))) == ["src/mine.txt"]

    def test_a_hook_s_variables_do_not_mislead(self, server, clone, tmp_path):
        stray = {"GIT_DIR": "/nowhere", "GIT_INDEX_FILE": "/nowhere/index", "GIT_OBJECT_DIRECTORY": "/nowhere/objects"}
        with Repository(clone.root, {**clone.environ, **stray}) as repo:
            judged = change.resolve(repo, environ={**stray, **push(server, tmp_path)}, fetch=Fetch.NEEDED)
        assert touched(judged) == ["src/mine.txt"]

    def test_lanes_of_the_base_come_along(self, server, clone, tmp_path, url):
        """Files of the base's tip that the depth-1 clone lacks are fetched, all at once."""
        server_main = commit_on(server, "main", "lanes", files={"tasks/more.yml": "lanes: {}\n", "tasks/third.yml": LANES})
        server.git("update-ref", "refs/heads/main", server_main)
        with Repository(clone.root, clone.environ) as repo:
            change.resolve(repo, environ=push(server, tmp_path), fetch=Fetch.NEEDED)
            calls = []
            real = repo.remote.supply
            repo.remote.supply = lambda ids: (calls.append(len(ids)), real(ids))
            entries = repo.folder(server_main, "tasks")
            assert [len(blob or b"") for blob in repo.blobs([entry.id for entry in entries.values()])] == [
                len(LANES),
                len("lanes: {}\n"),
                len(LANES),
            ]
            assert len(calls) == 1, "one fetch for all"


def commit_on(server, branch, message, files=None):
    """A commit on a branch of a bare repository, not yet its tip."""
    tree = server.git("rev-parse", f"{branch}^{{tree}}")
    if files:
        index = {"GIT_INDEX_FILE": str(server.root / "index.tmp")}
        run = lambda *words, data=None: subprocess.run(  # noqa: E731
            ["git", *words],
            cwd=server.root,
            env={**server.environ, **index},
            input=data,
            check=True,
            capture_output=True,
            text=True,
        ).stdout.strip()
        run("read-tree", tree)
        for name, text in files.items():
            run("update-index", "--add", "--cacheinfo", f"100644,{run('hash-object', '-w', '--stdin', data=text)},{name}")
        tree = run("write-tree")
    return server.git("commit-tree", tree, "-p", branch, "-m", message)


class TestServers:
    def test_smart_http(self, server, clone, tmp_path):
        with serving.http(serving.smart(server.root.parent, server.environ)) as at:
            clone.git("remote", "set-url", "origin", f"{at}/up.git")
            assert touched(judge(clone, push(server, tmp_path))) == ["src/mine.txt"]

    def test_without_filters(self, server, clone, tmp_path):
        server.git("config", "uploadpack.allowFilter", "false")
        judged = judge(clone, push(server, tmp_path))
        assert touched(judged) == ["src/mine.txt"]
        assert judged.notes[-1].endswith("does not filter, so the contents of files came along")

    def test_without_ids(self, server, clone, tmp_path):
        """The old protocol, whose servers give what their refs name."""
        server.git("config", "uploadpack.allowAnySHA1InWant", "false")
        clone.git("config", "protocol.version", "0")
        assert touched(judge(clone, push(server, tmp_path))) == ["src/mine.txt"]

    def test_without_ids_and_a_head_that_moved_on(self, server, clone, tmp_path):
        server.git("config", "uploadpack.allowAnySHA1InWant", "false")
        clone.git("config", "protocol.version", "0")
        environ = push(server, tmp_path)
        server.git("update-ref", "refs/heads/work", commit_on(server, "work", "later"))
        assert touched(judge(clone, environ)) == ["src/mine.txt"]

    def test_plain_files(self, server, clone, tmp_path):
        server.git("update-server-info")
        with serving.http(serving.plain_files(server.root.parent)) as at:
            clone.git("remote", "set-url", "origin", f"{at}/up.git")
            reason = judge(clone, push(server, tmp_path)).change.open_reason
        assert reason.endswith("is served as plain files over HTTP (no git server), which gives only whole clones")

    def test_nobody_there(self, server, clone, tmp_path):
        clone.git("remote", "set-url", "origin", f"git://127.0.0.1:{serving.free_port()}/up.git")
        reason = judge(clone, push(server, tmp_path)).change.open_reason
        assert reason.startswith("the branch main is not in this clone")
        assert "; fetching it failed: fetching from origin (git://127.0.0.1:" in reason
        assert len(reason.splitlines()) == 1

    def test_no_such_branch(self, server, clone, tmp_path):
        server.git("branch", "-m", "main", "trunk")
        assert judge(clone, push(server, tmp_path)).change.open_reason.endswith("has no branch or tag main")

    def test_no_such_branch_and_one_of_nearly_that_name(self, server, clone):
        clone.git("branch", "main", "HEAD")
        reason = judge(clone, base="mian", head="HEAD").change.open_reason
        assert reason.startswith("'mian' names nothing here; did you mean 'main'? fetching it failed: origin (")
        assert reason.endswith(") has no branch or tag mian")

    def test_a_tag_for_a_base(self, server, clone):
        server.git("tag", "v1", "main")
        judged = judge(clone, base="v1", head="HEAD")
        assert (touched(judged), judged.change.base) == (["src/mine.txt"], server.git("rev-parse", "main"))

    def test_one_that_says_nothing(self, server, clone, tmp_path, monkeypatch):
        monkeypatch.setattr(remote, "STALL", 0.3)
        with serving.silent() as at:
            clone.git("remote", "set-url", "origin", f"{at}/up.git")
            reason = judge(clone, push(server, tmp_path)).change.open_reason
        assert reason.endswith(f"{NAMED} said nothing for 0.3 s, and was given up; {MORE}".format(f"{at}/up.git"))

    def test_one_that_falls_silent_in_the_middle(self, server, clone, tmp_path, monkeypatch):
        def wait(data):
            time.sleep(2)
            return data

        monkeypatch.setattr(remote, "STALL", 0.5)
        with serving.http(serving.smart(server.root.parent, server.environ, cut=wait)) as at:
            clone.git("remote", "set-url", "origin", f"{at}/up.git")
            reason = judge(clone, push(server, tmp_path)).change.open_reason
        assert reason.endswith(f"{NAMED} said nothing for 0.5 s, and was given up; {MORE}".format(f"{at}/up.git"))

    def test_the_limit_of_all_fetching(self, server, clone, tmp_path):
        with serving.silent() as at:
            clone.git("remote", "set-url", "origin", f"{at}/up.git")
            reason = judge(clone, push(server, tmp_path, TOUCHGATE_FETCH_SECONDS="0.2")).change.open_reason
        assert "/up.git) " in reason
        assert reason.endswith(f", and was given up; {MORE}")
        reason = judge(clone, push(server, tmp_path, TOUCHGATE_FETCH_SECONDS="soon")).change.open_reason
        assert reason.endswith("TOUCHGATE_FETCH_SECONDS=soon: it takes a number of seconds above 0")

    @pytest.mark.parametrize(
        ("said", "cause"),
        [
            ("ssh: connect to host up port 22: Connection timed out", "ssh: connect to host up port 22: Connection timed out"),
            ("Warning: added 'up' to the known hosts.\ngit@up: Permission denied.\nremote: ", "git@up: Permission denied."),
            ("remote: \nremote: ====\nremote: \nremote: No such project.\nremote: ===", "remote: No such project."),
            ("Host key verification failed.", "Host key verification failed."),
            ("", "fatal: Could not read from remote repository."),
        ],
    )
    def test_ssh_s_own_cause_is_told(self, server, clone, tmp_path, said, cause):
        ssh = tmp_path / "ssh"
        ssh.write_text(f"#!/bin/sh\ncat >&2 <<'END'\n{said}\nEND\n" + 'test -z "$HANG" || exec sleep "$HANG"\nexit 255\n')
        ssh.chmod(0o755)
        clone.git("remote", "set-url", "origin", "ssh://git@up/up.git")
        clone.environ |= {"GIT_SSH_COMMAND": str(ssh), "GIT_SSH_VARIANT": "ssh"}
        environ = push(server, tmp_path)
        reason = judge(clone, environ).change.open_reason
        assert reason.endswith(f"; fetching it failed: fetching from origin (ssh://up/up.git) failed: {cause}")
        clone.environ["HANG"] = "60"
        reason = judge(clone, {**environ, "TOUCHGATE_FETCH_SECONDS": "0.5"}).change.open_reason
        heard = f" ({cause})" if said else ""
        assert reason.endswith(f", and was given up{heard}; {MORE}")

    @pytest.mark.parametrize("keep", [0.2, 0.9])
    def test_an_answer_that_is_cut_in_the_middle(self, server, clone, tmp_path, keep):
        def cut(data):
            return data[: int(len(data) * keep)]

        with serving.http(serving.smart(server.root.parent, server.environ, cut=cut)) as at:
            clone.git("remote", "set-url", "origin", f"{at}/up.git")
            reason = judge(clone, push(server, tmp_path)).change.open_reason
        assert "; fetching it failed: fetching from origin (http://127.0.0.1:" in reason
        assert len(reason.splitlines()) == 1

    def test_there_is_no_remote(self, server, clone, tmp_path):
        clone.git("remote", "remove", "origin")
        reason = judge(clone, push(server, tmp_path)).change.open_reason
        assert reason.endswith("there is no remote named origin to fetch from; add it: git remote add origin URL")

    def test_no_room(self, server, clone, tmp_path, monkeypatch):
        monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "nowhere"))
        reason = judge(clone, push(server, tmp_path)).change.open_reason
        assert reason.endswith("there is no room for a temporary folder (No such file or directory); set TMPDIR")
        monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "tmp"))


class TestWithoutACheckout:
    @pytest.fixture
    def gate(self, server, tmp_path):
        """The command in an empty folder: (answer, reasons), and that the folder stays empty."""

        def run(*arguments, **variables):
            folder = tmp_path / "empty"
            folder.mkdir(exist_ok=True)
            code = "import sys; from touchgate.console import main; sys.exit(main())"
            done = subprocess.run(
                [sys.executable, "-c", code, "gate", *arguments],
                cwd=folder,
                env={**server.environ, "TMPDIR": str(tmp_path / "tmp"), **variables},
                capture_output=True,
                text=True,
                check=False,
                timeout=60,
            )
            assert list(folder.iterdir()) == []
            assert (done.returncode, done.stdout.count("\n") > 0) == (0, True), done.stderr
            return done.stdout, done.stderr

        return run

    def test_two_branches(self, server, url, gate):
        answer, said = gate("--remote", url, "main", "work")
        proof = "a shallow clone, but none of the 43 commits above the merge base is cut off from its parents"
        assert answer == "true\n"
        assert said.splitlines() == [
            f"base        {server.git('rev-parse', 'main')}  (main, from the command line: origin/main)",
            f"head        {server.git('rev-parse', 'work')}  (work, from the command line: origin/work)",
            f"merge base  {server.git('merge-base', 'main', 'work')}  ({proof})",
            f"fetched from {url}: work, main, 80 more commits of history at most",
            "1 path touched",
            "run   one  src/mine.txt (A) matches src/** at tasks/lanes.yml:2:17",
            "skip  two  the one touched path does not match",
        ]

    def test_the_event_alone(self, server, url, gate, tmp_path):
        environ = push(server, tmp_path, GITHUB_SERVER_URL=url.removesuffix("/up.git"), GITHUB_REPOSITORY="up.git")
        for arguments in (("--remote",), ()):
            answer, said = gate(*arguments, "--lane", "two", "--json", **environ)
            assert json.loads(answer)["lanes"][0]["decision"] == "skip"
            assert f"head        {environ['GITHUB_SHA']}  (the commit that GitHub's push event is for)" in said

    def test_a_pull_request_s_merge_by_the_event_alone(self, server, url, gate, tmp_path, project):
        project.git("checkout", "-q", "--detach", "main")
        project.git("merge", "-q", "--no-edit", "work")
        project.git("push", "-q", str(server.root), "HEAD:refs/pull/7/merge")
        head, base = project.git("rev-parse", "work"), project.git("rev-parse", "main")
        payload = {"repository": {"default_branch": "main"}, "pull_request": {"base": {"ref": "main"}, "head": {"sha": head}}}
        path = tmp_path / "pull.json"
        path.write_text(json.dumps(payload))
        answer, said = gate(
            "--remote",
            url,
            GITHUB_EVENT_NAME="pull_request",
            GITHUB_EVENT_PATH=str(path),
            GITHUB_SHA=project.git("rev-parse", "HEAD"),
            GITHUB_REF="refs/pull/7/merge",
        )
        assert answer == "true\n"
        assert f"merge base  {base}  (base is a parent of head)" in said
        assert "1 path touched" in said

    def test_a_branch_and_a_tag(self, server, url, gate):
        server.git("tag", "v1", "main~40")
        for words, expected in ((("main", "v1"), "false\n"), (("v1", "work"), "true\n")):
            answer, said = gate("--remote", url, *words)
            assert (answer, "everything runs" in said) == (expected, False)

    @pytest.mark.parametrize("words", [("main", "nowhere"), ("nowhere", "main"), ("nowhere", "main~1")])
    def test_a_name_that_the_remote_does_not_have(self, url, gate, words):
        answer, said = gate("--remote", url, *words)
        assert (answer, f"{url} has no branch or tag nowhere\n" in said) == ("true\n", True), said

    def test_a_commit_that_the_remote_does_not_have(self, server, url, gate):
        answer, said = gate("--remote", url, "main", "a" * 40)
        assert (answer, "refs/tags" in said, "does not give a commit by its id" in said) == ("true\n", False, True)

    def test_ids(self, server, url, gate):
        base, head = server.git("rev-parse", "main"), server.git("rev-parse", "work")
        assert gate("--remote", url, base, head)[0] == "true\n"
        assert gate("--remote", url, "main", base, "--lane", "one")[0] == "false\n", "base and head are one commit"

    def test_a_workflow(self, server, url, gate):
        text = "on: {pull_request: {paths: [lib/**]}}\n"
        server.git("update-ref", "refs/heads/work", commit_on(server, "work", "w", {".github/workflows/x.yml": text}))
        answer, said = gate("--remote", url, "x.yml", "main", "work")
        assert (answer, "none of 2 touched paths matches" in said) == ("false\n", True)

    def test_without_filters_files_come_along(self, server, url, gate):
        server.git("config", "uploadpack.allowFilter", "false")
        answer, said = gate("--remote", url, "main", "work")
        assert (answer, "does not filter" in said) == ("true\n", True)

    @pytest.mark.parametrize("what", ["no server", "no branch"])
    def test_what_can_t_be_had_runs_all_that_was_asked_for(self, url, gate, what):
        if what == "no server":
            answer, said = gate("--remote", f"git://127.0.0.1:{serving.free_port()}/up.git", "main", "work", "--lane", "two")
        else:
            answer, said = gate("--remote", url, "main", "nowhere", "--lane", "two")
            assert f"everything runs: 'nowhere' was not had from {url}; fetching it failed: " in said
            # That main is not there is not said: it was asked for together with the other.
            assert gate("--remote", url, "main", "nowhere")[1].count("no commit") == 0
        assert answer == "true\n"
        assert said.splitlines()[-1].startswith("run   two  ")
        assert "everything runs: " in said

    @pytest.mark.parametrize(
        ("words", "variables", "said"),
        [
            ([], {}, "is not inside a git repository; `touchgate gate` judges changes of one"),
            (["--remote"], {}, "--remote needs a URL here: the environment names no repository of a forge's"),
            (["--remote", "git://127.0.0.1/x", "--no-fetch"], {}, "without a checkout all has to be fetched"),
        ],
    )
    def test_what_is_no_question(self, tmp_path, server, words, variables, said, monkeypatch, capsys):
        monkeypatch.chdir(tmp_path / "tmp")
        assert cli.main(words, {**server.environ, **variables}) == 3
        assert said in capsys.readouterr().err

    def test_a_bare_repository_is_judged_as_a_remote(self, server, monkeypatch, capsys):
        monkeypatch.chdir(server.root / "refs")
        assert cli.main(["main", "work"], server.environ) == 3
        assert f"`touchgate gate --remote {server.root} BASE HEAD` judges it" in capsys.readouterr().err

    def test_head_names_nothing_here(self, url, gate):
        answer, said = gate("--remote", url, "main", "HEAD")
        assert (answer, "there is no checkout, so 'HEAD' names nothing" in said) == ("true\n", True)

    def test_a_folder_is_named_as_from_here(self, server, gate):
        assert (
            gate("--remote", os.path.relpath(server.root, server.root.parent.parent / "empty"), "main", "work")[0] == "true\n"
        )

    @pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGINT])
    def test_a_signal_leaves_nothing_behind(self, server, tmp_path, number):
        code = "import sys; from touchgate.console import main; sys.exit(main())"
        with serving.silent() as at:
            process = subprocess.Popen(
                [sys.executable, "-c", code, "gate", "--remote", f"{at}/up.git", "main", "work"],
                cwd=tmp_path,
                env={**server.environ, "TMPDIR": str(tmp_path / "tmp")},
                stderr=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
            )
            deadline = time.monotonic() + 20
            while not list((tmp_path / "tmp").glob("touchgate-*/config")) and time.monotonic() < deadline:
                time.sleep(0.02)
            time.sleep(0.3)
            process.send_signal(number)
            assert process.wait(20) != 0
        assert list((tmp_path / "tmp").iterdir()) == []


class TestALeftOverCheckout:
    """A machine keeps its workspace: what lies there before the checkout is of an earlier job."""

    @pytest.fixture
    def job(self, server, url, tmp_path):
        """The environment of a push's job whose workspace is a folder, and the command in it."""

        def run(folder, *words, cwd=".", **variables):
            names = {"GITHUB_SERVER_URL": url.removesuffix("/up.git"), "GITHUB_REPOSITORY": "up.git"}
            environ = {**push(server, tmp_path, **names), "GITHUB_WORKSPACE": str(folder), **variables}
            code = "import sys; from touchgate.console import main; sys.exit(main())"
            before = snapshot(folder)
            done = subprocess.run(
                [sys.executable, "-c", code, "gate", *words],
                cwd=folder / cwd,
                env={**server.environ, "TMPDIR": str(tmp_path / "tmp"), **environ},
                capture_output=True,
                text=True,
                check=False,
                timeout=60,
            )
            assert snapshot(folder) == before
            return done.returncode, done.stdout, done.stderr

        return run

    @pytest.fixture
    def other(self, project, tmp_path):
        """A checkout of another repository, without a lane."""
        folder = tmp_path / "other"
        folder.mkdir()
        made = type(project)(folder, project.environ)
        made.git("init", "-q", "-b", "main")
        made.write("src/mine.txt", "theirs")
        made.commit("theirs")
        return made

    @pytest.fixture
    def earlier(self, clone):
        """A checkout of the same repository at main."""
        clone.git("fetch", "-q", "--depth=1", "origin", "main:refs/remotes/origin/main")
        clone.git("checkout", "-q", "refs/remotes/origin/main")
        return clone

    @pytest.mark.parametrize("which", ["other", "earlier", "empty", "broken"])
    def test_the_event_alone_decides(self, server, job, which, request, tmp_path):
        if which in ("other", "earlier"):
            folder = request.getfixturevalue(which).root
        else:
            folder = tmp_path / which
            server.git("init", "-q", str(folder))
            if which == "broken":
                (folder / ".git/HEAD").write_text("ref: refs/heads/gone\n")
        for words, answer in (((), "true\n"), (("--lane", "one"), "true\n"), (("--lane", "two"), "false\n")):
            code, out, said = job(folder, *words)
            assert (code, out) == (0, answer), said
        note = f"the checkout in {folder} is not of this event's commit: passed over, the event alone decides"
        assert note in said.splitlines()
        assert f"head        {server.git('rev-parse', 'work')}  (the commit that GitHub's push event is for)" in said

    def test_a_workflow_s_own_list(self, server, job, other):
        text = "on: {push: {paths: [lib/**]}}\n"
        server.git("update-ref", "refs/heads/work", commit_on(server, "work", "w", {".github/workflows/x.yml": text}))
        other.write(".github/workflows/x.yml", "on: {push: {paths: ['**']}}\n")
        other.commit()
        assert job(other.root, "x.yml")[:2] == (0, "false\n")

    def test_a_default_branch_is_due_by_its_own_lanes(self, server, job, other):
        main = server.git("rev-parse", "main")
        code, out, said = job(other.root, GITHUB_SHA=main, GITHUB_REF="refs/heads/main")
        assert (code, out) == (0, "true\n")
        due = "main is the default branch itself"
        assert said.splitlines()[-3:] == [f"everything is due: {due}", f"run   one  {due}", f"run   two  {due}"]

    def test_nothing_can_be_fetched(self, job, other):
        code, out, said = job(other.root, "--lane", "two", GITHUB_SERVER_URL=f"git://127.0.0.1:{serving.free_port()}")
        assert (code, out) == (0, "true\n")
        assert "passed over" in said

    def test_the_event_s_own_checkout_counts(self, job, clone):
        code, out, said = job(clone.root, "--lane", "two")
        assert (code, out, "passed over" in said) == (0, "false\n", False)
        assert "the commit checked out, for GitHub's push event" in said

    def test_a_commit_that_the_job_made_itself_is_open(self, job, clone):
        clone.write("lib/made.txt", "x")
        clone.commit("made by this job")
        code, out, said = job(clone.root, "--lane", "two")
        assert (code, out, "passed over" in said) == (0, "true\n", False)
        assert "is not the one that GitHub's push event started this run for" in said

    def test_a_newer_commit_of_the_branch_is_left_over(self, server, job, clone, tmp_path):
        sha = server.git("rev-parse", "work")
        newer = commit_on(server, "work", "w", {"lib/x.txt": "x"})
        server.git("update-ref", "refs/heads/work", newer)
        clone.git("fetch", "-q", "origin", "work:refs/remotes/origin/work")
        clone.git("checkout", "-q", "refs/remotes/origin/work")
        code, out, said = job(clone.root, "--lane", "two", GITHUB_SHA=sha)
        assert (code, out, "passed over" in said) == (0, "false\n", True)

    def test_a_checkout_below_the_workspace_is_meant(self, job, other, tmp_path):
        code, _, said = job(tmp_path, cwd="other")
        assert (code, "no lane is declared" in said) == (3, True)

    def test_a_base_alone_is_measured_against_what_the_event_is_for(self, server, job, earlier):
        for lane, answer in (("one", "true\n"), ("two", "false\n")):
            code, out, said = job(earlier.root, "--lane", lane, TOUCHGATE_BASE="main")
            assert (code, out, "passed over" in said) == (0, answer, True), said
            assert f"head        {server.git('rev-parse', 'work')}  (the commit that GitHub's push event is for)" in said

    def test_a_leftover_of_the_very_head_does_not_bring_its_old_target_branch(self, server, job, clone, tmp_path):
        """The payload names the target as it was when the pull request was opened, and a lane came to it since."""
        old, head = server.git("rev-parse", "main"), server.git("rev-parse", "work")
        clone.git("fetch", "-q", "--unshallow", "origin", "main:refs/remotes/origin/main")
        late = "lanes:\n  late: {paths: [src/**], checks: [{command: 'true'}]}\n"
        server.git("update-ref", "refs/heads/main", commit_on(server, "main", "late", {"tasks/late.yml": late}))
        merge = server.git("commit-tree", "-p", "main", "-p", head, "-m", "merge", "main^{tree}")
        server.git("update-ref", "refs/pull/7/merge", merge)
        payload = {
            "repository": {"default_branch": "main"},
            "pull_request": {"base": {"ref": "main", "sha": old}, "head": {"sha": head}},
        }
        (tmp_path / "pull.json").write_text(json.dumps(payload))
        variables = {
            "GITHUB_EVENT_NAME": "pull_request",
            "GITHUB_EVENT_PATH": str(tmp_path / "pull.json"),
            "GITHUB_REF": "refs/pull/7/merge",
            "GITHUB_SHA": merge,
            "GITHUB_BASE_REF": "main",
        }
        assert clone.git("rev-parse", "HEAD") == head
        code, out, said = job(clone.root, "--json", **variables)
        assert (code, json.loads(out)["base"]) == (0, server.git("rev-parse", "main")), said
        assert "late" in {one["name"] for one in json.loads(out)["lanes"] if one["decision"] == "run"}
        code, out, said = job(clone.root, "--no-fetch", **variables)
        assert (code, out) == (0, "true\n")
        assert "so its main may be of an earlier one; run `git fetch origin main`" in said

    def test_ids_that_were_asked_for_are_judged(self, job, earlier):
        at = earlier.git("rev-parse", "HEAD")
        for words, variables in (((at, at), {}), ((), {"TOUCHGATE_BASE": at, "TOUCHGATE_HEAD": at})):
            code, out, said = job(earlier.root, *words, **variables)
            assert (code, out, "passed over" in said) == (0, "false\n", False), said

    @pytest.mark.parametrize("names", [("origin/main", "HEAD"), ("HEAD", "HEAD"), ("main", "@")])
    def test_names_are_not_those_of_a_leftover(self, job, earlier, names):
        code, out, said = job(earlier.root, "--lane", "two", *names)
        assert (code, out, "passed over" in said) == (0, "true\n", True)
        assert "names nothing; name a branch or a commit's full id" in said

    @pytest.mark.parametrize("variables", [{}, {"TOUCHGATE_BASE": "origin/main"}, {"TOUCHGATE_HEAD": "HEAD"}])
    def test_what_can_not_be_fetched_is_open(self, job, earlier, variables):
        code, out, said = job(earlier.root, "--no-fetch", **variables)
        assert (code, out, "passed over" in said) == (0, "true\n", False)
        assert "everything runs: " in said

    def test_a_base_alone_where_the_event_names_no_commit(self, job, earlier):
        code, out, _ = job(earlier.root, TOUCHGATE_BASE="main", GITHUB_EVENT_NAME="issue_comment")
        assert (code, out) == (0, "true\n")

    def test_a_merge_that_drops_what_is_proposed_is_not_the_event_s(self, server, job, clone, tmp_path):
        """`git merge -s ours HEAD_SHA` on an old main, left there by an earlier job."""
        head = server.git("rev-parse", "work")
        clone.git("fetch", "-q", "--unshallow", "origin", "main:refs/remotes/origin/main")
        clone.git("checkout", "-q", "refs/remotes/origin/main")
        clone.git("merge", "-q", "-s", "ours", "-m", "mine", head)
        merge = server.git("commit-tree", "-p", "main", "-p", head, "-m", "merge", "work^{tree}")
        server.git("update-ref", "refs/pull/7/merge", merge)
        payload = {"pull_request": {"base": {"ref": "main"}, "head": {"sha": head}}}
        (tmp_path / "pull.json").write_text(json.dumps(payload))
        variables = {
            "GITHUB_EVENT_NAME": "pull_request",
            "GITHUB_EVENT_PATH": str(tmp_path / "pull.json"),
            "GITHUB_REF": "refs/pull/7/merge",
            "GITHUB_SHA": merge,
        }
        for words in ((), ("--no-fetch",), ("origin/main", "HEAD")):
            code, out, said = job(clone.root, "--lane", "one", *words, **variables)
            assert (code, out) == (0, "true\n"), said

    @pytest.mark.parametrize("words", [(), ("origin/main", "HEAD"), ("main", "HEAD")])
    def test_the_event_s_own_commit_does_not_bring_an_old_main(self, server, job, clone, words):
        """The same commit, pushed once more or run once more, after main gained a lane."""
        clone.git("fetch", "-q", "--unshallow", "origin", "main:refs/remotes/origin/main")
        clone.git("branch", "main", "origin/main")
        late = "lanes:\n  late: {paths: [src/**], checks: [{command: 'true'}]}\n"
        server.git("update-ref", "refs/heads/main", commit_on(server, "main", "late", {"tasks/late.yml": late}))
        code, out, said = job(clone.root, "--json", *words)
        found = json.loads(out)
        assert (code, found["base"]) == (0, server.git("rev-parse", "main")), said
        assert "late" in {one["name"] for one in found["lanes"] if one["decision"] == "run"}
        server.git("update-ref", "-d", "refs/heads/main")
        code, out, said = job(clone.root, "--lane", "two", *words)
        assert (code, out) == (0, "true\n")
        assert "the main of this clone may be older than the remote's" in said


class TestSecrets:
    def test_the_forge_s_token_opens_the_forge_s_server_and_is_seen_nowhere(self, server, tmp_path, capfd):
        seen = []
        handler = serving.smart(server.root.parent, server.environ, user=("x-access-token", "s3cret"), seen=seen)
        with serving.http(handler) as at:
            environ = {**server.environ, **push(server, tmp_path, GITHUB_SERVER_URL=at, GITHUB_TOKEN="s3cret")}
            with watching_processes() as commands, remote.alone(f"{at}/up.git", environ) as repo:
                judged = change.resolve(repo, environ=environ, fetch=Fetch.NEEDED)
                files = snapshot(repo.root)
            assert touched(judged) == ["src/mine.txt"]
            wrong = {**environ, "GITHUB_TOKEN": "wr0ng"}
            with remote.alone(f"{at}/up.git", wrong) as repo:
                reason = change.resolve(repo, environ=wrong, fetch=Fetch.NEEDED).change.open_reason
        assert "wants a name and password" in reason
        word = "eC1hY2Nlc3MtdG9rZW46czNjcmV0"
        assert any(word in headers.get("Authorization", "") for headers in seen)
        told = f"{judged} {reason} {capfd.readouterr()} {commands}"
        assert not any(secret in told for secret in ("s3cret", "wr0ng", word))
        assert not any(b"s3cret" in content or word.encode() in content for content in files.values())

    def test_no_other_server_gets_it(self, server, tmp_path):
        seen = []
        with serving.http(serving.smart(server.root.parent, server.environ, seen=seen)) as at:
            environ = {**server.environ, **push(server, tmp_path, GITHUB_SERVER_URL="https://forge.example", GITHUB_TOKEN="t")}
            with remote.alone(f"{at}/up.git", environ) as repo:
                assert touched(change.resolve(repo, environ=environ, fetch=Fetch.NEEDED)) == ["src/mine.txt"]
        assert seen
        assert not any("Authorization" in headers for headers in seen)

    @pytest.mark.parametrize(
        ("url", "server", "below"),
        [
            ("https://forge.example/a/b", "https://forge.example", True),
            ("https://forge.example/a/b", "https://forge.example/", True),
            ("https://forge.example/git/a/b", "https://forge.example/git", True),
            ("https://forge.example/gitea/a", "https://forge.example/git", False),
            ("http://forge.example/a/b", "https://forge.example", False),
            ("https://forge.example.org/a/b", "https://forge.example", False),
            ("https://forge.example:8443/a/b", "https://forge.example", False),
            ("https://u@forge.example/a/b", "https://forge.example", True),
            ("https://forge.example@evil.example/a", "https://forge.example", False),
            ("git@forge.example:a/b", "https://forge.example", False),
            ("ssh://forge.example/a/b", "ssh://forge.example", False),
        ],
    )
    def test_which_server_is_the_forge_s(self, url, server, below):
        assert remote._is_below(url, server) is below

    def test_a_password_in_a_url(self, server, tmp_path):
        handler = serving.smart(server.root.parent, server.environ, user=("me", "p@ss"))
        with serving.http(handler) as at:
            url = f"{at}/up.git".replace("//", "//me:p%40ss@")
            with watching_processes() as commands, remote.alone(url, server.environ) as repo:
                judged = change.resolve(repo, base="main", head="work", environ={}, fetch=Fetch.NEEDED)
                assert "p%40ss" not in (repo.root / "config").read_text()
        assert touched(judged) == ["src/mine.txt"]
        assert "p%40ss" not in f"{judged} {commands}"

    def test_gitlab_s_url_holds_its_token(self, server, tmp_path):
        handler = serving.smart(server.root.parent, server.environ, user=("gitlab-ci-token", "tok"))
        with serving.http(handler) as at:
            environ = {
                **server.environ,
                "GITLAB_CI": "true",
                "CI_PIPELINE_SOURCE": "merge_request_event",
                "CI_COMMIT_SHA": server.git("rev-parse", "work"),
                "CI_MERGE_REQUEST_TARGET_BRANCH_NAME": "main",
                "CI_REPOSITORY_URL": f"{at}/up.git".replace("//", "//gitlab-ci-token:tok@"),
            }
            with remote.alone(forge.clone_url(environ), environ) as repo:
                judged = change.resolve(repo, environ=environ, fetch=Fetch.NEEDED)
        assert touched(judged) == ["src/mine.txt"]
        assert "tok@" not in str(judged)

    def test_a_merge_ref_whose_parent_is_not_given_by_its_id_takes_the_target(self, server, url, tmp_path, project):
        server.git("config", "uploadpack.allowAnySHA1InWant", "false")
        project.git("checkout", "-q", "--detach", "main")
        project.git("merge", "-q", "--no-edit", "work")
        project.git("push", "-q", str(server.root), "HEAD:refs/pull/7/merge")
        server.git("update-ref", "refs/heads/main", commit_on(server, "main", "later"))
        made = type(project)(tmp_path / "made", project.environ)
        made.root.mkdir()
        made.git("init", "-q")
        made.git("config", "protocol.version", "0")
        made.git("remote", "add", "origin", url)
        made.git("fetch", "-q", "--depth=1", "origin", "refs/pull/7/merge")
        made.git("checkout", "-q", "--detach", "FETCH_HEAD")
        head = project.git("rev-parse", "work")
        environ = merge_checked_out(made, head, tmp_path)
        assert touched(judge(made, environ)) == ["src/mine.txt"]

    def test_a_header_that_git_has_already_stays_the_only_one(self, server, clone, tmp_path):
        seen = []
        handler = serving.smart(server.root.parent, server.environ, user=("x-access-token", "checkout"), seen=seen)
        with serving.http(handler) as at:
            clone.git("remote", "set-url", "origin", f"{at}/up.git")
            word = "eC1hY2Nlc3MtdG9rZW46Y2hlY2tvdXQ="
            clone.git("config", f"http.{at}/.extraHeader", f"AUTHORIZATION: basic {word}")
            environ = push(server, tmp_path, GITHUB_SERVER_URL=at, GITHUB_TOKEN="another")
            assert touched(judge(clone, environ)) == ["src/mine.txt"]

    def test_credentials_that_belong_to_the_clone_s_folder(self, server, clone, tmp_path):
        """What a checkout action leaves: settings that are included only for this clone's own git folder."""
        with serving.http(serving.smart(server.root.parent, server.environ, user=("a", "b"))) as at:
            clone.git("remote", "set-url", "origin", f"{at}/up.git")
            (tmp_path / "credentials").write_text(f'[http "{at}/"]\n\textraHeader = AUTHORIZATION: basic YTpi\n')
            clone.git("config", f"includeIf.gitdir:{clone.root}/.git.path", str(tmp_path / "credentials"))
            assert touched(judge(clone, push(server, tmp_path))) == ["src/mine.txt"]

    @pytest.mark.parametrize(
        ("text", "shown"),
        [
            ("fatal: unable to access 'https://u:p@h/x'", "fatal: unable to access 'https://h/x'"),
            ("https://tok@h/x and ssh://git@h/y", "https://h/x and ssh://h/y"),
            ("https://h/a@b", "https://h/a@b"),
        ],
    )
    def test_urls_are_shown_without_who(self, text, shown):
        assert remote.without_userinfo(text) == shown


class watching_processes:  # noqa: N801 (used like a function)
    """Collects the command lines of all processes while it is entered, where the system shows them."""

    def __enter__(self):
        self.found = set()
        self.over = threading.Event()
        self.thread = threading.Thread(target=self.watch)
        self.thread.start()
        return self.found

    def watch(self):
        while not self.over.wait(0.01):
            for file in Path("/proc").glob("[0-9]*/cmdline"):
                try:
                    self.found.add(file.read_bytes())
                except OSError:
                    continue

    def __exit__(self, *_):
        self.over.set()
        self.thread.join()


class TestBareEnvironment:
    def test_no_home_and_no_identity(self, server, clone, tmp_path):
        bare = {"PATH": os.environ["PATH"]}
        with Repository(clone.root, bare) as repo:
            judged = change.resolve(repo, environ=push(server, tmp_path), fetch=Fetch.NEEDED)
        assert touched(judged) == ["src/mine.txt"]

    def test_a_folder_that_git_does_not_trust(self, server, clone, tmp_path):
        environ = {**clone.environ, "GIT_TEST_ASSUME_DIFFERENT_OWNER": "1"}
        real = Repository(clone.root, environ)
        real.environ["GIT_TEST_ASSUME_DIFFERENT_OWNER"] = "1"
        with real as repo, pytest.raises(GitFault, match=r"git config --global --add safe\.directory"):
            change.resolve(repo, environ=push(server, tmp_path), fetch=Fetch.NEEDED)
