"""rANS as CompressAI 1.2.8 writes it: the oracle in plain integers, and how the kernel beside it is launched.

    c = x mod 65536;  s = the largest index with cdf[s] <= c
    x = (cdf[s + 1] - cdf[s]) * floor(x / 65536) + c - cdf[s]
    if x < 2^31: x = x * 2^32 + next word

The whole format, the statuses and the order in which they are found: docs/vectors.md.
"""

from __future__ import annotations

import json
import struct
import sys
import time
from array import array
from bisect import bisect_right
from dataclasses import dataclass, field, replace
from functools import lru_cache
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from touchgate.checks.decoders import Decoded, Decoder, Leg, Rung
from touchgate.golden import VectorFault

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from random import Random

    from numpy.typing import NDArray

    from touchgate.checks.decoders import Store
    from touchgate.devices import Device, Module

STATUSES = (
    "ok",
    "bad_length",
    "bad_initial_state",
    "bad_table",
    "truncated",
    "bad_escape",
    "over_long",
    "bad_final_state",
)
"""By the kernel's numbers."""

LOW = 1 << 31
"""The state's lower bound, and its value after the last symbol."""

MOST_NIBBLES = 8
"""Of an escape: its raw value has 32 bits."""

MOST_ROW = 65535
"""An index has 16 bits."""

WORD = 4
HEAD = 2 * WORD
"""Bytes of a word, and of the first state."""

MOST_SYMBOLS = 1 << 20
MOST_SYMBOLS_PER_WORD = 1_500_000
"""Of a stream. Why it can't hold more a word, and that the former is a choice: docs/vectors.md."""

INT32 = range(-(1 << 31), 1 << 31)


@dataclass(frozen=True)
class Row:
    """One CDF, its closing 65536 included and no padding after it, and what is added to each symbol."""

    cdf: tuple[int, ...]
    offset: int
    valid: bool = field(init=False)

    def __post_init__(self) -> None:
        cdf = self.cdf
        rises = all(low < high for low, high in pairwise(cdf))
        ends = len(cdf) > 1 and cdf[0] == 0 and cdf[-1] == 1 << 16
        fits = self.offset + len(cdf) - 2 in INT32
        object.__setattr__(self, "valid", rises and ends and fits)


@dataclass(frozen=True)
class Vector:
    """One stream with what is needed to decode it.

    table: the rows. indexes: the row of each symbol, at least `count` of them. expected: the status, None where any will
    do. plane: symbols of a channel, 0 where all are one.
    """

    name: str
    stream: bytes
    table: tuple[Row, ...]
    indexes: array[int]
    count: int
    expected: str | None = None
    plane: int = 0


# ---- reading a manifest's entry


@lru_cache(maxsize=64)
def read_table(data: bytes) -> tuple[Row, ...]:
    """The rows of a table file. Raises `VectorFault`; a row that is not a CDF is read as it stands."""
    try:
        read = [(row["offset"], tuple(row["cdf"])) for row in json.loads(data)["rows"]]
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise VectorFault(f"a table file can't be read: {error!r}") from error
    # Before a row is made: whether a float lies in a range, Python finds out by looking at all of it.
    if any(type(number) is not int for offset, cdf in read for number in (offset, *cdf)):
        raise VectorFault("a table file holds an offset or an entry that is not a whole number")
    rows = tuple(Row(cdf, offset) for offset, cdf in read)
    for row in rows:
        if row.offset not in INT32 or any(not 0 <= entry < 1 << 32 for entry in row.cdf):
            raise VectorFault("a table file holds an offset beyond int32 or an entry beyond uint32")
    return rows


def _number(what: str, value: Any, most: int, least: int = 0) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
        raise VectorFault(f"{what} {str(value)[:40]} is not a whole number from {least} to {most}")
    return value


