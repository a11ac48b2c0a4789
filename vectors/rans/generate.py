"""Makes the vectors of this folder with CompressAI's own encoder.

    pip download --no-deps --dest wheels compressai==1.2.8
    python vectors/rans/generate.py --wheel wheels/compressai-*.whl            # compare with what is here
    python vectors/rans/generate.py --wheel wheels/compressai-*.whl --write    # into a folder without a manifest

The coder is two extension modules of the wheel, which load without torch; the Python that runs this is the wheel's.
The encoder crashes on some inputs, so each stream is made in a process of its own and drawn again where that one dies.
Each stream must decode to its input by CompressAI's decoder, equal the bytes of the mirror encoder below, and decode by
our oracle.

The same seed gives the same bytes: chance comes from `random.Random(text).random()` alone, and Python keeps that. CDF
tables are data: those that are in tables/ are read, never built again.
"""

from __future__ import annotations

import argparse
import datetime as dt
import hashlib
import json
import math
import shutil
import struct
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

from touchgate import adding, golden
from touchgate.adding import Blob, NewVector, Source

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
SEED = 20261130
DRAWS = 30
LOW = 1 << 31
FULL = 1 << 16

HEAD = golden.Head(
    "rANS streams of CompressAI",
    "kernels/rans/rans.py",
    "kernels/rans/rans.cu",
)

LENGTHS = (1, 2, 3, 4, 5, 7, 8, 15, 31, 32, 33, 64, 100, 127, 255, 256, 257, 500, 1000, 2000, 4096, 10000)
LONG = {"channels": 30000, "coin": 50000, "far": 30000, "flat": 20000, "many": 20000, "rare": 20000}
LONGEST = {"gaussian": 100000, "heavy": 100000, "skewed": 100000, "sure": 100000}
RATES = (0.0, 0.01, 0.3, 0.1, 0.02)
"""Shares of escapes, taken in turn."""

LEFT_OUT = {("rare", 1), ("rare", 3), ("rare", 2), ("heavy", 1), ("sure", 1)}
"""The first two are golden ones; on the others the encoder crashes, as on most streams longer than their symbols."""

INDEXES = "indexes/gaussian.bin"


@dataclass(frozen=True)
class Row:
    """A CDF without padding, and what is added to each symbol."""

    cdf: Sequence[int]
    offset: int


@dataclass(frozen=True)
class Draw:
    """What is encoded. indexes: the row of each symbol. rule: how the manifest says that."""

    symbols: list[int]
    indexes: list[int]
    rule: dict[str, Any]


def chance_of(what: str) -> Callable[[], float]:
    """A source of numbers in [0, 1) for one purpose."""
    return Random(f"{SEED} {what}").random  # noqa: S311  nothing is kept secret by it


# ---- CompressAI's coder, at arm's length

CHILD = """
import importlib.util, json, sys
def load(name, path):
    spec = importlib.util.spec_from_file_location(name, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
ask = json.load(sys.stdin)
if ask["do"] == "quantise":
    print(json.dumps([list(load("_CXX", ask["so"]).pmf_to_quantized_cdf(pmf, 16)) for pmf in ask["pmfs"]]))
else:
    ans = load("ans", ask["so"])
    tables = ask["cdfs"], [len(cdf) for cdf in ask["cdfs"]], ask["offsets"]
    if ask["do"] == "encode":
        stream = ans.RansEncoder().encode_with_indexes(ask["symbols"], ask["indexes"], *tables)
    else:
        stream = bytes.fromhex(ask["stream"])
    back = ans.RansDecoder().decode_with_indexes(stream, ask["indexes"], *tables)
    print(json.dumps([stream.hex(), list(back) == ask["symbols"]]))
"""


