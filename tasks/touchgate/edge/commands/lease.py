"""`doit lease`: who holds this host's lease."""

from __future__ import annotations

import os
from typing import Any

from touchgate.edge.commands.base import RepositoryCommand, print_json, refuse
from touchgate.edge.options import AS_JSON
from touchgate.reports.style import printable


class LeaseCommand(RepositoryCommand):
    """Looks at the lease without taking it."""

    name = "lease"
    doc_purpose = "show who holds this host's lease, and since when"
    doc_usage = "[status]"
    doc_description = "Works in any folder. The lease itself is taken by `doit`, for the first check that needs a GPU."
    cmd_options = (AS_JSON,)

    def execute(self, opt_values: Any, pos_args: list[str]) -> int:
        """A lease belongs to the host, not to a repository: no repository is needed."""
        if pos_args not in ([], ["status"]):
            return refuse(f"`doit lease {pos_args[0]}`: it takes `status`")
        from touchgate.leases import files  # noqa: PLC0415

        directory = files.lease_directory(os.environ)
        seen = files.status(directory)
        holders = [holder for holder in seen if holder.alive]
        if opt_values["as_json"]:
            print_json(
                {
                    "schema": 1,
                    "directory": str(directory.path),
                    "holders": [_holder_json(holder) for holder in holders],
                    "queue": [],
                }
            )
            return 0
        print(f"leases in {directory.path} ({directory.why})")
        if not holders:
            print("nobody holds this host")
        for holder in seen:
            gone = "" if holder.alive else " ended without saying so: "
            print(f"{holder.resource}: {gone}{printable(str(holder))}")
        return 0


def _holder_json(holder: Any) -> dict[str, Any]:
    return {name: getattr(holder, name) for name in ("resource", "user", "pid", "since", "what", "url", "token")}
