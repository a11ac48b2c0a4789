"""What the compiler says that kernels take, out of a check's facts: registers and spills for each architecture.

The facts: {"architectures": {"87": {"<kernel>": {"registers": 34, "spill_loads": 0, "spill_stores": 0}}}}, bytes for
the spills. A part without that form is left out.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, order=True)
class Usage:
    """One kernel on one architecture. spilled: bytes stored and loaded because registers did not suffice."""

    kernel: str
    architecture: str
    registers: int
    spilled: int

    def __str__(self) -> str:
        return f"{self.registers}, {self.spilled} B spilled" if self.spilled else str(self.registers)


def usages(facts: Mapping[str, Any]) -> list[Usage]:
    """All that the facts hold, sorted by kernel."""
    return sorted(_found(facts.get("architectures")))


def _found(architectures: object) -> Iterator[Usage]:
    for architecture, kernels in _items(architectures):
        for kernel, numbers in _items(kernels):
            taken = dict(_items(numbers))
            if isinstance(taken.get("registers"), int):
                spills = [taken.get("spill_loads"), taken.get("spill_stores")]
                spilled = sum(size for size in spills if isinstance(size, int))
                yield Usage(kernel, architecture, taken["registers"], spilled)


def _items(value: object) -> Iterator[tuple[str, Any]]:
    if isinstance(value, Mapping):
        yield from ((str(key), item) for key, item in value.items())


def in_words(facts: Mapping[str, Any]) -> str:
    """The most registers, and what spills; "" where the facts say nothing: "at most 70 registers, no spills"."""
    found = usages(facts)
    if not found:
        return ""
    spilling = [usage for usage in found if usage.spilled]
    registers = f"at most {max(usage.registers for usage in found)} registers"
    if not spilling:
        return f"{registers}, no spills"
    worst = max(spilling, key=lambda usage: usage.spilled)
    more = f" and {len(spilling) - 1} more" if len(spilling) > 1 else ""
    return f"{registers}, {worst.spilled} B spilled by {worst.kernel} on {worst.architecture}{more}"
