"""Random histories, many in one repository, with their true merge bases worked out without git.

Each history has two tips. It holds merges, side branches from old commits, and commit dates that do not follow the order of
the commits. `python -m tests.random_histories COUNT [SEED]` plays COUNT of them: clones each at a random depth, asks for the
merge base as the gate does, then lets the gate deepen the clone until it is proven, and prints the counts.
"""

from __future__ import annotations

import os
import random
import subprocess
import sys
import tempfile
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

from touchgate.gate import change, remote
from touchgate.gate.git import Repository
from touchgate.gate.history import Untold
from touchgate.gate.sides import Side

ENVIRON = {
    **{name: value for name, value in os.environ.items() if not name.startswith("GIT_")},
    "GIT_CONFIG_GLOBAL": os.devnull,
    "GIT_CONFIG_NOSYSTEM": "1",
}


@dataclass(frozen=True)
class History:
    """parents: of each commit by its number; base, head: the numbers of the tips."""

    parents: tuple[tuple[int, ...], ...]
    dates: tuple[int, ...]
    base: int
    head: int

    def merge_bases(self) -> set[int]:
        """Common ancestors that are no ancestors of another common ancestor."""
        below: list[set[int]] = []
        for number, parents in enumerate(self.parents):
            below.append({number}.union(*(below[parent] for parent in parents)))
        common = below[self.base] & below[self.head]
        return {one for one in common if not any(one in below[other] for other in common - {one})}


def make(rng: random.Random) -> History:
    """A history of up to 40 commits."""
    parents: list[tuple[int, ...]] = []
    branches = [0]
    skew = rng.random() < 0.5
    size = rng.randint(4, 40)
    merging = rng.choice((0.1, 0.3, 0.5))
    for number in range(size):
        if not parents:
            parents.append(())
            continue
        at = rng.randrange(len(branches))
        tip = branches[at]
        others = {branch for branch in branches if branch != tip}
        if others and rng.random() < merging:
            parents.append((tip, rng.choice(sorted(others))))
        elif rng.random() < 0.05:
            parents.append((rng.randrange(number),))
        else:
            parents.append((tip,))
        branches[at] = number
        if rng.random() < 0.15:
            branches.append(rng.randrange(number + 1))
    base, head = rng.choice(branches), rng.choice(branches)
    dates = [rng.randrange(10_000) if skew else 100 * number for number in range(size)]
    return History(tuple(parents), tuple(dates), base, head)


def write(folder: Path, histories: list[History]) -> list[list[str]]:
    """All histories in one bare repository, tips as refs/heads/N/base and N/head; the commits' ids by their numbers."""
    git(folder.parent, "init", "-q", "--bare", str(folder))
    for setting in ("uploadpack.allowFilter=true", "uploadpack.allowAnySHA1InWant=true"):
        git(folder, "config", *setting.split("="))
    lines = []
    first = 1
    for number, history in enumerate(histories):
        for commit, parents in enumerate(history.parents):
            when = 1_600_000_000 + history.dates[commit]
            text = f"history {number} commit {commit}"
            lines.append(f"commit refs/heads/{number}/all\nmark :{first + commit}\ncommitter A <a@example.org> {when} +0000")
            lines.append(f"data {len(text)}\n{text}")
            lines += [f"{'merge' if order else 'from'} :{first + parent}" for order, parent in enumerate(parents)]
            content = f"{number}.{commit}"
            lines.append(f"M 100644 inline f{commit % 7}\ndata {len(content)}\n{content}")
            if not parents:
                lines.append("")
        for name, tip in (("base", history.base), ("head", history.head)):
            lines.append(f"reset refs/heads/{number}/{name}\nfrom :{first + tip}\n")
        lines.append(f"reset refs/heads/{number}/all\n")
        first += len(history.parents)
    marks = folder / "marks"
    data = "\n".join([*lines, ""]).encode()
    command = ["git", "fast-import", "--quiet", "--force", f"--export-marks={marks}"]
    subprocess.run(command, cwd=folder, env=ENVIRON, input=data, check=True)
    ids = [line.split(" ")[1] for line in sorted(marks.read_text().splitlines(), key=lambda line: int(line[1:].split(" ")[0]))]
    found = []
    for history in histories:
        found.append(ids[: len(history.parents)])
        ids = ids[len(history.parents) :]
    return found


def git(folder: Path, *arguments: str) -> str:
    """Run git; what it prints."""
    done = subprocess.run(["git", *arguments], cwd=folder, env=ENVIRON, check=True, capture_output=True, text=True)
    return done.stdout.strip()


def clone(server: Path, number: int, depth: int, folder: Path) -> None:
    """A clone of one history's two tips at a depth, as origin/base and origin/head."""
    git(folder.parent, "init", "-q", str(folder))
    git(folder, "remote", "add", "origin", f"file://{server}")
    words = [f"+refs/heads/{number}/{name}:refs/remotes/origin/{name}" for name in ("base", "head")]
    git(folder, "fetch", "-q", "--no-tags", f"--depth={depth}", "origin", *words)


def proven(repo: Repository) -> tuple[str, ...] | Untold:
    """The merge bases where the gate believes them, else why it does not."""
    found = repo.commits(["refs/remotes/origin/base", "refs/remotes/origin/head"])
    base, head = (Side(commit, "a test") for commit in found.values())
    try:
        return change._merge_bases(repo, base, head)[0]
    except Untold as untold:
        return untold


def play(server: Path, number: int, history: History, ids: list[str], rng: random.Random, folder: Path) -> tuple[str, str]:
    """What came of one history, before and after deepening: "proven", "open" or "WRONG", and "none" for no deepening."""
    true = {ids[one] for one in history.merge_bases()}
    clone(server, number, rng.randint(1, 8), folder)
    remote.STEPS = tuple(rng.randint(1, 6) for _ in range(20))
    with Repository(folder, ENVIRON) as repo:
        first = proven(repo)
        before = "open" if isinstance(first, Untold) else "proven" if set(first) == true else "WRONG"
        if not isinstance(first, Untold) or first.lack is None:
            return before, "none"
        fetcher = remote.attach(repo, ENVIRON)
        answer = first
        while isinstance(answer, Untold) and answer.lack and fetcher.bring(answer.lack):
            answer = proven(repo)
        if isinstance(answer, Untold):
            return before, "open" if true else "unrelated"
        return before, "proven" if set(answer) == true else "WRONG"


def run(count: int, seed: int, folder: Path) -> tuple[Counter[str], Counter[str]]:
    """Play so many histories; the counts before and after deepening."""
    rng = random.Random(seed)
    steps = remote.STEPS
    before: Counter[str] = Counter()
    after: Counter[str] = Counter()
    while count > 0:
        histories = [make(rng) for _ in range(min(count, 250))]
        with tempfile.TemporaryDirectory(dir=folder) as name:
            server = Path(name, "server.git")
            ids = write(server, histories)
            for number, history in enumerate(histories):
                came = play(server, number, history, ids[number], rng, Path(name, f"c{number}"))
                before[came[0]] += 1
                after[came[1]] += 1
                if "WRONG" in came:
                    print(f"WRONG: seed {seed}, {history}", flush=True)
        count -= len(histories)
        print(f"{count} left; before {dict(before)}, after {dict(after)}", file=sys.stderr, flush=True)
    remote.STEPS = steps
    return before, after


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as top:
        print(*run(int(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 1, Path(top)))
