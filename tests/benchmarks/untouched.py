"""How long it takes to decide that a branch touches nothing, beside what that must cost and beside other tools.

    python tests/benchmarks/untouched.py FOLDER [--peers DIR] [--rounds N] [--planned] [--million] [--only-extremes]

Makes its repositories in FOLDER once and finds them there again: 100,000 files in 55 packages, 10,000 commits, 55 lanes
of 40 patterns, and a branch that touches 20 files under docs/. Prints whole-process wall times in milliseconds, median
and range of N rounds (9) in which every contender has its turn, the median of what was computed, and the ratios round by
round; a person judges.

The floors: F1 is `python -c "import yaml"` and a bare `git diff --name-only -z --no-renames A...B` one after the other;
F2 is `doit list` beside an empty dodo.py and the same diff. Plain `doit` judges what is uncommitted too, so `git status`
stands beside it. DIR holds the other tools (peers.py says how to make it); one that is missing is named as unmeasured.
Each is first asked on a branch that touches one package, and what it selected there and on the branch under docs/ is shown
beside its time. Ours is the touchgate of the interpreter that runs this: one installed from a wheel is what people have,
and does not change while others edit the sources.

--planned: 100,000 touched paths against the 55 lanes: git printing them, our planning alone, the whole `touchgate gate`;
once with every file changed, once with as many new files that no lane gates.
--million: a repository of a million tracked files: the time of `touchgate gate`, every git command that it ran, and how
many objects and entries of the index these read, beside what listing the tree or the index takes.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import peers
from repository import ENVIRON, Shape, lanes_of, make, package
from timing import Contender, Times, in_turn, ratio, row, said, summed, timed

SETTINGS = '[tool.doit]\nloader = "touchgate"\nreporter = "touchgate"\n'
BIN = Path(sys.executable).parent
BASE, HEAD = "main", "topic"
DIFF = "git diff --name-only -z --no-renames A...B"
PLAN_ALONE = """\
import os, sys, time
from touchgate.gate import answers, cli
plan = answers.plan
def timed(*given, **more):
    began, computed = time.perf_counter(), time.process_time()
    made = plan(*given, **more)
    wall, cpu = time.perf_counter() - began, time.process_time() - computed
    os.write(int(sys.argv[1]), f"{wall * 1000} {cpu * 1000}".encode())
    return made
answers.plan = timed
sys.exit(cli.main(sys.argv[2:], os.environ))
"""
"""The gate with its pure part timed inside."""


def main() -> None:
    """Prepare, time, print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--peers", type=Path, metavar="DIR")
    parser.add_argument("--rounds", type=int, default=9, metavar="N")
    parser.add_argument("--planned", action="store_true")
    parser.add_argument("--million", action="store_true")
    parser.add_argument("--only-extremes", action="store_true", help="leave out the decision on the branch under docs/")
    asked = parser.parse_args()
    folder: Path = asked.folder.resolve()
    (folder / "home").mkdir(parents=True, exist_ok=True)
    # PYTHON...: a machine that keeps Python from writing byte code would have us compile everything in every round.
    dropped = ("GIT_", "GITHUB_", "CI", "TOUCHGATE_", "DOIT_", "XDG_", "NX_", "TURBO_", "MOON_", "PYTHON")
    kept = {name: value for name, value in ENVIRON.items() if not name.startswith(dropped)}
    git = {"GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_NOSYSTEM": "1"}
    environ = {**kept, **git, **peers.ENVIRON, "HOME": str(folder / "home"), "XDG_CACHE_HOME": str(folder / "home/cache")}
    if not asked.only_extremes:
        decided(folder, asked.peers, asked.rounds, environ)
    if asked.planned:
        planned(folder, asked.rounds, environ)
    if asked.million:
        million(folder, asked.rounds, environ)


def _git(folder: Path, *arguments: str) -> str:
    done = subprocess.run(["git", "-C", str(folder), *arguments], check=True, capture_output=True, text=True, env=ENVIRON)
    return done.stdout.rstrip("\n")


def _diff(folder: Path, head: str) -> Contender:
    return Contender(DIFF, ("git", "diff", "--name-only", "-z", "--no-renames", f"{BASE}...{head}"), folder)


def _gate(folder: Path, head: str = HEAD) -> Contender:
    return Contender("touchgate gate A B", (str(BIN / "touchgate"), "gate", BASE, head), folder, {}, r"(?m)^run +(p\d\d)")


# ---- the branch that touches no package


