"""The key a result is kept under: everything that can change it, and nothing that can't.

Not in it: commit ids, times, the checkout's path, the line a check is declared on. A key's parts are plain JSON, kept
with the result, so that two keys can be compared part by part.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable

    from touchgate.checks import CheckSpec

SCHEMA = 1

_CHANGES_RESULTS = (
    r"CUDA_.*",
    r"NVIDIA_.*",
    r"NVCC_.*",
    r"LD_LIBRARY_PATH",
    r"DYLD_.*",
    r"CXX",
    r"LANG|LANGUAGE|LC_.*",
    r"TZ",
    r"PYTHON(PATH|HOME|HASHSEED|OPTIMIZE|UTF8|IOENCODING|WARNINGS|NOUSERSITE|SAFEPATH)",
    r"OMP_.*|OPENBLAS_.*|MKL_.*",
)
_ONLY_PLACES = (
    r"PATH",
    r"HOME|USER|LOGNAME|SHELL|TERM",
    r"TMPDIR",
    r"XDG_.*",
    r"CARGO_HOME|RUSTUP_HOME|VIRTUAL_ENV|CONDA_PREFIX",
    r"SSL_CERT_(FILE|DIR)",
    r"(?i:https?_proxy|no_proxy|all_proxy)",
    r"PYTHON(UNBUFFERED|DONTWRITEBYTECODE|PYCACHEPREFIX|FAULTHANDLER)",
    # Which of the host's GPUs, and where the driver caches: the device's facts stand in the key instead.
    r"CUDA_VISIBLE_DEVICES|CUDA_DEVICE_ORDER|CUDA_CACHE_.*|NVIDIA_VISIBLE_DEVICES",
)
_KEYED = re.compile("|".join(_CHANGES_RESULTS))
_UNKEYED = re.compile("|".join(_ONLY_PLACES))


@dataclass(frozen=True)
class Key:
    """digest: SHA-256, 64 hexadecimal digits. parts: what it is made of, plain JSON."""

    digest: str
    parts: dict[str, Any]


def result_key(
    *,
    spec: CheckSpec,
    lane_files: Mapping[str, str],
    input_files: Mapping[str, str],
    tools: Mapping[str, str],
    place: str,
    device_facts: Mapping[str, object],
    environment: Mapping[str, str | None],
    code: str,
    extra: Mapping[str, str],
) -> Key:
    """The key of one check's result at `place`.

    lane_files, input_files: path -> content id (`touchgate.results.contents`). tools: name -> version. device_facts: of
    the device at `place`, {} where none takes part. environment: `key_environment`'s. code: the digest of touchgate's
    own code for the kind. Raises TypeError for a value that is not plain data.
    """
    parts = {
        "schema": SCHEMA,
        "declaration": {
            "name": spec.name,
            "kind": spec.kind,
            "target": spec.target,
            "options": spec.options,
            "timeout": spec.timeout,
        },
        "place": place,
        "lane_files": lane_files,
        "input_files": input_files,
        "tools": tools,
        "device": device_facts,
        "environment": environment,
        "code": code,
        "extra": extra,
    }
    plain = {name: _plain(part, name) for name, part in parts.items()}
    return Key(digest_of(plain), plain)


def digest_of(parts: Mapping[str, Any]) -> str:
    """The digest of a key's parts, as they are or as read back from JSON. Raises TypeError or ValueError otherwise."""
    text = json.dumps(parts, sort_keys=True, separators=(",", ":"), ensure_ascii=True, allow_nan=False)
    return hashlib.sha256(text.encode("ascii")).hexdigest()


def _plain(value: object, where: str) -> Any:
    """`value` as JSON that loses no difference: keys that are not text, dates and odd numbers are tagged."""
    if value is None or isinstance(value, (bool, int)):
        return value
    if isinstance(value, str):
        # A text that looks like a tag of ours is told apart from one.
        return "<text>" + value if value.startswith("<") else value
    if isinstance(value, float):
        return value if math.isfinite(value) else f"<number>{value}"
    if isinstance(value, Mapping):
        return {_plain_name(name, where): _plain(item, f"{where}.{name}") for name, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(item, where) for item in value]
    if isinstance(value, (set, frozenset)):
        return {"<set>": sorted((_plain(item, where) for item in value), key=json.dumps)}
    if isinstance(value, date):
        return f"<date>{value.isoformat()}"
    if isinstance(value, bytes):
        return f"<bytes>{value.hex()}"
    raise TypeError(f"{where} is a {type(value).__name__}, which can't be part of a result's key")


def _plain_name(name: object, where: str) -> str:
    plain = _plain(name, where)
    return plain if isinstance(plain, str) else f"<{type(name).__name__}>{json.dumps(plain)}"


def visible_environment(environ: Mapping[str, str], declared: Iterable[str]) -> tuple[dict[str, str], list[str]]:
    """What a check sees of `environ`: the fixed list and the declared names. And the names withheld, sorted."""
    wanted = set(declared)
    seen = {name: value for name, value in environ.items() if name in wanted or _is_fixed(name)}
    return seen, sorted(name for name in environ if name not in seen)


def key_environment(environ: Mapping[str, str], declared: Iterable[str], root: str = "") -> dict[str, str | None]:
    """What belongs in the key: the declared names, None where unset, and those of the fixed list that change results.

    The checkout's path `root` inside a value is written `$ROOT`, so that two clones agree.
    """
    values: dict[str, str | None] = dict.fromkeys(declared)
    for name, value in environ.items():
        if name in values or (_KEYED.fullmatch(name) and not _UNKEYED.fullmatch(name)):
            values[name] = _without_root(value, root)
    return values


def _without_root(value: str, root: str) -> str:
    root = root.rstrip("/")
    return re.sub(rf"(?<![^:;=]){re.escape(root)}(?=[/:;]|$)", "$ROOT", value) if root else value


def _is_fixed(name: str) -> bool:
    return bool(_KEYED.fullmatch(name) or _UNKEYED.fullmatch(name))


def differences(one: Mapping[str, Any], other: Mapping[str, Any]) -> list[tuple[str, Any, Any]]:
    """Where two keys' parts differ: (dotted name, value in one, value in the other), sorted; None where missing."""
    return sorted(_differences("", one, other), key=lambda found: found[0])


def _differences(name: str, one: Any, other: Any) -> list[tuple[str, Any, Any]]:
    if isinstance(one, Mapping) and isinstance(other, Mapping):
        found = []
        for key in {*one, *other}:
            found += _differences(f"{name}.{key}" if name else str(key), one.get(key), other.get(key))
        return found
    # True == 1 in Python, not in a key.
    return [] if json.dumps(one) == json.dumps(other) else [(name, one, other)]
