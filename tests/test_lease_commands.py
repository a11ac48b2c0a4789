"""`doit lease` and runs under leases, as people use them: real processes on a host that says it has GPUs."""

import fcntl
import json
import os
import re
import signal
import subprocess
import sys
import termios
import time
from pathlib import Path

import pytest

from tests.conftest import Project, clean_environment
from tests.gpu_host import gpu_host
from touchgate.leases.holder import user_name

TWO = ("GPU-aaaa", "GPU-bbbb")
LANES = """\
lanes:
  a: {paths: [a/**], device: gpu, env: [MARKS], minutes: 5, checks: [command: sh held.sh a]}
  b: {paths: [b/**], device: gpu, env: [MARKS], checks: [command: sh held.sh b]}
  c: {paths: [c/**], device: gpu, env: [MARKS], checks: [command: sh held.sh c]}
  both: {paths: [b/**], device: {gpus: 2}, env: [MARKS], checks: [command: sh held.sh both]}
  whole: {paths: [b/**], device: host, env: [MARKS], checks: [command: sh held.sh whole]}
  pair: {paths: [b/**], device: {hosts: 2}, env: [MARKS], checks: [command: sh held.sh pair]}
"""
HELD = """\
echo "${CUDA_VISIBLE_DEVICES-all} $TOUCHGATE_LEASE_TOKEN" > "$MARKS/$1.new" && mv "$MARKS/$1.new" "$MARKS/$1.seen"
while [ ! -e "$MARKS/$1.go" ]; do sleep 0.02; done
"""


class Host:
    """A fake host with two GPUs, and what is run there."""

    def __init__(self, folder: Path, uuids: tuple[str, ...] = TWO) -> None:
        home = folder / "home"
        home.mkdir()
        self.marks = folder / "marks"
        self.marks.mkdir()
        environ = clean_environment(home)
        self.environ = {**environ, **gpu_host(folder / "gpus", uuids, environ), "MARKS": str(self.marks)}
        self.leases = Path(self.environ["TOUCHGATE_LEASE_DIR"])
        self.elsewhere = folder / "elsewhere"
        self.elsewhere.mkdir()
        self.started: list[subprocess.Popen[str]] = []

    def start(self, *arguments: str, cwd: Path | None = None, **environ: str) -> subprocess.Popen[str]:
        """Start `doit` with these arguments; both streams are read by `ended`."""
        process = subprocess.Popen(
            [sys.executable, "-m", "doit", *arguments],
            cwd=cwd or self.elsewhere,
            env={**self.environ, **environ},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            stdin=subprocess.DEVNULL,
            text=True,
        )
        self.started.append(process)
        return process

    def lease(self, *arguments: str, **environ: str) -> tuple[int, str, str]:
        """`doit lease` to its end."""
        return ended(self.start("lease", *arguments, **environ))

    def status(self) -> dict:
        code, out, err = self.lease("status", "--json")
        assert (code, err) == (0, "")
        return json.loads(out)

    def go(self, *names: str) -> None:
        for name in names:
            (self.marks / f"{name}.go").touch()

    def seen(self, name: str) -> tuple[str, int]:
        """What a check saw of its lease, once it runs: the GPUs and the token."""
        path = self.marks / f"{name}.seen"
        wait_for(path.exists, name)
        gpus, token = path.read_text().split()
        return gpus, int(token)

    def held(self, *command: str) -> subprocess.Popen[str]:
        """`doit lease run` of something that goes on until `go`."""
        return self.start("lease", "run", *command, "--", "sh", "-c", HELD, "sh", "x")


def ended(process: subprocess.Popen[str], seconds: float = 60) -> tuple[int, str, str]:
    out, err = process.communicate(timeout=seconds)
    return process.returncode, out, err


def wait_for(true, what: str, seconds: float = 30) -> None:
    deadline = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < deadline, f"in vain: {what}"
        time.sleep(0.02)


@pytest.fixture
def host(tmp_path):
    made = Host(tmp_path)
    yield made
    made.go("a", "b", "c", "x", "both", "whole")
    for process in made.started:
        if process.poll() is None:
            process.kill()
        process.communicate()


@pytest.fixture
def repository(host, tmp_path):
    """A repository with lanes that want GPUs."""
    made = Project(tmp_path / "repository", host.environ)
    made.root.mkdir()
    made.git("init", "-q", "-b", "main")
    made.write("pyproject.toml", '[tool.doit]\nloader = "touchgate"\nreporter = "touchgate"\n')
    made.write("tasks/lanes.yml", LANES)
    made.write("held.sh", HELD)
    made.commit("first")
    return made


