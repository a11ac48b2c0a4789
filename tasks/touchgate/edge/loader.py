"""doit's loader: lanes become tasks, beside those of a dodo.py where there is one."""

from __future__ import annotations

import gc
import inspect
import os
import sys
import time
import traceback
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from doit.cmd_base import DodoTaskLoader, opt_cwd, opt_dodo, opt_seek_file
from doit.exceptions import InvalidDodoFile
from doit.loader import get_module

from touchgate import places
from touchgate.edge.usage import UsageFault, repository
from touchgate.gate.model import Refusal

if TYPE_CHECKING:
    from doit.cmd_base import Command
    from doit.task import Task

    from touchgate.edge.session import Session
    from touchgate.gate.git import Repository


USAGE = 3


def _keep_empty_words() -> None:
    """An empty word behind `--` is the command's own; doit would look at its first letter, and end in a traceback."""
    from doit.doit_cmd import DoitMain  # noqa: PLC0415  hardly ever

    taken = DoitMain.process_args

    def process_args(self: DoitMain, words: list[str]) -> list[str]:
        return [kept for word in words for kept in (taken(self, [word]) if word else [word])]

    DoitMain.process_args = process_args


class TouchgateLoader(DodoTaskLoader):  # type: ignore[misc]  # doit has no types
    """Chosen by `loader = "touchgate"` under [tool.doit]. Works with and without a dodo.py."""

    cmd_options = (opt_dodo, opt_cwd, opt_seek_file)

    def __init__(self) -> None:
        super().__init__()
        words = sys.argv[1:]
        if "" in words[: words.index("--") if "--" in words else None]:
            sys.stderr.write("ERROR: a word of the command line is empty; give the option its value, or leave it out\n")
            raise SystemExit(USAGE)
        if "" in words:
            _keep_empty_words()
        # Until checks run, and mostly none do: looking for garbage would take a tenth of the answer's time.
        gc.disable()
        self.started_in = Path.cwd()
        self.began = time.monotonic()
        self.repository: Repository | None = None
        self.params: Any = {}
        self.session: Session | None = None
        """The planned run, once `load_tasks` made one."""

    def setup(self, opt_values: Any) -> None:
        """Find the repository, go to its root, load dodo.py where there is one."""
        self.params = opt_values
        try:
            self.repository = repository(self.started_in)
        except UsageFault as fault:
            raise InvalidDodoFile(str(fault)) from None
        dodo, cwd, seek = (opt_values.get(name) for name in ("dodoFile", "cwdPath", "seek_file"))
        module = None
        try:
            if dodo not in (None, "dodo.py") or cwd or seek:
                module = get_module(dodo or "dodo.py", cwd, seek)
            else:
                os.chdir(self.repository.root)
                module = get_module("dodo.py") if Path("dodo.py").is_file() else None
        except InvalidDodoFile:
            raise
        except Exception as error:  # noqa: BLE001  the repository's own code: whatever it raises is named with its line
            frame = traceback.extract_tb(error.__traceback__)[-1]
            what = f"{type(error).__name__}: {error}"
            raise InvalidDodoFile(f"{dodo or 'dodo.py'} can't be loaded: {frame.filename}:{frame.lineno}: {what}") from None
        os.chdir(self.repository.root)
        self.namespace = dict(inspect.getmembers(module)) if module is not None else {}

    def load_doit_config(self) -> dict[str, Any]:
        """Our defaults, under what the repository's settings and dodo.py say.

        doit's own database is not relied on; it lies outside the checkout, so that a read-only one works.
        """
        if self.repository is None:
            raise InvalidDodoFile("the loader was not set up")
        ours: dict[str, Any] = {"dep_file": str(doit_database(self.repository.root))}
        ours |= {"continue": True, "par_type": "thread", "subtasks": True, "reporter": "touchgate"}
        settings = (self.config or {}).get("GLOBAL", {})
        kept = {key: value for key, value in ours.items() if key not in settings}
        return {**kept, **super().load_doit_config()} if self.namespace else kept

    def lane_names(self) -> set[str]:
        """The lanes of head, and the names that stand for several.

        Asked for only when a task of dodo.py names one that is not planned.
        """
        if self.session is not None:
            lanes = self.session.declared.head
        elif self.repository is None:
            return set()
        else:
            from touchgate.edge.planning import declare  # noqa: PLC0415

            lanes = declare(self.repository, os.environ, base=None, head=None, reserved=self.cmd_names).head
        return {*lanes, *(lane.each.group for lane in lanes.values() if lane.each)}

    def load_tasks(self, cmd: Command, pos_args: list[str]) -> list[Task]:
        """The repository's own tasks, and the lanes: planned for `run`, all of them for any other command."""
        own: list[Task] = list(super().load_tasks(cmd, pos_args)) if self.namespace else []
        if self.repository is None:
            raise InvalidDodoFile("the loader was not set up")
        try:
            plan_run = getattr(cmd, "plan_run", None)
            if plan_run is not None:
                self.session = plan_run(self, own, pos_args)
                if self.session is None or self.session.checks:
                    gc.enable()
                from touchgate.edge import tasks  # noqa: PLC0415  not before the run asked git: see its `_judged`

                planned = tasks.planned(self.session) if self.session is not None else []
                return own + planned + tasks.stand_ins(own, planned, self.lane_names)
            from touchgate.edge import tasks  # noqa: PLC0415
            from touchgate.edge.planning import declare  # noqa: PLC0415

            declared = declare(self.repository, os.environ, base=None, head=None, reserved=self.cmd_names)
            return own + tasks.listed(declared.head, self.repository.root)
        except UsageFault as fault:
            raise InvalidDodoFile(str(fault)) from None
        except Refusal as fault:
            raise InvalidDodoFile(f"the lanes as declared can't be used\n{fault}") from None


