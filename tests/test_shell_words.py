"""The words of a command line, held against the shell's own."""

from __future__ import annotations

import os
import subprocess

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from touchgate.gate.shell_words import UNKNOWN, Word, tokens


def words(text):
    return [one.text if isinstance(one, Word) else (one,) for one in tokens(text)]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", []),
        ("a  b\\\n c", ["a", "b", "c"]),
        ("a;b&&c||d|e&f", ["a", (";",), "b", ("&&",), "c", ("||",), "d", ("|",), "e", ("&",), "f"]),
        ("(a)", [("(",), "a", (")",)]),
        ("a>b 2>&1 <c >>d", ["a", "b", "c", "d"]),
        ("a # b\nc #d", ["a", ("\n",), "c"]),
        ("a#b '#' \"#\"", ["a#b", "#", "#"]),
        ("'a b'\"c d\"\\ e", ["a bc d e"]),
        ("'' \"\"", ["", ""]),
        ("$X/a ${X}b $(a b)", [f"{UNKNOWN}/a", f"{UNKNOWN}b", UNKNOWN]),
        ('$PWD/a ${PWD}/b "$PWD/c"', ["./a", "./b", "./c"]),
        ("`a b` `c", [UNKNOWN, ("`",), "c"]),
        ('"$(a \\"b\\")/c"', [f"{UNKNOWN}/c"]),
        ("'a", ["a"]),
        ('"a', ["a"]),
        ("a\\", ["a\\"]),
    ],
)
def test_words(text, expected):
    assert words(text) == expected


def test_places_patterns_and_what_is_within_quotes():
    found = [one for one in tokens("a 'x\ny' *.py\n'*' \"$(b c)\" `d`") if isinstance(one, Word)]
    assert [(one.text, one.line, one.is_pattern) for one in found] == [
        ("a", 1, False),
        ("x\ny", 1, False),
        ("*.py", 2, True),
        ("*", 3, False),
        (UNKNOWN, 3, False),
        (UNKNOWN, 3, False),
    ]
    assert [one.inner for one in found[4:]] == [("b c",), ("d",)]


PIECES = [
    "a",
    "b/c.py",
    "-x=y",
    "é",
    "'q r'",
    '"s t"',
    "'#'",
    '"\\$u"',
    '"\\\\"',
    '"v\'w"',
    "\\ ",
    "\\'",
    '\\"',
    "\\\\",
    "#",
    "%@,:+.~^",
    "\\\n",
]


@given(
    st.lists(st.lists(st.sampled_from(PIECES), min_size=1, max_size=4).map("".join), max_size=12),
    st.sampled_from([" ", "  \t"]),
)
@settings(max_examples=60)
def test_the_shell_splits_the_same(made, blank):
    # A comment ends at a line's end only, and what follows would be a command.
    text = blank.join(word for word in made if not word.replace("\\\n", "").startswith("#"))
    script = f"printf '%s\\000' : {text}\n"
    done = subprocess.run(["/bin/sh"], input=script.encode(), capture_output=True, check=True, env={"PATH": os.defpath})
    assert words(": " + text) == done.stdout.decode().split("\0")[:-1]


@given(st.text(alphabet="ab\"'`$(){}\\#;&|<>\n \0*[é", max_size=60))
def test_any_text_is_read_to_its_end(text):
    for one in tokens(text):
        assert one or isinstance(one, Word)


@pytest.mark.parametrize("part", ["$(", '"$(', "`", '"', "'", "${", "{,", "\\", "(", "$((a", '"$(a(b'])
def test_long_texts_end(part):
    assert list(tokens(part * 20_000)) is not None
