"""Writes one element behind its output: memcheck's fault."""

from .common import oracle_of

ORACLE = oracle_of("out_of_bounds", (1000,), lambda x: x + x)
