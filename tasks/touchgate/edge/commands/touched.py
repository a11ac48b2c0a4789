"""`doit touched`: what is judged. Base, head, merge base and how it is known, the touched paths."""

from __future__ import annotations

import base64
import os
from typing import TYPE_CHECKING, Any

from touchgate.edge.commands.base import RepositoryCommand, print_json
from touchgate.edge.options import AS_JSON, JUDGE
from touchgate.gate import change as change_of
from touchgate.gate import told
from touchgate.gate.history import wish
from touchgate.reports.style import printable

if TYPE_CHECKING:
    from touchgate.gate.change import Judged
    from touchgate.gate.git import Repository
    from touchgate.gate.model import TouchedPath


class Touched(RepositoryCommand):
    """Decides nothing: shows what the decision starts from."""

    name = "touched"
    doc_purpose = "show base, head, merge base and the touched paths"
    doc_usage = ""
    doc_description = "The change as every other command judges it, and how each part of it is known."
    cmd_options = (*JUDGE, AS_JSON)

    def act(self, repo: Repository, options: Any, names: list[str]) -> int:
        """Print the change."""
        if names:
            from touchgate.edge.usage import UsageFault  # noqa: PLC0415

            raise UsageFault(f"`doit touched` takes no names, and got '{names[0]}'")
        judged = change_of.resolve(
            repo,
            base=options["base"] or None,
            head=options["head"] or None,
            environ=os.environ,
            fetch=wish(options["fetch"], os.environ),
        )
        if options["as_json"]:
            print_json(as_json(judged))
        else:
            print("\n".join(in_words(judged)))
        return 0


def as_json(judged: Judged) -> dict[str, Any]:
    """The stable machine form; a path that is not UTF-8 comes as `path_b64`."""
    return {
        "schema": 1,
        **told.of_change(judged),
        "paths": [_path_json(path) for path in judged.change.paths],
    }


def _path_json(touched: TouchedPath) -> dict[str, str]:
    raw = os.fsencode(touched.path)
    try:
        return {"path": raw.decode("utf-8"), "status": touched.status}
    except UnicodeDecodeError:
        return {"path_b64": base64.b64encode(raw).decode("ascii"), "status": touched.status}


def in_words(judged: Judged) -> list[str]:
    """The same for a person."""
    change = judged.change
    lines = [
        f"base        {change.base or 'unknown'}  ({change.base_from})",
        f"head        {change.head or 'none'}  ({change.head_from})",
        f"merge base  {', '.join(judged.merge_bases) or change.merge_base or 'unknown'}  ({change.proof})",
        *judged.notes,
    ]
    if change.open_reason:
        return [*lines, f"everything runs: {change.open_reason}"]
    if judged.due:
        lines.append(f"everything is due: {judged.due}")
    noun = "path" if len(change.paths) == 1 else "paths"
    lines.append(f"{len(change.paths)} {noun} touched")
    return lines + [f"  {touched.status}  {printable(touched.path)}" for touched in change.paths]
