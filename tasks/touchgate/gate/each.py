"""`each: crates/*`: one declared lane that stands for a lane for every folder that matches.

The folders' patterns are GitHub's dialect with a level written out for each folder: only the folders that a pattern
reaches are listed, never the whole tree. `{name}` and `{path}` in the lane's fields become the folder's own name and its
path from the root.
"""

from __future__ import annotations

import re

from touchgate.gate import located
from touchgate.gate.check_declarations import NAME, NAME_CURE
from touchgate.gate.each_fields import FIELD, as_name, fill_lane
from touchgate.gate.located import Mapping_, Node, Problem, Scalar, Sequence, did_you_mean
from touchgate.gate.model import Each
from touchgate.gate.patterns import PatternList, list_faults
from touchgate.gate.values import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping
    from collections.abc import Sequence as ListOf

    from touchgate.gate.model import At

FIELDS = ("name", "path")
MOST_FOLDERS = 10_000
"""More than this is a mistake in the pattern rather than a list of lanes."""
MOST_NODES = 2_000_000
"""Of all lanes that one declaration stands for, counted as in YAML."""

_SPECIAL = re.compile(r"[*?+\[\\]")


def lanes_of(
    key: Scalar,
    node: Mapping_,
    folders: Callable[[str], Iterable[str]],
    problems: list[Problem],
    may_be_empty: Callable[[ListOf[str]], bool] = lambda _: False,
) -> list[tuple[str, Each, Mapping_]]:
    """The lanes that one stands for: name, folder, and fields filled in. None, and problems, where it is mistaken.

    key: the lane's name, which may hold fields; without them the folder's name is put behind it. may_be_empty: whether
    patterns that match no folder are no mistake.
    """
    before = len(problems)
    text_faults(key.text, key.at, problems)
    fields = Mapping_(
        node.at,
        {name: place for name, place in node.keys.items() if name != "each"},
        {name: value for name, value in node.entries.items() if name != "each"},
        node.size,
        node.depth,
    )
    field_faults(fields, problems)
    written = node.entries["each"]
    found = folders_of(written, folders, problems, may_be_empty)
    if len(problems) > before:
        return []
    if fields.size * len(found) > MOST_NODES:
        message = f"'each' matches {len(found)} folders, too many for fields as long as these"
        problems.append(Problem(written.at, message, "write a narrower pattern, or shorter fields"))
        return []
    template = key.text if has_field(key.text) else f"{key.text}-{{name}}"
    made = []
    for path in found:
        values = {"name": path.rpartition("/")[2], "path": path}
        entries = {name: fill_lane(name, value, values) for name, value in fields.entries.items()}
        one = Each(key.text, values["name"], path, written.at)
        made.append((as_name(template, values), one, Mapping_(node.at, fields.keys, entries, node.size, node.depth)))
    return made


def nameable(
    made: Iterable[tuple[str, Each, Mapping_]], names: Mapping[str, At], reserved: Collection[str], problems: list[Problem]
) -> list[tuple[str, Each, Mapping_]]:
    """Those of the lanes that can have their names. names: what is declared already, and where."""
    kept: dict[str, tuple[str, Each, Mapping_]] = {}
    for name, one, fields in made:
        what = f"'each': the folder '{shown(one.path)}' gives lane '{name}', which"
        cure = 'rename the folder, or leave it out with "!..." in a list'
        if not re.fullmatch(NAME, name):
            problems.append(Problem(one.at, f"{what} is no name of a lane", f"{NAME_CURE}; {cure}"))
        elif name in reserved:
            problems.append(Problem(one.at, f"{what} is a command of doit", cure))
        elif name in kept:
            problems.append(Problem(one.at, f"{what} the folder '{kept[name][1].path}' gives too", cure))
        elif name in names:
            problems.append(Problem(one.at, f"{what} is declared at {names[name]}", "take another name for one of them"))
        else:
            kept[name] = (name, one, fields)
    return list(kept.values())


def folders_of(
    node: Node,
    folders: Callable[[str], Iterable[str]],
    problems: list[Problem],
    may_be_empty: Callable[[ListOf[str]], bool] = lambda _: False,
) -> list[str]:
    """The folders that an `each` stands for, sorted; none, and a problem, where it is mistaken.

    folders: the names of the folders directly in one ("" is the root); none where there is no such folder.
    """
    patterns = _patterns(node, problems)
    if not patterns:
        return []
    kept = _matching(patterns, folders)
    if len(kept) > MOST_FOLDERS:
        problems.append(Problem(node.at, f"'each' matches more than {MOST_FOLDERS} folders", "write a narrower pattern"))
        return []
    if not kept and not may_be_empty(patterns):
        message = "'each' matches no folder, so nothing would ever run"
        problems.append(Problem(node.at, message, "name a folder that holds a file git knows, or take the lane out"))
    return kept


