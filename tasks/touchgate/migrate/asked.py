"""What the command line says about gate jobs, found in the workflows of a run: which output of which job it means.

An output's name means something in its own workflow only. So a bare name counts where a single gate job has it, and what
is not found is an error before anything is changed.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import TYPE_CHECKING

from touchgate.gate.asked import UsageFault
from touchgate.gate.located import did_you_mean, words
from touchgate.gate.meant import called, is_meant
from touchgate.migrate import deciders
from touchgate.migrate.gates import Asked
from touchgate.migrate.tree import data

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from touchgate.gate.model import Lane
    from touchgate.migrate.jobs import Workflow


PLACEHOLDER = "LANE"
"""What hints and help say for a lane's name."""
_LANES = r"!?[\w*{][\w.*{}-]*"
"""A lane, a group of them (whose name may hold `{name}`), or a pattern."""


@dataclass(frozen=True)
class Word:
    """One option as it was written. name: an output, or a job; job: that of the output, "" for any; lane: with its `!`."""

    option: str
    text: str
    file: str
    job: str
    name: str
    lane: str = ""

    def __str__(self) -> str:
        return f"{self.option} {self.text}"


@dataclass(frozen=True)
class Words:
    """All that was said."""

    lanes: tuple[Word, ...] = ()
    paths: tuple[Word, ...] = ()
    gates: tuple[Word, ...] = ()
    windows: bool = False


def parsed(lanes: Sequence[str], paths: Sequence[str], gates: Sequence[str], *, windows: bool) -> Words:
    """The options of a command line. Raises UsageFault for what has not their form."""
    return Words(
        tuple(_lane(text) for text in lanes),
        tuple(_output("--paths", text, text) for text in paths),
        tuple(Word("--gate", text, _file_of(text)[0], "", _file_of(text)[1]) for text in gates),
        windows,
    )


def _lane(text: str) -> Word:
    output, sign, lane = text.rpartition("=")
    if not sign or not output or not re.fullmatch(_LANES, lane):
        raise UsageFault(f"--lane {text!r} is not FILE:OUTPUT=LANE")
    return _output("--lane", text, output, lane)


def _output(option: str, text: str, output: str, lane: str = "") -> Word:
    file, name = _file_of(output)
    job, _, name = name.rpartition(".")
    return Word(option, text, file, job, name, lane)


def _file_of(text: str) -> tuple[str, str]:
    file, _, rest = text.rpartition(":")
    return file.removeprefix("./"), rest


def resolved(said: Words, workflows: Mapping[str, Workflow]) -> dict[str, Asked]:
    """What is said about each workflow, by its path.

    Raises UsageFault for a file, job or output that is not there, and for one that is there more than once.
    """
    gates: dict[str, set[str]] = {file: set() for file in workflows}
    for word in said.gates:
        here = _files(word, workflows)
        found = [(file, job.id) for file in here if (job := workflows[file].job(word.name)) is not None]
        if found or not _already(word, here, workflows):
            names = [name for file in here for name in workflows[file].jobs]
            file, job_id = _one(word, found, "a job", names, word.name)
            gates[file].add(job_id)
    lanes: dict[str, dict[str, str]] = {file: {} for file in workflows}
    paths: dict[str, set[str]] = {file: set() for file in workflows}
    for word in said.lanes + said.paths:
        target = _target(word, workflows, gates)
        if target is None:
            continue
        file, output = target
        before = "--paths" if output in paths[file] else lanes[file].get(output)
        if before is not None and before != (word.lane or "--paths"):
            raise UsageFault(f"{word}: '{output}' of {file} is said to mean something else as well")
        if word.lane:
            lanes[file][output] = word.lane
        elif not deciders.has_paths(workflows[file]):
            raise UsageFault(f"{word}: {file} has no `paths:` or `paths-ignore:`, so every change would run everything")
        else:
            paths[file].add(output)
    return {file: Asked(lanes[file], frozenset(paths[file]), frozenset(gates[file]), said.windows) for file in workflows}


def _files(word: Word, workflows: Mapping[str, Workflow]) -> list[str]:
    """The workflows that an option speaks of: all, or the one that it names."""
    if not word.file:
        return list(workflows)
    found = [file for file in workflows if file == word.file]
    found = found or [file for file in workflows if file.endswith(f"/{word.file}") or word.file.endswith(f"/{file}")]
    if not found:
        names = [PurePosixPath(file).name for file in workflows]
        raise UsageFault(f"{word}: no workflow here is called '{word.file}'; {_near(word.file, [*names, *workflows], names)}")
    if len(found) > 1:
        raise UsageFault(f"{word}: '{word.file}' may be {words(found)}; write the whole path")
    return found


