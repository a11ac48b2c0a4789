"""Files that decide about reuse of a check's result by its declaration alone: a change of any of them touches the lane.

What is in a result's key must be able to make the check run. Of `inputs`, of the folder of `vectors` and of what configures
pytest that is told here, from the declarations and the touched paths; no folder is listed.
"""

from __future__ import annotations

import posixpath
import re
from functools import lru_cache

from touchgate.gate.model import Included
from touchgate.gate.patterns import PatternList
from touchgate.gate.plan import ATTRIBUTES, is_attributes
from touchgate.gate.shell_words import UNKNOWN, Word, tokens
from touchgate.gate.values import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from touchgate.gate.model import Change, CheckDeclaration, Lane

PYTEST_FILES = (
    *("conftest.py", "pyproject.toml", "pytest.ini", "pytest.toml", ".pytest.ini", ".pytest.toml", "setup.cfg", "tox.ini"),
)
"""Files that change what pytest does, beside its tests and in every folder above them."""
PYTEST_VALUED = ("-c", "--config-file", "--rootdir", "--confcutdir", "-p")
"""Options of pytest's whose value names a file or folder that changes what it does."""
_SIGNS = re.compile(r"[*?\[\\]|^!")
"""What makes an entry of `inputs` a pattern. A `+` is a sign in a pattern alone: folders are called c++."""
_SPECIAL = re.compile(r"[*?+\[\\]|^!")


class Entry(NamedTuple):
    """Something that a check's key holds. is_whole: of a folder all that is in it. is_listed: `inputs` names it."""

    path: str
    is_whole: bool = False
    is_listed: bool = False


def is_pattern(entry: str) -> bool:
    """Whether an entry of `inputs` is a pattern rather than a file or folder."""
    return _SIGNS.search(entry) is not None


def as_patterns(entries: Iterable[str]) -> list[str]:
    """Entries of `inputs` as one list in the dialect of `paths`: a file or folder stands for itself and all that is in it."""
    found = []
    for entry in entries:
        if is_pattern(entry):
            found.append(entry)
            if not re.search(r"[*?+\[]|^!", re.sub(r"\\.", "x", entry, flags=re.DOTALL)):  # escapes alone: one file or folder
                found.append(f"{entry}/**")
        elif entry == ".":
            found.append("**")
        else:
            plain = escaped(entry)
            found += [plain, f"{plain}/**"]
    return found


def escaped(text: str) -> str:
    """The pattern that matches just this text."""
    return _SPECIAL.sub(lambda sign: f"\\{sign.group()}", text)


def inputs_of(check: CheckDeclaration) -> tuple[str, ...]:
    """The entries of a check's `inputs`, as far as they are some; plain paths in one spelling."""
    value = check.options.get("inputs")
    entries = [value] if isinstance(value, str) else value if isinstance(value, list | tuple) else []
    return tuple(
        one if is_pattern(one) else posixpath.normpath(one)
        for one in entries
        if isinstance(one, str) and one and not one.startswith("/") and ".." not in one.split("/")
    )


def touches(lanes: Mapping[str, Lane], change: Change, which: str) -> dict[str, Included]:
    """Lane -> a touched path that the key of one of its checks holds by declaration. which: of which side, in words."""
    places = _Places(lanes)
    found: dict[str, Included] = {}
    for touched in change.paths if places.by_path or places.patterns else ():
        for lane, check, entry in places.touched_by(touched.path):
            if lane not in found:
                kind = "is an input" if entry.is_listed else "decides about the result"
                within = f", in {entry.path}," if entry.is_whole and entry.path not in (touched.path, "") else ""
                reason = f"{touched.path} ({touched.status}){within} {kind} of the check at {check.at}{which}"
                found[lane] = Included(touched.path, reason)
    return found


