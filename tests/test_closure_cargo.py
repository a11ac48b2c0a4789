"""What a Cargo manifest names, against tables and `cargo metadata`; the TOML reader against the standard library's."""

from __future__ import annotations

import importlib
import json
import random
import subprocess
import sys

import pytest

from touchgate.gate.closure import cargo, toml

from .rust_crates import MODULE, closure, need


def reached(files, *sources):
    return sorted(set(closure(files, *sources).files) - set(sources))


@pytest.mark.parametrize(
    "text",
    [
        '[dependencies]\nb = { path = "../b" }',
        '[dependencies]\nb.path = "../b"',
        'dependencies.b.path = "../b"',
        'dependencies = { b = { path = "../b" } }',
        "[dependencies.b]\npath = '../b'",
        '[dev-dependencies]\nb = { version = "1", path = "../b/" }',
        '[build-dependencies."b"]\npath = "./../b"',
        "[target.'cfg(unix)'.dependencies]\nb = { path = \"\\u002e./b\" }",
        '[target.x86_64-unknown-linux-gnu.dev-dependencies]\nb.path = "../b"',
        '[patch.crates-io]\nb = { path = "../b" }',
        '[patch."https://x.invalid/y"]\nb.path = "../b"',
        '[replace]\n"b:0.1.0" = { path = "../b" }',
        '[dependencies]\nb = {\n  path = "../b", # here\n}',
    ],
)
def test_dependencies(text):
    files = {
        "a/Cargo.toml": text,
        "b/Cargo.toml": "",
        "b/src/lib.rs": "mod m;",
        "b/src/m.rs": "",
        "b/build.rs": "",
        "b/README": "",
    }
    assert reached(files, "a/Cargo.toml") == ["b/Cargo.toml", "b/build.rs", "b/src/lib.rs", "b/src/m.rs"]


def test_inherited_from_the_workspace():
    files = {
        "Cargo.toml": (
            '[workspace]\nmembers = ["*"]\n[workspace.dependencies]\nb = { path = "b" }\nc = { path = "c" }\n'
            '[patch.crates-io]\nd = { path = "d" }\n[dependencies]\nother.path = "other"\n'
        ),
        "Cargo.lock": "",
        "rust-toolchain.toml": "",
        ".cargo/config.toml": 'paths = ["e"]',
        "a/Cargo.toml": "[dependencies]\nb.workspace = true\n",
        "a/src/lib.rs": "",
        **{f"{name}/Cargo.toml": "" for name in ("b", "c", "d", "e", "other")},
    }
    expected = [".cargo/config.toml", "Cargo.lock", "Cargo.toml", "a/Cargo.toml"]
    expected += ["b/Cargo.toml", "d/Cargo.toml", "e/Cargo.toml", "rust-toolchain.toml"]
    assert reached(files, "a/src/lib.rs") == expected


def test_a_root_elsewhere():
    files = {
        "w/Cargo.toml": '[workspace.dependencies]\nb.path = "../b"',
        "a/Cargo.toml": '[package]\nworkspace = "../w"\n[dependencies]\nb = { workspace = true }',
        "b/Cargo.toml": "",
    }
    assert reached(files, "a/Cargo.toml") == ["b/Cargo.toml", "w/Cargo.toml"]


def test_sources():
    named = '[package]\nbuild = "make.rs"\n[lib]\npath = "l.rs"\nproc-macro = true\n'
    named += '[[bin]]\nname = "x"\npath = "x/y.rs"\n[[bin]]\nname="z"'
    files = {
        "Cargo.toml": named,
        **dict.fromkeys(("make.rs", "l.rs", "x/y.rs", "src/bin/z.rs", "src/bin/w/main.rs", "src/o.rs"), ""),
    }
    files |= {"src/main.rs": "", "src/bin/w/part.rs": "", "src/bin/notes.txt": ""}
    expected = ["l.rs", "make.rs", "src/bin/w/main.rs", "src/bin/z.rs", "src/main.rs", "x/y.rs"]
    assert reached(files, "Cargo.toml") == expected


def test_a_dependency_in_a_submodule():
    found = closure({"Cargo.toml": '[dependencies]\nb.path = "sub/b"', "sub": MODULE}, "Cargo.toml")
    assert found.gitlinks == {"sub"}


