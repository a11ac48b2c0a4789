"""Lane files: what is read, and every mistake as the whole text that a person sees."""

from __future__ import annotations

import re
import textwrap
from graphlib import CycleError, TopologicalSorter
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from touchgate.gate.check_declarations import check_labels
from touchgate.gate.declarations import read_lanes
from touchgate.gate.located import DeclarationError, Problem
from touchgate.gate.model import At, CheckDeclaration, DeviceWish, Lane, Need, PathPattern

KINDS = {"kernel": ["cases", "suites"], "command": [], "vectors": [], "benchmark": []}


def text(source: str) -> bytes:
    return textwrap.dedent(source).lstrip("\n").encode()


def mistakes(source: str, kinds=KINDS, **more) -> str:
    with pytest.raises(DeclarationError) as caught:
        read_lanes({"tasks/k.yml": text(source)}, kinds, **more)
    return str(caught.value)


def lane(body: str) -> str:
    """A lane `a` that is well declared but for `body`, on line 3 and on."""
    return "lanes:\n  a:\n" + textwrap.indent(textwrap.dedent(body).strip("\n"), "    ") + "\n"


def one(body: str, **more) -> Lane:
    return read_lanes({"tasks/k.yml": lane(body).encode()}, KINDS, **more)["a"]


FULL = """
    lanes:
      gemv:
        about: matrix-vector products, f32 f16 bf16
        paths: [kernels/gemv/**, "!**/*.md"]
        needs: [common, {lite: [docs]}]
        suites: [full, smoke]
        device: {gpus: 2}
        minutes: 20
        timeout: 50.5
        env: [HF_HOME]
        checks:
          - kernel: kernels/gemv/gemv.py
            cases: [1, two, {n: 3.5, on_gpu: true}]
            timeout: 5
          - command: pytest -q "tests/gpu"
            name: gpu-tests
      common: &common
        paths: [kernels/common/**]
        checks: [command: make test]
      docs: *common
"""


def test_a_whole_lane():
    file = "tasks/k.yml"
    lanes = read_lanes({file: text(FULL)}, KINDS)
    assert list(lanes) == ["gemv", "common", "docs"]
    assert lanes["gemv"] == Lane(
        name="gemv",
        about="matrix-vector products, f32 f16 bf16",
        paths=(PathPattern("kernels/gemv/**", At(file, 4, 13)), PathPattern("!**/*.md", At(file, 4, 30))),
        needs=(Need("common", None, At(file, 5, 13)), Need("docs", "smoke", At(file, 5, 29))),
        suites=("smoke", "full"),
        device=DeviceWish("gpu", 2),
        minutes=20,
        timeout=50.5,
        env=("HF_HOME",),
        checks=(
            CheckDeclaration(
                "kernel",
                "kernels/gemv/gemv.py",
                {"cases": [1, "two", {"n": 3.5, "on_gpu": True}], "timeout": 5.0},
                At(file, 12, 9),
            ),
            CheckDeclaration("command", 'pytest -q "tests/gpu"', {"name": "gpu-tests"}, At(file, 15, 9)),
        ),
        at=At(file, 2, 3),
        names_minutes=True,
    )
    assert lanes["docs"].paths == lanes["common"].paths
    assert lanes["docs"].at == At(file, 20, 3)


def test_what_is_left_out():
    read = one("paths: [a]\nchecks: [command: x]")
    assert (read.about, read.needs, read.env, read.device) == ("", (), (), DeviceWish("any", 1))
    assert (read.suites, read.minutes, read.timeout) == (("smoke", "performance", "full"), 30, 60)
    assert one("{paths: [a], minutes: 10, checks: [command: x]}").timeout == 20


@pytest.mark.parametrize(
    ("written", "wish"),
    [
        ("any", DeviceWish("any", 1)),
        ("gpu", DeviceWish("gpu", 1)),
        ("host", DeviceWish("host", 1)),
        ("{gpus: 8}", DeviceWish("gpu", 8)),
        ("{hosts: 2}", DeviceWish("hosts", 2)),
    ],
)
def test_devices(written, wish):
    assert one(f"{{paths: [a], device: {written}, checks: [command: x]}}").device == wish


