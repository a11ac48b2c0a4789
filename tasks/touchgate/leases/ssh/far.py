"""The far side: takes leases of its own host for somebody who is connected, and gives them back when that one is gone."""

from __future__ import annotations

import os
import select
import signal
import socket
import sys
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Protocol

from touchgate import __version__
from touchgate.leases import clock
from touchgate.leases.engine import LeaseCancelled, LeaseFault, LeaseLost, LeaseTimeout
from touchgate.leases.holder import user_name
from touchgate.leases.model import Want
from touchgate.leases.record import printable
from touchgate.leases.ssh import protocol
from touchgate.leases.ssh.protocol import Garbled, text, whole

if TYPE_CHECKING:
    from collections.abc import Callable

    from touchgate.leases.engine import Grant
    from touchgate.leases.files import FilesEngine

PERSONS = ("reserve", "cancel", "drain", "undrain")


class Site(Protocol):
    """What the far side needs of its host."""

    def engine(self, directory: str, host: str) -> FilesEngine:
        """Its leases, in `directory` ("" its own choice), where it is called `host`."""

    def unfit(self, grant: Grant, cancelled: Callable[[], bool]) -> str:
        """Why the host is not fit for what was granted, "" where it is. cancelled: asked at least four times a second."""


class Gone(Exception):
    """Nobody is connected any more."""


class Talk:
    """Standard input and output. silence: seconds without a sign of life that are borne."""

    def __init__(self, source: int, target: int, silence: float = protocol.SILENCE) -> None:
        self._source, self._target, self._silence = source, target, silence
        self._lines = protocol.Lines()
        self._waiting: list[dict[str, Any]] = []
        self._heard = clock.now()
        self._pulses = 0

    def say(self, event: str, **content: Any) -> None:
        """An answer. Raises `Gone` where nobody hears it."""
        data = protocol.line(event=event, **content)
        try:
            while data:
                data = data[os.write(self._target, data) :]
        except OSError as fault:
            raise Gone from fault

    def request(self) -> dict[str, Any] | None:
        """The next one, None where only a sign of life came. Raises `Gone` at the end of input or after a long silence."""
        if not self._waiting:
            self._read(self._silence)
        return self._waiting.pop(0) if self._waiting else None

    def gone(self) -> bool:
        """Whether nobody is connected any more, without waiting. Answers signs of life, so that a waiter knows of us."""
        self._pulses = 0
        try:
            self._read(0.0)
            if self._pulses:
                self.say("alive")
        except (Gone, Garbled):
            return True
        return False

    def _read(self, seconds: float) -> None:
        if not select.select([self._source], [], [], seconds)[0]:
            if seconds or clock.now() - self._heard > self._silence:
                raise Gone
            return
        data = os.read(self._source, 65536)
        if not data:
            raise Gone
        self._heard = clock.now()
        for one in self._lines.add(data):
            content = protocol.read(one)
            if content is not None:
                self._waiting.append(content)
            self._pulses += not one


def serve(talk: Talk, site: Site) -> None:
    """Greet, then do what is asked for until nobody is connected. Raises nothing but what no code foresaw."""
    with suppress(Gone):
        talk.say("hello", version=__version__, host=socket.gethostname(), user=user_name(os.geteuid()))
        while True:
            request = talk.request()
            if request is not None and not _done(talk, site, request):
                return


def _done(talk: Talk, site: Site, request: dict[str, Any]) -> bool:
    """Do one thing; whether another may follow."""
    do = text(request, "do")
    try:
        engine = site.engine(text(request, "directory"), text(request, "host") or socket.gethostname())
        if do == "acquire":
            _acquire(talk, site, engine, request)
            return False
        if do == "status":
            talk.say("status", status=protocol.of_status(engine.status()))
        elif do in PERSONS:
            talk.say("done", said=_person(engine, do, request))
        else:
            talk.say("refused", why=f"this touchgate ({__version__}) can't '{printable(do, 40)}'")
    except LeaseTimeout as fault:
        talk.say("timeout", why=str(fault))
    except LeaseCancelled as fault:
        talk.say("cancelled", why=str(fault))
    except (LeaseFault, Garbled) as fault:
        talk.say("refused", why=str(fault))
    return True


def _person(engine: FilesEngine, do: str, request: dict[str, Any]) -> str | int:
    if do == "reserve":
        asked = protocol.ask_of(request)
        want = Want(hosts=asked.want.hosts, gpus=asked.want.gpus, among=asked.want.among)
        return engine.reserve(want, asked.seconds or 0.0, asked.what, text(request, "sha") or None)
    if do == "cancel":
        return engine.cancel(whole(request, "number"))
    if do == "drain":
        engine.drain(text(request, "host"), text(request, "why"))
    else:
        engine.undrain(text(request, "host"))
    return ""


def _acquire(talk: Talk, site: Site, engine: FilesEngine, request: dict[str, Any]) -> None:
    asked = protocol.ask_of(request)
    of = printable(text(request, "of"), 200)
    asked = replace(asked, what=f"{asked.what}; {of}" if of else asked.what)
    grant = engine.below(
        asked,
        whole(request, "above", 0),
        on_wait=lambda place: talk.say("waiting", **protocol.of_place(place)),
        cancelled=talk.gone,
    )
    with grant:
        talk.say("looking")
        why = site.unfit(grant, talk.gone)
        if why:
            talk.say("unfit", why=why)
            return
        talk.say(
            "granted",
            token=grant.token,
            since=grant.since,
            gpus=[share.gpu for share in grant.shares if share.gpu is not None],
            where=grant.where,
            notes=list(grant.notes),
        )
        _hold(talk, grant)


def _hold(talk: Talk, grant: Grant) -> None:
    """Until nobody is connected, or it is not ours any more. Each sign of life is a look, each question an answer."""
    while True:
        request = talk.request()
        try:
            grant.check()
        except LeaseLost as fault:
            talk.say("lost", why=str(fault))
            return
        if request is not None and text(request, "do") == "check":
            talk.say("held", number=whole(request, "number"))


def main(site: Site) -> int:
    """On standard input and output, until one of them or the session ends."""

    def hung_up(number: int, _frame: object) -> None:
        for one in (signal.SIGHUP, signal.SIGTERM, signal.SIGINT):
            signal.signal(one, signal.SIG_IGN)
        sys.exit(128 + number)  # what is held is given back on the way

    for number in (signal.SIGHUP, signal.SIGTERM, signal.SIGINT):
        signal.signal(number, hung_up)
    # A greeting of the shell may lack the end of its last line.
    with suppress(OSError):
        os.write(1, b"\n")
    serve(Talk(0, 1), site)
    return 0
