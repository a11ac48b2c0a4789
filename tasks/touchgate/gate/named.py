"""What a lane's checks name: files, folders, modules, crates and folders to look names up in, told from their words alone.

Nothing is looked up here: what is no file of the tree means nothing later. One name too many costs a check, one too few
merges a break.
"""

from __future__ import annotations

import posixpath
import re
from functools import lru_cache
from itertools import chain

from touchgate.gate.shell_words import UNKNOWN, Word, tokens
from touchgate.gate.values import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from touchgate.gate.model import Lane

SOURCE = (".py", ".pyi", ".c", ".cc", ".cpp", ".cxx", ".cu", ".cuh", ".h", ".hh", ".hpp", ".rs")
"""Endings of targets that are sources."""

_BESIDE = ("kernel", "benchmark")
"""Kinds whose target is an oracle with its kernel beside it."""
_LONGEST = 4096
"""Characters of a path, as systems allow."""
_MOST_FOLDERS = 8
"""Folders that words are looked up in, beside the first and the last."""
_DEEPEST = 3
"""Commands within quotes within quotes."""

_NO_FILES = frozenset(
    (
        *("echo", "printf", "which", "type", "hash", "mkdir", "rm", "rmdir", "touch", "exit", "set", "unset", "trap"),
        *("true", "false", "kill", "sleep", "wait", "return", "break", "continue", "shift", "read", "local", "umask"),
        *("ulimit", ":"),
    )
)
"""Programs whose words are texts: a file among them may be handed on, a folder is a name."""
_NO_FOLDERS = frozenset(
    (
        *("make", "gmake", "ninja", "cargo", "git", "go", "npm", "npx", "pnpm", "yarn", "docker", "podman", "doit"),
        *("just", "bazel", "pip", "pip3", "uv", "poetry", "apt", "apt-get", "tox", "nox", "module", "touchgate"),
    )
)
"""Programs whose bare words are names of their own, such as targets: only with a "/" does one mean a folder."""
_WITHOUT_RUNNING = frozenset(("install", "uninstall", "add", "remove", "-v", "-V", "show", "--version"))
"""Words before a program's name that say that it is not run."""
_BEFORE = frozenset(
    (
        *("if", "then", "else", "elif", "do", "while", "until", "!", "{", "}", "time", "exec", "env", "nohup", "sudo"),
        *("command", "eval", "builtin"),
    )
)
_ASSIGNED = re.compile(r"[A-Za-z_]\w*\+?=")
_SETTING = frozenset(("export", "local", "readonly", "declare", "typeset", "env", "set", "[", "[[", "test", "case"))
"""Words whose own words are no inputs that would have to be known: they set variables, or ask about them."""
_KEEPS_ROOT = frozenset(("git", "cp", "mv", "ln", "chmod", "chown", "cargo", "make", "gmake", "source", "."))
"""Programs that read nothing of a root that is given to them, or whose reading is known otherwise."""
_GIVEN = {"PYTHON": ("python",), "PYTEST": ("pytest",), "MAKE": ("make",), "CARGO": ("cargo",), "SHELL": ("sh",)}
"""What variables stand for where a text does not set them."""
_OF_MAKE = re.compile(r"\s*(?:export\s+|override\s+)?(\w+)\s*[:?+!]*=\s*([^#]*?)\s*(?:#.*)?", re.DOTALL)
_COMPILERS = re.compile(r"[\"']?\$[({]?(?:CC|CXX|NVCC|CPP|LD|AR|HOSTCC)[)}]?[\"']?")
_ANSWERED = re.compile(
    r"[\"']?(?:\$\{?(?:[@*#?!$-]|\d+)\}?|(?:\$\(|`)\s*(?:nproc|date|pwd|id|uname|whoami|hostname|getconf|mktemp)\b.*)[\"']?",
    re.DOTALL,
)
"""What a caller gives, whose words are looked at there, and what holds no path of the tree."""
_PARTS = re.compile(r"[=:,@]")
_PARTS_OF_PATTERN = re.compile(r"[=:@]")
_MOST_PARTS = 256
"""Parts of one word."""
_GLUED = re.compile(r"-[A-Za-z][^-\s=]*[/.]")
"""A path right behind the letter of an option."""
_SYSTEM = re.compile(r"/(?:dev|tmp|usr|bin|sbin|etc|proc|sys|var|opt|lib|lib64|run|nix)(?:/|$)")
_MOST_VALUES = 64
"""Values of one variable."""
_PYTHON = re.compile(r"(?:python|pypy)[0-9.]*(?:-dbg)?")
_PYTHON_BELOW = re.compile(
    r"\bpython[0-9.]*\b[^\n|<]*<<-?[ \t]*(['\"]?)(?P<end>\w+)\1[^\n]*\n(?P<code>[\s\S]{0,20000}?)\n[ \t]*(?P=end)\b"
)
"""A program for Python that stands below its command."""
_IMPLICIT = "{c,cc,cpp,cxx,C,cu,m,s,S,f,f90}"
"""Endings that make knows how to make an object from."""
_SHELLS = frozenset(("sh", "bash", "dash", "zsh", "ksh", "ash", "source", ".", "bats"))
_MAKES = frozenset(("make", "gmake"))
_PYTESTS = frozenset(("pytest", "py.test", "pytest-3"))
_RUNNERS = ("coverage", "cProfile", "pdb", "trace", "torchrun", "torch.distributed.run", "torch.distributed.launch")
"""Programs and modules that run the Python that follows."""
_MAKEFILES = ("GNUmakefile", "makefile", "Makefile")
_LEADS = re.compile(r"-(?:I|isystem|iquote|idirafter|iprefix|include-path|-include-path|-system-include)=?")
_INCLUDE_VARIABLES = ("CPATH", "C_INCLUDE_PATH", "CPLUS_INCLUDE_PATH", "NVCC_PREPEND_FLAGS", "NVCC_APPEND_FLAGS")
_PYTHON_VALUED = ("-W", "-X", "--check-hash-based-pycs")
PYTEST_VALUED = frozenset(
    (
        *("-k", "-m", "-n", "-p", "-c", "-o", "-W", "-r", "--rootdir", "--confcutdir", "--ignore", "--ignore-glob"),
        *("--deselect", "--junitxml", "--junit-xml", "--basetemp", "--cov-config", "--config-file", "--import-mode"),
        *("--durations", "--tb", "--maxfail", "--color", "--capture", "--log-file", "--log-level", "--log-cli-level"),
        *("--timeout", "--dist", "--tx", "--numprocesses", "--cov-report", "--show-capture", "--override-ini"),
        *("--pythonwarnings", "--maxprocesses", "--seed"),
    )
)
"""Options of pytest whose value is the next word, and no test."""
_PYTEST_NO_FILE = ("-k", "-m", "--ignore", "--ignore-glob", "--deselect", "--rootdir", "--confcutdir")
_DOTTED = re.compile(r"[^\W\d]\w*(?:\.[^\W\d]\w*)*")


