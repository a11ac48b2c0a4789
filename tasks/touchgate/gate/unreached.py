"""Why a remote gave nothing: what git and the program below it (ssh) had said, as one line with the cure."""

from __future__ import annotations

import re

from touchgate.gate.process import GitFault

_ASKED_FOR_A_NAME = (
    "could not read Username",
    "could not read Password",
    "Authentication failed",
    "terminal prompts disabled",
)
_GITS = ("fatal:", "error:", "ERROR:", "remote: fatal", "remote: error")
_SECOND_HAND = re.compile(r"fatal: (Could not read from remote repository|[Tt]he remote end hung up|early EOF)")
"""What git says when the program below it has ended: the cause is what that one said before."""
_IDLE = re.compile(
    r"(remote: )?(Enumerating|Counting|Compressing|Receiving|Resolving|Unpacking|Total)\b|remote:\s*=*$"
    r"|(hint:|warning:|Warning:|debug\d)|From |Please make sure you have the correct access|and the repository exists"
)
"""What tells of no fault: progress, advice, greetings."""


class Refused(GitFault):
    """The server gives no object by its id."""


class NoSuchRef(GitFault):
    """The server has no such ref: its full name."""

    def __init__(self, text: str, ref: str) -> None:
        super().__init__(text)
        self.ref = ref


def fault_of(name: str, said: str) -> GitFault:
    """The fault of a fetch that failed. name: of the remote, in words. said: all that came on standard error."""
    if "couldn't find remote ref" in said:
        ref = said.rpartition("find remote ref ")[2].partition("\n")[0].strip()
        return NoSuchRef(f"{name} has no {ref}", ref)
    if "unadvertised object" in said or "not our ref" in said:
        return Refused(f"{name} does not give a commit by its id, or does not have it")
    if "dumb http transport" in said:
        return GitFault(f"{name} is served as plain files over HTTP (no git server), which gives only whole clones")
    first = _first(said) or "git fetch said nothing"
    if any(words in said for words in _ASKED_FOR_A_NAME):
        return GitFault(f"{name} wants a name and password, and git has none that it takes ({first})")
    return GitFault(f"fetching from {name} failed: {first}")


def given_up(name: str, said: str, limit: float | None, stall: float) -> GitFault:
    """The fault of a fetch that was stopped: after so many seconds in all, or (None) after so many of silence."""
    heard = _causes(_lines(said))
    why = f" ({heard[-1]})" if heard else ""
    what = (
        f"fetching from {name} took longer than {limit:g} s" if limit is not None else f"{name} said nothing for {stall:g} s"
    )
    return GitFault(f"{what}, and was given up{why}; TOUCHGATE_FETCH_SECONDS=N allows more, N seconds in all")


def _lines(said: str) -> list[str]:
    return [line.strip() for line in re.split(r"[\r\n]+", said) if line.strip()]


def _first(said: str) -> str:
    """The line that tells most: the first of git's own, or what the program below it said where git only repeats that."""
    lines = _lines(said)
    at = next((number for number, line in enumerate(lines) if line.startswith(_GITS)), None)
    if at is None:
        return lines[0] if lines else ""
    before = _causes(lines[:at])
    return before[-1] if before and _SECOND_HAND.match(lines[at]) else lines[at]


def _causes(lines: list[str]) -> list[str]:
    return [line for line in lines if not _IDLE.match(line)]
