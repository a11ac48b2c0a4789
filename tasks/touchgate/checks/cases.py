"""The interface of an oracle file: what stands beside a .cu and says which cases to run and what they must give.

An oracle file is a Python file that defines `ORACLE = Oracle(...)`; docs/kernels.md explains it with a whole example.
It is loaded by path: nothing is added to sys.path, and it reaches the files beside it with `from . import other`.
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import machinery
from pathlib import Path
from types import CodeType, ModuleType
from typing import TYPE_CHECKING, Any

from touchgate.checks import numerics
from touchgate.checks.oracles import oracle_files

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from touchgate.devices import Argument, Pointer

Dimensions = tuple[int, int, int]
"""Sizes of a grid or block: x, y, z."""


@dataclass(frozen=True)
class Case:
    """One problem to solve: a shape, an element type, a way to make inputs.

    name: unique in the file; it is what a failure is reported under. parameters: plain values for the file's own
    functions. dtype: the element type the case is about ("float32", "float16", "bfloat16", "int32"). places: where it
    runs; the emulated device manages some ten million thread steps a second, so leave it the small ones. small: quick
    enough to run under the sanitizers too. sanitize: one for NVIDIA's sanitizers; where no case is, some are chosen.
    """

    name: str
    dtype: str
    parameters: Mapping[str, Any] = field(default_factory=dict)
    places: tuple[str, ...] = ("gpu", "emulated")
    small: bool = False
    sanitize: bool = False

    def __getitem__(self, key: str) -> Any:
        """A parameter by name."""
        return self.parameters[key]


@dataclass(frozen=True)
class Array:
    """One array that the kernel gets. The harness decides where it lies: alignment, row stride, red zones.

    role: "in" (must be unchanged after the launch), "out" (poisoned before; every element must be written and right)
    or "scratch" (poisoned before, ignored afterwards). shape: of one or two dimensions; the rows of a two-dimensional
    array may lie further apart than they are long. data: an input's elements in the storage type (bfloat16: uint16
    bits), C order.
    """

    name: str
    dtype: str
    role: str
    shape: tuple[int, ...]
    data: NDArray[Any] | None = None

    @property
    def is_matrix(self) -> bool:
        """Whether it has rows, which may lie apart."""
        return len(self.shape) == 2  # noqa: PLR2004

    def __post_init__(self) -> None:
        if self.dtype not in numerics.FORMATS:
            raise ValueError(f"array {self.name!r}: dtype {self.dtype!r} is none of {', '.join(numerics.FORMATS)}")
        if self.role not in ("in", "out", "scratch"):
            raise ValueError(f"array {self.name!r}: role {self.role!r} is none of in, out, scratch")
        if len(self.shape) not in (1, 2):
            raise ValueError(f"array {self.name!r}: shape {self.shape} has not one or two dimensions")
        if (self.data is not None) != (self.role == "in"):
            raise ValueError(f"array {self.name!r}: an input has data, an output or scratch has none")
        if self.data is not None:
            storage = numerics.FORMATS[self.dtype].storage
            if self.data.dtype != storage or self.data.shape != self.shape:
                raise ValueError(
                    f"array {self.name!r}: its data is {self.data.dtype}{list(self.data.shape)}, "
                    f"declared is {storage}{list(self.shape)}"
                )


def given(name: str, dtype: str, data: NDArray[Any]) -> Array:
    """An input. Values that are not in the storage type of `dtype` yet are rounded into it, from float64."""
    if data.dtype != numerics.FORMATS[dtype].storage:
        data = numerics.store(data, dtype)
    return Array(name, dtype, "in", data.shape, data)


def wanted(name: str, dtype: str, shape: tuple[int, ...]) -> Array:
    """An output."""
    return Array(name, dtype, "out", shape)


def scratch(name: str, dtype: str, shape: tuple[int, ...]) -> Array:
    """Memory that the kernel needs for itself."""
    return Array(name, dtype, "scratch", shape)


@dataclass(frozen=True)
class Placed:
    """An array on the device, as `launch` gets it. stride: elements from one row to the next (one row: its length)."""

    pointer: Pointer
    shape: tuple[int, ...]
    stride: int
    dtype: str


@dataclass(frozen=True)
class Launch:
    """One launch. arguments: pointers and numpy scalars of exactly the parameters' types. shared: bytes, dynamic."""

    kernel: str
    grid: Dimensions
    block: Dimensions
    arguments: Sequence[Argument]
    shared: int = 0


