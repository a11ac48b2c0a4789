"""A family for tests: a stream's bytes are its values, 255 ends it as "stop". Its kernel's text says how it errs."""

from __future__ import annotations

from pathlib import Path

from touchgate.adding import Blob, NewVector, Source, add
from touchgate.devices import BuildFault
from touchgate.golden import Head

DECODER = """
from dataclasses import dataclass, replace
import numpy as np
from touchgate.checks.decoders import Decoded, Decoder, Leg
from touchgate.devices import LaunchFault

@dataclass(frozen=True)
class Vector:
    name: str
    expected: str
    data: bytes

def load(entry, store):
    return Vector(entry["name"], entry["status"], store.part(entry["stream"]))

def oracle(vector):
    ok, end, _ = vector.data.partition(b"\\xff")
    return Decoded("stop" if end else "ok", np.frombuffer(ok, np.uint8).astype(np.int16), {"read": len(ok)})

def decode_on(device, module, vectors, shape):
    if module == "no launch":
        raise LaunchFault("illegal address\\nin thread 7")
    found = [oracle(vector) for vector in vectors]
    if module == "forgets":
        found[20000:] = [Decoded("none", np.zeros(0, np.int16)) for _ in found[20000:]]
    if module == "one more":
        found = [replace(one, values=one.values + 1) for one in found]
    return Leg(tuple(found), 0.5)

def hostile(vectors, random):
    return [replace(vectors[0], name=vectors[0].name + " and a stop", data=vectors[0].data + b"\\xff", expected="stop")]

DECODER = Decoder("values", ("a", "b"), load, oracle, decode_on, hostile)
"""

HEAD = Head("tiny things", "kernels/tiny.py", "kernels/tiny.cu")
SOURCE = Source("hand", "a hand", "1", "typed", "2026-11-30", "CC0-1.0")


class FakeDevice:
    """A device whose modules are the text of their source."""

    name = "fake"

    def module(self, source: Path) -> str:
        text = source.read_text(encoding="utf-8").strip()
        if text == "no build":
            raise BuildFault("tiny.cu:1:1: note: here\ntiny.cu:1:2: error: no build")
        return text


def new(name: str, data: bytes, *, status: str = "ok", **more):
    """A vector to add, its expectation included."""
    wide = b"".join(bytes([value, 0]) for value in data.partition(b"\xff")[0])
    return NewVector(name, {"stream": Blob("streams/all.bin", data), **more}, wide, status)


def make(root: Path) -> Path:
    """The family with three vectors below `root`; its folder."""
    (root / "kernels").mkdir()
    (root / "kernels" / "tiny.py").write_text(DECODER, encoding="utf-8")
    (root / "kernels" / "tiny.cu").write_text("good\n", encoding="utf-8")
    vectors = [new("b", b"\1\2\3"), new("a", b"\4\5"), new("c", b"\6\xff\7", status="stop")]
    assert add(root, "tiny", vectors, SOURCE, head=HEAD) == ("a", "b", "c")
    return root / "vectors" / "tiny"
