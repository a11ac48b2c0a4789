"""A `vectors` check whose decoder is a command: what it is given, what it may say, and how that is judged."""

from __future__ import annotations

import hashlib
import json
import re
import shutil
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
import yaml

from tests.rust_crates import need
from tests.tiny_family import make
from touchgate import golden, ladder, pinned
from touchgate.checks import DeclarationFault
from touchgate.checks.foreign import listing
from touchgate.checks.vectors import KIND
from touchgate.gate.included import untold_words
from touchgate.gate.model import At, CheckDeclaration, DeviceWish, Lane
from touchgate.gate.named import of_lane, read_as
from touchgate.outcome import Verdict

AT = At("tasks/vectors.yml", 6, 9)
ROOT = Path(__file__).resolve().parent.parent
TARGET = "vectors/tiny"


def declared(decoder="true", device="any", target=TARGET, **options):
    declaration = CheckDeclaration("vectors", target, {"decoder": decoder, **options}, AT)
    return Lane("tiny", "", (), (), ("smoke",), DeviceWish(device), 3, 6, (), (declaration,), AT), declaration


def spec_of(root, decoder="true", **options):
    (spec,) = KIND.expand(*declared(decoder, **options), root)
    return spec


@pytest.fixture
def run(tmp_path, capfd):
    make(tmp_path)
    (tmp_path / "temporary").mkdir()

    def run(decoder, **options):
        context = SimpleNamespace(root=tmp_path, temporary=tmp_path / "temporary", inherited_fds=())
        outcome = KIND.run(spec_of(tmp_path, decoder, **options), context)
        sys.stdout.flush()
        run.log = capfd.readouterr().out
        return outcome

    run.root = tmp_path
    return run


def telling(root, change=lambda text: text):
    """A command that tells the pinned ladder, changed."""
    text = change(ladder.write(pinned.rungs(root / TARGET)))
    (root / "told.txt").write_text(text)
    return "cat told.txt"


def test_a_declaration_becomes_one_check(tmp_path):
    make(tmp_path)
    spec = spec_of(tmp_path, "cargo test\nmore", timeout=2)
    assert (spec.name, spec.kind, spec.target, spec.places) == ("tiny:vectors", "vectors", TARGET, ("host",))
    assert (spec.timeout, spec.about) == (120, "vectors/tiny decoded by: cargo test ...")
    assert spec_of(tmp_path, device="gpu").places == ("gpu",)
    named = spec_of(tmp_path, name="theirs", tools=["cargo"], inputs=["kernels"])
    assert named.name == "tiny:theirs"
    found = KIND.inputs(named, tmp_path, "host")
    assert found.tools == ("sh", "cargo")
    files = ("manifest.json", "streams/all.bin")
    assert sorted(found.files) == ["kernels/tiny.cu", "kernels/tiny.py", *(f"{TARGET}/{file}" for file in files)]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"decoder": ""}, "`decoder` is the line that /bin/sh is to run"),
        ({"decoder": 5}, "`decoder` is the line that /bin/sh is to run"),
        ({"architectures": [87]}, "`architectures` is for our own kernels"),
        ({"legs": []}, "`legs` is for our own kernels"),
        ({"tools": ["make"]}, "`tools`: 'make' is not known"),
        ({"inputs": ["../x"]}, "`inputs`: ../x is not below"),
        ({"target": "vectors/gone"}, "there is no folder vectors/gone"),
        ({"target": "kernels"}, "kernels has neither manifest.json nor ladder.txt: nothing is pinned there"),
        ({"target": "../x"}, "vectors: '../x' is not below the repository's root"),
    ],
)
def test_what_is_wrong_with_a_declaration(tmp_path, options, message):
    make(tmp_path)
    with pytest.raises(DeclarationFault) as fault:
        spec_of(tmp_path, **{"decoder": "true", **options})
    assert str(fault.value).startswith(message)


@pytest.mark.parametrize("option", ["inputs", "tools"])
def test_what_belongs_to_a_command_is_refused_without_one(tmp_path, option):
    make(tmp_path)
    lane, _ = declared()
    declaration = CheckDeclaration("vectors", TARGET, {option: []}, AT)
    with pytest.raises(DeclarationFault, match=f"`{option}` goes with `decoder`"):
        list(KIND.expand(lane, declaration, tmp_path))


def test_what_the_command_names_is_what_the_check_names():
    lane, declaration = declared("python tools/decode.py --fast")
    assert read_as(declaration) == ("command", "python tools/decode.py --fast")
    names = {(name.kind, name.text) for name in of_lane(lane)}
    assert ("python", "tools/decode.py") in names
    assert not [name for name in names if name[0] == "vectors"]