@dataclass(frozen=True)
class Bound:
    """How far an output may be from the oracle, and why.

    limit: absolute, float64, a number or an array of the output's shape; None: bit for bit (a NaN where a NaN is
    wanted, whatever its payload). reason: one line: which roundings, where.
    """

    limit: NDArray[np.float64] | float | None
    reason: str


Arrays = Mapping[str, "NDArray[Any]"]
"""Arrays by name, in their storage types."""


@dataclass(frozen=True)
class Oracle:
    """What is known about the kernels of one .cu file.

    They are in the .cu file of the oracle file's name, beside it. blocks: two different numbers of threads a block.
    cases(): all cases. arrays(case, random): inputs, outputs, scratch, with `random` as the only source of chance.
    launch(case, arrays, threads): what to launch, in order; none where there is nothing to do. oracle(case, inputs):
    the outputs by name: float64 (rounded once into the storage type where the bound is bit for bit) or the storage
    type itself. bound(case, inputs, outputs): for each output by name how far the kernel may be from it.
    """

    cases: Callable[[], Iterable[Case]]
    arrays: Callable[[Case, np.random.Generator], Iterable[Array]]
    launch: Callable[[Case, Mapping[str, Placed], int], Iterable[Launch]]
    oracle: Callable[[Case, Arrays], Arrays]
    bound: Callable[[Case, Arrays, Arrays], Mapping[str, Bound]]
    blocks: tuple[int, int] = (256, 96)


@dataclass(frozen=True)
class Span:
    """One array of a benchmark, without data: the device fills inputs with random values, none zero.

    role: "in", "out" or "scratch". along: whether its first axis is the one that `Benchmark.rows` counts.
    """

    name: str
    dtype: str
    role: str
    shape: tuple[int, ...]
    along: bool = False


@dataclass(frozen=True)
class Benchmark:
    """One thing to time. It is launched by the file's own `launch`, in blocks of the first of `blocks`.

    case: its name is the benchmark's key in the file; its parameters are those that `launch`, `oracle` and `bound` read.
    read, written: bytes that have to move, each once. flop: operations on floats. rows: the parameter that counts the
    rows of the arrays that are `along`; then a few rows are compared afterwards, on the oracle's answer for just these;
    "": everything is.
    """

    case: Case
    spans: tuple[Span, ...]
    read: int
    written: int
    flop: int
    rows: str = ""

    @property
    def name(self) -> str:
        """The case's."""
        return self.case.name


class OracleFault(Exception):
    """An oracle file does not define what it should: one line, without the file's name."""


