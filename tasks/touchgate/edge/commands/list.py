"""`doit list`: doit's own, with the checks of each lane, and from any folder of the repository."""

from __future__ import annotations

from typing import Any

from doit.cmd_list import List as DoitList

from touchgate.edge.loader import adopt


class List(DoitList):  # type: ignore[misc]  # doit has no types
    """doit's `list`; where touchgate is chosen it also shows checks (the loader's default for `subtasks`)."""

    def __init__(self, *, task_loader: Any, config: Any = None, **kwargs: Any) -> None:
        loader, config = adopt(task_loader, config)
        super().__init__(task_loader=loader, config=config, **kwargs)
