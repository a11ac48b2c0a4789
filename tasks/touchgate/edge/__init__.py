"""The doit edge: the loader, the tasks, the reporter and the commands. Only here is doit imported."""

import sys
from pathlib import Path


def _interrupted(kind, error, trace):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202  typing is slow to import
    """A Ctrl-C while something of ours is being imported ends in a word; everything else as it did before."""
    if kind is KeyboardInterrupt:
        ours, at = str(Path(__file__).parent.parent), trace
        while at is not None:
            code = at.tb_frame.f_code
            if code.co_name == "<module>" and code.co_filename.startswith(ours):
                sys.stderr.write("interrupted\n")
                return
            at = at.tb_next
    _before(kind, error, trace)


_before = sys.excepthook
sys.excepthook = _interrupted  # doit has none of its own, and imports us only once it was told which command is meant
