"""What sources include touches their lane, though its patterns forgot it: real commits, both sides, the working tree."""

from __future__ import annotations

import sys

import pytest

from touchgate.gate import change
from touchgate.gate.declared import read_both
from touchgate.gate.git import Repository
from touchgate.gate.model import Decision
from touchgate.gate.plan import plan

LANES = """lanes:
  attention:
    paths: [kernels/attention.cu]
    checks: [command: nvcc kernels/attention.cu]
"""


def decide(project, *, environ=None, **options):
    with Repository(project.root, environ or project.environ) as repo:
        found = read_both(repo, change.resolve(repo, environ={}, **options))
        made = plan(
            found.head,
            found.base,
            found.judged.change,
            due=found.judged.due,
            gained=found.gained,
            included=found.included,
        )
    return {lane.lane: (lane.decision, lane.reason, lane.path) for lane in made.lanes}


def start(project, files, lanes=LANES):
    """The files on main, and a branch `work` at the same commit."""
    project.git("checkout", "-q", "main")
    for name, text in {"tasks/lanes.yml": lanes, **files}.items():
        project.write(name, text)
    project.commit("first")
    project.git("checkout", "-q", "-B", "work")


FILES = {
    "kernels/attention.cu": '// softmax\n\n#include "tree_attention.cu"\n',
    "kernels/tree_attention.cu": '#include "../common/reduce.cuh"\n',
    "common/reduce.cuh": "#pragma once\n",
    "common/other.cuh": "",
    "README.md": "",
}


def test_an_included_file_touches(project):
    """A checker that looks at a source and not at what it includes passes what it has not seen."""
    start(project, FILES)
    project.write("kernels/tree_attention.cu", "// changed\n")
    expected = (
        Decision.RUN,
        "kernels/attention.cu:3 includes kernels/tree_attention.cu (M), which no pattern of the lane names",
        "kernels/tree_attention.cu",
    )
    # At head what it included is gone, yet the base's closure holds it too.
    assert decide(project) == {"attention": expected}
    project.commit()
    assert decide(project) == {"attention": expected}
    assert decide(project, base="main", head="work") == {"attention": expected}


def test_what_is_included_indirectly_touches_with_the_whole_way(project):
    start(project, FILES)
    project.write("common/reduce.cuh", "#pragma once // changed\n")
    reason = (
        "kernels/attention.cu:3 includes kernels/tree_attention.cu, which at line 1 includes common/reduce.cuh (M), "
        "which no pattern of the lane names"
    )
    assert decide(project)["attention"][1:] == (reason, "common/reduce.cuh")


def test_other_files_do_not_touch(project):
    start(project, FILES)
    project.write("common/other.cuh", "// changed\n")
    project.write("README.md", "changed\n")
    assert decide(project)["attention"][0] is Decision.SKIP


def test_a_deleted_file_is_in_the_closure_of_the_base(project):
    start(project, FILES)
    (project.root / "common/reduce.cuh").unlink()
    found = decide(project)["attention"]
    assert (found[0], found[2]) == (Decision.RUN, "common/reduce.cuh")
    assert found[1].endswith("common/reduce.cuh (D), which no pattern of the lane names (at the base branch's tip)")


def test_an_include_that_the_base_branch_gained_counts(project):
    start(project, {**FILES, "kernels/attention.cu": ""})
    project.git("checkout", "-q", "main")
    project.write("kernels/attention.cu", '#include "../common/other.cuh"\n')
    project.commit("main goes on")
    project.git("checkout", "-q", "work")
    project.write("common/other.cuh", "// changed\n")
    reason = (
        "kernels/attention.cu:1 includes common/other.cuh (M), which no pattern of the lane names (at the base branch's tip)"
    )
    assert decide(project)["attention"][1] == reason


def test_a_new_file_that_is_included_touches_untracked(project):
    start(project, {**FILES, "common/reduce.cuh": '#include "later.cuh"\n'})
    project.write("common/later.cuh", "")
    assert decide(project)["attention"][2] == "common/later.cuh"


def test_a_lane_that_needs_the_touched_one_runs_too(project):
    start(project, FILES, LANES + "  after:\n    paths: [nothing]\n    needs: [attention]\n    checks: [command: 'true']\n")
    project.write("common/reduce.cuh", "// changed\n")
    assert {name: one[0] for name, one in decide(project).items()} == {"attention": Decision.RUN, "after": Decision.RUN}


def test_a_source_itself_touches(project):
    start(project, FILES, LANES.replace("paths: [kernels/attention.cu]", "paths: [docs/**]"))
    project.write("kernels/attention.cu", "// changed\n")
    reason = "kernels/attention.cu (M) is a source of the lane, which no pattern of the lane names"
    assert decide(project)["attention"][1] == reason


