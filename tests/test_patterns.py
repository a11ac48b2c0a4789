"""The dialect against tables and against a second, deliberately naive matcher; lists one by one and all together."""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from touchgate.gate import automaton, dialect
from touchgate.gate.patterns import Index, PatternList, list_faults, nearest, nearest_of

from .github_paths import ALWAYS, CASES, LISTS, NEVER

EXAMPLES = int(os.environ.get("TOUCHGATE_TEST_EXAMPLES", "2000"))
"""How many made-up pattern lists are compared; 100,000 take some minutes."""


def skipped_by(patterns: list[str], paths: list[str]) -> bool:
    return bool(patterns) and PatternList(patterns).touches(paths) is None


def skipped_by_ignore(patterns: list[str], paths: list[str]) -> bool:
    return bool(patterns) and all(PatternList(patterns).ignores(path) for path in paths)


@pytest.mark.parametrize(("patterns", "paths", "skip", "ignored"), CASES)
def test_the_public_table(patterns, paths, skip, ignored):
    assert (skipped_by(patterns, paths), skipped_by_ignore(patterns, paths)) == (skip, ignored)


def test_the_tables_are_whole():
    assert len(CASES) == 64
    assert len(set(NEVER)) >= 60


@pytest.mark.parametrize(("pattern", "path"), NEVER)
def test_does_not_match(pattern, path):
    assert PatternList([pattern]).decides(path) is None


@pytest.mark.parametrize(("pattern", "path"), ALWAYS)
def test_matches(pattern, path):
    assert PatternList([pattern]).decides(path) == 0


@pytest.mark.parametrize(("patterns", "path", "index"), LISTS)
def test_the_last_match_decides(patterns, path, index):
    assert PatternList(patterns).decides(path) == index


# a second matcher: no automaton, no bits; exponential, and written from the table of meanings


def naive_pieces(pattern: str) -> list[tuple[str, str]] | None:  # noqa: C901 - one branch a sign
    """(what, how often) for each piece: how often is "1", "?", "+" or "*"; None where it is no pattern."""
    pieces: list[tuple[str, str]] = []
    rest = pattern
    while rest:
        if rest.startswith("**/"):
            piece, rest = ("**/", "1"), rest[3:]
        elif rest.startswith("**"):
            piece, rest = ("any", "*"), rest[2:]
        elif rest.startswith("*"):
            piece, rest = ("no slash", "*"), rest[1:]
        elif rest.startswith("["):
            inside, closed, rest = rest[1:].partition("]")
            members = naive_members(inside)
            if not closed or not members:
                return None
            piece = (members, "1")
        elif rest.startswith("\\"):
            if len(rest) == 1:
                return None
            piece, rest = (rest[1], "1"), rest[2:]
        else:
            piece, rest = (rest[0], "1"), rest[1:]
        signs = 1 if piece[0] in ("**/", "any", "no slash") else 0
        while rest[:1] in ("?", "+") and rest:
            if signs > 1 or (signs == 1 and rest[0] == "+"):
                return None
            if signs == 0:
                piece = (piece[0], rest[0])
            signs += 1
            rest = rest[1:]
        pieces.append(piece)
    return pieces or None


