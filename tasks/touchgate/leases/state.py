"""The queue of one host as a value: its file's content, and what a turn of the scheduler makes of it. Touches no file.

Shares are of one host, which runs may call by different names (a container has its own), so no name is kept here.
"""

from __future__ import annotations

import json
from dataclasses import MISSING, dataclass, field, fields, replace
from typing import TYPE_CHECKING, Any

from touchgate.leases.model import Holding, Host, Priority, Request, Share, Want
from touchgate.leases.schedule import schedule

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from touchgate.leases.model import Decision

SCHEMA = 1
HOST = "this host"
"""What the one host is called in here, and in reasons."""
WAITING, HELD, REFUSED, LATE, CANCELLED = "waiting", "held", "refused", "late", "cancelled"
_PRIORITIES = frozenset(map(int, Priority))
STATES = (WAITING, HELD, REFUSED, LATE, CANCELLED)
OVER = (REFUSED, LATE, CANCELLED)
"""Those of which the run that asked has still to hear."""
PRINTABLE = 500


class NewerState(Exception):
    """The file is of a touchgate that came after this one."""


@dataclass(eq=True)
class Entry:
    """A request, and once it is granted the holding that it became.

    Never changed, and not frozen: hundreds are made at every look, and a frozen one takes four times as long.

    at, deadline, since, until, after: seconds since boot. asked, granted: ISO 8601, UTC. until_wall: of a reservation, seconds
    since 1970, for the time after a boot. started, namespace: which process `pid` is. whole, gpus: what is held. watch: whose
    end its waiter must be told of. asleep: it was granted and its run did not take it; passed over until that looks. taken:
    its run was seen to have the lock. after: it is granted nothing before, and keeps its place: the host was not fit for it.
    """

    id: int
    user: str
    uid: int
    at: float
    asked: str
    what: str = ""
    url: str | None = None
    pid: int | None = None
    started: str = ""
    namespace: str = ""
    hosts: int = 0
    wants: int = 0
    among: tuple[str, ...] = ()
    priority: int = int(Priority.CI)
    seconds: float | None = None
    deadline: float | None = None
    reserves: bool = False
    sha: str | None = None
    state: str = WAITING
    why: str = ""
    watch: tuple[int, ...] = ()
    asleep: bool = False
    whole: bool = False
    gpus: tuple[str, ...] = ()
    token: int = 0
    since: float = 0.0
    granted: str = ""
    until: float | None = None
    until_wall: float | None = None
    within: int | None = None
    taken: bool = False
    after: float | None = None

    @property
    def want(self) -> Want:
        """What is asked for."""
        return Want(hosts=self.hosts, gpus=self.wants, among=self.among)

    @property
    def shares(self) -> tuple[Share, ...]:
        """What is held, () while it waits."""
        return (Share(HOST),) if self.whole else tuple(Share(HOST, gpu) for gpu in self.gpus)

    @property
    def runs(self) -> bool:
        """Whether a process stands behind it, whose end is its own."""
        return not self.reserves

    def but(self, **values: Any) -> Entry:
        """A copy with other values: `dataclasses.replace`, at a tenth of its cost."""
        assert values.keys() <= _TYPES.keys()  # noqa: S101 - a slip of this program
        copy = object.__new__(Entry)
        copy.__dict__.update(self.__dict__)
        copy.__dict__.pop(_JSON, None)
        copy.__dict__.update(values)
        return copy

    def waiting(self) -> Entry:
        """The same request as if it had just asked, with its old place."""
        return self.but(state=WAITING, watch=(), asleep=False, whole=False, gpus=(), token=0, taken=False, within=None)

    def request(self) -> Request:
        """As the scheduler takes it."""
        return Request(
            self.id,
            self.want,
            self.user,
            Priority(self.priority),
            self.seconds,
            self.deadline,
            reserves=self.reserves,
            after=self.after,
        )

    def holding(self) -> Holding:
        """As the scheduler takes it."""
        return Holding(self.id, self.shares, self.user, self.since, self.seconds, self.until, self.within)

    def to_json(self) -> dict[str, Any]:
        """Only what is not the default, so that a queue of hundreds stays short."""
        found: dict[str, Any] | None = self.__dict__.get(_JSON)
        if found is None:
            found = {name: value for name, default in _DEFAULTS if (value := getattr(self, name)) != default}
            self.__dict__[_JSON] = found
        return found


_JSON = "json"
"""Where an entry keeps its JSON, from which it came or which was made of it before."""
_DEFAULTS = tuple((one.name, None if one.default is MISSING else one.default) for one in fields(Entry))
_KINDS: dict[str, tuple[type, ...]] = {
    "int": (int,),
    "float": (float, int),
    "str": (str,),
    "bool": (bool,),
    "str | None": (str, type(None)),
    "int | None": (int, type(None)),
    "float | None": (float, int, type(None)),
    "tuple[str, ...]": (list,),
    "tuple[int, ...]": (list,),
}
_TYPES = {one.name: _KINDS[str(one.type)] for one in fields(Entry)}
_ITEMS: dict[str, type] = {"among": str, "gpus": str, "watch": int}