def test_none_switches_it_off(project):
    start(project, FILES, LANES.replace("    checks", "    closure: none\n    checks"))
    project.write("common/reduce.cuh", "// changed\n")
    assert decide(project)["attention"][0] is Decision.SKIP


@pytest.mark.parametrize(
    "closure",
    ['{from: ["src/**/*.cu"], include: [inc]}', "{from: [src/deep/a.cu, docs/none.cu], include: [./inc/]}", "paths"],
)
def test_declared_sources_and_folders(project, closure):
    lanes = f"lanes:\n  a:\n    paths: ['src/**']\n    closure: {closure}\n    checks: [command: 'true']\n"
    files = {"src/deep/a.cu": "#include <lib/b.h>\n#include <inc/lib/b.h>\n", "inc/lib/b.h": "", "inc/lib/c.h": ""}
    start(project, files, lanes)
    project.write("inc/lib/b.h", "// changed\n")
    assert decide(project)["a"][0] is Decision.RUN
    project.git("checkout", "-q", ".")
    project.write("inc/lib/c.h", "// changed\n")
    assert decide(project)["a"][0] is Decision.SKIP


def test_imports_of_tests(project):
    lanes = """lanes:
  t:
    paths: [tests/test_a.py]
    closure: {python: [lib]}
    checks: [pytest: -q tests/test_a.py::test_x -k "not slow"]
"""
    files = {
        "tests/test_a.py": "def test_x():\n    from pack import part\n",
        "tests/conftest.py": "import helper\n",
        "tests/helper.py": "",
        "lib/pack/__init__.py": "",
        "lib/pack/part.py": "from .other import (\n    x,\n)\n",
        "lib/pack/other.py": "x = 1\n",
        "lib/pack/unused.py": "",
    }
    start(project, files, lanes)
    for name in files:
        project.write(name, "# changed\n")
        assert decide(project)["t"][0] is (Decision.SKIP if "unused" in name else Decision.RUN), name
        project.git("checkout", "-q", ".")


def test_a_submodule_counts_as_a_whole(project, tmp_path):
    inner = tmp_path / "inner"
    inner.mkdir()
    project.git("init", "-q", str(inner))
    (inner / "x.cuh").write_text("")
    project.git("-C", str(inner), "add", ".")
    project.git("-C", str(inner), "commit", "-qm", "one")
    project.git("checkout", "-q", "main")
    project.git("-c", "protocol.file.allow=always", "submodule", "--quiet", "add", str(inner), "third/cub")
    start(project, {**FILES, "common/reduce.cuh": '#include "../third/cub/x.cuh"\n'})
    project.git("-C", str(project.root / "third/cub"), "commit", "-q", "--allow-empty", "-m", "two")
    project.commit("bumped")
    assert decide(project)["attention"][0] is Decision.RUN
    project.git("submodule", "--quiet", "deinit", "-f", "third/cub")
    assert decide(project)["attention"][0] is Decision.RUN


def test_links_count_with_what_they_lead_to(project):
    start(project, {**FILES, "real/deep/x.cuh": '#include "../y.cuh"\n', "real/y.cuh": "", "common/y.cuh": ""})
    project.git("checkout", "-q", "main")
    (project.root / "common/link").symlink_to("../real/deep")
    project.write("common/reduce.cuh", '#include "link/x.cuh"\n')
    project.commit()
    project.git("checkout", "-q", "-B", "work")
    for name in ("real/deep/x.cuh", "real/y.cuh", "common/y.cuh"):
        project.write(name, "// changed\n")
        assert decide(project)["attention"][0] is Decision.RUN, name
        project.git("checkout", "-q", ".")
    (project.root / "common/link").unlink()
    (project.root / "common/link").symlink_to("../real")
    assert decide(project)["attention"][0] is Decision.RUN


def test_what_can_not_be_read_runs_its_lane_alone(project):
    other = "  other:\n    paths: [other]\n    checks: [command: cc a.c]\n"
    start(project, {**FILES, "a.c": ""}, LANES + other)
    project.write("common/other.cuh", "// changed\n")
    huge = project.root / "kernels/tree_attention.cu"
    project.git("rm", "-q", "--cached", "kernels/tree_attention.cu")
    project.git("commit", "-qm", "no longer tracked")
    project.write(".git/info/exclude", "tree_attention.cu\n")
    with huge.open("wb") as file:
        file.truncate((16 << 20) + 1)
    project.git("checkout", "-q", "-B", "main")
    project.git("checkout", "-q", "-B", "work")
    found = decide(project, base="main")
    reason = "what its sources include can't be told: kernels/tree_attention.cu is larger than 16 MiB, which no source is"
    assert found["attention"] == (Decision.RUN, reason, None)
    assert found["other"][0] is Decision.SKIP


