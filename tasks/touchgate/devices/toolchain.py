"""Compiles for the emulated devices, and loads: the runtime once, and each .cu file, with a cache on disk."""

from __future__ import annotations

import ctypes
import os
import platform
import re
import subprocess
import sys
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from touchgate.devices import BuildFault, Unavailable, builds, compilers, dialect

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from touchgate.devices.compilers import Compiler

HEADERS = Path(__file__).with_name("emulation")

_COMMON = ("-std=c++17", "-fPIC", "-fvisibility=hidden", "-fno-exceptions", "-fno-rtti", "-pthread")
_KERNEL = ("-O2", "-ffp-contract=off", "-fno-strict-aliasing", "-fno-threadsafe-statics", "-w")
_SANITIZE = ("-g", "-fno-omit-frame-pointer", "-fsanitize=address,undefined,float-cast-overflow", "-fno-sanitize-recover=all")
# Without the sanitizer's library: touchgate_checks.h has the handlers. Large frames are touched page by page, so that
# none reaches over the guard page into the next thread's stack.
_CHECKS = {
    "gcc": ("-fsanitize=alignment,bounds,integer-divide-by-zero", "-fstack-clash-protection"),
    "clang": ("-fsanitize=alignment,array-bounds,integer-divide-by-zero", "-fstack-clash-protection"),
}
_SMALL_GUARD = "--param=stack-clash-protection-guard-size=12"
"""GCC for aarch64 takes it that 64 KiB below a stack are inaccessible, and would step over one page."""
PATIENCE = 300.0
"""Seconds that one run of the compiler may take; a kernel file takes less than one."""


def sanitizer_environment(environ: Mapping[str, str] = os.environ) -> dict[str, str]:
    """Variables that a process needs before it starts, so that it can open a device with `sanitize=True`.

    The sanitizer's library has to be the first one that is loaded. Raises `Unavailable` where there is none.
    """
    compiler = compilers.find(environ)
    variable, names = "LD_PRELOAD", ["libasan.so"]
    if sys.platform == "darwin":
        variable, names = "DYLD_INSERT_LIBRARIES", ["libclang_rt.asan_osx_dynamic.dylib"]
    elif compiler.family == "clang":
        names = [f"libclang_rt.asan-{os.uname().machine}.so", "libclang_rt.asan.so"]
    sanitizer = next((path for path in (_library_beside(compiler, name) for name in names) if path), None)
    if sanitizer is None:
        raise Unavailable(f"{compiler.command[0]} has no AddressSanitizer: install it (Debian: apt-get install libasan8)")
    # Its interceptor of C++ exceptions wants the C++ library to be there from the start.
    exceptions = _library_beside(compiler, "libstdc++.so.6") if variable == "LD_PRELOAD" else None
    return {
        variable: ":".join(path for path in (sanitizer, exceptions) if path),
        # Python keeps memory until it ends: that is no leak of a kernel's.
        "ASAN_OPTIONS": "detect_leaks=0",
        "UBSAN_OPTIONS": "print_stacktrace=1",
    }