def naive_members(inside: str) -> str:
    members = ""
    while inside:
        low, high, used = inside[0], inside[0], 1
        if inside[1:2] == "-":
            high, used = inside[2:3], 3
        letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZ[\\]^_`abcdefghijklmnopqrstuvwxyz"
        if used == 1 and not (low.isascii() and (low.isalnum() or low == "_")):
            return ""
        for alphabet in (letters, "0123456789"):
            if low in alphabet and high and high in alphabet and alphabet.index(low) <= alphabet.index(high):
                members += alphabet[alphabet.index(low) : alphabet.index(high) + 1]
                break
        else:
            return ""
        if low in "[\\]^`" or (used == 3 and high in "[\\]^`" and not low.isalpha()):
            return ""
        inside = inside[used:]
    return members


def naive_match(pieces: list[tuple[str, str]], path: str) -> bool:
    if not pieces:
        return not path
    (what, count), rest = pieces[0], pieces[1:]
    if what == "**/":
        return naive_match(rest, path) or any(
            path[end] == "/" and naive_match(rest, path[end + 1 :]) for end in range(1, len(path))
        )
    if count in "?*" and naive_match(rest, path):
        return True
    if not path:
        return False
    fits = {"any": True, "no slash": path[0] != "/"}.get(what, path[0] in what)
    following = [(what, "*"), *rest] if count == "+" else pieces if count == "*" else rest
    return fits and naive_match(following, path[1:])


def naive_decides(patterns: list[str], path: str) -> int | None:
    decided = None
    for index, text in enumerate(patterns):
        body = text.removeprefix("!")
        pieces = naive_pieces(body)
        if pieces is not None and naive_match(pieces, path):
            decided = None if text.startswith("!") else index
    return decided


PIECES = [
    "*",
    "**",
    "**/",
    "/",
    "a",
    "b",
    "c",
    "?",
    "+",
    "[ab]",
    "[a-c]",
    "[",
    "]",
    "\\",
    "\\*",
    "!",
    ".",
    "ab/",
    "é",
    "\udce9",
    "-",
]
BODY = st.lists(st.sampled_from(PIECES), max_size=7).map("".join)
PATTERNS = st.lists(st.builds(str.__add__, st.sampled_from(["", "", "!"]), BODY), max_size=5)
PATHS = st.lists(
    st.sampled_from(["a", "b", "c", "/", "ab/", ".", "+", "?", "!", "é", "\udce9", "-", "[", "\n"]),
    min_size=1,
    max_size=8,
)


@settings(max_examples=EXAMPLES, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(PATTERNS, st.lists(PATHS.map("".join), min_size=1, max_size=4))
@example(["a**/b"], ["a/b"])
@example(["**/**/a?**/b"], ["a/b", "b", "/b"])
def test_agrees_with_the_naive_matcher(patterns, paths):
    listed = PatternList(patterns)
    expected = [naive_decides(patterns, path) for path in paths]
    assert [listed.decides(path) for path in paths] == expected
    first = next(((path, index) for path, index in zip(paths, expected, strict=True) if index is not None), None)
    assert Index({"x": listed}).touched(paths) == ({"x": first} if first else {})


@settings(max_examples=EXAMPLES // 10, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(PATTERNS, min_size=1, max_size=6), st.lists(PATHS.map("".join), max_size=12))
def test_lists_together_say_what_each_says_alone(lists, paths):
    named = {f"lane{number}": PatternList(patterns) for number, patterns in enumerate(lists)}
    alone = {name: found for name, patterns in named.items() if (found := patterns.touches(paths))}
    index = Index(named)
    assert index.touched(paths) == alone
    assert index.touched(paths) == alone, "a second look, from what the first one remembered"
    assert Index(named, paths).touched(paths) == alone, "with what other paths would need left out"


@settings(max_examples=EXAMPLES // 10, deadline=None)
@given(PATTERNS, PATHS.map("".join))
def test_forgetting_states_changes_nothing(patterns, path):
    kept, automaton._CACHE_BYTES = automaton._CACHE_BYTES, 0
    try:
        assert PatternList(patterns).decides(path) == naive_decides(patterns, path)
    finally:
        automaton._CACHE_BYTES = kept


HOSTILE = [
    ("*a" * 30 + "*b", "a" * 4000, False),
    ("**a" * 30 + "**b", "a/" * 2000, False),
    ("a?" * 2000 + "a", "a" * 2001, True),
    ("a?" * 2000 + "b", "a" * 2000, False),
    ("[a-z]+" * 600 + "0", "a" * 4000, False),
    ("[a-z]+" * 600, "a" * 4000, True),
    ("**/" * 1300 + "x", "a/" * 2000 + "y", False),
    ("**/" * 1300 + "x", "a/" * 2000 + "x", True),
    ("*?" * 2000, "a" * 4000, True),
    ("[ab]*a" + "[ab]" * 499, "ab" * 2000, True),
    ("[ab]*a" + "[ab]" * 500, "ab" * 2000, False),
]


@pytest.mark.parametrize(("pattern", "path", "matches"), HOSTILE)
def test_no_pattern_hangs(pattern, path, matches):
    """Each would keep a backtracking matcher busy for longer than anybody waits, or needs 2 ** 500 states at once."""
    assert (PatternList([pattern]).decides(path) is not None) is matches


def test_the_work_is_linear_in_the_path(monkeypatch):
    """Counted, not timed: one step a character, however many ways there are to match."""
    steps = []
    step = automaton.Automaton.step
    monkeypatch.setattr(automaton.Automaton, "step", lambda self, *more: steps.append(1) or step(self, *more))
    path = "ab" * 2000
    PatternList(["[ab]*a" + "[ab]" * 300, "*a*b*a*b*c"]).decides(path)
    assert len(steps) <= len(path)


def lines_run(act) -> int:
    """How many lines of the dialect and the automaton are executed: a count of the work that no machine's speed changes."""
    count = 0

    def inside(frame, event, argument):
        nonlocal count
        count += event == "line"
        return inside

    def trace(frame, event, argument):
        return inside if frame.f_code.co_filename in (automaton.__file__, dialect.__file__) else None

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        act()
    finally:
        sys.settrace(before)
    return count


GROWING = [
    # what is repeated in the pattern, and in the path
    ("*a", "a"),
    ("*a", "ab"),
    ("**a", "a/"),
    ("**/", "a/"),
    ("a?", "a"),
    ("a+", "a"),
    ("[a-z]?", "a"),
    ("[a-z]+", "z"),
    ("[ab]+*", "ab"),
    ("*?", "a"),
    ("\\?+", "?"),
    ("**/*?a+", "a/"),
    ("a*b?[c]+", "abc"),
]


@pytest.mark.parametrize(("piece", "part"), GROWING)
def test_the_work_is_linear_in_the_pattern_and_in_the_path(piece, part):
    """Twice the pattern is at most about twice the work, and so is twice the path, however many ways there are to match."""

    def work(pieces: int, parts: int) -> int:
        return lines_run(lambda: PatternList([piece * pieces + "!"]).decides(part * parts))

    # What is counted must be there to be counted.
    once = work(100, 1000)
    assert once > 1000
    assert work(200, 1000) < 2.2 * once
    assert work(100, 2000) < 2.2 * once
    assert work(200, 2000) < 4.4 * once


@pytest.mark.parametrize("pattern", ["*a" * 200, "a?" * 200, "[a-z]+" * 200, "**/" * 200 + "a", "*a?" * 200])
def test_a_path_of_a_hundred_thousand_characters(monkeypatch, pattern):
    """One step a character at most, and each step on an integer of one bit or two for every character of the pattern."""
    sizes = []
    step = automaton.Automaton.step
    monkeypatch.setattr(
        automaton.Automaton, "step", lambda self, bits, more: sizes.append(bits.bit_length()) or step(self, bits, more)
    )
    for path in ("a" * 100_000, "ab/" * 33_333):
        sizes.clear()
        PatternList([pattern]).decides(path)
        assert len(sizes) <= len(path)
        assert max(sizes) <= 2 * len(pattern) + 1


def table_of_the_docs() -> list[tuple[str, str, str]]:
    """The rows of docs/patterns.md: patterns, and what they let through and what they do not."""
    page = (Path(__file__).resolve().parent.parent / "docs/patterns.md").read_text()
    rows = re.findall(r"^\| (`[^|]*) \| ([^|]*) \| ([^|]*) \|", page, re.MULTILINE)
    return [tuple(row) for row in rows]