def test_what_can_not_be_told_of_the_command_is_noted():
    lane, _ = declared("python $TOOL vectors")
    assert untold_words(lane, lambda _: False) == ("tasks/vectors.yml:6 python $TOOL",)


# ---- what it is given


def test_it_is_given_the_folder_and_the_list(run):
    outcome = run('echo "$TOUCHGATE_VECTORS"; cat "$TOUCHGATE_VECTORS_LIST"; pwd')
    assert outcome.verdict is Verdict.PASSED
    sha = {name: golden.digest(data) for name, data in (("a", b"\4\5"), ("b", b"\1\2\3"), ("c", b"\6\xff\7"))}
    values = {name: golden.digest(data) for name, data in (("a", b"\4\0\5\0"), ("b", b"\1\0\2\0\3\0"), ("c", b"\6\0"))}
    lines = [
        f"{name}\t{status}\t{values[name]}\tstream.bytes={size}\tstream.file=streams/all.bin\tstream.offset={offset}\t"
        f"stream.sha256={sha[name]}"
        for name, status, size, offset in (("a", "ok", 2, 3), ("b", "ok", 3, 0), ("c", "stop", 3, 5))
    ]
    assert run.log.splitlines() == [str(run.root / TARGET), *lines, str(run.root)]


def test_the_list_says_any_value_on_one_line(tmp_path):
    folder = make(tmp_path)
    data = golden.read_manifest(folder)
    data["vectors"] = [{**data["vectors"][0], "rows": [1, 2], "deep": {"b": {"c": "two words"}, "a": True}, "odd": "a\tb"}]
    (folder / "manifest.json").write_text(golden.dumps(data))
    (line,) = listing(folder, {}).splitlines()
    fields = line.split("\t")[3:]
    assert [field for field in fields if not field.startswith("stream.")] == [
        "deep.a=true",
        "deep.b.c=two words",
        'odd="a\\tb"',
        "rows=[1,2]",
    ]


# ---- what it says


def test_without_a_ladder_the_exit_status_is_all(run):
    outcome = run("echo all good")
    assert (outcome.verdict, outcome.facts) == (Verdict.PASSED, {"status": 0, "vectors": 3})
    assert outcome.reason == "it tells no ladder; its exit status alone is judged"
    outcome = run("echo 3 of 3 differ; exit 4")
    assert (outcome.verdict, outcome.reason, outcome.detail) == (Verdict.FAILED, "exit status 4", ("3 of 3 differ",))
    outcome = run("echo no cargo here; exit 77")
    assert outcome.verdict is Verdict.UNMEASURED
    assert outcome.reason.endswith("(exit status 77): no cargo here")
    assert run("not-a-program-at-all").verdict is Verdict.ERROR


def test_a_ladder_as_pinned(run):
    outcome = run(f"echo running; {telling(run.root)}")
    text = ladder.write(pinned.rungs(run.root / TARGET))
    digest = hashlib.sha256(text.encode()).hexdigest()
    assert (outcome.verdict, outcome.reason) == (Verdict.PASSED, f"digest {digest[:12]}, 6 of 6 rungs as pinned")
    (leg,) = outcome.facts["legs"]
    assert (leg["name"], leg["verdict"], leg["digest"]) == ("decoder", "passed", digest)
    assert outcome.facts["ladders"] == [{"legs": ["decoder"], "rungs": text.splitlines()}]
    # In another order, behind other words, and more than once it is the same.
    outcome = run(telling(run.root, lambda text: "".join(f"test x ... {line}\n" for line in text.splitlines()[::-1]) + text))
    assert (outcome.verdict, outcome.facts["legs"][0]["digest"]) == (Verdict.PASSED, digest)


def lines(*wanted, stage=""):
    """A change that keeps only some vectors' lines, or a stage's."""
    return lambda text: "".join(
        line for line in text.splitlines(keepends=True) if line.split()[2] in wanted and stage in line.split()[3]
    )


A = golden.digest(b"\4\0\5\0")
OTHER = "0" * 64


