"""The manifest's lint, and the only way to add vectors."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.tiny_family import DECODER, HEAD, SOURCE, make, new
from touchgate import adding, golden
from touchgate.adding import Blob, NewVector, add, new_vector
from touchgate.golden import VectorFault

ROOT = Path(__file__).resolve().parent.parent
FAMILY = ROOT / "vectors" / "rans"


@pytest.fixture
def folder(tmp_path):
    return make(tmp_path)


def messages(root):
    return [problem.message for problem in golden.check(root)]


def edit(folder, change):
    """Change a manifest's data and write it."""
    data = golden.read_manifest(folder)
    change(data)
    (folder / "manifest.json").write_text(golden.dumps(data), encoding="utf-8")


def snapshot(folder):
    return {path: (folder / path).read_bytes() for path in golden.present(folder)}


# ---- the text


def test_what_a_manifest_looks_like(folder):
    text = (folder / "manifest.json").read_text(encoding="utf-8")
    sha = golden.digest
    assert text == (
        "{\n"
        '  "about": "tiny things",\n'
        '  "count": 3,\n'
        '  "decoder": "kernels/tiny.py",\n'
        '  "family": "tiny",\n'
        '  "files": [\n'
        f'    {{"bytes": 8, "path": "streams/all.bin", "sha256": "{sha(bytes([1, 2, 3, 4, 5, 6, 255, 7]))}"}}\n'
        "  ],\n"
        '  "kernel": "kernels/tiny.cu",\n'
        '  "schema": 1,\n'
        '  "sources": {\n'
        '    "hand": {"command": "typed", "date": "2026-11-30", "licence": "CC0-1.0", '
        '"tool": "a hand", "version": "1"}\n'
        "  },\n"
        '  "vectors": [\n'
        f'    {{"digest": "{sha(bytes([4, 0, 5, 0]))}", "name": "a", "source": "hand", "status": "ok", '
        f'"stream": {{"bytes": 2, "file": "streams/all.bin", "offset": 3, "sha256": "{sha(bytes([4, 5]))}"}}, '
        '"values": [4, 5]},\n'
        f'    {{"digest": "{sha(bytes([1, 0, 2, 0, 3, 0]))}", "name": "b", "source": "hand", "status": "ok", '
        f'"stream": {{"bytes": 3, "file": "streams/all.bin", "offset": 0, "sha256": "{sha(bytes([1, 2, 3]))}"}}, '
        '"values": [1, 2, 3]},\n'
        f'    {{"digest": "{sha(bytes([6, 0]))}", "name": "c", "source": "hand", "status": "stop", '
        f'"stream": {{"bytes": 3, "file": "streams/all.bin", "offset": 5, "sha256": "{sha(bytes([6, 255, 7]))}"}}, '
        '"values": [6]}\n'
        "  ]\n"
        "}\n"
    )
    assert golden.dumps(golden.loads(text)) == text
    assert golden.line_of(text, "b") == 16
    assert golden.line_of(text, "no such") == 1


def test_the_committed_vectors_have_no_problems():
    assert golden.check(ROOT) == []


@pytest.mark.usefixtures("folder")
def test_a_fresh_family_has_no_problems_and_no_vectors_folder_has_none_either(tmp_path):
    assert golden.check(tmp_path) == []
    assert golden.check(tmp_path / "kernels") == []


# ---- the lint


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "line 1, column 1: Expecting value"),
        ("{\n 1}", "line 2, column 2: Expecting property name enclosed in double quotes"),
        ("[]", "is not a JSON object"),
        ('{"a": 1, "a": 2}', "the key 'a' is there twice"),
        ("[" * 100000, "is nested too deeply"),
        ('{"count": ' + "9" * 5000 + "}", "Exceeds the limit (4300"),
        (
            "\udcff",
            "manifest.json can't be read: 'utf-8' codec can't decode byte 0xff in position 0: invalid start byte",
        ),
    ],
)
def test_a_manifest_that_is_no_manifest(folder, tmp_path, text, message):
    (folder / "manifest.json").write_bytes(os.fsencode(text))
    (found,) = messages(tmp_path)
    assert found.startswith(message)
    with pytest.raises(VectorFault):
        golden.read_head(folder)


