"""The gate: what a change touches, and which lanes must run for it.

Needs the standard library and PyYAML only. Nothing in this package imports from outside it.
"""