class Upstream:
    """The wheel's coder."""

    def __init__(self, wheel: Path, folder: Path) -> None:
        self.sha256 = hashlib.sha256(wheel.read_bytes()).hexdigest()
        self.name = wheel.name
        self.version = wheel.name.split("-")[1]
        self._so = {}
        with zipfile.ZipFile(wheel) as archive:
            for name in ("ans", "_CXX"):
                member = next(
                    m for m in archive.namelist() if m.startswith(f"compressai/{name}.") and m.endswith(".so")
                )
                self._so[name] = archive.extract(member, folder)

    def quantise(self, pmfs: Sequence[Sequence[float]]) -> list[list[int]]:
        """Probability mass functions (the last entry: the tail's) as CDFs of 16 bits."""
        found = self._ask({"do": "quantise", "so": self._so["_CXX"], "pmfs": pmfs})
        if found is None:
            raise SystemExit("CompressAI's pmf_to_quantized_cdf crashed")
        return found

    def encode(self, draw: Draw, rows: Sequence[Row]) -> bytes | None:
        """The stream, or None where the encoder crashed or the decoder did not give the input back."""
        found = self._ask(self._coder("encode", draw, rows))
        return bytes.fromhex(found[0]) if found and found[1] else None

    def decodes(self, stream: bytes, draw: Draw, rows: Sequence[Row]) -> bool:
        """Whether CompressAI's decoder gives the input back."""
        found = self._ask({**self._coder("decode", draw, rows), "stream": stream.hex()})
        return bool(found and found[1])

    def _coder(self, do: str, draw: Draw, rows: Sequence[Row]) -> dict[str, Any]:
        tables = {"cdfs": [list(row.cdf) for row in rows], "offsets": [row.offset for row in rows]}
        return {"do": do, "so": self._so["ans"], "symbols": draw.symbols, "indexes": draw.indexes, **tables}

    @staticmethod
    def _ask(question: dict[str, Any]) -> Any:
        try:
            done = subprocess.run(
                [sys.executable, "-c", CHILD],
                input=json.dumps(question).encode(),
                capture_output=True,
                timeout=60,
                check=False,
            )
        except subprocess.TimeoutExpired:
            return None
        return json.loads(done.stdout) if done.returncode == 0 else None


# ---- the mirror encoder: for what CompressAI's can't encode, and a second opinion on the rest