def put(*path, to):
    """A change: set what lies at the path; an Exception-free way to write a table of breakages."""

    def change(data):
        for step in path[:-1]:
            data = data[step]
        data[path[-1]] = to

    return change


def drop(*path):
    def change(data):
        for step in path[:-1]:
            data = data[step]
        del data[path[-1]]

    return change


@pytest.mark.parametrize(
    ("change", "wanted"),
    [
        (put("schema", to=2), "schema 2 is not known; this touchgate reads 1"),
        (put("family", to="other"), "family 'other' is not the folder's name"),
        (put("count", to=4), "count says 4, there are 3 vectors"),
        (put("count", to="3"), "'count' is missing or is not a number"),
        (drop("files"), "'files' is missing or is not a list"),
        (put("more", to=1), "unknown key 'more'"),
        (put("decoder", to="kernels/none.py"), "the decoder kernels/none.py does not exist"),
        (put("kernel", to="../none.cu"), "kernel '../none.cu' is not a plain path inside the repository"),
        (put("decoder", to="a\0b"), "decoder 'a\\x00b' is not a plain path inside the repository"),
        (put("sources", "hand", "generator", to=[1]), "source 'hand': its generator [1] is not a plain path"),
        (put("sources", "hand", "generator", to="make.py"), "source 'hand': its generator make.py does not exist"),
        (put("kernel", to="kernels/none.cu"), "the kernel kernels/none.cu does not exist"),
        (put("files", 0, "bytes", to=9), "streams/all.bin has 8 bytes, the manifest says 9"),
        (put("files", 0, to={"path": "x"}), 'a file is not described by path, bytes and sha256: {"path": "x"}'),
        (put("files", 0, "path", to="../x"), "'../x' is not a plain path inside the folder"),
        (put("sources", "hand", "date", to="today"), "source 'hand': date 'today' is not YYYY-MM-DD"),
        (put("sources", "hand", "licence", to=" "), "source 'hand': 'licence' is missing"),
        (put("sources", "hand", "wheel", to="x"), "source 'hand': unknown key 'wheel'"),
        (put("sources", "hand", "artifact", to="x"), "source 'hand': 'artifact' and 'artifact_sha256' go together"),
        (put("sources", "hand", to=3), "source 'hand' is not an object"),
        (put("sources", "foot", to={}), "no vector comes from the source 'foot'"),
        (put("vectors", 0, "source", to="foot"), "a: its source 'foot' is not among the sources"),
        (put("vectors", 0, "digest", to="AB"), "a: 'digest' is not a SHA-256 in lower case"),
        (drop("vectors", 1, "status"), "b: 'status' is missing or is not a string"),
        (drop("vectors", 1, "name"), "a vector has no name: "),
        (put("vectors", 0, "name", to="A b"), "'A b' is no name: "),
        (put("vectors", 0, "name", to="b"), "the name b is there twice"),
        (put("vectors", 0, "name", to="z"), "vectors are not sorted by name"),
        (put("vectors", 0, "stream", "offset", to=7), "a: stream: bytes 7 to 9 are not in streams/all.bin (8 bytes)"),
        (
            put("vectors", 0, "stream", "offset", to=2),
            "a: stream: bytes 2 to 4 of streams/all.bin have another SHA-256",
        ),
        (put("vectors", 0, "stream", "offset", to=-1), "a: 'stream' is not file, offset, bytes and sha256"),
        (put("vectors", 0, "stream", "file", to="x"), "a: stream is in x, which is not among the manifest's files"),
        (put("vectors", to=[]), "there are no vectors"),
        (put("schema", to=True), "'schema' is missing or is not a number"),
        (put("count", to=True), "'count' is missing or is not a number"),
        (put("files", 0, "bytes", to=True), "a file is not described by path, bytes and sha256"),
        (put("sources", "hand", "about", to=[1]), "source 'hand': 'about' is not a string"),
        (put("sources", "hand", "seed", to=True), "source 'hand': 'seed' is not a whole number or a string"),
        (put("vectors", 0, "about", to=7), "a: 'about' is not a string"),
        (put("vectors", 0, "stream", "more", to=1), "a: 'stream' is not file, offset, bytes and sha256"),
        (put("vectors", 0, "stream", "offset", to=True), "a: 'stream' is not file, offset, bytes and sha256"),
        (drop("vectors", 0, "stream", "bytes"), "a: 'stream' is not file, offset, bytes and sha256"),
        (put("vectors", 0, "values", to=[4, 6]), "a: 'values' and 'digest' do not belong to each other"),
        (put("vectors", 0, "values", to=[4, 5, 5]), "a: 'values' and 'digest' do not belong to each other"),
        (put("vectors", 0, "values", to=[]), "a: 'values' and 'digest' do not belong to each other"),
        (put("vectors", 0, "values", to=[4, True]), "a: 'values' is not a list of whole numbers"),
        (put("vectors", 0, "values", to=None), "a: 'values' is not a list of whole numbers"),
        (put("vectors", 0, "values", to=[1 << 70]), "a: 'values' and 'digest' do not belong to each other"),
        (put("vectors", 0, "values", to=[0] * 17), "a: 'values' has 17 numbers; more than 16 are not listed"),
        (put("vectors", 0, "digest", to=golden.digest(b"")), "a: 'values' and 'digest' do not belong to each other"),
        (
            put("vectors", 0, to={"name": "a", "source": "hand", "status": "ok", "digest": golden.digest(b"")}),
            "a: 'values' is missing: the digest is that of nothing",
        ),
    ],
)
def test_each_thing_that_can_be_wrong_is_said(folder, tmp_path, change, wanted):
    edit(folder, change)
    found = messages(tmp_path)
    assert any(message.startswith(wanted) for message in found), found


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.sampled_from(["a", "streams/all.bin"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=4,
)


def places(value, path=()):
    """Every path into a JSON value."""
    yield path
    for key, inner in value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ():
        yield from places(inner, (*path, key))


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=150)
@given(st.data())
def test_whatever_is_put_in_is_a_problem_and_never_an_exception(folder, tmp_path, data):
    manifest = (folder / "manifest.json").read_bytes()
    try:
        changed = golden.loads(manifest.decode())
        path = data.draw(st.sampled_from([path for path in places(changed) if path]))
        put(*path, to=data.draw(JSON))(changed)
        (folder / "manifest.json").write_text(json.dumps(changed), encoding="utf-8")
        assert golden.check(tmp_path)
        with suppress(VectorFault):
            add(tmp_path, "tiny", [NewVector("b", {"stream": BLOB}, b"\x08\0")], SOURCE)
    finally:
        (folder / "manifest.json").write_bytes(manifest)


