"""A tree in memory, and made Rust crates whose files are known: the rules of rustc, walked forwards."""

from __future__ import annotations

import hashlib
import posixpath
import random
import subprocess

import pytest

from touchgate.gate.closure.cache import Cache
from touchgate.gate.closure.graph import Graph
from touchgate.gate.closure.references import Settings
from touchgate.gate.closure.tree import Entry, _Walked

LINK, MODULE = b"\0link:", b"\0module"
"""How the content of a symbolic link begins; what stands for a submodule."""


def need(program):
    """Skip where a tool of Rust's is missing, or is there as rustup's stand-in without a toolchain behind it."""
    try:
        subprocess.run([program, "--version"], check=True, capture_output=True)
    except (OSError, subprocess.CalledProcessError):
        pytest.skip(f"unmeasured: {program} (rustup.rs, or Debian's package of that name)")


class Memory(_Walked):
    """A tree from its files."""

    def __init__(self, files):
        super().__init__()
        self.files = {path: text.encode() if isinstance(text, str) else text for path, text in files.items()}
        self.by_folder = {"": {}}
        for path, content in self.files.items():
            kind = "link" if content.startswith(LINK) else "gitlink" if content == MODULE else "file"
            above, _, name = path.rpartition("/")
            self.by_folder.setdefault(above, {})[name] = Entry(kind, hashlib.sha1(content).hexdigest())
            while above:
                folder, (above, _, name) = above, above.rpartition("/")
                self.by_folder.setdefault(above, {})[name] = Entry("folder")
                assert folder in self.by_folder

    def _entries(self, folder):
        return self.by_folder.get(folder)

    def _target(self, link, entry):
        return self.files[link].removeprefix(LINK).decode()

    def read(self, paths):
        return {path: self.files[place.real] if (place := self._file(path)) else None for path in paths}

    def blob_id(self, path):
        place = self._file(path)
        return place and place.entry.id

    def below(self, folder):
        return sorted(path for path in self.files if not folder or path.startswith(f"{folder}/"))


def closure(files, *sources):
    return Graph(Memory(files), Cache(None)).closure(sources, Settings())


NOISE = (
    "// mod no;",
    '/* mod no; /* mod no; */ include!("no") mod no; */',
    '/// mod no; include_str!("no")\npub fn documented@() {}',
    'pub const S@: &str = "mod no; \\" mod no; include_str!(\\"no\\")";',
    'pub const R@: &str = r##"mod no; "# mod no; \\"##;',
    'pub const B@: &[u8] = b"mod no; \\" { mod no;";',
    'pub const RB@: &[u8] = br#"mod no; " { mod no;"#;',
    "pub const C@: (char, char, char, char) = ('{', '\"', '\\'', '\\\\');",
    "pub const U@: (char, u8) = ('\\u{7b}', b'{');",
    "pub fn life@<'a, 'r>(a: &'a str, _b: &'r str) -> &'a str { 'outer: loop { break 'outer; } a }",
    "pub const N@: (u8, f64, u32) = (1u8, 1.0e3, 0x1f);",
    "pub fn model@() -> u8 { let module = 1; module }",
    "#[cfg(any())] mod no@;",
    '#[doc = "mod no;"] pub struct D@;',
    "pub fn raw@() -> u8 { let r#mod = 1u8; r#mod }",
    "pub fn shift@(a: u32) -> bool { a << 2 > 1 && a >> 1 < 3 }",
)
VISIBLE = ("", "pub ", "pub(crate) ", "pub(in crate) ", "/* a */ pub/**/ ")
BETWEEN = ("", "\n", " /* mod no; */ ", "\n#[allow(unused)]\n", "\n/// A module.\n", '#[doc = r#"]"#]')


