"""The docs say what is true: every command shown runs, every link leads somewhere, generated tables are current."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import Project, clean_environment
from touchgate.gate import forge

ROOT = Path(__file__).resolve().parent.parent
PAGES = [ROOT / "README.md", ROOT / "CHANGELOG.md", *sorted((ROOT / "docs").glob("*.md"))]
INSTALLING = ("test -x",)
"""The README's two commands, which `.ci/run` runs word for word."""
OTHER_EXITS = {"doit gemv:kernel # with gemv.cu broken": 1}


def shown() -> list[str]:
    """Every command that stands behind a prompt in a console block, once."""
    found: dict[str, None] = {}
    for page in PAGES:
        for block in re.findall(r"^```console\n(.*?)^```", page.read_text(), re.MULTILINE | re.DOTALL):
            for line in block.splitlines():
                if line.startswith("$ "):
                    found[line.removeprefix("$ ").strip()] = None
    return list(found)


def event_rows() -> list[str]:
    return [f"| {row.forge} | `{row.event}` | {row.rule.value} | {row.why} |" for row in forge.EVENTS]


def test_the_table_of_events_is_the_one_in_the_code() -> None:
    lines = (ROOT / "docs/gate.md").read_text().splitlines()
    begin = lines.index("| forge | event | rule | why |") + 2
    assert lines[begin : lines.index("", begin)] == event_rows()


def test_the_table_of_situations_is_the_one_in_the_code() -> None:
    from touchgate.gate.situations import SITUATIONS

    table = "\n".join(["| situation | rule |", "|---|---|", *(f"| {one.name} | {one.rule} |" for one in SITUATIONS)])
    assert f"\n{table}\n\n" in (ROOT / "docs/gate.md").read_text()


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_to_files(page: Path) -> None:
    targets = re.findall(r"\]\(([^)#]+?)(?:#[^)]*)?\)", page.read_text())
    missing = [target for target in targets if "://" not in target and not (page.parent / target).exists()]
    assert missing == []


def test_every_option_of_a_run_is_on_the_page_about_running() -> None:
    from touchgate.edge.options import RUN

    text = (ROOT / "docs/run.md").read_text()
    assert [option["name"] for option in RUN if f"--{option['long']}" not in text] == []


def test_every_command_is_in_the_readme() -> None:
    """In its table of commands; and what tests the gate, and makes many lanes of one, is found from there and from help."""
    from touchgate import console
    from touchgate.gate import asked

    readme = (ROOT / "README.md").read_text()
    missing = [name for name in console.COMMANDS if not re.search(rf"^\| `touchgate {name}\b", readme, re.MULTILINE)]
    assert missing == []
    for page in (readme, asked._parser().format_help()):
        assert "--shadow" in page
        assert "`each: " in page


@pytest.fixture(scope="module")
def clone(tmp_path_factory: pytest.TempPathFactory) -> Project:
    """This checkout as it is, committed, on a branch that touches gemv."""
    folder = tmp_path_factory.mktemp("docs")
    home = folder / "home"
    home.mkdir()
    made = Project(folder / "clone", clean_environment(home))
    subprocess.run(["git", "clone", "-q", str(ROOT), str(made.root)], check=True, env=made.environ)
    overlay = subprocess.run(["git", "diff", "HEAD", "--binary"], cwd=ROOT, check=True, capture_output=True).stdout
    if overlay:
        subprocess.run(["git", "apply"], cwd=made.root, input=overlay, check=True)
    made.git("checkout", "-q", "-B", "main")
    made.commit("as it is")
    # The newest change of the default branch has its parent here, also where this checkout has no more history.
    made.git("update-ref", "refs/remotes/origin/main", "HEAD")
    made.git("checkout", "-q", "-b", "work")
    with (made.root / "kernels/gemv/gemv.cu").open("a") as file:
        file.write("// touched\n")
    return made


@pytest.mark.slow
@pytest.mark.parametrize("command", [command for command in shown() if not command.startswith(INSTALLING)])
def test_commands_that_are_shown_run(command: str, clone: Project) -> None:
    words = shlex.split(command, comments=True)
    scripts = Path(sys.executable).parent
    assert words[0] in ("doit", "touchgate"), "only our own commands stand behind a prompt"
    environ = {**clone.environ, "PATH": f"{scripts}{os.pathsep}{clone.environ['PATH']}"}
    done = subprocess.run(words, cwd=clone.root, env=environ, capture_output=True, text=True, timeout=600, check=False)
    assert "Traceback" not in done.stdout + done.stderr
    assert done.returncode == OTHER_EXITS.get(command, 0), done.stdout + done.stderr