def test_a_lost_blob_runs_the_lane(project):
    start(project, FILES)
    project.write("common/other.cuh", "// changed\n")
    project.commit()
    blob = project.git("rev-parse", "HEAD:kernels/tree_attention.cu")
    (project.root / ".git/objects" / blob[:2] / blob[2:]).unlink()
    found = decide(project, base="main", head="work")["attention"]
    assert found[0] is Decision.RUN
    assert found[1].startswith("what its sources include can't be told: kernels/tree_attention.cu of ")


def test_a_clone_without_contents_fetches_each_wave_at_once(project, tmp_path):
    names = [f"common/{number}.cuh" for number in range(8)]
    includes = "".join(f'#include "{number}.cuh"\n' for number in range(8))
    start(project, {**FILES, "common/reduce.cuh": includes, **{name: f"// {name}\n" for name in names}})
    project.write("common/7.cuh", "// changed\n")
    project.commit()
    for setting in ("uploadpack.allowFilter", "uploadpack.allowAnySHA1InWant"):
        project.git("config", setting, "true")
    clone = tmp_path / "clone"
    project.git("clone", "-q", "--filter=blob:none", "--no-checkout", project.root.as_uri(), str(clone))
    packs = clone / ".git/objects/pack"
    before = len(list(packs.glob("*.promisor")))
    other = type(project)(clone, project.environ)
    found = decide(other, base="origin/main", head="origin/work")["attention"]
    assert (found[0], found[2]) == (Decision.RUN, "common/7.cuh")
    # The lane file, the source, its include, that one's, and all eight together.
    assert len(list(packs.glob("*.promisor"))) - before <= 5


def test_a_sparse_checkout_reads_what_it_leaves_out(project):
    start(project, {**FILES, "common/reduce.cuh": '#include "other.cuh"\n'})
    project.git("sparse-checkout", "set", "--no-cone", "/*", "!/common/reduce.cuh")
    assert not (project.root / "common/reduce.cuh").exists()
    project.write("common/other.cuh", "// changed\n")
    assert decide(project)["attention"][2] == "common/other.cuh"


def test_a_run_without_sources_does_not_import_the_readers(project):
    """Nor does a run of lanes that are touched already, or where nothing is touched."""
    start(project, FILES)
    script = (
        "import sys\n"
        "from touchgate.gate.cli import main\n"
        "main([])\n"
        "print(any(name.startswith('touchgate.gate.closure.') for name in sys.modules))"
    )

    def reads():
        import subprocess

        command = [sys.executable, "-c", script]
        done = subprocess.run(command, cwd=project.root, env=project.environ, capture_output=True, text=True, check=True)
        return done.stdout.split()[-1] == "True"

    project.commit("another commit on work")
    assert not reads()
    project.write("kernels/attention.cu", "// changed\n")
    assert not reads()
    project.git("checkout", "-q", ".")
    project.write("README.md", "changed\n")
    assert reads()
    project.write("tasks/lanes.yml", LANES.replace("nvcc kernels/attention.cu", "make"))
    project.commit("no sources")
    project.git("checkout", "-q", "-B", "main")
    project.git("checkout", "-q", "-B", "work")
    project.write("README.md", "changed again\n")
    assert not reads()


REUSE = """lanes:
  one:
    paths: [src/**]
    checks:
      - command: cat src/tool.py
"""


def test_a_result_is_not_reused_where_an_included_file_differs(project):
    """The lane's own files are the same: without the closure in the key the old pass would stand for the change."""
    start(project, {"src/tool.py": "import sys\nsys.path.insert(0, 'lib')\n", "lib/x.py": ""}, REUSE)
    project.write("src/tool.py", "from lib import helper\n")
    project.write("lib/helper.py", "x = 1\n")
    project.commit()

    def run():
        return project.doit("--report-dir", "report").stdout

    assert "1 passed" in run()
    assert "1 cached" in run()
    project.write("lib/helper.py", "x = 2\n")
    again = run()
    assert "1 passed" in again
    assert "cached" not in again


def test_doit_shows_it(project):
    start(project, FILES)
    project.write("common/reduce.cuh", "// changed\n")
    assert "kernels/attention.cu:3 includes kernels/tree_attention.cu, which at line 1" in project.doit("lanes").stdout
