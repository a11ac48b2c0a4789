"""A change and a decision as plain data: every `--json` says the same under the same keys. More keys may be added."""

from __future__ import annotations

from touchgate.gate.values import TYPE_CHECKING

if TYPE_CHECKING:
    from typing import Any

    from touchgate.gate.change import Judged
    from touchgate.gate.model import LaneDecision


def of_change(judged: Judged) -> dict[str, Any]:
    """What is judged. `looked_at` is the number of paths that differ, null where that can't be told."""
    change = judged.change
    return {
        "base": change.base,
        "head": change.head,
        "merge_base": change.merge_base,
        "merge_bases": list(judged.merge_bases),
        "base_from": change.base_from,
        "head_from": change.head_from,
        "head_is_worktree": change.head_is_worktree,
        "proof": change.proof,
        "looked_at": None if change.open_reason else len(change.paths),
        "open_reason": change.open_reason,
        "due": judged.due,
        "notes": list(judged.notes),
    }


def of_decision(one: LaneDecision) -> dict[str, Any]:
    """One decision. `path`, `pattern`, `where`: what fired; `nearest`: what came nearest, where nothing did."""
    near = one.nearest
    return {
        "name": one.lane,
        "decision": one.decision.value,
        "reason": one.reason,
        "suite": one.suite,
        "path": one.path,
        "pattern": one.pattern.text if one.pattern else None,
        "where": str(one.pattern.at) if one.pattern else None,
        "nearest": {"path": near.path, "pattern": near.pattern.text, "where": str(near.pattern.at)} if near else None,
    }
