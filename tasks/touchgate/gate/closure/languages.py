"""Which module reads a file, by the file's name; imported when the first such file is met."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, cast

if TYPE_CHECKING:
    from touchgate.gate.closure.references import Language

_CXX = "cxx"
_BY_ENDING = {
    **dict.fromkeys((".py", ".pyi", ".pyw"), "python"),
    **dict.fromkeys((".c", ".cc", ".cpp", ".cxx", ".c++", ".cu", ".cuh", ".h", ".hh", ".hpp", ".hxx", ".h++", ".hip"), _CXX),
    **dict.fromkeys((".cl", ".metal", ".inl", ".inc", ".ipp", ".tpp", ".txx", ".tcc", ".def", ".ixx", ".cppm", ".ccm"), _CXX),
    **dict.fromkeys((".mpp", ".m", ".mm", ".s", ".sx", ".i"), _CXX),
    ".rs": "rust",
}
_BY_NAME = {"Cargo.toml": "cargo"}

VERBS = {
    **dict.fromkeys(("quotes", "angles"), "includes"),
    **dict.fromkeys(("import", "from", "all"), "imports"),
    "mod": "declares",
    "dependency": "depends on",
    "": "comes with",
}
"""How a reference reads in a sentence; else "names"."""


def language_of(path: str) -> str | None:
    """The language of a file by its name, or None."""
    name = path.rpartition("/")[2]
    dot = name.rfind(".")
    return _BY_NAME.get(name) or (_BY_ENDING.get(name[dot:].lower()) if dot >= 0 else None)


def module(language: str) -> Language:
    """The module that reads a language."""
    return cast("Language", importlib.import_module(f"touchgate.gate.closure.{language}"))
