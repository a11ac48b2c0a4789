"""What is said to a person beside the answer, on standard error."""

from __future__ import annotations

import os
import sys


def aside(text: str) -> None:
    """Say it where it can be said. A standard error that can't be written, or that nobody reads, costs nothing else."""
    try:
        print(text, file=sys.stderr)
    except OSError:
        # What is left in its buffer would be tried again when the process ends, and change the exit code.
        sys.stderr = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115, PTH123
