"""`python -m touchgate.leases.postgres after-failover WHY`, for whoever looks after the database."""

from __future__ import annotations

import os
import sys

from touchgate.leases.engine import LeaseFault
from touchgate.leases.postgres.connection import DSN
from touchgate.leases.postgres.engine import PostgresEngine


def main(arguments: list[str]) -> int:
    """The exit code: 3 for wrong usage, 75 where the database can't be had."""
    if len(arguments) != 2 or arguments[0] != "after-failover" or not os.environ.get(DSN):  # noqa: PLR2004 - a word and a reason
        print(f"usage: {DSN}=... python -m touchgate.leases.postgres after-failover WHY", file=sys.stderr)
        return 3
    try:
        print(PostgresEngine(os.environ[DSN]).after_failover(arguments[1]))
    except LeaseFault as fault:
        print(fault, file=sys.stderr)
        return 75
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