def quoted(cell: str) -> list[str]:
    return [text[2:-2] if text.startswith("``") else text[1:-1] for text in re.findall(r"`` .+? ``|`[^`]+`", cell)]


@pytest.mark.parametrize("row", table_of_the_docs(), ids=lambda row: row[0])
def test_the_table_of_the_docs(row):
    patterns, yes, no = (quoted(cell) for cell in row)
    assert list_faults(patterns) == []
    assert [path for path in [*yes, *no] if PatternList(patterns).decides(path) is not None] == yes
    assert yes
    assert no


def test_the_table_of_the_docs_is_whole():
    rows = table_of_the_docs()
    assert len(rows) >= 25
    signs = "".join(pattern for row in rows for pattern in quoted(row[0]))
    assert all(sign in signs for sign in ("*", "**", "**/", "?", "+", "[", "\\", "!"))


def test_the_work_of_all_lanes_is_not_a_product(monkeypatch):
    """A new path in a known folder costs steps for its name alone, however many lanes there are."""
    lanes = {f"lane{n}": PatternList([f"packages/p{n}/d{m}/**" for m in range(20)] + ["**/*.md"]) for n in range(50)}
    index = Index(lanes)
    index.look([f"packages/p{n}/src/old.c" for n in range(50)])
    steps = []
    step = automaton.Automaton.step
    monkeypatch.setattr(automaton.Automaton, "step", lambda self, *more: steps.append(1) or step(self, *more))
    index.look([f"packages/p{n}/src/new.c" for n in range(50)])
    assert len(steps) <= len("new.c")