def test_needs_in_every_form():
    def needs(written: str) -> list[tuple[str, str | None]]:
        source = f"lanes:\n  a: {{paths: [a], needs: {written}, checks: [command: x]}}\n"
        source += "".join(f"  {name}: {{paths: [{name}], checks: [command: x]}}\n" for name in "bc")
        return [(need.lane, need.suite) for need in read_lanes({"f.yml": source.encode()})["a"].needs]

    assert needs("[b, c]") == [("b", None), ("c", None)]
    assert needs("{lite: [b, c]}") == [("b", "smoke"), ("c", "smoke")]
    assert needs("[{lite: [b]}, c]") == [("b", "smoke"), ("c", None)]
    assert needs("[]") == []


def test_files_are_read_in_order_of_name():
    body = "{paths: [a], checks: [command: x]}"
    sources = {
        "tasks/z.yml": f"lanes: {{d: {body}, c: {body}}}".encode(),
        "tasks/a.yml": f"lanes: {{b: {body}}}".encode(),
    }
    assert list(read_lanes(sources)) == ["b", "d", "c"]
    assert read_lanes({}) == {}


def test_a_place_for_anchors():
    source = """
        x-defaults: &defaults
          device: gpu
          minutes: 5
        lanes:
          a: {<<: *defaults, paths: [a], minutes: 6, checks: [command: x]}
    """
    read = read_lanes({"f.yml": text(source)})["a"]
    assert (read.device, read.minutes) == (DeviceWish("gpu", 1), 6)


def test_any_kind_where_none_are_given():
    source = "lanes: {a: {paths: [a], checks: [{name: n, fuzz: x.py, runs: 3}, {retries: 2, command: y}]}}"
    checks = read_lanes({"f.yml": source.encode()}, None)["a"].checks
    assert [(check.kind, check.target, dict(check.options)) for check in checks] == [
        ("fuzz", "x.py", {"name": "n", "runs": 3}),
        ("command", "y", {"retries": 2}),
    ]


def test_the_sample_of_a_mistake():
    assert mistakes("""
        lanes:
          gemm:
            paths: [kernels/gemm*.cu]
            checks: [kernel: kernels/gemm.py]
            timout: 3
    """) == ("tasks/k.yml:5:5: unknown key 'timout' in lane 'gemm'; did you mean 'timeout'?\n        timout: 3\n        ^")


def test_all_mistakes_of_all_files_at_once():
    sources = {
        "tasks/b.yml": b"lanes:\n  a: {paths: [a], checks: [command: x]}\n  b: {paths: [b], checks: [comand: x]}\n",
        "tasks/a.yml": b"lanes:\n  a: {paths: [/a], checks: [command: x], minutes: -1}\n",
        "tasks/c.yml": b"lanes: [\n",
    }
    with pytest.raises(DeclarationError) as caught:
        read_lanes(sources, KINDS)
    assert [str(problem) for problem in caught.value.problems][:4] == [
        ("tasks/a.yml:2:15: pattern '/a': it begins with `/` and never matches; paths are relative to the root: write `a`"),
        "tasks/a.yml:2:51: 'minutes' must be above 0 and at most 10080, not -1",
        "tasks/b.yml:2:3: lane 'a' is declared twice; the first is at tasks/a.yml:2:3",
        "tasks/b.yml:3:28: unknown kind of check 'comand' in lane 'b'; did you mean 'command'?",
    ]
    assert len(caught.value.problems) == 5


