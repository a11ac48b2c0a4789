"""`doit lanes`: what would run and why, what would not and why not; and what is wrong with the declarations."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from touchgate.edge.commands.base import RepositoryCommand, print_json
from touchgate.edge.options import AS_JSON, EVERY, GATED, INCLUDE, JUDGE, SOURCE, SUITE, RunOptions
from touchgate.edge.planning import plan_lanes
from touchgate.edge.usage import UsageFault
from touchgate.gate import told
from touchgate.gate.declared import Declared
from touchgate.gate.located import did_you_mean
from touchgate.gate.meant import is_meant, meaning_nothing
from touchgate.gate.model import Decision, Lane, LaneDecision, Plan
from touchgate.reports.style import printable
from touchgate.reports.words import plural

if TYPE_CHECKING:
    from touchgate.gate.git import Repository

ACTIONS = ("check", "why", "stats", "init", "schema")
_JUDGED = frozenset({*(option["name"] for option in JUDGE), "suite", "as_json"})
_TAKES = {
    "": _JUDGED,
    "why": _JUDGED,
    "check": _JUDGED - {"suite"} | {"gated", "every"},
    "check WORKFLOW": frozenset({"as_json", "source", "include", "every"}),
    "stats": frozenset({"as_json"}),
    "init": frozenset(),
    "schema": frozenset({"as_json"}),
}
"""What each form of the command makes use of. What it would pass over in silence is refused."""


class Lanes(RepositoryCommand):
    """Looks, and decides nothing that `doit` would not decide the same."""

    name = "lanes"
    doc_purpose = "show which lanes the change touches and why; check, explain, start lane files"
    doc_usage = "[check [WORKFLOW...] | why LANE | stats | init | schema]"
    doc_description = """Without an argument: every lane with its decision and the reason.

check: patterns that match no tracked file or can't be reached, lanes with equal paths, tracked files that no lane gates,
files that a lane's sources include and no pattern of it lets through;
of the lanes, or of the workflow files named (exit 1 when there is anything to find). Of each kind of finding the first
three are shown, with --all every one.

why LANE: the decision in full, with the place that declares it. LANE is a lane's name, that of a group (a lane with
`each: FOLDERS/*` stands for one lane a folder), or a pattern such as 'crate-*'.

stats: how often each lane ran, was skipped, and was skipped wrongly (`doit --shadow 1%` tests that), by lane and by week.

init: write a first lane file and the two settings that choose touchgate.

schema: print the JSON Schema of lane files, for editors.