BLOB = Blob("streams/more.bin", b"\x08")


def test_a_problem_names_the_vectors_line(folder, tmp_path):
    edit(folder, put("vectors", 1, "stream", "offset", to=1))
    assert [str(problem) for problem in golden.check(tmp_path)] == [
        "vectors/tiny/manifest.json:16: b: stream: bytes 1 to 4 of streams/all.bin have another SHA-256"
    ]


def test_a_changed_byte_a_missing_file_and_one_too_many(folder, tmp_path):
    place = folder / "streams" / "all.bin"
    data = place.read_bytes()
    place.write_bytes(data[:-1] + b"x")
    assert f"streams/all.bin has SHA-256 {golden.digest(data[:-1] + b'x')}" in messages(tmp_path)[0]
    place.unlink()
    assert "streams/all.bin can't be read: No such file or directory" in messages(tmp_path)
    place.write_bytes(data)
    (folder / "notes.txt").write_text("x", encoding="utf-8")
    (folder / "README.md").write_text("x", encoding="utf-8")
    assert messages(tmp_path) == ["notes.txt is in the folder, but the manifest does not name it"]


def test_a_file_that_no_vector_uses(folder, tmp_path):
    (folder / "spare.bin").write_bytes(b"x")
    item = {"path": "spare.bin", "bytes": 1, "sha256": golden.digest(b"x")}
    edit(folder, lambda data: data["files"].insert(0, item))
    assert messages(tmp_path) == ["no vector uses spare.bin"]


@pytest.fixture(autouse=True)
def no_module_stays():
    """A decoder that was loaded stays a module; hypothesis reads every module's file, and one of these becomes a pipe."""
    yield
    for name in [name for name in sys.modules if name.startswith("touchgate_oracle_")]:
        del sys.modules[name]


