"""The other gate: how its answer is read, whatever it does, and where it disagrees with ours."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.conftest import ended
from touchgate.gate.model import Decision, LaneDecision
from touchgate.replay.comparing import Kind, Pair, compare, totals
from touchgate.replay.history import Merge
from touchgate.replay.judging import Played
from touchgate.replay.theirs import LARGEST, Gate, Theirs, output_of, read, way_to_answer

KNOWN = ("a", "b", "c/d")
NOTHING = "it printed nothing; where no lane runs it prints [] or false"


def lanes(*names: str, unknown: tuple[str, ...] = ()) -> Theirs:
    return Theirs(run=bool(names or unknown), lanes=frozenset(names), unknown=unknown)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("true\n", Theirs(run=True)),
        ("False", Theirs(run=False)),
        ("changed: x\nfetching\n\n  true  \n\n", Theirs(run=True)),
        ("true\nfalse\n", Theirs(run=False)),
        ("", Theirs(trouble=NOTHING)),
        (" \n\n", Theirs(trouble=NOTHING)),
        ("[]", lanes()),
        ('["a"]', lanes("a")),
        ('said before\n["a", "b"]\n', lanes("a", "b")),
        ('[\n "a",\n "x"\n]', lanes("a", unknown=("x",))),
        ('["x"]', lanes(unknown=("x",))),
        ('{"lanes": ["c/d"]}', lanes("c/d")),
        ('{"lanes": []}', lanes()),
        ('{"run": true}', Theirs(run=True)),
        ('[{"name": "a", "decision": "run"}, {"name": "b", "decision": "skip"}, {"name": "c/d"}]', lanes("a", "c/d")),
        ("a\n\nb\n", lanes("a", "b")),
        ("a\nother\n", lanes("a", unknown=("other",))),
        ("other\n", Theirs(trouble="'other' is neither true, false, JSON, nor a lane")),
        ("0", Theirs(trouble="'0' is neither true, false, JSON, nor a lane")),
        ("[1]", Theirs(trouble="'[1]' is neither true, false, JSON, nor a lane")),
        ('{"x": 1}', Theirs(trouble="""'{"x": 1}' is neither true, false, JSON, nor a lane""")),
        ("not a lane", Theirs(trouble="'not a lane' is neither true, false, JSON, nor a lane")),
        ("x" * 100, Theirs(trouble=f"'{'x' * 60}...' is neither true, false, JSON, nor a lane")),
        ("[" * 100_000, Theirs(trouble=f"'{'[' * 60}...' is neither true, false, JSON, nor a lane")),
    ],
)  # fmt: skip
def test_an_answer(text, expected):
    assert read(text, KNOWN) == expected


@given(st.text())
def test_any_text_is_an_answer_or_a_reason(text):
    answer = read(text, KNOWN)
    assert (answer.run is None) == bool(answer.trouble)
    assert "\n" not in answer.trouble


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("run=true\n", "true"),
        ("run=true\nrun=false\n", "false"),
        ("other=1\n", None),
        ("run<<END\na\nb\nEND\nx=1\n", "a\nb"),
        ("x<<END\nrun=false\nEND\nrun=true\n", "true"),
        ("run=a<<b\n", "a<<b"),
        ("run<<END\nnever ended", "never ended"),
        ("run=\n", ""),
        ("", None),
    ],
)
def test_an_output_file(text, value):
    assert output_of(text, "run") == value


@pytest.mark.parametrize("text", ["", "Stdout", "output:", "output:a b", "output:1", "exit 1"])
def test_no_way_to_answer(text):
    with pytest.raises(ValueError, match="it is stdout, exit, or output:NAME"):
        way_to_answer(text)


# ---- real commands


def ask(command: str, root: Path, *, answer: str = "stdout", timeout: float = 20, **environ: str) -> Theirs:
    return Gate(command, answer, timeout).ask(root, "BASESHA", "HEADSHA", KNOWN, {"PATH": os.environ["PATH"], **environ})


@pytest.mark.parametrize(
    "command",
    [
        "./gate.sh",
        'sh gate.sh "$1" "$2"',
        "sh gate.sh $BASE ${HEAD}",
        'sh gate.sh "$@"',
        'echo noise; exec 2>&1; sh gate.sh "${1}" "$HEAD"',
        "LC_ALL=C ./gate.sh",
        "sh ./gate.sh",
        "./gate.sh $1 $2 # a comment",
    ],
)
def test_a_command_gets_base_and_head_once(command, tmp_path):
    script = tmp_path / "gate.sh"
    script.write_text('#!/bin/sh\n[ $# = 2 ] && [ "$1 $2" = "BASESHA HEADSHA" ] && echo true\n')
    script.chmod(0o755)
    assert ask(command, tmp_path).run is True


@pytest.mark.parametrize(
    ("command", "answer", "run", "trouble"),
    [
        ("true", "exit", True, ""),
        ("false", "exit", False, ""),
        ("exit 2", "exit", None, "it ended with exit code 2"),
        ("echo run=true >> $GITHUB_OUTPUT; echo false", "output:run", True, ""),
        ("echo ran=true >> $GITHUB_OUTPUT", "output:run", None, "it wrote no run= to $GITHUB_OUTPUT"),
        ("rm $GITHUB_OUTPUT", "output:run", None, "it wrote no run= to $GITHUB_OUTPUT"),
        ("rm $GITHUB_OUTPUT; mkfifo $GITHUB_OUTPUT", "output:run", None, "it wrote no run= to $GITHUB_OUTPUT"),
        ("ln -sf /dev/zero $GITHUB_OUTPUT", "output:run", None, "it wrote no run= to $GITHUB_OUTPUT"),
        ("echo true; exit 1", "stdout", None, "it ended with exit code 1"),
        ("echo first >&2; echo 'no such ref' >&2; exit 128", "stdout", None, "it ended with exit code 128: no such ref"),
        ("kill -SEGV $$", "stdout", None, "it was ended by SIGSEGV"),
        ("echo $(cat)true", "stdout", True, ""),
        ("printf 'true\\r\\n'", "stdout", True, ""),
        (":", "stdout", None, NOTHING),
    ],
)
def test_how_it_ends(command, answer, run, trouble, tmp_path):
    found = ask(command, tmp_path, answer=answer)
    assert (found.run, found.trouble) == (run, trouble)
    assert found.seconds > 0


def test_a_missing_command_and_a_broken_line_are_reasons(tmp_path):
    assert ask("touchgate-no-such-program", tmp_path).trouble.startswith("it ended with exit code 127: ")
    assert ask("if", tmp_path).trouble.startswith("it ended with exit code 2: ")
    assert ask("x", tmp_path / "gone").trouble == "it could not be started: No such file or directory"


def test_a_hanging_command_is_ended_with_its_children(tmp_path):
    found = ask("sleep 600 & echo $! > child; wait", tmp_path, timeout=0.5)
    assert (found.run, found.trouble) == (None, "it did not end within 0.5 s")
    assert ended(int((tmp_path / "child").read_text()))


def test_one_that_closed_its_output_and_hangs_is_ended(tmp_path):
    assert ask("echo true; exec >&- 2>&-; sleep 600", tmp_path, timeout=0.5).trouble == "it did not end within 0.5 s"


def test_a_child_that_goes_on_does_not_hold_the_answer(tmp_path):
    began = time.monotonic()
    found = ask("sleep 600 & echo $! > child; echo true", tmp_path, timeout=60)
    assert found.run is True
    assert time.monotonic() - began < 50
    assert ended(int((tmp_path / "child").read_text()))


@pytest.mark.parametrize("stream", ["", " >&2"])
def test_one_that_prints_without_end_is_stopped(tmp_path, stream):
    assert ask(f"yes{stream}", tmp_path, timeout=60).trouble == f"it printed more than {LARGEST >> 20} MiB"


def test_the_outputs_of_the_job_stay_as_they_are(tmp_path):
    outputs = tmp_path / "outputs"
    outputs.write_text("kept=1\n")
    assert ask("echo run=true >> $GITHUB_OUTPUT", tmp_path, answer="output:run", GITHUB_OUTPUT=str(outputs)).run is True
    assert outputs.read_text() == "kept=1\n"


# ---- comparing


MERGE = Merge("c" * 40, "subject", "b" * 40, "a" * 40)


def ours(*decisions: tuple[str, str], open_reason: str | None = None, **fields: object) -> Played:
    made = tuple(LaneDecision(name, Decision(word), f"why {name}", "smoke") for name, word in decisions)
    return Played(MERGE, made, open_reason, seconds=0.01, **fields)


A_RUNS = (("a", "run"), ("b", "skip"))
NONE = (("a", "skip"), ("b", "skip"))


@pytest.mark.parametrize(
    ("played", "theirs", "expected"),
    [
        (ours(*A_RUNS), Theirs(run=True), []),
        (ours(*A_RUNS), Theirs(run=False), [(Kind.FALSE_SKIP, "a")]),
        (ours(*NONE), Theirs(run=False), []),
        (ours(*NONE), Theirs(run=True), [(Kind.THEY_RUN, "a"), (Kind.THEY_RUN, "b")]),
        (ours(*A_RUNS), lanes("a"), []),
        (ours(*A_RUNS), lanes("b"), [(Kind.FALSE_SKIP, "a"), (Kind.THEY_RUN, "b")]),
        (ours(("b", "skip"), ("a", "run")), lanes("b"), [(Kind.FALSE_SKIP, "a"), (Kind.THEY_RUN, "b")]),
        (ours(*A_RUNS), lanes(), [(Kind.FALSE_SKIP, "a")]),
        (ours(*A_RUNS), lanes(unknown=("x",)), [(Kind.FALSE_SKIP, "a")]),
        (ours(*A_RUNS), Theirs(trouble="crashed"), []),
        (ours(("a", "run"), open_reason="no base"), Theirs(run=False), [(Kind.UNTOLD, "a")]),
        (ours(open_reason="unreadable"), Theirs(run=False), [(Kind.UNTOLD, None)]),
        (ours(open_reason="unreadable"), Theirs(run=True), []),
        (ours(nothing="no lane"), Theirs(run=False), []),
        (ours(("x.yml", "run")), lanes("a"), []),
        (ours(("x.yml", "skip")), lanes("a"), [(Kind.THEY_RUN, "x.yml")]),
    ],
)
def test_where_they_disagree(played, theirs, expected):
    found = compare(played, theirs)
    assert [(one.kind, one.decision and one.decision.lane) for one in found] == expected


def test_what_it_comes_to():
    pairs = [
        Pair(ours(*A_RUNS, minutes=(("a", 30.0), ("b", 10.0))), Theirs(run=False)),
        Pair(ours(*NONE, minutes=(("a", 30.0), ("b", 10.0))), Theirs(run=True)),
        Pair(ours(*NONE, minutes=(("a", 30.0), ("b", 10.0)), aside=frozenset("b")), Theirs(trouble="x")),
        Pair(ours(open_reason="?")),
        Pair(ours(nothing="no lane")),
    ]
    found = totals(pairs)
    assert [(lane.name, lane.ran, lane.skipped, lane.minutes) for lane in found.lanes] == [("a", 1, 2, 60), ("b", 0, 2, 20)]
    assert (found.played, found.judged, found.open, found.untouched, found.troubles) == (5, 4, 1, 2, 1)
    assert found.disagreeing == ((Kind.FALSE_SKIP, 1), (Kind.UNTOLD, 0), (Kind.THEY_RUN, 1))
    assert found.minutes_saved == 80
    assert totals([]).median == 0


@pytest.mark.parametrize(("count", "at"), [(1, 1), (2, 2), (19, 19), (20, 19), (21, 20), (100, 95)])
def test_the_95th_percentile_is_the_nearest_rank(count, at):
    played = [Pair(Played(MERGE, seconds=float(number + 1))) for number in range(count)]
    assert totals(played).p95 == at
