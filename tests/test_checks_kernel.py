"""The check kind `kernel`: what a declaration stands for, what a result depends on, and what a run comes to."""

from __future__ import annotations

import os
import py_compile
import re
import subprocess
import sys
from dataclasses import dataclass
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path

import pytest

from touchgate.checks import DeclarationFault, Inputs
from touchgate.checks.cases import OracleFault, load_file, load_oracle
from touchgate.checks.kernel import KIND
from touchgate.checks.measuring import first_error
from touchgate.checks.oracles import oracle_files
from touchgate.checks.sanitized import judged
from touchgate.checks.worker import run as work
from touchgate.devices import Unavailable, emulated
from touchgate.gate.model import At, CheckDeclaration, DeviceWish, Lane
from touchgate.outcome import Verdict

HERE = At("tasks/kernels.yml", 7, 9)
DOCUMENT = Path(__file__).parent.parent / "docs" / "kernels.md"


def example(language: str) -> str:
    """The code block of a language in docs/kernels.md: there is one of each."""
    (found,) = re.findall(rf"^```{language}\n(.*?)^```$", DOCUMENT.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)
    return found


def lane_of(*targets: str, **options) -> Lane:
    checks = tuple(CheckDeclaration("kernel", target, options, HERE) for target in targets)
    return Lane("scale", "y = a x", (), (), ("smoke", "full"), DeviceWish(), 30, 60, ("HF_HOME",), checks, HERE)


@dataclass
class Here:
    """The documented example in a folder, ready to be broken."""

    root: Path
    build_dir: Path

    def write(self, name: str, text: str) -> None:
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")

    def edit(self, name: str, old: str, new: str) -> None:
        text = (self.root / name).read_text(encoding="utf-8")
        assert text.count(old) == 1
        self.write(name, text.replace(old, new))

    def specs(self):
        lane = lane_of("kernels/scale/scale.py")
        return {spec.name: spec for spec in KIND.expand(lane, lane.checks[0], self.root)}

    def run(self, name: str = "scale:kernel", temporary: str = "temporary"):
        spec = self.specs()[name]
        folder = self.root.parent / temporary
        folder.mkdir(exist_ok=True)
        return work(
            {
                "spec": {field: getattr(spec, field) for field in spec.__dataclass_fields__},
                "root": str(self.root),
                "place": "emulated",
                "build_dir": str(self.build_dir),
                "temporary": str(folder),
                "fds": [],
                "gpu": None,
            }
        )


@pytest.fixture(scope="session")
def build_dir(tmp_path_factory):
    return tmp_path_factory.mktemp("build")


@pytest.fixture
def here(tmp_path, build_dir):
    made = Here(tmp_path / "repository", build_dir)
    made.write("kernels/scale/scale.cu", example("cuda"))
    made.write("kernels/scale/scale.py", example("python"))
    return made


PY, CU = "kernels/scale/scale.py", "kernels/scale/scale.cu"


def test_one_declaration_stands_for_four_checks(here):
    specs = here.specs()
    assert {name: (spec.kind, spec.target, spec.places, spec.suites) for name, spec in specs.items()} == {
        "scale:kernel": ("kernel", PY, ("gpu", "emulated"), ("smoke", "full")),
        "scale:sanitize": ("kernel", PY, ("emulated",), ("full",)),
        "scale:compile": ("compile", CU, ("host",), ("smoke", "full")),
        "scale:compile-full": ("compile", CU, ("host",), ("full",)),
    }
    kernel = specs["scale:kernel"]
    assert (kernel.timeout, kernel.env, kernel.where) == (3600, ("HF_HOME",), "tasks/kernels.yml:7:9")


def test_several_kernels_of_a_lane_are_told_apart(here):
    here.write("kernels/scale/other.cu", example("cuda"))
    here.write("kernels/scale/other.py", example("python"))
    lane = lane_of(PY, "kernels/scale/other.py")
    names = [spec.name for declaration in lane.checks for spec in KIND.expand(lane, declaration, here.root)]
    assert len(names) == len(set(names)) == 8
    assert names[0] == "scale:kernel:scale"


