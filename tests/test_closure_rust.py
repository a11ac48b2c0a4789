"""What Rust names: a table of shapes, made crates against rustc and against the truth, a real parser, hostile texts."""

from __future__ import annotations

import os
import posixpath
import random
import subprocess

import pytest

from touchgate.gate.closure import rust
from touchgate.gate.closure.references import Unresolved

from .rust_crates import LINK, MODULE, NOISE, Maker, closure, need

MANIFEST = {"Cargo.toml": '[package]\nname = "x"\n'}


def reached(text, *others, path="src/a.rs"):
    """Of the other files, those that the text at `path` leads to."""
    files = {path: text, **dict.fromkeys(others, "")}
    return sorted(set(closure(files, path).files) - {path})


def unresolved(text):
    return [(one.line, one.text, one.why) for one in rust.read(text.encode()).unresolved]


@pytest.mark.parametrize(
    ("text", "files"),
    [
        ("mod b;", ["src/b.rs"]),
        ("mod b;", ["src/a/b.rs"]),
        ("mod b;", ["src/b/mod.rs"]),
        ("pub(in crate::x) mod r#b;", ["src/b.rs"]),
        ("mod/**/b//\n;", ["src/b.rs"]),
        ("mod b { mod c; }", ["src/b/c.rs"]),
        ("mod b { mod c; }", ["src/a/b/c.rs"]),
        ("mod b { fn f() { { } } mod c { } mod d; }", ["src/b/d.rs"]),
        ('#[path = "q/z.rs"] mod b;', ["src/q/z.rs"]),
        ('#[path = r#"q/z.rs"#] mod b;', ["src/q/z.rs"]),
        ('#[path = "q\\u{2f}z.rs"] mod b;', ["src/q/z.rs"]),
        ('#[path = "../z.rs"] mod b;', ["z.rs"]),
        ('mod b { #[path = "z.rs"] mod c; }', ["src/b/z.rs"]),
        ('mod b { #[path = "z.rs"] mod c; }', ["src/a/b/z.rs"]),
        ('#[path = "t"] mod b { mod c; }', ["src/t/c.rs"]),
        ('#[path = "t"] mod b { #[path = "u.rs"] mod c; }', ["src/t/u.rs"]),
        ('mod b { #![path = "t"] mod c; }', ["src/t/c.rs"]),
        ('#[path = "z.rs"]\n/// Words.\n#[allow(unused)] pub mod b;', ["src/z.rs"]),
        ('#[cfg_attr(x, path = "u.rs")] #[cfg_attr(y, path = "v.rs")] mod b;', ["src/b.rs", "src/u.rs", "src/v.rs"]),
        ('#[cfg_attr(x, cfg_attr(y, path = "u.rs"))] mod b;', ["src/b.rs", "src/u.rs"]),
        ('#[cfg_attr(x, path = "u")] mod b { mod c; }', ["src/b/c.rs", "src/u/c.rs"]),
        ("cfg_if! { if #[cfg(a)] { mod b; } else { mod c; } }", ["src/b.rs", "src/c.rs"]),
        ('include!("z.in");', ["src/z.in"]),
        ('const A: &str = std::include_str ! [ r"../z", ];', ["z"]),
        ('const A: &[u8] = include_bytes!{"z"};', ["src/z"]),
        ('f!(g!(include_str!("z")))', ["src/z"]),
        ('#![doc = include_str!("../README.md")]', ["README.md"]),
        ('#[cfg_attr(a, doc = include_str!("z"))] struct S;', ["src/z"]),
        ('include_str!(concat!("a", "/", 1, true))', ["src/a/1true"]),
        ('use std::include_str as inc; const A: &str = inc!("z");', ["src/z"]),
        ('macro_rules! m { () => { include_str!("z") } }', ["src/z"]),
        ("macro_rules! m { () => { mod z; } }", ["src/z.rs"]),
        ('#!/usr/bin/env "run\nmod b;', ["src/b.rs"]),
        ("\ufeff#![allow(x)] mod b;", ["src/b.rs"]),
        ("fn f<'a>(c: char) { match c { '\"' | '\\'' | '\\\\' | '{' | 'a' => {} } } mod b;", ["src/b.rs"]),
        ('macro_rules! m { ($p:expr) => { #[path = "z.rs"] mod b; } }', ["src/z.rs"]),
    ],
)
def test_names(text, files):
    assert reached(text, *files) == files
    assert unresolved(text) == []


