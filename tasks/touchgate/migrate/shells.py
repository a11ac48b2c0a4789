"""Whether a shell script does the same for a job's result "success" as for "skipped", as far as that can be read.

Understood are tests of the result for "failure" or "cancelled", pairs of tests that take "success" and "skipped" for the
same, and lines that only show it. Whatever else holds the result counts as minding it.
"""

from __future__ import annotations

import re

RESULT = "\x01"
"""Stands for the result in a script."""

_VALUE = r"(?:\"\x01\"|'\x01'|\x01)"
_LEFT = r"(?:\[\[?|\btest|&&|\|\||!)\s+"
_RIGHT = r"(?=\s+(?:\]|&&|\|\|)|\s*(?:;|\n|$))"
_ASKED = r"\b(?:if|elif|while|until)\s+"
_OPEN = r"(?:(?:^|[;\n(]|\b(?:if|elif|while|until|then|else|do))\s*"


def _word(*words: str) -> str:
    return "(?:" + "|".join(rf"\"{word}\"|'{word}'|{word}" for word in words) + ")"


def _pair(sign: str) -> list[str]:
    """Two tests beside each other, in the same brackets or in two, that say the same of both words together."""
    equal, joint = ("==?", r"\|\|") if sign == "==" else ("!=", "&&")
    pairs = []
    for one, other in (("success", "skipped"), ("skipped", "success")):
        first, second = (rf"{_VALUE}\s+{equal}\s+{_word(word)}" for word in (one, other))
        pairs.append(rf"\[\[\s+{first}\s+{joint}\s+{second}\s+\]\]")
        # Under `set -e` it matters which of two tests by `&&` fails, but where more follows or a condition is asked.
        places = [(rf"{_OPEN}|{joint}\s+)", r"(?=\s+(?:&&|\|\|))" if sign == "!=" else ""), (_ASKED, "")]
        for before, after in places:
            pairs.append(rf"{before}\[\[\s+{first}\s+\]\]\s+{joint}\s+\[\[\s+{second}\s+\]\]{after}")
            pairs.append(rf"{before}\[\s+{first}\s+\]\s+{joint}\s+\[\s+{second}\s+\]{after}")
    return pairs


_SAME = [re.compile(text, re.MULTILINE) for text in _pair("==") + _pair("!=")]
_SAME.append(re.compile(rf"{_LEFT}{_VALUE}\s+(?:==?|!=)\s+{_word('failure', 'cancelled')}{_RIGHT}"))
_SHOWN = re.compile(r"^\s*echo\s[^|;&<>`()\n]*(?:>&2)?[ \t]*$", re.MULTILINE)
_PLAIN = re.compile(r"(?:\s|;|&&|\|\||[!{}()]|\b(?:if|then|else|elif|fi|exit|true|false)\b|\b[0-9]+\b|\x02)*")
"""A script of nothing but tests and what ends it."""


def same_for_skipped(script: str, variable: str | None = None) -> bool:
    """Whether it is the same for both. variable: the one that holds the result; else `RESULT` stands in the script."""
    text = script.replace("\\\n", " ")
    if variable is not None:
        name = re.escape(variable)
        text = re.sub(rf"\$(?:\{{{name}\}}|{name}\b)", RESULT, text)
    text = re.sub(r"(&&|\|\||\|)\s*\n\s*", r"\1 ", text)
    if "<<" in text or re.search(r"\b(?:eval|exec|trap|function|case)\b|\(\)", text):
        return False
    for pattern in _SAME:
        text = pattern.sub(lambda found: " \x02 " if _outside_quotes(found) else found[0], text)
    if not re.search(r"[<>`]|\$\(|(?<!\|)\|(?!\|)|(?<!&)&(?!&)", text.replace(">&2", "")):
        text = _SHOWN.sub(" \x02 ", text)
    if variable is not None:
        # What else runs would see the variable.
        text = re.sub(r"^[ \t]*(?:#.*|set [-+][\w ]+)$", "", text, flags=re.MULTILINE)
        return _PLAIN.fullmatch(re.sub(r"[\[\]]", " ", text)) is not None
    return RESULT not in text


def _outside_quotes(found: re.Match[str]) -> bool:
    """Whether a test is no piece of a text: of what is shown, or handed to another program."""
    before = found.string[found.string.rfind("\n", 0, found.start()) + 1 : found.start()]
    return before.count('"') % 2 == 0 and before.count("'") % 2 == 0 and not re.search(r"\b(echo|printf)\b", before)
