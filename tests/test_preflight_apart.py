"""The reading in a process of its own, the host's own command, and both together: on real processes."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from tests.conftest import ended
from tests.fake_host import FakeHost
from touchgate import processes
from touchgate.devices import preflight
from touchgate.devices.preflight import apart, command, reading
from touchgate.devices.preflight.settings import Settings

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="there is no NVIDIA driver elsewhere")

WORKS = f"""
import sys
sys.path.insert(0, {str(Path(__file__).parents[1])!r})
from tests.fake_nvml import FakeNvml, gpu, process, memory, NVMLError, NVMLLibraryMismatchError
print("the driver's library says something of its own")
listed = [process(int(pid), 3 << 30) for pid in open(__file__ + ".pids").read().split()]
fake = FakeNvml(gpu("GPU-a", ComputeRunningProcesses=listed, MemoryInfo=memory(len(listed) * (3 << 30))))
sys.modules["pynvml"] = fake
"""


@pytest.fixture
def installed(tmp_path, monkeypatch):
    """Install a pynvml of that text, for the children of this test, with the ids that it lists."""

    def install(text: str, *pids: int) -> None:
        (tmp_path / "pynvml.py").write_text(textwrap.dedent(text))
        (tmp_path / "pynvml.py.pids").write_text(" ".join(map(str, pids)))
        monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])

    return install


@pytest.fixture
def foreign():
    """A process that this one did not start itself, as far as /proc tells: an orphan."""
    code = (
        "import subprocess; quiet = dict.fromkeys(('stdout', 'stderr'), subprocess.DEVNULL); "
        "print(subprocess.Popen(['sleep', '600'], **quiet, start_new_session=True).pid)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    pid = int(done.stdout)
    yield pid
    subprocess.run(["kill", "-9", str(pid)], check=False)


def test_a_driver_that_answers(installed, foreign, tmp_path):
    installed(WORKS, foreign, os.getpid())
    found = preflight.examine(
        ["GPU-a"], lambda: processes.family(os.getpid()), Settings(), root=FakeHost(tmp_path / "host").root
    )
    # In a container these processes are seen not to use a GPU: then nobody is taken for ours.
    first = reading.host.in_first_namespace()
    assert [owner.pid for owner in found.owners] == ([foreign] if first else [foreign, os.getpid()])
    assert found.exit_code == 69
    assert not ended(foreign, 0.1)


def test_nothing_is_asked_where_no_driver_is_loaded(installed, tmp_path):
    installed("raise SystemExit('it was asked')")
    root = FakeHost(tmp_path / "host", driver="").root
    found = preflight.examine((), frozenset, Settings(command=("/bin/false",)), root=root)
    assert (found.line(), found.notes) == ("the host is fit", ("no NVIDIA driver is loaded: nobody can be on a GPU",))


@pytest.mark.parametrize(
    ("text", "what"),
    [
        (
            "import os, signal; os.kill(os.getpid(), signal.SIGSEGV)",
            "asking the NVIDIA driver failed: the process that asked was ended by SIGSEGV",
        ),
        ("raise SystemExit('broken')", "asking the NVIDIA driver failed: broken"),
        ("raise RuntimeError('odd')", "asking the NVIDIA driver failed: RuntimeError: odd"),
        (
            "import os; os._exit(0)",
            "asking the NVIDIA driver failed: the process that asked ended with status 0 and no answer",
        ),
        (
            "print('\\ntouchgate-reading:{}', flush=True); import os; os._exit(0)",
            "asking the NVIDIA driver failed: the process that asked ended with status 0 and no answer",
        ),
        ("raise ImportError", "nvidia-ml-py is not installed: pip install 'touchgate[cuda]'"),
    ],
)
def test_a_library_that_breaks(installed, text, what):
    installed(text)
    assert reading.read_apart((), 60).unseen == (what,)


HANGS = """
import os, signal, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
with open(__file__ + ".pid", "w") as file:
    file.write(f"{os.getpid()}\\n")