def test_the_nearest_manifest_alone_is_read():
    files = {"Cargo.toml": '[dependencies]\nb.path = "b"', "b/Cargo.toml": "", "a/Cargo.toml": "", "a/src/lib.rs": ""}
    assert reached(files, "a/src/lib.rs") == ["Cargo.toml", "a/Cargo.toml"]


@pytest.mark.parametrize(
    ("text", "line", "why"),
    [
        ("\na = ", 2, "a value is expected here"),
        ('a = "', 1, "a string that does not end in its line"),
        ("a = 1\na = 2", 2, '"a" is there already'),
        ("[a]\n[a]", 2, '"a" is there already'),
        ("a = { b = 1 }\n[a.c]", 2, '"a" is no table that can be added to'),
        ("[" * 9, 1, "a key is expected here"),
        ("a = " + "[" * 200, 1, "nested more than 80 times"),
        ("a = 1 b = 2", 1, "the line does not end here"),
        ('a = "\\q"', 1, '"\\q" is no escape'),
        ("a = 1\n\0", 2, "a control character"),
    ],
)
def test_what_is_no_toml_is_unresolved(text, line, why):
    (one,) = cargo.read(text.encode()).unresolved
    assert (one.line, one.why) == (line, f"it can't be read as TOML ({why})")


def test_a_source_of_another_name_is_unresolved():
    (one,) = cargo.read(b'[lib]\npath = "lib.txt"').unresolved
    assert (one.line, one.text) == (2, "lib.txt")


@pytest.mark.parametrize(
    "piece", [b"[", b"[[", b"{", b"a={", b"a=[", b'"', b'"""', b"'", b"\\", b"a.", b"#", b"\n", b"a=1\n", b"\xff", b"\0"]
)
def test_any_bytes_are_read_to_their_end(piece):
    cargo.read(piece * 20_000)
    cargo.read(b"a = " + piece * 20_000)


# Cargo itself


def made_workspace(rng):
    """Files of a workspace, and for each crate the ones that it depends on by path."""
    names = [f"c{n}" for n in range(rng.randint(2, 7))]
    files = {"Cargo.toml": '[workspace]\nmembers = ["crates/*"]\nresolver = "2"\n[workspace.dependencies]\n'}
    needs = {}
    for number, name in enumerate(names):
        files["Cargo.toml"] += rng.choice(('{0} = {{ path = "crates/{0}" }}\n', '{0}.path = "crates/{0}"\n')).format(name)
        needs[name] = rng.sample(names[:number], rng.randint(0, min(2, number)))
        text = f'[package]\nname = "{name}"\nversion = "0.1.0"\nedition = "2021"\n'
        if rng.random() < 0.3:
            text += 'build = "tools/make.rs"\n'
            files[f"crates/{name}/tools/make.rs"] = "fn main() {}"
        if rng.random() < 0.3:
            text += '[[bin]]\nname = "tool"\npath = "tool.rs"\n'
            files[f"crates/{name}/tool.rs"] = "fn main() {}"
        if rng.random() < 0.3:
            files[f"crates/{name}/src/bin/{name}x.rs"] = "fn main() {}"
        library = rng.choice(("src/lib.rs", "other/l.rs"))
        text += f'[lib]\npath = "{library}"\n' if library != "src/lib.rs" else ""
        files[f"crates/{name}/{library}"] = ""
        for other in needs[name]:
            kind = rng.choice(("dependencies", "dev-dependencies", "build-dependencies", "target.'cfg(unix)'.dependencies"))
            form = rng.choice(('[{0}.{1}]\npath = "../{1}"\n', "[{0}.{1}]\nworkspace = true\n"))
            text += form.format(kind, other)
        files[f"crates/{name}/Cargo.toml"] = text
    return files, needs


