"""What a workflow's `on:` says about paths, and which event's list decides."""

from __future__ import annotations

import textwrap

import pytest

from touchgate.gate.located import DeclarationError
from touchgate.gate.patterns import PatternList
from touchgate.gate.workflow import FILTERED_EVENTS, as_patterns, choose, decide, read_paths, skipped_because

BOTH = """
    name: kernels
    on:
      pull_request:
        branches: [main]
        paths: &paths
          - kernels/**
          - "!**/*.md"
      push:
        branches: [main]
        paths: *paths
      pull_request_target:
        paths-ignore: [docs/**]
      merge_group:
      schedule:
        - cron: "0 3 * * *"
      workflow_dispatch:
    jobs:
      a:
        runs-on: ubuntu-latest
        steps: [{run: make}]
"""


def read(source: str):
    return read_paths(textwrap.dedent(source).lstrip("\n").encode(), "w.yml")


def texts(patterns):
    return None if patterns is None else [pattern.text for pattern in patterns]


def test_every_event_with_its_lists():
    found = read(BOTH)
    assert {name: (texts(lists.paths), texts(lists.ignore)) for name, lists in found.events.items()} == {
        "pull_request": (["kernels/**", "!**/*.md"], None),
        "push": (["kernels/**", "!**/*.md"], None),
        "pull_request_target": (None, ["docs/**"]),
        "merge_group": (None, None),
    }
    assert found.others == ("schedule", "workflow_dispatch")
    assert found.faults == ()
    assert str(found.events["pull_request"].paths[1].at) == "w.yml:7:9"


@pytest.mark.parametrize(
    "on", ["on: push", "on: [push]", "on: {push: }", "on: {push: {}}", '"on": push', "on: {push: {branches: [x]}}"]
)
def test_no_list_at_all(on):
    found = read(on)
    assert list(found.events) == ["push"]
    assert decide(found, "push", ["any"]) == (True, None, None)


@pytest.mark.parametrize("paths", ["[]", "", "~"])
def test_an_empty_list_filters_nothing(paths):
    assert decide(read(f"on: {{push: {{paths: {paths} }}}}"), "push", ["any"]) == (True, None, None)


def test_one_pattern_without_a_list_and_texts_that_look_like_something_else():
    assert texts(read("on: {push: {paths: a/**}}").events["push"].paths) == ["a/**"]
    assert texts(read("on: {push: {paths: [on, 1, 1.0]}}").events["push"].paths) == ["on", "1", "1.0"]


REFUSED = [
    ("", "1:1: a workflow is a mapping with the key 'on'"),
    ("[x]", "1:1: a workflow is a mapping with the key 'on'"),
    ("jobs: {}", "1:1: the workflow names no event; it needs `on:`"),
    ("true: push", "1:1: the workflow names no event; it needs `on:`"),
    ("on:", "1:1: the workflow names no event; it needs `on:`"),
    ("on: [[push]]", "1:6: an event must be text, not a list"),
    ("on: {push: x}", "1:12: 'push' must be a mapping, not text"),
    (
        "on: {push: , paths: [a]}",
        "1:14: 'paths' belongs to an event and filters nothing here; put it below pull_request or push",
    ),
    (
        "on: push\npaths: [a]",
        "2:1: 'paths' belongs to an event and filters nothing here; put it below pull_request or push",
    ),
    ("on: {push: {path: [a]}}", "1:13: unknown key 'path' in 'push'; did you mean 'paths'?"),
    ("on: {push: {paths_ignore: [a]}}", "1:13: unknown key 'paths_ignore' in 'push'; did you mean 'paths-ignore'?"),
    ("on: {push: {Paths: [a]}}", "1:13: unknown key 'Paths' in 'push'; did you mean 'paths'?"),
    ("on: {push: {paths: [{a: b}]}}", "1:21: a pattern must be text, not a mapping"),
    ("on: {push: {paths: ['[']}}", "1:21: pattern '[': `[` is never closed; for the character itself write `\\[`"),
    (
        "on: {push: {paths: [a], paths-ignore: [b]}}",
        "1:25: 'push' has both 'paths' and 'paths-ignore', which forges refuse; use `!` in 'paths'",
    ),
    ("on: {push: , push: }", "1:14: duplicate key 'push'; the first is at column 6"),
]


@pytest.mark.parametrize(("source", "problem"), REFUSED)
def test_what_is_refused(source, problem):
    with pytest.raises(DeclarationError) as caught:
        read(source)
    assert [str(found) for found in caught.value.problems] == [f"w.yml:{problem}"]


