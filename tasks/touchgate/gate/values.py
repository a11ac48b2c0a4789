"""Frozen values, cheaply made: `NamedTuple` as typing has it, without importing typing.

An untouched decision takes about as long as starting Python twice. Of that, typing with its reading of annotations was a
tenth, and dataclasses a third. To a type checker these are typing's own.
"""

from __future__ import annotations

from collections import namedtuple

TYPE_CHECKING = False

if TYPE_CHECKING:
    from typing import Any, NamedTuple
else:

    class _Made(type):
        """Makes a named tuple of a class's annotations, as typing's does."""

        def __new__(cls, name: str, _: tuple[type, ...], namespace: dict[str, Any]) -> type:
            fields = namespace.pop("__annotations__", {})
            defaults = [namespace.pop(field) for field in fields if field in namespace]
            made = namedtuple(name, fields, defaults=defaults, module=namespace["__module__"])  # noqa: PYI024
            for key, value in namespace.items():
                if key not in ("__module__", "__qualname__"):
                    setattr(made, key, value)
            return made

    NamedTuple = type.__new__(_Made, "NamedTuple", (), {})

__all__ = ["TYPE_CHECKING", "NamedTuple"]
