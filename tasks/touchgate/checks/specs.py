"""The pair of checks that a kernel's declaration stands for: measured where it can be, and sanitized in suite full."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from touchgate.checks import CheckSpec, check_name

if TYPE_CHECKING:
    from touchgate.gate.model import CheckDeclaration, Lane

SANITIZE = "sanitize"
"""The option, and the name's ending, of the twin that runs under the sanitizers."""


def measured_and_sanitized(
    kind: str, lane: Lane, declaration: CheckDeclaration, *, about: str, sanitized: str
) -> tuple[CheckSpec, CheckSpec]:
    """The check itself, on a GPU or emulated, in the lane's suites; and its emulated twin under the sanitizers.

    about, sanitized: what each is about, one line.
    """
    common: dict[str, Any] = {
        "lane": lane.name,
        "kind": kind,
        "target": declaration.target,
        "timeout": lane.timeout * 60,
        "env": lane.env,
        "where": str(declaration.at),
    }
    return (
        CheckSpec(
            name=check_name(lane, declaration),
            about=about,
            options=dict(declaration.options),
            places=("gpu", "emulated"),
            suites=lane.suites,
            **common,
        ),
        CheckSpec(
            name=check_name(lane, declaration, SANITIZE),
            about=sanitized,
            options={**declaration.options, SANITIZE: True},
            places=("emulated",),
            suites=("full",),
            **common,
        ),
    )