# -- runs ----------------------------------------------------------------------------------------------------------------


def test_two_runs_have_one_gpu_each_and_a_third_waits(host, repository):
    first = host.start("--require-device", "a", cwd=repository.root)
    gpu_a, token_a = host.seen("a")
    second = host.start("--require-device", "b", cwd=repository.root)
    gpu_b, token_b = host.seen("b")
    assert {gpu_a, gpu_b} == set(TWO)
    assert token_b > token_a
    third = host.start("--require-device", "c", cwd=repository.root)
    wait_for(lambda: host.status()["queue"], "the third in the queue")
    told = host.status()
    assert {one["resource"] for one in told["holders"]} == {f"here/{gpu}" for gpu in TWO}
    assert {one["token"] for one in told["holders"]} == {token_a, token_b}
    assert sorted(one["what"] for one in told["holders"]) == ["a", "b"]
    assert [(one["position"], one["what"], one["pid"]) for one in told["queue"]] == [(1, "c", third.pid)]
    host.go("b")
    assert ended(second)[0] == 0
    gpu_c, token_c = host.seen("c")
    assert gpu_c == gpu_b
    assert token_c > token_b
    host.go("a", "c")
    assert ended(first)[0] == 0
    code, out, _ = ended(third)
    assert code == 0
    assert "\nwaiting for 1 GPU" in out
    assert out.count("waiting for") == 1
    assert f"\nnote: lease: here/{gpu_c}, held after " in out
    told = host.status()
    assert (told["holders"], told["queue"]) == ([], [])


def test_a_run_asks_once_for_the_largest(host, repository):
    host.go("a", "both")
    assert ended(host.start("a", "both", cwd=repository.root))[0] == 0
    assert host.seen("a")[0] in TWO
    assert host.seen("both")[0] == ",".join(TWO)
    assert host.seen("a")[1] == host.seen("both")[1]


def test_a_whole_host_is_nobody_elses(host, repository):
    held = host.held()
    assert host.seen("x")[0] == "all"
    assert [one["resource"] for one in host.status()["holders"]] == ["here"]
    code, out, _ = ended(host.start("--lease-timeout", "0", "a", cwd=repository.root))
    assert code == 75
    assert "never reached: a:command" in out
    host.go("x")
    assert ended(held)[0] == 0
    host.go("whole")
    assert ended(host.start("--lease-timeout", "0", "whole", cwd=repository.root))[0] == 0
    assert host.seen("whole")[0] == "all"


def test_two_hosts_are_not_had_of_one(host, repository):
    code, out, _ = ended(host.start("pair", cwd=repository.root))
    assert code == 75
    assert "2 hosts are wanted, and there is 1" in out


def test_only_what_is_shown_is_asked_for(host, repository):
    host.go("a", "both")
    assert ended(host.start("a", cwd=repository.root, CUDA_VISIBLE_DEVICES="1"))[0] == 0
    assert host.seen("a")[0] == "GPU-bbbb"
    code, out, _ = ended(host.start("both", cwd=repository.root, CUDA_VISIBLE_DEVICES="1"))
    assert code == 75
    assert "2 GPUs of one host are wanted, and the most that one has is 1" in out


def test_a_cached_run_takes_no_lease(host, repository):
    host.go("a")
    assert ended(host.start("a", cwd=repository.root))[0] == 0
    held = host.held()
    host.seen("x")
    code, out, _ = ended(host.start("--lease-timeout", "0", "a", cwd=repository.root))
    assert code == 0
    assert "cached" in out
    host.go("x")
    assert ended(held)[0] == 0


def test_the_token_is_in_no_key(host, repository):
    """The same check under another lease is the same check."""
    host.go("a")
    ended(host.start("a", cwd=repository.root))
    first = host.seen("a")[1]
    done = host.lease("run", "--", sys.executable, "-m", "doit", "-f", "x", "lease", "status")
    assert done[0] == 0
    code, out, _ = ended(host.start("a", cwd=repository.root))
    assert code == 0
    assert "cached" in out
    assert host.seen("a")[1] == first


