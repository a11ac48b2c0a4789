"""What CUDA C++ has and C++ lacks, rewritten in preprocessed text: `__global__`, `__shared__`, `__launch_bounds__`.

The text comes from the compiler's own preprocessor, so there are no comments, and kernels that macros make are visible.
Lines stay where they are: messages keep the .cu file's own line numbers.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

BEGINS = "touchgate_text_begins"
"""An identifier that the emulation declares where the .cu text begins; what stands before it is left alone."""

_TOKEN = re.compile(
    r"""
      (?P<directive>(?<=\n)[ \t]*\#[^\n]*)
    | (?P<space>[ \t\r\f\v]+|\\?\n)
    | (?P<text>(?:u8|[uUL])?R"(?P<fence>[^()\\\s]{0,16})\(.*?\)(?P=fence)"|(?:u8|[uUL])?"(?:\\.|[^"\\\n])*")
    | (?P<word>[A-Za-z_$][A-Za-z0-9_$]*)
    | (?P<number>\.?[0-9](?:'?[A-Za-z0-9_.]|(?<=[eEpP])[+-])*)
    | (?P<character>'(?:\\.|[^'\\\n])+')
    | (?P<mark>::|->|.)
    """,
    re.VERBOSE | re.DOTALL,
)


@dataclass
class _Token:
    kind: str
    text: str


@dataclass(frozen=True)
class Translation:
    """C++ text, and the kernels it defines: name and the first value of `__launch_bounds__`, "0" without one."""

    text: str
    kernels: tuple[tuple[str, str], ...]


def translate(preprocessed: str) -> Translation:
    """Rewrite the part of `preprocessed` that is the user's, and append the table of its `extern "C"` kernels."""
    start = preprocessed.find(BEGINS)
    start = preprocessed.find("\n", start) + 1
    tokens = [_Token(m.lastgroup or "mark", m.group()) for m in _TOKEN.finditer("\n" + preprocessed[start:])]
    translator = _Translator([token for token in tokens if token.kind not in ("space", "directive")])
    translator.run()
    body = "".join(token.text for token in tokens)[1:]
    kernels = tuple(translator.kernels.items())
    return Translation(preprocessed[:start] + body + _table(kernels), kernels)


class _Translator:
    """Walks over the tokens that mean something, reads `words` and changes the text of some tokens."""

    def __init__(self, tokens: list[_Token]) -> None:
        self.tokens = tokens
        self.words = [token.text for token in tokens]
        self.kernels: dict[str, str] = {}
        self.dynamic: dict[str, str] = {}
        # One letter for each open brace: n a namespace, c extern "C", o anything else.
        self.braces: list[str] = []

    def run(self) -> None:
        """Go through all of it once."""
        statement = 0
        for i, token in enumerate(self.tokens):
            word = self.words[i]
            if token.kind == "word":
                self._word(statement, i)
            elif token.kind == "mark" and word in ("{", "}", ";"):
                if word == "{":
                    self.braces.append(self._brace(statement, i))
                elif word == "}" and self.braces:
                    self.braces.pop()
                statement = i + 1

    def _word(self, statement: int, i: int) -> None:
        word, token = self.words[i], self.tokens[i]
        if word == "__global__":
            token.text = ""
            self._kernel(statement, i)
        elif word == "__launch_bounds__":
            self._blank(i, self._closing(i + 1))
        elif word == "__noinline__" and self._at(i - 1) != "(":
            token.text = "__attribute__((noinline))"
        elif word == "__shared__":
            self._shared(statement, i)
        elif word in self.dynamic and token.text and self._at(i - 1) not in (".", "->", "::"):
            token.text = self.dynamic[word]

    def _at(self, i: int) -> str:
        return self.words[i] if 0 <= i < len(self.words) else ""

    def _blank(self, first: int, last: int) -> None:
        for token in self.tokens[first : last + 1]:
            token.text = ""

    def _closing(self, i: int) -> int:
        """Return the token that closes the bracket at `i`; `i - 1` where there is no bracket."""
        if self._at(i) not in ("(", "[", "{"):
            return i - 1
        depth = 0
        for j in range(i, len(self.tokens)):
            depth += (self.words[j] in ("(", "[", "{")) - (self.words[j] in (")", "]", "}"))
            if depth == 0:
                return j
        return len(self.tokens) - 1

    def _brace(self, statement: int, i: int) -> str:
        words = self.words[statement:i]
        if words == ["extern", '"C"']:
            return "c"
        return "n" if words[:1] == ["namespace"] or words[:2] == ["inline", "namespace"] else "o"

    def _kernel(self, statement: int, i: int) -> None:
        """Note the name: the identifier before the first parenthesis that is no attribute's."""
        before = self.words[statement:i]
        linked = before[:2] == ["extern", '"C"'] or "c" in self.braces
        bounds, name, j = "0", "", statement
        while j < len(self.words) and not name:
            word = self.words[j]
            if word in ("__launch_bounds__", "__attribute__", "alignas"):
                closing = self._closing(j + 1)
                if word == "__launch_bounds__":
                    bounds = self._first_value(j + 2, closing)
                j = closing
            elif word == "(":
                name = self._at(j - 1)
            elif word in ("{", ";", "}"):
                break
            j += 1
        if linked and name and "template" not in before and (name not in self.kernels or bounds != "0"):
            self.kernels[name] = bounds

    def _first_value(self, first: int, last: int) -> str:
        words: list[str] = []
        depth = 0
        for word in self.words[first:last]:
            depth += (word in ("(", "[", "{")) - (word in (")", "]", "}"))
            if word == "," and depth == 0:
                break
            words.append(word)
        return " ".join(words) or "0"

    def _shared(self, statement: int, i: int) -> None:
        """Turn a declaration of shared variables into references into the running block's memory."""
        end = next((j for j in range(i, len(self.words)) if self.words[j] in (";", "{", "=")), len(self.words))
        words = self.words[statement:end]
        in_function = any(kind == "o" for kind in self.braces)
        declarators = _declarators(words)
        extern = "extern" in words
        if self._at(end) != ";" or declarators is None or not (in_function or extern):
            # A struct defined on the spot, or a variable outside of functions: one for each worker, not poisoned.
            self.tokens[i].text = "thread_local"
            return
        texts = []
        for declarator in declarators:
            if extern:
                pointer = f"::touchgate::dynamic_shared<{declarator.type}>()"
                if in_function:
                    texts.append(f"{declarator.type}* const {declarator.name} = {pointer};")
                else:
                    self.dynamic[declarator.name] = f"({pointer})"
            else:
                aligned = f"touchgate_alignment_of_{declarator.name}"
                whole = f"{declarator.type} {declarator.dimensions}"
                texts.append(
                    f"struct {declarator.alignment} {aligned} {{}}; "
                    f"auto& {declarator.name} = ::touchgate::shared<{whole}, alignof({aligned})>([] {{}});"
                )
        self._blank(statement, end)
        self.tokens[statement].text = " ".join(texts)


@dataclass(frozen=True)
class _Declarator:
    type: str
    name: str
    dimensions: str
    alignment: str


def _declarators(words: list[str]) -> list[_Declarator] | None:
    """Return the variables of a declaration without initialisers; None where it is not that simple."""
    alignment, kept = _without_specifiers(words)
    found: list[_Declarator] = []
    base: list[str] = []
    for part in _split(kept):
        bracket = part.index("[") if "[" in part else len(part)
        head = part[:bracket]
        if not head or not re.fullmatch(r"[A-Za-z_]\w*", head[-1]):
            return None
        own = head[:-1]
        if not found:
            # The type belongs to all of them, a star to its own variable.
            base = [word for word in own if word != "*"]
            own = own[len(base) :] if own[: len(base)] == base else own
        if not base:
            return None
        found.append(_Declarator(" ".join(base + own), head[-1], " ".join(part[bracket:]), alignment))
    return found


def _without_specifiers(words: list[str]) -> tuple[str, list[str]]:
    """Return the `alignas(...)` of a declaration, and the rest without it, without attributes and storage classes."""
    alignment = ""
    kept: list[str] = []
    depth = 0
    specifier: list[str] = []
    for word in words:
        if specifier:
            specifier.append(word)
            depth += (word == "(") - (word == ")")
            if depth == 0:
                alignment = " ".join(specifier) if specifier[0] == "alignas" else alignment
                specifier = []
        elif word in ("alignas", "__attribute__"):
            specifier = [word]
        elif word not in ("static", "extern", "__shared__"):
            kept.append(word)
    return alignment, kept


def _split(words: list[str]) -> list[list[str]]:
    """At commas outside of brackets and template arguments."""
    parts: list[list[str]] = [[]]
    depth = 0
    for word in words:
        depth += (word in ("(", "[", "{", "<")) - (word in (")", "]", "}", ">"))
        if word == "," and depth == 0:
            parts.append([])
        else:
            parts[-1].append(word)
    return parts


def _table(kernels: tuple[tuple[str, str], ...]) -> str:
    """Return the exported description of the module, for ctypes."""
    rows = "".join(
        f'    {{"{name}", Caller<decltype(&::{name}), &::{name}>::call, Signature<decltype(&::{name})>::count,'
        f" Signature<decltype(&::{name})>::parameters, static_cast<int>({bounds})}},\n"
        for name, bounds in kernels
    )
    return (
        '\n# 1 "<touchgate>"\n'
        "namespace touchgate {\n"
        f"static const Kernel kernels[] = {{\n{rows}    {{nullptr, nullptr, 0, nullptr, 0}}}};\n"
        "static const Module module = {\n"
        f"    {len(kernels)}, kernels, &api, &shared_size, &slot_count, slots}};\n"
        "}\n"
        'extern "C" __attribute__((visibility("default"))) const touchgate::Module* touchgate_module() {\n'
        "    return &touchgate::module;\n"
        "}\n"
    )