def pipe(place, outside):
    os.mkfifo(place)


def device(place, outside):
    place.symlink_to("/dev/zero")


def elsewhere(place, outside):
    outside.write_bytes(b"1")
    place.symlink_to(outside)


def circle(place, outside):
    place.symlink_to(place)


@pytest.mark.parametrize("kind", [pipe, device, elsewhere, circle])
@pytest.mark.parametrize("name", ["streams/all.bin", "manifest.json"])
def test_what_is_no_file_of_the_folder_is_not_read(folder, tmp_path, name, kind):
    (folder / name).unlink()
    kind(folder / name, tmp_path / "outside")
    why = "is not a regular file" if kind is pipe else "leads out of the folder"
    found = messages(tmp_path)
    assert any(message == f"{name} {why}" for message in found), found
    with pytest.raises(VectorFault, match=f"{name} {why}"):
        golden.read_within(folder, name)
    with pytest.raises(VectorFault):
        add(tmp_path, "tiny", [NewVector("d", {"stream": BLOB}, b"\x08\0")], SOURCE)


@pytest.mark.parametrize("kind", [pipe, device, elsewhere, circle])
@pytest.mark.parametrize("what", ["decoder", "kernel"])
def test_a_decoder_or_kernel_outside_the_repository(tmp_path, what, kind):
    root = tmp_path / "root"
    root.mkdir()
    make(root)
    place = root / getattr(HEAD, what)
    place.unlink()
    kind(place, tmp_path / "outside")
    (found,) = messages(root)
    assert found == f"the {what} kernels/{place.name} {'does not exist' if kind is pipe else 'leads out of the repository'}"
    with pytest.raises(VectorFault, match=f"the {what} kernels/{place.name} "):
        add(root, "tiny", [NewVector("d", {"stream": BLOB}, b"\x08\0")], SOURCE)


@pytest.mark.parametrize("name", ["vectors", "vectors/tiny"])
def test_a_folder_outside_the_repository(tmp_path, name):
    root = tmp_path / "root"
    root.mkdir()
    make(root)
    (root / name).rename(tmp_path / "away")
    (root / name).symlink_to(tmp_path / "away")
    (found,) = messages(root)
    assert found in ("leads out of the repository", "its folder leads out of the repository")
    before = snapshot(tmp_path / "away")
    with pytest.raises(VectorFault, match="vectors/tiny leads out of the repository"):
        add(root, "tiny", [NewVector("d", {"stream": BLOB}, b"\x08\0")], SOURCE)
    assert snapshot(tmp_path / "away") == before


def test_nothing_is_written_through_a_link(folder, tmp_path):
    (tmp_path / "away").mkdir()
    (folder / "new").symlink_to(tmp_path / "away")
    vectors = [NewVector("d", {"stream": replace(BLOB, file="new/x.bin")}, b"\x08\0")]
    with pytest.raises(VectorFault, match="leads out of the family's folder"):
        add(tmp_path, "tiny", vectors, SOURCE)
    assert list((tmp_path / "away").iterdir()) == []


def test_a_file_is_not_read_when_it_is_larger_than_it_may_be(folder):
    with pytest.raises(VectorFault, match=r"streams/all.bin has 8 bytes; at most 7 are read"):
        golden.read_within(folder, "streams/all.bin", 7)
    os.truncate(folder / "streams" / "all.bin", golden.MOST_OF_FILE + 1)
    with pytest.raises(VectorFault, match=f"at most {golden.MOST_OF_FILE} are read"):
        golden.read_within(folder, "streams/all.bin")


def test_a_link_that_leads_out_of_the_folder(folder, tmp_path):
    place = folder / "streams" / "all.bin"
    place.rename(tmp_path / "all.bin")
    place.symlink_to(tmp_path / "all.bin")
    assert "streams/all.bin leads out of the folder" in messages(tmp_path)


def test_an_edit_by_hand(folder, tmp_path):
    data = golden.read_manifest(folder)
    (folder / "manifest.json").write_text(json.dumps(data), encoding="utf-8")
    assert messages(tmp_path) == ["was edited by hand: its text is not what `doit vectors add` writes"]


