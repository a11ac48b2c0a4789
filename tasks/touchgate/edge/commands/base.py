"""What our commands share: any folder of the repository, options before or after names, errors in one line with exit 3."""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from doit.cmd_base import Command
from doit.cmdparse import CmdParseError

from touchgate.edge.loader import chosen
from touchgate.edge.planning import declare
from touchgate.edge.usage import UsageFault, repository
from touchgate.gate.declared import Declared
from touchgate.gate.git import GitFault, Repository
from touchgate.gate.history import wish
from touchgate.gate.located import DeclarationError

USAGE = 3
INTERRUPTED = 130
UNWRITTEN = 2


class RepositoryCommand(Command):  # type: ignore[misc]  # doit has no types
    """A command about the repository around the current folder. Subclasses implement `act`."""

    def __init__(self, *, cmds: Any = None, task_loader: Any = None, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self._cmds, self._loader = cmds, task_loader
        self.typed: frozenset[str] = frozenset()
        self._reserved: tuple[str, ...] = tuple(sorted(cmds)) if cmds else ()

    def parse_execute(self, in_args: list[str]) -> int:
        """Options may stand before, between and after names; what follows `--` is left alone.

        In a project that does not choose touchgate and has a task of our command's name, the task is meant.
        """
        if self._is_a_task():
            from touchgate.edge.commands.run import Run  # noqa: PLC0415

            run = Run(task_loader=self._loader, cmds=self._cmds, config=self.config, bin_name=self.bin_name)
            code: int = run.parse_execute([self.name, *in_args])
            return code
        if in_args[:1] in (["--help"], ["-h"]):
            print(self.help())
            return 0
        rest: list[str] = []
        args, after = split(as_typed(self.name, in_args))
        try:
            self.typed = self._typed(args)
            params, args = self.cmdparser.parse(args)
            while args:
                rest.append(args[0])
                params, args = self.cmdparser.parse_only(args[1:], params)
        except CmdParseError as error:
            return refuse(f"{str(error).partition(' (parsing options')[0]}; see `doit help {self.name}`")
        return self.execute(params, [*rest, *after])

    def _typed(self, args: list[str]) -> frozenset[str]:
        """The names of the options that stand on the command line itself: neither settings nor variables count."""
        # doit appends to the list that it finds.
        found: dict[str, Any] = {option["name"]: [] for option in self.cmd_options if option.get("type") is list}
        while args:
            found, args = self.cmdparser.parse_only(args, found)
            args = args[1:]
        return frozenset(name for name, value in found.items() if value != [])

    def _is_a_task(self) -> bool:
        dodo = Path("dodo.py")
        if chosen(self.config) or not dodo.is_file():
            return False
        return re.search(rf"^\s*(def\s+)?task_{self.name}\b", dodo.read_text("utf-8", "replace"), re.MULTILINE) is not None

    def execute(self, opt_values: Any, pos_args: list[str]) -> int:
        """Run `act` with the repository around the current folder."""
        return self.guarded(lambda: self.act(repository(Path.cwd()), opt_values, pos_args))

    def guarded(self, call: Callable[[], int]) -> int:
        """The exit code of `call`, with whatever goes wrong in a line."""
        try:
            return call()
        except KeyboardInterrupt:
            return refuse("interrupted", code=INTERRUPTED)
        except (UsageFault, GitFault) as fault:
            return refuse(str(fault))
        except DeclarationError as fault:
            sys.stderr.write(f"{fault}\n")
            return USAGE
        except BrokenPipeError:
            # Whoever read us has seen enough.
            sys.stdout = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115, PTH123
            return 0
        except OSError as error:
            where = f" {error.filename}:" if error.filename else ""
            return refuse(f"{where} {error.strerror or error}".strip(), code=UNWRITTEN)
        except Exception as error:  # noqa: BLE001  the boundary to the person
            from touchgate.edge.faults import internal  # noqa: PLC0415

            return internal(error)

    def act(self, repo: Repository, options: Any, names: list[str]) -> int:
        """The command itself; returns the exit code."""
        raise NotImplementedError

    def declared(self, repo: Repository, options: Any) -> Declared:
        """The change and the lanes, as the options ask."""
        declared = declare(
            repo,
            os.environ,
            base=options.get("base") or None,
            head=options.get("head") or None,
            reserved=self._reserved,
            fetch=wish(options.get("fetch"), os.environ),
        )
        for note in (*declared.judged.notes, *declared.vacant):
            print(note, file=sys.stderr)
        return declared


def split(arguments: list[str]) -> tuple[list[str], list[str]]:
    """What stands before `--` and what behind it."""
    if "--" in arguments:
        at = arguments.index("--")
        return arguments[:at], arguments[at + 1 :]
    return arguments, []


def as_typed(name: str, arguments: list[str]) -> list[str]:
    """The arguments with those that doit took for its own variables (it takes every NAME=VALUE away)."""
    typed = sys.argv[1:]
    if name not in typed:
        return arguments
    typed = typed[typed.index(name) + 1 :]
    kept = [word for word in typed if word.startswith("-") or "=" not in word]
    return typed if kept == arguments else arguments


def refuse(text: str, code: int = USAGE) -> int:
    """One line for a person, and the exit code, by default that for bad usage."""
    sys.stderr.write(f"ERROR: {text}\n")
    return code


def print_json(data: Any) -> None:
    """Sorted where order means nothing, ASCII so that any terminal and any locale can carry it."""
    sys.stdout.write(json.dumps(data, indent=2) + "\n")
