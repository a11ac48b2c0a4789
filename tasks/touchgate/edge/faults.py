"""What a person sees when touchgate itself fails: one line, and where the rest was written down."""

from __future__ import annotations

import sys
import tempfile
import traceback

INTERNAL = 2


def internal(error: Exception) -> int:
    """Write the traceback to a file, say so in one line on standard error, and give the exit code for it."""
    text = "".join(traceback.format_exception(error))
    with tempfile.NamedTemporaryFile("w", encoding="utf-8", prefix="touchgate-fault-", suffix=".log", delete=False) as file:
        file.write(text)
    sys.stderr.write(
        f"ERROR: touchgate itself failed: {type(error).__name__}: {str(error).partition(chr(10))[0]}\n"
        f"       please report it with {file.name}; nothing counts as passed\n"
    )
    return INTERNAL