Exit codes: 0; 1 findings of check; 3 bad declarations or usage."""
    cmd_options = (*JUDGE, SUITE, AS_JSON, GATED, SOURCE, INCLUDE, EVERY)

    def act(self, repo: Repository, options: Any, names: list[str]) -> int:
        """Dispatch on the first name."""
        action, rest = (names[0], names[1:]) if names else ("", [])
        if action not in ("", *ACTIONS):
            guess = did_you_mean(action, ACTIONS) or "it takes check, why LANE, stats, init or schema"
            raise UsageFault(f"`doit lanes {action}`: {guess}")
        if action != "check" and len(rest) != (1 if action == "why" else 0):
            takes = "one lane, group or pattern" if action == "why" else "no more"
            raise UsageFault(f"`doit lanes {action}` takes {takes}")
        self.refuse_idle(action, options, named=bool(rest))
        if action == "init":
            from touchgate.edge.commands.start import write_first_lane  # noqa: PLC0415

            for line in write_first_lane(repo.root):
                print(line)
            return 0
        if action == "stats":
            from touchgate.edge.commands.stats import show  # noqa: PLC0415

            return show(repo, as_json=options["as_json"])
        if action == "schema":
            from touchgate.gate.schema import json_schema  # noqa: PLC0415

            print_json(json_schema())
            return 0
        if action == "check" and rest:
            from touchgate.edge.commands.checking import check_workflows  # noqa: PLC0415

            return check_workflows(repo, rest, Path.cwd(), options)
        return self.look(self.declared(repo, options), repo, options, rest, action)

    def refuse_idle(self, action: str, options: Any, *, named: bool) -> None:
        """Raise UsageFault for an option on the command line that this form of the command makes no use of."""
        form = f"check {'WORKFLOW' if named else ''}".strip() if action == "check" else action
        spare = [option for option in self.cmd_options if option["name"] in self.typed - _TAKES[form]]
        if spare:
            long = f"--{spare[0]['long']}"
            cure = (
                f"; `doit lanes check WORKFLOW {long} ...` does" if spare[0] in (SOURCE, INCLUDE) and form == "check" else ""
            )
            raise UsageFault(f"`{' '.join(['doit lanes', *form.split()])}` makes no use of {long}{cure}")
        if "include" in self.typed and not options["source"]:
            raise UsageFault("--include says where what --source names is looked up: give --source, too")

    def look(self, declared: Declared, repo: Repository, options: Any, rest: list[str], action: str) -> int:
        """What takes the lanes: check, why, or all decisions."""
        if action == "check":
            from touchgate.edge.commands.checking import check_lanes  # noqa: PLC0415

            return check_lanes(repo, declared, options)
        plan = plan_lanes(declared, RunOptions(suite=options["suite"]))
        if action == "why":
            meant = _named(declared, plan, rest[0])
            if options["as_json"]:
                print_json(as_json(declared, meant))
            else:
                print("\n\n".join("\n".join(in_full(declared, one)) for one in meant))
            return 0
        if options["as_json"]:
            print_json(as_json(declared, plan.lanes))
        else:
            _show(declared, plan.lanes)
        return 0


def as_json(declared: Declared, decisions: tuple[LaneDecision, ...]) -> dict[str, Any]:
    """The stable machine form."""
    data = told.of_change(declared.judged)
    data["notes"] += [note.removeprefix("note: ") for note in declared.vacant]
    lanes = [
        {
            **told.of_decision(one),
            "untold": list(_untold(declared, one)),
            **_declared_as(_lane(declared, one.lane)),
        }
        for one in decisions
    ]
    return {"schema": 1, **data, "lanes": lanes}


def _show(declared: Declared, decisions: tuple[LaneDecision, ...]) -> None:
    change = declared.judged.change
    if change.open_reason:
        print(f"everything runs: {change.open_reason}")
    elif declared.judged.due:
        print(f"everything is due: {declared.judged.due}")
    width = max((len(one.lane) for one in decisions), default=0)
    for one in decisions:
        word = "RUN " if one.decision is Decision.RUN else "skip"
        print(f"{one.lane:<{width}}  {word}  {printable(one.reason)}")
    if not decisions:
        print("no lanes are declared; `doit lanes init` writes a first one")


def _lane(declared: Declared, name: str) -> Lane:
    lanes = declared.head if name in declared.head else declared.base or {}
    return lanes[name]


def _untold(declared: Declared, one: LaneDecision) -> tuple[str, ...]:
    """The places that only a run can tell, in what the sources of a skipped lane include."""
    return declared.untold.get(one.lane, ()) if one.decision is Decision.SKIP else ()


def _declared_as(lane: Lane) -> dict[str, Any]:
    each = {"group": lane.each.group, "name": lane.each.name, "path": lane.each.path} if lane.each else None
    return {"declared": str(lane.at), "each": each}


def _named(declared: Declared, plan: Plan, word: str) -> tuple[LaneDecision, ...]:
    """The decisions about the lanes that a person's word means. Raises UsageFault."""
    lanes = [_lane(declared, one.lane) for one in plan.lanes]
    if nothing := meaning_nothing([word], lanes):
        raise UsageFault(nothing[0])
    return tuple(one for one, lane in zip(plan.lanes, lanes, strict=True) if is_meant(lane, word))


def in_full(declared: Declared, one: LaneDecision) -> list[str]:
    """One decision with all that it stands on, line by line."""
    change = declared.judged.change
    lane = _lane(declared, one.lane)
    runs = one.decision is Decision.RUN
    lines = [f"{one.lane}: {'RUN' if runs else 'SKIP'}", f"  reason      {printable(one.reason)}"]
    if one.path is not None:
        lines.append(f"  path        {printable(one.path)}")
    if one.pattern is not None:
        lines.append(f"  pattern     {one.pattern.text}  ({one.pattern.at})")
    if one.nearest is not None:
        pattern = one.nearest.pattern
        lines += [f"  nearest     {printable(one.nearest.path)}", f"  to          {pattern.text}  ({pattern.at})"]
    lines += [f"  can't tell  {printable(place)}" for place in _untold(declared, one)]
    of_folder = f", for the folder {lane.each.path}" if lane.each else ""
    count = len(change.paths)
    return [
        *lines,
        f"  suite       {one.suite}",
        f"  declared    {lane.at}{of_folder}",
        f"  looked at   {'no path: it can not be told which differ' if change.open_reason else plural(count, 'path')}",
        f"  base        {change.base or 'unknown'}  ({change.base_from})",
        f"  head        {change.head or 'unknown'}  ({change.head_from})",
        f"  merge base  {change.merge_base or 'unknown'}  ({change.proof})",
    ]
