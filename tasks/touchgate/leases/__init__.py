"""Leases: who may use a host and its GPUs, and until when."""
