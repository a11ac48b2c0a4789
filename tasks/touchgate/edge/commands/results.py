"""`doit results`: what the last run of this checkout came to, with the log of each check and the command to repeat it."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from touchgate import places
from touchgate.edge.commands.base import RepositoryCommand, print_json
from touchgate.edge.options import AS_JSON
from touchgate.edge.usage import UsageFault
from touchgate.outcome import EMULATED
from touchgate.reports.model import repeat
from touchgate.reports.style import printable
from touchgate.results.store import ResultStore

if TYPE_CHECKING:
    from collections.abc import Mapping

    from touchgate.gate.git import Repository


class Results(RepositoryCommand):
    """Reads the store."""

    name = "results"
    doc_purpose = "show the last run: verdicts, logs, and the command that repeats each failure"
    doc_usage = ""
    doc_description = "Results live in TOUCHGATE_RESULTS_DIR, by default below the user's cache folder."
    cmd_options = (AS_JSON,)

    def act(self, repo: Repository, options: Any, names: list[str]) -> int:
        """Print the last run."""
        if names:
            raise UsageFault(f"`doit results` takes no names, and got '{names[0]}'")
        store = ResultStore(places.results_dir(os.environ), str(repo.root))
        last = store.last_run()
        if options["as_json"]:
            print_json(last or {"schema": 1, "checks": []})
            return 0
        print(f"results in {store.directory}")
        try:
            lines = ["no run of this checkout is on record"] if last is None else in_words(last)
        except (KeyError, TypeError, AttributeError):
            lines = ["the record of the last run can't be read; the next run writes a new one"]
        print("\n".join(lines))
        return 0


def in_words(last: Mapping[str, Any]) -> list[str]:
    """A run's result.json for a person. Raises KeyError, TypeError or AttributeError where it is none."""
    lines = [f"last run    base {str(last['base'])[:7]}  head {str(last['head'])[:7]}  exit {last['exit']}"]
    for check in last["checks"]:
        word = "cached" if check["cached"] else check["verdict"] or "never reached"
        word += " (emulated)" if check["device"] == EMULATED else ""
        word += " (shadow)" if check.get("shadow") else ""
        lines.append(f"  {word:<18}  {check['name']}  {printable(check['reason'] or '')}".rstrip())
        if check.get("log"):
            lines.append(f"                 log: {check['log']}")
        if check["verdict"] in ("failed", "error", "timed_out"):
            lines.append(f"                 repeat: {repeat(check['name'], last.get('suite', 'smoke'))}")
    wrong = list(dict.fromkeys(skip["lane"] for skip in last.get("false_skips", [])))
    if wrong:
        lines.append(f"skipped wrongly, as the shadow run found: {', '.join(wrong)}; `doit lanes stats` counts them")
    return lines