def _refuse_settings(root: Path, error: Exception) -> NoReturn:
    """Settings that can't be read. In the root itself doit reads them before it asks anybody, and its words are its own."""
    where = f"{root}/doit.cfg" if type(error).__module__ == "configparser" else f"{root}/pyproject.toml"
    text, _, at = " ".join(str(error).split("\n")).partition(" (at line ")
    line, _, column = at.rstrip(")").partition(", column ")
    place = f":{line}:{column}" if column else ""
    sys.stderr.write(
        f"ERROR: {where}{place}: the settings can't be read: {text or 'a value is of no shape that doit knows'}\n"
    )
    raise SystemExit(USAGE)


def doit_database(root: Path) -> Path:
    """One database a checkout, below the cache folder."""
    import hashlib  # noqa: PLC0415

    digest = hashlib.sha256(os.fsencode(root)).hexdigest()[:16]
    folder = places.cache_dir() / "doit"
    folder.mkdir(parents=True, exist_ok=True)
    return folder / digest


def chosen(settings: Any) -> bool:
    """Whether a repository's settings choose this loader."""
    return bool(settings) and settings.get("GLOBAL", {}).get("loader") == "touchgate"


OUR_COMMANDS = ("lanes", "lease", "results", "touched", "vectors")
"""What doit gains: names that its tasks keep in every project that does not choose touchgate."""


def adopt(task_loader: Any, config: Any) -> tuple[Any, Any]:
    """`_adopt`, and in a project that does not choose touchgate our commands' names are free for its tasks."""
    loader, config = _adopt(task_loader, config)
    if not isinstance(loader, TouchgateLoader):
        loader.cmd_names = [name for name in getattr(loader, "cmd_names", ()) if name not in OUR_COMMANDS]
    return loader, config


def _adopt(task_loader: Any, config: Any) -> tuple[Any, Any]:
    """Make `doit` work from a subfolder: doit reads the settings of the current folder only.

    Where it found none there and no dodo.py, the settings at the repository's root are looked at; if they choose touchgate,
    its loader is used with them. In every other case nothing changes.
    """
    if type(task_loader) is not DodoTaskLoader or chosen(config) or Path("dodo.py").exists():
        return task_loader, config
    if "DOIT_FILE" in os.environ or any(a.startswith(("-f", "--file", "-d", "--dir")) for a in sys.argv[1:]):
        return task_loader, config
    from touchgate.gate.git import find_root  # noqa: PLC0415

    root = find_root(Path.cwd())
    settings_file = root / "pyproject.toml" if root is not None else None
    if root is None or settings_file is None or root == Path.cwd() or not settings_file.is_file():
        return task_loader, config
    if b"touchgate" not in settings_file.read_bytes():
        return task_loader, config
    from doit.doit_cmd import DoitConfig  # noqa: PLC0415

    before = Path.cwd()
    loader = TouchgateLoader()
    try:
        os.chdir(root)
        settings = DoitConfig()
        settings.loads(["pyproject.toml", *(["doit.cfg"] if Path("doit.cfg").exists() else [])])
    except Exception as error:  # noqa: BLE001  a TOML reader's, an INI reader's, or doit's own for a value of another shape
        _refuse_settings(root, error)
    finally:
        os.chdir(before)
    if not chosen(settings.as_dict()):
        return task_loader, config
    loader.config = settings.as_dict()
    loader.cmd_names = getattr(task_loader, "cmd_names", [])
    return loader, settings.as_dict()
