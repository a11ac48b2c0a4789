"""A large repository made by `git fast-import`, for the benchmarks: made once in a folder, and found there again.

`python tests/benchmarks/repository.py FOLDER` makes the one that the docs' figures are about: 100,000 files in 55 packages,
10,000 commits of which one in 25 is a merge, and a branch `topic`, cut 50 commits before main's tip, that touches 20 files
under docs/ and no package.
"""

from __future__ import annotations

import os
import random
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

ENVIRON = {
    **{name: value for name, value in os.environ.items() if not name.startswith("GIT_")},
    "GIT_CONFIG_GLOBAL": os.devnull,
    "GIT_CONFIG_NOSYSTEM": "1",
}


@dataclass(frozen=True)
class Shape:
    """What to make.

    file_bytes: about how large a file is. touched: files under docs/ that the branch changes. lanes: declare 55 of 40
    patterns. also: further files, path and text, that come with the second commit and stay on both branches. wide: two
    more branches cut where `topic` is: `everywhere` changes every file, `beside` adds as many that no lane gates.
    """

    files: int = 100_000
    packages: int = 55
    commits: int = 10_000
    behind: int = 50
    touched: int = 20
    file_bytes: int = 60
    lanes: bool = True
    also: tuple[tuple[str, str], ...] = ()
    wide: bool = False
    seed: int = 1


def package(number: int) -> str:
    """The folder of a package."""
    return f"packages/p{number:02}"


def path_of(number: int, shape: Shape) -> str:
    """The path of a file: spread over the packages, three folders deep, one in a hundred under docs/."""
    if number % 100 == 0:
        return f"docs/d{number // 100 % 40:02}/page{number:06}.md"
    area = ("src", "tests", "kernels", "data")[number // shape.packages % 4]
    ending = ("cu", "py", "h", "rs")[number % 4]
    return f"{package(number % shape.packages)}/{area}/m{number // 977 % 26:02}/f{number:06}.{ending}"


def lanes_of(shape: Shape) -> dict[str, str]:
    """Lane files, one a package: 40 patterns each, of the shapes that people write."""
    files = {}
    for number in range(shape.packages):
        at, other = package(number), package((number + 1) % shape.packages)
        patterns = [f"{at}/{area}/m{folder:02}/**" for area in ("src", "kernels", "tests") for folder in range(8)]
        patterns += [f"{at}/**/*.{ending}" for ending in ("cu", "cuh", "h", "py", "rs", "toml")]
        patterns += [f"{at}/data/m0[{digit}-9]/f*.py" for digit in range(5)]
        patterns += [f"{other}/src/**/*.h", f"{at}/Cargo.toml", "include/**/*.cuh", f"!{at}/**/*.md", f"!{at}/docs/**"]
        listed = "\n".join(f'      - "{pattern}"' for pattern in patterns)
        lane = f"lanes:\n  p{number:02}:\n    about: package {number}\n    paths:\n{listed}\n"
        files[f"tasks/p{number:02}.yml"] = f"{lane}    checks:\n      - command: ./test {at}\n"
    return files


def make(folder: Path, shape: Shape) -> Path:
    """The repository in `folder`, made if it is not there; main is checked out nowhere, HEAD names it."""
    if (folder / "made").exists():
        return folder
    folder.mkdir(parents=True, exist_ok=True)
    subprocess.run(["git", "init", "-q", "--bare", "-b", "main", str(folder)], check=True, env=ENVIRON)
    with subprocess.Popen(
        ["git", "-C", str(folder), "fast-import", "--quiet", "--depth=10"], stdin=subprocess.PIPE, env=ENVIRON
    ) as process:
        assert process.stdin is not None
        _write(process.stdin, shape)
        process.stdin.close()
    if process.returncode:
        sys.exit(f"git fast-import failed ({process.returncode})")
    (folder / "made").touch()
    return folder


def _content(chosen: random.Random, number: int, version: int, size: int) -> bytes:
    head = f"file {number} version {version}\n".encode()
    # Hex of random bytes: compresses to about half, as sources do.
    return head + chosen.randbytes(max(0, size - len(head)) // 2).hex().encode()


def _write(out: IO[bytes], shape: Shape) -> None:
    chosen = random.Random(shape.seed)
    clock = 1_600_000_000
    main: list[int] = []
    mark = 0

    def commit(
        branch: str, changes: list[tuple[int, bytes]], parents: list[int], texts: Mapping[str, str] | None = None
    ) -> int:
        nonlocal mark, clock
        mark += 1
        clock += 600
        who = f"A U Thor <author@example.com> {clock} +0000"
        said = f"change {mark}\n".encode()
        out.write(f"commit refs/heads/{branch}\nmark :{mark}\nauthor {who}\ncommitter {who}\n".encode())
        out.write(b"data %d\n%b" % (len(said), said))
        for word, parent in zip(("from", *["merge"] * 9), parents, strict=False):
            out.write(f"{word} :{parent}\n".encode())
        files = [(path_of(number, shape), content) for number, content in changes]
        files += [(path, text.encode()) for path, text in (texts or {}).items()]
        for path, content in files:
            out.write(f"M 100644 inline {path}\ndata {len(content)}\n".encode() + content + b"\n")
        out.write(b"\n")
        return mark

    def some(version: int) -> list[tuple[int, bytes]]:
        numbers = {chosen.randrange(shape.files) for _ in range(chosen.randint(1, 4))}
        return [(number, _content(chosen, number, version, shape.file_bytes)) for number in numbers]

    main.append(commit("main", [(n, _content(chosen, n, 0, shape.file_bytes)) for n in range(shape.files)], []))
    declared = {**(lanes_of(shape) if shape.lanes else {}), **dict(shape.also)}
    if declared:
        main.append(commit("main", [], [main[-1]], declared))
    while mark < shape.commits - 1:
        if chosen.random() < 1 / 25 and len(main) > 30:
            side = commit("side", some(mark), [main[-chosen.randint(2, 30)]])
            main.append(commit("main", some(mark), [main[-1], side]))
        else:
            main.append(commit("main", some(mark), [main[-1]]))
    docs = [(100 * number, b"as the branch has it\n") for number in range(1, shape.touched + 1)]
    commit("topic", docs, [main[-1 - shape.behind]])
    if shape.wide:
        changed = [(number, b"as the branch has it\n") for number in range(shape.files)]
        commit("everywhere", changed, [main[-1 - shape.behind]])
        added = {f"{package(n % shape.packages)}/notes/n{n % 97:02}/note{n:06}.txt": "a note\n" for n in range(shape.files)}
        commit("beside", [], [main[-1 - shape.behind]], added)
    # A side branch's ref would bring its commits into every clone.
    out.write(b"reset refs/heads/side\nfrom 0000000000000000000000000000000000000000\n\n")


if __name__ == "__main__":
    print(make(Path(sys.argv[1]), Shape()))
