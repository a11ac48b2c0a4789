"""Every situation in which a base could be taken wrongly, and what is done in it.

The table is the one in docs/gate.md, and each row has its test (tests/test_cases.py names them). It stands beside
`forge.EVENTS`, which says what an event asks for.
"""

from __future__ import annotations

from touchgate.gate.values import NamedTuple


class Situation(NamedTuple):
    """A situation, in a few words, and its rule."""

    name: str
    rule: str


SITUATIONS = (
    Situation("a branch behind its target", "from the merge base: the target's own changes do not count"),
    Situation("criss-cross merges", "what differs from any of the merge bases is touched"),
    Situation("unrelated histories", "everything runs"),
    Situation("grafts and replace refs", "seen through: history is taken as it was written"),
    Situation(
        "a shallow clone", "the base counts where it is proven; where fetching is allowed, history is deepened until it is"
    ),
    Situation("a merge ref at depth 1", "the merge commit's first parent, fetched by its id; else everything runs"),
    Situation("a merge ref at depth 2", "the merge commit's first parent, nothing is fetched"),
    Situation("the author's own merge commit", "not taken for the forge's: from the merge base with the target"),
    Situation("a detached head", "the commit checked out; the base branch is looked for at origin first"),
    Situation(
        "a frozen base sha that main has left behind", "never the base; the target branch must hold it, and is fetched if not"
    ),
    Situation("a base branch whose commit is missing", "fetched, else everything runs; no local branch stands in"),
    Situation("a force push", "from the merge base with the default branch, whatever the branch held before"),
    Situation("a merge queue", "from the merge base with the target: the entries ahead count, as they may still fail"),
    Situation("a merge train", "the same: the first parent is the entry ahead, so it is not the base"),
    Situation("the first push of a branch", "from the merge base with the default branch: all its commits, merges included"),
    Situation("a push of several commits", "all of them"),
    Situation("a push to the default branch", "everything is due, and what is known is reused"),
    Situation("a tag", "everything is due, and what is known is reused"),
    Situation("a schedule", "everything is due, and what is known is reused"),
    Situation("a dispatch with a SHA", "that commit, fetched if it is missing, judged like a pull request"),
    Situation("a dispatch without a SHA", "everything is due, and what is known is reused"),
    Situation("an unknown event", "everything runs"),
    Situation(
        "a remote that fails, hangs or refuses",
        "judged by what is here, and where that does not do, as in a job for the base branch's tip, everything runs",
    ),
)