def test_patterns_that_never_match_are_told_but_do_not_stop():
    found = read("on: {push: {paths: [/a, 'b{c}'], branches: [x]}, pull_request: {paths-ignore: ['!a']}}")
    assert [str(problem) for problem in found.faults] == [
        "w.yml:1:21: pattern '/a': it begins with `/` and never matches; paths are relative to the root: write `a`",
        (
            "w.yml:1:25: pattern 'b{c}': braces are plain characters here; write one pattern for each choice, "
            "or `\\{` for a brace"
        ),
        "w.yml:1:80: pattern '!a': `!` has no settled meaning in 'paths-ignore'; use 'paths'",
    ]
    folded = read("on:\n  push:\n    paths:\n      - >\n        docs/**\n      - 'a '\n      - '! b'\n      - 'c\\ '\n")
    assert [str(problem) for problem in folded.faults] == [
        (
            "w.yml:4:9: pattern 'docs/**\n': it holds a line break or tab and never matches; "
            "write one plain entry for each pattern, not a `|` or `>` block"
        ),
        (
            "w.yml:6:9: pattern 'a ': it begins or ends with a blank and never matches; "
            "take it away, or write `\\ ` for the blank itself"
        ),
        (
            "w.yml:7:9: pattern '! b': it begins or ends with a blank and never matches; "
            "take it away, or write `\\ ` for the blank itself"
        ),
    ]
    only_negative = read("on: {push: {paths: ['!a']}}")
    assert [problem.message for problem in only_negative.faults] == [
        "'paths': only patterns with `!` match nothing; put what they take back before them, such as `**`"
    ]


def test_which_list_decides():
    found = read(BOTH)
    assert choose(found, "push").words == ("w.yml, the list of push (that of pull_request_target and of merge_group differs)")
    assert choose(found, None).lists is found.events["pull_request"]
    assert choose(found, "").lists is found.events["pull_request"]
    assert choose(found, "schedule") == (None, "w.yml: it has no `paths:` list for schedule, so it always runs", ())
    assert choose(read("on: schedule"), None) == (None, "w.yml: it has no `paths:` list, so it always runs", ())
    for none in ("on: push", "on: {push: {branches: [main]}}", "on: {push: {paths: []}}"):
        assert choose(read(none), "push").words == "w.yml: it has no `paths:` list, so it always runs"
        assert choose(read(none), None).words == "w.yml: it has no `paths:` list, so it always runs"
    one = read("on: {push: , pull_request: {paths: [a]}}")
    assert choose(one, "push").words == "w.yml: it has no `paths:` list for push, so it always runs"
    assert choose(read("on: {push: {paths: [a]}}"), None).words == "w.yml, the list of push"
    same = read("on: {push: {paths: [a]}, pull_request: {paths: [a]}}")
    assert choose(same, "push").words == "w.yml, the list of push"
    assert choose(same, None) == (same.events["pull_request"], "w.yml, the list of pull_request", ())


@pytest.mark.parametrize(
    ("lists", "touched", "run"),
    [
        ("{push: {paths: [b]}, pull_request: {paths: [a]}}", "a", True),
        ("{push: {paths: [b]}, pull_request: {paths: [a]}}", "b", True),
        ("{push: {paths: [b]}, pull_request: {paths: [a]}}", "c", False),
        ("{push: {paths-ignore: [b]}, pull_request: {paths: [a]}}", "c", True),
        ("{push: {paths-ignore: [b]}, pull_request: {paths: [a]}}", "b", False),
        ("{merge_group: {paths: [c]}, push: {paths: [a]}, pull_request: {paths: [a]}}", "c", True),
        # A push without a list always runs; a person asks about what pull requests have.
        ("{push: , pull_request: {paths: [a]}}", "b", False),
        ("{push: {paths: [b]}, pull_request: }", "c", True),
    ],
)
def test_without_an_event_one_list_that_touches_will_do(lists, touched, run):
    assert decide(read(f"on: {lists}"), None, [touched]).run is run


@pytest.mark.parametrize(
    ("one", "other", "patterns"),
    [
        ("paths: [a]", "paths: [b, a]", ["a", "b"]),
        ("paths: [a/**]", "paths: [a/**, '!a/*.md']", ["a/**", "!a/*.md", "a/**"]),
        ("paths: [a/**, '!a/*.md']", "paths: [b]", ["a/**", "!a/*.md", "b"]),
        ("paths-ignore: [a]", "paths: [a/b]", ["**", "!a", "a/b"]),
        # Both take back: more is matched than either would match, never less.
        ("paths: [a/**, '!a/*.md']", "paths: [a/**, '!a/*.txt']", ["a/**", "!a/*.md", "a/**"]),
        ("paths-ignore: [a]", "paths-ignore: [b]", ["**", "!a", "**"]),
    ],
)
def test_lists_that_differ_as_one(one, other, patterns):
    found = read(f"on: {{pull_request: {{{one}}}, push: {{{other}}}}}")
    made = as_patterns(found)
    assert [pattern.text for pattern in made] == patterns
    listed = PatternList(patterns)
    for path in ("a", "b", "a/b", "a/x.md", "a/x.txt", "c"):
        assert listed.decides(path) is not None or not decide(found, None, [path]).run


