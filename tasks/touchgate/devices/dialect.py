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
    | (?P<mark>::|->|<<|[<>=!]=|.)
    """,
    re.VERBOSE | re.DOTALL,
)


@dataclass
class _Token:
    """word: as it was read. text: as it is written. apart: white space stands before it."""

    kind: str
    word: str
    text: str
    apart: bool = False


@dataclass(frozen=True)
class Translation:
    """C++ text, and the kernels it defines: name and the values of `__launch_bounds__`, "0" without them."""

    text: str
    kernels: tuple[tuple[str, str], ...]


def translate(preprocessed: str) -> Translation:
    """Rewrite the part of `preprocessed` that is the user's, and append the table of its `extern "C"` kernels."""
    start = preprocessed.find(BEGINS)
    start = preprocessed.find("\n", start) + 1
    tokens = [_Token(m.lastgroup or "mark", m.group(), m.group()) for m in _TOKEN.finditer("\n" + preprocessed[start:])]
    meaning = []
    apart = False
    for token in tokens:
        if token.kind in ("space", "directive"):
            apart = True
            continue
        token.apart, apart = apart, False
        meaning.append(token)
    translator = _Translator(meaning)
    translator.run()
    body = "".join(token.text for token in tokens)[1:]
    kernels = tuple(translator.kernels.items())
    return Translation(preprocessed[:start] + body + _table(kernels), kernels)


class _Translator:
    """Walks over the tokens that mean something, reads `words` and changes the text of some tokens."""

    def __init__(self, tokens: list[_Token]) -> None:
        self.tokens = tokens
        self.words = [token.word for token in tokens]
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
        namespaces = (["namespace"], ["inline", "namespace"], ["extern", '"C++"'])
        return "n" if any(words[: len(begins)] == begins for begins in namespaces) else "o"

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
                    bounds = _spelled(self.tokens[j + 2 : closing]) or "0"
                j = closing
            elif word == "(":
                name = self._at(j - 1)
            elif word in ("{", ";", "}"):
                break
            j += 1
        if linked and name and "template" not in before and (name not in self.kernels or bounds != "0"):
            self.kernels[name] = bounds

    def _shared(self, statement: int, i: int) -> None:
        """Turn a declaration of shared variables into references into the running block's memory."""
        end = self._end_of_declaration(i)
        tokens = self.tokens[statement:end]
        in_function = any(kind == "o" for kind in self.braces)
        extern = "extern" in self.words[statement:end]
        if not in_function and not extern:
            self._shared_by_all(statement, i, end)
            return
        keyword = next((j for j in range(end, statement, -1) if self.words[j - 1] in ("struct", "class", "union")), 0)
        last = end
        if self._at(end) == "{" and keyword:
            tokens, last = self._defined_on_the_spot(statement, keyword, end)
        declarators = _declarators(tokens)
        if self._at(last) != ";" or declarators is None:
            # An initialiser, which nvcc refuses.
            self.tokens[i].text = "thread_local"
            return
        texts = [""] if last > end else []
        for declarator in declarators:
            if extern:
                pointer = f"::touchgate::dynamic_shared<{declarator.type}>()"
                if in_function:
                    texts.append(f"{declarator.type}* const {declarator.name} = {pointer};")
                else:
                    self.dynamic[declarator.name] = f"({pointer})"
            else:
                # The type by a name of its own: `>>` in a dimension would end a list of template arguments.
                aligned, typed = f"touchgate_alignment_of_{declarator.name}", f"touchgate_type_of_{declarator.name}"
                texts.append(
                    f"struct {declarator.alignment} {aligned} {{}}; "
                    f"typedef {declarator.type} {typed}{declarator.dimensions}; "
                    f"auto& {declarator.name} = ::touchgate::shared<{typed}, alignof({aligned})>([] {{}});"
                )
        if last > end:
            self._blank(statement, keyword - 2)
            self._blank(self._closing(end) + 1, last)
            self.tokens[last].text = ";" + " ".join(texts)
            return
        self._blank(statement, end)
        self.tokens[statement].text = " ".join(texts)

    def _defined_on_the_spot(self, statement: int, keyword: int, brace: int) -> tuple[list[_Token], int]:
        """Return the declaration as if `struct S {...} a, b;` were `S a, b;`, and where it ends. Names a nameless one."""
        name = self.tokens[brace - 1]
        if brace == keyword or name.kind != "word":
            name = _Token("word", f"touchgate_type_{brace}", "", apart=True)
            self.tokens[brace - 1].text += f" {name.word}"
        closing = self._closing(brace)
        last = next((j for j in range(closing, len(self.words)) if self.words[j] == ";"), len(self.words) - 1)
        return [*self.tokens[statement : keyword - 1], name, *self.tokens[closing + 1 : last]], last

    def _end_of_declaration(self, i: int) -> int:
        """Return the first semicolon, brace or equals sign from `i` on that is in no bracket."""
        while i < len(self.words) and self.words[i] not in (";", "{", "="):
            i = self._closing(i) + 1 if self.words[i] in ("(", "[") else i + 1
        return i

    def _alignment_first(self, statement: int, end: int) -> None:
        """Move `alignas(...)` to the front of a declaration: behind its first words C++ gives it to the type."""
        moved = ""
        for j in range(statement, end):
            if self.words[j] == "alignas" and self._at(j - 1) not in ("struct", "class", "union"):
                closing = self._closing(j + 1)
                moved += _spelled(self.tokens[j : closing + 1]) + " "
                self._blank(j, closing)
        self.tokens[statement].text = moved + self.tokens[statement].text

    def _shared_by_all(self, statement: int, i: int, end: int) -> None:
        """Make a shared variable outside of functions one for each worker, and tell the runtime where it lies."""
        self.tokens[i].text = "thread_local"
        self._alignment_first(statement, end)
        if self._at(end) == "{":
            end = self._closing(end) + 1
            first = end
        else:
            first = i + 1
        end = next((j for j in range(end, len(self.words)) if self.words[j] == ";"), len(self.words) - 1)
        for part in _split(self.tokens[first:end]):
            head = part[: next((j for j, token in enumerate(part) if token.word in ("[", "=")), len(part))]
            if head and head[-1].kind == "word":
                name = head[-1].word
                self.tokens[end].text += (
                    f" static const bool touchgate_place_of_{name} = ::touchgate::shared_by_all("
                    f"[]() -> void* {{ return __builtin_addressof({name}); }}, sizeof({name}));"
                )