@pytest.mark.parametrize(
    ("target", "message"),
    [
        ("kernels/scale/scale.cu", "'kernels/scale/scale.cu' is not an oracle file: its name must end in .py"),
        ("kernels/scale/none.py", "there is no oracle file 'kernels/scale/none.py'"),
        ("kernels/scale/lone.py", "there is no kernel file beside the oracle file 'kernels/scale/lone.cu'"),
        ("../scale.py", "'../scale.py' is not below the repository's root"),
        ("/scale.py", "'/scale.py' is not below the repository's root"),
    ],
)
def test_a_bad_target_is_said_in_words(here, target, message):
    here.write("kernels/scale/lone.py", "")
    lane = lane_of(target)
    with pytest.raises(DeclarationFault, match=f"^kernel: {re.escape(message)}$"):
        list(KIND.expand(lane, lane.checks[0], here.root))


def test_inputs_are_all_that_oracle_and_kernel_reach(here):
    here.write("kernels/common/deep.cuh", "")
    here.write("kernels/common/near.cuh", '#include "deep.cuh"\n')
    here.write("kernels/scale/helper.py", "from ..common import values\nfrom .sub.tool import x\nimport numpy\n")
    here.write("kernels/common/values.py", "from . import missing\n")
    here.write("kernels/scale/sub/tool.py", "from ...scale import helper\nfrom ..... import outside\n")
    here.edit(CU, "// y[i]", '#include "../common/near.cuh"\n// y[i]')
    here.edit(PY, "import numpy as np\n", "import numpy as np\nfrom . import helper\n")
    files = (
        "../outside.py",
        "../outside/__init__.py",
        "kernels/common.py",
        "kernels/common/__init__.py",
        "kernels/common/deep.cuh",
        "kernels/common/missing.py",
        "kernels/common/missing/__init__.py",
        "kernels/common/near.cuh",
        "kernels/common/values.py",
        "kernels/common/values/__init__.py",
        "kernels/scale.py",
        "kernels/scale/__init__.py",
        "kernels/scale/helper.py",
        "kernels/scale/helper/__init__.py",
        CU,
        PY,
        "kernels/scale/sub.py",
        "kernels/scale/sub/__init__.py",
        "kernels/scale/sub/tool.py",
        "kernels/scale/sub/tool/__init__.py",
    )
    spec = here.specs()["scale:kernel"]
    assert KIND.inputs(spec, here.root, "emulated") == Inputs(files, ("python", "numpy", "g++"))
    assert KIND.inputs(spec, here.root, "gpu").tools == ("python", "numpy", "nvcc", "pycuda")


@pytest.mark.parametrize(
    "text",
    [
        "def f():\n    from . import nat\n",
        "async def f():\n    async with a as b:\n        from . import nat\n",
        "try:\n    pass\nexcept A:\n    from . import nat\n",
        "try:\n    pass\nfinally:\n    from . import nat\n",
        "if a:\n    pass\nelif b:\n    pass\nelse:\n    from . import nat\n",
        "for a in b:\n    pass\nelse:\n    from . import nat\n",
        "while a:\n    from . import nat\n",
        "with a:\n    from . import nat\n",
        "match a:\n    case 1:\n        from . import nat\n",
        "class A:\n    class B:\n        def f(self):\n            from . import nat\n",
        "x = lambda: 1 if a else 2; from . import other, nat as n\n",
        "from \\\n  . import (\n  nat)\n",
        "from.import nat\n",
        "# coding: utf-7\n+AGY-rom . import nat\n",
    ],
)
def test_an_import_is_found_wherever_it_stands(tmp_path, text):
    (tmp_path / "main.py").write_text(text)
    assert {"nat.py", "nat/__init__.py"} <= set(oracle_files("main.py", tmp_path))


def test_the_packages_on_the_way_are_inputs_and_what_a_module_defines_is_none(tmp_path):
    for name, text in {
        "k/a/main.py": "from ..ref.m import F\nfrom ..all import *\n",
        "k/ref/m.py": "F = 1\n",
        "k/ref/__init__.py": "try:\n    from .deep import x\nexcept ImportError:\n    pass\n",
        "k/all/__init__.py": "__all__ = ['one', 'two']\n",
        "k/all/one.py": "",
        "k/all/two/__init__.py": "",
        "k/all/notes.txt": "",
    }.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    modules = ("k/all", "k/all/__init__", "k/all/one", "k/all/two", "k/ref", "k/ref/deep", "k/ref/deep/x", "k/ref/m")
    both = {name for module in modules for name in (f"{module}.py", f"{module}/__init__.py")}
    assert set(oracle_files("k/a/main.py", tmp_path)) == {"k/a/main.py", *both}
    assert load_file(tmp_path / "k" / "a" / "main.py").one


