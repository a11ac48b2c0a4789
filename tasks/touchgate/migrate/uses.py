"""The action that the new steps use, as `--uses` names it: what can't be one is refused before anything is changed."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from touchgate.gate.asked import UsageFault
from touchgate.gate.git import GitFault, Repository
from touchgate.migrate import deciders
from touchgate.migrate.tree import Pairs, Scalar, resolved

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from touchgate.migrate.jobs import Workflow

PLACEHOLDER = "OWNER/touchgate@SHA"
"""What the diff shows for the action where the person has not said which it is."""
_STANDS_FOR = {
    "OWNER": "whoever publishes the action on your forge",
    "YOU": "your own name on your forge",
    "REPOSITORY": "the repository that holds the action",
    "DIR": "the folder that holds the action",
    "SHA": "the commit of the action that you looked at",
    "REF": "the action, such as OWNER/touchgate@SHA",
}
_OTHERS = re.compile(r"(actions|github)/.*|dorny/paths-filter|tj-actions/changed-files", re.IGNORECASE)
_INPUTS = {"workflow", "lane", "suite", "base", "head", "token", "url"}
_SHAPE = re.compile(r"[\w.-]+(/[\w.-]+)+@[\w./-]+|https?://\S+@\S+")


def refuse_unfit(uses: str) -> None:
    """Raise UsageFault for what names no action that other repositories can use, or one that is not touchgate."""
    for word in re.split("[/@]", uses):
        if word in _STANDS_FOR:
            raise UsageFault(f"--uses {uses!r}: {word} stands for {_STANDS_FOR[word]}; see 'The action' in docs/migrate.md")
    if uses.startswith("."):
        folder = uses.removeprefix(".").removeprefix("/") or "DIR"
        raise UsageFault(
            f"--uses {uses!r} lies in the checkout, and the decision comes before it: name it as another repository would, "
            f"OWNER/REPOSITORY/{folder}@SHA (`touchgate bundle --action DIR` writes the action into a folder of a "
            "repository of yours)"
        )
    if not _SHAPE.fullmatch(uses):
        raise UsageFault(f"--uses {uses!r} names no action: it looks like {PLACEHOLDER}")
    if _OTHERS.fullmatch(_action(uses)):
        raise UsageFault(
            f"--uses {uses!r} is another action, and answers no such question: touchgate's looks like {PLACEHOLDER}"
        )


def refuse_in_use(uses: str | None, workflows: Mapping[str, Workflow]) -> None:
    """Raise UsageFault for an action that the workflows use for something else already."""
    if uses is None:
        return
    for workflow in workflows.values():
        for step in (step for job in workflow.jobs.values() for step in job.steps):
            used = step.get("uses")
            used = resolved(used) if used is not None else None
            if isinstance(used, Scalar) and _action(used.value) == _action(uses) and not _asks(step):
                at = workflow.text.at(used.start)
                raise UsageFault(f"--uses {uses!r} is what {at} uses for something else: it is not touchgate's action")


def _asks(step: Pairs) -> bool:
    """Whether a step may be one that asks touchgate, whatever the action is called: by its id, or by what it is given."""
    given = step.get("with")
    given = resolved(given) if given is not None else None
    names = set(given.names()) if isinstance(given, Pairs) else set()
    return deciders.asks_touchgate(step) or (bool(names & {"lane", "workflow"}) and names <= _INPUTS)


def refuse_missing(uses: str | None, root: Path, environ: Mapping[str, str]) -> None:
    """Raise UsageFault for a commit of this very repository that does not hold the action: it was not committed before."""
    found = re.fullmatch(r"[\w.-]+/[\w.-]+/?(?P<folder>[\w./-]*)@(?P<commit>[0-9a-f]{40}|[0-9a-f]{64})", uses or "")
    if found is None or not (root / ".git").exists():
        return
    folder, commit = found["folder"].strip("/"), found["commit"]
    names = [f"{folder}/{name}".lstrip("/") for name in ("action.yml", "action.yaml")]
    try:
        with Repository(root, environ) as repo:
            if repo.commit(commit) is None or any(repo.entry(commit, name) for name in names):
                return
    except GitFault:
        return
    raise UsageFault(
        f"--uses {uses!r}: this commit is one of this repository, and holds no {names[0]}; commit what "
        f"`touchgate bundle --action {folder or 'DIR'}` wrote, and name that commit"
    )


def _action(uses: str) -> str:
    return uses.partition("@")[0].rstrip("/")