def test_a_lost_lease_stops_the_run_before_its_next_check(host, repository):
    repository.write(
        "tasks/lanes.yml",
        "lanes:\n  a:\n    paths: [a/**]\n    device: gpu\n    env: [MARKS]\n    checks:\n"
        "      - {command: sh held.sh a, name: first}\n      - {command: sh held.sh late, name: second}\n",
    )
    repository.commit()
    run = host.start("-n", "1", "a", cwd=repository.root)
    host.seen("a")
    for path in host.leases.rglob("*"):
        if path.is_file():
            path.unlink()
    host.go("a", "late")
    code, out, _ = ended(run)
    assert code == 75
    assert "the lease is lost, so nothing more runs on the GPU: " in out
    assert not (host.marks / "late.seen").exists()
    assert "never reached: a:second" in out


def test_an_interrupted_wait_leaves_the_queue(host, repository):
    held = host.held()
    host.seen("x")
    waiting = host.start("a", cwd=repository.root)
    wait_for(lambda: host.status()["queue"], "it waits")
    waiting.send_signal(signal.SIGINT)
    assert ended(waiting)[0] == 130
    assert host.status()["queue"] == []
    host.go("x")
    assert ended(held)[0] == 0


UNFIT = """\
import os
from touchgate.devices import preflight
from touchgate.devices.preflight import Answer, Finding, Owner
from touchgate.processes import Process

alice = Owner("GPU-aaaa", 4121, ("compute",), 3 << 30, Process(4121, "alice", "python", "python train.py"))
FOUND = {
    "owner": Finding(Answer.NOT_FIT, owners=(alice,)),
    "unknown": Finding(Answer.UNKNOWN, unknown=("the driver lists no processes",)),
    "fit": Finding(Answer.FIT),
    "noisy": Finding(Answer.FIT, noise=("the CPU is busy",)),
}
preflight.examine = lambda *_: FOUND[os.environ["FOUND"]]
"""


@pytest.mark.parametrize(
    ("found", "said"),
    [
        ("owner", ["1 process is on the GPU that this run did not start", "pid 4121 (alice) python train.py"]),
        ("unknown", ["whether the host is fit can't be known: the driver lists no processes"]),
    ],
)
def test_a_host_that_is_not_fit_ends_the_run_and_gives_the_lease_back(host, repository, found, said):
    (Path(host.environ["PYTHONPATH"]) / "sitecustomize.py").write_text(UNFIT)
    code, out, _ = ended(host.start("a", "b", cwd=repository.root, FOUND=found))
    assert code == 69
    assert all(words in out for words in said), out
    assert "never reached: a:command, b:command" in out
    assert not (host.marks / "a.seen").exists()
    code, out, err = host.lease("run", "--gpus", "1", "--", "echo", "never", FOUND=found)
    assert (code, out) == (69, "")
    assert all(words in err for words in said), err
    assert host.status()["holders"] == []


def changing(host) -> Path:
    """What a look finds is what this file says, at each look."""
    found = host.marks / "found"
    found.write_text("owner")
    text = UNFIT.replace('FOUND[os.environ["FOUND"]]', f"FOUND[open({str(found)!r}).read()]")
    (Path(host.environ["PYTHONPATH"]) / "sitecustomize.py").write_text(text)
    return found


def test_a_run_waits_at_the_front_for_a_host_that_is_not_fit(host, repository):
    found = changing(host)
    host.go("a", "x")
    first = host.start("a", cwd=repository.root, TOUCHGATE_UNFIT_WAIT="1m")
    wait_for(lambda: [one["position"] for one in host.status()["queue"]] == [1], "a place in the queue")
    (waiting,) = host.status()["queue"]
    assert waiting["what"] == "a (the host was not fit; it looks again)"
    second = host.held("--gpus", "2")
    wait_for(lambda: len(host.status()["queue"]) == 2, "one behind it")
    assert not (host.marks / "x.seen").exists()
    found.write_text("fit")
    code, out, err = ended(first)
    assert (code, err) == (0, ""), out
    assert (
        "waiting for a fit host, at the front of the queue: the host is not fit: 1 process is on the GPU that this run did "
        "not start; pid 4121 (alice) python train.py, 3.0 GiB on GPU-aaaa (compute); none of them was touched"
    ) in out
    assert host.seen("a")[1] < host.seen("x")[1]
    assert ended(second)[0] == 0


def test_a_host_that_stays_unfit_ends_the_run_when_its_time_is_over(host):
    changing(host)
    code, out, err = host.lease("run", "--gpus", "1", "--", "echo", "never", TOUCHGATE_UNFIT_WAIT="1s")
    assert (code, out) == (69, "")
    assert "   it was looked at again for 1 s\n" in err
    # The wait for the lease is the longest, whatever the wait for the host may be.
    code, out, err = host.lease("run", "--gpus", "1", "--timeout", "0.05", "--", "echo", "never", TOUCHGATE_UNFIT_WAIT="1h")
    assert (code, out) == (69, "")
    assert host.lease("run", "--gpus", "1", "--timeout", "0", "--", "x", TOUCHGATE_UNFIT_WAIT="1h")[0] == 69
    assert (host.status()["holders"], host.status()["queue"]) == ([], [])


