"""`doit lanes stats`: how often each lane ran, was skipped, and was skipped wrongly, over time."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

from touchgate import places
from touchgate.edge.commands.base import print_json
from touchgate.edge.planning import declare
from touchgate.edge.usage import UsageFault
from touchgate.gate.git import GitFault
from touchgate.gate.located import DeclarationError
from touchgate.reports import rates
from touchgate.results import history
from touchgate.results.store import ResultStore

if TYPE_CHECKING:
    from touchgate.gate.git import Repository


def show(repo: Repository, *, as_json: bool) -> int:
    """Print the statistics of this checkout. Raises UsageFault."""
    store = ResultStore(places.results_dir(os.environ), str(repo.root))
    try:
        runs, lost = history.read(store.own)
    except history.HistoryFault as fault:
        raise UsageFault(str(fault)) from None
    found = rates.add_up(runs, _minutes(repo), lost)
    if as_json:
        print_json(rates.as_data(found))
    else:
        print("\n".join(rates.in_words(found)))
    return 0


def _minutes(repo: Repository) -> dict[str, float]:
    """The targets of the lanes as declared now: what a skip saves where a lane never ran."""
    try:
        declared = declare(repo, os.environ, base="HEAD", head=None)
    except (DeclarationError, GitFault) as fault:
        first = str(fault).partition("\n")[0]
        print(f"note: the lanes can't be read, so lanes that never ran save nothing here: {first}", file=sys.stderr)
        return {}
    return {lane.name: lane.minutes for lane in declared.head.values()}