def checkout(folder: Path, place: Path | None) -> Path:
    """The repository with the workspaces of all, cloned, `topic` checked out; its branch `one` touches one package."""
    clone = folder / "checkout"
    if not (clone / ".git/ready").exists():
        shape = Shape()
        lanes = {Path(name).stem: text for name, text in lanes_of(shape).items()}
        filters = {name: re.findall(r'(?m)^      - "(.*)"$', text) for name, text in lanes.items()}
        packages = {f"p{number:02}": package(number) for number in range(shape.packages)}
        also = {"pyproject.toml": SETTINGS, **peers.workspace(packages, filters)}
        bare = make(folder / "large.git", Shape(also=tuple(also.items()), wide=True))
        shutil.rmtree(clone, ignore_errors=True)
        subprocess.run(["git", "clone", "-q", "-b", HEAD, str(bare), str(clone)], check=True, env=ENVIRON)
        for branch in (BASE, "everywhere", "beside"):
            _git(clone, "branch", branch, f"origin/{branch}")
        _git(clone, "checkout", "-q", "-b", "one")
        (clone / package(1) / "src/m00/new.cu").write_text("new\n")
        _git(clone, "add", "-A")
        _git(clone, "-c", "user.name=A", "-c", "user.email=a@example.org", "commit", "-q", "-m", "one package")
        _git(clone, "checkout", "-q", HEAD)
        (clone / ".git/ready").touch()
    peers.installed(clone, place)
    return clone


def decided(folder: Path, place: Path | None, rounds: int, environ: dict[str, str]) -> None:
    """The floors, ours and the others."""
    clone = checkout(folder, place)
    empty = folder / "empty"
    empty.mkdir(exist_ok=True)
    (empty / "dodo.py").write_text("")
    plain = place / "venv/bin/doit" if place else None
    yaml = Contender('python -c "import yaml"', (sys.executable, "-c", "import yaml"), empty)
    doit = Contender("doit list, empty dodo.py, touchgate installed", (str(BIN / "doit"), "list"), empty)
    status = Contender("git status", ("git", "status", "--porcelain=v2", "-z", "--untracked-files=all"), clone)
    floors = [yaml, _diff(clone, HEAD), status, doit]
    if plain is not None and plain.exists():
        floors.append(Contender("doit list, empty dodo.py, doit alone", (str(plain), "list"), empty))
    selects = r"(?m)^(p\d\d)\b"
    gate = _gate(clone)
    ours = [
        gate,
        Contender("doit", (str(BIN / "doit"),), clone, {}, selects),
        Contender("doit --base A --head B", (str(BIN / "doit"), "--base", BASE, "--head", HEAD), clone, {}, selects),
    ]
    others, lacking = peers.contenders(clone, place, BASE, HEAD)
    try:
        answers = _answers(clone, [gate, *others], place, environ)
        times = in_turn([*floors, *ours, *others], rounds, environ)
    finally:
        peers.stopped(clone, place, environ)
    print(
        f"\n{rounds} rounds, milliseconds, median [min-max]; "
        "selected: packages on a branch that touches one, and on the one under docs/"
    )
    for one in (*floors, *ours, *others):
        print(row(one.name, times[one.name], answers.get(one.name, "")))
    print("\n".join(lacking))
    diff = times[DIFF]
    print(ratio("touchgate gate / (python, yaml + diff)", times[gate.name], summed(times[yaml.name], diff), "at most 2"))
    for floor in floors[3:]:
        start = summed(times[floor.name], diff)
        for one in ours[1:]:
            print(ratio(f"{one.name} / ({floor.name} + diff)", times[one.name], start, "at most 1.5"))
        whole = summed(start, times[status.name])
        print(ratio(f"doit / ({floor.name} + diff + git status)", times["doit"], whole, "at most 1.5"))
    for other in others:
        for one in ours:
            print(ratio(f"{other.name} / {one.name}", times[other.name], times[one.name], "at least 1.2"))


def _answers(clone: Path, asked: list[Contender], place: Path | None, environ: dict[str, str]) -> dict[str, str]:
    """How many packages each selects, on `one` and on `topic`."""
    found: dict[str, list[int]] = {one.name: [] for one in asked}
    for head in ("one", HEAD):
        _git(clone, "checkout", "-q", head)
        there = [_gate(clone, head), *peers.contenders(clone, place, BASE, head)[0]]
        for one in there:
            found[one.name].append(len(set(re.findall(one.selects or "$^", said(one, environ)))))
    ours = asked[0]
    if found[ours.name] != [1, 0]:
        sys.exit(f"{ours.name} is wrong, so its time says nothing: {found[ours.name]} packages\n{said(ours, environ)}")
    return {name: f"   selected {on_one}, {on_topic}" for name, (on_one, on_topic) in found.items()}


# ---- many touched paths


