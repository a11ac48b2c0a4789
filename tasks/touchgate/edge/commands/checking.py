"""`doit lanes check`: findings about lanes and workflow files, each with the line that it is about."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

from touchgate.edge.commands.base import print_json
from touchgate.edge.planning import expand_all
from touchgate.edge.usage import UsageFault
from touchgate.gate import lint, workflow
from touchgate.gate.answers import WORKFLOW_FOLDERS
from touchgate.gate.closure import lint as closure_lint
from touchgate.gate.closure.of_lanes import LaneClosures
from touchgate.gate.closure.references import Settings
from touchgate.gate.located import DeclarationError, Problem, excerpt, split_lines, text_of
from touchgate.gate.model import At
from touchgate.reports.style import printable
from touchgate.reports.words import plural

if TYPE_CHECKING:
    from touchgate.gate.declared import Declared
    from touchgate.gate.git import Repository
    from touchgate.gate.lint import Finding


FEW = 3
"""Of each kind of finding so many are shown."""


def check_lanes(repo: Repository, declared: Declared, options: Any) -> int:
    """Tell what is wrong with the lanes; 1 when anything is."""
    expand_all(declared.head, repo.root)
    lanes = declared.head.values()
    tracked = [entry.path for entry in repo.tracked()]
    closures = closure_lint.of_lanes(LaneClosures.of(repo, None), lanes, tracked)
    found = [
        *lint.of_lanes(lanes, tracked, _roots(options["gated"]), lambda name: (repo.root / name).exists()),
        *closures.findings,
        # Findings of other kinds are added here, each a `lint.Finding`.
    ]
    if not found and not options["as_json"]:
        files = len({lane.at.file for lane in lanes})
        print(f"{plural(len(lanes), 'lane')} in {plural(files, 'file')}: nothing to find")
    return _tell_findings(repo.root, found, closures.notes, options)


def check_workflows(repo: Repository, names: list[str], started_in: Path, options: Any) -> int:
    """The same for the path lists of workflow files; with sources, that all they include can fire them."""
    as_json = options["as_json"]
    settings = Settings(tuple(options["include"]), tuple(options["include"]))
    tracked = [entry.path for entry in repo.tracked()]
    files = [_workflow_file(repo.root, name, started_in) for name in names]
    found: list[Finding] = []
    notes: list[str] = []
    problems: list[Problem] = []
    contents = {file: (repo.root / file).read_bytes() for file in files}
    for file, content in contents.items():
        try:
            paths = workflow.read_paths(content, file)
            found += lint.of_workflow(paths, tracked)
            if options["source"]:
                told = closure_lint.of_workflow(LaneClosures.of(repo, None), paths, options["source"], settings, tracked)
                found += told.findings
                notes += told.notes
        except DeclarationError as fault:
            problems += fault.problems
    if problems:
        raise DeclarationError(problems, contents)
    if not found and not as_json:
        print(f"{plural(len(files), 'workflow')}: nothing to find")
    return _tell_findings(repo.root, found, notes, options)


def _workflow_file(root: Path, name: str, started_in: Path) -> str:
    """A workflow's path from the root; given from there, from the current folder, or as its bare name."""
    named = [started_in / name, root / name]
    for path in [*named, *(root / folder / name for folder in WORKFLOW_FOLDERS if "/" not in name)]:
        if path.is_file() and path.resolve().is_relative_to(root.resolve()):
            return path.resolve().relative_to(root.resolve()).as_posix()
    raise UsageFault(f"there is no workflow {name} in this repository")


def _roots(given: object) -> list[str]:
    """From the command line a list, from settings a list or one text."""
    several = [given] if isinstance(given, str) else given
    if not isinstance(several, list | tuple) or not all(isinstance(root, str) for root in several):
        raise UsageFault("the setting 'gated' is a list of folders")
    return [root for root in several if root]


def _tell_findings(root: Path, found: list[Finding], notes: list[str], options: Any) -> int:
    """Each with the line it is about, the first few of a kind unless all are asked for; 1 when there are any."""
    if options["as_json"]:
        rows = [{"rule": one.rule, "where": str(one.where), "message": one.message, "hint": one.hint} for one in found]
        print_json({"schema": 1, "findings": rows, "notes": notes})
        return 1 if found else 0
    most = max(len(found), len(notes)) if options["every"] else FEW
    for note in notes[: _room(len(notes), most)]:
        print(printable(f"note: {note}"))
    if len(notes) > _room(len(notes), most):
        print(f"note: and {len(notes) - most} more notes; --all shows them")
    kinds = Counter(one.rule for one in found)
    shown: Counter[str] = Counter()
    lines: dict[str, list[str]] = {}
    for one in found:
        shown[one.rule] += 1
        if shown[one.rule] > _room(kinds[one.rule], most):
            continue
        print(printable(str(one)))
        if isinstance(one.where, At):
            file = root / one.where.file
            if one.where.file not in lines:
                lines[one.where.file] = split_lines(text_of(file.read_bytes())) if file.is_file() else []
            print("".join(f"{line}\n" for line in excerpt(lines[one.where.file], one.where)), end="")
    for rule, count in kinds.items():
        if count > _room(count, most):
            print(f"and {count - most} more: {lint.RULES[rule]}; --all shows them")
    return 1 if found else 0


def _room(count: int, most: int) -> int:
    """How many of so many are shown: to hide a single one would take as much room as to show it."""
    return count if count <= most + 1 else most
