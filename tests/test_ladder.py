"""The digest ladder: its lines, what a folder pins, what is told where legs part, and two machines' reports compared."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from tests.tiny_family import SOURCE, FakeDevice, make
from touchgate import adding, golden, ladder, pinned
from touchgate.adding import Blob, NewVector
from touchgate.checks.conformance import lint
from touchgate.checks.decoders import Decoded, Rung, digest_of, rungs_of
from touchgate.checks.legs import difference
from touchgate.checks.vectors import KIND
from touchgate.edge.commands import vectors_diff
from touchgate.edge.usage import UsageFault
from touchgate.gate.model import At, CheckDeclaration, DeviceWish, Lane
from touchgate.golden import VectorFault
from touchgate.ladder import LadderFault, Place
from touchgate.outcome import Verdict

TARGET = "vectors/tiny"
ROOT = Path(__file__).resolve().parent.parent


@pytest.fixture
def folder(tmp_path):
    return make(tmp_path)


def run(root):
    at = At("tasks/vectors.yml", 6, 9)
    declaration = CheckDeclaration("vectors", TARGET, {}, at)
    lane = Lane("tiny", "", (), (), ("smoke", "full"), DeviceWish(), 3, 6, (), (declaration,), at)
    spec = next(iter(KIND.expand(lane, declaration, root)))
    return KIND.run(spec, SimpleNamespace(root=root, place="emulated", device=FakeDevice))


SHA = "0" * 63 + "1"
RUNG = Place("f", "v-1", "idct", 12, "luma")


def test_a_rung_is_written_and_heard_whatever_stands_before_it():
    line = ladder.line(RUNG, SHA)
    assert line == f"ladder f v-1 idct 12 luma {SHA}"
    for text in (line, f"{line}\r\n", f"test decodes_all ... {line}", f"  {line}  ", f"[12:00:01] INFO {line}"):
        assert ladder.heard(text) == (RUNG, SHA)


@pytest.mark.parametrize(
    "text",
    ["", "ladder-back chairs", "a ladder", "climb the ladder to see the view", "LADDER", f"ladders f v-1 idct 12 luma {SHA}"],
)
def test_a_line_about_something_else_is_let_through(text):
    assert ladder.heard(text) is None


@pytest.mark.parametrize(
    "text",
    [
        "ladder",
        f"ladder f v-1 idct 12 {SHA}",
        f"ladder f v-1 idct 012 luma {SHA}",
        f"ladder f v-1 idct -1 luma {SHA}",
        f"ladder f v-1 idct x luma {SHA}",
        f"ladder f v-1 idct 12 luma {SHA}0",
        f"ladder f v-1 idct 12 luma {SHA.replace('1', 'A')}",
        f"ladder f  v-1 idct 12 luma {SHA}",
        f"ladder f v/1 idct 12 luma {SHA}",
        f"ladder f v-1 idct 12 luma {SHA} more",
        f"test decodes_all ... ladder f v-1 idct 12 luma {SHA[1:]}",
    ],
)
def test_a_line_that_is_meant_as_a_rung_and_is_none_is_a_fault(text):
    with pytest.raises(LadderFault, match="is no rung: wanted is ladder FAMILY VECTOR STAGE FRAME PLANE SHA256"):
        ladder.heard(text)


def test_a_text_of_rungs_comes_back_in_its_order():
    rungs = {RUNG: SHA, RUNG._replace(frame=3): "f" * 64, RUNG._replace(vector="a"): SHA}
    text = ladder.write(rungs)
    assert list(ladder.read(text).items()) == list(rungs.items())
    with pytest.raises(LadderFault, match=r"^line 4: 'f v-1' is no rung$"):
        ladder.read(text + "f v-1\n")
    with pytest.raises(LadderFault, match=r"^line 4: f v-1 idct 12 luma is there twice$"):
        ladder.read(text + ladder.line(RUNG, "f" * 64))


# ---- what a folder pins, and where legs part


STAGED = (
    (
        'return Decoded("stop" if end else "ok", np.frombuffer(ok, np.uint8).astype(np.int16), {"read": len(ok)})',
        """values = np.frombuffer(ok, np.uint8).astype(np.int16)
    halves = Rung("bytes", 0, "0", values), Rung("bytes", 1, "luma", values[1:] * 2)
    return Decoded("stop" if end else "ok", values, {"read": len(ok)}, halves)""",
    ),
    ("import Decoded, Decoder, Leg", "import Decoded, Decoder, Leg, Rung"),
    (
        "replace(one, values=one.values + 1)",
        'replace(one, rungs=(one.rungs[0], Rung("bytes", 1, "luma", one.rungs[1].values - 1)))',
    ),
)


def staged(root):
    place = root / "kernels" / "tiny.py"
    text = place.read_text(encoding="utf-8")
    for old, staging in STAGED:
        assert text.count(old) == 1
        text = text.replace(old, staging)
    place.write_text(text, encoding="utf-8")


LADDER = "".join(
    f"ladder tiny {name} {stage} {golden.digest(data)}\n"
    for name, first, second, end in (
        ("a", b"\4\0\5\0", b"\x0a\0", b"ok"),
        ("b", b"\1\0\2\0\3\0", b"\4\0\6\0", b"ok"),
        ("c", b"\6\0", b"", b"stop"),
    )
    for stage, data in (("bytes 0 0", first), ("bytes 1 luma", second), ("end 0 0", end))
)


def test_stages_are_pinned_and_the_first_that_parts_is_named(folder, tmp_path):
    assert adding.pin(tmp_path, "tiny") == 6
    assert (folder / "ladder.txt").read_text() == ladder.write(pinned.of_manifest(golden.read_manifest(folder)))
    (folder / "ladder.txt").unlink()
    staged(tmp_path)
    outcome = run(tmp_path)
    unpinned = "its stages are not pinned; `doit vectors pin tiny` does it"
    assert (outcome.verdict, outcome.reason) == (Verdict.FAILED, f"a: {unpinned} (and 2 more of 4)")
    assert [problem.message for problem in lint(tmp_path, TARGET)] == [f"{name}: {unpinned}" for name in "abc"]
    assert adding.pin(tmp_path, "tiny") == 9
    assert (folder / "ladder.txt").read_text() == LADDER
    assert adding.pin(tmp_path, "tiny") == 0
    outcome = run(tmp_path)
    assert outcome.verdict is Verdict.PASSED
    assert outcome.facts["ladders"] == [{"legs": ["oracle", "fake"], "rungs": LADDER.splitlines()}]
    assert golden.check(tmp_path) == pinned.problems(tmp_path, TARGET) == lint(tmp_path, TARGET) == []
    (tmp_path / "kernels" / "tiny.cu").write_text("one more", encoding="utf-8")
    outcome = run(tmp_path)
    where = "stage bytes, frame 1, plane luma"
    assert outcome.reason == f"a: {where}: values differ first at 0: 10 by the oracle, 9 by the kernel (and 2 more of 4)"
    assert outcome.detail[:4] == (
        "vectors/tiny/manifest.json:15: a",
        f"    fake, a: {where}: values differ first at 0: 10 by the oracle, 9 by the kernel",
        f"    fake, b: {where}: values differ first at 0: 10 by the oracle, 9 by the kernel",
        f"    who agrees at {where}: oracle | fake",
    )
    told = outcome.facts["ladders"]
    assert [one["legs"] for one in told] == [["oracle"], ["fake"]]
    assert [line for line in told[0]["rungs"] if line not in told[1]["rungs"]] == [
        line for line in LADDER.splitlines() if "luma" in line and " c " not in line
    ]


def test_a_new_vector_has_its_rungs_at_once_and_a_pinned_one_is_never_replaced(folder, tmp_path):
    staged(tmp_path)
    adding.pin(tmp_path, "tiny")
    added = adding.add(tmp_path, "tiny", [NewVector("aa", {"stream": Blob("streams/more.bin", b"\7")}, b"\7\0")], SOURCE)
    assert added == ("aa",)
    lines = [line for line in (folder / "ladder.txt").read_text().splitlines(keepends=True) if " aa " not in line]
    assert "".join(lines) == LADDER
    assert pinned.problems(tmp_path, TARGET) == []
    other = "0" * 64
    text = (folder / "ladder.txt").read_text().replace(golden.digest(b"\x0a\0"), other)
    (folder / "ladder.txt").write_text(text)
    outcome = run(tmp_path)
    assert outcome.reason == (
        f"a: stage bytes, frame 1, plane luma: {golden.digest(bytes([10, 0]))} by the oracle, {other} in ladder.txt "
        "(the only one of 5)"
    )
    with pytest.raises(VectorFault, match=r"^a: the oracle parts from ladder\.txt"):
        adding.pin(tmp_path, "tiny")
    assert (folder / "ladder.txt").read_text() == text


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda text: text.replace("ladder tiny b", "ladder tina b", 1), "4: family 'tina' is not the folder's"),
        (lambda text: text.replace(" c ", " d "), "1: c has no rung; `doit vectors pin tiny` adds it"),
        (lambda text: text + LADDER.splitlines()[8].replace(" c ", " d "), "10: manifest.json has no vector 'd'"),
        (lambda text: "".join(text.splitlines(keepends=True)[3:]), "1: a has no rung; `doit vectors pin tiny` adds it"),
        (lambda text: "".join(reversed(text.splitlines(keepends=True))), "1: is not sorted by vector"),
        (lambda text: text + text.splitlines()[0], "1: ladder.txt: line 10: tiny a bytes 0 0 is there twice"),
        (lambda text: text + "# more\n", "1: ladder.txt: line 10: '# more' is no rung"),
        (lambda text: text.replace("luma ", "luma 0"), "1: ladder.txt: line 2: 'ladder tiny a bytes 1 luma 0"),
        (
            lambda text: text.replace(golden.digest(b"stop"), golden.digest(b"ok")),
            "9: c: its end is not SHA-256 of the status 'stop' in manifest.json",
        ),
    ],
)
def test_a_damaged_ladder_is_told_without_decoding(folder, tmp_path, change, message):
    staged(tmp_path)
    (folder / "ladder.txt").write_text(change(LADDER))
    told = [str(problem) for problem in pinned.problems(tmp_path, TARGET)]
    assert told[0].startswith(f"{TARGET}/ladder.txt:{message}")
    assert run(tmp_path).verdict is Verdict.FAILED


@pytest.mark.parametrize(
    ("rungs", "message"),
    [
        ('Rung("x", 0, "0", values), Rung("x", 0, "0", values)', "b: the decoder tells one stage, frame and plane twice"),
        ('Rung("end", 0, "0", values),', "b: the decoder tells one stage, frame and plane twice, or a stage 'end' of its own"),
        ('Rung("two words", 0, "0", values),', "b: 'ladder tiny b two words 0 0 "),
        ('Rung("x", -1, "0", values),', "b: 'ladder tiny b x -1 0 "),
    ],
)
def test_stages_that_can_not_be_told_are_refused(rungs, message):
    values = np.arange(2)
    with pytest.raises(VectorFault) as fault:
        rungs_of("tiny", "b", Decoded("ok", values, {}, eval(f"({rungs})", {"Rung": Rung, "values": values})))
    assert str(fault.value).startswith(message)


def test_a_leg_that_tells_other_stages_is_named():
    values = np.arange(3, dtype=np.int32)
    first, second = Rung("x", 0, "0", values), Rung("y", 0, "0", values)
    whole = Decoded("ok", values, {}, (first, second))
    told = difference(whole, Decoded("ok", values, {}, (first,)), "values")
    assert told == "stage y, frame 0, plane 0 by the oracle, nothing more by the kernel"
    told = difference(whole, Decoded("ok", values, {}, (first, Rung("y", 0, "0", values[:2]))), "values")
    assert told == "stage y, frame 0, plane 0: 3 values by the oracle, 2 by the kernel"
    told = difference(whole, Decoded("ok", values, {}, (first, Rung("y", 0, "0", values.astype(np.int64)))), "values")
    assert told == "stage y, frame 0, plane 0: int32 by the oracle, int64 by the kernel"
    assert difference(whole, whole, "values") is None


def test_digests_are_those_of_little_endian_integers_in_order():
    one = np.arange(6, dtype=">i2").reshape(2, 3)
    wanted = golden.digest(bytes([0, 0, 1, 0, 2, 0, 3, 0, 4, 0, 5, 0]))
    assert digest_of(one) == digest_of(one.astype("<i2")) == digest_of(np.asfortranarray(one)) == wanted


def test_the_line_in_the_document_is_one_that_is_pinned():
    (line,) = [one for one in (ROOT / "docs/ladder.md").read_text().splitlines() if one.startswith("ladder rans")]
    assert line in (ROOT / "vectors/rans/ladder.txt").read_text().splitlines()


# ---- two machines


def rungs(*told):
    return {Place("f", vector, "s", frame, "0"): digit * 64 for vector, frame, digit in told}


def result(path, *checks):
    data = [
        {"name": name, "device": device, "facts": {"ladders": [{"legs": legs, "rungs": ladder.write(told).splitlines()}]}}
        for name, device, legs, told in checks
    ]
    path.write_text(json.dumps({"schema": 1, "checks": [*data, {"name": "x:lint", "device": None, "facts": {}}]}))
    return str(path)


ALL = rungs(("a", 0, "1"), ("a", 1, "2"), ("b", 0, "3"))


def test_equal_reports_of_two_kinds(tmp_path, capsys):
    one = result(tmp_path / "A.json", ("f:vectors", "emulated", ["oracle", "emulated"], ALL))
    (tmp_path / "B.txt").write_text("test all ... " + ladder.write(ALL) + "ok\n")
    assert vectors_diff.show(one, str(tmp_path / "B.txt"), as_json=False) == 0
    assert capsys.readouterr().out == "3 rungs in both, all equal\n"
    assert vectors_diff.show(one, one, as_json=True) == 0
    assert json.loads(capsys.readouterr().out) == {"schema": 1, "families": ["f"], "common": 3, "apart": []}


def test_the_first_place_of_each_vector_where_two_reports_part(tmp_path, capsys):
    one = result(tmp_path / "A.json", ("f:vectors", "emulated", ["oracle", "emulated"], ALL))
    other = rungs(("a", 0, "1"), ("a", 1, "4"), ("a", 2, "5"), ("b", 0, "3"), ("c", 0, "6"))
    two = result(tmp_path / "B.json", ("f:vectors", "H200", ["oracle", "H200"], other))
    assert vectors_diff.show(one, two, as_json=False) == 1
    assert capsys.readouterr().out.splitlines() == [
        "f a: stage s, frame 1, plane 0 (and 1 more rungs of it)",
        f"    {one}: {'2' * 16}  f:vectors on emulated: oracle, emulated",
        f"    {two}: {'4' * 16}  f:vectors on H200: oracle, H200",
        "f c: stage s, frame 0, plane 0",
        f"    {one}: nothing",
        f"    {two}: {'6' * 16}  f:vectors on H200: oracle, H200",
        "3 rungs in both, 3 of them apart or told by one alone, in 2 vectors",
    ]
    assert vectors_diff.show(one, two, as_json=True) == 1
    first, *_ = json.loads(capsys.readouterr().out)["apart"]
    assert first == {
        "family": "f",
        "vector": "a",
        "stage": "s",
        "frame": 1,
        "plane": "0",
        "a": [{"sha256": "2" * 64, "legs": ["f:vectors on emulated: oracle, emulated"]}],
        "b": [{"sha256": "4" * 64, "legs": ["f:vectors on H200: oracle, H200"]}],
    }


def test_legs_of_one_report_that_part_are_a_difference_of_it_with_itself(tmp_path, capsys):
    other = rungs(("a", 0, "9"), ("a", 1, "2"), ("b", 0, "3"))
    one = result(tmp_path / "A.json", ("f:vectors", "e", ["oracle"], ALL), ("f:s390x", "e", ["s390x"], other))
    assert vectors_diff.show(one, one, as_json=False) == 1
    assert capsys.readouterr().out.splitlines()[:3] == [
        "f a: stage s, frame 0, plane 0",
        f"    {one}: {'1' * 16}  f:vectors on e: oracle",
        f"    {one}: {'9' * 16}  f:s390x on e: s390x",
    ]


def test_reports_with_no_place_in_common_are_not_equal(tmp_path):
    one = result(tmp_path / "A.json", ("f:vectors", None, ["oracle"], rungs(("a", 0, "1"))))
    two = result(tmp_path / "B.json", ("f:vectors", None, ["oracle"], rungs(("b", 0, "1"))))
    assert vectors_diff.show(one, two, as_json=True) == 2


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (None, "can't be read"),
        ("{", "is no report of a run and no ladder"),
        ("{}", "is no report of a run and no ladder"),
        ('{"checks": [{"facts": {"ladders": 1}}]}', "is no report of a run and no ladder"),
        ('{"checks": []}', "holds no ladder: a `vectors` check that ran puts one into result.json"),
        ("a log\n", "holds no ladder"),
        ("ladder f a s 0 0\n", "is no report of a run and no ladder: 'ladder f a s 0 0' is no rung"),
    ],
)
def test_a_file_that_is_no_report_is_told(tmp_path, text, message):
    place = tmp_path / "A.json"
    if text is not None:
        place.write_text(text)
    with pytest.raises(UsageFault) as fault:
        vectors_diff.show(str(place), str(place), as_json=False)
    assert str(fault.value).startswith(f"{place} {message}")
