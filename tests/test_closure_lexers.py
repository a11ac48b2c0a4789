"""Every reader of the closure is linear: a megabyte of the same, whatever it is, is read in one go.

A reader that begins anew at each would need many times the limit, which is far beyond what one go takes anywhere.
"""

from __future__ import annotations

import subprocess
import sys

import pytest

LIMIT = 90
"""Seconds of the processor's time. A megabyte takes some; read in quadratic time it took more than 150."""
SIZE = 1_000_000
READ = """
import resource, sys
from touchgate.gate.closure.languages import module
limit, language, before, unit = sys.argv[1:]
resource.setrlimit(resource.RLIMIT_CPU, (int(limit), int(limit)))
before, unit = (text.encode("latin-1").decode("unicode_escape").encode("latin-1") for text in (before, unit))
module(language).read(before + unit * (int(sys.stdin.read()) // len(unit)))
"""
LANGUAGES = ("cxx", "python", "rust", "cargo")
ONCE_SLOW = [("cxx", "", "\\\n"), ("cxx", "", "\\ \n"), ("cxx", "", "\r"), ("cxx", "", "??/\n"), ("cxx", 'R"x(', ")\\\n")]
CALLS = [("python", "", unit) for unit in ("exec(", "import_module(", "x.run_path(join(", "a=import_module;")]
UNITS = (
    *("/*", "//", '"', "'", 'R"(', 'R"x(', "#", "%:", "??", "{", 'f"{', 'r#"', "/* /*", "b'", "\\", "(", "import a,", "a."),
    *("#include", "__has_include(", "\xe9", "\xff", "\0", "\f", '"""', "f'''{", "[", "[[a]]\n", "a={b={", "mod x{", "#[path="),
    *("include!(concat!(", "#pragma /**/", ".incbin", "_Pragma(", "sys.path=[", "getattr(", "__all__=(", "from a import b,"),
)


def read_much(language: str, before: str, unit: str) -> int:
    texts = (text.encode("unicode_escape").decode("ascii") for text in (before, unit))
    command = [sys.executable, "-c", READ, str(LIMIT), language, *texts]
    return subprocess.run(command, input=str(SIZE).encode(), check=False).returncode


@pytest.mark.parametrize(("language", "before", "unit"), [*ONCE_SLOW, *CALLS])
def test_what_was_slow_once_is_read_in_one_go(language, before, unit):
    assert read_much(language, before, unit) == 0


@pytest.mark.slow
@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize("unit", UNITS)
def test_much_of_the_same_is_read_in_one_go(language, unit):
    assert read_much(language, "", unit) == 0
