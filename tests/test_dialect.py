"""What is wrong with a pattern, in words."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from touchgate.gate import dialect
from touchgate.gate.dialect import elements_of, faults, list_faults, literal_head, unreadable_because
from touchgate.gate.patterns import PatternList

from .github_paths import ALWAYS, CASES

UNREADABLE = [
    ("", "it is empty"),
    ("!", "`!` alone takes nothing back; for the character itself write `\\!`"),
    ("a\\", "a `\\` at the end escapes nothing; write `\\\\` for a backslash, `/` between folders"),
    ("[ab", "`[` is never closed; for the character itself write `\\[`"),
    ("[]a", "`[]` holds no character; for the characters themselves write `\\[\\]`"),
    ("[!a]b", "`[!` does not negate here; list the characters that are meant"),
    ("[^a]b", "`[^` does not negate here; list the characters that are meant"),
    ("[a.]b", "`.` cannot stand in `[...]`: only letters, digits, `_` and ranges of them"),
    ("[z-a]", "`z-a` is no range; ranges lie inside a-z, A-Z or 0-9"),
    ("[0-z]", "`0-z` is no range; ranges lie inside a-z, A-Z or 0-9"),
    ("[a-]", "`a-` is no range; ranges lie inside a-z, A-Z or 0-9"),
    ("c++/x", "`+` after `+` has nothing to repeat; for the character itself write `\\+`"),
    ("a*+", "`+` after `*` has nothing to repeat; for the character itself write `\\+`"),
    ("**/+page.svelte", "`+` after `/` has nothing to repeat; for the character itself write `\\+`"),
    ("a???", "`?` after `?` has nothing to repeat; for the character itself write `\\?`"),
    ("a" * 4097, "it is longer than 4096 characters"),
]

ODD = [
    ("/docs/**", "it begins with `/` and never matches; paths are relative to the root: write `docs/**`"),
    ("!/docs/**", "it begins with `/` and never matches; paths are relative to the root: write `docs/**`"),
    ("./docs", "it begins with `./` and never matches; write `docs`"),
    ("a//b", "it has two `/` in a row and never matches; write one"),
    ("../a", "it has a folder `.` or `..` and never matches; write the path from the root"),
    ("a/./b", "it has a folder `.` or `..` and never matches; write the path from the root"),
    ("docs/", "it ends in `/` and never matches, since only files are touched; write `docs/**`"),
    ("*.{cu,cuh}", "braces are plain characters here; write one pattern for each choice, or `\\{` for a brace"),
    ("?.cu", "`?` has nothing before it; it does not stand for any character: write `*`, or `\\?` for itself"),
    ("src/?.cu", "`?` applies to the `/` before it; for the character itself write `\\?`"),
    ("src/+page", "`+` applies to the `/` before it; for the character itself write `\\+`"),
    ("a*?.cu", "`?` after `*` does nothing; for the character itself write `\\?`"),
    (r"kernels\gemm.cu", "`\\g` is just `g`; folders are separated by `/`"),
    ("a\0b", "no path holds a NUL character"),
]


@pytest.mark.parametrize(("text", "sentence"), UNREADABLE)
def test_what_is_no_pattern(text, sentence):
    assert faults(text) == [sentence]
    assert unreadable_because(text) == sentence
    assert elements_of(text.removeprefix("!")) is None


@pytest.mark.parametrize(("text", "sentence"), ODD)
def test_what_cannot_be_meant(text, sentence):
    assert faults(text) == [sentence]
    assert unreadable_because(text) is None


def test_several_faults_of_one_pattern():
    assert len(faults("/{a,b}/")) == 3


def test_the_public_table_has_no_fault():
    """Besides the one that is there to show an escape of nothing special."""
    assert {text: faults(text) for patterns, *_ in CASES for text in patterns if faults(text)} == {}


FINE = [
    "a",
    "kernels/**",
    "!**/*.md",
    "**/x?y",
    "v[0-9]+",
    "[A-Za-z_]+.cu",
    r"\{a\}/b",
    r"\[x\]",
    "+page.svelte",
    "a b",
    "é",
    ".a",
]


@pytest.mark.parametrize("text", FINE)
def test_what_is_fine(text):
    assert faults(text) == []


def test_a_list_of_negatives_only():
    sentence = "only patterns with `!` match nothing; put what they take back before them, such as `**`"
    assert list_faults(["!a", "!b"]) == [(None, sentence)]
    assert list_faults(["!a", "b"]) == []
    assert list_faults([]) == []
    assert list_faults(["a", "/b"]) == [(1, faults("/b")[0])]


@given(st.text(alphabet="ab/*?+[]\\!.-{}", max_size=8))
def test_every_text_is_judged(text):
    """Nothing raises; what is unreadable matches nothing."""
    found = faults(text)
    assert all(found)
    if unreadable_because(text):
        assert PatternList([text]).decides("a") is None


@given(st.text(alphabet="ab./*-!?[", max_size=8))
def test_the_short_way_out_of_faults_is_right(text):
    if dialect._PLAINLY_FINE.fullmatch(text):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(dialect, "_PLAINLY_FINE", re.compile("never this"))
            assert faults(text) == []


@pytest.mark.parametrize(("pattern", "path"), ALWAYS)
def test_a_literal_head_begins_every_match(pattern, path):
    assert path.startswith(literal_head(pattern))
