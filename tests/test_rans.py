"""rANS: the oracle against bytes made by hand and a second encoder, the kernel against the oracle, and its mutants."""

from __future__ import annotations

import hashlib
import shutil
import struct
from array import array
from dataclasses import replace
from pathlib import Path
from random import Random
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from touchgate import golden
from touchgate.checks import conformance, legs
from touchgate.checks.cases import load_file
from touchgate.devices import LaunchFault, Unavailable, emulated
from touchgate.outcome import Verdict

ROOT = Path(__file__).resolve().parent.parent
FOLDER = ROOT / "vectors" / "rans"
KERNEL = ROOT / "kernels" / "rans" / "rans.cu"

rans = load_file(ROOT / "kernels" / "rans" / "rans.py")
generate = load_file(FOLDER / "generate.py")

RARE = (rans.Row((0, 1, 65536), 0),)
LOW = 1 << 31


def vector(stream: bytes, table=RARE, indexes=None, count=1, expected=None):
    rows = array("H", indexes if indexes is not None else [0] * count)
    return rans.Vector("v", stream, table, rows, count, expected)


def decoded(stream: bytes, table=RARE, indexes=None, count=1):
    """Status, values and words read, by the oracle."""
    found = rans.oracle(vector(stream, table, indexes, count))
    return found.status, found.values.tolist(), found.facts["words"]


def words(*values: int) -> bytes:
    return struct.pack(f"<{len(values)}I", *values)


# ---- the oracle


@pytest.mark.parametrize(
    ("symbols", "stream"),
    [
        ([], "0000008000000000"),
        ([0], "0000000000800000"),
        ([0, 0, 0], "000000000080000000000000"),
        ([(1 << 27) - 1, 1, 2], "c917011800080000ffff211a"),
    ],
)
def test_the_bytes_that_the_document_shows(symbols, stream):
    data = bytes.fromhex(stream)
    assert decoded(data, count=len(symbols)) == ("ok", symbols, len(data) // 4)
    assert generate.encode(symbols, RARE, [0] * len(symbols)) == data
    if symbols:
        shown = " ".join(str(s) if s != (1 << 27) - 1 else "2^27-1" for s in symbols)
        spaced = " ".join(stream[i : i + 8] for i in range(0, len(stream), 8))
        assert f"| {shown} | `{spaced}` |" in (ROOT / "docs" / "vectors.md").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("stream", "count", "wanted"),
    [
        (b"", 1, ("bad_length", [], 0)),
        (bytes(4), 1, ("bad_length", [], 0)),
        (bytes(9), 1, ("bad_length", [], 0)),
        (words(LOW - 1, 0), 0, ("bad_initial_state", [], 2)),
        (words(0, LOW), 0, ("bad_initial_state", [], 2)),
        (words(LOW, 0), 0, ("ok", [], 2)),
        (words(LOW, 0, 7), 0, ("over_long", [], 2)),
        (words(LOW + 1, 0, 7), 0, ("over_long", [], 2)),
        (words(LOW + 1, 0), 0, ("bad_final_state", [], 2)),
        (words(0, 0x8000), 2, ("truncated", [0], 2)),
        (words(0, 0x8000, 5), 1, ("over_long", [0], 2)),
        # c = 1 is the row's last symbol, and leaves 65535 * (2^30 + 7): a nibble of 9.
        (words(7 * 65536 + 1, 1 << 14), 1, ("bad_escape", [], 2)),
    ],
)
def test_each_status_has_its_place(stream, count, wanted):
    assert decoded(stream, count=count) == wanted


@pytest.mark.parametrize(
    ("cdf", "offset", "valid"),
    [
        ((0, 65536), 0, True),
        ((0, 1, 65536), -(1 << 31), True),
        ((0, 1, 65536), (1 << 31) - 2, True),
        ((0, 1, 65536), (1 << 31) - 1, False),
        ((), 0, False),
        ((0,), 0, False),
        ((65536,), 0, False),
        ((0, 65535), 0, False),
        ((1, 65536), 0, False),
        ((0, 5, 5, 65536), 0, False),
        ((0, 6, 5, 65536), 0, False),
        ((0, 70000, 65536), 0, False),
        (tuple(range(65537)), 0, True),
    ],
)
def test_what_a_row_must_be(cdf, offset, valid):
    assert rans.Row(cdf, offset).valid == valid


