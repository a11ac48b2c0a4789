"""doit's own commands about tasks, from any folder of a repository that chooses touchgate, and unchanged elsewhere."""

from __future__ import annotations

from typing import Any

from doit.cmd_clean import Clean as DoitClean
from doit.cmd_completion import TabCompletion as DoitTabCompletion
from doit.cmd_forget import Forget as DoitForget
from doit.cmd_ignore import Ignore as DoitIgnore
from doit.cmd_info import Info as DoitInfo
from doit.cmd_list import List as DoitList
from doit.cmd_resetdep import ResetDep as DoitResetDep

from touchgate.edge.loader import TouchgateLoader, adopt


class _Adopting:
    """Puts the loader of the repository's root in the place of one that found nothing in the current folder."""

    def __init__(self, *, task_loader: Any, config: Any = None, **kwargs: Any) -> None:
        loader, config = adopt(task_loader, config)
        super().__init__(task_loader=loader, config=config, **kwargs)  # type: ignore[call-arg]


class _OwnTasksOnly(_Adopting):
    """doit's database knows nothing of checks, whose results are kept elsewhere: these commands are for dodo.py's tasks."""

    def execute(self, params: Any, args: list[str]) -> int:
        """Refuse lanes, and the call without names, which would mean them all."""
        loader = self.loader  # type: ignore[attr-defined]
        if isinstance(loader, TouchgateLoader):
            from touchgate.edge.commands.base import refuse  # noqa: PLC0415

            loader.setup(params)
            lanes = loader.lane_names()
            named = [name for name in args if name.partition(":")[0] in lanes]
            if named or not args:
                what = f"'{named[0]}' is a lane's" if named else "without names it would mean every lane"
                verb = self.name  # type: ignore[attr-defined]
                return refuse(f"`doit {verb}` is for tasks of dodo.py, and {what}; `doit --fresh NAME` measures a check anew")
        code: int = super().execute(params, args)  # type: ignore[misc]
        return code


class List(_Adopting, DoitList):  # type: ignore[misc]  # doit has no types
    """Where touchgate is chosen it also shows checks (the loader's default for `subtasks`)."""

    name = "list"


class Info(_Adopting, DoitInfo):  # type: ignore[misc]
    """doit's `info`."""

    name = "info"


class Clean(_Adopting, DoitClean):  # type: ignore[misc]
    """doit's `clean`."""

    name = "clean"


class Forget(_OwnTasksOnly, DoitForget):  # type: ignore[misc]
    """doit's `forget`."""

    name = "forget"


class Ignore(_OwnTasksOnly, DoitIgnore):  # type: ignore[misc]
    """doit's `ignore`."""

    name = "ignore"


class ResetDep(_OwnTasksOnly, DoitResetDep):  # type: ignore[misc]
    """doit's `reset-dep`."""

    name = "reset-dep"


class TabCompletion(_Adopting, DoitTabCompletion):  # type: ignore[misc]
    """doit's `tabcompletion`."""

    name = "tabcompletion"