class _Places:
    """The entries of all lanes, by path; and the lists of `inputs` that hold patterns."""

    def __init__(self, lanes: Mapping[str, Lane]) -> None:
        self.by_path: dict[str, list[tuple[str, CheckDeclaration, Entry]]] = {}
        self.within: dict[str, list[tuple[str, CheckDeclaration, Entry]]] = {}
        """Folder -> what is named in it: it may be a submodule, or a link."""
        self.patterns: list[tuple[str, CheckDeclaration, PatternList]] = []
        for lane in lanes.values():
            for check in lane.checks:
                listed = inputs_of(check)
                if any(map(is_pattern, listed)):
                    self.patterns.append((lane.name, check, PatternList(as_patterns(listed))))
                    listed = ()
                for entry in (*(Entry(_plain(one), is_whole=True, is_listed=True) for one in listed), *entries_of(check)):
                    self.by_path.setdefault(entry.path, []).append((lane.name, check, entry))
        for path, known in self.by_path.items():
            for folder in _above(path):
                if folder:
                    self.within.setdefault(folder, []).extend(known)

    def touched_by(self, path: str) -> Iterator[tuple[str, CheckDeclaration, Entry]]:
        plain = path.rstrip("/")
        if is_attributes(path):  # it can change all that lies beside it and below
            path = path[: -len(ATTRIBUTES)]
            plain = path.rstrip("/")
            if not plain:
                yield from (one for known in self.by_path.values() for one in known if one[2].is_listed or one[2].is_whole)
        yield from self.by_path.get(plain, ())
        yield from self.within.get(plain, ())
        for folder in _above(plain):
            yield from (one for one in self.by_path.get(folder, ()) if one[2].is_whole)
        for lane, check, patterns in self.patterns:
            is_below = not path or path.endswith("/")
            may = patterns.may_touch_below(path) is not None if is_below else patterns.decides(path) is not None
            if may:
                yield lane, check, Entry(path, is_listed=True)


def _plain(path: str) -> str:
    return "" if path == "." else path


def _above(path: str) -> Iterator[str]:
    """The folders above a path, the root last."""
    while path:
        path = path.rpartition("/")[0]
        yield path


def entries_of(check: CheckDeclaration) -> tuple[Entry, ...]:
    """What is in a check's key by its kind and target alone."""
    if check.kind == "vectors":
        return (Entry(posixpath.normpath(check.target), is_whole=True),)
    return tuple(map(Entry, pytest_files(check.target))) if check.kind == "pytest" else ()


@lru_cache(maxsize=1024)
def pytest_files(target: str) -> tuple[str, ...]:
    """What may configure a run of pytest with these words: files below the root, there or not."""
    words = [word.text for word in tokens(target) if isinstance(word, Word) and UNKNOWN not in word.text]
    folders = {"": None}
    files: dict[str, None] = {}
    for word in words:
        path = posixpath.normpath(word.partition("::")[0] or ".")
        if not word.startswith(("-", "@")) and _is_below(path):
            folders |= dict.fromkeys((_plain(path), *_above(_plain(path))))
        if word.startswith("@"):
            files[posixpath.normpath(word[1:])] = None
    for option, value in pytest_values(words):
        path = posixpath.normpath(value or ".")
        if option in ("--rootdir", "--confcutdir"):
            folders[_plain(path)] = None
        elif option == "-p":
            module = value.replace(".", "/")
            files |= dict.fromkeys((f"{module}.py", f"{module}/__init__.py"))
        else:
            files[path] = None
    files |= {posixpath.join(folder, name): None for folder in folders for name in PYTEST_FILES}
    return tuple(path for path in files if _is_below(path))


def pytest_values(words: Sequence[str]) -> Iterator[tuple[str, str]]:
    """The options of `PYTEST_VALUED` with their values, however they are joined."""
    for word, following in zip(words, [*words[1:], ""], strict=True):
        for option in PYTEST_VALUED:
            if word == option:
                yield option, following
            elif option.startswith("--") and word.startswith(f"{option}="):
                yield option, word.partition("=")[2]
            elif not option.startswith("--") and word.startswith(option):
                yield option, word[len(option) :]


def _is_below(path: str) -> bool:
    return not path.startswith(("/", "../")) and path != ".."