FILES = [
    ("", "1:1: the file declares nothing; write `lanes:` with a lane, or remove the file"),
    ("[]", "1:1: a lane file is a mapping with the key 'lanes', not a list"),
    ("{}", "1:1: there is no 'lanes' in this file; write `lanes:` with a lane, or remove the file"),
    ("lane: {}", "1:1: unknown key 'lane' in a lane file; did you mean 'lanes'?"),
    ("lanes:", "1:1: 'lanes' must be a mapping from names to lanes; write a lane below it"),
    ("lanes: []", "1:1: 'lanes' must be a mapping from names to lanes; write a lane below it"),
    ("lanes:\n  a:", "2:3: lane 'a' is empty; it takes at least 'paths' and 'checks'"),
    ("lanes:\n  a: {}", "2:3: lane 'a' is empty; it takes at least 'paths' and 'checks'"),
    ("lanes:\n  a: [x]", "2:3: lane 'a' is a list; it takes at least 'paths' and 'checks'"),
    ("lanes:\n  a: {checks: [command: x]}", "2:3: lane 'a' has no 'paths'"),
    ("lanes:\n  a: {paths: [x]}", "2:3: lane 'a' has no 'checks'"),
    ("lanes:\n  a: {path: [x], checks: [command: x]}", "2:7: unknown key 'path' in lane 'a'; did you mean 'paths'?"),
    (
        "lanes:\n  a: {paths: [x], checks: [command: x], zzz: 1}",
        (
            "2:41: unknown key 'zzz' in lane 'a'; "
            "a lane takes about, each, paths, needs, suites, device, minutes, timeout, env, closure and checks"
        ),
    ),
    (
        "lanes:\n  on: {paths: [x], checks: [command: x]}",
        '2:3: a lane\'s name must be text; YAML takes on for a boolean; write "on"',
    ),
    (
        "lanes:\n  a b: {paths: [x], checks: [command: x]}",
        "2:3: 'a b' can't name a lane; take letters, digits, '.', '_' and '-', a letter or digit first",
    ),
    (
        "lanes:\n  -a: {paths: [x], checks: [command: x]}",
        "2:3: '-a' can't name a lane; take letters, digits, '.', '_' and '-', a letter or digit first",
    ),
    (
        "lanes:\n  a:b: {paths: [x], checks: [command: x]}",
        "2:3: 'a:b' can't name a lane; take letters, digits, '.', '_' and '-', a letter or digit first",
    ),
    (
        "lanes:\n  lease: {paths: [x], checks: [command: x]}",
        "2:3: 'lease' can't name a lane: it is a command of doit; take another name",
    ),
]


@pytest.mark.parametrize(("source", "problem"), FILES)
def test_mistakes_of_files_and_names(source, problem):
    with pytest.raises(DeclarationError) as caught:
        read_lanes({"f": source.encode()}, KINDS, reserved=("run", "lease"))
    assert [str(found) for found in caught.value.problems] == [f"f:{problem}"]


