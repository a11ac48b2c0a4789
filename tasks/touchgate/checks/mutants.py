"""Mutants: small changes to a kernel or its launch that its check must catch, declared beside the oracle file."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from touchgate.checks.cases import load_file


@dataclass(frozen=True)
class Mutant:
    """One change.

    name: what is broken. file: the file to change, relative to the folder of the mutants file. old: text that occurs
    exactly once in it; new: what takes its place. fault: how the check must catch it: "mismatch", "unwritten",
    "damage" or "launch". places: where it can be caught: not all that a GPU does shows where kernels are emulated.
    """

    name: str
    file: str
    old: str
    new: str
    fault: str
    places: tuple[str, ...] = ("gpu", "emulated")


class MutantFault(Exception):
    """A mutant that can't be applied as declared: one line."""


def load_mutants(path: Path) -> tuple[Mutant, ...]:
    """The `MUTANTS` of a mutants file."""
    found: tuple[Mutant, ...] = load_file(path).MUTANTS
    return found


def apply(mutant: Mutant, folder: Path) -> None:
    """Change the copy of the sources in `folder`, which stands for the mutants file's. Raises `MutantFault`."""
    path = folder / mutant.file
    text = path.read_text(encoding="utf-8")
    count = text.count(mutant.old)
    if count != 1:
        raise MutantFault(f"mutant '{mutant.name}': its text occurs {count} times in {mutant.file}, not once")
    path.write_text(text.replace(mutant.old, mutant.new), encoding="utf-8")
