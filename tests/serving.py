"""Git servers on loopback: `git daemon`, smart HTTP through `git http-backend`, plain files, and some that misbehave."""

from __future__ import annotations

import base64
import contextlib
import os
import socket
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

SETTINGS = ("uploadpack.allowFilter", "uploadpack.allowAnySHA1InWant")


@contextlib.contextmanager
def daemon(folder: Path, environ: dict[str, str]) -> Iterator[str]:
    """`git daemon` for the repositories in a folder; yields git://HOST:PORT."""
    port = free_port()
    command = ["git", "daemon", "--listen=127.0.0.1", f"--port={port}", "--export-all", f"--base-path={folder}", str(folder)]
    process = subprocess.Popen(command, env=environ, start_new_session=True, stderr=subprocess.DEVNULL)
    try:
        for _ in range(400):
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", port)) == 0:
                    break
            time.sleep(0.025)
        yield f"git://127.0.0.1:{port}"
    finally:
        os.killpg(process.pid, 15)
        process.wait()


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        return int(server.getsockname()[1])


@contextlib.contextmanager
def http(handler: type[BaseHTTPRequestHandler]) -> Iterator[str]:
    """A web server; yields http://HOST:PORT."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def plain_files(folder: Path) -> type[BaseHTTPRequestHandler]:
    """Files as they lie, which is what git calls dumb HTTP."""

    class Files(SimpleHTTPRequestHandler):
        def __init__(self, *arguments: object) -> None:
            super().__init__(*arguments, directory=str(folder))  # type: ignore[arg-type]

        def log_message(self, *_: object) -> None:
            pass

    return Files


def smart(
    folder: Path,
    environ: dict[str, str],
    *,
    user: tuple[str, str] | None = None,
    seen: list[dict[str, str]] | None = None,
    cut: Callable[[bytes], bytes] = lambda data: data,
) -> type[BaseHTTPRequestHandler]:
    """Smart HTTP for the repositories in a folder.

    user: name and password that it wants. seen: the headers of each request go there. cut: what becomes of each pack.
    """

    wanted = f"basic {base64.b64encode(':'.join(user).encode()).decode()}" if user else ""

    class Smart(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.answer(b"")

        def do_POST(self) -> None:
            if self.headers.get("Transfer-Encoding") == "chunked":
                body = b""
                while size := int(self.rfile.readline(), 16):
                    body += self.rfile.read(size)
                    self.rfile.readline()
                self.rfile.readline()
            else:
                body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            self.answer(body)

        def answer(self, body: bytes) -> None:
            if seen is not None:
                seen.append(dict(self.headers))
            if wanted and self.headers.get("Authorization", "").lower() != wanted.lower():
                self.send_response(401)
                self.send_header("WWW-Authenticate", 'Basic realm="here"')
                self.send_header("Content-Length", "0")
                self.end_headers()
                return
            path, _, query = self.path.partition("?")
            variables = {
                **environ,
                "GIT_PROJECT_ROOT": str(folder),
                "GIT_HTTP_EXPORT_ALL": "1",
                "REQUEST_METHOD": self.command,
                "PATH_INFO": path,
                "QUERY_STRING": query,
                "CONTENT_TYPE": self.headers.get("Content-Type", ""),
                "CONTENT_LENGTH": str(len(body)),
                "HTTP_CONTENT_ENCODING": self.headers.get("Content-Encoding", ""),
                "GIT_PROTOCOL": self.headers.get("Git-Protocol", ""),
            }
            done = subprocess.run(["git", "http-backend"], env=variables, input=body, capture_output=True, check=False)
            head, _, content = done.stdout.partition(b"\r\n\r\n")
            fields = dict(line.split(": ", 1) for line in head.decode().splitlines() if ": " in line)
            self.send_response(int(fields.pop("Status", "200").split()[0]))
            for name, value in fields.items():
                self.send_header(name, value)
            content = cut(content) if b"packfile" in content[:4000] else content
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            with contextlib.suppress(OSError):
                self.wfile.write(content)

        def log_message(self, *_: object) -> None:
            pass

    return Smart


@contextlib.contextmanager
def silent() -> Iterator[str]:
    """A server that takes the connection and says nothing."""
    server = socket.create_server(("127.0.0.1", 0))
    try:
        yield f"git://127.0.0.1:{server.getsockname()[1]}"
    finally:
        server.close()
