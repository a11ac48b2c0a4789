"""What is claimed of preflight and of leftovers, tried on a GPU: run it where touchgate, nvidia-ml-py and a GPU are.

    python tests/hardware/preflight.py

A line for each claim, PASS or FAIL, and exit 1 if one does not hold. It starts processes that take memory on the first
GPU, and ends those, and nobody else's. About half a minute.
"""

from __future__ import annotations

import ctypes
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from pathlib import Path

TAKEN = 1 << 30
"""Bytes that a foreign process takes on the GPU."""
HERE = [sys.executable, str(Path(__file__).resolve())]
failed = []


def claim(words: str, *, holds: bool, seen: object = "") -> None:
    """One line; what was seen only where it does not hold."""
    print(f"PASS {words}" if holds else f"FAIL {words}: {seen}", flush=True)
    if not holds:
        failed.append(words)


# -- the parts, each a process of its own --------------------------------------------------------------------------------


def hold() -> None:
    """Take memory on the first GPU, say so, and wait to be ended."""
    cuda = ctypes.CDLL("libcuda.so.1")
    context, address = ctypes.c_void_p(), ctypes.c_uint64()
    for step, status in (
        ("cuInit", cuda.cuInit(0)),
        ("cuDevicePrimaryCtxRetain", cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0)),
        ("cuCtxSetCurrent", cuda.cuCtxSetCurrent(context)),
        ("cuMemAlloc", cuda.cuMemAlloc_v2(ctypes.byref(address), ctypes.c_size_t(TAKEN))),
    ):
        if status:
            raise SystemExit(f"{step}: CUDA error {status}")
    print(os.getpid(), flush=True)
    signal.pause()


def ask(*ours: str) -> None:
    """Preflight, as a run does it: its line, its owners, its exit code. ours: ids that count as this run's."""
    from touchgate import processes
    from touchgate.devices import preflight

    settings = preflight.host_settings()
    began = time.monotonic()
    found = preflight.examine([first_gpu()], lambda: processes.family(os.getpid()) | set(map(int, ours)), settings)
    print(json.dumps({**found.to_json(), "lines": found.lines(), "seconds": time.monotonic() - began}))
    raise SystemExit(found.exit_code)


def run(folder: str, how: str) -> None:
    """A run with a lease that starts a process on the GPU and is killed, or ends and leaves it behind."""
    import fcntl

    from touchgate.leases.leftovers import leftovers

    path = Path(folder) / "host.lock"
    lock = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    fcntl.flock(lock, fcntl.LOCK_EX)
    environ = {**os.environ, "TOUCHGATE_LEASE_TOKEN": "41"}
    # What is left of a killed run has its lease; of the other only the token tells.
    passed = (lock,) if how == "killed" else ()
    left = start(environ=environ, pass_fds=passed)
    os.close(lock) if how == "ended" else None
    told = [one.to_json() for one in leftovers([path], 41)] if how == "ended" else []
    print(json.dumps({"pid": left.pid, "told": told}), flush=True)
    if how == "killed":
        os.kill(os.getpid(), signal.SIGKILL)
    os._exit(0)


# -- starting and asking them --------------------------------------------------------------------------------------------


def first_gpu() -> str:
    """The UUID of the first GPU, as CUDA counts."""
    listed = subprocess.run(
        ["nvidia-smi", "--query-gpu=uuid", "--format=csv,noheader"], capture_output=True, text=True, check=True
    )
    return listed.stdout.split()[0]


def start(environ: dict[str, str] | None = None, pass_fds: tuple[int, ...] = ()) -> subprocess.Popen[str]:
    """A process on the GPU, in a session of its own, once it is there. Its errors are this script's."""
    held = subprocess.Popen(
        [*HERE, "hold"], env=environ, pass_fds=pass_fds, stdout=subprocess.PIPE, text=True, start_new_session=True
    )
    if held.stdout is None or not held.stdout.readline().strip():
        raise SystemExit("no process could be started on the GPU")
    return held


def asked(*ours: int) -> tuple[int, dict[str, object]]:
    """Preflight in a sibling of whatever holds the GPU: nobody there descends from it."""
    done = subprocess.run([*HERE, "ask", *map(str, ours)], capture_output=True, text=True, check=False)
    with suppress(ValueError):
        return done.returncode, json.loads(done.stdout)
    return done.returncode, {"answer": "", "owners": [], "lines": [done.stderr], "seconds": 0.0}


def alive(pid: int) -> bool:
    """Whether it computes on: neither gone nor a zombie."""
    with suppress(OSError):
        return Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[0] not in "ZX"
    return False


def left_of(folder: Path, how: str) -> dict[str, object]:
    """What a run that was killed, or ended, left behind."""
    done = subprocess.Popen([*HERE, "run", str(folder), how], stdout=subprocess.PIPE, text=True)
    line = done.stdout.readline() if done.stdout is not None else ""
    done.wait()
    return dict(json.loads(line))