def test_a_bad_row_ends_the_stream_where_it_is_used_and_not_before():
    table = (*RARE, rans.Row((0, 9), 0))
    data = generate.encode([0, 0, 0], RARE, [0] * 3)
    assert decoded(data, table, [0, 0, 1], 3)[:2] == ("bad_table", [0, 0])
    assert decoded(data, table, [0, 0, 2], 3)[:2] == ("bad_table", [0, 0])
    assert decoded(data, table, [0, 0, 0], 3)[:2] == ("ok", [0, 0, 0])


def test_the_last_values_of_32_bits_and_the_first_beyond():
    table = (rans.Row((0, 65536), 1),)
    top = generate.encode([(1 << 31) - 1, -(1 << 31) + 1], table, [0, 0])
    assert decoded(top, table, count=2)[:2] == ("ok", [(1 << 31) - 1, -(1 << 31) + 1])
    beyond = generate.encode([5, 1 << 31], table, [0, 0])
    assert decoded(beyond, table, count=2)[:2] == ("bad_escape", [5])


def test_the_longest_row_there_is():
    table = (rans.Row(tuple(range(65537)), -32768),)
    symbols = [-32768, 32766, 32767, 0, 40000, -32769]
    assert decoded(generate.encode(symbols, table, [0] * 6), table, count=6)[:2] == ("ok", symbols)


@st.composite
def rows(draw):
    inner = draw(st.lists(st.integers(1, 65535), unique=True, max_size=12))
    return rans.Row((0, *sorted(inner), 65536), draw(st.integers(-(1 << 20), 1 << 20)))


@st.composite
def messages(draw):
    table = tuple(draw(st.lists(rows(), min_size=1, max_size=4)))
    indexes = draw(st.lists(st.integers(0, len(table) - 1), max_size=40))
    near = [st.integers(table[k].offset - 3, table[k].offset + len(table[k].cdf) + 3) for k in indexes]
    symbols = [draw(st.one_of(some, st.integers(-(1 << 29), 1 << 29))) for some in near]
    return table, indexes, symbols


@settings(deadline=None, max_examples=60)
@given(messages(), st.integers(0, 8), st.data())
def test_what_was_encoded_is_decoded_and_nothing_else_is_accepted(message, nibbles, data):
    table, indexes, symbols = message
    stream = generate.encode(symbols, table, indexes, nibbles=nibbles)
    size = len(stream) // 4
    assert decoded(stream, table, indexes, len(symbols)) == ("ok", symbols, size)
    if size > 2:
        cut = data.draw(st.integers(2, size - 1))
        assert decoded(stream[: 4 * cut], table, indexes, len(symbols))[0] == "truncated"
    more = data.draw(st.binary(min_size=4, max_size=12).filter(lambda tail: len(tail) % 4 == 0))
    assert decoded(stream + more, table, indexes, len(symbols)) == ("over_long", symbols, size)


@settings(deadline=None, max_examples=100)
@given(st.binary(max_size=64), st.integers(0, 50), rows())
def test_any_bytes_end_with_a_status(stream, count, row):
    found = rans.oracle(vector(stream, (row,), count=count))
    assert found.status in rans.STATUSES
    assert (found.values.size == count) == (found.status in ("ok", "over_long", "bad_final_state") or count == 0)


# ---- the committed vectors


@pytest.fixture(scope="module")
def truth():
    return conformance.by_oracle(ROOT, "vectors/rans")


def test_the_oracle_gives_what_the_manifest_says(truth):
    assert truth.found == []
    made = [entry for entry in truth.manifest["vectors"] if entry["source"] == "compressai"]
    assert len(made) >= 200
    assert {entry["status"] for entry in made} == {"ok"}
    assert {1, 100000} <= {entry["count"] for entry in made}
    assert {entry["status"] for entry in truth.manifest["vectors"]} == set(rans.STATUSES)


def test_a_flipped_bit_that_is_accepted_shows_in_the_digest(truth):
    pinned = {vector.name: found.digest for vector, found in zip(truth.vectors, truth.decoded, strict=True)}
    accepted = 0
    for one, found in zip(truth.altered, truth.altered_decoded, strict=True):
        if "flipped" in one.name and found.status == "ok":
            accepted += 1
            assert found.digest != pinned[one.name.partition(" ")[0]], one.name
    assert accepted


def test_altered_streams_come_to_every_status(truth):
    assert {found.status for found in truth.altered_decoded} == set(rans.STATUSES)


def test_the_mirror_encoder_makes_the_same_bytes_again(truth):
    """So the manifest's symbols are the encoder's input, not only what our decoder reads into the bytes."""
    for entry, one, found in zip(truth.manifest["vectors"], truth.vectors, truth.decoded, strict=True):
        if entry["source"] == "compressai" and one.count <= 4096:
            assert generate.encode(found.values.tolist(), one.table, list(one.indexes)) == one.stream, one.name