class Untold(NamedTuple):
    """A word that can't be told without running it. line: from 1; text: what is shown; why: a clause.

    behind: the paths that it may mean all the same; where one of them is there, all is told.
    """

    line: int
    text: str
    why: str
    behind: tuple[str, ...] = ()


class Name(NamedTuple):
    """One thing that is named.

    kind: "word" (a file, or a folder with all that is in it), "file", "source" (a file of a check), "vectors" (a folder
    of them), "tests" (a file or folder of pytest's), "testpaths" (what pytest takes when none is named), "pytest" (a call,
    its arguments under `more`), "module" (of
    Python), "code" (Python itself), "python" (a file that Python runs), "script" (one that a shell runs), "makefile",
    "cargo" (a manifest, or ""), "include" and "pythonpath" (folders to look names up in).
    text: a path as written, or the name; of a pattern the files that match are meant. folders: from which it may be
    meant, the innermost first. more: the packages that Cargo is asked for; arguments.
    """

    kind: str
    text: str
    folders: tuple[str, ...] = ("",)
    line: int = 1
    is_pattern: bool = False
    more: tuple[str, ...] = ()

    def paths(self) -> Iterator[str]:
        """The paths that may be meant, from the root; none that leads out of it."""
        for folder in self.folders:
            path = posixpath.normpath(posixpath.join(folder, self.text))
            if not path.startswith(("/", "../")) and path != "..":
                yield "" if path == "." else path


def of_lane(lane: Lane) -> tuple[Name, ...]:
    """What a lane's checks name."""
    return tuple(dict.fromkeys(name for check in lane.checks for name in of_check(check.kind, check.target)))