FIELDS = [
    # the field, line 3 column 5 on; the problem
    ("paths: []", "3:12: 'paths' is empty: nothing would ever touch the lane; write `**` for every path"),
    ("paths: a/**", "3:12: 'paths' must be a list of patterns, not text; write it in [ ]"),
    ("paths:", "3:11: 'paths' must be a list of patterns, not nothing; write it in [ ]"),
    ("paths: [[a]]", "3:13: a list inside 'paths'; write its patterns into the list itself"),
    ("paths: [a, no]", '3:16: a pattern must be text; YAML takes no for a boolean; write "no"'),
    ("paths: [a, 1.5]", '3:16: a pattern must be text; YAML takes 1.5 for a number; write "1.5"'),
    ("paths: [a, ~]", "3:16: a pattern is empty; write text, or leave the key out"),
    ("paths: [a, '']", "3:16: pattern '': it is empty"),
    ("paths: [a, '[']", "3:16: pattern '[': `[` is never closed; for the character itself write `\\[`"),
    (
        "paths: ['!a']",
        "3:12: 'paths': only patterns with `!` match nothing; put what they take back before them, such as `**`",
    ),
    ("paths: {file: x}", "3:12: 'paths' is a list of patterns, or {workflow: FILE}"),
    ("paths: {workflow: /x}", "3:23: '/x' is not a path from the repository's root"),
    ("paths: {workflow: x.yml}", "3:23: there is no workflow x.yml"),
    ("about: [x]", "3:12: 'about' must be text, not a list"),
    ("about: yes", "3:12: 'about' must be text; YAML takes yes for a boolean; write \"yes\""),
    ("suites: smoke", "3:13: 'suites' must be a list, not text; write it in [ ]"),
    ("suites: []", "3:13: 'suites' is empty; leave the key out for all of them"),
    ("suites: [smok]", "3:14: unknown suite 'smok'; did you mean 'smoke'?"),
    ("suites: [zz]", "3:14: unknown suite 'zz'; suites are smoke, performance and full"),
    ("suites: [full, full]", "3:20: 'full' stands twice in 'suites'"),
    ("device: gpus", "3:13: unknown device 'gpus'; did you mean 'gpu'?"),
    ("device: 2", "3:13: 'device' must be text; YAML takes 2 for a number; write \"2\""),
    ("device: [gpu]", "3:13: 'device' takes any, gpu, host, {gpus: 2} or {hosts: 2}"),
    ("device: {gpu: 1}", "3:13: 'device' takes any, gpu, host, {gpus: 2} or {hosts: 2}"),
    ("device: {gpus: 0}", "3:20: 'gpus' must be above 0 and at most 1024, not 0"),
    ("device: {gpus: 1.5}", "3:20: 'gpus' must be a whole number in plain digits, not 1.5"),
    ("minutes: soon", "3:14: 'minutes' must be a number in plain digits, not soon"),
    ("minutes: '3'", "3:14: 'minutes' must be a number, not text"),
    ("minutes: 0", "3:14: 'minutes' must be above 0 and at most 10080, not 0"),
    ("minutes: -0.5", "3:14: 'minutes' must be above 0 and at most 10080, not -0.5"),
    ("minutes: .nan", "3:14: 'minutes' must be a number in plain digits, not .nan"),
    ("minutes: .inf", "3:14: 'minutes' must be a number in plain digits, not .inf"),
    ("minutes: 1e3", "3:14: 'minutes' must be a number in plain digits, not 1e3"),
    ("minutes: 010", "3:14: 'minutes' must be a number in plain digits, not 010"),
    ("minutes: 99999", "3:14: 'minutes' must be above 0 and at most 10080, not 99999"),
    ("minutes: [1]", "3:14: 'minutes' must be a number, not a list"),
    ("timeout:", "3:13: 'timeout' must be a number in plain digits, not nothing"),
    ("env: HF_HOME", "3:10: 'env' must be a list, not text; write it in [ ]"),
    ("env: [A-B]", "3:11: 'A-B' in 'env' is not the name of a variable"),
    ("env: [A, A]", "3:14: 'A' stands twice in 'env'"),
    ("needs: b", "3:12: 'needs' must be a list of lanes, not text; write it in [ ]"),
    ("needs: [bb]", "3:13: lane 'a' needs 'bb', which no file declares; did you mean 'b'?"),
    ("needs: [zz]", "3:13: lane 'a' needs 'zz', which no file declares"),
    ("needs: [a]", "3:13: lanes need each other in a circle: a -> a (f:3:13); take one of these needs out"),
    ("needs: [b, b]", "3:16: lane 'a' needs 'b' twice; keep one"),
    ("needs: [b, {lite: [b]}]", "3:24: lane 'a' needs 'b' twice; keep one"),
    ("needs: {full: [b]}", "3:12: 'needs' takes names of lanes and {lite: [names]}"),
    ("needs: {lite: b}", "3:19: 'lite' must be a list, not text; write it in [ ]"),
    ("checks:", "3:12: 'checks' must be a list, not nothing; begin each check with '- '"),
    ("checks: []", "3:5: lane 'a' has no checks: touched, it would have nothing to run"),
    ("checks: {command: x}", "3:13: 'checks' must be a list, not a mapping; begin each check with '- '"),
    ("checks: [x]", "3:14: a check of lane 'a' must be a mapping such as `command: make test`, not text"),
    ("checks: [{}]", "3:14: a check of lane 'a' must be a mapping such as `command: make test`, not nothing"),
    (
        "checks: [command: true]",
        "3:23: the target of 'command' must be text; YAML takes true for a boolean; write \"true\"",
    ),
    ("checks: [command: '']", "3:23: the target of 'command' is empty"),
    ("checks: [name: x]", "3:14: a check of lane 'a' has no kind; kinds are kernel, command, vectors and benchmark"),
    (
        "checks: [zzz: x]",
        "3:14: unknown kind of check 'zzz' in lane 'a'; kinds are benchmark, command, kernel and vectors",
    ),
    (
        "checks: [{kernel: x, command: y}]",
        "3:26: a check of lane 'a' has two kinds, 'kernel' and 'command'; write two checks",
    ),
    (
        "checks: [{kernel: x, case: y}]",
        "3:26: unknown key 'case' in a 'kernel' check of lane 'a'; did you mean 'cases'?",
    ),
    (
        "checks: [{command: x, zz: y}]",
        "3:27: unknown key 'zz' in a 'command' check of lane 'a'; it takes name and timeout",
    ),
    ("checks: [{command: x, timeout: 0}]", "3:36: 'timeout' must be above 0 and at most 10080, not 0"),
    (
        "checks: [{command: x, name: a/b}]",
        "3:33: 'a/b' can't name a check; take letters, digits, '.', '_' and '-', a letter or digit first",
    ),
    (
        "checks: [{kernel: x, cases: [off]}]",
        (
            "3:34: 'cases': readers of YAML differ on off (a boolean or text); "
            'write "off" for text, else plain digits, true or false'
        ),
    ),
    (
        "checks: [kernel: a/x.py, kernel: b/x.py]",
        "3:30: two checks of lane 'a' are named 'kernel:x'; the first is at f:3:14; give one a 'name'",
    ),
    (
        "checks: [kernel: x, {command: y, name: kernel}]",
        "3:26: two checks of lane 'a' are named 'kernel'; the first is at f:3:14; give one a 'name'",
    ),
]


