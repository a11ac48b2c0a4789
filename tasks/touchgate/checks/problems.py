"""What an oracle file says about its cases: asked for, checked, and kept where the file's own code can't reach it.

Whatever is wrong becomes an `OracleFault` that names the case; `blamed` finds the line of the file, where one took part.
"""

from __future__ import annotations

import operator
import os
import traceback
import zlib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from numbers import Real
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from touchgate.checks import numerics
from touchgate.checks.cases import Array, Bound, Case, Launch, Oracle, OracleFault
from touchgate.checks.oracles import oracle_files
from touchgate.devices import Unavailable

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from touchgate.checks.cases import Placed

PLACES = ("gpu", "emulated")

T = TypeVar("T")


@dataclass(frozen=True)
class Problem:
    """A case with one seed's inputs and what they must give. The file's functions have seen copies only."""

    arrays: tuple[Array, ...]
    outputs: Mapping[str, NDArray[Any]]
    bounds: Mapping[str, Bound]


def ask(about: str, function: Callable[..., T], *arguments: object) -> T:
    """Call a function of the oracle file. All that it raises becomes an `OracleFault`, `Unavailable` excepted.

    about: what its message begins with. Leaving counts as raising: a check that ends with its oracle's sys.exit(0)
    has shown nothing.
    """
    try:
        return function(*arguments)
    except Unavailable:
        raise
    except OracleFault as fault:
        raise OracleFault(f"{about}{fault}") from fault
    except BaseException as error:
        traceback.print_exc()
        text = (str(error.msg) if isinstance(error, SyntaxError) else str(error)).partition("\n")[0]
        raise OracleFault(f"{about}{type(error).__name__}{text and ': '}{text}") from error


def blamed(error: BaseException | None, target: str, root: Path) -> str:
    """file:line of the deepest frame in the oracle file or what it imports relatively; without one just `target`."""
    base = root.absolute()
    known = {os.path.normpath(base / file): file for file in oracle_files(target, root)}
    places: list[tuple[str, int | None]] = []
    if error is not None:
        places = [(frame.filename, frame.lineno) for frame in traceback.extract_tb(error.__traceback__)]
    if isinstance(error, SyntaxError):
        places.append((error.filename or "", error.lineno))
    for file, line in reversed(places):
        if os.path.normpath(file) in known and line is not None:
            return f"{known[os.path.normpath(file)]}:{line}"
    return target


def chosen_cases(oracle: Oracle, place: str, *, small: bool) -> list[Case]:
    """The cases that run at `place`; `small`: only those marked so. Raises `OracleFault`, also where none is left."""
    cases = ask("cases: ", lambda: list(oracle.cases()))
    names: set[str] = set()
    for case in cases:
        if not isinstance(case, Case):
            raise OracleFault(f"cases gives {_what(case)}; wanted are Case(...)")
        if case.dtype not in numerics.FORMATS:
            raise OracleFault(f"case {case.name!r}: dtype {case.dtype!r} is none of {', '.join(numerics.FORMATS)}")
        if isinstance(case.places, str) or not set(case.places) <= set(PLACES):
            raise OracleFault(f"case {case.name!r}: places {case.places!r}: wanted is a tuple out of {', '.join(PLACES)}")
        if case.name in names:
            raise OracleFault(f"two cases are named {case.name!r}")
        names.add(case.name)
    chosen = [case for case in cases if place in case.places and (case.small or not small)]
    if not chosen:
        what = "small case" if small else "case"
        raise OracleFault(f"it has no {what} for the place '{place}'; nothing ran")
    return chosen


def posed(oracle: Oracle, case: Case, seed: int) -> Problem:
    """Ask for a case's arrays, answers and bounds. Raises `OracleFault`."""
    about = f"case {case.name!r}: "
    random = np.random.default_rng([seed, zlib.crc32(case.name.encode())])
    return solved(oracle, case, _arrays(about, ask(about, lambda: list(oracle.arrays(case, random)))), about)


def solved(oracle: Oracle, case: Case, arrays: tuple[Array, ...], about: str) -> Problem:
    """Ask for the answers and bounds of a case's arrays. about: what a message begins with. Raises `OracleFault`."""
    wanted = {array.name: array for array in arrays if array.role == "out"}
    if not wanted:
        raise OracleFault(f"{about.removesuffix(': ')} has no output")
    answers = _named(about, "oracle", ask(about, oracle.oracle, case, _inputs(arrays)), wanted)
    outputs = {name: _answer(f"{about}{name}: ", answers[name], array) for name, array in wanted.items()}
    shown = {name: _read_only(answer) for name, answer in outputs.items()}
    limits = _named(about, "bound", ask(about, oracle.bound, case, _inputs(arrays), shown), wanted)
    return Problem(arrays, outputs, {name: _bound(f"{about}{name}: ", limits[name]) for name in wanted})