def of_check(kind: str, target: str) -> tuple[Name, ...]:
    """What one check names, by its kind."""
    return _read_check(kind, target)[0]


def untold_of_check(kind: str, target: str) -> tuple[Untold, ...]:
    """The words of one check that can't be told."""
    return _read_check(kind, target)[1]


@lru_cache(maxsize=4096)
def _read_check(kind: str, target: str) -> tuple[tuple[Name, ...], tuple[Untold, ...]]:
    if kind == "vectors":
        return (Name("vectors", target),), ()
    if kind in ("pytest", "command"):
        reader = _Reader((), is_check=True)
        if kind == "command":
            reader.read(target)
        else:
            reader.pytest([word for word in tokens(target) if isinstance(word, Word)])
        return tuple(reader.names), tuple(reader.untold)
    if not target.endswith(SOURCE):
        return (), ()
    source = Name("source", target)
    return ((source, Name("source", f"{posixpath.splitext(target)[0]}.cu")) if kind in _BESIDE else (source,)), ()


def of_commands(text: str) -> list[Name]:
    """What the commands of a shell name."""
    return of_script(text)[0]


def of_script(text: str) -> tuple[list[Name], list[Untold]]:
    """What the commands of a script name; and what they run that can't be told."""
    reader = _Reader(())
    reader.read(text)
    return reader.names, list(reader.untold)


def of_makefile(text: str) -> list[Name]:
    """What a Makefile names: its recipes are commands; of all else the words that are files count."""
    names: list[Name] = []
    searched: list[str] = []
    number = 0
    variables: dict[str, list[str]] = {name: list(values) for name, values in _GIVEN.items()}
    for line in re.split(r"(?<!\\)\n", text):
        plain = re.sub(r"\$\((\w+)\)", r"${\1}", line.replace("$$", "$").replace("%", "*"))
        reader = _Reader((), variables)
        if line.startswith("\t"):
            reader.read(plain.lstrip("\t @-+"))
        else:
            words = [word for word in tokens(re.sub(r"[:?+!]*=|:+", " ", plain), variables) if isinstance(word, Word)]
            reader.words(
                [Word("", 1), *(word._replace(is_pattern="*" in word.text or word.is_pattern) for word in words)], "file"
            )
            for word in words:
                stem, dot, ending = word.text.rpartition(".")
                if stem and ending == "o" and "*" not in stem:
                    reader.paths(Word(f"{stem}{dot}{_IMPLICIT}", word.line, is_pattern=True), "file")
            if words and words[0].text in ("VPATH", "vpath"):
                searched += [part for word in words[1:] for part in word.text.split(":")]
            assigned = _OF_MAKE.fullmatch(plain)
            if assigned:
                value = " ".join(word.text for word in tokens(assigned[2], variables) if isinstance(word, Word))
                reader.remember(assigned[1], value)
                reader.searched(assigned[1], value)
        names += [name._replace(line=name.line + number) for name in reader.names]
        number += line.count("\n") + 1
    more = tuple(posixpath.normpath(one) for one in searched if UNKNOWN not in one and "*" not in one)
    return (
        [name._replace(folders=(*name.folders, *more)) if name.kind == "file" else name for name in names] if more else names
    )