@pytest.mark.parametrize(("field", "problem"), FIELDS)
def test_mistakes_of_fields(field, problem):
    key = field.partition(":")[0]
    rest = {"paths": "paths: [x]", "checks": "checks: [command: x]"}
    rest.pop(key, None)
    body = "\n".join([field, *rest.values()])
    source = lane(body) + "  b: {paths: [b], checks: [command: x]}\n"
    with pytest.raises(DeclarationError) as caught:
        read_lanes({"f": source.encode()}, KINDS)
    assert [str(found) for found in caught.value.problems] == [f"f:{problem}"]


def test_circles_are_named():
    def lanes(**needs: str) -> bytes:
        return (
            "lanes:\n"
            + "".join(f"  {name}: {{paths: [x], needs: [{needed}], checks: [command: x]}}\n" for name, needed in needs.items())
        ).encode()

    def circles(source: bytes) -> list[str]:
        with pytest.raises(DeclarationError) as caught:
            read_lanes({"f": source})
        return [problem.message.rpartition(": ")[2] for problem in caught.value.problems]

    assert circles(lanes(a="b", b="c", c="a")) == ["a -> b (f:2:27) -> c (f:3:27) -> a (f:4:27)"]
    assert circles(lanes(a="b", b="a", c="d", d="c, a")) == [
        "a -> b (f:2:27) -> a (f:3:27)",
        "c -> d (f:4:27) -> c (f:5:27)",
    ]
    assert circles(lanes(x="a", a="{lite: [b]}", b="a")) == ["a -> b (f:3:35) -> a (f:4:27)"]
    many = {f"l{n}": f"l{n + 1}" for n in range(3000)} | {"l3000": ""}
    assert len(read_lanes({"f": lanes(**many)})) == 3001
    diamond = lanes(a="b, c", b="d", c="d", d="")
    assert list(read_lanes({"f": diamond})) == ["a", "b", "c", "d"]


