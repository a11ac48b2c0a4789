"""What the tools of gate jobs ask, step by step: dorny/paths-filter, tj-actions/changed-files, and touchgate itself."""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass
from typing import TYPE_CHECKING

from touchgate.gate import located
from touchgate.gate.located import Problem
from touchgate.migrate import filters
from touchgate.migrate.gates import Question
from touchgate.migrate.tree import Node, Pairs, Scalar, Text, data

if TYPE_CHECKING:
    from collections.abc import Mapping

    from touchgate.migrate.gates import NewLanes, Surroundings

CALL = re.compile(r"(?<![\w./-])(?:[\w./-]*/)?touchgate(?:\.pyz)?\s+gate(?P<rest>[^\n;&|]*)")


@dataclass(frozen=True)
class Tools:
    """Reads steps of one workflow. notes: what will differ, added to. Its methods raise filters.Untranslatable."""

    text: Text
    around: Surroundings
    lanes: NewLanes
    notes: list[Problem]

    def problem(self, node: Node, message: str) -> Problem:
        """A problem at a node."""
        return Problem(self.text.at(node.start), message)

    def lane(self, wish: str, patterns: list[str], node: Node, *, every: bool = False) -> Question:
        """The lane with these patterns of picomatch's."""
        if not patterns:
            raise filters.Untranslatable(f"'{wish}' has no patterns")
        said = filters.translated(patterns, every=every)
        heads = [text.removesuffix("/**") for text in said if text.endswith("/**")]
        said += [head for head in heads if head in self.around.submodules and not head.startswith("!")]
        name = self.lanes.name_for(wish, tuple(dict.fromkeys(said)), str(self.text.at(node.start)))
        return Question(lanes=(name,))

    def dorny(self, step: Pairs, output: str) -> Question:
        """What an output of dorny/paths-filter asks."""
        given = step.get("with")
        given = given if isinstance(given, Pairs) else Pairs(0, 0, None, flow=False)
        if given.get("working-directory"):
            raise filters.Untranslatable("`working-directory` is set")
        for key in ("base", "ref"):
            if found := given.own(key):
                message = f"'{key}' is left out: touchgate takes base and head from the event"
                self.note(self.problem(found[0], message))
        written = given.get("filters")
        if not isinstance(written, Scalar):
            raise filters.Untranslatable("the step has no filters")
        rules, where = self.rules(written.value)
        if output not in rules:
            raise filters.Untranslatable(f"'{output}' is no filter of {where} but a list or a count")
        quantifier = given.get("predicate-quantifier")
        every = isinstance(quantifier, Scalar) and quantifier.value == "every"
        patterns = _patterns(rules[output])
        # Negatives take back only under `every`.
        return self.lane(output, patterns, written, every=every)

    def rules(self, written: str) -> tuple[dict[str, object], str]:
        """The filters by their names, inline or from a file, and where they are."""
        where = "the step"
        if "\n" not in written and ":" not in written:
            where = written.strip()
            found = self.around.read(where)
            if found is None:
                raise filters.Untranslatable(f"the filters' file {where} is not there")
            written = found
        document = located.read(written.encode(), where)
        if document.problems:
            raise filters.Untranslatable(f"the filters can't be read: {document.problems[0].message}")
        rules = data(Text(where, written).root)
        if not isinstance(rules, dict):
            raise filters.Untranslatable("the filters are no mapping")
        return rules, where

    def tj(self, wish: str, step: Pairs, output: str) -> Question:
        """What an output of tj-actions/changed-files asks, as a lane of a wished name."""
        given = step.get("with")
        given = given if isinstance(given, Pairs) else Pairs(0, 0, None, flow=False)
        known = {"files", "files_ignore", "files_yaml", "fetch_depth", "token", "skip_initial_fetch", "separator", "json"}
        for key, _ in given.pairs:
            if key.value in ("base_sha", "sha"):
                self.note(self.problem(key, f"'{key.value}' is left out: touchgate takes base and head from the event"))
            elif key.value not in known:
                raise filters.Untranslatable(f"`{key.value}` is set")
        ending = next((end for end in ("any_changed", "any_modified") if output == end or output.endswith(f"_{end}")), None)
        if ending is None:
            raise filters.Untranslatable(f"'{output}' says something else than whether anything changed")
        if ending == "any_changed":
            self.note(self.problem(step, "deleted files count too, which 'any_changed' passes over"))
        if output != ending:
            written = given.get("files_yaml")
            rules = self.rules(written.value)[0] if isinstance(written, Scalar) else {}
            group = output.removesuffix(f"_{ending}")
            if group not in rules:
                raise filters.Untranslatable(f"'{group}' is no group of `files_yaml`")
            patterns, ignored = _patterns(rules[group]), []
        else:
            patterns, ignored = (
                [line.strip() for line in found.value.splitlines() if line.strip()] if isinstance(found, Scalar) else []
                for found in (given.get("files"), given.get("files_ignore"))
            )
        _refuse_unclear(patterns, ignored)
        said = filters.translated(patterns) if patterns else ["**"]
        said += [f"!{text}" for pattern in ignored for text in filters.one(pattern)]
        name = self.lanes.name_for(wish, tuple(said), str(self.text.at(step.start)))
        return Question(lanes=(name,))

    def action(self, step: Pairs, output: str) -> Question:
        """What an output of this project's action asks."""
        if output != "run":
            raise filters.Untranslatable(f"'{output}' is no yes or no")
        given = data(step.get("with")) if step.get("with") else {}
        texts = {key: value[0] for key, value in given.items()} if isinstance(given, dict) else {}
        _refuse_other_than_the_event(texts.get("base", ""), texts.get("head", ""))
        return Question(texts.get("workflow", ""), tuple(texts.get("lane", "").split()), texts.get("suite", ""))

    def call(self, script: str, output: str, settings: Mapping[str, str]) -> Question:
        """`touchgate gate ...` as a question. settings: the step's `env`, whose variables may stand in the call."""
        if output != "run":
            raise filters.Untranslatable(f"'{output}' is no yes or no")
        held: list[str] = []

        def hold(found: re.Match[str]) -> str:
            held.append(found[0])
            return f"\x01{len(held) - 1}\x02"

        calls = CALL.findall(re.sub(r"\$\{\{.*?\}\}", hold, script.replace("\\\n", " ")))
        if len(calls) != 1:
            raise filters.Untranslatable("touchgate is called more than once")
        try:
            words = shlex.split(calls[0])
        except ValueError as fault:
            raise filters.Untranslatable("the call of touchgate can't be read") from fault
        words = [re.sub("\x01([0-9]+)\x02", lambda found: held[int(found[1])], word) for word in words]
        words = [re.sub(r"\$\{?([A-Za-z_]\w*)\}?", lambda found: settings.get(found[1], found[0]), word) for word in words]
        options: dict[str, list[str]] = {"--lane": [], "--suite": []}
        plain: list[str] = []
        while words:
            word = words.pop(0)
            name, _, value = word.partition("=")
            if name in options and (value or words):
                options[name].append(value or words.pop(0))
            elif word != "--json" and not word.startswith(("-", ">", "<")):
                plain.append(word)
            elif word != "--json":
                raise filters.Untranslatable(f"the call of touchgate has {word!r}")
        if any("$" in word.replace("${{", "") for word in (*plain, *options["--lane"], *options["--suite"])):
            raise filters.Untranslatable("the call of touchgate takes words from the shell")
        workflow = plain.pop(0) if len(plain) in (1, 3) else ""
        said = {name: settings.get(f"TOUCHGATE_{name.upper()}", "") for name in ("suite", "base", "head")}
        base, head = plain if len(plain) == 2 else (said["base"], said["head"])  # noqa: PLR2004 - BASE and HEAD
        _refuse_other_than_the_event(base, head)
        return Question(workflow, tuple(options["--lane"]), (options["--suite"] or [said["suite"]])[-1])

    def note(self, problem: Problem) -> None:
        """Remember what will differ, once."""
        if problem not in self.notes:
            self.notes.append(problem)


