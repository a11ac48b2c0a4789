"""How many bytes the gate fetches, beside what git fetches for the same answer, over loopback.

    python tests/benchmarks/bytes_fetched.py [FOLDER]

Makes the repository of docs/gate.md's figures (100,000 files, 55 packages, 10,000 commits, a branch cut 50 commits before
main's tip) and one of 20,000 files of 20 KB each, serves them with `git daemon` behind a counter of bytes, and prints KiB
from the server. A person judges; the goals are a fiftieth, a quarter and a fiftieth.
"""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

from repository import ENVIRON, Shape, make

GATE = [sys.executable, "-c", "import sys; from touchgate.console import main; sys.exit(main())", "gate"]
BRANCH = "topic"


class Counter:
    """Hands connections on to a port, and counts the bytes that come back."""

    def __init__(self, port: int) -> None:
        self.received = 0
        self._to = port
        self._server = socket.create_server(("127.0.0.1", 0))
        self.port = self._server.getsockname()[1]
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self) -> None:
        while True:
            client, _ = self._server.accept()
            there = socket.create_connection(("127.0.0.1", self._to))
            threading.Thread(target=self._pipe, args=(client, there, False), daemon=True).start()
            threading.Thread(target=self._pipe, args=(there, client, True), daemon=True).start()

    def _pipe(self, one: socket.socket, other: socket.socket, counted: bool) -> None:
        try:
            while data := one.recv(1 << 16):
                if counted:
                    self.received += len(data)
                other.sendall(data)
            other.shutdown(socket.SHUT_WR)
        except OSError:
            other.close()


def free_port() -> int:
    """A port that nobody listens on."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        return int(server.getsockname()[1])


def run(folder: Path, *command: str) -> str:
    """Run a command in a folder; what it prints, the reasons included."""
    environ = {**ENVIRON, "HOME": str(folder)}
    for name in [name for name in environ if name.startswith(("GITHUB_", "GITLAB_", "CI", "TOUCHGATE_"))]:
        del environ[name]
    done = subprocess.run(command, cwd=folder, env=environ, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"{command}: {done.stderr}")
    return done.stdout + done.stderr


class Measured:
    """One repository, served."""

    def __init__(self, top: Path, name: str, shape: Shape) -> None:
        began = time.monotonic()
        self.top = top / name
        self.top.mkdir(exist_ok=True)
        self.repository = make(self.top / "server", shape)
        for setting in ("uploadpack.allowFilter", "uploadpack.allowAnySHA1InWant"):
            run(self.repository, "git", "config", setting, "true")
        port = free_port()
        options = ["--reuseaddr", "--listen=127.0.0.1", f"--port={port}", "--export-all", f"--base-path={self.repository}"]
        self.daemon = subprocess.Popen(
            ["git", "daemon", *options, str(self.repository)], env=ENVIRON, start_new_session=True, stderr=subprocess.DEVNULL
        )
        for _ in range(200):
            time.sleep(0.05)
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", port)) == 0:
                    break
        self.counter = Counter(port)
        self.url = f"git://127.0.0.1:{self.counter.port}/"
        print(f"{name}: {shape.files} files of {shape.file_bytes} bytes, {shape.commits} commits", end="")
        print(f", made or found in {time.monotonic() - began:.0f} s", flush=True)

    def cost(self, folder: str, *command: str) -> tuple[float, float, str]:
        """KiB from the server and seconds of a command run in a folder of its own, and what it said."""
        at = self.top / folder
        at.mkdir(exist_ok=True)
        before, began = self.counter.received, time.monotonic()
        said = run(at, *command)
        return (self.counter.received - before) / 1024, time.monotonic() - began, said

    def clone(self, folder: str) -> float:
        """KiB of a depth-1 clone of the branch."""
        return self.cost(".", "git", "clone", "-q", "--depth=1", f"--branch={BRANCH}", self.url, folder)[0]

    def close(self) -> None:
        """End the server."""
        os.killpg(self.daemon.pid, 15)
        self.daemon.wait()


def show(what: str, kib: float, seconds: float) -> None:
    """A line of the table."""
    print(f"  {what:48} {kib:10,.0f} KiB {seconds:7.2f} s", flush=True)


def compare(what: str, ours: float, theirs: float, goal: int) -> None:
    """The ratio beside the goal."""
    print(f"  {what}: 1/{theirs / max(ours, 0.001):.1f}, goal 1/{goal}", flush=True)


def main() -> None:
    """Build, serve, measure, print."""
    with tempfile.TemporaryDirectory() as name:
        top = Path(sys.argv[1] if len(sys.argv) > 1 else name)
        top.mkdir(exist_ok=True)
        small = Measured(top, "small-files", Shape(file_bytes=240))
        try:
            work = Path(tempfile.mkdtemp(dir=small.top)).name
            clone = small.clone(f"{work}/gate")
            small.clone(f"{work}/unshallow")
            show("depth-1 clone", clone, 0)
            fetched, seconds, said = small.cost(f"{work}/gate", *GATE, "--fetch", "origin/main", "HEAD")
            print("    " + "\n    ".join(line for line in said.splitlines()[:5]))
            show("the gate's fetch from there", fetched, seconds)
            heads = ("+refs/heads/*:refs/remotes/origin/*",)
            whole, seconds, _ = small.cost(f"{work}/unshallow", "git", "fetch", "-q", "--unshallow", "origin", *heads)
            show("git fetch --unshallow from there, all branches", whole, seconds)
            alone, seconds, said = small.cost(f"{work}/empty", *GATE, "--remote", small.url, "main", BRANCH)
            print("    " + "\n    ".join(line for line in said.splitlines()[:5]))
            show("the gate in an empty folder", alone, seconds)
            compare("gate's fetch to unshallow", fetched, whole, 50)
            compare("empty folder to depth-1 clone", alone, clone, 4)
        finally:
            small.close()
        large = Measured(top, "large-files", Shape(files=20_000, commits=2_000, file_bytes=20_000))
        try:
            work = Path(tempfile.mkdtemp(dir=large.top)).name
            clone = large.clone(f"{work}/clone")
            show("depth-1 clone", clone, 0)
            alone, seconds, said = large.cost(f"{work}/empty", *GATE, "--remote", large.url, "main", BRANCH)
            print("    " + "\n    ".join(line for line in said.splitlines()[:5]))
            show("the gate in an empty folder", alone, seconds)
            compare("empty folder to depth-1 clone", alone, clone, 50)
        finally:
            large.close()


if __name__ == "__main__":
    main()