@pytest.mark.parametrize(
    ("lists", "touched", "reason"),
    [
        (
            "paths: [a/**, b/**]",
            ["c", "b"],
            "none of 2 touched paths matches w.yml, the list of push",
        ),
        (
            "paths: [a/x/**, a/b/**]",
            ["c", "a/c"],
            "none of 2 touched paths matches w.yml, the list of push; nearest: a/x/** (w.yml:1:21)",
        ),
        (
            "paths: [a/**, c, '!**/*.md', '!a/*']",
            ["c.md", "a/c.md"],
            (
                "none of 2 touched paths matches w.yml, the list of push; a/c.md matches a/** (w.yml:1:21) "
                "but !a/* (w.yml:1:42) takes it back"
            ),
        ),
        ("paths: [a/**]", ["c"], "the one touched path does not match w.yml, the list of push"),
        ("paths: [a/**]", [], "none of 0 touched paths matches w.yml, the list of push"),
        ("paths-ignore: [a/**, c]", ["c"], "the one touched path is ignored by w.yml, the list of push, c by c (w.yml:1:34)"),
        (
            "paths-ignore: ['**']",
            ["c", "d"],
            "all 2 touched paths are ignored by w.yml, the list of push, c by ** (w.yml:1:28)",
        ),
    ],
)
def test_why_a_workflow_is_skipped(lists, touched, reason):
    found = read(f"on: {{push: {{{lists}}}}}")
    answer = decide(found, "push", touched)
    assert not answer.run
    assert skipped_because(answer, choose(found, "push"), len(touched)) == reason


@pytest.mark.parametrize(
    ("event", "touched", "answer"),
    [
        ("pull_request", ["docs/a", "kernels/a.cu"], (True, "kernels/a.cu", "kernels/**")),
        ("pull_request", ["docs/a"], (False, None, None)),
        ("pull_request", ["kern/a"], (False, None, None)),
        ("pull_request", ["kernels/a.md"], (False, "kernels/a.md", "!**/*.md")),
        ("pull_request", [], (False, None, None)),
        (None, ["kernels/a.cu"], (True, "kernels/a.cu", "kernels/**")),
        ("pull_request_target", ["docs/a"], (False, "docs/a", "docs/**")),
        ("pull_request_target", ["docs/a", "docs"], (True, "docs", None)),
        ("pull_request_target", [], (False, None, None)),
        ("merge_group", ["docs/a"], (True, None, None)),
        ("merge_group", [], (True, None, None)),
        ("schedule", ["docs/a"], (True, None, None)),
        ("never_heard_of", ["docs/a"], (True, None, None)),
    ],
)
def test_the_decision(event, touched, answer):
    run, path, pattern = decide(read(BOTH), event, touched)
    assert (run, path, pattern and pattern.text) == answer


@pytest.mark.parametrize(
    ("lists", "answer"),
    [
        ("paths: [vendor/cutlass/**]", (True, "vendor/", "vendor/cutlass/**")),
        ("paths: ['!vendor/**', '**/*.cuh']", (True, "vendor/", "**/*.cuh")),
        ("paths: ['vendor/**', '!vendor/**']", (True, "vendor/", "vendor/**")),
        ("paths: [vendors/**]", (False, "docs/a", "vendors/**")),
        ("paths-ignore: ['**']", (True, "vendor/", None)),
        ("paths-ignore: [docs/**, vendor, 'vendor/**']", (True, "vendor/", None)),
    ],
)
def test_a_folder_whose_content_can_t_be_told(lists, answer):
    run, path, pattern = decide(read(f"on: {{push: {{{lists}}}}}"), "push", ["docs/a", "vendor", "vendor/"])
    if answer[0]:
        assert (run, path, pattern and pattern.text) == answer
    else:
        assert run is False


def test_a_negative_among_ignored_patterns_never_hides_a_path():
    """Read as "any entry holds", `!keep.md` would ignore every other path there is."""
    found = read("on: {push: {paths-ignore: ['*.md', '!keep.md']}}")
    assert decide(found, "push", ["kernels/a.cu"]).run
    assert decide(found, "push", ["keep.md"]).run
    assert not decide(found, "push", ["a.md"]).run


def test_the_events_a_local_call_tries():
    assert FILTERED_EVENTS == ("pull_request", "pull_request_target", "push", "merge_group")