# ---- the kernel, emulated


@pytest.fixture(scope="module")
def device(tmp_path_factory):
    try:
        made = emulated.open_device(tmp_path_factory.mktemp("build"))
    except Unavailable as missing:
        pytest.skip(str(missing))
    yield made
    made.close()


def test_the_kernel_agrees_with_the_oracle_on_every_vector(truth, device):
    outcome = conformance.conform(truth, device, device.module(KERNEL))
    assert (outcome.verdict, outcome.detail) == (Verdict.PASSED, ())
    (told,) = outcome.facts["ladders"]
    assert told["legs"] == ["oracle", "emulated"]
    assert told["rungs"] == (FOLDER / "ladder.txt").read_text(encoding="utf-8").splitlines()
    assert outcome.cases == len(truth.vectors) + len(truth.altered) > 5000
    assert outcome.facts["at_once"] == legs.AT_ONCE


def test_no_streams_and_one_stream(device):
    module = device.module(KERNEL)
    one = vector(bytes.fromhex("0000000000800000"))
    for shape in rans.SHAPES:
        assert rans.decode_on(device, module, [], shape).decoded == ()
        (found,) = rans.decode_on(device, module, [one], shape).decoded
        assert (found.status, found.values.tolist(), found.facts) == ("ok", [0], {"words": 2})


MUTANTS = {
    "renormalises one bit too late": ("if (reader.x >= 0x80000000ull) return", "if (reader.x >= 0x40000000ull) return"),
    "drops the last symbol": ("done < stream.count)", "done + 1 < stream.count)"),
    "swaps the escape's sign": ("(raw & 1u) ?", "!(raw & 1u) ?"),
    "ignores the offset": ("value += row.offset;", ""),
    "reads past the end": ("if (reader.next >= reader.end) return false;", ""),
    "accepts words that are left": ("reader.next < reader.end) {", "false) {"),
    "accepts any final state": ("reader.x != 0x80000000ull", "false"),
    "accepts any initial state": ("if (reader.x < 0x80000000ull || reader.x >= 0x8000000000000000ull)", "if (false)"),
    "accepts any row": (" || !rows[stream.first_row + index].valid", ""),
    "accepts escapes of any length": ("if (nibbles > 8) return BAD_ESCAPE;", "if (nibbles > 14) return BAD_ESCAPE;"),
    "lets values wrap": ("if (value < -2147483648ll || value > 2147483647ll) return BAD_ESCAPE;", ""),
    "takes the symbol before": ("if (cdf[middle] <= c) {", "if (cdf[middle] < c) {"),
    "uses the first row for all": (
        "cdf, rows[stream.first_row + index], symbol",
        "cdf, rows[stream.first_row], symbol",
    ),
    "puts nibbles the wrong way round": ("nibble << (4 * i)", "nibble << (4 * (nibbles - 1 - i))"),
    "counts words wrongly": ("(int)reader.next}", "(int)reader.end}"),
    "accepts half a word": ("stream.bytes % 4 != 0", "stream.bytes % 2 != 0"),
    "lets values below wrap": ("value < -2147483648ll || ", ""),
    "does not look at a row's first step": ("long long i = 1; valid", "long long i = 2; valid"),
    "does not look at a row's last step": ("valid && i < length; ++i", "valid && i < length - 1; ++i"),
    "takes a row's number for a byte": (
        "index = indexes[stream.first_symbol + done]",
        "index = (unsigned char)indexes[stream.first_symbol + done]",
    ),
    "refuses the longest row": ("length <= 65537", "length <= 65536"),
    "decodes no more than 100000 symbols": ("done < stream.count)", "done < stream.count && done < 100000)"),
    "decodes no more than 20000 streams": (
        "    if (t >= count) return;\n    const Stream",
        "    if (t >= count || t >= 20000) return;\n    const Stream",
    ),
    "writes one symbol further": ("symbols[stream.first_symbol + done]", "symbols[stream.first_symbol + done + 1]"),
}


@pytest.mark.parametrize("name", MUTANTS)
def test_a_mutant_is_caught(name, truth, device):
    old, new = MUTANTS[name]
    text = KERNEL.read_text(encoding="utf-8")
    assert text.count(old) == 1
    module = device.module_from_text(text.replace(old, new), KERNEL)
    try:
        outcome = conformance.conform(truth, device, module)
    except LaunchFault:
        # It left its arrays, which the emulation notices itself.
        return
    assert outcome.verdict is Verdict.FAILED
    assert "by the kernel" in outcome.reason or "no status written" in outcome.reason