def planned(folder: Path, rounds: int, environ: dict[str, str]) -> None:
    """git printing 100,000 touched paths, our planning of them, the whole gate."""
    clone = checkout(folder, None)
    for head, what in (("everywhere", "every file changed"), ("beside", "as many new files that no lane gates")):
        diff, gate = _diff(clone, head), _gate(clone, head)
        alone = Contender("the plan alone", (), clone)
        found = {one.name: Times([], []) for one in (diff, alone, gate)}
        for number in range(rounds + 1):
            turn = {
                diff.name: timed(diff, environ),
                alone.name: _plan_alone(clone, head, environ),
                gate.name: timed(gate, environ),
            }
            for name, (wall, cpu) in turn.items() if number else ():
                found[name].wall.append(wall)
                found[name].cpu.append(cpu)
        paths = subprocess.run(diff.command, cwd=clone, env=ENVIRON, check=True, capture_output=True).stdout.count(b"\0")
        lanes = len(re.findall(gate.selects or "", said(gate, environ)))
        print(f"\n{paths} touched paths, {what}: {lanes} of 55 lanes run")
        for name, times in found.items():
            print(row(name, times))
        for name in (alone.name, gate.name):
            print(ratio(f"{name} / diff", found[name], found[diff.name], "under 10"))


def _plan_alone(clone: Path, head: str, environ: dict[str, str]) -> tuple[float, float]:
    """The gate's pure part within a process of the gate: wall and computing time, milliseconds."""
    reading, writing = os.pipe()
    command = [sys.executable, "-c", PLAN_ALONE, str(writing), BASE, head]
    subprocess.run(command, cwd=clone, env=environ, check=True, pass_fds=(writing,), capture_output=True)
    os.close(writing)
    with os.fdopen(reading) as answer:
        wall, cpu = map(float, answer.read().split())
    return wall, cpu


# ---- a million tracked files


def million(folder: Path, rounds: int, environ: dict[str, str]) -> None:
    """The gate where a step that lists the tree or the index would be seen."""
    clone = folder / "million"
    if not (clone / ".git/ready").exists():
        bare = make(folder / "million.git", Shape(files=1_000_000, commits=1_000, file_bytes=20))
        shutil.rmtree(clone, ignore_errors=True)
        subprocess.run(["git", "clone", "-q", "-n", "-b", HEAD, str(bare), str(clone)], check=True, env=ENVIRON)
        _git(clone, "branch", BASE, f"origin/{BASE}")
        # An index of all, so that reading it would cost; the files themselves are not needed.
        _git(clone, "read-tree", HEAD)
        (clone / ".git/ready").touch()
    gate = _gate(clone)
    lists = [
        Contender("git ls-files", ("git", "ls-files", "-z"), clone),
        Contender("git ls-tree -r", ("git", "ls-tree", "-r", "-z", "--name-only", HEAD), clone),
    ]
    diff = _diff(clone, HEAD)
    times = in_turn([diff, gate, *lists], rounds, environ)
    print(f"\na million tracked files, an index of {(clone / '.git/index').stat().st_size / 1e6:.0f} MB")
    for one in (diff, gate, *lists):
        print(row(one.name, times[one.name]))
    commands, objects, entries = _traced(folder, gate, environ)
    packed = re.search(r"(?m)^in-pack: (\d+)$", _git(clone, "count-objects", "-v"))
    print(f"objects read from packs: {objects} of {packed[1] if packed else '?'}; entries of the index read: {entries}")
    print("\n".join(f"  git {command}" for command in commands))


def _traced(folder: Path, one: Contender, environ: dict[str, str]) -> tuple[list[str], int, int]:
    """The git commands that it runs, and how many packed objects and entries of the index these read.

    By a `git` in front of the real one that notes its arguments and has git's own traces written.
    """
    log, packs, events, shim = (folder / name for name in ("commands", "packs", "events", "shim/git"))
    shim.parent.mkdir(exist_ok=True)
    for file in (log, packs, events):
        file.unlink(missing_ok=True)
        file.touch()
    shim.write_text(
        "#!/bin/sh\n"
        f"printf '%s ' \"$@\" >> '{log}'; echo >> '{log}'\n"
        f"export GIT_TRACE_PACK_ACCESS='{packs}' GIT_TRACE2_EVENT='{events}'\n"
        f"exec '{shutil.which('git', path=environ['PATH'])}' \"$@\"\n"
    )
    shim.chmod(0o755)
    said(one, {**environ, "PATH": f"{shim.parent}{os.pathsep}{environ['PATH']}"})
    commands = [re.sub(r"^(?:-[cC] \S+ )*", "", line) for line in log.read_text().splitlines()]
    told = [json.loads(line) for line in events.read_text().splitlines()]
    entries = sum(int(event["value"]) for event in told if event.get("key") == "read/cache_nr")
    return commands, len(packs.read_text().splitlines()), entries


if __name__ == "__main__":
    main()
