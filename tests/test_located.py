"""YAML with places: what is read, what is refused, and how a problem is shown."""

from __future__ import annotations

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from touchgate.gate import located
from touchgate.gate.located import DeclarationError, Mapping_, Problem, Scalar, Sequence, read
from touchgate.gate.model import At


@pytest.fixture(params=["libyaml", "python"], autouse=True)
def parser(request, monkeypatch):
    """Everything holds with PyYAML's own parser too, where libyaml is not built in."""
    if request.param == "python":
        monkeypatch.setattr(located, "_LOADER", yaml.SafeLoader)


def shown(content: bytes, file: str = "lanes.yml") -> str:
    return str(DeclarationError(read(content, file).problems, {file: content}))


def plain(node):
    if isinstance(node, Scalar):
        return node.text
    if isinstance(node, Sequence):
        return [plain(item) for item in node.items]
    return {key: plain(value) for key, value in node.entries.items()}


def test_nodes_know_their_place():
    root = read(b"a: [x, 'y']\nb:\n  - c: z\n", "f.yml").root
    assert isinstance(root, Mapping_)
    assert plain(root) == {"a": ["x", "y"], "b": [{"c": "z"}]}
    assert [str(key.at) for key in root.keys.values()] == ["f.yml:1:1", "f.yml:2:1"]
    first = root.entries["a"]
    assert [(str(item.at), item.plain) for item in first.items] == [("f.yml:1:5", True), ("f.yml:1:8", False)]
    assert str(root.entries["b"].items[0].keys["c"].at) == "f.yml:3:5"


def test_columns_count_characters():
    root = read("é: [ü, x]\n".encode(), "f.yml").root
    assert [str(item.at) for item in root.entries["é"].items] == ["f.yml:1:5", "f.yml:1:8"]


def test_a_byte_order_mark_is_passed_over():
    root = read(b"\xef\xbb\xbfa: b\n", "f.yml").root
    assert str(root.keys["a"].at) == "f.yml:1:1"


@pytest.mark.parametrize("content", [b"", b"\n\n", b"# only a comment\n"])
def test_nothing(content):
    assert (read(content, "f.yml").root, read(content, "f.yml").problems) == (None, ())


def test_anchors_and_aliases():
    root = read(b"a: &x [1, 2]\nb: *x\nc: {d: *x}\n", "f.yml").root
    assert plain(root) == {"a": ["1", "2"], "b": ["1", "2"], "c": {"d": ["1", "2"]}}
    assert root.entries["b"] is root.entries["a"]


def test_merge_keys():
    content = b"base: &base {a: 1, b: 2}\nmore: &more {b: 3, c: 4}\nx: {<<: *base, b: 9}\ny: {<<: [*more, *base]}\n"
    root = read(content, "f.yml").root
    assert plain(root.entries["x"]) == {"b": "9", "a": "1"}
    assert plain(root.entries["y"]) == {"b": "3", "c": "4", "a": "1"}
    assert str(root.entries["x"].keys["a"].at) == "f.yml:1:14"
    assert plain(read(b"x: {'<<': a}", "f.yml").root) == {"x": {"<<": "a"}}


REFUSED = [
    (
        b"a: 1\nb: 2\na: 3\n",
        "lanes.yml:3:1: duplicate key 'a'; the first is at line 1\n    a: 3\n    ^",
    ),
    (
        b"{a: 1, a: 2}",
        "lanes.yml:1:8: duplicate key 'a'; the first is at column 2\n    {a: 1, a: 2}\n           ^",
    ),
    (
        b"a:\n\tb: 1\n",
        "lanes.yml:2:1: a tab can't indent YAML; use spaces\n     b: 1\n    ^",
    ),
    (
        b"ok: 1\ncaf\xe9: x\n",
        "lanes.yml:2:4: not UTF-8 text (byte 0xe9); save the file as UTF-8\n    caf\\xe9: x\n       ^",
    ),
    (
        b"a: \x07\n",
        "lanes.yml:1:4: the character U+0007 must not stand in YAML; remove it\n    a:\n       ^",
    ),
    (
        b"a: &x [*x]\n",
        "lanes.yml:1:8: '*x' stands inside itself\n    a: &x [*x]\n           ^",
    ),
    (
        b"a: *x\n",
        "lanes.yml:1:4: no anchor '&x' stands before this alias\n    a: *x\n       ^",
    ),
    (
        b"a: !!python/object:os.system x\n",
        (
            "lanes.yml:1:4: the tag 'tag:yaml.org,2002:python/object:os.system' has no meaning here; leave it out\n"
            "    a: !!python/object:os.system x\n       ^"
        ),
    ),
    (
        b"? [a, b]\n: c\n",
        "lanes.yml:1:3: a key must be text, not a list or mapping; quote it if text is meant\n    ? [a, b]\n      ^",
    ),
    (
        b"a: 1\n---\nb: 2\n",
        "lanes.yml:2:1: a second document; keep one document in a file\n    ---\n    ^",
    ),
    (
        b"x: {<<: 3}\n",
        "lanes.yml:1:5: '<<' takes a mapping or a list of mappings\n    x: {<<: 3}\n        ^",
    ),
]


@pytest.mark.parametrize(("content", "text"), REFUSED)
def test_what_is_refused(content, text):
    assert shown(content) == text


