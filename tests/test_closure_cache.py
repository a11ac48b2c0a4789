"""Readings on disk: what is not exactly as it was written is read anew."""

from __future__ import annotations

import json
import os

import pytest

from touchgate.gate.closure import cache as cache_module
from touchgate.gate.closure.cache import Cache, default_folder
from touchgate.gate.closure.graph import Graph
from touchgate.gate.closure.references import Found, Reference, Settings, Unresolved

from .closure_trees import Memory

READING = Found((Reference("quotes", "a\udcff.h", 3, ("x",)),), (Unresolved(1, "M", "why"),))
BLOB = "ab" * 20


@pytest.fixture
def kept(tmp_path):
    Cache(tmp_path).put("cxx", BLOB, READING)
    (file,) = (path for path in tmp_path.rglob("*") if path.is_file())
    return file


def test_what_is_kept_comes_back(tmp_path, kept):
    assert Cache(tmp_path).get("cxx", BLOB) == READING
    assert Cache(tmp_path).get("cxx", "cd" * 20) is None
    assert Cache(tmp_path).get("python", BLOB) is None
    assert Cache(None).get("cxx", BLOB) is None


def test_a_new_reader_reads_anew(tmp_path, kept, monkeypatch):
    monkeypatch.setattr("touchgate.gate.closure.cxx.VERSION", 10_000)
    assert Cache(tmp_path).get("cxx", BLOB) is None


def test_every_byte_counts(tmp_path, kept):
    whole = kept.read_bytes()
    for place in range(len(whole)):
        kept.write_bytes(whole[:place] + bytes([whole[place] ^ 1]) + whole[place + 1 :])
        assert Cache(tmp_path).get("cxx", BLOB) is None, place
        kept.write_bytes(whole[:place])
        assert Cache(tmp_path).get("cxx", BLOB) is None, place


def test_an_entry_of_another_blob_is_none(tmp_path, kept):
    other = kept.parent / ("ac" + BLOB[4:])
    other.write_bytes(kept.read_bytes())
    assert Cache(tmp_path).get("cxx", kept.parent.name + other.name) is None


@pytest.mark.parametrize(
    "data",
    [None, [], [[], []], [[["quotes", "a", "1", []]], []], [[["quotes", "a", True, []]], []], [[["q", "a", 1, [1]]], []],
     [[], [[1, 2, "x"]]], [[[]], []], [{}, []], [[1], []], [[["q", "a", 1, 7]], []]],
)  # fmt: skip
def test_other_shapes_are_none(tmp_path, kept, data):
    """Signed as ours are, which only a fault of our own could do."""
    body = json.dumps(data).encode()
    kept.write_bytes(Cache(tmp_path)._digest("cxx", BLOB, body).encode() + b"\n" + body)
    assert Cache(tmp_path).get("cxx", BLOB) in (None, Found() if data == [[], []] else None)


@pytest.mark.skipif(os.getuid() != 0, reason="only root can give a file to another user")
def test_what_another_user_could_write_is_none(tmp_path, kept):
    os.chown(kept, 12345, -1)
    assert Cache(tmp_path).get("cxx", BLOB) is None


def test_what_others_could_write_is_none(tmp_path, kept):
    kept.chmod(0o666)
    assert Cache(tmp_path).get("cxx", BLOB) is None
    (tmp_path / "touchgate/closure").mkdir(parents=True)
    (tmp_path / "touchgate/closure").chmod(0o777)
    assert default_folder({"XDG_CACHE_HOME": str(tmp_path)}) is None


def test_a_folder_that_can_not_be_made_is_no_cache(tmp_path):
    (tmp_path / "file").write_text("")
    assert default_folder({"XDG_CACHE_HOME": str(tmp_path / "file")}) is None
    assert default_folder({"XDG_CACHE_HOME": "relative"}) is None
    assert default_folder({}) is None
    cache = Cache(tmp_path / "file" / "x")
    cache.put("cxx", BLOB, READING)
    assert cache.get("cxx", BLOB) is None
    assert default_folder({"HOME": str(tmp_path)}) == tmp_path / ".cache/touchgate/closure"


def test_what_is_kept_is_not_read_again(tmp_path):
    """In a clone without contents no blob is fetched for it; and each wave is one request."""
    files = {
        "a.c": '#include "b.h"\n#include "c.h"\n',
        "b.h": '#include "d.h"\n',
        "c.h": '#include "e.h"\n',
        "d.h": "",
        "e.h": "",
    }
    first, again = Memory(files), Memory(files)
    found = [Graph(tree, Cache(tmp_path)).closure(["a.c"], Settings()).files for tree in (first, again)]
    assert found[0] == found[1]
    assert first.asked == [["a.c"], ["b.h", "c.h"], ["d.h", "e.h"]]
    assert again.asked == [[], [], []]


def test_a_large_entry_is_not_read(tmp_path, kept, monkeypatch):
    monkeypatch.setattr(cache_module, "LARGEST", 10)
    assert Cache(tmp_path).get("cxx", BLOB) is None