def test_an_oracle_file_that_does_not_parse_is_still_an_input(here):
    here.write(PY, "def (:\n")
    assert oracle_files(PY, here.root) == [PY]


def test_deciding_imports_no_numpy_and_runs_no_oracle_file(here):
    here.write(PY, "raise SystemExit('executed')\n")
    script = (
        "import sys; from pathlib import Path\n"
        "from touchgate.checks.kernel import KIND\n"
        "from touchgate.gate.model import At, CheckDeclaration, DeviceWish, Lane\n"
        f"at = At('x', 1, 1); declaration = CheckDeclaration('kernel', {PY!r}, {{}}, at)\n"
        "lane = Lane('scale', '', (), (), ('smoke',), DeviceWish(), 1, 2, (), (declaration,), at)\n"
        f"root = Path({str(here.root)!r})\n"
        "for spec in KIND.expand(lane, declaration, root):\n"
        "    if spec.kind == 'kernel': KIND.inputs(spec, root, 'emulated')\n"
        "print([name for name in ('numpy', 'pycuda', 'ctypes') if name in sys.modules])\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert (done.stdout, done.stderr) == ("[]\n", "")


def test_the_documented_example_passes(here, capsys):
    outcome = here.run()
    assert outcome.verdict is Verdict.PASSED
    assert (outcome.device, outcome.cases, outcome.reason, outcome.detail) == ("emulated", 6, "", ())
    assert outcome.worst == {"error": 0.0, "bound": 0.0, "case": "n=1: y", "index": [0]}
    assert outcome.facts["trials"] == 36
    assert outcome.facts["bounds"] == {"float32": ["one multiplication, rounded once"]}
    assert capsys.readouterr().out.splitlines() == ["n=1", "n=31", "n=32", "n=33", "n=257", "n=1009"]
    assert not list(here.root.rglob("__pycache__"))


def test_a_wrong_value_fails_with_all_evidence(here):
    here.edit(CU, "y[i] = a * x[i];", "y[i] = a * x[i] + (i == 30 ? 0.5f : 0.0f);")
    outcome = here.run()
    assert outcome.verdict is Verdict.FAILED
    head, mismatch, bound, counts, stopped = outcome.detail
    assert head == "n=31: aligned, seed 1, blocks of 256 threads, thread order 0"
    number, bits = r"-?[\d.]+", r"\(0x[0-9a-f]{8}\)"
    assert re.fullmatch(rf"y\[30\]: got {number} {bits}, expected {number} {bits}, \d+ ulp apart, bit for bit", mismatch)
    assert bound == "bound: one multiplication, rounded once"
    assert re.fullmatch(r"1 of 31 elements differ; worst error 0\.5 at \[30\], bound 0", counts)
    assert stopped == "stopped after 2 of 6 cases, 5 of 11 trials wrong"
    assert outcome.reason == f"n=31: {mismatch}"
    assert outcome.worst == {"error": 0.5, "bound": 0.0, "case": "n=31: y", "index": [30]}


def test_other_wrong_cases_are_named(here):
    # Wrong with one of the two block sizes only, so that more than one case gets its turn.
    here.edit(CU, "y[i] = a * x[i];", "y[i] = a * x[i] + (blockDim.x == 96 && n > 31 ? 0.5f : 0.0f);")
    outcome = here.run()
    assert outcome.reason.startswith("n=32: y[0]: got ")
    assert outcome.detail[0] == (
        "n=32: one array off by one element, rows apart, seed 2, blocks of 96 threads, thread order 3"
    )
    assert outcome.detail[-2:] == ("also wrong: n=33", "stopped after 4 of 6 cases, 5 of 23 trials wrong")


def test_a_nan_has_no_figure_and_the_outcome_stays_json(here):
    here.edit(CU, "y[i] = a * x[i];", 'y[i] = i == 0 ? nanf("") : a * x[i];')
    outcome = here.run()
    assert outcome.verdict is Verdict.FAILED
    assert outcome.worst is not None
    assert outcome.worst["error"] is None


def test_a_source_that_does_not_compile_fails_with_the_compilers_text(here):
    here.edit(CU, "y[i] = a * x[i];", "y[i] = a * z[i];")
    outcome = here.run()
    assert outcome.verdict is Verdict.FAILED
    assert outcome.reason.startswith(f"{CU} does not compile: ")
    assert "scale.cu:5" in outcome.reason
    assert any("z" in line for line in outcome.detail)


def test_a_kernel_that_is_not_there_fails(here):
    here.edit(PY, '"scale_float32"', '"scale_float64"')
    outcome = here.run()
    assert outcome.verdict is Verdict.FAILED
    assert outcome.reason == f"{PY} launches 'scale_float64', which {CU} does not define"
    assert "it has: scale_float32" in outcome.detail[0]


def test_an_exception_in_the_oracle_file_is_an_error_with_its_line(here, capsys):
    here.edit(PY, 'np.float32(3.5) * inputs["x"]', 'np.float32(3.5) * inputs["z"]')
    outcome = here.run()
    assert (outcome.verdict, outcome.reason) == (Verdict.ERROR, f"{PY}:25: case 'n=1': KeyError: 'z'")
    assert "Traceback" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("old", "new", "reason"),
    [
        (
            "ORACLE =",
            "oracle_ =",
            "defines no ORACLE; wanted is ORACLE = Oracle(...), with Oracle from touchgate.checks.cases",
        ),
        ("(1, 31, 32, 33, 257, 1009)", "()", "it has no case for the place 'emulated'; nothing ran"),
        ("Bound(None,", "Bound(1e9,", "its bounds would let zeros pass as y (float32) in every float32 case"),
        ("Bound(None,", "Bound(-1,", "case 'n=1': y: the bound at [0] is -1.0; wanted is a finite number >= 0"),
    ],
)
def test_an_oracle_file_that_proves_nothing_is_an_error(here, old, new, reason):
    here.edit(PY, old, new)
    outcome = here.run()
    assert (outcome.verdict, outcome.reason) == (Verdict.ERROR, f"{PY}: {reason}")


