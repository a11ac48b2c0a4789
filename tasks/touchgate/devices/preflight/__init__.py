"""Whether a host is fit for what a lease was granted for: who else is on its GPUs, and what else is wrong with them.

Read before the first device check of a grant, where an NVIDIA driver is loaded. It disturbs and ends nobody.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from touchgate.devices.preflight.settings import Settings, host_settings
from touchgate.devices.preflight.values import NOT_FIT_EXIT, Answer, Finding, Owner

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from collections.abc import Set as AbstractSet

__all__ = ["NOT_FIT_EXIT", "Answer", "Finding", "Owner", "Settings", "examine", "host_settings"]

NOTHING_TO_ASK = "no NVIDIA driver is loaded: nobody can be on a GPU"


def examine(
    uuids: Sequence[str],
    ours: Callable[[], AbstractSet[int]],
    settings: Settings,
    environ: Mapping[str, str] = os.environ,
    cancelled: Callable[[], bool] | None = None,
    root: Path = Path("/"),
) -> Finding:
    """Look at the granted GPUs or MIG devices (none: at all of the host), once, within the settings' limits.

    ours: the ids of this run's processes, asked for after the GPUs were read, so that who was started meanwhile counts as
    ours. cancelled: asked four times a second; then the answer is unknown at once. Where no NVIDIA driver is loaded it is
    fit, and nothing was read. root: for tests, a folder in the place of /.
    """
    from touchgate.devices.preflight import command, host, reading, verdict  # noqa: PLC0415  only who has a GPU pays for it

    if host.driver(root) is None:
        return Finding(Answer.FIT, notes=(NOTHING_TO_ASK,))
    seen = reading.read_apart(uuids, settings.timeout, environ, cancelled)
    found = verdict.judge(seen, ours(), settings)
    if settings.command:
        said = command.run(settings.command, settings.command_timeout, uuids, environ, cancelled)
        found = verdict.with_command(found, said)
    return verdict.by_settings(found, settings)