@pytest.mark.parametrize(
    ("change", "reason", "more"),
    [
        (lambda text: text.replace(A, OTHER), f"a: stage values, frame 0, plane 0: {OTHER} by the decoder, {A} pinned", ()),
        (lines("b", "c"), f"a: stage values, frame 0, plane 0: not told, pinned is {A}", ()),
        (
            lambda text: text.replace("values", "pixels").replace("end", "stop"),
            "none of its stages is pinned: it tells pixels, stop; pinned are values, end",
            (),
        ),
        (
            lambda text: text + f"ladder tiny d values 0 0 {OTHER}\n",
            "it tells of tiny d, which is not among the vectors",
            (),
        ),
        (
            lambda text: text + f"ladder tiny b values 1 0 {OTHER}\n",
            "b: stage values, frame 1, plane 0: told, but not pinned",
            (),
        ),
        (
            lambda text: text + f"ladder tiny b values 0 0 {OTHER}\n",
            "b: stage values, frame 0, plane 0 is told twice, and differently",
            (),
        ),
        (
            lambda text: text + "ladder tiny b values 0\n",
            "'ladder tiny b values 0' is no rung: wanted is ladder FAMILY VECTOR STAGE FRAME PLANE SHA256",
            (),
        ),
        (
            lambda text: text.replace(A, OTHER).replace(golden.digest(b"stop"), OTHER),
            f"a: stage values, frame 0, plane 0: {OTHER} by the decoder, {A} pinned (and 1 more)",
            (f"c: stage end, frame 0, plane 0: {OTHER} by the decoder, {golden.digest(b'stop')} pinned",),
        ),
    ],
)
def test_a_ladder_that_parts_fails_whatever_the_exit_status(run, change, reason, more):
    outcome = run(telling(run.root, change))
    assert (outcome.verdict, outcome.reason) == (Verdict.FAILED, reason)
    assert outcome.detail[: 1 + len(more)] == (reason.removesuffix(" (and 1 more)"), *more)
    assert outcome.facts["legs"][0]["verdict"] == "failed"
    outcome = run(f"{telling(run.root, change)}; exit 3")
    assert (outcome.verdict, outcome.reason) == (Verdict.FAILED, f"exit status 3; {reason}")


def test_a_stage_that_is_left_out_everywhere_or_is_of_its_own_is_no_fault(run):
    outcome = run(telling(run.root, lines("a", "b", "c", stage="end")))
    assert (outcome.verdict, outcome.reason[-22:]) == (Verdict.PASSED, " 3 of 6 rungs as pinned"[-22:])
    more = "".join(f"ladder tiny {name} header 0 0 {OTHER}\n" for name in "ab")
    outcome = run(telling(run.root, lambda text: text + more))
    assert outcome.verdict is Verdict.PASSED
    assert outcome.facts["stages_not_pinned"] == ["header"]


def test_a_damaged_folder_is_told_before_anything_runs(run):
    (run.root / TARGET / "streams/all.bin").write_bytes(b"x")
    outcome = run("touch ran")
    assert outcome.verdict is Verdict.FAILED
    assert outcome.reason.startswith("streams/all.bin has 1 bytes, the manifest says ")
    assert not (run.root / "ran").exists()


def test_a_ladder_alone_pins_what_a_decoder_must_tell(run):
    folder = run.root / "vectors/clips"
    folder.mkdir()
    text = f"ladder clips one idct 0 luma {OTHER}\nladder clips one idct 1 luma {A}\n"
    (folder / "ladder.txt").write_text(text)
    outcome = run('cat vectors/clips/ladder.txt; cut -f1 "$TOUCHGATE_VECTORS_LIST"', target="vectors/clips")
    assert (outcome.verdict, run.log) == (Verdict.PASSED, f"{text}one\n")
    assert golden.check(run.root) == pinned.alone(run.root, "vectors/clips") == []
    (folder / "ladder.txt").write_text("# nothing\n")
    outcome = run("true", target="vectors/clips")
    assert outcome.reason.startswith("ladder.txt: line 1: '# nothing' is no rung")
    assert [str(one) for one in pinned.alone(run.root, "vectors/clips")] == [
        "vectors/clips/ladder.txt:1: ladder.txt: line 1: '# nothing' is no rung"
    ]
    (folder / "ladder.txt").write_text("")
    assert run("true", target="vectors/clips").verdict is Verdict.FAILED


