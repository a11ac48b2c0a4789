"""The options of `doit` and its commands, as doit wants them, and as one frozen value."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from doit.exceptions import InvalidCommand

from touchgate.gate.history import Fetch, wish
from touchgate.gate.model import SUITES
from touchgate.gate.values import NamedTuple

SECTION = "touchgate"

BASE = {
    "name": "base",
    "long": "base",
    "default": "",
    "section": SECTION,
    "metavar": "REV",
    "help": "judge the change from the merge base with REV (environ: TOUCHGATE_BASE)",
}
HEAD = {
    "name": "head",
    "long": "head",
    "default": "",
    "section": SECTION,
    "metavar": "REV",
    "help": "judge REV in place of what is checked out (environ: TOUCHGATE_HEAD)",
}
SUITE = {
    "name": "suite",
    "long": "suite",
    "default": "smoke",
    "section": SECTION,
    "env_var": "TOUCHGATE_SUITE",
    "choices": [(name, "") for name in SUITES],
    "help": "which checks of a touched lane run: smoke, performance (smoke and benchmarks), full",
}
AS_JSON = {
    "name": "as_json",
    "long": "json",
    "type": bool,
    "default": False,
    "section": SECTION,
    "help": "print JSON, for a program",
}
GATED = {
    "name": "gated",
    "long": "root",
    "type": list,
    "default": [],
    "section": SECTION,
    "metavar": "DIR",
    "help": "with check: every tracked file below DIR should be gated (repeatable; the setting is `gated`)",
}
SOURCE = {
    "name": "source",
    "long": "source",
    "type": list,
    "default": [],
    "metavar": "PATTERN",
    "help": "with check WORKFLOW: all that these files include, import or name must be able to fire it (repeatable)",
}
INCLUDE = {
    "name": "include",
    "long": "include",
    "type": list,
    "default": [],
    "metavar": "DIR",
    "help": "with --source: a folder where includes and imports are looked up (repeatable)",
}
EVERY = {
    "name": "every",
    "long": "all",
    "type": bool,
    "default": False,
    "help": "with check: show every finding, not the first three of each kind",
}
FETCH = {
    "name": "fetch",
    "long": "fetch",
    "type": bool,
    "inverse": "no-fetch",
    "default": None,
    "section": SECTION,
    "help": "fetch the base branch's tip, and the history that the proof needs (in a forge's job: by itself)",
}

JUDGE = (BASE, HEAD, FETCH)

RUN = (
    *JUDGE,
    SUITE,
    {
        "name": "all_lanes",
        "long": "all",
        "type": bool,
        "default": False,
        "section": SECTION,
        "help": "run every lane, whatever is touched",
    },
    {
        "name": "fresh",
        "long": "fresh",
        "type": bool,
        "default": False,
        "section": SECTION,
        "help": "run again what has a stored result",
    },
    {
        "name": "device",
        "long": "device",
        "default": "auto",
        "section": SECTION,
        "choices": [("auto", "the GPU, else emulated"), ("gpu", ""), ("emulated", "the .cu text on the CPU")],
        "help": "where kernels and vectors run",
    },
    {
        "name": "require_device",
        "long": "require-device",
        "type": bool,
        "default": False,
        "section": SECTION,
        "help": "exit 2 when a check that wants a GPU was not measured on one",
    },
    {
        "name": "expect_head",
        "long": "expect-head",
        "default": "",
        "section": SECTION,
        "metavar": "SHA",
        "help": "refuse to run (exit 3) when the checkout is at another commit",
    },
    {
        "name": "reservation",
        "long": "reservation",
        "default": "",
        "section": SECTION,
        "metavar": "ID",
        "help": "run inside this reservation, which was made for it (`doit lease reserve`); it never waits",
    },
    {
        "name": "topology",
        "long": "topology",
        "default": "single",
        "section": SECTION,
        "choices": [("single", ""), ("pair", "")],
        "help": "what was reserved: one host, or a pair; a pair is refused (exit 3) while no lane declares two hosts",
    },
    {
        "name": "lease_timeout",
        "long": "lease-timeout",
        "type": float,
        "default": 1440.0,
        "section": SECTION,
        "metavar": "MIN",
        "help": "give up (exit 75) when the lease is not granted in MIN minutes; 0: at once [default: %(default)s]",
    },
    {
        "name": "shadow",
        "long": "shadow",
        "default": "",
        "section": SECTION,
        "env_var": "TOUCHGATE_SHADOW",
        "metavar": "RATE",
        "help": "run this fraction (0.1 or 10%%) of the untouched lanes all the same, to test the gate",
    },
    {
        "name": "report_dir",
        "long": "report-dir",
        "default": "",
        "section": SECTION,
        "metavar": "DIR",
        "help": "write result.json, junit.xml and summary.md into DIR",
    },
    {
        "name": "architectures",
        "long": "architectures",
        "default": "",
        "section": SECTION,
        "metavar": "SM",
        "help": "compile kernels for these architectures, 87,90 or in settings a list [default: 87, 90, 121]",
    },
)
"""What `doit run` gains. Their names are the keys under [tool.doit] that set them for a repository."""


class RunOptions(NamedTuple):
    """What one run was asked for. `jobs`: how many checks without a device run at once. lease_timeout: minutes."""

    base: str | None = None
    head: str | None = None
    suite: str = "smoke"
    all_lanes: bool = False
    fresh: bool = False
    device: str = "auto"
    require_device: bool = False
    expect_head: str | None = None
    reservation: str | None = None
    topology: str = "single"
    lease_timeout: float = 1440.0
    fetch: Fetch = Fetch.NEVER
    report_dir: Path | None = None
    architectures: tuple[str, ...] = ()
    shadow: float = 0.0
    names: tuple[str, ...] = ()
    also: frozenset[str] = frozenset()
    """Lanes that run whatever is touched, because a task of dodo.py that runs depends on them."""
    jobs: int = 1
    verbose: int = 0
    environ: Mapping[str, str] = os.environ


def from_params(params: Mapping[str, Any], names: list[str], started_in: Path, *, jobs: int | None) -> RunOptions:
    """The options of a run out of doit's parsed parameters. A relative --report-dir counts from where doit was started."""
    report_dir = params.get("report_dir")
    return RunOptions(
        base=params.get("base") or None,
        head=params.get("head") or None,
        suite=params.get("suite") or "smoke",
        all_lanes=bool(params.get("all_lanes")),
        fresh=bool(params.get("fresh") or params.get("always")),
        device=params.get("device") or "auto",
        require_device=bool(params.get("require_device")),
        expect_head=params.get("expect_head") or None,
        reservation=params.get("reservation") or None,
        topology=params.get("topology") or "single",
        lease_timeout=float(params.get("lease_timeout", 1440.0)),
        fetch=wish(params.get("fetch"), os.environ),
        environ=dict(os.environ),
        report_dir=started_in / report_dir if report_dir else None,
        architectures=_architectures(params.get("architectures") or ""),
        shadow=_rate(params.get("shadow") or 0),
        names=tuple(names),
        jobs=max(1, jobs if jobs is not None else os.cpu_count() or 1),
        verbose=int(params.get("verbosity") or 0),
    )


def _rate(given: object) -> float:
    """A fraction as a number, or as a percentage; settings may hold a number."""
    text = str(given).strip()
    try:
        rate = float(text[:-1]) / 100 if text.endswith("%") else float(text)
    except ValueError:
        rate = -1.0
    if not 0 <= rate <= 1:
        raise InvalidCommand(f"shadow: {text!r} is no rate; one is a number from 0 to 1, or a percentage such as 10%")
    return rate


def _architectures(given: object) -> tuple[str, ...]:
    """The command line gives them with commas between; settings may hold a list."""
    several = given.replace(",", " ").split() if isinstance(given, str) else given
    if not isinstance(several, (list, tuple)):
        raise InvalidCommand(f"architectures: {given!r} is no list")
    return tuple(_architecture(item) for item in several)


def _architecture(text: object) -> str:
    name = str(text).lower().strip().removeprefix("sm_")
    if not re.fullmatch(r"[1-9][0-9]{1,2}[af]?", name):
        raise InvalidCommand(f"'{text}' is no architecture; one is written as 87, 90 or sm_121")
    return name