ANSWER = '    return {"y": np.float32(3.5) * inputs["x"]}\n'
LIMIT = '    return {"y": Bound(None, "one multiplication, rounded once")}\n'


@pytest.mark.parametrize(
    ("old", "new", "reason"),
    [
        (ANSWER, f'    inputs["x"] *= 2\n{ANSWER}', ":25: case 'n=1': ValueError: output array is read-only"),
        (LIMIT, f'    outputs["y"][:] = 0\n{LIMIT}', ":29: case 'n=1': ValueError: assignment destination is read-only"),
        (ANSWER, f"    raise SystemExit(0)\n{ANSWER}", ":25: case 'n=1': SystemExit: 0"),
        (ANSWER, f"    raise KeyboardInterrupt\n{ANSWER}", ":25: case 'n=1': KeyboardInterrupt"),
        ("import numpy as np\n", "import numpy as np\nraise SystemExit(0)\n", ":4: SystemExit: 0"),
        ("import numpy as np\n", "import numpy as np\ndef (:\n", ":4: SyntaxError: invalid syntax"),
        ("import numpy as np\n", "import numpy as np\nfrom . import gone\n", ":4: ImportError"),
        (ANSWER, '    return {"y": [3.5]}\n', ": case 'n=1': y: oracle gives a list; wanted is a numpy array"),
        (
            ANSWER,
            '    return {"y": inputs["x"] * 3.5j}\n',
            ": case 'n=1': y: oracle gives complex64 for float32; wanted is float64, float32",
        ),
        (ANSWER, '    return {"y": np.ma.masked_all(case["n"])}\n', ": case 'n=1': y: oracle gives a MaskedArray; wanted is"),
        (ANSWER, "    return 3\n", ": case 'n=1': oracle gives an int; wanted is a dict with an entry for each output"),
        (ANSWER, '    return {"y": np.zeros(77)}\n', ": case 'n=1': y: oracle gives shape [77], the output has [1]"),
        (LIMIT, '    return {"y": Bound("1.0", "why")}\n', ": case 'n=1': y: the bound's limit is '1.0'; wanted is a number"),
        (LIMIT, '    return {"y": Bound(1j, "why")}\n', ": case 'n=1': y: the bound's limit is 1j; wanted is a number"),
        (LIMIT, '    return {"y": Bound(None, "")}\n', ": case 'n=1': y: its bound has no reason; say which roundings"),
        (LIMIT, '    return {"y": None}\n', ": case 'n=1': y: bound gives a NoneType; wanted is Bound(limit, reason)"),
        ("(1, 31, 32, 33, 257, 1009)", "(1, 1)", ": two cases are named 'n=1'"),
        ("(1, 31, 32, 33, 257, 1009)", "(1, 1 / 0)", ":9: cases: ZeroDivisionError: division by zero"),
        ("yield Launch(", "yield (", ": case 'n=1': launch gives a tuple; wanted are Launch(name, ...)"),
        ("(blocks, 1, 1)", "(1.5, 1, 1)", ": case 'n=1': launch of 'scale_float32': grid (1.5, 1, 1), block"),
        ('wanted("y"', 'wanted("x"', ": case 'n=1': two arrays are named 'x'"),
    ],
)
def test_what_is_wrong_in_an_oracle_file_is_named_with_its_case_and_line(here, old, new, reason):
    here.edit(PY, old, new)
    outcome = here.run()
    assert outcome.verdict is Verdict.ERROR
    assert outcome.reason.startswith(f"{PY}{reason}")