def test_two_vectors_of_one_content(folder, tmp_path):
    def twice(data):
        data["vectors"].insert(1, {**data["vectors"][0], "name": "aa", "about": "the same"})
        data["count"] = 4

    edit(folder, twice)
    assert messages(tmp_path) == ["aa is the same as a"]


@pytest.mark.usefixtures("folder")
def test_a_folder_without_a_manifest_and_a_file_in_no_family(tmp_path):
    (tmp_path / "vectors" / "none").mkdir()
    (tmp_path / "vectors" / "stray.bin").write_bytes(b"")
    assert [str(problem) for problem in golden.check(tmp_path)] == [
        "vectors/none/manifest.json:1: there is no manifest.json",
        "vectors/stray.bin:1: belongs to no family; move it into a family's folder",
    ]


# ---- adding


def test_more_vectors_keep_the_order_and_what_is_there(folder, tmp_path):
    before = snapshot(folder)
    more = [replace(new("aa", b"\x08"), fields={"stream": Blob("streams/more.bin", b"\x08")}, about="late")]
    assert add(tmp_path, "tiny", more, replace(SOURCE, name="foot")) == ("aa",)
    after = snapshot(folder)
    assert golden.check(tmp_path) == []
    assert [vector["name"] for vector in golden.read_manifest(folder)["vectors"]] == ["a", "aa", "b", "c"]
    assert after["streams/all.bin"] == before["streams/all.bin"]
    assert after["streams/more.bin"] == b"\x08"


@pytest.mark.parametrize(
    ("vectors", "change", "message"),
    [
        ([], {}, "no vectors were given"),
        ([NewVector("a", {"stream": BLOB}, b"\x08\0")], {}, "there is a vector a already"),
        ([NewVector("A", {"stream": BLOB}, b"\x08\0")], {}, "'A' is no name"),
        ([NewVector("d", {"stream": BLOB}, b"\x09\0")], {}, "d: value 0 is 8 by the oracle, expected was 9"),
        (
            [NewVector("d", {"stream": BLOB}, b"\x08")],
            {},
            "the oracle gives 1 values of 2 bytes, the expected ones are 1",
        ),
        ([NewVector("d", {"stream": BLOB})], {}, "d: give the expected values"),
        ([NewVector("d", {"stream": BLOB}, b"\x08\0", "stop")], {}, "d: the oracle says ok, given was stop"),
        ([NewVector("d", {"stream": BLOB, "digest": "x"}, b"\x08\0")], {}, "d: 'digest' is not a field to give"),
        ([NewVector("d", {"strem": BLOB}, b"\x08\0")], {}, "d: has no 'stream'"),
        ([NewVector("d", {"stream": "x"}, b"\x08\0")], {}, 'd: "x" is not file, offset, bytes and sha256'),
        ([new("d", b"\x08")], {}, "streams/all.bin exists already; give the new file another name"),
        ([NewVector("d", {"stream": replace(BLOB, file="../x")}, b"\x08\0")], {}, "'../x' is not a plain path"),
        ([NewVector("d", {"stream": replace(BLOB, data=b"\4\5")}, b"\4\0\5\0")], {}, "d is the same as a"),
        ([NewVector("d", {"stream": BLOB}, b"\x08\0")], {"version": "2"}, "there is another source 'hand' already"),
        (
            [NewVector("d", {"stream": BLOB}, b"\x08\0")],
            {"name": "x", "licence": ""},
            "source 'x': 'licence' is missing",
        ),
        ([NewVector("d", {"stream": BLOB}, b"\x08\0")], {"more": {"colour": 1}}, "source 'hand': unknown key 'colour'"),
    ],
)
def test_what_is_refused_leaves_the_folder_as_it_was(folder, tmp_path, vectors, change, message):
    before = snapshot(folder)
    with pytest.raises(VectorFault, match=message.replace("(", r"\(")):
        add(tmp_path, "tiny", vectors, replace(SOURCE, **change))
    assert snapshot(folder) == before