def encode(symbols: Sequence[int], rows: Sequence[Row], indexes: Sequence[int], *, nibbles: int = 0) -> bytes:
    """A stream in plain integers. nibbles: the least number of them that an escape is written with."""
    steps: list[tuple[int, int]] = []
    for symbol, index in zip(symbols, indexes, strict=True):
        cdf, value = rows[index].cdf, symbol - rows[index].offset
        last = len(cdf) - 2
        s = value if 0 <= value < last else last
        steps.append((cdf[s], cdf[s + 1] - cdf[s]))
        if s == last:
            raw = -2 * value - 1 if value < 0 else 2 * (value - last)
            count = max(nibbles, (raw.bit_length() + 3) // 4)
            steps += [(count, 0), *((raw >> 4 * i & 15, 0) for i in range(count))]
    x = LOW
    words = []
    for start, width in reversed(steps):
        if x >= (width << 47 if width else 1 << 59):
            words.append(x & 0xFFFFFFFF)
            x >>= 32
        x = x // width * 65536 + x % width + start if width else x << 4 | start
    words += [x >> 32, x & 0xFFFFFFFF]
    return struct.pack(f"<{len(words)}I", *reversed(words))


# ---- tables


def build_tables(upstream: Upstream) -> dict[str, list[Row]]:
    """All tables, from nothing."""
    chance = chance_of("tables")
    skewed = [0.55 * 0.45**i for i in range(24)]
    many = [0]
    while many[-1] < FULL - 500:
        many.append(many[-1] + 1 + int(chance() ** 2 * 14))
    channels = []
    for channel in range(12):
        size = 3 + channel * 4
        pmf = [math.exp(-abs(i - size * chance()) / (1 + channel)) + 1e-4 for i in range(size)]
        channels.append([mass / sum(pmf) for mass in pmf] + [1e-3])
    gaussian, centres = gaussian_pmfs()
    quantised = upstream.quantise([[*skewed, 1 - sum(skewed)], [0.7 / 16] * 16 + [0.3], *channels, *gaussian])
    return {
        "channels": [Row(cdf, -(len(cdf) // 2)) for cdf in quantised[2:14]],
        "coin": [Row((0, 32768, 65535, 65536), 0)],
        "far": [
            Row((0, 4096, 60000, 65000, 65536), 1 << 20),
            Row((0, 8192, 16384, 65536), -(1 << 20)),
            Row((0, 30000, 50000, 65000, 65536), (1 << 31) - 4),
        ],
        "flat": [Row(range(0, 65537, 256), -128)],
        "gaussian": [Row(cdf, -centre) for cdf, centre in zip(quantised[14:], centres, strict=True)],
        "heavy": [Row(quantised[1], -8)],
        "many": [Row([*many, FULL], -1000)],
        "rare": [Row((0, 1, 65536), 0)],
        "skewed": [Row(quantised[0], -3)],
        "sure": [Row((0, 65535, 65536), 7)],
    }


def gaussian_pmfs() -> tuple[list[list[float]], list[int]]:
    """The 64 scale buckets of CompressAI's GaussianConditional: their masses with the tail's behind, and the centres.

    As its `update` computes them, but in double precision; the table's numbers are data from here on.
    """
    low, high = math.log(0.11), math.log(256)
    quantile = 6.109410204869
    """Minus the standard normal quantile of 1e-9 / 2."""
    pmfs, centres = [], []
    for bucket in range(64):
        scale = math.exp(low + (high - low) * bucket / 63)
        centre = math.ceil(scale * quantile)
        below = [math.erfc((0.5 + abs(i - centre)) / scale / math.sqrt(2)) / 2 for i in range(2 * centre + 1)]
        above = [math.erfc((-0.5 + abs(i - centre)) / scale / math.sqrt(2)) / 2 for i in range(2 * centre + 1)]
        pmfs.append([a - b for a, b in zip(above, below, strict=True)] + [2 * below[0]])
        centres.append(centre)
    return pmfs, centres


def by_hand_tables() -> dict[str, list[Row]]:
    """Tables of the vectors made by hand."""
    return {
        "edges": [Row((0, 65536), 0), Row((0, 30000, 50000, 65536), (1 << 31) - 3), Row((0, 65536), -1)],
        "refused": refused_table(),
        "tall": [Row((0, 1000 + 200 * k, 65536), k) for k in range(300)],
    }


def refused_table() -> list[Row]:
    """Rows that are no CDFs, each for its own reason, behind one that is."""
    return [
        Row((0, 30000, 65536), 0),
        Row((1, 30000, 65536), 0),
        Row((0, 30000, 65535), 0),
        Row((0, 30000, 30000, 65536), 0),
        Row((0, 40000, 30000, 65536), 0),
        Row((0,), 0),
        Row((), 0),
        Row((0, 30000, 50000, 65536), (1 << 31) - 2),
        Row((0, 70000, 65536), 0),
        Row((0, 0, 65536), 0),
        Row((0, 65536, 65536), 0),
    ]


def table_text(about: str, rows: Sequence[Row]) -> bytes:
    """A table file: one row a line."""
    lines = ",\n".join(f'    {{"offset": {row.offset}, "cdf": {json.dumps(list(row.cdf))}}}' for row in rows)
    return f'{{\n  "schema": 1,\n  "about": {json.dumps(about)},\n  "rows": [\n{lines}\n  ]\n}}\n'.encode()


ABOUT = {
    "channels": "12 rows of 5 to 49 entries, one a channel, as an entropy bottleneck has them",
    "coin": "two symbols of nearly one half each",
    "edges": "the shortest row there is (nothing but escapes), one that ends at the last int32, and one below zero",
    "far": "offsets far from zero",
    "flat": "256 symbols of one width",
    "gaussian": "the 64 scale buckets of GaussianConditional; 5 to 3,131 entries",
    "heavy": "16 symbols and 30 % of mass for escapes",
    "many": "thousands of symbols of uneven width",
    "rare": "one symbol of the least width; all the rest are escapes",
    "refused": "row 0 is a CDF, the others are not",
    "skewed": "24 symbols, each a little less than half as likely as the one before",
    "sure": "one symbol that costs next to nothing",
    "tall": "300 rows, as many as no byte counts",
}


# ---- what to encode


def drawn(name: str, rows: list[Row], length: int, rate: float, *, attempt: int, walk: bytes) -> Draw:
    """Symbols by the table's own distribution, and escapes at the given rate."""
    chance = chance_of(f"{name} {attempt}")
    if len(rows) == 1:
        rule: dict[str, Any] = {"row": 0}
        indexes = [0] * length
    elif name.startswith("channels"):
        rule = {"plane": -(-length // len(rows))}
        indexes = [i // rule["plane"] for i in range(length)]
    elif name.startswith("far"):
        rule = {"row": length % len(rows)}
        indexes = [rule["row"]] * length
    else:
        rule = {"file": INDEXES, "first": int(chance() * (len(walk) - length + 1))}
        indexes = list(walk[rule["first"] :][:length])
    symbols = [escape(rows[k], chance) if chance() < rate else ordinary(rows[k], chance) for k in indexes]
    return Draw(symbols, indexes, rule)


RAW_BITS = 28
"""Beyond, CompressAI's encoder shifts for ever."""
EDGES = (0, 1, 15, 16, (1 << RAW_BITS) - 2, (1 << RAW_BITS) - 1)
EDGES_SHARE = 0.1


def ordinary(row: Row, chance: Callable[[], float]) -> int:
    """A symbol of the row, by its distribution."""
    c = int(chance() * row.cdf[-2])
    low, high = 0, len(row.cdf) - 2
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if row.cdf[middle] <= c else (low, middle)
    return low + row.offset


def escape(row: Row, chance: Callable[[], float]) -> int:
    """A value that the row has no symbol for: of any size that CompressAI's encoder survives, often at the edges."""
    last = len(row.cdf) - 2
    if chance() < EDGES_SHARE:
        raw = EDGES[int(chance() * len(EDGES))]
    else:
        bits = int(chance() * RAW_BITS)
        raw = int(chance() * (1 << bits)) | 1 << bits >> 1
    value = -(raw >> 1) - 1 if raw & 1 else (raw >> 1) + last
    if value + row.offset >= LOW:
        value = -(raw >> 1) - 1
    return value + row.offset


STEP = 0.2
JUMP = 0.002


def random_walk(length: int) -> bytes:
    """Scale buckets that change slowly, as an image's do."""
    chance = chance_of("walk")
    bucket, walk = 20, bytearray()
    for _ in range(length):
        bucket += (chance() < STEP) - (chance() < STEP)
        bucket = int(chance() * 64) if chance() < JUMP else bucket % 64
        walk.append(bucket)
    return bytes(walk)


GOLDEN = {
    "golden-rare-1": [0],
    "golden-rare-3": [0, 0, 0],
    "golden-rare-far": [(1 << 27) - 1, 1, 2],
}
"""The small ones whose bytes docs/vectors.md shows."""


def by_upstream(upstream: Upstream, tables: dict[str, list[Row]], walk: bytes) -> Iterator[NewVector]:
    """The streams of CompressAI's encoder."""
    for name, symbols in GOLDEN.items():
        draw = Draw(symbols, [0] * len(symbols), {"row": 0})
        yield checked(name, "rare", draw, tables["rare"], upstream.encode(draw, tables["rare"]))
    for table, rows in sorted(tables.items()):
        lengths = [*LENGTHS, *(chosen[table] for chosen in (LONG, LONGEST) if table in chosen)]
        for i, length in enumerate(lengths):
            if (table, length) in LEFT_OUT:
                continue
            rate = RATES[(i + len(table)) % len(RATES)]
            name = f"{table}-{length:06d}"
            for attempt in range(DRAWS):
                draw = drawn(name, rows, length, rate, attempt=attempt, walk=walk)
                stream = upstream.encode(draw, rows)
                if stream is not None:
                    yield checked(name, table, draw, rows, stream)
                    break
            else:
                raise SystemExit(f"{name}: the encoder crashed on {DRAWS} draws")


def checked(name: str, table: str, draw: Draw, rows: list[Row], stream: bytes | None) -> NewVector:
    """A vector, after the mirror's second opinion."""
    if stream is None:
        raise SystemExit(f"{name}: the encoder crashed, or the decoder did not give the input back")
    if stream != encode(draw.symbols, rows, draw.indexes):
        raise SystemExit(f"{name}: the mirror encoder gives other bytes")
    return vector(name, table, draw, stream, pack=table)


def vector(
    name: str, table: str, draw: Draw, stream: bytes, *, pack: str = "by-hand", status: str = "ok", about: str = ""
) -> NewVector:
    """A vector for the manifest. What is expected of a refused stream is left to the oracle."""
    fields = {
        "stream": Blob(f"streams/{pack}.bin", stream),
        "table": f"tables/{table}.json",
        "indexes": draw.rule,
        "count": len(draw.symbols),
    }
    expected = struct.pack(f"<{len(draw.symbols)}i", *draw.symbols) if status == "ok" else None
    return NewVector(name, fields, expected, status, about)


def by_hand(upstream: Upstream, tables: dict[str, list[Row]]) -> Iterator[NewVector]:
    """What CompressAI's encoder crashes on, by the mirror; and streams that must be refused."""

    def mine(
        name: str, table: str, symbols: list[int], about: str, *, row: int = 0, nibbles: int = 0, asked: bool = True
    ) -> NewVector:
        rows = tables[table]
        draw = Draw(symbols, [row] * len(symbols), {"row": row})
        stream = encode(symbols, rows, draw.indexes, nibbles=nibbles)
        if symbols and asked and not upstream.decodes(stream, draw, rows):
            raise SystemExit(f"{name}: CompressAI's decoder does not give the input back")
        return vector(name, table, draw, stream, about=about)

    yield mine("hand-nothing", "rare", [], "no symbols: the state alone")
    yield mine("hand-rare-2", "rare", [0, 0], "two symbols of the least width")
    yield mine("hand-escapes", "edges", [0, -1, 1, -2, 5, -900, 70000], "a row of nothing but escapes")
    yield mine("hand-31-bits", "edges", [-(1 << 30), (1 << 30) - 1, 1 << 27, -(1 << 28)], "raw values of 29 to 31 bits")
    # CompressAI's decoder holds the raw value in a signed integer, so it is not asked about the 32nd bit.
    about = "raw values of 32 bits"
    yield mine("hand-32-bits", "edges", [-(1 << 31), (1 << 31) - 1, 1 << 30, -(1 << 30) - 1], about, asked=False)
    yield mine(
        "hand-last-int32", "edges", [(1 << 31) - i for i in (1, 2, 3, 4, 500)], "symbols up to the last int32", row=1
    )
    about = "the first int32, by an offset below zero"
    yield mine("hand-first-int32", "edges", [-(1 << 31), 7], about, row=2, asked=False)
    yield mine("hand-long", "sure", [7] * ((1 << 17) + 1), "more symbols than 17 bits count")
    tall = tables["tall"]
    draw = Draw([k + k % 2 for k in range(len(tall))], list(range(len(tall))), {"plane": 1})
    data = encode(draw.symbols, tall, draw.indexes)
    yield vector("hand-rows", "tall", draw, data, about="each row of 300 in turn")
    yield mine("hand-row-299", "tall", [299, 300, 5], "a row whose number has more than 8 bits", row=299)
    yield mine("hand-long-escape", "skewed", [100, -100, 2], "escapes with leading zero nibbles", nibbles=6)

    base = Draw([0, 1, 2, 0, 900, -7, 0, 1, -3, 20], [0] * 10, {"row": 0})
    stream = encode(base.symbols, tables["skewed"], base.indexes)

    def refused(
        status: str, name: str, data: bytes, about: str, draw: Draw = base, *, table: str = "skewed"
    ) -> NewVector:
        return vector(f"refused-{name}", table, draw, data, status=status, about=about)

    yield refused("truncated", "cut", stream[:-4], "its last word is missing")
    yield refused("truncated", "head", stream[:8], "nothing but the state")
    yield refused("bad_length", "byte", stream[:-1], "its last byte is missing")
    yield refused("bad_length", "half", stream[:-2], "half its last word is missing")
    yield refused("bad_length", "word", stream[:4], "half a state")
    yield refused("bad_length", "empty", b"", "no bytes at all")
    yield refused("over_long", "more", stream + bytes(4), "a word of zeros more")
    yield refused("over_long", "twice", stream + stream, "there twice")
    yield refused("bad_initial_state", "low", struct.pack("<2I", LOW - 1, 0), "a state below 2^31")
    yield refused("bad_initial_state", "high", struct.pack("<2I", 0, LOW), "a state of 2^63")
    yield refused("bad_initial_state", "zeros", bytes(8), "a state of zero")
    none = Draw([], [], {"row": 0})
    yield refused(
        "bad_final_state", "state", struct.pack("<2I", LOW + 1, 0), "no symbols, and a state that is not 2^31", none
    )
    yield refused("bad_final_state", "short", struct.pack("<2I", 0, 1 << 15), "one symbol too few", none)
    yield from refused_escapes(tables, refused)
    for row in range(1, len(tables["refused"])):
        draw = Draw([0] * 3, [row] * 3, {"row": row})
        yield refused("bad_table", f"row-{row}", stream, "its row is not a CDF", draw, table="refused")
    for name, table in (("no-row", "refused"), ("no-row-300", "tall")):
        draw = Draw([0] * 3, [len(tables[table])] * 3, {"row": len(tables[table])})
        yield refused("bad_table", name, stream, "there is no such row", draw, table=table)


def refused_escapes(tables: dict[str, list[Row]], refused: Any) -> Iterator[NewVector]:
    """Escapes that are too long, or beyond int32."""
    one = Draw([0, 0], [0, 0], {"row": 0})
    for nibbles in (9, 14, 15):
        data = encode([5, 5], tables["edges"], [0, 0], nibbles=nibbles)
        yield refused("bad_escape", f"{nibbles}-nibbles", data, "an escape longer than 32 bits", one, table="edges")
    beyond = (("above", 1, 1 << 31), ("far-above", 1, (1 << 31) + 5000), ("below", 2, -(1 << 31) - 1))
    for name, row, value in beyond:
        draw = Draw([0], [row], {"row": row})
        data = encode([value], tables["edges"], [row])
        yield refused("bad_escape", name, data, "a value beyond int32", draw, table="edges")


# ---- putting it together


def read_tables() -> dict[str, list[Row]]:
    """The tables that are there."""
    found = {}
    for path in sorted((HERE / "tables").glob("*.json")):
        found[path.stem] = [Row(row["cdf"], row["offset"]) for row in json.loads(path.read_bytes())["rows"]]
    return found


def make(root: Path, wheel: Path, date: str) -> None:
    """Everything, into `root`/vectors/rans."""
    with tempfile.TemporaryDirectory() as folder:
        upstream = Upstream(wheel, Path(folder))
        tables = {k: v for k, v in (read_tables() or build_tables(upstream)).items() if k not in by_hand_tables()}
        walk = random_walk(100000)
        command = f"python vectors/rans/generate.py --wheel {upstream.name} --write"
        script = hashlib.sha256(Path(__file__).read_bytes()).hexdigest()
        made = {"generator": Path(__file__).name, "generator_sha256": script, "seed": SEED}
        files = {f"tables/{name}.json": table_text(ABOUT[name], rows) for name, rows in tables.items()}
        wheel_facts: dict[str, str | int] = {"artifact": upstream.name, "artifact_sha256": upstream.sha256}
        source = Source(
            "compressai",
            "compressai.ans.RansEncoder",
            upstream.version,
            command,
            date,
            "BSD-3-Clause-Clear",
            {**made, **wheel_facts},
        )
        more = by_hand_tables()
        vectors = list(by_upstream(upstream, tables, walk))
        mine = list(by_hand(upstream, tables | more))
        adding.add(root, HERE.name, vectors, source, files=files | {INDEXES: walk}, head=HEAD)
        files = {f"tables/{name}.json": table_text(ABOUT[name], rows) for name, rows in more.items()}
        source = Source("by-hand", "vectors/rans/generate.py", "1", command, date, "Apache-2.0", made)
        adding.add(root, HERE.name, mine, source, files=files)


def main() -> None:
    """Make the vectors elsewhere; compare them with what is here, or put them here."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--wheel", type=Path, required=True, help="CompressAI's wheel for this Python")
    parser.add_argument("--write", action="store_true", help="put them into this folder, which must have no manifest")
    args = parser.parse_args()
    there = (HERE / golden.MANIFEST).exists()
    today = dt.datetime.now(dt.timezone.utc).date().isoformat()
    date = golden.read_manifest(HERE)["sources"]["compressai"]["date"] if there else today
    if args.write:
        make(ROOT, args.wheel, date)
        return
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        shutil.copytree(ROOT / "kernels" / "rans", root / "kernels" / "rans")
        (root / "vectors" / "rans").mkdir(parents=True)
        shutil.copy(__file__, root / "vectors" / "rans")
        make(root, args.wheel, date)
        names = sorted(set(golden.present(HERE)) | set(golden.present(root / "vectors" / "rans")))
        differing = [name for name in names if not same(HERE / name, root / "vectors" / "rans" / name)]
    print("\n".join(f"differs: {name}" for name in differing) or f"{len(names)} files, all equal")
    raise SystemExit(1 if differing else 0)


def same(here: Path, there: Path) -> bool:
    """Whether both exist with the same bytes."""
    return here.is_file() and there.is_file() and here.read_bytes() == there.read_bytes()


if __name__ == "__main__":
    main()