def test_arrays_that_the_oracle_file_keeps_are_not_the_ones_that_are_placed(here):
    here.edit(PY, "def oracle(", "KEPT = []\n\n\ndef oracle(")
    here.edit(
        PY,
        '    yield given("x", case.dtype, random.uniform(-8, 8, case["n"]))\n',
        '    KEPT[:] = [random.uniform(1, 8, case["n"]).astype(np.float32)]\n    yield given("x", case.dtype, KEPT[0])\n',
    )
    here.edit(PY, ANSWER, '    KEPT[0][:] = 1\n    return {"y": np.float32(3.5) * KEPT[0]}\n')
    assert here.run().verdict is Verdict.FAILED


def test_without_a_compiler_it_is_unmeasured(here, monkeypatch):
    def missing(*_, **__):
        raise Unavailable("no C++ compiler: install g++")

    monkeypatch.setattr(emulated, "open_device", missing)
    outcome = here.run()
    assert (outcome.verdict, outcome.reason, outcome.device) == (
        Verdict.UNMEASURED,
        "no C++ compiler: install g++",
        None,
    )


@pytest.mark.slow
def test_sanitized_cases_pass(here):
    outcome = here.run("scale:sanitize")
    assert (outcome.verdict, outcome.cases, outcome.device) == (Verdict.PASSED, 4, "emulated")


@pytest.mark.slow
def test_the_sanitizer_sees_a_read_out_of_bounds_that_no_value_shows(here):
    here.edit(CU, "y[i] = a * x[i];", "y[i] = a * x[i] + (x[i + 1] > 1e9f ? 1.0f : 0.0f);")
    assert here.run().verdict is Verdict.PASSED
    outcome = here.run("scale:sanitize")
    assert outcome.verdict is Verdict.FAILED
    assert outcome.reason.startswith("n=1: ERROR: AddressSanitizer: heap-buffer-overflow")
    assert outcome.detail[1] == "case: n=1"
    assert any("scale.cu:5" in line for line in outcome.detail)


@pytest.mark.slow
def test_the_sanitizer_sees_undefined_behaviour(here):
    here.edit(CU, "y[i] = a * x[i];", "y[i] = a * x[i] + (1 << static_cast<int>(n + 31) == 77 ? 1.0f : 0.0f);")
    outcome = here.run("scale:sanitize")
    assert outcome.verdict is Verdict.FAILED
    assert "runtime error: shift exponent 32 is too large" in outcome.reason


@pytest.mark.slow
def test_an_exception_in_a_sanitized_oracle_is_an_error(here):
    here.edit(PY, 'np.float32(3.5) * inputs["x"]', 'np.float32(3.5) * inputs["z"]')
    outcome = here.run("scale:sanitize")
    assert (outcome.verdict, outcome.reason) == (Verdict.ERROR, f"{PY}:25: case 'n=1': KeyError: 'z'")


def test_a_sanitizers_report_is_read():
    output = (
        "n=1\nn=31\n=================================================================\n"
        "==7==ERROR: AddressSanitizer: heap-buffer-overflow on address 0x60 at pc 0x7f\n"
        "READ of size 4 at 0x60 thread T1\n"
        "    #0 0x7f01 in scale_float32 /r/kernels/scale/scale.cu:5\n"
        "    #1 0x7f02 in call /r/unit.ii:9\n"
    )
    outcome = judged(output, 1, CU, Path("/r"))
    finding = "ERROR: AddressSanitizer: heap-buffer-overflow on address 0x60 at pc 0x7f"
    assert outcome.verdict is Verdict.FAILED
    assert outcome.reason == f"n=31: {finding}"
    assert outcome.detail == (finding, "case: n=31", "in scale_float32 /r/kernels/scale/scale.cu:5")


def test_a_sanitized_run_that_ends_without_a_word_is_an_error():
    outcome = judged("", -9, CU, Path("/r"))
    assert (outcome.verdict, outcome.reason) == (Verdict.ERROR, "the sanitized run ended with status -9: no output")


