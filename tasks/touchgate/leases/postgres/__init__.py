"""Leases in a PostgreSQL database, for a fleet."""

from touchgate.leases.postgres.engine import PostgresEngine

__all__ = ["PostgresEngine"]