def end(pid: int) -> None:
    """End one that this script started, and wait until the driver has let go of it."""
    with suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)
    with suppress(ChildProcessError):
        os.waitpid(pid, 0)
    time.sleep(1)


# -- the claims ----------------------------------------------------------------------------------------------------------


def idle() -> None:
    """Before anything was started."""
    code, found = asked()
    print("\n".join(map(str, found["lines"])), flush=True)
    claim("an idle GPU is fit, exit 0", holds=(code, found["answer"]) == (0, "fit"), seen=(code, found))
    times = sorted(float(str(asked()[1]["seconds"])) for _ in range(5))
    print(f"     preflight took {times[2] * 1000:.0f} ms [{times[0] * 1000:.0f}-{times[-1] * 1000:.0f}], 5 times")


def foreign() -> None:
    """A process of somebody else beside this run."""
    held = start()
    code, found = asked()
    print("\n".join(map(str, found["lines"])), flush=True)
    owners = found["owners"] if isinstance(found["owners"], list) else []
    claim("beside a foreign process: not fit, exit 69", holds=(code, found["answer"]) == (69, "not fit"), seen=(code, found))
    owner = owners[0] if len(owners) == 1 else {}
    claim("it is named by its process id", holds=owner.get("pid") == held.pid, seen=owners)
    claim(
        "with its user and command", holds=bool(owner.get("user")) and "preflight.py" in str(owner.get("command")), seen=owner
    )
    claim("with the time of its start", holds=str(owner.get("since", "")).endswith("Z"), seen=owner)
    claim("with its memory", holds=int(owner.get("memory") or 0) >= TAKEN, seen=owner)
    claim("it was left running", holds=held.poll() is None and alive(held.pid), seen=held.poll())
    code, found = asked(held.pid)
    claim("this run's own process is in nobody's way", holds=(code, found["answer"]) == (0, "fit"), seen=(code, found))
    end(held.pid)
    code, found = asked()
    claim("once it has ended the host is fit again", holds=code == 0, seen=found)


def orphans(folder: Path) -> None:
    """Processes that outlive a run, killed or ended."""
    from touchgate.leases.leftovers import leftovers

    pid = int(str(left_of(folder, "killed")["pid"]))
    told = leftovers([folder / "host.lock"], None)
    for one in told:
        print(f"     {one}")
    claim(
        "the orphan of a killed run is reported: on the GPU, and with the lease",
        holds=[(one.process.pid, one.uses_gpu, one.has_lease) for one in told] == [(pid, True, True)],
        seen=told,
    )
    code, found = asked()
    named = [owner["pid"] for owner in found["owners"]] if isinstance(found["owners"], list) else []
    claim("the next run's preflight names it, exit 69", holds=(code, named) == (69, [pid]), seen=(code, found))
    claim("as left by a run with that token", holds="lease token 41" in str(found["lines"]), seen=found["lines"])
    claim("it was left running", holds=alive(pid), seen=pid)
    end(pid)
    ended = left_of(folder, "ended")
    claim(
        "what a run that ended leaves on the GPU without its lease is reported by it",
        holds=[(one["pid"], one["uses_gpu"], one["has_lease"]) for one in ended["told"]] == [(ended["pid"], True, False)]
        if isinstance(ended["told"], list)
        else False,
        seen=ended,
    )
    claim("and was left running", holds=alive(int(str(ended["pid"]))), seen=ended)
    end(int(str(ended["pid"])))
    code, found = asked()
    claim("in the end the host is fit", holds=code == 0, seen=found)


def doit(folder: Path) -> None:
    """The whole command beside a foreign process, in a checkout of this repository."""
    held = start()
    environ = {**os.environ, "TOUCHGATE_RESULTS_DIR": str(folder / "results"), "TOUCHGATE_LEASE_DIR": str(folder / "leases")}
    (folder / "leases").mkdir(mode=0o700)
    root = Path(__file__).resolve().parents[2]
    done = subprocess.run(
        [sys.executable, "-m", "doit", "--require-device", "--fresh", "rmsnorm"],
        cwd=root,
        env=environ,
        capture_output=True,
        text=True,
        check=False,
    )
    told = f"pid {held.pid} " in done.stdout + done.stderr
    claim("doit beside a foreign process exits 69 and names it", holds=done.returncode == 69 and told, seen=done)
    claim("and leaves it running", holds=held.poll() is None, seen=held.poll())
    end(held.pid)


def main() -> None:
    """All claims."""
    subprocess.run(["nvidia-smi", "--query-gpu=name,driver_version,mig.mode.current", "--format=csv"], check=False)
    namespace = Path("/proc/self/ns/pid").readlink()
    print(f"namespace of process ids: {namespace}", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        idle()
        foreign()
        orphans(Path(folder))
        doit(Path(folder))
    raise SystemExit(1 if failed else 0)


if __name__ == "__main__":
    parts = {"hold": hold, "ask": ask, "run": run}
    parts[sys.argv[1]](*sys.argv[2:]) if sys.argv[1:] else main()
