"""nvcc: where it is, its version, and cubins with what ptxas says of each kernel. Needs no GPU and no driver."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import tempfile
from dataclasses import asdict, dataclass
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

from touchgate.devices import BuildFault, Unavailable, builds

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

MISSING = "no nvcc: install the CUDA toolkit, or put its bin folder on PATH or its folder into CUDA_HOME"
FLAGS = ("-std=c++17", "-lineinfo", "-Xptxas", "-v")
"""Never -use_fast_math: it flushes subnormals and divides in a way that the bounds do not allow for."""
STANDARD_HOME = "/usr/local/cuda"
VARIABLES = ("NVCC_PREPEND_FLAGS", "NVCC_APPEND_FLAGS", "NVCC_CCBIN")
"""What nvcc reads beside its arguments."""

_ENTRY = re.compile(r"Compiling entry function '(?P<name>[^']+)' for '[^']+'")
_STACK = re.compile(r"(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads")
_REGISTERS = re.compile(r"Used (\d+) registers")
_SHARED = re.compile(r"(\d+)(?:\+\d+)? bytes smem")
_MARKER = re.compile(r"^# ?(?:line )?\d+ .*$", re.MULTILINE)
_UNKNOWN_ARCHITECTURE = re.compile(r"nvcc fatal\s*: (?:Unsupported gpu architecture|Value '[^']*' is not defined)")
_NO_HOST_COMPILER = re.compile(
    r"(?:gcc|g\+\+|clang\+\+|c\+\+|cc1plus|host compiler)\W.*(?:not found|No such file)"
    r"|Failed to preprocess host compiler"
)


@dataclass(frozen=True)
class Resources:
    """What one kernel takes.

    Registers a thread; bytes of static shared memory a block; bytes of stack frame, of spill stores and of spill loads a
    thread. None: ptxas did not say.
    """

    registers: int | None = None
    shared: int | None = None
    stack: int | None = None
    spill_stores: int | None = None
    spill_loads: int | None = None

    @property
    def spills(self) -> bool:
        """Whether registers were spilled to local memory."""
        return bool(self.spill_stores or self.spill_loads)


@dataclass(frozen=True)
class Cubin:
    """A compiled .cu file, and each kernel's resources by name."""

    path: Path
    resources: Mapping[str, Resources]


class UnknownArchitecture(BuildFault):
    """This nvcc knows nothing of the architecture: too old, or too new."""


def find(environ: Mapping[str, str] = os.environ) -> Path | None:
    """Nvcc of PATH, else of CUDA_HOME or CUDA_PATH, else of /usr/local/cuda."""
    found = shutil.which("nvcc", path=environ.get("PATH", os.defpath))
    if found is not None:
        return Path(found)
    for home in (environ.get("CUDA_HOME"), environ.get("CUDA_PATH"), STANDARD_HOME):
        if home:
            candidate = Path(home, "bin", "nvcc")
            if candidate.is_file() and os.access(candidate, os.X_OK):
                return candidate
    return None


def version(path: Path) -> str:
    """For example "13.0.88". Raises `Unavailable` where it does not start."""
    try:
        return _asked(str(path), path.stat().st_mtime_ns)
    except OSError as error:
        raise Unavailable(f"{path} does not start: {error}") from error


@lru_cache(maxsize=8)
def _asked(path: str, _stamp: int) -> str:
    answer = subprocess.run([path, "--version"], capture_output=True, text=True, errors="replace", check=False)
    match = re.search(r"\bV(\d+(?:\.\d+)+)", answer.stdout)
    if answer.returncode != 0 or match is None:
        told = (answer.stderr.strip() or answer.stdout.strip() or f"exit {answer.returncode}").splitlines()[0]
        raise Unavailable(f"{path} does not work: {told}")
    return match[1]