@pytest.mark.parametrize(
    "noise",
    [
        *(one for one in NOISE if "cfg" not in one),
        "let r#mod = b;",
        "module b;",
        'f("mod b;")',
        "mod b { }",
        "x.mod_b;",
        "'mod: loop {}",
    ],
)
def test_names_nothing(noise):
    text = noise.replace("@", "").replace("no", "b")
    assert reached(text, "src/b.rs", "src/b/mod.rs", "src/a/b.rs", "src/b") == []
    assert unresolved(text) == []


def test_crate_folder():
    text = 'include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/data", "/z"))'
    files = {
        "c/Cargo.toml": '[package]\nname = "c"\n',
        "c/src/deep/a.rs": text,
        "c/data/z": "",
        "data/z": "",
        "Cargo.toml": "",
    }
    assert {"c/data/z", "data/z", "c/Cargo.toml"} <= set(closure(files, "c/src/deep/a.rs").files)


def test_a_macro_is_looked_up_from_where_it_is_used():
    files = {
        **MANIFEST,
        "src/lib.rs": "#[macro_use] mod m; mod deep;",
        "src/m.rs": 'macro_rules! m { () => { include_str!("../z"); mod late; } }',
        "src/deep/mod.rs": "mod er;",
        "src/deep/er/mod.rs": "m!();",
        "src/deep/z": "",
        "src/deep/er/late.rs": "",
    }
    assert {"src/deep/z", "src/deep/er/late.rs"} <= set(closure(files, "src/m.rs").files)


def test_included_rust_is_read_and_included_text_is_not():
    files = {"src/a.rs": 'include!("b.in"); const A: &str = include_str!("c.rs");', "src/b.in": "mod d;", "src/c.rs": "mod e;"}
    files |= {"src/d.rs": "", "src/e.rs": ""}
    assert set(closure(files, "src/a.rs").files) == {"src/a.rs", "src/b.in", "src/c.rs", "src/d.rs"}


def test_links_and_submodules():
    files = {
        "src/a.rs": '#[path = "l/b.rs"] mod b; include_str!("../sub/x/y");',
        "src/l": LINK + b"../real",
        "real/b.rs": "mod c;",
    }
    files |= {"real/c.rs": "", "sub": MODULE}
    found = closure(files, "src/a.rs")
    assert {"src/l", "real/b.rs", "real/c.rs", "sub"} <= set(found.files)
    assert found.gitlinks == {"sub"}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('\ninclude!(concat!(env!("OUT_DIR"), "/x.rs"));',
         [(2, 'include!(concat!(env!("OUT_DIR"), "/x.rs"))', "a build script's output")]),
        ('include_str!(env!("X"))', [(1, 'include_str!(env!("X"))', "a variable of the environment says where")]),
        ("include_str!($p)", [(1, "include_str!($p)", "a variable of a macro says where")]),
        ('include_str!(concat!("a", $p))', [(1, 'include_str!(concat!("a", $p))', "a variable of a macro says where")]),
        ("include_str!(PATH)", [(1, "include_str!(PATH)", "its argument is no string literal")]),
        ("mod $n;", [(1, "mod $n;", "the module's name is a macro's to know")]),
        ("paste! { mod [<a_ $n>]; }", [(1, "mod [<a_ $n>];", "the module's name is a macro's to know")]),
        ("quote! { mod #n; }", [(1, "mod #n;", "the module's name is a macro's to know")]),
        ("mod $n { mod b; }", [(1, "mod b;", "a module around it has a name that is a macro's to know")]),
        ("#[path = $p] mod b;", [(1, "mod b", "its path is no string literal")]),
        ("call!(include_str)", [(1, "include_str", "named, but not called here")]),
        ("mod a; /* /* */", [(1, "/* /* */", "a comment or string begins here that never ends")]),
        ("mod a { ", [(1, "mod a {", "a bracket is opened here that is never closed")]),
        ("mod a; }", [(1, "}", "a bracket is closed here that is not open")]),
    ],
)  # fmt: skip
def test_unresolved(text, expected):
    assert unresolved(text) == expected


def test_variables_of_macros_are_no_modules():
    assert unresolved("macro_rules! m { (mod $n:ident;) => { } }") == []


# Made crates


@pytest.mark.parametrize("start", range(0, 60, 10))
def test_made_crates(start):
    for seed in range(start, start + 10):
        made = Maker(seed)
        found = closure({**made.files, **MANIFEST}, "src/lib.rs")
        assert set(found.files) == made.named | {"Cargo.toml"}, seed
        assert found.unresolved == (), seed


