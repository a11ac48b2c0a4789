"""This repository's own graph. The lanes are declared in tasks/*.yml; here are the few tasks that are not checks."""


def task_lint() -> dict[str, object]:
    """Ruff and mypy over the plugin, the kernels and the tests."""
    return {
        "actions": ["ruff check .", "ruff format --check .", "mypy"],
        "verbosity": 2,
    }


def task_action() -> dict[str, object]:
    """action.yml, which pins the digest of the one-file gate, after a change of the gate."""
    return {"actions": ["touchgate bundle --action ."], "verbosity": 2}