def build_cubin(
    source: Path,
    arch: str,
    build_dir: Path,
    includes: Sequence[Path] = (),
    defines: Mapping[str, str] | None = None,
    environ: Mapping[str, str] = os.environ,
    *,
    text: str | None = None,
) -> Cubin:
    """Compile `source` for `arch` ("sm_90"), or take it from the cache below `build_dir`.

    `text`: compile this instead, as if it stood in the file `source`. Raises `Unavailable` without nvcc or its host
    compiler, `UnknownArchitecture`, `BuildFault` with the compiler's text.
    """
    nvcc = find(environ)
    if nvcc is None:
        raise Unavailable(MISSING)
    if text is None and not source.is_file():
        raise BuildFault(f"{source}: no such file")
    flags = [*FLAGS, f"-arch={arch}", *(f"-I{folder}" for folder in includes)]
    flags += [f"-D{name}={value}" for name, value in (defines or {}).items()]
    with tempfile.TemporaryDirectory(prefix="touchgate-") as folder:
        unit = source
        if text is not None:
            unit = Path(folder, source.name)
            quoted = str(source).replace("\\", "\\\\").replace('"', '\\"')
            unit.write_text(f'#line 1 "{quoted}"\n{text}', encoding="utf-8", errors="surrogateescape")
            flags.append(f"-I{source.parent}")
        preprocessed = _run([str(nvcc), *flags, "-E", str(unit)], environ).stdout
        # Line markers hold paths of this machine, and of the temporary folder: they decide nothing about the code.
        key = builds.digest(
            [
                version(nvcc),
                *(flag for flag in flags if not flag.startswith("-I")),
                *(f"{name}={environ.get(name, '')}" for name in VARIABLES),
                _MARKER.sub("", preprocessed),
            ]
        )[:40]
        target = build_dir / "cubin" / f"{source.stem}-{arch}-{key}.cubin"
        cached = _cached(target)
        if cached is not None:
            return cached
        return _build(target, [str(nvcc), *flags, "-cubin", str(unit)], environ)


def _cached(target: Path) -> Cubin | None:
    """Return what lies in the cache, if it is whole."""
    if not builds.is_whole(target):
        return None
    try:
        note = json.loads(target.with_suffix(".json").read_bytes())
        return Cubin(target, {name: Resources(**values) for name, values in note.items()})
    except (OSError, ValueError, TypeError, AttributeError):
        return None


def _build(target: Path, command: Sequence[str], environ: Mapping[str, str]) -> Cubin:
    told: list[str] = []

    def make(to: Path) -> None:
        answer = _run([*command, "-o", str(to)], environ)
        told.append(answer.stdout + answer.stderr)

    def note(to: Path) -> None:
        to.write_text(json.dumps({name: asdict(values) for name, values in resources.items()}), encoding="utf-8")

    builds.publish(target, make)
    resources = parse_resources(told[0])
    builds.publish(target.with_suffix(".json"), note)
    return Cubin(target, resources)


def _run(command: Sequence[str], environ: Mapping[str, str]) -> subprocess.CompletedProcess[str]:
    try:
        answer = subprocess.run(
            command, capture_output=True, encoding="utf-8", errors="surrogateescape", check=False, env=dict(environ)
        )
    except OSError as error:
        raise Unavailable(f"{command[0]} does not start: {error}") from error
    if answer.returncode == 0:
        return answer
    message = (answer.stderr.strip() or answer.stdout.strip())[:20000] or f"nvcc ended with {answer.returncode}"
    if _UNKNOWN_ARCHITECTURE.search(message):
        raise UnknownArchitecture(message)
    if _NO_HOST_COMPILER.search(message):
        raise Unavailable(f"nvcc needs a host compiler: install g++ (Debian: apt-get install g++); it says: {message}")
    raise BuildFault(message)


def parse_resources(text: str) -> dict[str, Resources]:
    """Read what `ptxas -v` printed, by kernel, in order of names. Other device functions are left out."""
    found: dict[str, dict[str, int]] = {}
    current: dict[str, int] | None = None
    for line in text.splitlines():
        entry = _ENTRY.search(line)
        if entry:
            current = found.setdefault(entry["name"], {})
            continue
        if current is None:
            continue
        stack = _STACK.search(line)
        if stack and "stack" not in current:
            current.update(zip(("stack", "spill_stores", "spill_loads"), map(int, stack.groups()), strict=True))
        registers = _REGISTERS.search(line)
        if registers:
            shared = _SHARED.search(line)
            current["registers"] = int(registers[1])
            current["shared"] = int(shared[1]) if shared else 0
            current = None
    return {name: Resources(**found[name]) for name in sorted(found)}
