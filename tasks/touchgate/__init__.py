"""touchgate: a plugin for doit that runs the GPU checks a change touches, and only those."""

__version__ = "0.1.0"