def test_how_long_to_wait_for_a_fit_host_is_a_duration(host, repository):
    said = "ERROR: TOUCHGATE_UNFIT_WAIT: 'ten' is no duration; one is written as 2h, 90m or 1h30m, or 0\n"
    assert ended(host.start("a", cwd=repository.root, TOUCHGATE_UNFIT_WAIT="ten")) == (3, "", said)
    assert host.lease("run", "--", "true", TOUCHGATE_UNFIT_WAIT="ten") == (3, "", said)
    assert host.status()["holders"] == []


def test_a_noisy_host_is_noted(host, repository):
    (Path(host.environ["PYTHONPATH"]) / "sitecustomize.py").write_text(UNFIT)
    host.go("a")
    code, out, _ = ended(host.start("a", cwd=repository.root, FOUND="noisy"))
    assert code == 0
    assert "note: the host is fit, but noisy: the CPU is busy\n" in out


def test_what_a_check_leaves_behind_is_told_and_not_ended(host, repository):
    if not Path("/proc/self/fd").exists():
        pytest.skip("nobody is visible without /proc")
    repository.write("held.sh", 'sleep 60 > /dev/null 2>&1 & echo $! > "$MARKS/pid"\n')
    code, out, _ = ended(host.start("a", cwd=repository.root))
    pid = int((host.marks / "pid").read_text())
    try:
        assert code == 0
        assert re.search(rf"\nnote: left over: pid {pid} \(\S+\) sleep 60, .*still has the lease; it was not ended\n", out), (
            out
        )
        os.kill(pid, 0)
        assert len(host.status()["holders"]) == 1
    finally:
        os.kill(pid, signal.SIGKILL)


# -- doit lease run ------------------------------------------------------------------------------------------------------


def test_a_commands_environment_exit_code_and_input_are_kept(host):
    script = 'read -r line; echo "$line $X ${CUDA_VISIBLE_DEVICES-all} ${TOUCHGATE_LEASE_TOKEN:+token}"; pwd; exit 41'
    done = subprocess.run(
        [sys.executable, "-m", "doit", "lease", "run", "--", "sh", "-c", script, "A=1"],
        cwd=host.elsewhere,
        env={**host.environ, "X": "its own"},
        input="hello\n",
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stdout) == (41, f"hello its own all token\n{host.elsewhere}\n")


@pytest.mark.parametrize(
    ("command", "code", "out"),
    [
        (("echo", "A=1", "--gpus", "x", "--"), 0, "A=1 --gpus x --\n"),
        (("sh", "-c", "kill -9 $$"), 137, ""),
        (("sh", "-c", "exit 0"), 0, ""),
        (("./no-such-program",), 127, ""),
        (("/",), 126, ""),
    ],
)
def test_a_commands_own_words_and_its_end(host, command, code, out):
    found, said, err = host.lease("run", "--gpus", "1", "--", *command)
    assert (found, said) == (code, out)
    assert ("ERROR: " in err) == (code in (126, 127))


def test_a_script_without_a_first_line_is_run_by_a_shell(host):
    script = host.elsewhere / "script"
    script.write_text('echo "ran $1"\n')
    script.chmod(0o755)
    assert host.lease("run", "--", "./script", "x")[:2] == (0, "ran x\n")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGUSR1])
def test_signals_reach_the_command(host, number):
    name = signal.Signals(number).name.removeprefix("SIG")
    script = f'trap "echo got {name}; exit 7" {name}; touch "$MARKS/x.seen"; while :; do sleep 0.02; done'
    run = host.start("lease", "run", "--gpus", "1", "--", "sh", "-c", script)
    wait_for((host.marks / "x.seen").exists, "the command runs")
    run.send_signal(number)
    assert ended(run)[:2] == (7, f"got {name}\n")
    assert host.status()["holders"] == []