_REMOTE = r"(?:(?:refs/remotes/)?origin/)?"
_EVENT_BASE = re.compile(
    rf"{_REMOTE}(?:main|master|HEAD)"
    rf"|{_REMOTE}<(?:base_ref|event\.repository\.default_branch)>"
    r"|<event\.(?:pull_request\.base\.(?:sha|ref)|merge_group\.base_sha)>"
)
_EVENT_HEAD = re.compile(r"HEAD|<(?:sha|head_ref|event\.pull_request\.head\.(?:sha|ref)|event\.merge_group\.head_sha)>")
_EXPRESSION = re.compile(r"(.*)\$\{\{(.*?)\}\}")


def _refuse_other_than_the_event(base: str, head: str) -> None:
    """Refuse a base or head that is not the event's own.

    The guard stands before the checkout: `origin/main` and HEAD mean nothing there, or what an earlier job left. Where they
    mean what the event says, nothing need be said.
    """
    for word, form in ((base, _EVENT_BASE), (head, _EVENT_HEAD)):
        found = _EXPRESSION.fullmatch(word)
        terms = [_term(found[1], term.strip()) for term in found[2].split("||")] if found else [word]
        if word and not all(form.fullmatch(term) for term in terms):
            raise filters.Untranslatable(f"it judges '{word}', which is not what the event names")


def _term(before: str, term: str) -> str:
    """One side of `||` as the forms above have it: <name> for github.name, else the quoted text."""
    name = re.fullmatch(r"github\.([\w.]+)", term)
    return f"{before}<{name[1]}>" if name else before + term.strip("'")


def _refuse_unclear(patterns: list[str], ignored: list[str]) -> None:
    """Refuse patterns of changed-files that it takes for something else than what they look like."""
    if any(pattern.startswith("!") for pattern in (*patterns, *ignored)):
        raise filters.Untranslatable("a pattern with `!`; write it in `files_ignore`")
    if any(" " in pattern for pattern in patterns):
        raise filters.Untranslatable("a blank in a pattern, which older versions take for two; write one pattern a line")
    # As the action looks at it: by the last part alone.
    if any(not {"*", "."} & set(pattern.rpartition("/")[2]) for pattern in patterns):
        raise filters.Untranslatable("a pattern that may name a folder; write 'folder/**'")


def _patterns(rule: object) -> list[str]:
    """The patterns of one filter: a text, or lists of lists of them (anchors nest them)."""
    if isinstance(rule, tuple):
        return [str(rule[0])]
    if isinstance(rule, list):
        return [pattern for item in rule for pattern in _patterns(item)]
    raise filters.Untranslatable("it asks how a file changed (`added`, `modified`), not only which")