def test_a_file_that_is_there_is_never_overwritten(folder, tmp_path):
    (folder / "streams" / "more.bin").write_bytes(b"mine")
    with pytest.raises(VectorFault, match=r"exists and differs; what is there is never overwritten"):
        add(tmp_path, "tiny", [NewVector("d", {"stream": BLOB}, b"\x08\0")], SOURCE)
    assert (folder / "streams" / "more.bin").read_bytes() == b"mine"


def test_who_was_interrupted_calls_again(folder, tmp_path, monkeypatch):
    before = snapshot(folder)
    vectors = [NewVector("d", {"stream": BLOB}, b"\x08\0")]

    def interrupt(*_):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(adding, "_replace", interrupt)
        with pytest.raises(KeyboardInterrupt):
            add(tmp_path, "tiny", vectors, SOURCE)
    assert snapshot(folder) == {**before, "streams/more.bin": b"\x08"}
    assert messages(tmp_path) == ["streams/more.bin is in the folder, but the manifest does not name it"]
    add(tmp_path, "tiny", vectors, SOURCE)
    assert golden.check(tmp_path) == []


def test_a_damaged_folder_takes_nothing_in(folder, tmp_path):
    (folder / "streams" / "all.bin").write_bytes(b"")
    with pytest.raises(VectorFault, match=r"streams/all.bin has 0 bytes, the manifest says 8"):
        add(tmp_path, "tiny", [NewVector("d", {"stream": BLOB}, b"\x08\0")], SOURCE)
    assert not (folder / "streams" / "more.bin").exists()


@pytest.mark.usefixtures("folder")
def test_a_family_is_begun_once_and_with_its_head(tmp_path):
    vectors = [NewVector("d", {"stream": BLOB}, b"\x08\0")]
    with pytest.raises(VectorFault, match=r"the family 'tiny' exists"):
        add(tmp_path, "tiny", vectors, SOURCE, head=HEAD)
    with pytest.raises(VectorFault, match=r"there is no family 'other'; give its about, decoder and kernel"):
        add(tmp_path, "other", vectors, SOURCE)
    with pytest.raises(VectorFault, match=r"the decoder kernels/none.py does not exist"):
        add(tmp_path, "other", vectors, SOURCE, head=replace(HEAD, decoder="kernels/none.py"))
    assert sorted(entry.name for entry in (tmp_path / "vectors").iterdir()) == ["tiny"]
    with pytest.raises(VectorFault, match=r"'../x' is no name of a family"):
        add(tmp_path, "../x", vectors, SOURCE, head=HEAD)


@pytest.mark.usefixtures("folder")
def test_a_folder_that_can_not_be_written(tmp_path, monkeypatch):
    def refuse(*_):
        raise PermissionError(13, "Permission denied", "streams/more.bin")

    monkeypatch.setattr(adding, "_put", refuse)
    with pytest.raises(VectorFault, match=r"streams/more.bin can't be written: Permission denied"):
        add(tmp_path, "tiny", [NewVector("d", {"stream": BLOB}, b"\x08\0")], SOURCE)


def test_a_vector_from_a_command_lines_words(tmp_path):
    (tmp_path / "s.rans").write_bytes(b"\1")
    (tmp_path / "v").write_bytes(b"\2")
    made = new_vector(
        "n",
        parts=[f"stream={tmp_path / 's.rans'}"],
        fields=["count=3", 'indexes={"row": 0}', "table=tables/x.json", "empty="],
        expect=tmp_path / "v",
        about="mine",
    )
    fields = {"stream": Blob("streams/n.rans", b"\1"), "count": 3, "indexes": {"row": 0}, "table": "tables/x.json"}
    assert made == NewVector("n", {**fields, "empty": ""}, b"\2", "ok", "mine")
    with pytest.raises(VectorFault, match=r"'stream' is not KEY=VALUE"):
        new_vector("n", parts=["stream"])
    with pytest.raises(VectorFault, match=r"none can't be read: No such file"):
        new_vector("n", parts=[f"stream={tmp_path / 'none'}"])


