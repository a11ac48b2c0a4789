"""`doit` and `doit run`: decide, take the lease where it must, run what has no valid result, tell.

In a repository that does not choose touchgate this is doit's own `run`, option for option.
"""

from __future__ import annotations

import inspect
import io
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

from doit.cmd_run import Run as DoitRun
from doit.cmdparse import CmdOption, CmdParseError
from doit.exceptions import InvalidCommand, InvalidDodoFile, InvalidTask

from touchgate.edge.loader import TouchgateLoader, adopt
from touchgate.edge.options import RUN, RunOptions, from_params
from touchgate.edge.reporter import TouchgateReporter
from touchgate.gate import change
from touchgate.gate.ahead import importing
from touchgate.gate.git import GitFault

if TYPE_CHECKING:
    from doit.task import Task

    from touchgate.edge.session import Session
    from touchgate.gate.change import Judged

INTERRUPTED = 130
BEFORE = "interrupted before anything ran\n"


class Run(DoitRun):  # type: ignore[misc]  # doit has no types
    """doit's `run`, and where touchgate is chosen: judged, leased, reused, reported."""

    def __init__(self, *, task_loader: Any, config: Any = None, **kwargs: Any) -> None:
        loader, config = adopt(task_loader, config)
        self.touchgate = isinstance(loader, TouchgateLoader)
        self.session: Session | None = None
        self._options: RunOptions | None = None
        super().__init__(task_loader=loader, config=config, **kwargs)

    def get_options(self) -> list[CmdOption]:
        """Doit's options, and ours where touchgate is chosen."""
        options: list[CmdOption] = super().get_options()
        return [*options, *(CmdOption(option) for option in RUN)] if self.touchgate else options

    # -- planning: called by the loader when doit asks it for tasks ---------------------------------------------------

    def plan_run(self, loader: TouchgateLoader, own: list[Task], names: list[str]) -> Session | None:
        """Judge, plan, print the header. None when only the repository's own tasks were named."""
        params = loader.params
        given = params.get("num_process") or 0
        self._options = from_params(params, names, loader.started_in, jobs=given or None)
        own_names = {task.name for task in own}
        selected = names or list(params.get("default_tasks") or ())
        also = needed_lanes(own, [name for name in selected if name in own_names])
        if names and not also and all(name.partition(":")[0] in own_names for name in names):
            return None
        self._options = self._options._replace(also=frozenset(also))
        judged = _judged(loader, self._options)
        from touchgate.edge.running import prepare  # noqa: PLC0415 (by now the other thread is through with it)

        self.session = prepare(loader, self._options, own_names, self._stream(params), judged)
        if not names:
            self.sel_tasks = [*self.session.lanes, *(params.get("default_tasks") or ())]
        # Checks on a GPU wait for their turn inside a doit thread; these must not keep the others from running.
        turns = sum(1 for check in self.session.checks if check.place == "gpu")
        params["num_process"] = self._options.jobs + turns
        return self.session

    def parse_execute(self, in_args: list[str]) -> int:
        """Doit prints every option there is when one is wrong; a person needs the one, and where all are listed."""
        if not self.touchgate:
            code: int = super().parse_execute(in_args)
            return code
        try:
            code = super().parse_execute(in_args)
        except CmdParseError as error:
            from touchgate.edge.commands.base import refuse  # noqa: PLC0415

            return refuse(f"{str(error).partition(' (parsing options')[0].rstrip()}; see `doit help run`")
        except (InvalidCommand, InvalidDodoFile, InvalidTask):
            # doit says these in one line.
            raise
        except KeyboardInterrupt:
            sys.stderr.write(BEFORE)
            return INTERRUPTED
        except Exception as error:
            if self.pdb:
                raise
            from touchgate.edge.faults import internal  # noqa: PLC0415

            return internal(error)
        return code

    def _stream(self, params: Any) -> TextIO:
        """Where the report goes: doit's --output-file, else standard output; nowhere when another reporter speaks."""
        if params.get("reporter") != "touchgate" or sys.stdout is None:
            return io.StringIO()
        outfile = params.get("outfile")
        if isinstance(outfile, str):
            self._file = Path(outfile).open("w", encoding="utf-8")  # noqa: SIM115  open as long as the run
            return self._file
        return sys.stdout

    # -- running ------------------------------------------------------------------------------------------------------

    def execute(self, params: Any, args: list[str]) -> int:
        """Run, and give the exit code that the verdicts ask for."""
        if not self.touchgate:
            code: int = super().execute(params, args)
            return code
        with _signals(self):
            try:
                code = super().execute(params, args)
            except KeyboardInterrupt:
                if self.session is None:
                    sys.stderr.write(BEFORE)
                    return INTERRUPTED
                self.session.interrupt()
                return self._conclude(self.session, None)
            except GitFault as fault:
                sys.stderr.write(f"ERROR: {fault}\n")
                return 3
            finally:
                if self.session is not None:
                    self.session.close_lease()
            return code if self.session is None else self._conclude(self.session, self._reporter_of_own_tasks)

    @staticmethod
    def _conclude(session: Session, own: TouchgateReporter | None) -> int:
        from touchgate.edge.running import conclude  # noqa: PLC0415 (not before git was asked: see _judged)

        return conclude(session, own)

    _reporter_of_own_tasks: TouchgateReporter | None = None
    _file: TextIO | None = None

    def _execute(self, outfile: Any, reporter: Any = "console", **rest: Any) -> int:
        """doit's, with our reporter as an instance: it must know the run."""
        if self.session is not None and reporter == "touchgate":
            outfile = self._file or outfile
            self._reporter_of_own_tasks = reporter = TouchgateReporter(outfile, {}, tell=self._tell)
        code: int = super()._execute(outfile, reporter=reporter, **rest)
        return code

    # doit passes the options that it finds in the signature.
    _execute.__signature__ = inspect.signature(DoitRun._execute)  # type: ignore[attr-defined]  # noqa: SLF001

    def _tell(self, name: str) -> None:
        from touchgate.edge.running import tell  # noqa: PLC0415

        if self.session is not None:
            tell(self.session, name)


