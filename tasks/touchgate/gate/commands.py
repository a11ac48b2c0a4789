"""The commands of a shell, read word for word: which files, folders and programs they name."""

from __future__ import annotations

import posixpath
import re
from itertools import chain

from touchgate.gate import programs
from touchgate.gate.names import Name, Untold
from touchgate.gate.shell_words import UNKNOWN, Word, known, tokens
from touchgate.gate.values import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

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
GIVEN = {"PYTHON": ("python",), "PYTEST": ("pytest",), "MAKE": ("make",), "CARGO": ("cargo",), "SHELL": ("sh",)}
"""What variables stand for where a text does not set them."""
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
_PYTHON_BELOW = re.compile(
    r"\bpython[0-9.]*\b[^\n|<]*<<-?[ \t]*(['\"]?)(?P<end>\w+)\1[^\n]*\n(?P<code>[\s\S]{0,20000}?)\n[ \t]*(?P=end)\b"
)
"""A program for Python that stands below its command."""
_LEADS = re.compile(r"-(?:I|isystem|iquote|idirafter|iprefix|include-path|-include-path|-system-include)=?")
_INCLUDE_VARIABLES = ("CPATH", "C_INCLUDE_PATH", "CPLUS_INCLUDE_PATH", "NVCC_PREPEND_FLAGS", "NVCC_APPEND_FLAGS")


class Commands:
    """Reads commands, and gathers what they name.

    is_check: all words that can't be told are noted, else those that are run.
    """

    def __init__(self, here: Sequence[str], variables: dict[str, list[str]] | None = None, *, is_check: bool = False) -> None:
        self.names: list[Name] = []
        self.untold: dict[Untold, None] = {}
        self.is_check = is_check
        given = {name: list(values) for name, values in GIVEN.items()}
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
        """Note a thing that is named, in each folder that the line may be in, or in the surest alone."""
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
        """One command with its words, behind what is set for it."""
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
        behind = Name("word", known(text), tuple(dict.fromkeys(reversed(self.here)))) if UNKNOWN in text else None
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
        """`cd`: the line may be in the new folder, or, where that failed, in those before."""
        target = targets[0] if len(targets) == 1 else ""
        plain = known(target)
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
        programs.pytest_set(self, variable, value)

    def searched(self, variable: str, value: str) -> None:
        """The folders of a variable for which there are some."""
        kind = "pythonpath" if variable == "PYTHONPATH" else "include" if variable in _INCLUDE_VARIABLES else None
        for part in re.split(r"[:\s]+", value) if kind else ():
            match = _LEADS.match(part)
            plain = known(part[match.end() :] if match else part)
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
        """A folder for #include."""
        plain = known(text)
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
            plain = known(text[2:] if _GLUED.match(text) else text)
            if plain and not plain.startswith("-"):
                is_bare = kind == "bare" or (kind == "word" and text != whole and text not in values)
                bare = "word" if "/" in text else "file"
                self.add(bare if is_bare else kind, plain, word)

    def known(self, words: list[Word]) -> None:
        """What is known of the program that is run, wherever in the line it stands."""
        for place, word in enumerate(words):
            if word.text in _WITHOUT_RUNNING:
                return
            reads = programs.reader_of(posixpath.basename(word.text))
            if reads is not None:
                reads(self, words[place + 1 :])
                return


def _is_assignment(word: Word) -> bool:
    """Whether a word sets a variable: a text of many words that begins so is a command."""
    is_one = _ASSIGNED.match(word.written) is not None or not re.search(r"\s", word.text)
    return is_one and _ASSIGNED.match(word.text) is not None