@given(st.lists(st.sets(st.integers(0, 6), max_size=3), min_size=1, max_size=7), st.booleans())
def test_circles_are_told_exactly_where_there_are_any(graph, lite):
    """Against the standard library's own sorting: taking out what is told leaves none, and each circle is one."""
    needs = {
        f"l{lane}": [f"l{needed}" for needed in sorted(wanted) if needed < len(graph)] for lane, wanted in enumerate(graph)
    }
    lines = [
        f"  {lane}: {{paths: [x], needs: [{f'{{lite: [{chr(44).join(wanted)}]}}' if lite and wanted else ', '.join(wanted)}], "
        "checks: [command: x]}"
        for lane, wanted in needs.items()
    ]
    try:
        read_lanes({"f": "\n".join(["lanes:", *lines]).encode()})
        told = []
    except DeclarationError as fault:
        told = [problem.message.rpartition("circle: ")[2] for problem in fault.problems]
    try:
        list(TopologicalSorter(needs).static_order())
        assert told == []
    except CycleError:
        assert told
    for circle in told:
        way = re.sub(r" \(f:\d+:\d+\)", "", circle).split(" -> ")
        assert way[0] == way[-1]
        assert all(needed in needs[lane] for lane, needed in pairwise(way))
    for circle in told:
        *_, last, first = re.sub(r" \(f:\d+:\d+\)", "", circle).split(" -> ")
        needs[last].remove(first)
    list(TopologicalSorter(needs).static_order())


def test_the_names_of_checks():
    def check(kind: str, target: str, **options: object) -> CheckDeclaration:
        return CheckDeclaration(kind, target, options, At("f", 1, 1))

    checks = [check("kernel", "a/x.py"), check("kernel", "b/y.py"), check("command", "make"), check("command", "make")]
    assert check_labels(checks) == ["kernel:x", "kernel:y", "command:1", "command:2"]
    assert check_labels([check("kernel", "x.py"), check("kernel", "x.py", name="n")]) == ["kernel", "n"]


WORKFLOW = b"""
on:
  pull_request:
    paths: [kernels/**, "!**/*.md"]
  push:
    paths: [kernels/**]
"""


def test_the_paths_of_a_workflow():
    files = {".github/workflows/x.yml": WORKFLOW}
    read = one("{paths: {workflow: .github/workflows/x.yml}, checks: [command: x]}", read_file=files.get)
    at = ".github/workflows/x.yml"
    # What the list of push names counts as well, and takes nothing back.
    places = [("kernels/**", At(at, 4, 13)), ("!**/*.md", At(at, 4, 25)), ("kernels/**", At(at, 6, 13))]
    assert read.paths == tuple(PathPattern(text, place) for text, place in places)


@pytest.mark.parametrize(
    ("content", "patterns"),
    [
        (b"on: {push: {paths-ignore: ['**.md', docs/**]}}", ["**", "!**.md", "!docs/**"]),
        (b"on: {push: {paths: []}}", ["**"]),
        (b"on: push", ["**"]),
        (b"on: [schedule]", ["**"]),
    ],
)
def test_the_paths_of_other_workflows(content, patterns):
    read = one("{paths: {workflow: x.yml}, checks: [command: x]}", read_file={"x.yml": content}.get)
    assert [pattern.text for pattern in read.paths] == patterns


