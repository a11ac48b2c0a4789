"""GitHub's expression language, as a tree that remembers what was written.

    ||  &&  == !=  < <= > >=  !  ( )  a.b  a['b']  a.*  f(x, y)  'text'  1  true  null

A node that was read keeps its own text, so that what is not changed is printed as it stood.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator

STATUS_FUNCTIONS = frozenset({"always", "success", "failure", "cancelled"})
_TOKEN = re.compile(
    r"\s*(?:(?P<text>'(?:[^']|'')*')|(?P<number>[-+]?(?:0x[0-9a-fA-F]+|0o[0-7]+|(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][-+]?[0-9]+)?))"
    r"|(?P<name>[A-Za-z_][A-Za-z0-9_-]*)|(?P<sign>&&|\|\||==|!=|<=|>=|[<>!()\[\].,*]))"
)
_EMBEDDED = re.compile(r"\$\{\{((?:'(?:[^']|'')*'|[^'])*?)\}\}", re.DOTALL)
_PRECEDENCE = {"||": 1, "&&": 2, "==": 3, "!=": 3, "<": 4, "<=": 4, ">": 4, ">=": 4}
_DEEPEST = 100


class Unreadable(Exception):
    """The text is no expression: why."""


@dataclass(frozen=True)
class Expr:
    """One node. kind: literal, name, member, index, star, call, not, group, or an operator.

    value: the literal (str, float, bool, None), or the name. text: as it was written, blanks around it left out; ""
    for a node that was made.
    """

    kind: str
    value: str | float | bool | None = None
    children: tuple[Expr, ...] = ()
    text: str = ""
    start: int = 0


class _Token(NamedTuple):
    kind: str
    text: str
    start: int
    end: int


def parse(text: str) -> Expr:
    """The expression. Raises Unreadable."""
    return _Parser(text).whole()


class _Parser:
    def __init__(self, text: str) -> None:
        self.source = text
        self.tokens: list[_Token] = []
        position = 0
        while text[position:].strip():
            found = _TOKEN.match(text, position)
            if found is None or found.lastgroup is None:
                raise Unreadable(f"unexpected {text[position:].strip()[:1]!r}")
            kind = found.lastgroup
            self.tokens.append(_Token(kind, found[kind], found.start(kind), found.end(kind)))
            position = found.end()
        self.place = 0
        self.depth = 0

    def whole(self) -> Expr:
        if not self.tokens:
            raise Unreadable("it is empty")
        node = self.binary(1)
        if self.place < len(self.tokens):
            raise Unreadable(f"unexpected {self.tokens[self.place].text!r}")
        return node

    def peek(self) -> str:
        if self.place >= len(self.tokens) or self.tokens[self.place].kind != "sign":
            return ""
        return self.tokens[self.place].text

    def take(self, sign: str | None = None) -> _Token:
        if self.place >= len(self.tokens):
            raise Unreadable("it ends too early")
        token = self.tokens[self.place]
        if sign is not None and (token.kind != "sign" or token.text != sign):
            raise Unreadable(f"{sign!r} is missing before {token.text!r}")
        self.place += 1
        return token

    def made(self, kind: str, value: str | float | bool | None, children: tuple[Expr, ...], start: int) -> Expr:
        end = self.tokens[self.place - 1].end
        return Expr(kind, value, children, self.source[start:end], start)

    def binary(self, least: int) -> Expr:
        self.depth += 1
        if self.depth > _DEEPEST:
            raise Unreadable("it is nested too deep")
        left = self.unary()
        while (level := _PRECEDENCE.get(self.peek(), 0)) >= least:
            sign = self.take().text
            left = self.made(sign, None, (left, self.binary(level + 1)), left.start)
        self.depth -= 1
        return left

    def unary(self) -> Expr:
        if self.peek() != "!":
            return self.postfix()
        self.depth += 1
        if self.depth > _DEEPEST:
            raise Unreadable("it is nested too deep")
        start = self.take("!").start
        inner = self.unary()
        self.depth -= 1
        return self.made("not", None, (inner,), start)

    def postfix(self) -> Expr:
        node = self.primary()
        while self.peek() in (".", "["):
            start = node.start
            if self.take().text == "[":
                if self.peek() == "*":
                    self.take()
                    self.take("]")
                    node = self.made("star", None, (node,), start)
                    continue
                inner = self.binary(1)
                self.take("]")
                if inner.kind == "literal" and isinstance(inner.value, str):
                    node = self.made("member", inner.value, (node,), start)
                else:
                    node = self.made("index", None, (node, inner), start)
                continue
            token = self.take()
            if token.kind == "name":
                node = self.made("member", token.text, (node,), start)
            elif token.text == "*":
                node = self.made("star", None, (node,), start)
            else:
                raise Unreadable(f"a name is missing before {token.text!r}")
        return node

    def primary(self) -> Expr:
        token = self.take()
        if token.kind == "text":
            return self.made("literal", token.text[1:-1].replace("''", "'"), (), token.start)
        if token.kind == "number":
            return self.made("literal", _number(token.text), (), token.start)
        if token.kind == "sign":
            if token.text != "(":
                raise Unreadable(f"unexpected {token.text!r}")
            inner = self.binary(1)
            self.take(")")
            return self.made("group", None, (inner,), token.start)
        constants: dict[str, bool | None] = {"true": True, "false": False, "null": None}
        if token.text in constants:
            return self.made("literal", constants[token.text], (), token.start)
        if self.peek() != "(":
            return self.made("name", token.text, (), token.start)
        self.take("(")
        arguments: list[Expr] = []
        while self.peek() != ")":
            if arguments:
                self.take(",")
            arguments.append(self.binary(1))
        self.take(")")
        return self.made("call", token.text.lower(), tuple(arguments), token.start)


def _number(text: str) -> float:
    for sign, base in (("0x", 16), ("0o", 8)):
        if sign in text:
            return float(int(text.replace(sign, "", 1), base))
    return float(text)


def walk(node: Expr) -> Iterator[Expr]:
    """The node and everything in it."""
    yield node
    for child in node.children:
        yield from walk(child)


def bare(node: Expr) -> Expr:
    """The node without the parentheses around it."""
    while node.kind == "group":
        node = node.children[0]
    return node


def path_of(node: Expr) -> tuple[str, ...] | None:
    """`needs.a.outputs.b` as its names, lower case but for those of jobs and outputs; `*` for a star; None for others."""
    node = bare(node)
    if node.kind == "name":
        return (str(node.value).lower(),)
    if node.kind in ("member", "star"):
        above = path_of(node.children[0])
        return None if above is None else (*above, "*" if node.kind == "star" else str(node.value))
    return None


def has_status(node: Expr) -> bool:
    """Whether it calls always(), success(), failure() or cancelled(): then no success() is implied."""
    return any(inner.kind == "call" and inner.value in STATUS_FUNCTIONS for inner in walk(node))


def conjuncts(node: Expr) -> list[Expr]:
    """What must all hold."""
    inner = bare(node)
    if inner.kind == "&&":
        return [part for child in inner.children for part in conjuncts(child)]
    return [node]


def show(node: Expr) -> str:
    """The expression as text: as it was written where it was read, else with the parentheses that it needs."""
    if node.text:
        return node.text
    if node.kind in ("&&", "||"):
        return f" {node.kind} ".join(within(child, node.kind) for child in node.children)
    if node.kind == "not":
        inner = node.children[0]
        text = show(inner)
        return f"!({text})" if inner.kind in _PRECEDENCE else f"!{text}"
    if node.kind == "group":
        return f"({show(node.children[0])})"
    raise AssertionError(node.kind)


def within(node: Expr, operator: str) -> str:
    """The expression as an operand of && or ||."""
    text = show(node)
    return f"({text})" if _PRECEDENCE.get(node.kind, 9) < _PRECEDENCE[operator] else text


def joined(parts: list[str]) -> str:
    """Texts that must all hold, as one."""
    if len(parts) == 1:
        return parts[0]
    return " && ".join(f"({part})" if bare_or(part) else part for part in parts)


def bare_or(text: str) -> bool:
    """Whether its outermost operator is `||`."""
    return parse(text).kind == "||"


class Condition(NamedTuple):
    """The text of an `if:`: what stands around the expression, and the expression."""

    before: str
    expression: str
    after: str


def condition(text: str) -> Condition:
    """Take an `if:` apart. Raises Unreadable for what mixes text with `${{ }}`, which is always true."""
    if "${{" not in text:
        return Condition("", text.strip(), "")
    found = _EMBEDDED.fullmatch(text)
    if found is None:
        raise Unreadable("text around `${{ }}` makes it always true")
    inner = found[1].strip()
    place = text.index(inner, 3) if inner else 3
    return Condition(text[:place], inner, text[place + len(inner) :])


def embedded(text: str) -> list[str]:
    """The expressions in a text, those between `${{` and `}}`."""
    return [found[1] for found in _EMBEDDED.finditer(text)]