def entry_of(raw: Any) -> Entry:
    """An entry from its JSON. Raises ValueError."""
    if not isinstance(raw, dict):
        raise ValueError("not an entry")  # noqa: TRY004 - it is a file that is wrong, not an argument
    values: dict[str, Any] = {}
    for name, value in raw.items():
        if type(value) not in _TYPES.get(name, ()):
            raise ValueError(f"{name} is not what it should be")
        if name in _ITEMS:
            if any(type(item) is not _ITEMS[name] for item in value):
                raise ValueError(f"{name} is not what it should be")
            values[name] = tuple(value)
        else:
            values[name] = value
    try:
        entry = Entry(**values)
    except TypeError as fault:
        raise ValueError(str(fault)) from fault
    means = min(entry.hosts, entry.wants) == 0 < max(entry.hosts, entry.wants)
    if entry.id < 1 or entry.state not in STATES or not means or entry.priority not in _PRIORITIES:
        raise ValueError("an entry that can't be")
    if entry.state == HELD and not entry.whole and not entry.gpus:
        raise ValueError("a holder of nothing")
    entry.__dict__[_JSON] = raw
    return entry


@dataclass(frozen=True)
class State:
    """All of the file. seq: grows with every write; wakes: whom the writer was about to wake. drained: why, "" where not."""

    boot: str
    entries: dict[int, Entry] = field(default_factory=dict)
    next: int = 1
    token: int = 0
    seq: int = 0
    wakes: tuple[int, ...] = ()
    gpus: tuple[str, ...] = ()
    drained: str = ""

    def host(self) -> Host:
        """As the scheduler takes it."""
        return Host(HOST, self.gpus, self.drained)

    def requests(self) -> list[Request]:
        """Those that wait and can be granted."""
        return [one.request() for one in self.entries.values() if one.state == WAITING and not one.asleep]

    def holdings(self) -> list[Holding]:
        """Those that have something."""
        return [one.holding() for one in self.entries.values() if one.state == HELD]

    def decide(self, now: float) -> Decision:
        """What the scheduler says of it."""
        return schedule([self.host()], self.requests(), self.holdings(), now)

    def put(self, entry: Entry) -> State:
        """With an entry added or replaced."""
        return replace(self, entries={**self.entries, entry.id: entry}, next=max(self.next, entry.id + 1))

    def without(self, ids: Iterable[int]) -> State:
        """Without some entries."""
        gone = set(ids)
        return replace(self, entries={number: one for number, one in self.entries.items() if number not in gone})


def dump(state: State) -> bytes:
    """The file's content."""
    return json.dumps(
        {
            "schema": SCHEMA,
            "boot": state.boot,
            "seq": state.seq,
            "next": state.next,
            "token": state.token,
            "wakes": state.wakes,
            "gpus": state.gpus,
            "drained": state.drained,
            "entries": [entry.to_json() for entry in state.entries.values()],
        },
        separators=(",", ":"),
    ).encode("ascii")


def parse(content: bytes) -> State:
    """The state of a file's content. Raises `NewerState`, and ValueError for what is torn or not ours."""
    try:
        raw = json.loads(content)
    except (ValueError, RecursionError) as fault:
        raise ValueError("not JSON") from fault
    if not isinstance(raw, dict) or type(raw.get("schema")) is not int:
        raise ValueError("not a queue")
    if raw["schema"] > SCHEMA:
        raise NewerState(str(raw["schema"]))
    entries = raw.get("entries")
    numbers = [raw.get(name) for name in ("seq", "next", "token")]
    words = [raw.get(name) for name in ("boot", "drained")]
    lists = [raw.get(name) for name in ("wakes", "gpus")]
    if not isinstance(entries, list) or any(type(number) is not int for number in numbers):
        raise ValueError("not a queue")
    if any(type(word) is not str for word in words) or any(type(one) is not list for one in lists):
        raise ValueError("not a queue")
    if any(type(one) is not int for one in raw["wakes"]) or any(type(one) is not str for one in raw["gpus"]):
        raise ValueError("not a queue")
    listed = [entry_of(entry) for entry in entries]
    return State(
        boot=raw["boot"],
        entries={entry.id: entry for entry in listed},
        next=max([raw["next"], *(entry.id + 1 for entry in listed)]),
        token=raw["token"],
        seq=raw["seq"],
        wakes=tuple(raw["wakes"]),
        gpus=tuple(raw["gpus"]),
        drained=raw["drained"],
    )


def own_of(content: bytes, number: int) -> Entry | None:
    """One entry of a file's content, without making the others; None where it is not there, or all has to be read."""
    try:
        raw = json.loads(content)
        found = [one for one in raw["entries"] if one["id"] == number] if raw["schema"] == SCHEMA else []
        return entry_of(found[0]) if found else None
    except (ValueError, RecursionError, LookupError, TypeError):
        return None