def _target(word: Word, workflows: Mapping[str, Workflow], gates: Mapping[str, set[str]]) -> tuple[str, str] | None:
    """The file and "job.output" that an option means; None where that has been taken out before."""
    here = _files(word, workflows)
    there = [
        (file, workflows[file].jobs[job], output)
        for file in here
        for job in deciders.shaped(workflows[file], frozenset(gates[file]))
        for output in deciders.outputs_of(workflows[file], workflows[file].jobs[job])
    ]
    found = [
        (file, f"{job.id}.{output}")
        for file, job, output in there
        if output.lower() == word.name.lower() and word.job.lower() in ("", job.id.lower())
    ]
    if not found and _already(word, here, workflows):
        return None
    wanted = f"{word.job}.{word.name}" if word.job else word.name
    names = [f"{job.id}.{output}" if word.job else output for _, job, output in there]
    return _one(word, found, "a gate output", names, wanted)


def _one(word: Word, found: list[tuple[str, str]], what: str, names: list[str], wanted: str) -> tuple[str, str]:
    """The only thing that was found. names: all that there are."""
    if not found:
        where = f"{word.file} has" if word.file else "the workflows here have"
        raise UsageFault(f"{word}: {where} not {what} '{wanted}'; {_near(wanted, names, names)}")
    if len(found) == 1:
        return found[0]
    end = f"={word.lane}" if word.lane else ""
    files = list(dict.fromkeys(file for file, _ in found))
    short = [PurePosixPath(file).name for file in files]
    of_jobs = len(files) < len(found)
    forms = [
        f"{word.option} {file if short.count(PurePosixPath(file).name) > 1 else PurePosixPath(file).name}:"
        f"{name if of_jobs else wanted}{end}"
        for file, name in found
    ]
    places = words(f"'{name.partition('.')[0]}' of {file}" for file, name in found) if of_jobs else words(files)
    message = f"{what} '{wanted}' is there more than once, in {places}, and need not mean the same"
    raise UsageFault(f"{word}: {message}; write those that are meant: {' '.join(forms)}")


def _near(wrong: str, close: Iterable[str], known: Iterable[str]) -> str:
    """What may have been meant, and what there is."""
    hint = did_you_mean(wrong, close)
    names = sorted(set(known))
    return hint or (f"there is {words(names)}" if names else "there is none")


def _already(word: Word, files: Iterable[str], workflows: Mapping[str, Workflow]) -> bool:
    """Whether an earlier run may have taken out what an option speaks of: a step asks touchgate for it."""
    for file in files:
        for job in workflows[file].jobs.values():
            for step in job.steps:
                given = data(step.get("with")) if step.get("with") is not None else {}
                texts = {key: value[0] for key, value in given.items()} if isinstance(given, dict) else {}
                asks = texts.get("lane", "").split() if word.lane else [texts.get("workflow", "")]
                wanted = word.lane.removeprefix("!") or file
                if deciders.asks_touchgate(step) and (word.option == "--gate" or wanted in asks):
                    return True
    return False


def refuse_unknown(said: Words, known: Iterable[Lane], new: Iterable[str]) -> None:
    """Raise UsageFault for a lane that is not there: every job would fail that asks for it. new: names that come with it.

    What a group of lanes is called means all of them, and so does a pattern with `*`.
    """
    lanes, added = list(known), set(new)
    names = {name for lane in lanes for name in called(lane)} | added
    for word in said.lanes:
        name = word.lane.removeprefix("!")
        if name in added or any(is_meant(lane, name) for lane in lanes):
            continue
        if name == PLACEHOLDER:
            there = (
                f"there is {words(sorted(names))}" if names else "none is declared yet: `doit lanes init` writes a first one"
            )
            raise UsageFault(f"{word}: {PLACEHOLDER} stands for the name of a lane of yours; {there}")
        nothing = f"no lane matches '{name}'" if "*" in name else f"no lane '{name}' is declared"
        raise UsageFault(f"{word}: {nothing}; {_near(name, names, names)}")