def launches(oracle: Oracle, case: Case, placed: Mapping[str, Placed], threads: int) -> list[Launch]:
    """Ask what to launch. Raises `OracleFault`."""
    about = f"case {case.name!r}: "
    found = []
    for launch in ask(about, lambda: list(oracle.launch(case, placed, threads))):
        if not isinstance(launch, Launch) or not isinstance(launch.kernel, str):
            raise OracleFault(f"{about}launch gives {_what(launch)}; wanted are Launch(name, ...)")
        try:
            grid, block = (tuple(operator.index(size) for size in sizes) for sizes in (launch.grid, launch.block))
            shared, arguments = operator.index(launch.shared), list(launch.arguments)
            x, y, z = grid
            u, v, w = block
        except (TypeError, ValueError):
            raise OracleFault(
                f"{about}launch of {launch.kernel!r}: grid {launch.grid}, block {launch.block}, shared {launch.shared}: "
                "wanted are three whole numbers, three, and one"
            ) from None
        found.append(Launch(launch.kernel, (x, y, z), (u, v, w), arguments, shared))
    return found


def _what(found: object) -> str:
    """An object's type, with an article."""
    name = type(found).__name__
    return f"{'an' if name[:1].lower() in 'aeiou' else 'a'} {name}"


def _read_only(data: NDArray[Any]) -> NDArray[Any]:
    copy: NDArray[Any] = data.copy()
    copy.setflags(write=False)
    return copy


def _inputs(arrays: Iterable[Array]) -> dict[str, NDArray[Any]]:
    return {array.name: _read_only(array.data) for array in arrays if array.data is not None}


def _arrays(about: str, found: list[Array]) -> tuple[Array, ...]:
    """Copies: the file may keep what it made, and change it later."""
    names: set[str] = set()
    copies = []
    for array in found:
        if not isinstance(array, Array):
            raise OracleFault(f"{about}arrays gives {_what(array)}; wanted are given(...), wanted(...), scratch(...)")
        if array.name in names:
            raise OracleFault(f"{about}two arrays are named {array.name!r}")
        names.add(array.name)
        if not all(isinstance(size, (int, np.integer)) and size >= 0 for size in array.shape):
            raise OracleFault(f"{about}array {array.name!r}: shape {array.shape}: wanted are whole numbers, 0 or more")
        data = None if array.data is None else np.array(array.data, order="C", subok=False)
        copies.append(replace(array, shape=tuple(int(size) for size in array.shape), data=data))
    return tuple(copies)


def _named(about: str, function: str, found: object, wanted: Iterable[str]) -> Mapping[str, Any]:
    if not isinstance(found, Mapping):
        raise OracleFault(f"{about}{function} gives {_what(found)}; wanted is a dict with an entry for each output")
    if set(found) != set(wanted):
        given = sorted(map(str, found))
        raise OracleFault(f"{about}{function} gives {given}, the outputs are {sorted(wanted)}")
    return found


def _answer(about: str, found: object, array: Array) -> NDArray[Any]:
    """A copy of an answer that can be compared without loss."""
    form = numerics.FORMATS[array.dtype]
    # Subclasses too are refused: a masked array compares as equal to anything.
    if not isinstance(found, np.ndarray) or type(found) is not np.ndarray:
        raise OracleFault(f"{about}oracle gives {_what(found)}; wanted is a numpy array")
    exact = not form.is_float and found.dtype.kind in "iu"
    if found.dtype not in (np.dtype(np.float64), form.storage) and not exact:
        integers = "" if form.is_float else ", any integers"
        raise OracleFault(f"{about}oracle gives {found.dtype} for {array.dtype}; wanted is float64, {form.storage}{integers}")
    if found.shape != array.shape:
        raise OracleFault(f"{about}oracle gives shape {list(found.shape)}, the output has {list(array.shape)}")
    return np.array(found, order="C")


def _bound(about: str, found: object) -> Bound:
    if not isinstance(found, Bound):
        raise OracleFault(f"{about}bound gives {_what(found)}; wanted is Bound(limit, reason)")
    if not isinstance(found.reason, str) or not found.reason.strip():
        raise OracleFault(f"{about}its bound has no reason; say which roundings it covers")
    limit: object = found.limit
    if isinstance(limit, np.ndarray) and type(limit) is np.ndarray and limit.dtype.kind in "fiu":
        return replace(found, limit=np.array(limit, dtype=np.float64))
    if limit is None or (isinstance(limit, (Real, np.floating, np.integer)) and not isinstance(limit, bool)):
        return replace(found, limit=None if limit is None else float(limit))
    what = f"{limit.dtype} array" if isinstance(limit, np.ndarray) else f"{limit!r}"
    raise OracleFault(f"{about}the bound's limit is {what}; wanted is a number, an array of numbers or None")