@dataclass(frozen=True)
class _Declarator:
    type: str
    name: str
    dimensions: str
    alignment: str


def _spelled(tokens: list[_Token]) -> str:
    """Return the tokens as they were written, with one space for any white space: `1 << 4` has two marks, not three."""
    return "".join(" " * token.apart + token.word for token in tokens).strip()


def _declarators(tokens: list[_Token]) -> list[_Declarator] | None:
    """Return the variables of a declaration without initialisers; None where it is not that simple."""
    alignment, kept = _without_specifiers(tokens)
    found: list[_Declarator] = []
    base: list[_Token] = []
    for part in _split(kept):
        bracket = next((j for j, token in enumerate(part) if token.word == "["), len(part))
        head = part[:bracket]
        if not head or head[-1].kind != "word":
            return None
        own = head[:-1]
        if not found:
            # The type belongs to all of them, a star to its own variable.
            stars = next((j for j in range(len(own), 0, -1) if own[j - 1].word != "*"), 0)
            base, own = own[:stars], own[stars:]
        if not base:
            return None
        kind = " ".join(filter(None, (_spelled(base), _spelled(own))))
        found.append(_Declarator(kind, head[-1].word, _spelled(part[bracket:]), alignment))
    return found


def _without_specifiers(tokens: list[_Token]) -> tuple[str, list[_Token]]:
    """Return the `alignas(...)` of a declaration, and the rest without it, without attributes and storage classes."""
    alignment = ""
    kept: list[_Token] = []
    depth = 0
    specifier: list[_Token] = []
    for token in tokens:
        if specifier:
            specifier.append(token)
            depth += (token.word == "(") - (token.word == ")")
            if depth == 0:
                alignment = _spelled(specifier) if specifier[0].word == "alignas" else alignment
                specifier = []
        elif token.word in ("alignas", "__attribute__"):
            specifier = [token]
        elif token.word not in ("static", "extern", "__shared__"):
            kept.append(token)
    return alignment, kept


def _split(tokens: list[_Token]) -> list[list[_Token]]:
    """At commas outside of brackets and template arguments."""
    parts: list[list[_Token]] = [[]]
    round_depth = angle_depth = 0
    for token in tokens:
        word = token.word
        round_depth += (word in ("(", "[", "{")) - (word in (")", "]", "}"))
        if round_depth == 0 and word in ("<", ">"):
            angle_depth += 1 if word == "<" else -1
        if word == "," and round_depth == 0 and angle_depth == 0:
            parts.append([])
        else:
            parts[-1].append(token)
    return parts


def _table(kernels: tuple[tuple[str, str], ...]) -> str:
    """Return the exported description of the module, for ctypes."""
    rows = "".join(
        f'    {{"{name}", Caller<decltype(&::{name}), &::{name}>::call, Signature<decltype(&::{name})>::count,'
        f" Signature<decltype(&::{name})>::parameters, ::touchgate::first({bounds})}},\n"
        for name, bounds in kernels
    )
    return (
        '\n# 1 "<touchgate>"\n'
        "namespace touchgate {\n"
        f"static const Kernel kernels[] = {{\n{rows}    {{nullptr, nullptr, 0, nullptr, 0}}}};\n"
        "static const Module module = {\n"
        f"    {len(kernels)}, kernels, &api, &shared_size, &slot_count, slots, &place_count, places}};\n"
        "}\n"
        'extern "C" __attribute__((visibility("default"))) const touchgate::Module* touchgate_module() {\n'
        "    return &touchgate::module;\n"
        "}\n"
    )