@pytest.mark.usefixtures("folder")
def test_a_decoder_file_that_defines_none(tmp_path):
    place = tmp_path / "kernels" / "tiny.py"
    vectors = [NewVector("d", {"stream": BLOB}, b"\x08\0")]
    place.write_text("", encoding="utf-8")
    with pytest.raises(VectorFault, match=r"tiny.py defines no DECODER; wanted is"):
        add(tmp_path, "tiny", vectors, SOURCE)
    place.write_text(DECODER.replace('("a", "b")', '("a", "a")'), encoding="utf-8")
    with pytest.raises(VectorFault, match=r"wanted are at least two different launch shapes"):
        add(tmp_path, "tiny", vectors, SOURCE)


# ---- the command line


@pytest.fixture
def repository(project):
    """A repository with the committed family."""
    for name in ("kernels/rans", "vectors/rans"):
        shutil.copytree(ROOT / name, project.root / name, ignore=shutil.ignore_patterns("__pycache__"))
    project.commit("vectors")
    return project


def test_the_example_of_the_document_adds_a_vector(repository):
    page = (ROOT / "docs" / "vectors.md").read_text(encoding="utf-8")
    (script,) = re.findall(r"^```sh\n(.*?)^```", page, re.MULTILINE | re.DOTALL)
    script = script.replace("python -m doit", f"{shlex.quote(sys.executable)} -m doit")
    done = subprocess.run(
        ["sh", "-e", "-c", script], cwd=repository.root, env=repository.environ, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
    count = golden.read_manifest(FAMILY)["count"] + 1
    assert done.stdout == f"added mine-1 to vectors/rans; commit that folder\nrans: {count} vectors\nno problems\n"
    manifest = golden.read_manifest(repository.root / "vectors" / "rans")
    (added,) = [entry for entry in manifest["vectors"] if entry["name"] == "mine-1"]
    stream = bytes.fromhex("0400090004000000")
    assert added == {
        "name": "mine-1",
        "about": "three symbols, typed in",
        "source": "printf-9.1",
        "status": "ok",
        "count": 3,
        "indexes": {"row": 0},
        "table": "tables/coin.json",
        "stream": {"file": "streams/mine-1.bin", "offset": 0, "bytes": 8, "sha256": golden.digest(stream)},
        "values": [0, 1, 0],
        "digest": golden.digest(bytes([0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0])),
    }
    date = manifest["sources"]["printf-9.1"].pop("date")
    assert golden.DATE.fullmatch(date)
    assert manifest["sources"]["printf-9.1"] == {
        "tool": "printf",
        "version": "9.1",
        "command": "printf ... > stream.bin",
        "licence": "CC0-1.0",
    }
    assert repository.git("diff", "--unified=0", "vectors/rans/ladder.txt").splitlines()[-2:] == [
        f"+ladder rans mine-1 symbols 0 0 {added['digest']}",
        f"+ladder rans mine-1 end 0 0 {golden.digest(b'ok')}",
    ]
    assert repository.git("status", "--short").splitlines() == [
        " M vectors/rans/ladder.txt",
        " M vectors/rans/manifest.json",
        "?? stream.bin",
        "?? symbols.bin",
        "?? vectors/rans/streams/mine-1.bin",
    ]


def test_every_option_of_the_command_is_in_the_document():
    from touchgate.edge.commands.vectors import Vectors

    page = (ROOT / "docs" / "vectors.md").read_text(encoding="utf-8")
    own = [option["long"] for option in Vectors.cmd_options if option["name"] != "as_json"]
    assert [name for name in own if f"`--{name}" not in page] == []


PROVENANCE = ("--tool", "a hand", "--tool-version", "1", "--command", "typed", "--licence", "CC0-1.0", "--date", "2026-11-30")


def test_the_command_begins_a_family_with_all_options(project):
    project.write("kernels/tiny.py", DECODER)
    project.write("kernels/tiny.cu", "good\n")
    (project.root / "s.rans").write_bytes(b"\6\xff")
    project.commit()
    head = ("--decoder", "kernels/tiny.py", "--kernel", "kernels/tiny.cu", "--family-about", "tiny things")
    options = ("--part", "stream=s.rans", "--status", "stop", "--source", "hand", *PROVENANCE)
    done = project.doit("vectors", "add", "tiny", "six", *options, *head)
    assert (done.returncode, done.stdout, done.stderr) == (0, "added six to vectors/tiny; commit that folder\n", "")
    manifest = golden.read_manifest(project.root / "vectors" / "tiny")
    assert manifest["about"] == "tiny things"
    assert manifest["sources"] == {"hand": SOURCE.to_json()}
    assert manifest["vectors"][0]["values"] == [6]
    assert manifest["vectors"][0]["stream"]["file"] == "streams/six.rans"


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        (["count=2147483648"], "mine: count 2147483648 is not a whole number from 0 to 1048576"),
        (["count=9223372036854775808"], "mine: count 9223372036854775808 is not a whole number"),
        (["count=true"], "mine: count True is not a whole number"),
        (["count=-1"], "mine: count -1 is not a whole number"),
        (["count=3", 'indexes={"plane": 1000000000}'], "mine: plane 1000000000 is not a whole number from 1 to 1048576"),
        (["count=3", 'indexes={"row": -1}'], "mine: row -1 is not a whole number from 0 to 65535"),
        (["count=3", "colour=red"], "mine: unknown key 'colour': the family's decoder does not read it"),
    ],
)
def test_a_number_that_no_stream_can_hold_is_refused_at_once(tmp_path, fields, message):
    for name in ("kernels/rans", "vectors/rans"):
        shutil.copytree(ROOT / name, tmp_path / name, ignore=shutil.ignore_patterns("__pycache__"))
    (tmp_path / "s").write_bytes(bytes.fromhex("0400090004000000"))
    common = ["table=tables/coin.json", 'indexes={"row": 0}']
    vector = new_vector("mine", parts=[f"stream={tmp_path / 's'}"], fields=[*common, *fields], status="truncated")
    with pytest.raises(VectorFault) as fault:
        add(tmp_path, "rans", [vector], SOURCE)
    assert str(fault.value).startswith(message)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"count": 1 << 31}, "coin-000001: count 2147483648 is not a whole number from 0 to 1048576"),
        ({"count": True}, "coin-000001: count True is not a whole number"),
        ({"indexes": {"plane": 10**9}}, "coin-000001: plane 1000000000 is not a whole number"),
        ({"indexes": {"row": -1}}, "coin-000001: row -1 is not a whole number"),
        ({"status": "odd"}, "coin-000001: status 'odd' is none of ok, "),
        ({"colour": "red"}, "coin-000001: unknown key 'colour'"),
        ({"values": [], "digest": golden.digest(b"")}, "coin-000001: digest "),
    ],
)
def test_the_command_checks_what_only_the_decoder_knows(repository, change, message):
    folder = repository.root / "vectors" / "rans"

    def altered(data):
        (entry,) = [entry for entry in data["vectors"] if entry["name"] == "coin-000001"]
        entry.update(change)

    edit(folder, altered)
    done = repository.doit("vectors", "check")
    (line,) = [problem for problem in done.stdout.splitlines() if ".json:" in problem]
    assert (done.returncode, done.stderr) == (1, "")
    assert line.partition(": ")[2].startswith(message)