def test_a_terminals_keys_reach_the_command_once(host):
    """Ctrl-C goes to all that run in the terminal's foreground: nobody hands it on a second time."""
    leader, terminal = os.openpty()
    script = "n=0; trap 'n=$((n+1))' INT; echo ready; i=0; while [ $i -lt 25 ]; do sleep 0.02; i=$((i+1)); done; echo got $n"
    with subprocess.Popen(
        [sys.executable, "-m", "doit", "lease", "run", "--", "sh", "-c", f"test -t 0 && {script}"],
        cwd=host.elsewhere,
        env=host.environ,
        stdin=terminal,
        stdout=terminal,
        stderr=terminal,
        start_new_session=True,
        preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),  # noqa: PLW1509 - no threads here
    ) as run:
        os.close(terminal)
        said = b""
        while b"ready" not in said:
            said += os.read(leader, 1000)
        os.write(leader, b"\x03")
        while b"got" not in said:
            said += os.read(leader, 1000)
        assert b"got 1" in said
        assert run.wait(60) == 0
    os.close(leader)


def test_a_signal_ends_the_wait(host):
    held = host.held()
    host.seen("x")
    run = host.start("lease", "run", "--", "echo", "never")
    wait_for(lambda: host.status()["queue"], "it waits")
    run.send_signal(signal.SIGTERM)
    code, out, err = ended(run)
    assert (code, out) == (143, "")
    assert "ended by SIGTERM before the command was started" in err
    assert host.status()["queue"] == []
    host.go("x")
    assert ended(held)[0] == 0


def test_what_the_caller_handed_down_stays_open(host):
    reading, writing = os.pipe()
    code = f"import os; os.write({writing}, b'through')"
    with os.fdopen(reading) as pipe:
        run = subprocess.Popen(
            [sys.executable, "-m", "doit", "lease", "run", "--", sys.executable, "-c", code],
            cwd=host.elsewhere,
            env=host.environ,
            pass_fds=[writing],
        )
        os.close(writing)
        assert pipe.read() == "through"
        assert run.wait(60) == 0


def test_a_nested_run_does_not_wait_for_itself(host, repository):
    host.go("a", "both")
    doit = [sys.executable, "-m", "doit"]
    nested = [*doit, "lease", "run", "--gpus", "1", "--timeout", "0", "--", "sh", "-c", "echo $CUDA_VISIBLE_DEVICES"]
    code, out, err = host.lease("run", "--gpus", "1", "--", *nested)
    assert (code, err) == (0, "")
    assert out.strip() in TWO
    run = host.start("lease", "run", "--gpus", "1", "--", *doit, "--lease-timeout", "0", "a", cwd=repository.root)
    code, out, _ = ended(run)
    assert code == 0
    assert "; inside the lease of " in out
    run = host.start("lease", "run", "--gpus", "1", "--", *doit, "both", cwd=repository.root, CUDA_VISIBLE_DEVICES="0,1")
    code, out, _ = ended(run)
    assert code == 75
    run = host.start("lease", "run", "--", *doit, "both", cwd=repository.root)
    assert ended(run)[0] == 0


def test_a_token_alone_lets_nobody_in(host):
    """Everybody who sees the status sees it. What a program in between started without the descriptors is known by descent."""
    script = "import subprocess, sys; sys.exit(subprocess.call(sys.argv[1:]))"
    nested = [sys.executable, "-m", "doit", "lease", "run", "--timeout", "0", "--", "echo", "in"]
    assert host.lease("run", "--", sys.executable, "-c", script, *nested)[:2] == (0, "in\n")
    holder = host.start("lease", "run", "--", "sh", "-c", "echo $TOUCHGATE_LEASE_TOKEN; sleep 30")
    try:
        token = holder.stdout.readline().strip()
        assert host.lease("run", "--timeout", "0", "--", "echo", "in", TOUCHGATE_LEASE_TOKEN=token)[:2] == (75, "")
    finally:
        holder.terminate()
        ended(holder)


def test_an_empty_word_behind_the_dashes_is_the_commands_own(host, repository):
    words = [sys.executable, "-m", "doit", "lease", "run", "--", "printf", "<%s>", "a=1", "", "b"]
    done = subprocess.run(
        words, cwd=repository.root, env=host.environ, capture_output=True, text=True, timeout=60, check=False
    )
    assert (done.returncode, done.stdout) == (0, "<a=1><><b>")


