"""`touchgate lease-hold`: a lease of this host for a run on another one, which is connected to it by ssh."""

from __future__ import annotations

import os
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from touchgate.gate.aside import aside

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from touchgate.leases.engine import Grant
    from touchgate.leases.files import FilesEngine

USAGE = 3
DIRECTORY = "TOUCHGATE_LEASE_DIR"
HELP = """usage: touchgate lease-hold

Started by another host's touchgate through ssh: it reads requests from standard input, a JSON object a line, and answers
on standard output. What it was granted is given back when its input ends. It takes no options.

Exit codes:
  0  its input ended
  3  usage

Example, in authorized_keys of a host that may do nothing else for a key:
  restrict,command="touchgate lease-hold" ssh-ed25519 AAAA...

More: docs/pair.md."""


class ThisHost:
    """Its leases and its GPUs, looked at once."""

    def __init__(self, environ: Mapping[str, str]) -> None:
        self._environ = environ
        self._gpus: tuple[str, ...] | None = None

    def engine(self, directory: str, host: str) -> FilesEngine:
        """Its leases, in `directory` ("": where they are for everybody here). Raises `LeaseRefused`."""
        from touchgate.leases import choose  # noqa: PLC0415
        from touchgate.leases.directory import lease_directory  # noqa: PLC0415
        from touchgate.leases.engine import LeaseRefused  # noqa: PLC0415
        from touchgate.leases.files import FilesEngine  # noqa: PLC0415

        choice = choose.chosen(self._environ)
        folder = choose.directory(self._environ, choice)
        said = self._environ.get(DIRECTORY) or (choice.hosts is not None and choice.hosts.folder_of(choice.host))
        if directory and not said:
            folder = replace(lease_directory({**self._environ, DIRECTORY: directory}), why="'lease_dir' of the host that asks")
        elif directory and folder.path != Path(directory):
            raise LeaseRefused(
                f"its own settings keep leases in {folder.path} ({folder.why}), and those of the host that asks in {directory}"
            )
        return FilesEngine(folder, host=host, gpus=self._present())

    def _present(self) -> tuple[str, ...]:
        from touchgate.devices import probe  # noqa: PLC0415

        if self._gpus is None:
            self._gpus = tuple(gpu.uuid for gpu in probe.look(self._environ).present if gpu.uuid)
        return self._gpus

    def unfit(self, grant: Grant, cancelled: Callable[[], bool]) -> str:
        """Why this host is not fit for what was granted, "" where it is. cancelled: asked at least four times a second."""
        from touchgate import processes  # noqa: PLC0415
        from touchgate.devices import preflight  # noqa: PLC0415
        from touchgate.gate.model import Refusal  # noqa: PLC0415
        from touchgate.leases import process  # noqa: PLC0415

        uuids = [share.gpu for share in grant.shares if share.gpu is not None] or self._present()

        def ours() -> frozenset[int]:
            kept: list[int] = []
            for descriptor in grant.descriptors:
                with suppress(OSError):
                    if " WRITE " in Path(f"/proc/self/fdinfo/{descriptor}").read_text(encoding="ascii", errors="replace"):
                        kept += process.keepers(os.fstat(descriptor))
            return processes.family(os.getpid()).union(kept)

        try:
            found = preflight.examine(uuids, ours, preflight.host_settings(self._environ), self._environ, cancelled)
        except Refusal as fault:
            return f"whether the host is fit can't be known: {fault}"
        return "" if found.fit else "\n".join(found.lines())


def main(argv: Sequence[str], environ: Mapping[str, str]) -> int:
    """Serve the other end of standard input and output."""
    if argv:
        if argv[0] in ("-h", "--help"):
            print(HELP)
            return 0
        aside(f"touchgate lease-hold: there is nothing to be said to it\n\n{HELP}")
        return USAGE
    from touchgate.leases.ssh import far  # noqa: PLC0415

    return far.main(ThisHost(environ))
