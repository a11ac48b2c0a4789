"""The commands that doit gains."""