def test_a_killed_run_leaves_its_lease_to_its_command(host):
    """The command goes on and keeps the lease; what it starts is inside, though its holder is dead."""
    out = host.marks / "out"
    nested = f"{sys.executable} -m doit lease run --gpus 1 --timeout 0 -- echo nested"
    script = f'{HELD}\n{{ {nested}; echo "exit $?"; }} > "$MARKS/out.new" 2>&1; mv "$MARKS/out.new" "$MARKS/out"'
    run = host.start("lease", "run", "--", "sh", "-c", script, "sh", "x")
    _, token = host.seen("x")
    run.kill()
    run.wait()
    assert [(one["resource"], one["token"]) for one in host.status()["holders"]] == [("here", token)]
    assert host.lease("run", "--gpus", "1", "--timeout", "0", "--", "true")[0] == 75
    host.go("x")
    wait_for(out.exists, "the nested run")
    assert out.read_text() == "nested\nexit 0\n"
    wait_for(lambda: host.status()["holders"] == [], "the lease ends with the command")
    assert host.lease("run", "--gpus", "1", "--timeout", "0", "--", "true")[0] == 0


def test_what_a_nested_run_leaves_behind_keeps_the_outer_lease(host):
    """A nested run hands the outer lease's descriptors on."""
    if not Path("/proc/self/fd").exists():
        pytest.skip("nobody is visible without /proc")
    nested = [sys.executable, "-m", "doit", "lease", "run", "--gpus", "1", "--", "sh", "-c"]
    code, out, err = host.lease("run", "--", *nested, "sleep 60 > /dev/null 2>&1 & echo $!")
    try:
        assert code == 0
        assert f"note: left over: pid {out.strip()} " in err
        assert host.lease("run", "--timeout", "0", "--", "true")[0] == 75
    finally:
        os.kill(int(out), signal.SIGKILL)


def test_a_lease_that_ended_is_no_shelter(host):
    """The variable alone, left over in a terminal, means nothing."""
    _, token, _ = host.lease("run", "--", "sh", "-c", "echo $TOUCHGATE_LEASE_TOKEN")
    held = host.held()
    host.seen("x")
    code, _, err = host.lease("run", "--timeout", "0", "--", "true", TOUCHGATE_LEASE_TOKEN=token.strip())
    assert code == 75
    assert err.startswith("ERROR: ")
    host.go("x")
    assert ended(held)[0] == 0


def test_what_a_command_leaves_behind_is_told_and_keeps_the_lease(host):
    if not Path("/proc/self/fd").exists():
        pytest.skip("nobody is visible without /proc")
    script = "sleep 60 > /dev/null 2>&1 & echo $!"
    code, out, err = host.lease("run", "--gpus", "1", "--", "sh", "-c", script)
    try:
        assert code == 0
        told = re.search(r"note: left over: pid (\d+) \(\S+\) sleep 60.*: still has the lease; it was not ended", err)
        assert told is not None, err
        assert told[1] == out.strip()
        os.kill(int(out), 0)
        assert [one["resource"] for one in host.status()["holders"]] != []
    finally:
        os.kill(int(out), signal.SIGKILL)
    wait_for(lambda: host.status()["holders"] == [], "the lease ends with the last process")


# -- reservations, drains ------------------------------------------------------------------------------------------------


def test_a_reservation_is_next_and_nobodys_run_is_stopped(host):
    held = host.held()
    host.seen("x")
    code, out, _ = host.lease("reserve", "--for", "1h", "--why", "debug the rope kernel")
    first = re.fullmatch(
        r"reservation (\d+): 1 host of here for 1 h, from now on\. `doit lease cancel \1` takes it back\n", out
    )
    assert (code, bool(first)) == (0, True), out
    code, out, _ = host.lease("reserve", "--for", "90m", "--why", "more of it")
    second = re.fullmatch(
        r"reservation (\d+): 1 host of here for 1 h 30 min, from when it is free \(position 1 in the queue\)\. "
        r"`doit lease cancel \1` takes it back\n",
        out,
    )
    assert (code, bool(second)) == (0, True), out
    assert first
    assert second
    told = host.status()
    assert [(one["id"], one["reserves"], one["priority"], one["what"]) for one in told["queue"]] == [
        (int(second[1]), True, "development", "more of it")
    ]
    assert [one["what"] for one in told["holders"] if one["id"] == int(first[1])] == ["debug the rope kernel"]
    for number in (second[1], first[1]):
        code, out, err = host.lease("cancel", number)
        assert (code, err) == (0, "")
        assert number in out
    assert host.status()["queue"] == []
    assert len(host.status()["holders"]) == 1
    assert held.poll() is None
    host.go("x")
    assert ended(held)[0] == 0


