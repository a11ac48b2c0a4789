"""Reads shared memory that another warp writes, without a barrier: racecheck's fault."""

from .common import oracle_of

ORACLE = oracle_of("race", (90,), lambda x: x[::-1])