def test_syntax_errors_have_a_place():
    for content, place in (
        (b"a: [1, 2\nb: 3\n", "2:"),
        (b"a: 'x\n", ""),
        (b"a: b: c\n", "1:5"),
        (b"@a", "1:1"),
        (b"a: }", "1:4"),
    ):
        (problem,) = read(content, "f.yml").problems
        assert str(problem).startswith(f"f.yml:{place}"), problem
        assert problem.message.startswith("not valid YAML: ")


def test_equal_keys_do_not_stop_the_reading():
    document = read(b"a: 1\na: 2\nb: 3\nb: 4\n", "f.yml")
    assert plain(document.root) == {"a": "1", "b": "3"}
    assert len(document.problems) == 2


@pytest.mark.parametrize(
    "content", [b"[" * 100_000, b"{a: " * 100_000, b"- " * 100_000, b"? " * 100_000, b"[" * 60 + b"]" * 60]
)
def test_deep_nesting_is_refused(content):
    (problem,) = read(content, "f.yml").problems
    assert "nested more than 50 deep" in problem.message or "nesting" in problem.message


def test_an_alias_bomb_is_refused():
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 12)]
    (problem,) = read("\n".join(lines).encode(), "f.yml").problems
    assert problem.message == "the file expands to more than 200000 nodes"
    assert problem.at.file == "f.yml"


def test_a_merge_bomb_is_refused():
    lines = ["a0: &a0 {" + ", ".join(f"k{n}: v" for n in range(100)) + "}"]
    lines += [f"b{n}: {{<<: [{', '.join(['*a0'] * 1000)}]}}" for n in range(5)]
    (problem,) = read("\n".join(lines).encode(), "f.yml").problems
    assert problem.message == "the file expands to more than 200000 nodes"


@given(st.binary(max_size=60) | st.text(alphabet="ab:-[]{}&*!|>'\"#%@ \n\t?,<", max_size=40).map(str.encode))
def test_no_content_raises(content):
    document = read(content, "f.yml")
    str(DeclarationError(document.problems, {"f.yml": content}))
    assert document.root is not None or document.problems or not plain_text(content)


def plain_text(content: bytes) -> str:
    """What is left without comments, space and marks of a document: nothing where there is nothing to read."""
    lines = [line.partition("#")[0] for line in content.decode().splitlines()]
    return "".join(lines).strip("\ufeff \n\t.-%|>\x85")


def test_all_problems_sorted_once_and_with_their_line():
    problems = [
        Problem(At("b.yml", 1, 1), "second file"),
        Problem(At("a.yml", 2, 3), "later", "do this"),
        Problem(At("a.yml", 1, 2), "first"),
        Problem(At("a.yml", 1, 2), "first"),
        Problem(At("a.yml", 9, 9), "no such line"),
    ]
    error = DeclarationError(problems, {"a.yml": b"one\n  two\n"})
    assert str(error) == (
        "a.yml:1:2: first\n    one\n     ^\n"
        "a.yml:2:3: later; do this\n      two\n      ^\n"
        "a.yml:9:9: no such line\n"
        "b.yml:1:1: second file"
    )


def test_a_long_line_is_shown_around_its_place():
    line = "x" * 500 + "HERE" + "y" * 500
    text = str(DeclarationError([Problem(At("a.yml", 1, 501), "long")], {"a.yml": line.encode()}))
    _, source, caret = text.split("\n")
    assert len(source) == 164
    assert source[len(caret) - 1 :].startswith("HERE")


@pytest.mark.parametrize(
    ("written", "taken_for"),
    [
        ("on", "a boolean"),
        ("No", "a boolean"),
        ("true", "a boolean"),
        ("~", "nothing"),
        ("", "nothing"),
    ]
    + [(text, "a number") for text in ("1", "-3", "1.5", "1e3", "0x1F", "010", "1_000", "12:30", ".inf", ".NaN", "1.")]
    + [(text, None) for text in ("'on'", "y", '"1"', "v1", "1.2.3", "a", "one", "2026-11-30", "nano", "kernels/**", "1x")],
)
def test_what_yaml_takes_text_for(written, taken_for):
    root = read(f"a: {written}\n".encode(), "f.yml").root
    assert located.looks_like(root.entries["a"]) == taken_for


def test_plain_data():
    problems: list[Problem] = []
    node = read(b"{a: 1, b: 1.5, c: x, d: true, e: [1, '2'], f: {g: no}, h: }", "f.yml").root
    value = located.plain_data(node, "it", problems)
    assert value == {"a": 1, "b": 1.5, "c": "x", "d": True, "e": [1, "2"], "f": {"g": "no"}, "h": ""}
    assert [problem.message for problem in problems] == [
        "'g': readers of YAML differ on no (a boolean or text)",
        "'h' is empty",
    ]


def test_a_very_long_name_is_cut():
    problem = Problem(At("a.yml", 1, 2), f"no lane '{'x' * 9000}' beside 'y'", "leave it out")
    assert str(problem) == f"a.yml:1:2: no lane '{'x' * 160}...' beside 'y'; leave it out"
    just = Problem(At("a.yml", 1, 2), f"no lane '{'x' * 160}'")
    assert str(just) == f"a.yml:1:2: no lane '{'x' * 160}'"