def told_by_rustc(made, folder):
    for path, text in made.files.items():
        file = folder / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(text.encode())
    command = ["rustc", "--edition=2021", "--crate-type=lib", "--emit=dep-info", "-Awarnings", "src/lib.rs", "-o", "out.d"]
    environ = {**os.environ, "CARGO_MANIFEST_DIR": str(folder)}
    subprocess.run([*command, *(["--cfg=on"] if made.on else [])], cwd=folder, env=environ, check=True, capture_output=True)
    files = (folder / "out.d").read_text(encoding="utf-8").splitlines()[0].partition(": ")[2].split(" ")
    return {posixpath.relpath(os.path.realpath(folder / file), os.path.realpath(folder)) for file in files}


def test_made_crates_are_what_rustc_reads(tmp_path):
    need("rustc")
    for seed in range(24):
        made = Maker(seed)
        assert told_by_rustc(made, tmp_path / str(seed)) == made.named, seed


# A real parser


def told_by_tree_sitter(text):
    """(line, name) of every module in a file of its own, and (line, literal) of every include."""
    tree_sitter = pytest.importorskip("tree_sitter", reason="tree-sitter is not installed")
    grammar = pytest.importorskip("tree_sitter_rust", reason="tree-sitter-rust is not installed")
    parser = tree_sitter.Parser(tree_sitter.Language(grammar.language()))
    found, waiting = set(), [parser.parse(text.encode()).root_node]
    while waiting:
        node = waiting.pop()
        waiting += node.children
        line = node.start_point[0] + 1
        if node.type == "mod_item" and node.child_by_field_name("body") is None:
            name = node.child_by_field_name("name")
            found.add((name.start_point[0] + 1, name.text.decode().removeprefix("r#")))
        elif node.type == "macro_invocation" and node.child_by_field_name("macro").text.decode().startswith("include"):
            found.add((line, "include"))
    return found


def test_never_less_than_a_real_parser():
    rng = random.Random(7)
    pieces = [
        "mod a;",
        "pub mod b ;",
        "mod c { mod d; }",
        'include!("e");',
        "fn f() { { } }",
        'const G: &str = include_str!("g");',
    ]
    for seed in range(150):
        if seed % 3:
            text = "\n".join(rng.choice([*pieces, *NOISE]).replace("@", str(n)) for n in range(rng.randrange(40)))
        else:
            text = "\n".join(text for path, text in Maker(seed).files.items() if path.endswith((".rs", ".inc", ".in")))
        told = told_by_tree_sitter(text)
        lines = text.split("\n")
        for line, name in told:
            found = [one for one in rust.read(text.encode()).references if line - 3 <= one.line <= line]
            assert any(name in " ".join((one.text, one.how, *one.candidates)) or name == "include" for one in found), (
                seed, line, name, lines[line - 1],
            )  # fmt: skip


# Hostile texts


@pytest.mark.parametrize(
    "piece",
    [b"/*", b"*/", b'"', b'\\"', b"'", b"{", b"}", b"#[", b'#[path="a"]', b"mod ", b"mod a{", b"include!(concat!(", b'r#"',
     b"r####", b"b'", b"\0", b"\xff", b"mod[<", b"mod [< a ", b"macro_rules!{", b"mod $", b"include_str as x ",
     b'#![path="a"]', b'#[cfg_attr(a,path="b")]mod c{', b"\xc3\xa9"],
)  # fmt: skip
def test_any_bytes_are_read_to_their_end(piece):
    found = rust.read(b"mod a;\n" + piece * (100_000 // len(piece)))
    assert found.references[0].text == "mod a"
    assert len(found.unresolved) <= 1001


def test_random_bytes():
    rng = random.Random(3)
    pieces = [
        b"mod ",
        b"a",
        b";",
        b"{",
        b"}",
        b"[",
        b"]",
        b"#",
        b"!",
        b"include_str",
        b"(",
        b")",
        b'"',
        b"'",
        b"\\",
        b"r",
        b"/*",
        b"*/",
    ]
    for _ in range(2000):
        text = b"".join(rng.choice([*pieces, bytes([rng.randrange(256)])]) for _ in range(rng.randrange(60)))
        found = rust.read(text)
        assert all(isinstance(one, Unresolved) and one.line >= 1 for one in found.unresolved)
