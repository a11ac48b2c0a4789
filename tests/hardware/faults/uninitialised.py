"""Reads global memory that nobody wrote: initcheck's fault."""

from .common import oracle_of

ORACLE = oracle_of("uninitialised", (1000,), lambda x: x, sums=True)
