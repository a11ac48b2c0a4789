"""The console script `touchgate`: finds the command and hands over the rest of the line."""

from __future__ import annotations

import os
import sys
from importlib import import_module

from touchgate import __version__
from touchgate.gate.aside import aside
from touchgate.gate.values import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

COMMANDS = {
    "gate": ("touchgate.gate.cli", "say whether a change touches any lane, and why"),
    "migrate": ("touchgate.migrate.cli", "take gate jobs out of workflows: each job that needed one gates itself"),
    "replay": ("touchgate.replay.cli", "play the last merges, and find where another gate disagrees"),
    "lease-hold": ("touchgate.edge.lease_hold", "hold a lease of this host for a run on another one, which asks by ssh"),
    "bundle": ("touchgate.bundle", "write the gate as one file, touchgate.pyz, that needs nothing but Python"),
}
"""Name -> the module whose `main(argv, environ)` runs it, imported only then; what it does."""

_HELP_OF_ONE_FILE = """\
usage: python3 touchgate.pyz gate [WORKFLOW] [BASE HEAD] [...]

  gate  say whether a change touches any lane, and why: `true` or `false`, reasons on standard error

This file holds touchgate's gate alone. It needs git and Python 3.10 or later, and nothing installed.

Options: `python3 touchgate.pyz gate --help`; `--version` tells about this file.
Exit codes: 0 decided, and what can't be told is `true`; 3 bad declarations or usage.
Example: python3 touchgate.pyz gate origin/main HEAD
For all other commands: pip install touchgate."""
HELP, VERSION = ("-h", "--help", "help"), ("-V", "--version")
USAGE = 3
INTERRUPTED = 130


def main(argv: Sequence[str] | None = None, environ: Mapping[str, str] = os.environ) -> int:
    """Run a command; returns the exit code."""
    _fill_closed()
    if sys.stderr is None:
        # It was closed: what `print` is told to write to None goes to standard output, where a program reads the answer.
        sys.stderr = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115, PTH123
    words = list(sys.argv[1:] if argv is None else argv)
    name = words[0] if words else ""
    if name not in (*COMMANDS, *HELP, *VERSION):
        problem = f"there is no command {name!r}{_near(name)}" if name else "a command is missing"
        aside(f"touchgate: {problem}\n\n{help_text()}")
        return USAGE
    try:
        return _run(name, words[1:], environ)
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:
        # Whoever read our output has gone; nothing may be written at exit either.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return INTERRUPTED
    except OSError as error:
        aside(f"touchgate {name}: {f'{error.filename}: ' if error.filename else ''}{error.strerror or error}")
        return USAGE


def _near(name: str) -> str:
    from difflib import get_close_matches  # noqa: PLC0415 (slow to import)

    known = COMMANDS if _in_full() else ("gate",)
    return "".join(f"; did you mean {close!r}?" for close in get_close_matches(name, known, n=1))


def _in_full() -> bool:
    """Whether all of touchgate is here; else this is the one file that holds the gate alone."""
    return os.path.isfile(__file__)  # noqa: PTH113  pathlib is slow to import


def _fill_closed() -> None:
    """Give the numbers of closed standard files to nothing: a pipe to git must not get one of them."""
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)


def _run(name: str, words: Sequence[str], environ: Mapping[str, str]) -> int:
    if name in (*HELP, *VERSION) and sys.stdout:
        print(help_text() if name in HELP else f"touchgate {__version__}", flush=True)
        return 0
    if sys.stdout is None and name != "gate":
        # The gate's answer may be wanted in a file alone.
        aside(f"touchgate {name}: standard output is closed")
        return USAGE
    module = COMMANDS[name][0]
    try:
        code: int = import_module(module).main(words, environ)
    except ModuleNotFoundError as error:
        if error.name is None or not f"{module}.".startswith(f"{error.name}."):
            raise
        aside(f"touchgate: this file holds the gate alone; for `touchgate {name}`: pip install touchgate")
        return USAGE
    return code


def help_text() -> str:
    """What `touchgate --help` shows."""
    if not _in_full():
        return _HELP_OF_ONE_FILE
    width = max(map(len, COMMANDS))
    commands = "\n".join(f"  {name:{width}}  {about}" for name, (_, about) in COMMANDS.items())
    return (
        "usage: touchgate COMMAND [...]\n\n"
        f"{commands}\n\n"
        "`touchgate COMMAND --help` tells about one: what it does, options, exit codes, examples.\n"
        "`touchgate --version` tells about this.\n"
        "Everything else is a command of doit: see `doit help`."
    )