def test_files_of_one_name_do_not_meet_and_siblings_are_found(tmp_path):
    for folder, value in (("a", 1), ("b", 2)):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "helper.py").write_text(f"value = {value}\n")
        (tmp_path / folder / "main.py").write_text("from .helper import value\n")
    (tmp_path / "a" / "up.py").write_text("from ..b.helper import value\n")
    before = list(sys.path)
    assert [load_file(tmp_path / folder / "main.py").value for folder in "ab"] == [1, 2]
    assert load_file(tmp_path / "a" / "up.py").value == 2
    assert sys.path == before


def test_a_file_is_read_as_it_is_now(tmp_path):
    path = tmp_path / "main.py"
    for value in (1, 2):
        path.write_text(f"value = {value}\n")
        assert load_file(path).value == value


def test_a_sibling_is_compiled_from_what_it_says_now(tmp_path):
    nat = tmp_path / "nat.py"
    nat.write_text("value = 1\n")
    os.utime(nat, (1_000_000_000, 1_000_000_000))
    py_compile.compile(str(nat), doraise=True)
    nat.write_text("value = 2\n")
    os.utime(nat, (1_000_000_000, 1_000_000_000))
    (tmp_path / "main.py").write_text("from . import nat\nvalue = nat.value\n")
    assert load_file(tmp_path / "main.py").value == 2


def test_packages_and_folders_are_found_as_python_finds_them(tmp_path):
    for name, text in {
        "p/__init__.py": "value = 1\nfrom .inner import more\n",
        "p/inner.py": "more = 2\n",
        "p.py": "value = 'the package goes first'\n",
        "plain/m.py": "value = 3\n",
        "main.py": "from .p import value, more\nfrom .plain.m import value as third\n"
        "def late():\n    from .lazy import value\n    return value\n",
        "lazy.py": "value = 4\n",
    }.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    main = load_file(tmp_path / "main.py")
    assert (main.value, main.more, main.third, main.late()) == (1, 2, 3, 4)
    assert not list(tmp_path.rglob("*.pyc"))


@pytest.mark.parametrize("name", ["nat.pyc", f"nat{EXTENSION_SUFFIXES[0]}", "nat/__init__.pyc", "nat.abi3.so"])
def test_what_is_no_source_is_refused(tmp_path, name):
    if not name.endswith((*EXTENSION_SUFFIXES, ".pyc")):
        pytest.skip("not a suffix of extension modules here")
    (tmp_path / name).parent.mkdir(exist_ok=True)
    (tmp_path / name).touch()
    (tmp_path / "main.py").write_text("try:\n    from . import nat\nexcept ImportError:\n    pass\n")
    with pytest.raises(OracleFault, match=f"imports .*{re.escape(name)}, which is no source; put nat.py in its place"):
        load_file(tmp_path / "main.py")


def test_an_import_that_nobody_foresees_is_refused(tmp_path):
    (tmp_path / "nat.py").touch()
    (tmp_path / "main.py").write_text("import importlib\nimportlib.import_module('.nat', __package__)\n")
    with pytest.raises(OracleFault, match=r"imports .*/nat.py in a way that can't be foreseen"):
        load_file(tmp_path / "main.py")


def test_a_missing_sibling_is_an_import_error(tmp_path):
    (tmp_path / "main.py").write_text("try:\n    from .nat import x\nexcept ImportError as error:\n    text = str(error)\n")
    assert load_file(tmp_path / "main.py").text == f"No module named 'nat' in {tmp_path}"


def test_an_oracle_of_another_type_or_with_equal_blocks_is_refused(here):
    here.edit(PY, "ORACLE = Oracle(cases, arrays, launch, oracle, bound)", "ORACLE = 3")
    with pytest.raises(OracleFault, match="defines ORACLE as int; wanted is"):
        load_oracle(here.root / PY)
    here.edit(PY, "ORACLE = 3", "ORACLE = Oracle(cases, arrays, launch, oracle, bound, blocks=(64, 64))")
    with pytest.raises(OracleFault, match=r"blocks = \(64, 64\): wanted are two different numbers"):
        load_oracle(here.root / PY)


def test_the_line_that_says_what_is_wrong():
    assert first_error("In function f:\na.cu:3:1: error: no z\n  3 | z") == "a.cu:3:1: error: no z"
    assert first_error("something") == "something"
    assert first_error("") == ""
