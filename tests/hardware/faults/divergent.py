"""Waits at a barrier in divergent code: synccheck's fault."""

from .common import oracle_of

ORACLE = oracle_of("divergent", (90,), lambda x: x[::-1])
