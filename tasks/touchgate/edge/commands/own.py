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

from touchgate.edge.loader import adopt


class _Adopting:
    """Puts the loader of the repository's root in the place of one that found nothing in the current folder."""

    def __init__(self, *, task_loader: Any, config: Any = None, **kwargs: Any) -> None:
        loader, config = adopt(task_loader, config)
        super().__init__(task_loader=loader, config=config, **kwargs)  # type: ignore[call-arg]


class List(_Adopting, DoitList):  # type: ignore[misc]  # doit has no types
    """Where touchgate is chosen it also shows checks (the loader's default for `subtasks`)."""

    name = "list"


class Info(_Adopting, DoitInfo):  # type: ignore[misc]
    """doit's `info`."""

    name = "info"


class Clean(_Adopting, DoitClean):  # type: ignore[misc]
    """doit's `clean`."""

    name = "clean"


class Forget(_Adopting, DoitForget):  # type: ignore[misc]
    """doit's `forget`."""

    name = "forget"


class Ignore(_Adopting, DoitIgnore):  # type: ignore[misc]
    """doit's `ignore`."""

    name = "ignore"


class ResetDep(_Adopting, DoitResetDep):  # type: ignore[misc]
    """doit's `reset-dep`."""

    name = "reset-dep"


class TabCompletion(_Adopting, DoitTabCompletion):  # type: ignore[misc]
    """doit's `tabcompletion`."""

    name = "tabcompletion"
