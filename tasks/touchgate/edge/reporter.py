"""doit's reporter: hands each check's end to the terminal report, and leaves a repository's own tasks to doit's words."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from doit.reporter import ConsoleReporter

if TYPE_CHECKING:
    from collections.abc import Callable

    from doit.exceptions import BaseFail
    from doit.task import Task

META = "touchgate"
"""The key in a task's `meta` under which the reporter finds the check; None there for a lane's group."""


class TouchgateReporter(ConsoleReporter):  # type: ignore[misc]  # doit has no types
    """One line a check. Without a planned run (no `tell`) it is doit's console reporter."""

    desc = "touchgate: one aligned line a check, failures once at the end"

    def __init__(self, outstream: Any, options: dict[str, Any], tell: Callable[[str], None] | None = None) -> None:
        super().__init__(outstream, options)
        self.tell = tell
        self.own_failures: list[bool] = []
        """One entry for each failed task that is not a check: whether it was an error (and not a plain failure)."""

    def _is_check(self, task: Task) -> bool:
        return self.tell is not None and isinstance(task.meta, dict) and META in task.meta

    def _told(self, task: Task) -> None:
        if self.tell is not None and task.meta[META] is not None:
            self.tell(task.name)

    def execute_task(self, task: Task) -> None:
        """A check says itself when it really starts: it may first wait for a slot or the lease."""
        if not self._is_check(task):
            super().execute_task(task)

    def add_success(self, task: Task) -> None:
        """A check that passed, or is unmeasured."""
        if self._is_check(task):
            self._told(task)
        else:
            super().add_success(task)

    def add_failure(self, task: Task, fail: BaseFail) -> None:
        """A check that failed; a lane's group fails with it and says nothing more."""
        if self._is_check(task):
            self._told(task)
            return
        self.own_failures.append(type(fail).__name__ != "TaskFailed")
        super().add_failure(task, fail)

    def skip_uptodate(self, task: Task) -> None:
        """A check whose stored result is reused."""
        if self._is_check(task):
            self._told(task)
        else:
            super().skip_uptodate(task)

    def skip_ignore(self, task: Task) -> None:
        """A check that `doit ignore` set aside: it is reported as never reached."""
        if self._is_check(task):
            self._told(task)
        else:
            super().skip_ignore(task)
