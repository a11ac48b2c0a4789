"""Runs pytest and counts what it did: `python counted.py COUNTS ARGUMENTS...`, COUNTS being the file to write.

A script, so that it needs nothing of this package in the environment that the tests run in. The counts are JSON:
collected, ended (tests torn down), executed (tests whose body was run), failed (tests and modules by their own last report,
whatever the exit status was made to say).
Under pytest-xdist they are taken where the workers report to.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any


def run(arguments: list[str]) -> tuple[int, dict[str, int]]:
    """Return pytest's exit status, and the counts. Ids are counted, so a test that is run again is one."""
    import pytest  # noqa: PLC0415  after the script's own folder is off the path

    collected: set[str] = set()
    ended: set[str] = set()
    executed: set[str] = set()
    failed: dict[tuple[str, str], bool] = {}

    class Counter:
        """Hooks of pytest and pytest-xdist."""

        def pytest_collection_finish(self, session: Any) -> None:
            collected.update(item.nodeid for item in getattr(session, "items", ()))

        @pytest.hookimpl(optionalhook=True)
        def pytest_xdist_node_collection_finished(self, ids: Sequence[str]) -> None:
            collected.update(ids)

        def pytest_runtest_logreport(self, report: Any) -> None:
            if report.when == "call":
                executed.add(report.nodeid)
            failed[report.nodeid, report.when] = report.outcome == "failed"

        def pytest_collectreport(self, report: Any) -> None:
            failed[report.nodeid, "collect"] = report.outcome == "failed"

        def pytest_runtest_logfinish(self, nodeid: str) -> None:
            ended.add(nodeid)

    status = int(pytest.main(arguments, plugins=[Counter()]))
    broken = {nodeid for (nodeid, _), is_failed in failed.items() if is_failed}
    return status, {"collected": len(collected), "ended": len(ended), "executed": len(executed), "failed": len(broken)}


def main() -> None:
    """Run, write, end with pytest's status."""
    # As for `python -m pytest`: the folder it is started in, and not this one, which has a module named pytest.
    sys.path[0] = str(Path.cwd())
    counts_file, *arguments = sys.argv[1:]
    sys.argv = ["pytest", *arguments]
    status, counts = run(arguments)
    Path(counts_file).write_text(json.dumps(counts), encoding="ascii")
    sys.exit(status)


if __name__ == "__main__":
    main()