def matches_any(patterns: ListOf[str], folders: Callable[[str], Iterable[str]]) -> bool:
    """Whether there is a folder that an `each` of these patterns stands for."""
    return bool(_matching(patterns, folders))


def _matching(patterns: ListOf[str], folders: Callable[[str], Iterable[str]]) -> list[str]:
    """The folders that patterns match, sorted; of too many, one more than there may be."""
    listed = PatternList(patterns)
    found: set[str] = set()
    for pattern in patterns:
        if pattern.startswith("!"):
            continue
        for path in _reached(pattern, folders):
            found.add(path)
            if len(found) > MOST_FOLDERS:
                return sorted(found)
    return sorted(path for path in found if listed.decides(path) is not None)


def shown(path: str) -> str:
    """A path safe to show."""
    return path if path.isprintable() else ascii(path)[1:-1]


def _patterns(node: Node, problems: list[Problem]) -> list[str]:
    before = len(problems)
    if isinstance(node, Mapping_):
        problems.append(Problem(node.at, "'each' must be a pattern of folders or a list of them, not a mapping"))
        return []
    items = node.items if isinstance(node, Sequence) else [node]
    if not items:
        problems.append(Problem(node.at, "'each' is empty", "write a pattern of folders such as crates/*"))
    texts = []
    for item in items:
        text = located.text(item, "a pattern of 'each'", problems)
        if text is None:
            continue
        texts.append(text)
        fault = _fault(text)
        if fault:
            problems.append(Problem(item.at, f"'each', pattern '{text}': {fault}"))
    if len(problems) == before and all(text.startswith("!") for text in texts):
        problems.append(Problem(node.at, "'each' has only patterns with `!`, which match nothing"))
    return texts if len(problems) == before else []


def _fault(text: str) -> str | None:
    if text.endswith("/") and len(text) > 1:
        return f"folders are matched without the `/` behind: write `{text.rstrip('/')}`"
    if "**" in text and not text.startswith("!"):
        return "`**` would list the whole tree; write each level out: `crates/*`, `crates/*/*`"
    return next((fault for _, fault in list_faults([text]) if not fault.startswith("only patterns")), None)


def _reached(pattern: str, folders: Callable[[str], Iterable[str]]) -> Iterable[str]:
    """Walk down the levels of a pattern; a level without signs is not listed, but for the last."""
    *above, last = pattern.split("/")
    reached: Iterable[str] = [""]
    for level in above:
        reached = _below(reached, level, folders) if _SPECIAL.search(level) else [f"{folder}{level}/" for folder in reached]
    return (path.rstrip("/") for path in _below(reached, last, folders))


def _below(reached: Iterable[str], level: str, folders: Callable[[str], Iterable[str]]) -> Iterable[str]:
    # Only at the start of a whole pattern does `!` mean anything.
    matcher = PatternList(["\\" + level if level.startswith("!") else level])
    for folder in reached:
        for name in folders(folder.rstrip("/")):
            if matcher.decides(name) is not None:
                yield f"{folder}{name}/"


# ---- the fields


def has_field(text: str) -> bool:
    """Whether there is something to fill in."""
    return FIELD.search(text) is not None


def field_faults(node: Node, problems: list[Problem]) -> None:
    """Report fields that do not exist, and those that YAML took for a mapping."""
    if isinstance(node, Scalar):
        text_faults(node.text, node.at, problems)
    elif isinstance(node, Sequence):
        for item in node.items:
            field_faults(item, problems)
    else:
        (key, value), *more = node.entries.items() or [("", node)]
        if key in FIELDS and not more and located.is_empty(value):
            problems.append(Problem(node.at, f"YAML takes {{{key}}} for a mapping", f'write it in quotes: "{{{key}}}"'))
            return
        for value in node.entries.values():
            field_faults(value, problems)


def text_faults(text: str, at: At, problems: list[Problem]) -> None:
    """Report fields of one text that do not exist."""
    for name in dict.fromkeys(FIELD.findall(text)):
        if name not in FIELDS:
            guess = did_you_mean(name, FIELDS)
            hint = guess or f"there are {{name}} and {{path}}; for the braces themselves write {{ {name} }}"
            problems.append(Problem(at, f"unknown field '{{{name}}}'", hint))
