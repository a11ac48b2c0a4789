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
_OPEN = {"(": ")", "[": "]", "{": "}"}


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
    """Walks over the tokens that mean something and changes the text of some."""

    def __init__(self, tokens: list[_Token]) -> None:
        self.tokens = tokens
        self.kernels: dict[str, str] = {}
        self.dynamic: dict[str, str] = {}
        # One letter for each open brace: n a namespace, c extern "C", o anything else.
        self.braces: list[str] = []

    def run(self) -> None:
        statement = 0
        for i, token in enumerate(self.tokens):
            if token.kind == "mark":
                if token.text == "{":
                    self.braces.append(self._brace(statement, i))
                elif token.text == "}" and self.braces:
                    self.braces.pop()
                if token.text in "{};":
                    statement = i + 1
            elif token.kind == "word":
                if token.text == "__global__":
                    self._kernel(statement, i)
                elif token.text == "__launch_bounds__":
                    self._blank(i, self._closing(i + 1))
                elif token.text == "__noinline__" and self._text(i - 1) != "(":
                    token.text = "__attribute__((noinline))"
                elif token.text == "__shared__":
                    self._shared(statement, i)
                elif token.text in self.dynamic and self._text(i - 1) not in (".", "->", "::"):
                    token.text = self.dynamic[token.text]

    def _text(self, i: int) -> str:
        return self.tokens[i].text if 0 <= i < len(self.tokens) else ""

    def _blank(self, first: int, last: int) -> None:
        for token in self.tokens[first : last + 1]:
            token.text = ""

    def _closing(self, i: int) -> int:
        """The token that closes the bracket at `i`; `i - 1` where there is no bracket."""
        if self._text(i) not in _OPEN:
            return i - 1
        depth = 0
        for j in range(i, len(self.tokens)):
            if self.tokens[j].kind != "mark":
                continue
            depth += (self.tokens[j].text in "([{") - (self.tokens[j].text in ")]}")
            if depth == 0:
                return j
        return len(self.tokens) - 1

    def _brace(self, statement: int, i: int) -> str:
        words = [token.text for token in self.tokens[statement:i]]
        if words == ["extern", '"C"']:
            return "c"
        return "n" if words[:1] == ["namespace"] or words[:2] == ["inline", "namespace"] else "o"

    def _kernel(self, statement: int, i: int) -> None:
        """Note the name: the identifier before the first parenthesis that is no attribute's."""
        self.tokens[i].text = ""
        before = [token.text for token in self.tokens[statement:i]]
        linked = before[:2] == ["extern", '"C"'] or "c" in self.braces
        bounds, name, j = "0", "", i + 1
        while j < len(self.tokens):
            word = self._text(j)
            if word in ("__launch_bounds__", "__attribute__", "alignas", "__declspec"):
                closing = self._closing(j + 1)
                if word == "__launch_bounds__":
                    bounds = self._first_value(j + 2, closing)
                j = closing
            elif word == "(":
                name = self._text(j - 1)
                break
            elif word in ("{", ";", "}"):
                break
            j += 1
        if linked and name and "template" not in before and (name not in self.kernels or bounds != "0"):
            self.kernels[name] = bounds

    def _first_value(self, first: int, last: int) -> str:
        words: list[str] = []
        depth = 0
        for token in self.tokens[first:last]:
            depth += (token.text in ("(", "[", "{")) - (token.text in (")", "]", "}"))
            if token.text == "," and depth == 0:
                break
            words.append(token.text)
        return " ".join(words) or "0"

    def _shared(self, statement: int, i: int) -> None:
        """Turn a declaration of shared variables into references into the running block's memory."""
        end = next((j for j in range(i, len(self.tokens)) if self.tokens[j].text in (";", "{", "=")), len(self.tokens))
        words = [token.text for token in self.tokens[statement:end]]
        in_function = any(kind == "o" for kind in self.braces)
        declarators = _declarators(words)
        extern = "extern" in words
        if self._text(end) != ";" or declarators is None or not (in_function or extern):
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
    """The variables of a declaration without initialisers; None where it is not that simple."""
    alignment = ""
    kept: list[str] = []
    i = 0
    while i < len(words):
        word = words[i]
        if word in ("alignas", "__attribute__"):
            depth, j = 0, i + 1
            while j < len(words):
                depth += (words[j] == "(") - (words[j] == ")")
                if depth == 0:
                    break
                j += 1
            if word == "alignas":
                alignment = " ".join(words[i : j + 1])
            i = j
        elif word not in ("static", "extern", "__shared__"):
            kept.append(word)
        i += 1
    first = next((j for j, word in enumerate(kept) if word == "["), None)
    parts = _split(kept)
    if not parts or (first is not None and first < 2):  # noqa: PLR2004 (a type and a name come before the bracket)
        return None
    found = []
    base: list[str] = []
    for number, part in enumerate(parts):
        bracket = part.index("[") if "[" in part else len(part)
        head = part[:bracket]
        if not head or not re.fullmatch(r"[A-Za-z_]\w*", head[-1]) or (number == 0 and len(head) < 2):  # noqa: PLR2004
            return None
        pointer = head[:-1]
        if number == 0:
            base = [word for word in pointer if word != "*"]
        else:
            pointer = base + pointer
        found.append(_Declarator(" ".join(pointer), head[-1], " ".join(part[bracket:]), alignment))
    return found


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
    """The exported description of the module, for ctypes."""
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
        f"    1, {len(kernels)}, kernels, &api, &shared_size, &slot_count, slots}};\n"
        "}\n"
        'extern "C" __attribute__((visibility("default"))) const touchgate::Module* touchgate_module() {\n'
        "    return &touchgate::module;\n"
        "}\n"
    )