def test_reading_stops_once_every_list_is_touched():
    read = []

    def paths():
        for path in ("a/x", "b/x", "a/y", "a/z"):
            read.append(path)
            yield path

    touched = Index({"a": PatternList(["a/**"]), "b": PatternList(["b/**"])}).touched(paths())
    assert touched == {"a": ("a/x", 0), "b": ("b/x", 0)}
    assert read == ["a/x", "b/x"]


def test_no_lists_and_no_paths():
    assert Index({}).touched(["a"]) == {}
    assert Index({"a": PatternList([])}).touched(["a"]) == {}
    assert Index({"a": PatternList(["**"])}).touched([]) == {}


def test_what_was_taken_back():
    index = Index({"a": PatternList(["src/**", "!**/*.md"]), "b": PatternList(["docs/**"])})
    look = index.look(["x", "src/a.md", "src/b.md"])
    assert (look.touched, look.taken_back) == ({}, {"a": ("src/a.md", 0, 1)})
    look = index.look(["src/a.md", "src/a.cu"])
    assert (look.touched, look.taken_back) == ({"a": ("src/a.cu", 0)}, {})


@pytest.mark.parametrize(
    ("patterns", "path", "index"),
    [
        (["docs/**", "kernels/gemv/**", "kernels/*.py"], "kernels/gemm.cu", 1),
        (["docs/**", "kernels/*.py"], "kernels/gemm.cu", 1),
        (["kernels/*.py", "kernels/*.cuh"], "kernels/gemm.cu", 0),
        (["!kernels/**"], "kernels/gemm.cu", None),
        # Folders count, and not how far names are the same.
        (["kernel/**", "kern.cu"], "kernels/gemm.cu", None),
        (["kernels/gemm_old/**", "kernels/gemm/**"], "kernels/gemm/gemm_old.cu", 1),
        (["kernels/gemm_old/x", "kernels/gemm/*.h"], "kernels/gemm/gemm_old.cu", 1),
        # A folder without what lies in it.
        (["kernels/*.py", "kernels/gemm"], "kernels/gemm/gemm.cu", 1),
        (["kernels"], "kernels/gemm/gemm.cu", 0),
        (["README.md"], "README.rst", None),
        (["docs/**", "**/*.md"], "kernels/gemm.cu", None),
        ([], "a", None),
    ],
)
def test_nearest(patterns, path, index):
    assert nearest(PatternList(patterns), path) == index


def common(left: str, right: str) -> tuple[int, int]:
    """The length of the common folders, and of all that is common; zeros without a common folder."""
    alike = next((n for n in range(min(len(left), len(right)), 0, -1) if left[:n] == right[:n]), 0)
    folders = left[:alike].rfind("/") + 1
    return (folders, alike) if folders else (0, 0)


def begins(text: str) -> str:
    head = text.split("*", maxsplit=1)[0]
    return f"{head}/" if head == text else head


@settings(max_examples=200, deadline=None)
@given(PATTERNS, st.lists(PATHS.map("".join), max_size=12))
def test_nearest_of_many_is_the_nearest_of_each(patterns, paths):
    """The search by neighbours finds as long a common beginning as looking at every path."""
    texts = [text for text in patterns if not set(text) & set("!?+[\\")]
    plain = PatternList(["!", *texts])
    best = max((common(begins(text), path) for text in texts for path in paths), default=(0, 0))
    found = nearest_of(plain, sorted(paths))
    assert (common(begins(plain.texts[found[1]]), found[0]) if found else (0, 0)) == best


@settings(max_examples=300, deadline=None)
@given(st.from_regex(dialect._PLAIN, fullmatch=True))
@example("[3-9]x")
@example("![a-zA-Z0-9_]*/**")
@example("a/./b")
@example("a//b")
@example("a/..")
@example("[9-9]")
def test_what_needs_no_closer_look_has_no_fault(text):
    """The short way is only ever short: it calls nothing fine that the long way finds fault with."""
    if dialect._is_plainly_fine(text):
        assert dialect._faults_at_a_closer_look(text) == []
    assert dialect.faults(text) == dialect._faults_at_a_closer_look(text)