def test_a_run_adopts_a_reservation(host, repository):
    host.go("a")
    sha = repository.git("rev-parse", "HEAD")
    _, out, _ = host.lease("reserve", "--for", "1h", "--why", "ci", "--gpus", "1", "--sha", sha, "--json")
    number = json.loads(out)["id"]
    code, out, _ = ended(host.start("--reservation", str(number), "a", cwd=repository.root))
    assert code == 0
    assert host.seen("a")[0] in TWO
    repository.write("a/x", "x\n")
    repository.commit()
    code, out, _ = ended(host.start("--fresh", "--reservation", str(number), "a", cwd=repository.root))
    assert code == 75
    assert sha[:7] in out
    assert host.lease("cancel", str(number))[0] == 0


@pytest.mark.parametrize("number", ["99", "r-17", "0", "\u0661"])
def test_an_unknown_reservation_is_refused_in_words(host, repository, number):
    code, out, err = ended(host.start("--reservation", number, "a", cwd=repository.root))
    assert (code, err) == (75, "")
    assert f"there is no reservation {number}" in out
    assert not (host.marks / "a.seen").exists()


def test_a_drained_host_is_refused_until_it_is_back(host):
    code, out, err = host.lease("drain", "--why", "memory test")
    assert (code, err) == (0, "")
    assert out == "here is drained: who holds it goes on, nobody else gets it. `doit lease undrain here` takes that back\n"
    assert [(one["name"], one["drained"]) for one in host.status()["hosts"]] == [("here", "memory test")]
    code, _, err = host.lease("run", "--", "true")
    assert (code, err) == (75, "ERROR: here is drained (memory test); `doit lease undrain [HOST]` takes a drain back\n")
    assert host.lease("undrain", "here")[:2] == (0, "here is granted again\n")
    assert host.lease("run", "--", "true")[0] == 0
    assert host.lease("undrain") == (0, "here was not drained; nothing is changed\n", "")


def test_a_drain_says_what_it_costs_those_who_reserved(host):
    assert host.lease("reserve", "--for", "1h", "--why", "tuning")[0] == 0
    assert host.lease("reserve", "--for", "1h", "--why", "the next")[0] == 0
    code, out, err = host.lease("drain", "--why", "memory test")
    assert (code, err) == (0, "")
    said, begun, ahead = out.splitlines()
    assert said.startswith("here is drained: ")
    user = user_name(os.geteuid())
    assert re.fullmatch(
        rf"note: reservation 1 of {user} \(tuning\) ends at \d{{4}}-\d\d-\d\d \d\d:\d\d all the same: the queue lets no run "
        r"in meanwhile, and the time is not given back",
        begun,
    ), begun
    assert ahead == f"note: reservation 2 of {user} (the next) had not begun and is refused; it has to be asked for again"
    assert host.lease("run", "--", "true")[0] == 75


def test_a_newer_touchgates_queue_changes_no_exit_code(host):
    newer = f"echo '{{\"schema\": 2}}' > {host.leases}/queue.json; exit 7"
    assert host.lease("run", "--", "sh", "-c", newer) == (7, "", "")
    code, _, err = host.lease("run", "--", "true")
    assert code == 75
    assert "is of a newer touchgate (schema 2); bring touchgate up to date here" in err


def test_a_lease_that_was_lost_under_a_command_is_told(host):
    code, out, err = host.lease("run", "--", "sh", "-c", f"rm -r {host.leases} && mkdir -m 700 {host.leases}; exit 5")
    assert (code, out) == (5, "")
    assert re.fullmatch(
        rf"note: the lease \(token \d+\) is lost: its lock file {host.leases}/host.lock was deleted or replaced, so others "
        r"can get in; the command may not have been alone on the host\n",
        err,
    ), err


def test_a_run_in_a_folder_of_ones_own_says_so(host):
    own = {"TOUCHGATE_LEASE_DIR": "", "XDG_CACHE_HOME": str(host.elsewhere), "TMPDIR": str(host.elsewhere)}
    code, out, err = host.lease("run", "--", "echo", "x", **own)
    if "the host's shared folder" in host.lease("status", **own)[1]:
        pytest.skip("this host has a shared folder")
    assert (code, out) == (0, "x\n")
    assert re.fullmatch(
        r"note: leases in \S+ keep this user's own runs apart, nobody else's "
        r"\(for this user alone: no shared folder is set up.*\)\n",
        err,
    ), err


MISTAKES = {
    "a relative folder": ("TOUCHGATE_LEASE_DIR", "leases", "is 'leases', which is another folder wherever a run is started"),
    "a relative file": ("TOUCHGATE_HOSTS", "hosts.yml", "is 'hosts.yml', which is another file wherever a run is started"),
    "no file": (
        "TOUCHGATE_HOSTS",
        "/nonexistent/hosts.yml",
        "names /nonexistent/hosts.yml, which is not there; name the file",
    ),
    "a faulty file": ("TOUCHGATE_HOSTS", "{hosts}", "/hosts.yml:1:1: unknown key 'hostes' in the file; did you mean"),
}