def test_what_a_failure_says(truth, device):
    some = [i for i, one in enumerate(truth.vectors) if one.name in ("coin-000001", "coin-000002", "hand-rare-2")]
    few = replace(
        truth,
        vectors=[truth.vectors[i] for i in some],
        decoded=[truth.decoded[i] for i in some],
        altered=[],
        altered_decoded=[],
    )
    text = KERNEL.read_text(encoding="utf-8").replace("value += row.offset;", "value += row.offset + 3;")
    outcome = conformance.conform(few, device, device.module_from_text(text, KERNEL))
    names = [few.vectors[i].name for i in range(3)]
    lines = (FOLDER / "manifest.json").read_text(encoding="utf-8").splitlines()
    places = [next(n for n, line in enumerate(lines, 1) if f'"name": "{name}"' in line) for name in names]
    first = [int(few.decoded[i].values[0]) for i in range(3)]
    assert outcome.reason == (
        f"coin-000001: stage symbols, frame 0, plane 0: symbols differ first at 0: {first[0]} by the oracle, "
        f"{first[0] + 3} by the kernel (and 2 more of 3)"
    )
    assert outcome.detail == tuple(
        line
        for name, place, value in zip(names, places, first, strict=True)
        for line in (
            f"vectors/rans/manifest.json:{place}: {name}",
            *(
                f"    emulated, {shape}: stage symbols, frame 0, plane 0: symbols differ first at 0: "
                f"{value} by the oracle, {value + 3} by the kernel"
                for shape in rans.SHAPES
            ),
            "    who agrees at stage symbols, frame 0, plane 0: oracle | emulated",
        )
    )


def test_traces_outside_a_streams_place_are_no_result_of_the_oracle():
    one = vector(bytes.fromhex("0000000000800000"), count=2)
    poison = np.full(4, rans.POISON, np.uint8).view(np.int32)[0]
    written = np.full(2 * rans.RED + 2, poison, np.int32)
    written[rans.RED] = 7
    ended = np.array([[rans.STATUSES.index("truncated"), 1, 2]], np.int32)

    def status(written, ended, *, kept=True):
        (found,) = rans._collect([one], written, ended, kept=kept)
        return found.status

    assert status(written, ended) == "truncated"
    assert status(written, ended, kept=False) == "wrote into its inputs"
    behind = written.copy()
    behind[rans.RED + 1] = 7
    assert status(behind, ended) == "wrote behind the end (truncated)"
    outside = written.copy()
    outside[-1] = 7
    assert status(outside, ended) == "wrote outside the symbols"
    assert status(written, np.full((1, 3), poison, np.int32)) == f"no status written ({poison}, {poison} symbols)"


def test_the_altered_streams_are_the_same_each_time(truth):
    again = list(truth.decoder.hostile(truth.vectors, Random(conformance.SEED)))
    assert [one.name for one in again] == [one.name for one in truth.altered]
    assert again == truth.altered


# ---- reading a manifest's entry


class Store:
    """What a test wants to be read."""

    def __init__(self, **files: bytes) -> None:
        self.files = files

    def file(self, path: str) -> bytes:
        return self.files[path]


@pytest.mark.parametrize(
    ("rule", "count", "wanted"),
    [
        ({"row": 3}, 4, [3, 3, 3, 3]),
        ({"plane": 2}, 5, [0, 0, 1, 1, 2]),
        ({"file": "walk", "first": 1}, 2, [8, 9]),
        ({"row": 3}, 0, []),
    ],
)
def test_the_rules_for_indexes(rule, count, wanted):
    assert list(rans.read_indexes(rule, count, Store(walk=bytes([7, 8, 9])))) == wanted


@pytest.mark.parametrize(
    ("count", "size", "message"),
    [
        (-1, 8, "count -1 is not a whole number from 0 to 1048576"),
        (True, 8, "count True is not"),
        ("3", 8, "count 3 is not"),
        (2.0, 8, "count 2.0 is not"),
        (1 << 31, 1 << 20, "count 2147483648 is not"),
        (1 << 63, 1 << 20, "count 9223372036854775808 is not"),
        ((1 << 20) + 1, 1 << 20, "count 1048577 is not"),
    ],
)
def test_a_count_that_is_refused_before_anything_is_allocated(count, size, message):
    with pytest.raises(golden.VectorFault, match=message):
        rans.read_count(count, bytes(size))