def test_the_command_pins_the_stages_that_have_no_digest_yet(repository):
    place = repository.root / "vectors" / "rans" / "ladder.txt"
    text = place.read_text(encoding="utf-8")
    place.write_text("".join(line for line in text.splitlines(keepends=True) if " coin-000001 " not in line), encoding="utf-8")
    done = repository.doit("vectors", "check")
    assert done.returncode == 1
    assert "vectors/rans/ladder.txt:1: coin-000001 has no rung; `doit vectors pin rans` adds it\n" in done.stdout
    done = repository.doit("vectors", "pin", "rans")
    assert (done.returncode, done.stdout) == (0, "pinned 2 rungs in vectors/rans/ladder.txt; commit it\n")
    assert place.read_text(encoding="utf-8") == text
    done = repository.doit("vectors", "pin", "rans")
    assert (done.returncode, done.stdout) == (0, "every stage is pinned already\n")
    done = repository.doit("vectors", "pin", "gone")
    assert (done.returncode, done.stdout) == (3, "")
    assert "vectors/gone/manifest.json:1: there is no manifest.json" in done.stderr
    done = repository.doit("vectors", "diff", "vectors/rans/ladder.txt")
    assert done.returncode == 3
    assert "takes check, add FAMILY NAME, pin FAMILY, or diff A B" in done.stderr