def after_boot(state: State, boot: str, now: float, wall: float) -> State:
    """What is left of an earlier boot's state: no process of it lives, a reservation holds for what is left of its time.

    So is one whose times lie ahead of `now`, where boots have no name.
    """
    ahead = not boot and any(max(one.at, one.since) > now + 1 for one in state.entries.values())
    if state.boot == boot and not ahead:
        return state
    kept = {}
    for one in state.entries.values():
        if not one.reserves:
            continue
        if one.state == HELD:
            left = min((one.until_wall or 0.0) - wall, one.seconds or 0.0)
            kept[one.id] = replace(one, at=now, since=now, until=now + max(left, 0.0))
        elif one.state == WAITING:
            kept[one.id] = replace(one, at=now, watch=())
    return replace(state, boot=boot, entries=kept, gpus=(), wakes=())


@dataclass(frozen=True)
class Event:
    """For the log. kind: asked, granted, released, died, ended, refused, cancelled, reserved, drained ..."""

    kind: str
    entry: Entry | None
    words: str = ""


@dataclass(frozen=True)
class Turn:
    """What a turn made. state.wakes: whom to wake now. changed: whether there is anything to write."""

    state: State
    events: tuple[Event, ...]
    decision: Decision


def turn(
    state: State, now: float, granted: str, wall: float, alive: Callable[[Entry], bool], new_token: Callable[[int], int]
) -> Turn:
    """Drop the holders that are dead, grant what fits, and say whom to wake.

    granted, wall: now, for people and after a boot. alive: asked of holders, and of whoever is to be granted something.
    new_token: one that is larger than the given one. state.wakes: whom a change wants woken whatever the scheduler says.
    """
    entries = dict(state.entries)
    events: list[Event] = []

    def drop(numbers: Iterable[int], kind: str, words: str) -> None:
        events.extend(Event(kind, entries.pop(number), words) for number in numbers)

    gone = [one for one in state.entries.values() if one.runs and one.state != WAITING and not alive(one)]
    drop([one.id for one in gone if one.state == HELD], "died", "")
    drop([one.id for one in gone if one.state in OVER], "died", "before it heard that it was refused")
    while True:
        decision = replace(state, entries=entries).decide(now)
        dead = [one.id for one in decision.granted if entries[one.id].runs and not alive(entries[one.id])]
        if not dead:
            break
        drop(dead, "died", "while it waited")
    drop(decision.ended, "ended", "its time is over")
    token = state.token
    for one in decision.granted:
        if entries[one.id].runs:
            token = new_token(token)
        entries[one.id] = hold(entries[one.id], one.shares, token, now, granted, wall, one.within)
        events.append(Event("granted", entries[one.id]))
    told = [one.id for one in decision.granted] + [one.id for one in decision.refused]
    wakes = {*state.wakes, *(number for number in told if entries[number].runs)}
    for refusal in decision.refused:
        before = entries.pop(refusal.id)
        late = before.deadline is not None and before.deadline <= now
        after = before.but(state=LATE if late else REFUSED, why=refusal.why, watch=())
        events.append(Event("refused", after, refusal.why))
        if before.runs:
            entries[refusal.id] = after
    watches = {waiting.id: waiting.watch for waiting in decision.waiting}
    for number in watches:
        before = entries[number]
        watch = _with_an_end(number, watches, entries)
        if before.watch != watch:
            entries[number] = before.but(watch=watch)
            wakes.add(number)  # a reservation has nobody to be woken, and that is no harm
    return Turn(replace(state, entries=entries, token=token, wakes=tuple(sorted(wakes))), tuple(events), decision)


def _with_an_end(number: int, watches: Mapping[int, tuple[int, ...]], entries: Mapping[int, Entry]) -> tuple[int, ...]:
    """Whom a waiter watches. A reservation that waits has no process that could look: whom it waits for stands for it."""
    found: dict[int, None] = {}
    for watched in watches[number]:
        waits = watched in watches and not entries[watched].runs
        found.update(dict.fromkeys(_with_an_end(watched, watches, entries) if waits else (watched,)))
    return tuple(found)


def hold(
    entry: Entry, shares: Iterable[Share], token: int, now: float, granted: str, wall: float, within: int | None = None
) -> Entry:
    """A request that has what it asked for. now, wall, granted: since when, in three forms."""
    seconds = entry.seconds or 0.0
    listed = tuple(shares)
    return entry.but(
        state=HELD,
        watch=(),
        whole=any(share.gpu is None for share in listed),
        gpus=tuple(share.gpu for share in listed if share.gpu is not None),
        token=token if entry.runs else 0,
        since=now,
        granted=granted,
        until=now + seconds if entry.reserves else None,
        until_wall=wall + seconds if entry.reserves else None,
        within=within,
        taken=False,
        after=None,
    )