def _judged(loader: TouchgateLoader, options: RunOptions) -> Judged | None:
    """The change, asked for while another thread imports what plans the run. None for any trouble: it comes up again."""
    if loader.repository is None:
        return None
    with importing("touchgate.edge.running"), suppress(GitFault):
        return change.resolve(
            loader.repository, base=options.base, head=options.head, environ=options.environ, fetch=options.fetch
        )
    return None


def needed_lanes(own: list[Task], selected: list[str]) -> set[str]:
    """The names before a colon that selected tasks of dodo.py depend on, directly or not, and that are none of its own."""
    by_name = {task.name: task for task in own}
    ahead, seen, outside = list(selected), set(), set()
    while ahead:
        name = ahead.pop()
        if name in seen:
            continue
        seen.add(name)
        task = by_name.get(name)
        if task is None:
            outside.add(name.partition(":")[0])
        else:
            ahead += [*task.task_dep, *task.setup_tasks]
    return outside


@contextmanager
def _signals(run: Run) -> Iterator[None]:
    """SIGTERM and SIGHUP end a run as SIGINT does: what was measured is kept, the lease is closed, the report is written."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)

    def stop(number: int, frame: object) -> None:  # noqa: ARG001  the handler's signature
        for each in numbers:
            signal.signal(each, signal.SIG_IGN)
        if run.session is not None:
            run.session.interrupted = True
        raise KeyboardInterrupt

    # What was ignored stays so: `nohup doit` goes on without its terminal.
    before = {number: signal.signal(number, stop) for number in numbers if signal.getsignal(number) is not signal.SIG_IGN}
    try:
        yield
    finally:
        if run.session is None or not run.session.interrupted:
            # Else the process ends now, and a second Ctrl-C must not change its exit code.
            for number, handler in before.items():
                signal.signal(number, handler)