def _library_beside(compiler: Compiler, name: str) -> str | None:
    """Where the compiler keeps a library: a path that can be loaded."""
    command = [*compiler.command, f"-print-file-name={name}"]
    try:
        answer = subprocess.run(command, capture_output=True, text=True, errors="replace", timeout=60, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise Unavailable(f"{command[0]} does not answer: {error}") from error
    path = Path(answer.stdout.strip())
    if answer.returncode != 0 or not path.is_absolute() or not path.is_file():
        return None
    data = path.read_bytes()
    if data.startswith(b"\x7fELF") or sys.platform == "darwin":
        return str(path.resolve())
    # Some distributions have a linker script in its place: INPUT ( /usr/lib64/libasan.so.8 ).
    named = re.search(rb"/\S+\.so[.0-9]*", data)
    return os.fsdecode(named[0]) if named else None


class Toolchain:
    """Compiles and loads: the runtime once, and each .cu file.

    flags: of the .cu files' compilation, behind our own and so above them. machine: that the compiler compiles for, "" for
    this one.
    """

    def __init__(
        self, build_dir: Path, compiler: Compiler, sanitize: bool, flags: tuple[str, ...] = (), machine: str = ""
    ) -> None:
        self.build_dir = build_dir / "emulated"
        self.compiler = compiler
        self.sanitize = sanitize
        self.flags = flags
        checks = _SANITIZE if sanitize else _CHECKS[compiler.family]
        guard = (_SMALL_GUARD,) if compiler.family == "gcc" and (machine or platform.machine()) == "aarch64" else ()
        self.extra = (*checks, *guard, *flags)

    def runtime(self) -> ctypes.CDLL:
        """Return the library that runs kernels, its functions declared."""
        source = HEADERS / "runtime.cpp"
        flags = (*_COMMON, "-O2", *(_SANITIZE if self.sanitize else ()))
        key = self._key(flags, source.read_bytes(), (HEADERS / "touchgate_interface.h").read_bytes())
        try:
            library = self._library(
                f"runtime-{key}",
                "touchgate_launch",
                lambda to: self._compile([*flags, "-shared", f"-I{HEADERS}", str(source), "-o", str(to)]),
            )
        except BuildFault as fault:
            # The text is ours, and compiles: the compiler is at fault, or what it needs is not installed.
            raise Unavailable(
                f"{self._program()} does not compile C++: {fault}\n{self._program()} is {self.compiler.version}; "
                f"set CXX to another compiler, or repair it (Debian: apt-get install g++; macOS: xcode-select --install)"
            ) from fault
        library.touchgate_launch.restype = ctypes.c_int
        library.touchgate_launch.argtypes = (
            ctypes.c_void_p,
            ctypes.c_int,
            ctypes.POINTER(ctypes.c_uint),
            ctypes.POINTER(ctypes.c_uint),
            ctypes.c_size_t,
            ctypes.POINTER(ctypes.c_void_p),
            ctypes.c_uint64,
            ctypes.c_int,
            ctypes.c_char_p,
            ctypes.c_size_t,
        )
        library.touchgate_allocate.restype = ctypes.c_void_p
        library.touchgate_allocate.argtypes = (ctypes.c_size_t,)
        library.touchgate_release.restype = None
        library.touchgate_release.argtypes = (ctypes.c_void_p,)
        library.touchgate_check.restype = ctypes.c_int
        library.touchgate_check.argtypes = (ctypes.c_char_p, ctypes.c_size_t)
        return library

    def module(self, text: str | None, like: Path, includes: Sequence[Path], defines: Mapping[str, str]) -> ctypes.CDLL:
        """Return the library of `text`, as if it stood in the file `like`; None: what stands there."""
        flags = (*_COMMON, *_KERNEL, *self.extra)
        preprocessed = self._preprocess(text, like, includes, defines)
        key = self._key(flags, preprocessed)

        def make(to: Path) -> None:
            linking = [flag for flag in _SANITIZE if self.sanitize]
            self._translated(preprocessed, flags, [*linking, "-pthread", "-shared", "-o", str(to)])

        return self._library(f"{like.stem}-{key}", "touchgate_module", make)

    def program(self, text: str | None, like: Path, includes: Sequence[Path], defines: Mapping[str, str]) -> Path:
        """The same as a program with the runtime in it, which answers requests (emulation/host.cpp).

        It needs no library, so it runs wherever its instructions do.
        """
        flags = (*_COMMON, *_KERNEL, *self.extra)
        preprocessed = self._preprocess(text, like, includes, defines)
        parts = [self._part(HEADERS / name) for name in ("runtime.cpp", "host.cpp")]
        # libatomic: some processors have no atomics of 8 and 16 bits.
        linking = ["-pthread", "-static", *map(str, parts), "-latomic"]
        target = self.build_dir / f"{like.stem}-{self._key(flags, preprocessed, *(part.name for part in parts))}.run"
        if not builds.is_whole(target):

            def make(to: Path) -> None:
                self._translated(preprocessed, flags, [*linking, "-o", str(to)])
                to.chmod(0o755)

            builds.publish(target, make)
        return target

    def _part(self, source: Path) -> Path:
        """One of our own sources as an object file."""
        flags = (*_COMMON, "-O2", "-c", f"-I{HEADERS}")
        key = self._key(flags, source.read_bytes(), (HEADERS / "touchgate_interface.h").read_bytes())
        target = self.build_dir / f"{source.stem}-{key}.o"
        if not builds.is_whole(target):
            builds.publish(target, lambda to: self._compile([*flags, str(source), "-o", str(to)]))
        return target

    def _translated(self, preprocessed: str, flags: Sequence[str], linking: Sequence[str]) -> None:
        """Compile a preprocessed .cu file as C++, and link it."""
        with tempfile.TemporaryDirectory(prefix="touchgate-") as folder:
            unit, item = Path(folder, "unit.ii"), Path(folder, "unit.o")
            unit.write_text(dialect.translate(preprocessed).text, encoding="utf-8", errors="surrogateescape")
            self._compile([*flags, "-x", "c++-cpp-output", "-c", str(unit), "-o", str(item)])
            self._compile([str(item), *linking])

    def _preprocess(self, text: str | None, like: Path, includes: Sequence[Path], defines: Mapping[str, str]) -> str:
        command = [*self.compiler.command, *_COMMON, *_KERNEL, *(_SANITIZE if self.sanitize else ()), *self.flags, "-E"]
        command += [f"-I{HEADERS}", *(f"-I{folder}" for folder in includes)]
        command += [f"-D{name}={value}" for name, value in defines.items()]
        command += [] if self.sanitize else ["-DTOUCHGATE_CHECKS"]
        command += ["-include", str(HEADERS / "touchgate_emulation.h"), "-x", "c++"]
        if text is None:
            command.append(str(like))
        else:
            quoted = str(like).replace("\\", "\\\\").replace('"', '\\"')
            text = f'#line 1 "{quoted}"\n{text}'
            command += ["-iquote", str(like.parent), "-"]
        answer = self._run(command, text)
        if answer.returncode != 0:
            raise self._fault(answer)
        if dialect.BEGINS not in answer.stdout:
            raise BuildFault(f"{self._program()} ended with 0, but did not preprocess {like}")
        return answer.stdout

    def _compile(self, arguments: Sequence[str]) -> None:
        answer = self._run([*self.compiler.command, *arguments], None)
        if answer.returncode != 0:
            raise self._fault(answer)

    def _fault(self, answer: subprocess.CompletedProcess[str]) -> BuildFault:
        told = answer.stderr.strip() or answer.stdout.strip()
        return BuildFault(told or f"{self._program()} ended with {answer.returncode} and said nothing")

    def _program(self) -> str:
        return self.compiler.command[0]

    def _run(self, command: Sequence[str], text: str | None) -> subprocess.CompletedProcess[str]:
        # The sanitizer's library is meant for this process, not for the compiler.
        environ = {k: v for k, v in os.environ.items() if k not in ("LD_PRELOAD", "DYLD_INSERT_LIBRARIES")}
        try:
            return subprocess.run(
                command,
                input=text if text is not None else "",
                capture_output=True,
                encoding="utf-8",
                errors="surrogateescape",
                timeout=PATIENCE,
                check=False,
                env={**environ, "LC_ALL": "C"},
            )
        except subprocess.TimeoutExpired as error:
            raise BuildFault(f"{command[0]} did not end within {PATIENCE:g} s and was stopped") from error
        except OSError as error:
            raise Unavailable(f"{command[0]} does not start: {error}") from error

    def _key(self, flags: Sequence[str], *texts: str | bytes) -> str:
        return builds.digest([*self.compiler.command, self.compiler.version, *flags, "|", *texts])[:40]

    def _library(self, name: str, symbol: str, make: Callable[[Path], None]) -> ctypes.CDLL:
        """Load the library that defines `symbol` from the cache, or build it."""
        target = self.build_dir / f"{name}.so"
        if builds.is_whole(target) and _defines(target, symbol):
            # A whole file that does not load was built for a system that is no more: it is built anew.
            with suppress(OSError):
                return ctypes.CDLL(str(target))

        def checked(to: Path) -> None:
            make(to)
            if not _defines(to, symbol):
                size = to.stat().st_size if to.exists() else 0
                raise BuildFault(f"{self._program()} ended with 0, but wrote no library ({size} bytes)")

        builds.publish(target, checked)
        try:
            return ctypes.CDLL(str(target))
        except OSError as error:
            builds.withdraw(target)
            raise BuildFault(f"{self._program()} wrote a library that does not load: {error}") from error


def _defines(library: Path, symbol: str) -> bool:
    """Tell whether a file is a library with this name in it, without loading what may be anyone's."""
    try:
        data = library.read_bytes()
    except OSError:
        return False
    # ELF, and Mach-O of 64 bits or of several architectures.
    return data.startswith((b"\x7fELF", b"\xcf\xfa\xed\xfe", b"\xca\xfe\xba\xbe")) and symbol.encode() in data