class Maker:
    """One crate. files: path -> text. named: what the compiler reads of them, from src/lib.rs on."""

    def __init__(self, seed, *, macros=True):
        self.rng = random.Random(seed)
        self.files = {}
        self.named = set()
        self.count = 0
        self.macros = macros
        self.known = []
        self.on = self.rng.random() < 0.5
        self.file("src/lib.rs", "src", None, 0)

    def fresh(self, stem="m"):
        self.count += 1
        return f"{stem}{self.count}"

    def put(self, path, text, *, named=True):
        path = posixpath.normpath(path)
        self.files[path] = text
        if named:
            self.named.add(path)

    def file(self, path, folder, relative, depth):
        text = self.items(posixpath.dirname(path), folder, relative, depth)
        self.put(path, text.replace("\n", "\r\n") if self.rng.random() < 0.05 else text)

    def items(self, here, folder, relative, depth):
        """here: the file's folder. folder, relative: rustc's words for where modules lie."""
        parts = []
        known, self.known = self.known, list(self.known)
        for _ in range(self.rng.randint(1, 6 if depth < 2 else 3)):
            parts.append(self.noise())
            kinds = [self.data, self.data, self.included, self.wrapped]
            if depth < 5:
                kinds += [self.plain, self.plain, self.pathed, self.inline, self.inline_pathed, self.conditional, self.block]
            if self.macros:
                kinds += [self.macro, self.used]
            parts.append(self.rng.choice(kinds)(here, folder, relative, depth))
        self.known = known
        return "\n".join(parts)

    def noise(self):
        return self.rng.choice(NOISE).replace("@", self.fresh("_"))

    def head(self, attribute=""):
        between = self.rng.choice(BETWEEN)
        return f"{self.rng.choice(BETWEEN)}\n{attribute}{between}\n{self.rng.choice(VISIBLE)}"

    def plain(self, here, folder, relative, depth, name=None):
        name = name or self.fresh()
        base = posixpath.join(folder, relative or "")
        if self.rng.random() < 0.5:
            self.file(posixpath.join(base, f"{name}.rs"), base, name, depth + 1)
        else:
            self.file(posixpath.join(base, name, "mod.rs"), posixpath.join(base, name), None, depth + 1)
        raw = self.rng.choice(("", "", "r#"))
        return f"{self.head()}{self.rng.choice(('mod ', 'mod/**/', 'mod  // mod no;' + chr(10)))}{raw}{name} ;"

    def somewhere(self, folder, ending):
        """A path as seen from a folder that is there."""
        name = self.fresh("f") + ("é" if self.rng.random() < 0.05 else "")
        forms = [f"{name}{ending}", f"sub/{name}{ending}", f"./{name}{ending}", f"sub/deeper/{name}{ending}"]
        if not posixpath.normpath(f"{folder}/..").startswith(".."):
            self.put(posixpath.join(folder, "keep"), "", named=False)
            forms += [f"../{name}{ending}", f"../other/{name}{ending}"]
        return self.rng.choice(forms)

    def literal(self, text):
        return self.rng.choice((f'"{text}"', f'r"{text}"', f'r#"{text}"#', '"' + text.replace("/", "\\x2f") + '"'))

    def pathed(self, here, folder, relative, depth):
        path = self.somewhere(folder, self.rng.choice((".rs", ".inc")))
        whole = posixpath.join(folder, path)
        self.file(whole, posixpath.dirname(whole), None, depth + 1)
        return f"{self.head(f'#[path = {self.literal(path)}]')}mod {self.fresh()};"

    def inline(self, here, folder, relative, depth):
        name = self.fresh()
        inside = self.items(here, posixpath.join(folder, relative or "", name), None, depth + 1)
        return f"{self.head()}mod {name} {{\n{inside}\n}}"

    def inline_pathed(self, here, folder, relative, depth):
        path = self.rng.choice(("inner", "in/ner", "./inner"))
        inside = self.items(here, posixpath.join(folder, path), None, depth + 1)
        return f"{self.head(f'#[path = {self.literal(path)}]')}mod {self.fresh()} {{\n{inside}\n}}"

    def conditional(self, here, folder, relative, depth):
        path, name = self.somewhere(folder, ".rs"), self.fresh()
        whole = posixpath.join(folder, path)
        if self.on:
            self.file(whole, posixpath.dirname(whole), None, depth + 1)
        else:
            self.plain(here, folder, relative, depth, name)
        condition = self.rng.choice(('path = "{}"', 'allow(unused), path = "{}"', 'cfg_attr(on, path = "{}")')).format(path)
        return f"{self.head(f'#[cfg_attr(on, {condition})]')}mod {name};"

    def block(self, here, folder, relative, depth):
        path = self.somewhere(folder, ".rs")
        whole = posixpath.join(folder, path)
        self.file(whole, posixpath.dirname(whole), None, depth + 1)
        return f'pub fn {self.fresh()}() {{ {{ #[path = "{path}"] mod {self.fresh()}; }} }}'

    def data(self, here, folder, relative, depth):
        if self.rng.random() < 0.3:
            path = f"data/{self.fresh('d')}.bin"
            self.put(path, "mod no; {")
            argument = self.rng.choice((
                f'concat!(env!("CARGO_MANIFEST_DIR"), "/{path}")',
                f'::std::concat![::core::env!("CARGO_MANIFEST_DIR"), "/", concat!("{path[:3]}", r"{path[3:]}"),]',
            ))  # fmt: skip
        else:
            path = self.somewhere(here, ".txt")
            self.put(posixpath.join(here, path), 'mod no; "')
            argument = self.rng.choice((self.literal(path), f'concat!("{path[:2]}", "{path[2:]}")', f'"{path}" ,'))
        call = self.rng.choice(("include_bytes!({})", "std::include_bytes! [ {} ]", "core::include_bytes!/*(*/{{{}}}"))
        return f"pub const {self.fresh('K')}: &[u8] = {call.format(argument)};"

    def wrapped(self, here, folder, relative, depth):
        path = self.somewhere(here, ".md")
        self.put(posixpath.join(here, path), "# mod no;")
        name = self.fresh("w")
        return self.rng.choice((
            f'#[doc = include_str!("{path}")]\npub struct {name};',
            f'pub fn {name}() {{ println!("{{}}", include_str!("{path}")); }}',
            f'pub fn {name}() -> Vec<&\'static str> {{ vec![include_str!("{path}"), concat!("a", include_str!("{path}"))] }}',
            f'pub mod {name} {{ use std::include_str as inc; pub const X: &str = inc!("{path}"); }}',
        ))  # fmt: skip

    def included(self, here, folder, relative, depth):
        if depth >= 5:
            return ""
        path = self.somewhere(here, self.rng.choice((".rs", ".in")))
        whole = posixpath.join(here, path)
        # It is the same module: a macro's module would be there twice.
        known, self.known = self.known, []
        self.file(whole, posixpath.dirname(whole), None, depth + 1)
        self.known = known
        return f'include!("{path}");'

    def macro(self, here, folder, relative, depth):
        """A macro that names files, which are looked up from where it is used."""
        name = self.fresh("mac")
        kind = self.rng.choice(("data", "module"))
        target = self.fresh("t")
        self.known.append((name, kind, target))
        if kind == "data":
            return f'#[allow(unused)] macro_rules! {name} {{ () => {{ include_str!("{target}.txt") }} }}'
        return f"#[allow(unused)] macro_rules! {name} {{ () => {{ mod {target}; }} }}"

    def used(self, here, folder, relative, depth):
        if not self.known:
            return ""
        name, kind, target = self.known.pop(self.rng.randrange(len(self.known)))
        if kind == "data":
            self.put(posixpath.join(here, f"{target}.txt"), "x")
            return f"pub const {self.fresh('K')}: &str = {name}!();"
        self.put(posixpath.join(folder, relative or "", f"{target}.rs"), "pub fn f() {}")
        return f"{name}!();"