def read_count(count: Any, stream: bytes) -> int:
    """How many symbols are asked for. Raises `VectorFault` where the stream can't hold so many."""
    number = _number("count", count, MOST_SYMBOLS)
    words = max(len(stream) // WORD, 2)
    if number > MOST_SYMBOLS_PER_WORD * (words - 1):
        raise VectorFault(f"count {number}: a stream of {len(stream)} bytes can't hold so many symbols")
    return number


def read_indexes(rule: Any, count: int, store: Store) -> array[int]:
    """The row of each of `count` symbols, which must have been checked. Raises `VectorFault`.

    {"row": r}: always r. {"plane": n}: n symbols of row 0, n of row 1, ..., as channels follow each other in C, H, W
    order. {"file": path, "first": i}: one byte a symbol, from the i-th on.
    """
    keys = set(rule) if isinstance(rule, dict) else set()
    if keys == {"row"}:
        return array("H", [_number("row", rule["row"], MOST_ROW)]) * count
    if keys == {"plane"}:
        plane = _number("plane", rule["plane"], MOST_SYMBOLS, 1)
        if count > plane * (MOST_ROW + 1):
            raise VectorFault(f"plane {plane}: {count} symbols have more than {MOST_ROW + 1} rows")
        return array("H", [i // plane for i in range(count)])
    if keys == {"file", "first"}:
        file, first = rule["file"], _number("first", rule["first"], sys.maxsize)
        if not isinstance(file, str):
            raise VectorFault(f"indexes {rule}: file is not a path")
        rows = store.file(file)[first : first + count]
        if len(rows) != count:
            raise VectorFault(f"{file} holds {len(rows)} indexes from {first} on, wanted are {count}")
        return array("H", list(rows))
    raise VectorFault(f"indexes {str(rule)[:100]}: wanted is one of row, plane, or file with first")


def load(entry: Mapping[str, Any], store: Store) -> Vector:
    """A manifest's entry: stream (a part), table (a file), indexes (a rule), count, status."""
    stream = store.part(entry["stream"])
    count = read_count(entry["count"], stream)
    if entry["status"] not in STATUSES:
        raise VectorFault(f"status {entry['status']!r} is none of {', '.join(STATUSES)}")
    if not isinstance(entry["table"], str):
        raise VectorFault("table is not a path")
    return Vector(
        name=entry["name"],
        stream=stream,
        table=read_table(store.file(entry["table"])),
        indexes=read_indexes(entry["indexes"], count, store),
        count=count,
        expected=entry["status"],
        plane=entry["indexes"].get("plane", 0),
    )


# ---- the oracle


class _End(Exception):
    """The stream ends here, with this status, after `at` words."""

    def __init__(self, status: str, at: int) -> None:
        super().__init__(status)
        self.status = status
        self.at = at


def _nibble(x: int, words: Sequence[int], at: int) -> tuple[int, int, int]:
    nibble = x & 15
    x >>= 4
    if x < LOW:
        if at == len(words):
            raise _End("truncated", at)
        x = x << 32 | words[at]
        at += 1
    return nibble, x, at


def _escape(x: int, words: Sequence[int], at: int) -> tuple[int, int, int]:
    """The raw value (unsigned, at most 32 bits) of an escape, and the state and position after it."""
    nibbles, x, at = _nibble(x, words, at)
    if nibbles > MOST_NIBBLES:
        raise _End("bad_escape", at)
    raw = 0
    for i in range(nibbles):
        nibble, x, at = _nibble(x, words, at)
        raw |= nibble << 4 * i
    return raw, x, at


def _start(stream: bytes) -> tuple[int, tuple[int, ...]]:
    """The first state, and all words."""
    if len(stream) < HEAD or len(stream) % WORD:
        raise _End("bad_length", 0)
    words = struct.unpack(f"<{len(stream) // WORD}I", stream)
    x = words[1] << 32 | words[0]
    if not LOW <= x < LOW << 32:
        raise _End("bad_initial_state", 2)
    return x, words


def _decode(vector: Vector, values: list[int]) -> int:
    """Append the symbols to `values`; how many words were read. Raises `_End` for any status but "ok"."""
    x, words = _start(vector.stream)
    at = 2
    table = vector.table
    for index in vector.indexes[: vector.count]:
        if index >= len(table) or not table[index].valid:
            raise _End("bad_table", at)
        row = table[index]
        cdf = row.cdf
        c = x & 0xFFFF
        s = bisect_right(cdf, c) - 1
        x = (cdf[s + 1] - cdf[s]) * (x >> 16) + c - cdf[s]
        if x < LOW:
            if at == len(words):
                raise _End("truncated", at)
            x = x << 32 | words[at]
            at += 1
        last = len(cdf) - 2
        if s == last:
            raw, x, at = _escape(x, words, at)
            s = -(raw >> 1) - 1 if raw & 1 else (raw >> 1) + last
            if s + row.offset not in INT32:
                raise _End("bad_escape", at)
        values.append(s + row.offset)
    if at < len(words):
        raise _End("over_long", at)
    if x != LOW:
        raise _End("bad_final_state", at)
    return at


def oracle(vector: Vector) -> Decoded:
    """The symbols, int32, and how it ended."""
    values: list[int] = []
    try:
        status, consumed = "ok", _decode(vector, values)
    except _End as end:
        status, consumed = end.status, end.at
    return _decoded(vector, status, np.array(values, np.int32), consumed)


def _decoded(vector: Vector, status: str, values: NDArray[np.int32], consumed: int) -> Decoded:
    """With the symbols of each channel as a rung of its own."""
    size = vector.plane or max(vector.count, 1)
    channels = range(max(1, -(-vector.count // size)))
    rungs = tuple(Rung("symbols", 0, str(i), values[i * size : (i + 1) * size]) for i in channels)
    return Decoded(status, values, {"words": consumed}, rungs)


# ---- the kernel

POISON = 0xA5
RED = 64
"""Symbols in front of and behind all others that nobody may write."""

SHAPES = {"64 threads, longest first": (64, True), "32 threads, as they come": (32, False)}
"""Threads a block, and whether streams of like length are put side by side."""


@dataclass(frozen=True)
class Packed:
    """Many vectors as the kernel takes them."""

    words: NDArray[np.uint32]
    cdf: NDArray[np.uint32]
    rows: NDArray[np.int32]
    indexes: NDArray[np.uint16]
    streams: NDArray[np.int64]
    order: NDArray[np.int32]


def pack(vectors: Sequence[Vector], *, sort: bool) -> Packed:
    """Lay streams, tables and indexes out one behind the other. A table that several share is there once."""
    first_row: dict[int, int] = {}
    rows: list[tuple[int, int, int, int]] = []
    entries: list[int] = []
    words: list[NDArray[np.uint32]] = []
    streams = np.zeros((len(vectors), 6), np.int64)
    word = symbol = 0
    for i, vector in enumerate(vectors):
        if len(vector.indexes) < vector.count:
            raise ValueError(f"{vector.name}: {vector.count} symbols have only {len(vector.indexes)} indexes")
        if id(vector.table) not in first_row:
            first_row[id(vector.table)] = len(rows)
            for row in vector.table:
                rows.append((len(entries), len(row.cdf), row.offset, 0))
                entries.extend(row.cdf)
        padded = vector.stream + bytes(-len(vector.stream) % WORD)
        words.append(np.frombuffer(padded, "<u4").astype(np.uint32))
        table = first_row[id(vector.table)]
        streams[i] = word, len(vector.stream), symbol, vector.count, table, len(vector.table)
        word += len(words[-1])
        symbol += vector.count
    counts = streams[:, 3]
    order = np.argsort(-counts, kind="stable") if sort else np.arange(len(vectors))
    return Packed(
        words=np.concatenate(words),
        cdf=np.array(entries, np.uint32),
        rows=np.array(rows, np.int32).reshape(-1, 4),
        indexes=np.concatenate([np.array(v.indexes[: v.count], np.uint16) for v in vectors]),
        streams=streams,
        order=order.astype(np.int32),
    )


def decode_on(device: Device, module: Module, vectors: Sequence[Vector], shape: str) -> Leg:
    """Decode all vectors in one launch of `rans_decode`, after one of `rans_check_rows`."""
    if not vectors:
        return Leg((), 0.0)
    threads, sort = SHAPES[shape]
    packed = pack(vectors, sort=sort)
    # As what the kernel writes: a device of another byte order turns a buffer around by the type it was given.
    symbols = np.full((packed.indexes.size + 2 * RED) * 4, POISON, np.uint8).view(np.int32)
    results = np.full(len(vectors) * 3 * 4, POISON, np.uint8).view(np.int32)
    arrays: tuple[NDArray[Any], ...] = (
        packed.words,
        packed.cdf,
        packed.rows,
        packed.indexes,
        packed.streams,
        packed.order,
        symbols,
        results,
    )
    buffers = [device.buffer(max(data.nbytes, 1)) for data in arrays]
    try:
        for buffer, data in zip(buffers, arrays, strict=True):
            buffer.write(data)
        words, cdf, rows, indexes, streams, order, out, ends = (buffer.pointer for buffer in buffers)
        row_count = len(packed.rows)
        check = module.kernel("rans_check_rows")
        entries = np.int64(packed.cdf.size)
        check.launch((row_count // threads + 1, 1, 1), (threads, 1, 1), (cdf, entries, rows, np.int32(row_count)))
        decode = module.kernel("rans_decode")
        arguments = (words, cdf, rows, indexes, streams, order, np.int32(len(vectors)), out.offset(RED * 4), ends)
        began = time.perf_counter()
        decode.launch((len(vectors) // threads + 1, 1, 1), (threads, 1, 1), arguments)
        seconds = time.perf_counter() - began
        written = buffers[6].read().view(np.int32)
        ended = buffers[7].read().view(np.int32).reshape(-1, 3)
        kept = all(np.array_equal(buffers[i].read(), arrays[i].reshape(-1).view(np.uint8)) for i in (0, 1, 3, 4, 5))
    finally:
        for buffer in buffers:
            buffer.free()
    return Leg(_collect(vectors, written, ended, kept=kept), seconds)


def _collect(
    vectors: Sequence[Vector], written: NDArray[np.int32], ended: NDArray[np.int32], *, kept: bool
) -> tuple[Decoded, ...]:
    """What each thread left. A trace outside a stream's own place becomes a status that no oracle gives."""
    poison = np.full(4, POISON, np.uint8).view(np.int32)[0]
    clean = kept and bool((written[:RED] == poison).all()) and bool((written[len(written) - RED :] == poison).all())
    decoded = []
    first = RED
    for vector, (number, done, consumed) in zip(vectors, ended.tolist(), strict=True):
        rest = written[first + max(0, done) : first + vector.count]
        if not 0 <= number < len(STATUSES) or not 0 <= done <= vector.count:
            status = f"no status written ({number}, {done} symbols)"
        elif not clean:
            status = "wrote into its inputs" if not kept else "wrote outside the symbols"
        elif not (rest == poison).all():
            status = f"wrote behind the end ({STATUSES[number]})"
        else:
            status = STATUSES[number]
        values = written[first : first + min(max(0, done), vector.count)].copy()
        decoded.append(_decoded(vector, status, values, consumed))
        first += vector.count
    return tuple(decoded)


# ---- altered streams

SHORT = 600
"""Symbols up to which a stream is cut at every word."""

LONGEST_ROWS = 3
"""Streams that are read by the longest row there is, too."""


def hostile(vectors: Sequence[Vector], random: Random) -> Iterator[Vector]:
    """Cut, lengthened and flipped copies of the streams that decode.

    A cut at a word ends as "truncated" wherever it is (the words before it decode as ever), one within a word as
    "bad_length", added words as "over_long". What a flipped bit or a wrong count comes to, the oracle says.
    """
    accepted = [vector for vector in vectors if vector.expected == "ok"]
    for vector in accepted[:LONGEST_ROWS]:
        yield _by_longest_row(vector)
    for vector in accepted:
        stream = vector.stream
        short = vector.count <= SHORT
        for cut in (0, WORD, len(stream) - 1, len(stream) - 2, len(stream) - 3):
            name = f"{vector.name} cut to {cut} bytes"
            yield replace(vector, name=name, stream=stream[:cut], expected="bad_length")
        yield from _flipped(vector, random, 12 if short else 1)
        if short:
            for more in (bytes(4), b"\xff" * 4, stream):
                name = f"{vector.name} with {len(more)} bytes more"
                yield replace(vector, name=name, stream=stream + more, expected="over_long")
            yield from _miscounted(vector, random)
        # Last, so that what is read behind the last stream of all is outside the array.
        yield from _cut(vector, random, len(stream) // WORD if short else 2)


def _by_longest_row(vector: Vector) -> Vector:
    """Its words read as 16 bits a symbol, by a row of 65537 entries: as a file it would have half a megabyte."""
    count = len(vector.stream) // 2 - WORD
    name = f"{vector.name} as {count} symbols of 16 bits"
    return replace(vector, name=name, table=longest_row(), indexes=array("H", [0]) * count, count=count, expected=None)


@lru_cache(maxsize=1)
def longest_row() -> tuple[Row, ...]:
    """A table of the one row that has an entry for every number from 0 to 65536."""
    return (Row(tuple(range((1 << 16) + 1)), -(1 << 15)),)


def _cut(vector: Vector, random: Random, some: int) -> Iterator[Vector]:
    """Cut at each word where there are at most `some`, else at so many of them."""
    size = len(vector.stream) // WORD
    cuts = range(2, size) if size <= some else sorted({2 + int(random.random() * (size - 2)) for _ in range(some)})
    for words in cuts:
        name = f"{vector.name} cut to {words} words"
        yield replace(vector, name=name, stream=vector.stream[: words * WORD], expected="truncated")


def _flipped(vector: Vector, random: Random, some: int) -> Iterator[Vector]:
    bits = len(vector.stream) * 8
    chosen = {int(random.random() * bits) for _ in range(some)} | {63}
    for bit in sorted(chosen):
        altered = bytearray(vector.stream)
        altered[bit // 8] ^= 1 << bit % 8
        yield replace(vector, name=f"{vector.name} with bit {bit} flipped", stream=bytes(altered), expected=None)


def _miscounted(vector: Vector, random: Random) -> Iterator[Vector]:
    last = vector.indexes[-1] if vector.indexes else 0
    more = array("H", [*vector.indexes, last, last])
    for count in {max(0, vector.count - 1), vector.count + 1, vector.count + 2} - {vector.count}:
        yield replace(vector, name=f"{vector.name} read as {count} symbols", indexes=more, count=count, expected=None)
    if vector.count:
        wrong = array("H", vector.indexes)
        wrong[int(random.random() * vector.count)] = len(vector.table)
        yield replace(vector, name=f"{vector.name} with a row too many", indexes=wrong, expected="bad_table")


DECODER = Decoder(unit="symbols", shapes=tuple(SHAPES), load=load, oracle=oracle, decode_on=decode_on, hostile=hostile)
