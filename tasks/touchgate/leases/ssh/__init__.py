"""Leases of two or more hosts without any server: see docs/pair.md."""

from __future__ import annotations

from touchgate.leases.ssh.engine import SshEngine
from touchgate.leases.ssh.settings import Hosts, hosts_settings

__all__ = ["Hosts", "SshEngine", "hosts_settings"]