def test_a_run_gates_reuses_and_reports_it_like_any_other_check(project):
    make(project.root)
    script = '. tools/say.sh\ncut -f1 "$TOUCHGATE_VECTORS_LIST" | while read -r name; do say "$name"; done\n'
    project.write("tools/decode.sh", script)
    project.write("tools/say.sh", 'say() { grep " $1 " told.txt; }\n')
    telling(project.root)
    project.write(
        "tasks/lanes.yml",
        "lanes:\n  theirs:\n    paths: [none/**]\n    checks:\n      - vectors: vectors/tiny\n"
        "        decoder: sh tools/decode.sh\n        inputs: [told.txt]\n",
    )
    project.git("checkout", "-q", "main")
    project.commit()
    project.git("checkout", "-q", "-B", "work")
    project.write("docs/a.md", "b\n")
    project.commit()
    done = project.doit()
    assert (done.returncode, "nothing touched" in done.stdout.lower()) == (0, True), done.stdout + done.stderr
    # What the script reads touches the lane, though no pattern names it.
    project.write("tools/say.sh", 'say() { grep " $1 " told.txt || exit 5; }\n')
    done = project.doit("--report-dir", "report")
    assert done.returncode == 0, done.stdout + done.stderr
    (check,) = json.loads((project.root / "report/result.json").read_text())["checks"]
    assert (check["name"], check["kind"], check["verdict"], check["cached"], check["device"]) == (
        "theirs:vectors",
        "vectors",
        "passed",
        False,
        None,
    )
    assert check["reason"].endswith(", 6 of 6 rungs as pinned")
    shutil.rmtree(project.root / "report")
    again = project.doit("--report-dir", "report")
    (check,) = json.loads((project.root / "report/result.json").read_text())["checks"]
    assert (again.returncode, check["cached"]) == (0, True)
    assert project.doit("vectors", "diff", "report/result.json", "told.txt").stdout == "6 rungs in both, all equal\n"
    (project.root / "told.txt").write_text((project.root / "told.txt").read_text().replace(A, OTHER))
    done = project.doit()
    assert done.returncode == 1
    assert f"a: stage values, frame 0, plane 0: {OTHER} by the decoder, {A} pinned" in done.stdout


# ---- the example of the document

DOCUMENT = (ROOT / "docs/decoders.md").read_text(encoding="utf-8")
EXAMPLE = dict(re.findall(r"^`((?:theirs|shared)/[^`]+)`:\n\n```\w+\n(.*?)^```", DOCUMENT, re.MULTILINE | re.DOTALL))
(LANES,) = re.findall(r"^```yaml\n(.*?)^```", DOCUMENT, re.MULTILINE | re.DOTALL)


def written(root):
    for path, text in EXAMPLE.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(text, encoding="utf-8")
    for folder in ("kernels/rans", "vectors/rans"):
        shutil.copytree(ROOT / folder, root / folder)


def test_the_example_is_gated_by_all_that_it_is_made_of(project):
    written(project.root)
    project.write("tasks/lanes.yml", LANES)
    project.git("checkout", "-q", "main")
    project.commit()
    project.git("checkout", "-q", "-B", "work")
    for path, touches in {"shared/rans.rs": True, "shared/sha256.rs": True, "kernels/rans/rans.cu": False}.items():
        text = (project.root / path).read_text()
        (project.root / path).write_text(f"{text}// touched\n")
        (lane,) = json.loads(project.doit("lanes", "--json").stdout)["lanes"]
        assert (lane["decision"], lane["path"]) == (("run", path) if touches else ("skip", None))
        (project.root / path).write_text(text)


def test_the_example_decodes_every_vector_and_a_mutant_is_named(tmp_path, capfd):
    need("cargo")
    written(tmp_path)
    (tmp_path / "temporary").mkdir()
    declaration = yaml.safe_load(LANES)["lanes"]["theirs"]["checks"][0]
    spec = spec_of(tmp_path, **{key: value for key, value in declaration.items() if key != "vectors"}, target="vectors/rans")
    context = SimpleNamespace(root=tmp_path, temporary=tmp_path / "temporary", inherited_fds=())
    outcome = KIND.run(spec, context)
    text = (ROOT / "vectors/rans/ladder.txt").read_text()
    digest = hashlib.sha256(text.encode()).hexdigest()
    count = len(text.splitlines())
    assert (outcome.verdict, outcome.reason) == (Verdict.PASSED, f"digest {digest[:12]}, {count} of {count} rungs as pinned")
    source = tmp_path / "shared/rans.rs"
    for old, new, first in (
        ("{ -half - 1 }", "{ -half }", "symbols"),
        ('return Err("over_long");', "", "end"),
        ("entry <= c", "entry < c", "symbols"),
    ):
        assert EXAMPLE["shared/rans.rs"].count(old) == 1
        source.write_text(EXAMPLE["shared/rans.rs"].replace(old, new))
        outcome = KIND.run(spec, context)
        assert outcome.verdict is Verdict.FAILED
        assert re.search(rf"[a-z0-9-]+: stage {first}, frame 0, plane \d+: [0-9a-f]{{64}} by the decoder, ", outcome.reason)
    capfd.readouterr()