def test_what_a_stream_can_hold(monkeypatch):
    monkeypatch.setattr(rans, "MOST_SYMBOLS", 1 << 62)
    for size, words in ((0, 1), (8, 1), (9, 1), (12, 2), (4000, 999)):
        most = words * rans.MOST_SYMBOLS_PER_WORD
        assert rans.read_count(most, bytes(size)) == most
        with pytest.raises(golden.VectorFault, match=f"a stream of {size} bytes can't hold so many symbols"):
            rans.read_count(most + 1, bytes(size))


def test_how_many_of_the_cheapest_symbols_lie_between_two_words():
    """No symbol takes less than floor(x / 65536) from the state, and more is left the larger it was (docs/vectors.md)."""
    x, symbols = (1 << 63) - 1, 0
    while x >= LOW:
        x -= x >> 16
        symbols += 1
    assert 0.9 * rans.MOST_SYMBOLS_PER_WORD < symbols < rans.MOST_SYMBOLS_PER_WORD


@pytest.mark.parametrize(
    ("rule", "message"),
    [
        ({"row": -1}, "row -1 is not a whole number from 0 to 65535"),
        ({"row": 65536}, "row 65536 is not"),
        ({"row": True}, "row True is not"),
        ({"plane": 0}, "plane 0 is not a whole number from 1 to"),
        ({"plane": 10**9}, "plane 1000000000 is not"),
        ({"plane": 1}, "plane 1: 70000 symbols have more than 65536 rows"),
        ({"file": "walk", "first": -1}, "first -1 is not"),
        ({"file": ["walk"], "first": 0}, "file is not a path"),
        ({"row": 1, "plane": 1}, "wanted is one of row"),
        (7, "indexes 7: wanted is one of row"),
    ],
)
def test_a_rule_for_indexes_that_is_refused(rule, message):
    with pytest.raises(golden.VectorFault, match=message):
        rans.read_indexes(rule, 70000, Store(walk=bytes(70000)))


def test_indexes_that_are_too_few_or_of_no_rule():
    with pytest.raises(golden.VectorFault, match="walk holds 1 indexes from 2 on, wanted are 2"):
        rans.read_indexes({"file": "walk", "first": 2}, 2, Store(walk=bytes([7, 8, 9])))
    with pytest.raises(golden.VectorFault, match="wanted is one of row, plane, or file with first"):
        rans.read_indexes({"rows": 2}, 2, Store())


MORE = (
    b"[" * 100000,
    b'{"rows": [{"cdf": [0, 0.5, 65536], "offset": 0}]}',
    b'{"rows": [{"cdf": [0, true, 65536], "offset": 0}]}',
    b'{"rows": [{"cdf": [0, 65536], "offset": 0.0}]}',
    b'{"rows": [{"cdf": "ab", "offset": 0}]}',
    b'{"rows": 3}',
)


@pytest.mark.parametrize("data", [b"", b"[]", b'{"rows": [{"cdf": [0]}]}', b'{"rows": [{"cdf": [-1], "offset": 0}]}', *MORE])
def test_a_table_file_that_is_none(data):
    with pytest.raises(golden.VectorFault, match="a table file"):
        rans.read_table(data)


@pytest.mark.slow
@pytest.mark.parametrize("mutant", [None, "reads past the end"])
def test_under_the_sanitizers(mutant, tmp_path):
    from touchgate.checks import sanitized_vectors

    for name in ("kernels/rans", "vectors/rans"):
        shutil.copytree(ROOT / name, tmp_path / name)
    kernel = tmp_path / "kernels" / "rans" / "rans.cu"
    if mutant:
        old, new = MUTANTS[mutant]
        kernel.write_text(kernel.read_text(encoding="utf-8").replace(old, new), encoding="utf-8")
    (tmp_path / "temporary").mkdir()
    context = SimpleNamespace(root=tmp_path, build_dir=tmp_path / "build", temporary=tmp_path / "temporary", inherited_fds=())
    try:
        outcome = sanitized_vectors.run("vectors/rans", "kernels/rans/rans.cu", context)
    except Unavailable as missing:
        pytest.skip(str(missing))
    if mutant:
        assert outcome.verdict is Verdict.FAILED
        assert "AddressSanitizer: heap-buffer-overflow" in outcome.reason
        assert "renormalise" in outcome.detail[2]
    else:
        digest = hashlib.sha256((FOLDER / "ladder.txt").read_bytes()).hexdigest()
        assert (outcome.verdict, outcome.reason) == (Verdict.PASSED, f"digest {digest[:12]} by oracle, emulated")
