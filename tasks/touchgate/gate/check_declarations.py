"""The `checks` of a lane: each a mapping whose one kind key holds the target, with options beside it."""

from __future__ import annotations

import posixpath
import re

from touchgate.gate import located
from touchgate.gate.kinds import OPTIONS, KnownKinds
from touchgate.gate.located import Mapping_, Node, Problem, Scalar, Sequence, did_you_mean, words
from touchgate.gate.model import At, CheckDeclaration
from touchgate.gate.values import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

COMMON_KEYS = ("name", "timeout")
LONGEST_MINUTES = 7 * 24 * 60
NAME = r"[A-Za-z0-9][A-Za-z0-9._-]*"
"""A lane's or check's name: it becomes the name of a doit task."""
COMMANDS = frozenset(
    (
        *("clean", "dumpdb", "forget", "help", "ignore", "info", "list", "reset-dep", "run", "strace", "tabcompletion"),
        *("lanes", "lease", "results", "touched", "vectors"),
    )
)
"""Commands of doit, and ours: no lane is called like one, since `doit NAME` would be the command."""
NAME_CURE = "take letters, digits, '.', '_' and '-', a letter or digit first"


class CheckReader:
    """Reads checks and notes what is wrong with them. kinds: kind -> further keys; None: any kind with any keys.

    Without kinds a check's kind is the first of its keys that is one of ours, else its first key. Beside those of
    `KnownKinds`, other packages' kinds may come, with any keys.
    """

    def __init__(self, kinds: Mapping[str, Collection[str]] | None, problems: list[Problem]) -> None:
        self.kinds = kinds
        self.problems = problems

    def problem(self, at: At, message: str, hint: str | None = None) -> None:
        """Note a mistake."""
        self.problems.append(Problem(at, message, hint))

    def read(self, key: Scalar, lane: str, node: Node) -> tuple[CheckDeclaration, ...]:
        """The checks of a lane; `key` is the place of its `checks`."""
        if not isinstance(node, Sequence):
            self.problem(node.at, f"'checks' must be a list, not {located.kind_of(node)}", "begin each check with '- '")
            return ()
        if not node.items:
            self.problem(key.at, f"lane '{lane}' has no checks: touched, it would have nothing to run")
        found = [check for item in node.items if (check := self.check(lane, item)) is not None]
        labels: dict[str, At] = {}
        for check, label in zip(found, check_labels(found), strict=True):
            if label in labels:
                message = f"two checks of lane '{lane}' are named '{label}'"
                self.problem(check.at, message, f"the first is at {labels[label]}; give one a 'name'")
            labels.setdefault(label, check.at)
        return tuple(found)

    def check(self, lane: str, node: Node) -> CheckDeclaration | None:
        """One check; None, and a problem, where it is none."""
        if not isinstance(node, Mapping_) or not node.entries:
            found = "nothing" if isinstance(node, Mapping_) else located.kind_of(node)
            self.problem(node.at, f"a check of lane '{lane}' must be a mapping such as `command: make test`, not {found}")
            return None
        kind = self.kind(lane, node)
        if kind is None:
            return None
        target = located.text(node.entries[kind], f"the target of '{kind}'", self.problems)
        if target is not None and not target.strip():
            self.problem(node.entries[kind].at, f"the target of '{kind}' is empty")
        options: dict[str, object] = {}
        allowed = None if self.kinds is None or kind not in self.kinds else {*COMMON_KEYS, *self.kinds[kind]}
        for key, value in node.entries.items():
            if key == kind:
                continue
            if allowed is not None and key not in allowed:
                hint = did_you_mean(key, allowed) or f"it takes {words(sorted(allowed))}"
                self.problem(node.keys[key].at, f"unknown key '{key}' in a '{kind}' check of lane '{lane}'", hint)
            elif key == "name":
                name = located.text(value, "a check's name", self.problems)
                if name is not None and not re.fullmatch(NAME, name):
                    self.problem(value.at, f"'{name}' can't name a check", NAME_CURE)
                options[key] = name
            elif key == "timeout":
                what = "'timeout'"
                options[key] = located.number(value, what, self.problems, largest=LONGEST_MINUTES)
            else:
                options[key] = located.plain_data(value, f"'{key}'", self.problems)
        return None if target is None else CheckDeclaration(kind, target, options, node.keys[kind].at)

    def kind(self, lane: str, node: Mapping_) -> str | None:
        """The one key of a check that names its kind."""
        keys = [key for key in node.entries if key not in COMMON_KEYS]
        if self.kinds is None:
            known = [key for key in keys if key in OPTIONS] or keys[:1]
        else:
            known = [key for key in keys if key in self.kinds]
        if len(known) == 1:
            return known[0]
        if not known and keys and isinstance(self.kinds, KnownKinds) and self.kinds.may_be_anothers(keys[0]):
            return keys[0]
        if known:
            at = node.keys[known[1]].at
            self.problem(at, f"a check of lane '{lane}' has two kinds, '{known[0]}' and '{known[1]}'", "write two checks")
        elif keys and self.kinds is not None:
            hint = did_you_mean(keys[0], self.kinds) or f"kinds are {words(sorted(self.kinds))}"
            self.problem(node.keys[keys[0]].at, f"unknown kind of check '{keys[0]}' in lane '{lane}'", hint)
        else:
            self.problem(node.at, f"a check of lane '{lane}' has no kind", f"kinds are {words(self.kinds or OPTIONS)}")
        return None


def check_labels(checks: Iterable[CheckDeclaration]) -> list[str]:
    """What each check of one lane is called behind the lane's name.

    Its `name`; else its kind, with the target's stem (a command: its number) where the lane has several of the kind.
    """
    checks = list(checks)
    unnamed = [check for check in checks if not check.options.get("name")]
    labels = []
    for check in checks:
        twins = [other for other in unnamed if other.kind == check.kind]
        name = check.options.get("name")
        if name:
            labels.append(str(name))
        elif len(twins) == 1:
            labels.append(check.kind)
        elif check.kind == "command":
            labels.append(f"command:{1 + next(place for place, other in enumerate(twins) if other is check)}")
        else:
            file = posixpath.basename(posixpath.normpath(check.target))
            labels.append(f"{check.kind}:{posixpath.splitext(file)[0]}")
    return labels