def test_never_less_than_cargo_metadata(tmp_path):
    need("cargo")
    for seed in range(12):
        files, needs = made_workspace(random.Random(seed))
        folder = tmp_path / str(seed)
        for path, text in files.items():
            (folder / path).parent.mkdir(parents=True, exist_ok=True)
            (folder / path).write_text(text, encoding="utf-8")
        command = ["cargo", "metadata", "--offline", "--format-version=1", "--no-deps"]
        output = subprocess.run(command, cwd=folder, check=True, capture_output=True).stdout
        packages = {one["name"]: one for one in json.loads(output)["packages"]}
        for name, package in packages.items():
            assert sorted(one["name"] for one in package["dependencies"]) == sorted(needs[name])
            found = closure(files, f"crates/{name}/Cargo.toml").files
            around = [name]
            for one in around:
                around += [other for other in needs[one] if other not in around]
            expected = {"Cargo.toml"}
            for one in around:
                expected.add(f"crates/{one}/Cargo.toml")
                expected |= {target["src_path"].partition(f"/{seed}/")[2] for target in packages[one]["targets"]}
            assert set(found) == expected


# TOML


class Toml:
    """A document, made at random, with all ways to write each thing."""

    def __init__(self, rng):
        self.rng = rng

    def key(self):
        name = self.rng.choice("abcdefg") + self.rng.choice(("", "-1", "_", "2"))
        return self.rng.choice((name, name, f'"{name}"', f"'{name}'", f'"{name}.x"', f'"\\u00e9{name}"'))

    def dotted(self):
        return self.rng.choice((".", " . ")).join(self.key() for _ in range(self.rng.choice((1, 1, 1, 2, 3))))

    def value(self, depth=0):
        plain = (
            *(
                '"x"',
                '"a\\tb\\"\\\\"',
                "'c:\\d'",
                '"""\na\n"b" \\\n   c"""',
                "'''\n'a' \\'''",
                '""',
                "''",
                '""""a"""""',
                "''''a'''''",
            ),
            *("1", "-0", "+1_000", "0xfF", "0o17", "0b101", "1.5", "-1e3", "6.02E-2_3", "inf", "-inf", "true", "false"),
        )
        if depth < 3 and self.rng.random() < 0.3:
            count = self.rng.randrange(4)
            if self.rng.random() < 0.5:
                blank = self.rng.choice(("", " ", "\n", " # no ]\n"))
                return f"[{blank}" + f"{blank},{blank}".join(self.value(depth + 1) for _ in range(count)) + f"{blank}]"
            return "{" + ", ".join(f"{self.dotted()} = {self.value(depth + 1)}" for _ in range(count)) + "}"
        return self.rng.choice(plain)

    def document(self):
        lines = []
        for _ in range(self.rng.randrange(12)):
            kind = self.rng.random()
            comment = self.rng.choice(("", " # = [x]", "\t", "\n"))
            if kind < 0.2:
                lines.append(f"[{self.dotted()}]{comment}")
            elif kind < 0.3:
                lines.append(f"[[{self.dotted()}]]{comment}")
            else:
                lines.append(f"{self.dotted()} {self.rng.choice(('=', ' = '))}{self.value()}{comment}")
        text = self.rng.choice(("\n", "\r\n")).join(lines)
        if self.rng.random() < 0.2 and text:  # broken, perhaps
            at = self.rng.randrange(len(text))
            text = (
                text[:at]
                + self.rng.choice(("", '"', "'", "[", "]", "{", "}", "=", ".", ",", "\n", "\\", "#"))
                + text[at + 1 :]
            )
        return text


def disagreements(seeds):
    tomllib = importlib.import_module("tomllib")
    result, both = [], 0
    for seed in seeds:
        text = Toml(random.Random(seed)).document()
        try:
            theirs = tomllib.loads(text)
        except tomllib.TOMLDecodeError:
            theirs = None
        try:
            ours = toml.read(text.encode())
        except toml.TomlFault:
            ours = None
        # TOML 1.1 allows line ends in inline tables: there theirs may be None.
        if theirs is not None and repr(ours) != repr(theirs):
            result.append((seed, text))
        both += theirs is not None
    return result, both


@pytest.mark.skipif(sys.version_info < (3, 11), reason="tomllib comes with Python 3.11")
def test_read_as_the_standard_library_reads():
    wrong, both = disagreements(range(1500))
    assert wrong == []
    assert both > 300


def test_lines():
    table = toml.read(b'# a\n[dependencies]\nb = 1\n\nc.d = """\n\n"""\ne = 2\n')
    assert table["dependencies"].lines == {"b": 3, "c": 5, "e": 8}
