"""What a lane's checks name: files, folders, modules, crates and folders to look names up in, told from their words alone.

Nothing is looked up here: what is no file of the tree means nothing later. One name too many costs a check, one too few
merges a break.
"""

from __future__ import annotations

import posixpath
import re
from functools import lru_cache

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
"""Programs whose words are no inputs."""
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
_PYTHON = re.compile(r"(?:python|pypy)[0-9.]*(?:-dbg)?")
_SHELLS = frozenset(("sh", "bash", "dash", "zsh", "ksh", "ash", "source", ".", "bats"))
_MAKES = frozenset(("make", "gmake"))
_PYTESTS = frozenset(("pytest", "py.test", "pytest-3"))
_RUNNERS = ("coverage", "cProfile", "pdb", "trace", "torchrun", "torch.distributed.run", "torch.distributed.launch")
"""Programs and modules that run the Python that follows."""
_MAKEFILES = ("GNUmakefile", "makefile", "Makefile")
_LEADS = re.compile(r"-(?:I|isystem|iquote|idirafter|iprefix|include-path|-include-path|-system-include)=?")
_INCLUDE_VARIABLES = ("CPATH", "C_INCLUDE_PATH", "CPLUS_INCLUDE_PATH", "NVCC_PREPEND_FLAGS", "NVCC_APPEND_FLAGS")
_PYTHON_VALUED = ("-W", "-X", "--check-hash-based-pycs")
_PYTEST_VALUED = frozenset(
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


class Name(NamedTuple):
    """One thing that is named.

    kind: "word" (a file, or a folder with all that is in it), "file", "source" (a file of a check), "vectors" (a folder
    of them), "tests" (a file or folder of pytest's), "testpaths" (what pytest takes when none is named), "module" (of
    Python), "code" (Python itself), "python" (a file that Python runs), "script" (one that a shell runs), "makefile",
    "cargo" (a manifest, or ""), "include" and "pythonpath" (folders to look names up in).
    text: a path as written, or the name; of a pattern the files that match are meant. folders: from which it may be
    meant, the innermost first. more: the packages that Cargo is asked for.
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


@lru_cache(maxsize=4096)
def of_check(kind: str, target: str) -> tuple[Name, ...]:
    """What one check names, by its kind."""
    if kind == "vectors":
        return (Name("vectors", target),)
    if kind == "pytest":
        reader = _Reader(())
        reader.pytest([word for word in tokens(target) if isinstance(word, Word)])
        return tuple(reader.names)
    if kind == "command":
        return tuple(of_commands(target))
    if not target.endswith(SOURCE):
        return ()
    source = Name("source", target)
    return (source, Name("source", f"{posixpath.splitext(target)[0]}.cu")) if kind in _BESIDE else (source,)


def of_commands(text: str) -> list[Name]:
    """What the commands of a shell name."""
    reader = _Reader(())
    reader.read(text)
    return reader.names


def of_makefile(text: str) -> list[Name]:
    """What a Makefile names: its recipes are commands; of all else the words that are files count."""
    names: list[Name] = []
    number = 0
    for line in re.split(r"(?<!\\)\n", text):
        plain = line.replace("$$", "$").replace("%", "*")
        reader = _Reader(())
        if line.startswith("\t"):
            reader.read(plain.lstrip("\t @-+"))
        else:
            words = [word for word in tokens(re.sub(r"[:?+!]*=|:+", " ", plain)) if isinstance(word, Word)]
            reader.words([Word("", 1), *(word._replace(is_pattern="*" in word.text) for word in words)], "file")
        names += [name._replace(line=name.line + number) for name in reader.names]
        number += line.count("\n") + 1
    return names


class _Reader:
    def __init__(self, here: Sequence[str]) -> None:
        self.names: list[Name] = []
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
        for part in (*tokens(text), "\n"):
            if isinstance(part, Word):
                command.append(part)
                continue
            self.command(command)
            command = []
            if part in ("(", "$("):
                outer.append(list(self.here))
            elif part == ")" and outer:
                self.here = outer.pop()

    def command(self, words: list[Word]) -> None:
        self.taken = set()
        every = words
        if words and words[0].text == "for":
            words = [Word("for", 1), *(word for word in words[2:] if word.text != "in")]
        while words and (words[0].text in _BEFORE or _ASSIGNED.match(words[0].text)):
            self.assigned(words[0].text)
            words = words[1:]
        program = posixpath.basename(words[0].text) if words else ""
        self.quoted(every, is_text=program in _NO_FILES)
        if program in ("cd", "pushd"):
            self.change_folder([word.text for word in words[1:] if not word.text.startswith("-")])
            return
        for word in words:
            self.assigned(word.text)
        if program and program not in _NO_FILES:
            before = len(self.names)
            self.known(words)
            is_pytest = any(name.kind in ("tests", "testpaths") for name in self.names[before:])
            self.words(words, "file" if is_pytest else "bare" if program in _NO_FOLDERS else "word")

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
        several = (word.text,) if not is_text and re.search(r"\s", word.text.strip()) else ()
        for text in (*word.inner, *several):
            here, line = list(self.here), self.line
            self.depth += 1
            self.line += word.line - 1
            self.read(text.replace(UNKNOWN, "$_"))
            self.depth -= 1
            self.here, self.line = here, line

    def change_folder(self, targets: Sequence[str]) -> None:
        target = targets[0] if len(targets) == 1 else ""
        plain = _known(target)
        if plain and not plain.startswith("/"):
            inner = posixpath.normpath(posixpath.join(self.here[-1], plain))
            if inner != ".." and not inner.startswith("../"):
                inner = "" if inner == "." else inner
                self.here = [self.here[0], *[one for one in self.here[1:] if one != inner][-_MOST_FOLDERS:], inner]

    def assigned(self, text: str) -> None:
        """`PYTHONPATH=a:b` and its like."""
        variable, equals, value = text.partition("=")
        if not equals:
            return
        variable = variable.rstrip("+")
        kind = "pythonpath" if variable == "PYTHONPATH" else "include" if variable in _INCLUDE_VARIABLES else None
        for part in value.split(":") if kind else ():
            plain = _known(part)
            if plain:
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
                    self.paths(word, "script" if is_program and not word.is_pattern else kind)

    def folder_of(self, text: str) -> None:
        plain = _known(text)
        if plain:
            self.add("include", plain)

    def paths(self, word: Word, kind: str) -> None:
        texts = [word.text]
        if "=" in word.text:
            texts += word.text.partition("=")[2].split(",")
        if word.text.startswith(("@", "-@")):
            texts.append(word.text.lstrip("-@"))
        for text in texts:
            plain = _known(text.partition("::")[0])
            if plain and not plain.startswith("-"):
                bare = "word" if "/" in plain else "file"
                self.add(bare if kind == "bare" else kind, plain, word)

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
                rest = words[place + 1 :]
                self.taken.update(rest[:1])
                if rest and text.endswith("c"):
                    self.add("code", rest[0].text, rest[0])
                elif rest:
                    self.module(rest[0], rest[1:])
                return
            elif re.fullmatch(r"-m[\w.]+", text):
                self.module(word._replace(text=text[2:]), words[place + 1 :])
                return
            elif not text.startswith("-"):
                plain = _known(text)
                if plain:
                    self.add("python", plain, word)
                return

    def module(self, word: Word, rest: Sequence[Word]) -> None:
        if word.text in _PYTESTS:
            self.pytest(rest)
        elif word.text in _RUNNERS:
            self.run_python(rest)
        elif word.text == "unittest":
            self.unittest(rest)
        elif _DOTTED.fullmatch(word.text):
            self.add("module", word.text, word)

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
            plain = _known(word.text.partition("::")[0])
            if plain:
                self.add("tests", plain, word)
            if as_modules and _DOTTED.fullmatch(word.text):
                self.add("module", word.text, word)
                self.add("tests", word.text.replace(".", "/"), word)
        if not any(_known(word.text) for word in targets):
            self.add("testpaths", "", innermost=True)

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
            elif not valued and text not in _PYTEST_VALUED and not re.fullmatch(r"-.*|\d*", text, re.DOTALL):
                found.append(word)
            valued = text if not valued and text in _PYTEST_VALUED else ""
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


def _known(text: str) -> str:
    """A word as far as it is known: a path behind a variable is taken from the root. "" where nothing is."""
    if UNKNOWN not in text:
        return text
    behind = text.rpartition(UNKNOWN)[2].lstrip(")}\"'")
    return behind.lstrip("/") if behind.startswith("/") else ""
