"""`doit lease`: who holds what and who waits; run a command under a lease; reserve, cancel, drain."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from touchgate.edge.commands.base import RepositoryCommand, as_typed, refuse, split
from touchgate.edge.usage import UsageFault
from touchgate.gate.located import did_you_mean
from touchgate.reports.model import NOT_GRANTED

if TYPE_CHECKING:
    from collections.abc import Mapping


@dataclass(frozen=True)
class Action:
    """A word behind `doit lease`: the options that mean something to it, and its arguments, fewest and most."""

    options: tuple[str, ...]
    fewest: int = 0
    most: int = 0
    arguments: str = ""


ACTIONS = {
    "status": Action(("json", "metrics")),
    "run": Action(("gpus", "hosts", "timeout", "what")),
    "reserve": Action(("for", "why", "gpus", "hosts", "sha", "json")),
    "cancel": Action(("json",), 1, 1, "ID"),
    "drain": Action(("why",), 0, 1, "[HOST]"),
    "undrain": Action((), 0, 1, "[HOST]"),
    "log": Action(("json",), 0, 1, "[LINES]"),
    "doctor": Action(("fix", "group", "json")),
}
FLAGS = ("json", "metrics", "fix")

HELP = {
    "json": "print JSON, for a program",
    "metrics": "with status: Prometheus' text format",
    "gpus": "with run, reserve: N GPUs of this host",
    "hosts": "with run, reserve: N whole hosts [default: this one]",
    "timeout": "with run: give up (exit 75) when nothing is granted in MIN minutes; 0: at once [default: 1440]",
    "what": "with run: what for, shown to others [default: the command]",
    "for": "with reserve: how long, as 2h, 90m or 1h30m",
    "why": "with reserve, drain: the reason, shown to others",
    "sha": "with reserve: the only commit that `doit --reservation ID` may adopt it for",
    "fix": "with doctor: set up what is wrong, as far as this user may",
    "group": "with doctor --fix: the group that shares the host's leases",
}
METAVARS = {
    "gpus": "N",
    "hosts": "N",
    "timeout": "MIN",
    "what": "TEXT",
    "for": "TIME",
    "why": "TEXT",
    "sha": "SHA",
    "group": "G",
}


def _option(name: str) -> dict[str, Any]:
    option: dict[str, Any] = {"name": f"asked_{name}", "long": name, "help": HELP[name]}
    if name in FLAGS:
        return {**option, "type": bool, "default": False}
    return {**option, "default": "", "metavar": METAVARS.get(name, "TEXT")}


class LeaseCommand(RepositoryCommand):
    """Looks at leases and changes them, in any folder."""

    name = "lease"
    doc_purpose = "who holds this host and its GPUs, and who waits; run a command under a lease; reserve, drain"
    doc_usage = (
        "[status | run -- CMD | reserve --for TIME --why TEXT | cancel ID | drain [HOST] --why TEXT | undrain [HOST]"
        " | log [LINES] | doctor]"
    )
    doc_description = """Works in any folder. Checks take their lease by themselves; `run` is for everything else.

status: holders (who, since when, what for), the queue with positions and estimates, drained hosts.

run: CMD under a lease of this host, or of N of its GPUs. Its environment, terminal, signals and exit code are kept; it gets
TOUCHGATE_LEASE_TOKEN and, for GPUs, CUDA_VISIBLE_DEVICES beside. Under a lease of its own tree it does not ask again. Where
somebody else is on the GPU it ends with 69, or waits for as long as TOUCHGATE_UNFIT_WAIT says (30m) at the front of the queue.

reserve: be next. The host, or N of its GPUs, are yours for a while, from when they are free. Nobody's run is stopped.

cancel: take back a request that waits, or end a reservation. A run that holds something is never ended.

drain: grant nothing new on a host; what runs there goes on. undrain takes that back.

log: the last lines of what happened. doctor: whether leases here keep runs apart, and with --fix make it so.

Exit codes: 0; 1 doctor found something wrong; 3 wrong usage or settings; 69 the host is not fit; 75 not granted, or leases
can't be used here; 130 interrupted; `run`: that of CMD."""
    cmd_options = tuple(_option(name) for name in HELP)

    def parse_execute(self, in_args: list[str]) -> int:
        """What stands behind `--` is a command of the person's, not ours to read."""
        args, command = split(as_typed(self.name, in_args))
        self._command = tuple(command)
        return super().parse_execute(args)

    _command: tuple[str, ...] = ()

    def execute(self, opt_values: Any, pos_args: list[str]) -> int:
        """A lease belongs to hosts, not to a repository: no repository is needed."""
        from touchgate.leases.engine import LeaseFault, LeaseMistake  # noqa: PLC0415

        def act() -> int:
            try:
                return self._act(opt_values, pos_args or ["status"])
            except LeaseMistake as fault:
                return refuse(str(fault))
            except LeaseFault as fault:
                return refuse(str(fault), code=NOT_GRANTED)

        return self.guarded(act)

    def _act(self, opt_values: Any, words: list[str]) -> int:
        action, arguments = words[0], words[1:]
        given = {name: opt_values[f"asked_{name}"] for name in HELP if opt_values.get(f"asked_{name}")}
        _refuse_strange(action, arguments, given, self._command)
        if action == "status":
            from touchgate.edge.commands import lease_status  # noqa: PLC0415

            return lease_status.show(as_json="json" in given, metrics="metrics" in given)
        if action == "run":
            from touchgate.edge.commands import lease_run  # noqa: PLC0415

            return lease_run.run(self._command, given)
        if action == "doctor":
            from touchgate.edge.commands import lease_doctor  # noqa: PLC0415

            return lease_doctor.doctor(given)
        if action == "log":
            from touchgate.edge.commands import lease_log  # noqa: PLC0415

            return lease_log.show(arguments[0] if arguments else "", as_json="json" in given)
        from touchgate.edge.commands import lease_changes  # noqa: PLC0415

        return lease_changes.act(action, arguments, given)


def _refuse_strange(action: str, arguments: list[str], given: Mapping[str, Any], command: tuple[str, ...]) -> None:
    """Raises UsageFault for what means nothing to this action."""
    known = ACTIONS.get(action)
    if known is None:
        hint = did_you_mean(action, ACTIONS)
        raise UsageFault(f"`doit lease {action}`: there are {', '.join(ACTIONS)}" + (f"; {hint}" if hint else ""))
    for name in given:
        if name not in known.options:
            of = [other for other, one in ACTIONS.items() if name in one.options]
            raise UsageFault(f"`doit lease {action}` takes no --{name}; it is for {', '.join(of)}")
    if "json" in given and "metrics" in given:
        raise UsageFault("--json and --metrics: one of the two")
    if action == "run":
        if arguments or not command:
            raise UsageFault("`doit lease run [--gpus N | --hosts N] -- CMD ...`: the command stands behind `--`")
    elif command or not known.fewest <= len(arguments) <= known.most:
        raise UsageFault(f"`doit lease {action}` takes {known.arguments or 'no arguments'}")