time.sleep(600)
"""


def test_a_driver_that_hangs(installed, tmp_path):
    installed(HANGS)
    assert reading.read_apart((), 3).unseen == ("the NVIDIA driver does not answer within 3 s",)
    assert ended(int((tmp_path / "pynvml.py.pid").read_text()))


def test_an_interrupt_meanwhile(installed, tmp_path):
    installed(HANGS)
    mark = tmp_path / "pynvml.py.pid"
    found = reading.read_apart((), 600, cancelled=lambda: mark.exists() and mark.read_text().endswith("\n"))
    assert found.unseen == ("the NVIDIA driver does not answer within 600 s",)
    assert ended(int(mark.read_text()))


def test_what_no_signal_ends(monkeypatch):
    """As in a call into a broken driver: it is told, and this run goes on."""
    monkeypatch.setattr(apart, "GRACE", 0.05)
    monkeypatch.setattr(apart.os, "killpg", lambda pid, number: None)
    found = apart.run(["sleep", "1"], 0.05, os.environ)
    assert (found.status, found.hangs) == (None, True)


def test_a_lease_does_not_go_with_it(tmp_path):
    with (tmp_path / "lock").open("w") as lock:
        os.set_inheritable(lock.fileno(), True)
        code = f"import os; os.fstat({lock.fileno()})"
        assert apart.run([sys.executable, "-c", code], 60, os.environ).status == 1


# -- the host's own command ----------------------------------------------------------------------------------------------


def shell(text: str, seconds: float = 60, uuids=(), **environ):
    return command.run(["/bin/sh", "-c", text], seconds, uuids, {"PATH": os.environ["PATH"], **environ})


@pytest.mark.parametrize(
    ("text", "answer", "words"),
    [
        ("exit 0", "fit", ()),
        ("echo noise; exit 0", "fit", ()),
        ("echo ada trains here; echo until noon >&2; exit 69", "not fit", ("/bin/sh: ada trains here; until noon",)),
        ("exit 69", "not fit", ("/bin/sh: it gives no reason",)),
        ("printf 'a\\033[31mb\\377'; exit 69", "not fit", ("/bin/sh: a?[31mb\N{REPLACEMENT CHARACTER}",)),
        ("yes x | head -c 9000000; exit 69", "not fit", ("/bin/sh: x; x; x; x; x",)),
        ("exit 1", "unknown", ("the host's preflight command /bin/sh ended with status 1",)),
        ("echo no such; exit 127", "unknown", ("the host's preflight command /bin/sh ended with status 127: no such",)),
        ("kill -9 $$", "unknown", ("the host's preflight command /bin/sh was ended by signal 9",)),
    ],
)
def test_what_the_command_answers(text, answer, words):
    found = shell(text)
    assert (found.answer.value, found.reasons + found.unknown) == (answer, words)


def test_it_is_told_which_gpus():
    assert shell("echo $TOUCHGATE_GPUS $MORE; pwd; exit 69", uuids=["GPU-a", "GPU-b"], MORE="x").reasons == (
        "/bin/sh: GPU-a,GPU-b x; /",
    )


def test_it_ends_with_all_that_it_started(tmp_path):
    pids = tmp_path / "pids"
    found = shell(f"sleep 600 & echo $! > {pids}; trap '' TERM; sleep 600", seconds=1)
    assert found.unknown == ("the host's preflight command /bin/sh did not end within 1 s",)
    assert ended(int(pids.read_text()))
    assert shell(f"sleep 600 & echo $! > {pids}; exit 0").fit
    assert ended(int(pids.read_text()))


def test_no_such_command():
    found = command.run(["/nothing/here"], 1, ())
    assert found.unknown == ("the host's preflight command /nothing/here can't be started: No such file or directory",)


def test_both_together(installed, foreign, tmp_path):
    root = FakeHost(tmp_path / "host").root

    def ask(script: str, **more):
        settings = Settings(command=("/bin/sh", "-c", script), **more)
        return preflight.examine(["GPU-a"], frozenset, settings, root=root)

    installed("raise SystemExit('broken')")
    assert ask("exit 0").fit
    assert ask("exit 0").notes == (
        "the host's own command settles what could not be known: asking the NVIDIA driver failed: broken",
    )
    assert ask("exit 3").answer.value == "unknown"
    assert ask("exit 3", unknown_is_fit=True).fit
    assert ask("exit 69", unknown_is_fit=True).exit_code == 69
    installed(WORKS, foreign)
    assert ask("exit 0").exit_code == 69
