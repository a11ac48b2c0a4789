"""The kinds of checks that the gate knows by name, so that it refuses what `doit` refuses. What they do is `touchgate.checks`.

Which kinds other packages bring is read from the installed metadata, and only for a name that is none of ours. In the one
file that runs where nothing is installed that can't be told: there a foreign name passes, unless it looks like one of ours.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping

from touchgate.gate.located import did_you_mean

GROUP = "touchgate.checks"
"""Entry points of other packages' kinds."""

OPTIONS = {
    "kernel": ("architectures",),
    "sanitizers": ("tools",),
    "benchmark": ("samples", "warmups", "repetitions", "blocks"),
    "compile": ("architectures",),
    "vectors": ("architectures", "legs", "decoder", "inputs", "tools"),
    "pytest": ("inputs",),
    "command": ("inputs", "tools", "expect"),
}
"""Our kinds, each with the keys that a declaration of it takes beside those of every check."""


class KnownKinds(Mapping[str, tuple[str, ...]]):
    """Our kinds with their keys. `may_be_anothers` answers for the rest, whose keys aren't known here."""

    def __getitem__(self, name: str) -> tuple[str, ...]:
        return OPTIONS[name]

    def __iter__(self) -> Iterator[str]:
        return iter(OPTIONS)

    def __len__(self) -> int:
        return len(OPTIONS)

    def may_be_anothers(self, name: str) -> bool:
        """Whether a name that is none of ours may be a kind of another package."""
        return name in _installed() or (_in_one_file() and did_you_mean(name, OPTIONS) is None)


def _in_one_file() -> bool:
    return not os.path.isfile(__file__)  # noqa: PTH113  pathlib is slow to import


def _installed() -> frozenset[str]:
    from importlib.metadata import entry_points  # noqa: PLC0415  reading every installed package's metadata is slow

    return frozenset(point.name for point in entry_points(group=GROUP))
