"""The doit edge: the loader, the tasks, the reporter and the commands. Only here is doit imported."""