@pytest.mark.parametrize(
    ("content", "text"),
    [
        (
            b"on:\n  push:\n    paths: [/a]\n",
            (
                "x.yml:3:13: pattern '/a': it begins with `/` and never matches; "
                "paths are relative to the root: write `a`\n"
                "        paths: [/a]\n                ^"
            ),
        ),
        (
            b"on: {push: {paths-ignore: [a, '!b']}}",
            (
                "x.yml:1:31: a lane can't be gated by a 'paths-ignore' that holds `!`; write 'paths' there\n"
                "    on: {push: {paths-ignore: [a, '!b']}}\n                                  ^"
            ),
        ),
        (b"name: x", "x.yml:1:1: the workflow names no event; it needs `on:`\n    name: x\n    ^"),
    ],
)
def test_mistakes_of_a_workflow_stand_at_its_own_place(content, text):
    source = lane("{paths: {workflow: x.yml}, checks: [command: x]}")
    assert mistakes(source, read_file={"x.yml": content}.get) == text


@pytest.mark.parametrize("written", ["./ci/w.yml", "ci//w.yml", "ci/./w.yml", "././ci/w.yml"])
def test_a_workflow_s_path_is_kept_as_git_writes_it(written):
    source = f"lanes: {{a: {{paths: {{workflow: {written}}}, checks: [command: x]}}}}".encode()
    lanes = read_lanes({"tasks/a.yml": source}, read_file={"ci/w.yml": b"on: {push: {paths: [k/**]}}"}.get)
    assert [pattern.at.file for pattern in lanes["a"].paths] == ["ci/w.yml"]


def test_a_workflow_that_is_refused_is_told_where_it_is_named():
    def refuse(path):
        raise DeclarationError([Problem(At(path, 1, 1), f"{path} is a symbolic link")])

    source = b"lanes: {a: {paths: {workflow: w.yml}, checks: [command: x]}}"
    with pytest.raises(DeclarationError) as caught:
        read_lanes({"tasks/a.yml": source}, read_file=refuse)
    assert [str(problem) for problem in caught.value.problems] == ["tasks/a.yml:1:31: w.yml is a symbolic link"]


@pytest.mark.parametrize(
    ("pattern", "fault"),
    [
        (">\n        docs/**", "pattern 'docs/**\n': it holds a line break or tab and never matches"),
        ("|\n        a/**\n        b/**", "pattern 'a/**\nb/**\n': it holds a line break or tab and never matches"),
        ("' docs/**'", "pattern ' docs/**': it begins or ends with a blank and never matches"),
        ("'docs/** '", "pattern 'docs/** ': it begins or ends with a blank and never matches"),
        ('"docs/**\\t"', "pattern 'docs/**\t': it holds a line break or tab and never matches"),
        ("'! docs/**'", "pattern '! docs/**': it begins or ends with a blank and never matches"),
    ],
)
def test_blanks_around_a_pattern(pattern, fault):
    source = f"lanes:\n  a:\n    checks: [command: x]\n    paths:\n      - x\n      - {pattern}\n".encode()
    with pytest.raises(DeclarationError) as caught:
        read_lanes({"tasks/a.yml": source})
    assert [problem.message.partition(";")[0] for problem in caught.value.problems] == [fault]


def test_blanks_inside_a_pattern_and_escaped_ones_are_fine():
    source = b"lanes: {a: {paths: ['a b/**', 'c\\ '], checks: [command: x]}}"
    assert [pattern.text for pattern in read_lanes({"tasks/a.yml": source})["a"].paths] == ["a b/**", "c\\ "]


@pytest.mark.parametrize("shape", ["[*a{}]", "{{k: *a{}}}", "{{<<: {{j: v}}, k: *a{}}}"])
def test_aliases_that_nest_deep_are_refused(shape):
    lines = ["x-0: &a0 {k: v}"]
    lines += [
        f"x-{number}: &a{number} {shape.replace('{}', str(number - 1)).replace('{{', '{').replace('}}', '}')}"
        for number in range(1, 600)
    ]
    lines += ["lanes: {a: {paths: [x], checks: [{command: x, y: *a599}]}}"]
    with pytest.raises(DeclarationError) as caught:
        read_lanes({"tasks/a.yml": "\n".join(lines).encode()})
    (problem,) = caught.value.problems
    assert problem.message == "lists and mappings are nested more than 50 deep"
    assert 45 < problem.at.line < 52
