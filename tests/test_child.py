"""Programs with three pipes: what they are given, what comes back, how they end."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time

import pytest

from tests.conftest import ended
from touchgate.gate.child import Child, TimeUp

ENVIRON = {"PATH": os.environ["PATH"]}


def python(code, *words, environ=ENVIRON):
    return Child([sys.executable, "-c", code, *words], environ)


def test_words_environment_and_streams():
    code = "import os, sys; print(sys.argv[1:], os.environ['A'], sys.stdin.read()); print('err', file=sys.stderr); sys.exit(7)"
    child = python(code, "a b", "", environ={**ENVIRON, "A": "é"})
    assert child.communicate(b"in", 60) == (7, "['a b', ''] é in\n".encode(), b"err\n")
    assert (child.stdin, child.stdout, child.stderr) == (-1, -1, -1)
    assert child.wait() == 7


def test_much_both_ways():
    data = os.urandom(5_000_000)
    code = "import sys; d = sys.stdin.buffer.read(); sys.stderr.buffer.write(d[::-1]); sys.stdout.buffer.write(d)"
    assert python(code).communicate(data, 60) == (0, data, data[::-1])


def test_one_that_does_not_read_and_one_that_is_killed():
    assert python("print('early')").communicate(b"x" * 5_000_000, 60) == (0, b"early\n", b"")
    assert python("import os; os.kill(os.getpid(), 9)").communicate(b"", 60) == (-9, b"", b"")


def test_the_deadline_ends_it():
    child = python("import time; time.sleep(600)")
    began = time.monotonic()
    with pytest.raises(TimeUp):
        child.communicate(b"", 0.2)
    assert ended(child.pid)
    assert time.monotonic() - began < 60
    with pytest.raises(TimeUp):
        (sleeper := python("import time; time.sleep(600)")).wait(0.05)
    sleeper.kill()
    assert sleeper.wait() == -signal.SIGKILL
    sleeper.close()


@pytest.mark.parametrize("command", [["no such program"], ["./no/such/program"]])
def test_no_such_program(command):
    # Pipes made for it would take the next numbers.
    before = os.dup(0)
    os.close(before)
    with pytest.raises(FileNotFoundError):
        Child(command, ENVIRON)
    after = os.dup(0)
    os.close(after)
    assert after == before


def test_a_search_path_with_holes(tmp_path):
    (tmp_path / "tool").mkdir()
    (tmp_path / "plain").mkdir()
    (tmp_path / "plain" / "tool").write_text("#!/bin/sh\n")
    (tmp_path / "good").mkdir()
    (tmp_path / "good" / "tool").write_text("#!/bin/sh\necho here\n")
    (tmp_path / "good" / "tool").chmod(0o755)
    path = f"{tmp_path / 'missing'}:{tmp_path}:{tmp_path / 'plain'}:{tmp_path / 'good'}"
    assert Child(["tool"], {"PATH": path}).communicate(b"", 60) == (0, b"here\n", b"")


def outside(code, **options):
    """What a Python of its own says that runs `code` after our imports."""
    program = "import os, signal, sys\nfrom touchgate.gate.child import Child\nE = {'PATH': os.environ['PATH']}\n" + code
    return subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, **options).stdout


def test_signals_that_python_ignores_are_not_ignored_in_it():
    show = "grep SigIgn /proc/self/status || echo SigIgn: 0"
    code, said, _ = Child(["/bin/sh", "-c", show], ENVIRON).communicate(b"", 60)
    assert code == 0
    assert not int(said.split()[1], 16) & (1 << (signal.SIGPIPE - 1))


def test_nothing_of_ours_is_open_in_it():
    code = (
        "files = [open(os.devnull) for _ in range(5)]\n"
        "show = 'import os; print([end for end in range(3, 64) if os.path.exists(f\"/dev/fd/{end}\")])'\n"
        "print(Child([sys.executable, '-c', show], E).communicate(b'', 60))"
    )
    assert outside(f"import sys\n{code}") == "(0, b'[]\\n', b'')\n"


def test_with_the_standard_streams_closed():
    code = (
        "for end in (0, 1, 2): os.close(end)\n"
        "answer = Child([sys.executable, '-c', 'import sys; print(sys.stdin.read())'], E).communicate(b'x', 60)\n"
        "os.write(os.open(os.environ['SAY'], os.O_WRONLY | os.O_CREAT), repr(answer).encode())"
    )
    import tempfile

    with tempfile.NamedTemporaryFile() as file:
        outside(code, env={**os.environ, "SAY": file.name})
        assert file.read() == b"(0, b'x\\n', b'')"


def test_where_children_are_not_waited_for():
    code = "signal.signal(signal.SIGCHLD, signal.SIG_IGN)\nprint(Child(['/bin/sh', '-c', 'exit 5'], E).communicate(b'', 60))"
    assert outside(code) == "(5, b'', b'')\n"


def test_where_children_are_not_waited_for_and_in_another_thread():
    """How it ended can't be told there: trouble that is told, and never an answer made up."""
    code = (
        "import threading\n"
        "signal.signal(signal.SIGCHLD, signal.SIG_IGN)\n"
        "def ask():\n"
        "    try:\n"
        "        print(Child(['/bin/sh', '-c', 'exit 5'], E).communicate(b'', 60))\n"
        "    except OSError as error:\n"
        "        print(type(error).__name__)\n"
        "thread = threading.Thread(target=ask)\n"
        "thread.start(); thread.join()"
    )
    assert outside(code) == "ChildProcessError\n"


def test_interrupts_are_held_back_until_they_are_let_go():
    code = (
        "from touchgate.gate.child import HeldSignals\n"
        "with HeldSignals() as held:\n"
        "    os.kill(os.getpid(), signal.SIGINT)\n"
        "    print('held', end=' ')\n"
        "    try:\n"
        "        held.let_go()\n"
        "    except KeyboardInterrupt:\n"
        "        print('come')\n"
    )
    assert outside(code) == "held come\n"