class _Reader:
    """is_check: all words that can't be told are noted, else those that are run."""

    def __init__(self, here: Sequence[str], variables: dict[str, list[str]] | None = None, *, is_check: bool = False) -> None:
        self.names: list[Name] = []
        self.untold: dict[Untold, None] = {}
        self.is_check = is_check
        given = {name: list(values) for name, values in _GIVEN.items()}
        self.variables: dict[str, list[str]] = given if variables is None else variables
        """What variables may stand for, as far as the text says."""
        self.unset: set[str] = set()
        """Variables that are also given something that can't be told."""
        self.program = ""
        self.always: list[Word] = []
        """Arguments that every call of pytest is given."""
        self.here: list[str] = list(here) or [""]
        """The folders that the line may be in by now, the last one the surest."""
        self.taken: set[Word] = set()
        """Words of the command that are no paths."""
        self.depth = 0
        self.line = 1

    def add(
        self, kind: str, text: str, word: Word | None = None, *, more: tuple[str, ...] = (), innermost: bool = False
    ) -> None:
        innermost = innermost or posixpath.normpath(text) == "."
        if len(text) > _LONGEST and kind != "code":
            return
        folders = tuple(dict.fromkeys(reversed(self.here)))
        folders = folders[:1] if innermost else folders
        line = self.line - 1 + (word.line if word else 1)
        self.names.append(Name(kind, text, folders, line, word is not None and word.is_pattern, more))

    def read(self, text: str) -> None:
        """Commands, one after the other."""
        outer: list[list[str]] = []
        command: list[Word] = []
        for part in chain(tokens(text, self.variables), ("\n",)):
            if isinstance(part, Word):
                command.append(part)
                continue
            self.command(command)
            command = []
            if part in ("(", "$("):
                outer.append(list(self.here))
            elif part == ")" and outer:
                self.here = outer.pop()
        for match in _PYTHON_BELOW.finditer(text):
            line = self.line + text.count("\n", 0, match.start())
            self.names.append(Name("code", match["code"], tuple(reversed(self.here)), line))

    def command(self, words: list[Word]) -> None:
        self.taken = set()
        every = words
        if words and words[0].text == "for":
            words = self.loop(words)
        while words and (words[0].text in _BEFORE or _ASSIGNED.match(words[0].text)):
            self.assigned(words[0])
            words = words[1:]
        program = self.program = posixpath.basename(words[0].text) if words else ""
        kind = "file" if program in _NO_FILES else "bare" if program in _NO_FOLDERS or not program else "word"
        for word in every[: len(every) - len(words)]:
            self.values(word, kind)
        self.quoted(every, is_text=program in _NO_FILES and program != "trap")
        if program in ("cd", "pushd"):
            self.change_folder([word.text for word in words[1:] if not word.text.startswith("-")])
            return
        for word in words:
            self.assigned(word)
            if program == "local":
                self.values(word, "bare")
        if program in _NO_FILES:
            self.words(words, "file")
        elif program:
            self.runs(words, kind)
            if every[0].text == "eval":
                self.unknown(words[0])

    def loop(self, words: Sequence[Word]) -> list[Word]:
        """`for f in a b`: the command that only has the values, which the variable may have."""
        values = [word for word in words[2:] if word.text != "in"]
        for word in values:
            self.remember(words[1].text, word.text)
        return [Word("for", 1), *values]

    def runs(self, words: list[Word], kind: str) -> None:
        """A program with its words."""
        before = len(self.names)
        self.known(words)
        is_pytest = any(name.kind in ("tests", "testpaths") for name in self.names[before:])
        self.words(words, "file" if is_pytest else kind)
        if self.is_check and self.program not in _SETTING and self.program != "for":
            self.all_unknown(words, is_pytest=is_pytest)

    def values(self, word: Word, kind: str) -> None:
        """What an assignment gives counts like words."""
        if _is_assignment(word):
            for text in re.split(r"[\s:]+", word.text.partition("=")[2]):
                self.paths(word._replace(text=text), kind)

    def remember(self, name: str, value: str) -> None:
        """A variable may be given more than one value: each may be meant."""
        told = self.variables.setdefault(name, [])
        if not value or UNKNOWN in value or len(value) > _LONGEST:
            self.unset.add(name)
        elif value not in told:
            told.append(value)
        several = len(told) > 1 and any(re.search(r"[{},\s]", one) for one in told)
        if name in self.unset or several or len(told) > _MOST_VALUES:
            self.unset.add(name)
            del self.variables[name]

    # what can't be told

    def unknown(self, word: Word, why: str = "") -> None:
        """Note a word that can't be told, where it is none that a caller gives."""
        text = word.text.partition("::")[0]
        if not why and text.startswith("/"):
            # An option like /O2 is no path.
            why = "it is an absolute path" if not _SYSTEM.match(text) and re.search(r"[/.]", text[1:]) else ""
        elif not why and UNKNOWN in text and not _ANSWERED.fullmatch(word.written or "$1"):
            why = "only the shell can tell it"
        if not why:
            return
        behind = Name("word", _known(text), tuple(dict.fromkeys(reversed(self.here)))) if UNKNOWN in text else None
        paths = tuple(behind.paths()) if behind and behind.text else ()
        shown = word.written or text
        lead = f"{self.program} " if self.program not in ("", posixpath.basename(word.text)) else ""
        line = self.line - 1 + word.line
        self.untold[Untold(line, re.sub(r"\s+", " ", f"{lead}{shown}".replace(UNKNOWN, "$"))[:80], why, paths)] = None

    def all_unknown(self, words: Sequence[Word], *, is_pytest: bool) -> None:
        """Note each word of a check that can't be told, and a root that is given to be read as a whole."""
        for place, word in enumerate(words):
            text = word.text
            if not place:
                if not _COMPILERS.fullmatch(word.written):
                    self.unknown(word)
                continue
            if "=" in text:
                text = text.partition("=")[2]
            elif text.startswith("-") and not _LEADS.match(text):
                continue
            is_root = not self.here[-1] and posixpath.normpath(text or "x") in (".", "...")
            if is_root and not is_pytest and self.program not in _KEEPS_ROOT and not _LEADS.match(words[place - 1].text):
                self.unknown(word, "the whole tree does not count")
            else:
                self.unknown(word._replace(text=text.lstrip("@")))

    def quoted(self, words: Sequence[Word], *, is_text: bool) -> None:
        """Commands within words: what is substituted, and where the words are no mere text, what is quoted."""
        before = ""
        for word in words:
            self.within(word, is_text=is_text or before in ("-k", "-m"))  # expressions of pytest's
            before = word.text

    def within(self, word: Word, *, is_text: bool) -> None:
        """A word of several words may be a command of its own, as that of `sh -c` is."""
        if self.depth >= _DEEPEST:
            return
        own = word.text.partition("=")[2] if _is_assignment(word) else word.text
        several = (own,) if not is_text and re.search(r"\s", own.strip()) else ()
        for text in (*word.inner, *several):
            here, line, program = list(self.here), self.line, self.program
            self.depth += 1
            self.line += word.line - 1
            self.read(text.replace(UNKNOWN, "$_"))
            self.depth -= 1
            self.here, self.line, self.program = here, line, program

    def change_folder(self, targets: Sequence[str]) -> None:
        target = targets[0] if len(targets) == 1 else ""
        plain = _known(target)
        if plain and not plain.startswith("/"):
            inner = posixpath.normpath(posixpath.join(self.here[-1], plain))
            if inner != ".." and not inner.startswith("../"):
                inner = "" if inner == "." else inner
                self.here = [self.here[0], *[one for one in self.here[1:] if one != inner][-_MOST_FOLDERS:], inner]

    def assigned(self, word: Word) -> None:
        """`PYTHONPATH=a:b` and its like."""
        variable, equals, value = word.text.partition("=")
        if not equals:
            return
        if _is_assignment(word):
            before = self.variables.get(variable[:-1], [""]) if variable.endswith("+") else [""]
            for one in list(before):
                self.remember(variable.rstrip("+"), f"{one}{value}")
        self.searched(variable.rstrip("+"), value)
        self.pytest_set(variable, value)

    def searched(self, variable: str, value: str) -> None:
        """The folders of a variable for which there are some."""
        kind = "pythonpath" if variable == "PYTHONPATH" else "include" if variable in _INCLUDE_VARIABLES else None
        for part in re.split(r"[:\s]+", value) if kind else ():
            match = _LEADS.match(part)
            plain = _known(part[match.end() :] if match else part)
            if plain and not plain.startswith("-"):
                self.add(kind or "", plain)

    def words(self, words: Sequence[Word], kind: str) -> None:
        """Each word that may be a file, and folders for #include.

        kind: "file"; "word": folders count too; "bare": of folders only those that are written with a "/".
        """
        lead = ""
        for place, word in enumerate(words):
            text = word.text
            match = _LEADS.match(text)
            if lead:
                self.folder_of(text)
                lead = ""
            elif match and match.end() == len(text):
                lead = text
            elif match:
                self.folder_of(text[match.end() :])
            else:
                is_program = "/" in text and (not place or text.startswith("./"))
                if (place or is_program) and word not in self.taken:
                    if is_program and not word.is_pattern:
                        self.paths(word, "script")
                    if place or word.is_pattern:
                        self.paths(word, kind)

    def folder_of(self, text: str) -> None:
        plain = _known(text)
        if plain:
            self.add("include", plain)

    def paths(self, word: Word, kind: str) -> None:
        """The word, and its parts: `--a=b`, `b:c`, `b,c`, `@b`, `-fb`, `-Wp,-Ib`. What is no file means nothing later."""
        whole = word.text.partition("::")[0]
        split = (_PARTS_OF_PATTERN if word.is_pattern else _PARTS).split(whole)
        parts = [part.strip("\"'<>") for part in split[:_MOST_PARTS]]
        values = {part for part in whole.partition("=")[2].split(",") if part}
        for text in dict.fromkeys((whole, *values, *parts)):
            match = _LEADS.match(text)
            if match:
                self.folder_of(text[match.end() :])
                continue
            plain = _known(text[2:] if _GLUED.match(text) else text)
            if plain and not plain.startswith("-"):
                is_bare = kind == "bare" or (kind == "word" and text != whole and text not in values)
                bare = "word" if "/" in text else "file"
                self.add(bare if is_bare else kind, plain, word)

    def known(self, words: list[Word]) -> None:
        """What is known of the program that is run, wherever in the line it stands."""
        for place, word in enumerate(words):
            if word.text in _WITHOUT_RUNNING:
                return
            reads = self.reader_of(posixpath.basename(word.text))
            if reads is not None:
                reads(words[place + 1 :])
                return

    def reader_of(self, program: str) -> Callable[[Sequence[Word]], None] | None:
        """What reads the words behind a program's name."""
        if program in _PYTESTS:
            return self.pytest
        if _PYTHON.fullmatch(program):
            return self.python
        if program in _RUNNERS:
            return self.run_python
        if program in _MAKES:
            return self.make
        if program in _SHELLS:
            return self.shell
        return self.cargo if program == "cargo" else None

    def run_python(self, words: Sequence[Word]) -> None:
        self.python([word for word in words if word.text not in ("run", "launch")])

    def shell(self, words: Sequence[Word]) -> None:
        for word in words:
            if not word.text.startswith(("-", "+")):
                self.unknown(word)
                plain = _known(word.text)
                if plain:
                    self.add("script", plain, word)
                return

    def python(self, words: Sequence[Word]) -> None:
        skip = False
        for place, word in enumerate(words):
            text = word.text
            if skip:
                skip = False
            elif text in _PYTHON_VALUED:
                skip = True
            elif re.fullmatch(r"-[A-Za-z]*[mc]", text):
                self.python_inner(words[place + 1 :], is_code=text.endswith("c"))
                return
            elif re.fullmatch(r"-m[\w.]+", text):
                self.module(word._replace(text=text[2:]), words[place + 1 :])
                return
            elif not text.startswith("-"):
                self.unknown(word)
                plain = _known(text)
                if plain:
                    self.add("python", plain, word)
                return

    def python_inner(self, words: Sequence[Word], *, is_code: bool) -> None:
        """What stands behind -c and -m."""
        for word in words[:1]:
            self.taken.add(word)
            self.unknown(word._replace(text=UNKNOWN if UNKNOWN in word.text else ""))
            if is_code:
                self.starts_here(word)
                self.add("code", word.text, word)
            else:
                self.module(word, words[1:])

    def module(self, word: Word, rest: Sequence[Word]) -> None:
        self.starts_here(word)
        if word.text in _PYTESTS:
            self.pytest(rest)
        elif word.text in _RUNNERS:
            self.run_python(rest)
        elif word.text == "unittest":
            self.unittest(rest)
        elif _DOTTED.fullmatch(word.text):
            self.add("module", word.text, word)

    def starts_here(self, word: Word) -> None:
        """With -m and -c Python's imports start from the folder that it runs in."""
        if self.here[-1]:
            self.names.append(Name("pythonpath", self.here[-1], ("",), self.line - 1 + word.line))

    def unittest(self, words: Sequence[Word]) -> None:
        plain = [word for word in words if not word.text.startswith("-")]
        if not plain or plain[0].text == "discover":
            for word in plain[1:] or [Word(".", 1)]:
                self.add("tests", _known(word.text) or ".", word, innermost=word.text == ".")
            return
        for word in plain:
            self.add("module" if _DOTTED.fullmatch(word.text) and not word.text.endswith(".py") else "tests", word.text, word)

    def pytest(self, words: Sequence[Word]) -> None:
        """The tests that are named; without any, those that pytest looks for by itself."""
        targets = self.targets(words)
        as_modules = any(word.text == "--pyargs" for word in words)
        for word in targets:
            self.unknown(word)
            plain = _known(word.text.partition("::")[0])
            if plain:
                self.add("tests", plain, word)
            if as_modules and _DOTTED.fullmatch(word.text):
                self.add("module", word.text, word)
                self.add("tests", word.text.replace(".", "/"), word)
        if not any(_known(word.text) for word in targets):
            self.add("testpaths", "", innermost=True)
        texts = (word.text for word in (*self.always, *words))
        self.add("pytest", "", more=tuple(text for text in texts if UNKNOWN not in text))

    def pytest_set(self, variable: str, value: str) -> None:
        """What pytest takes from its environment."""
        words = [Word(text, 1) for text in value.replace(UNKNOWN, " ").split()]
        if variable == "PYTEST_ADDOPTS":
            self.always += words
            self.targets(words)
            self.add("pytest", "", more=tuple(word.text for word in words))
        for name in value.split(",") if variable == "PYTEST_PLUGINS" else ():
            if _DOTTED.fullmatch(name):
                self.add("module", name)

    def targets(self, words: Sequence[Word]) -> list[Word]:
        """The words that are tests. Files among the values of options count, and plugins."""
        found = []
        valued = ""
        for word in words:
            text = word.text
            plugin = text if valued == "-p" else text[2:] if text.startswith("-p") else ""
            if plugin and _DOTTED.fullmatch(plugin):
                self.add("module", plugin, word)
            elif valued and valued not in _PYTEST_NO_FILE:
                self.paths(word, "file")
            elif not valued and text not in PYTEST_VALUED and not re.fullmatch(r"-.*|\d*", text, re.DOTALL):
                found.append(word)
            valued = text if not valued and text in PYTEST_VALUED else ""
        return found

    def make(self, words: Sequence[Word]) -> None:
        before = list(self.here)
        files = []
        for option, word in _values(words, ("-C", "--directory", "-f", "--file", "--makefile")):
            if option in ("-C", "--directory"):
                self.change_folder([word.text])
            else:
                files.append(word)
        for word in files:
            self.unknown(word)
            plain = _known(word.text)
            if plain:
                self.add("makefile", plain, word, innermost=True)
        if not files:
            for name in _MAKEFILES:
                self.add("makefile", name, innermost=True)
        self.here = before

    def cargo(self, words: Sequence[Word]) -> None:
        before = list(self.here)
        manifest = ""
        packages = []
        for option, word in _values(words, ("--manifest-path", "-p", "--package", "-C")):
            if option == "-C":
                self.change_folder([word.text])
            elif option == "--manifest-path":
                manifest = _known(word.text) or ""
            else:
                packages.append(word.text)
        if any(word.text in ("--workspace", "--all") for word in words):
            packages = ["*"]
        plain = [word.text for word in words if not word.text.startswith(("-", "+"))]
        if plain:
            self.add("cargo", manifest, more=tuple(packages), innermost=not manifest)
        self.here = before


def _values(words: Sequence[Word], options: Sequence[str]) -> Iterator[tuple[str, Word]]:
    """The values of options, as the next word, after "=", or for one letter right behind it."""
    option = ""
    for word in words:
        if option:
            yield option, word
            option = ""
            continue
        for one in options:
            if word.text == one:
                option = one
            elif word.text.startswith(f"{one}="):
                yield one, word._replace(text=word.text[len(one) + 1 :])
            elif len(one) == 2 and word.text.startswith(one):  # noqa: PLR2004 (a dash and a letter)
                yield one, word._replace(text=word.text[2:])


def _is_assignment(word: Word) -> bool:
    """Whether a word sets a variable: a text of many words that begins so is a command."""
    is_one = _ASSIGNED.match(word.written) is not None or not re.search(r"\s", word.text)
    return is_one and _ASSIGNED.match(word.text) is not None


def _known(text: str) -> str:
    """A word as far as it is known: a path behind a variable is taken from the root. "" where nothing is."""
    if UNKNOWN not in text:
        return text
    behind = text.rpartition(UNKNOWN)[2].lstrip(")}\"'")
    return behind.lstrip("/") if behind.startswith("/") else ""
