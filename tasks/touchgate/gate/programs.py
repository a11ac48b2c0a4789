"""What programs read, told from the words behind their names: pytest, Python, shells, make and Cargo."""

from __future__ import annotations

import re

from touchgate.gate.names import Name
from touchgate.gate.shell_words import UNKNOWN, Word, known
from touchgate.gate.values import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from touchgate.gate.commands import Commands

_PYTHON = re.compile(r"(?:python|pypy)[0-9.]*(?:-dbg)?")
_SHELLS = frozenset(("sh", "bash", "dash", "zsh", "ksh", "ash", "source", ".", "bats"))
_MAKES = frozenset(("make", "gmake"))
_PYTESTS = frozenset(("pytest", "py.test", "pytest-3"))
_RUNNERS = ("coverage", "cProfile", "pdb", "trace", "torchrun", "torch.distributed.run", "torch.distributed.launch")
"""Programs and modules that run the Python that follows."""
_MAKEFILES = ("GNUmakefile", "makefile", "Makefile")
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


def reader_of(program: str) -> Callable[[Commands, Sequence[Word]], None] | None:
    """What reads the words behind a program's name."""
    if program in _PYTESTS:
        return pytest
    if _PYTHON.fullmatch(program):
        return _python
    if program in _RUNNERS:
        return _run_python
    if program in _MAKES:
        return _make
    if program in _SHELLS:
        return _shell
    return _cargo if program == "cargo" else None


def _run_python(commands: Commands, words: Sequence[Word]) -> None:
    _python(commands, [word for word in words if word.text not in ("run", "launch")])


def _shell(commands: Commands, words: Sequence[Word]) -> None:
    for word in words:
        if not word.text.startswith(("-", "+")):
            commands.unknown(word)
            plain = known(word.text)
            if plain:
                commands.add("script", plain, word)
            return


def _python(commands: Commands, words: Sequence[Word]) -> None:
    skip = False
    for place, word in enumerate(words):
        text = word.text
        if skip:
            skip = False
        elif text in _PYTHON_VALUED:
            skip = True
        elif re.fullmatch(r"-[A-Za-z]*[mc]", text):
            _python_inner(commands, words[place + 1 :], is_code=text.endswith("c"))
            return
        elif re.fullmatch(r"-m[\w.]+", text):
            _module(commands, word._replace(text=text[2:]), words[place + 1 :])
            return
        elif not text.startswith("-"):
            commands.unknown(word)
            plain = known(text)
            if plain:
                commands.add("python", plain, word)
            return


def _python_inner(commands: Commands, words: Sequence[Word], *, is_code: bool) -> None:
    """What stands behind -c and -m."""
    for word in words[:1]:
        commands.taken.add(word)
        commands.unknown(word._replace(text=UNKNOWN if UNKNOWN in word.text else ""))
        if is_code:
            _starts_here(commands, word)
            commands.add("code", word.text, word)
        else:
            _module(commands, word, words[1:])


def _module(commands: Commands, word: Word, rest: Sequence[Word]) -> None:
    _starts_here(commands, word)
    if word.text in _PYTESTS:
        pytest(commands, rest)
    elif word.text in _RUNNERS:
        _run_python(commands, rest)
    elif word.text == "unittest":
        _unittest(commands, rest)
    elif _DOTTED.fullmatch(word.text):
        commands.add("module", word.text, word)


def _starts_here(commands: Commands, word: Word) -> None:
    """With -m and -c Python's imports start from the folder that it runs in."""
    if commands.here[-1]:
        commands.names.append(Name("pythonpath", commands.here[-1], ("",), commands.line - 1 + word.line))


def _unittest(commands: Commands, words: Sequence[Word]) -> None:
    plain = [word for word in words if not word.text.startswith("-")]
    if not plain or plain[0].text == "discover":
        for word in plain[1:] or [Word(".", 1)]:
            commands.add("tests", known(word.text) or ".", word, innermost=word.text == ".")
        return
    for word in plain:
        commands.add("module" if _DOTTED.fullmatch(word.text) and not word.text.endswith(".py") else "tests", word.text, word)


def pytest(commands: Commands, words: Sequence[Word]) -> None:
    """The tests that are named; without any, those that pytest looks for by itcommands."""
    targets = _targets(commands, words)
    as_modules = any(word.text == "--pyargs" for word in words)
    for word in targets:
        commands.unknown(word)
        plain = known(word.text.partition("::")[0])
        if plain:
            commands.add("tests", plain, word)
        if as_modules and _DOTTED.fullmatch(word.text):
            commands.add("module", word.text, word)
            commands.add("tests", word.text.replace(".", "/"), word)
    if not any(known(word.text) for word in targets):
        commands.add("testpaths", "", innermost=True)
    texts = (word.text for word in (*commands.always, *words))
    commands.add("pytest", "", more=tuple(text for text in texts if UNKNOWN not in text))


def pytest_set(commands: Commands, variable: str, value: str) -> None:
    """What pytest takes from its environment."""
    words = [Word(text, 1) for text in value.replace(UNKNOWN, " ").split()]
    if variable == "PYTEST_ADDOPTS":
        commands.always += words
        _targets(commands, words)
        commands.add("pytest", "", more=tuple(word.text for word in words))
    for name in value.split(",") if variable == "PYTEST_PLUGINS" else ():
        if _DOTTED.fullmatch(name):
            commands.add("module", name)


def _targets(commands: Commands, words: Sequence[Word]) -> list[Word]:
    """The words that are tests. Files among the values of options count, and plugins."""
    found = []
    valued = ""
    for word in words:
        text = word.text
        plugin = text if valued == "-p" else text[2:] if text.startswith("-p") else ""
        if plugin and _DOTTED.fullmatch(plugin):
            commands.add("module", plugin, word)
        elif valued and valued not in _PYTEST_NO_FILE:
            commands.paths(word, "file")
        elif not valued and text not in PYTEST_VALUED and not re.fullmatch(r"-.*|\d*", text, re.DOTALL):
            found.append(word)
        valued = text if not valued and text in PYTEST_VALUED else ""
    return found


def _make(commands: Commands, words: Sequence[Word]) -> None:
    before = list(commands.here)
    files = []
    for option, word in _values(words, ("-C", "--directory", "-f", "--file", "--makefile")):
        if option in ("-C", "--directory"):
            commands.change_folder([word.text])
        else:
            files.append(word)
    for word in files:
        commands.unknown(word)
        plain = known(word.text)
        if plain:
            commands.add("makefile", plain, word, innermost=True)
    if not files:
        for name in _MAKEFILES:
            commands.add("makefile", name, innermost=True)
    commands.here = before


def _cargo(commands: Commands, words: Sequence[Word]) -> None:
    before = list(commands.here)
    manifest = ""
    packages = []
    for option, word in _values(words, ("--manifest-path", "-p", "--package", "-C")):
        if option == "-C":
            commands.change_folder([word.text])
        elif option == "--manifest-path":
            manifest = known(word.text) or ""
        else:
            packages.append(word.text)
    if any(word.text in ("--workspace", "--all") for word in words):
        packages = ["*"]
    plain = [word.text for word in words if not word.text.startswith(("-", "+"))]
    if plain:
        commands.add("cargo", manifest, more=tuple(packages), innermost=not manifest)
    commands.here = before


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