def load_file(path: Path) -> ModuleType:
    """Execute a Python file as a module of its own. Raises what the file raises.

    Its folder and the ones above are its packages, by names that nothing else uses, so `from . import other` finds
    the file beside it and two files of one name in different folders do not meet. What it imports so is compiled from
    the source that lies there, and only if `oracle_files` knows of it: nothing runs that is not in a result's key.
    """
    path = path.absolute()
    label = _LABEL + hashlib.sha256(str(path.parent).encode(errors="surrogateescape")).hexdigest()[:12]
    root = Path(path.anchor)
    known = oracle_files(str(path.relative_to(root)), root)
    finder = next((one for one in sys.meta_path if isinstance(one, _Finder)), None)
    if finder is None:
        finder = _Finder()
        sys.meta_path.insert(0, finder)
    finder.known.setdefault(label, set()).update(os.path.normpath(root / file) for file in known)
    name = ""
    for depth, folder in enumerate([*reversed(path.parent.parents), path.parent]):
        name = f"{name}.d{depth}" if name else label
        if name not in sys.modules:
            package = ModuleType(name)
            package.__path__ = [str(folder)]
            sys.modules[name] = package
    name = f"{name}.{path.stem}"
    spec = importlib.util.spec_from_file_location(name, path, loader=_Fresh(name, str(path)))
    if spec is None or spec.loader is None:
        raise OracleFault("is not a Python file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    # Byte code beside the file would be an untracked file of its lane, and so touch it.
    kept, sys.dont_write_bytecode = sys.dont_write_bytecode, True
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise
    finally:
        sys.dont_write_bytecode = kept
    return module


_LABEL = "touchgate_oracle_"
_COMPILED = (*machinery.EXTENSION_SUFFIXES, *machinery.BYTECODE_SUFFIXES)


class _Fresh(machinery.SourceFileLoader):
    """Compiles what the file says now: old byte code is told from new by size and whole seconds alone."""

    def get_code(self, fullname: str) -> CodeType:  # noqa: ARG002  the loader's interface
        return compile(self.get_data(self.path), self.path, "exec", dont_inherit=True)


class _Finder:
    """Finds what files loaded by `load_file` import relatively, as Python would, but sources only."""

    def __init__(self) -> None:
        self.known: dict[str, set[str]] = {}
        """First part of the modules' names -> the files that may be executed."""

    def find_spec(self, name: str, path: Sequence[str] | None, _target: object = None) -> machinery.ModuleSpec | None:
        """The interface of `sys.meta_path`. Raises `OracleFault`: an ImportError could be caught by the file."""
        label = name.partition(".")[0]
        if label not in self.known:
            return None
        tail = name.rpartition(".")[2]
        folders = []
        for folder in path or ():
            base = Path(folder, tail)
            for file, locations in ((base / "__init__.py", [str(base)]), (Path(folder, f"{tail}.py"), None)):
                if file.is_file():
                    if os.path.normpath(file) not in self.known[label]:
                        raise OracleFault(
                            f"imports {file} in a way that can't be foreseen; write `from ... import {tail}` as a statement"
                        )
                    loader = _Fresh(name, str(file))
                    return importlib.util.spec_from_file_location(
                        name, file, loader=loader, submodule_search_locations=locations
                    )
            compiled = [Path(f"{stem}{suffix}") for stem in (base / "__init__", base) for suffix in _COMPILED]
            found = next((file for file in compiled if file.is_file()), None)
            if found is not None:
                raise OracleFault(f"imports {found}, which is no source; put {tail}.py in its place")
            if base.is_dir():
                folders.append(str(base))
        if folders:
            spec = machinery.ModuleSpec(name, None, is_package=True)
            spec.submodule_search_locations = folders
            return spec
        # No other finder is asked: one would find byte code, or what another package hooks in.
        raise ModuleNotFoundError(f"No module named {tail!r} in {', '.join(path or ())}", name=name)


def load_oracle(path: Path) -> Oracle:
    """The `ORACLE` of an oracle file. Raises `OracleFault`, and whatever the file itself raises."""
    return oracle_of(load_file(path))


def oracle_of(file: ModuleType) -> Oracle:
    """The `ORACLE` of a loaded file. Raises `OracleFault`."""
    found = getattr(file, "ORACLE", None)
    if not isinstance(found, Oracle):
        what = "defines no ORACLE" if found is None else f"defines ORACLE as {type(found).__name__}"
        raise OracleFault(f"{what}; wanted is ORACLE = Oracle(...), with Oracle from touchgate.checks.cases")
    if len(set(found.blocks)) != 2:  # noqa: PLR2004  a pair
        raise OracleFault(f"blocks = {found.blocks}: wanted are two different numbers of threads")
    return found