@pytest.mark.parametrize("what", MISTAKES)
def test_settings_that_can_not_be_meant_are_wrong_usage(host, repository, what):
    name, value, said = MISTAKES[what]
    (host.elsewhere / "hosts.yml").write_text("hostes: {a: {}}\n")
    given = {name: value.format(hosts=host.elsewhere / "hosts.yml")}
    for arguments in (("status",), ("run", "--", "true"), ("drain", "--why", "x")):
        code, out, err = host.lease(*arguments, **given)
        assert (code, out) == (3, ""), err
        assert said in err
    code, out, err = ended(host.start("a", cwd=repository.root, **given))
    assert (code, out) == (3, "")
    assert said in err
    assert not (host.marks / "a.seen").exists()


# -- usage ---------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("statsu",), "`doit lease statsu`: there are status, run, reserve, cancel, drain, undrain, log, doctor; "),
        (("status", "x"), "`doit lease status` takes no arguments"),
        (("status", "--for", "2h"), "`doit lease status` takes no --for; it is for reserve"),
        (("status", "--json", "--metrics"), "--json and --metrics: one of the two"),
        (("run",), "the command stands behind `--`"),
        (("run", "true"), "the command stands behind `--`"),
        (("run", "true", "--", "x"), "the command stands behind `--`"),
        (("run", "--gpus", "0", "--", "x"), "--gpus 0: a number above 0"),
        (("run", "--gpus", "two", "--", "x"), "--gpus two: a number above 0"),
        (("run", "--gpus", "1", "--hosts", "1", "--", "x"), "--gpus and --hosts: one of the two"),
        (("run", "--timeout", "-1", "--", "x"), "--timeout -1: a number of minutes"),
        (("run", "--timeout", "nan", "--", "x"), "--timeout nan: a number of minutes"),
        (("reserve",), "`doit lease reserve --for 2h --why TEXT`: both are needed"),
        (("reserve", "--for", "2", "--why", "x"), "--for '2' is no duration; one is written as 2h, 90m or 1h30m"),
        (("reserve", "--for", "2h", "--why", "x", "--sha", "abc"), "--sha abc: a whole commit id"),
        (("cancel",), "`doit lease cancel` takes ID"),
        (("cancel", "x"), "`doit lease cancel x`: a request is named by its number"),
        (("drain",), "people who wait are told why"),
        (("drain", "there", "--why", "x"), "there is no host there; there is here"),
        (("status", "--", "x"), "`doit lease status` takes no arguments"),
    ],
)
def test_wrong_usage_is_told_in_a_line(host, arguments, said):
    code, out, err = host.lease(*arguments)
    assert (code, out) == (3, "")
    assert err.startswith("ERROR: ")
    assert said in err
    assert err.count("\n") == 1


def test_without_gpus_none_can_be_asked_for(tmp_path):
    bare = Host(tmp_path, uuids=())
    code, _, err = bare.lease("run", "--gpus", "1", "--", "true")
    assert code == 3
    assert "--gpus 1: the NVIDIA driver shows no GPU" in err
    assert bare.lease("run", "--", "echo", "whole host")[:2] == (0, "whole host\n")


def test_the_log_tells_what_happened(host):
    assert host.lease("log") == (0, "", "")
    host.lease("run", "--gpus", "1", "--what", "the rope kernel", "--", "true")
    host.lease("drain", "--why", "memory test")
    code, out, _ = host.lease("log", "--json")
    assert code == 0
    events = json.loads(out)["events"]
    assert [one["event"] for one in events if one["event"] in ("asked", "granted", "released", "drained")] == [
        "asked",
        "granted",
        "released",
        "drained",
    ]
    code, out, _ = host.lease("log", "1")
    assert code == 0
    assert re.fullmatch(r"\d{4}-\d\d-\d\d \d\d:\d\d  drained  memory test\n", out), out
    assert host.lease("log", "x")[0] == 3
    assert host.lease("log", "0")[0] == 3


def test_status_in_its_forms(host):
    code, out, _ = host.lease()
    assert code == 0
    assert "nobody holds anything\n" in out
    code, out, _ = host.lease("status", "--metrics")
    assert code == 0
    assert 'touchgate_lease_queue{priority="ci"} 0\n' in out
