"""Which module reads a file, by the file's name; imported when the first such file is met."""

from __future__ import annotations

import importlib

from touchgate.gate.values import TYPE_CHECKING

if TYPE_CHECKING:
    from touchgate.gate.closure.references import Language

_CXX = "cxx"
_BY_ENDING = {
    **dict.fromkeys((".py", ".pyi", ".pyw"), "python"),
    **dict.fromkeys((".c", ".cc", ".cpp", ".cxx", ".c++", ".cu", ".cuh", ".h", ".hh", ".hpp", ".hxx", ".h++", ".hip"), _CXX),
    **dict.fromkeys((".cl", ".metal", ".inl", ".inc", ".ipp", ".tpp", ".txx", ".tcc", ".def", ".ixx", ".cppm", ".ccm"), _CXX),
    **dict.fromkeys((".mpp", ".m", ".mm", ".s", ".sx", ".i"), _CXX),
    ".rs": "rust",
    **dict.fromkeys((".sh", ".bash", ".zsh", ".ksh", ".bats"), "shell"),
    ".mk": "makefile",
}
_BY_NAME = {"Cargo.toml": "cargo", **dict.fromkeys(("Makefile", "makefile", "GNUmakefile"), "makefile")}

VERBS = {
    **dict.fromkeys(("quotes", "angles"), "includes"),
    **dict.fromkeys(("import", "from", "all"), "imports"),
    "mod": "declares",
    "dependency": "depends on",
    **dict.fromkeys(("runs", "runs as Python", "runs as make"), "runs"),
    "": "comes with",
}
"""How a reference reads in a sentence; else "names"."""

READ_AS = {"runs": "shell", "runs as Python": "python", "runs as make": "makefile"}
"""What a file is read as whose name tells nothing, by the reference to it."""


def language_of(path: str) -> str | None:
    """The language of a file by its name, or None."""
    name = path.rpartition("/")[2]
    dot = name.rfind(".")
    return _BY_NAME.get(name) or (_BY_ENDING.get(name[dot:].lower()) if dot >= 0 else None)


def module(language: str) -> Language:
    """The module that reads a language."""
    found: Language = importlib.import_module(f"touchgate.gate.closure.{language}")
    return found
