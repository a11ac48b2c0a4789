"""The repository's own workflow: one checkout and one call a leg, nothing polls, nothing of a form becomes script text."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

FILE = Path(__file__).resolve().parent.parent / ".github/workflows/touchgate.yml"
WORKFLOW: dict[Any, Any] = yaml.safe_load(FILE.read_text())
JOBS: dict[str, dict[str, Any]] = WORKFLOW["jobs"]
EVENTS: dict[str, Any] = WORKFLOW[True]  # YAML 1.1 reads `on` as a boolean


@pytest.mark.parametrize("job", JOBS.values(), ids=JOBS)
def test_a_leg_is_one_checkout_and_one_call(job: dict[str, Any]) -> None:
    checkout, call = job["steps"]
    assert checkout["uses"].startswith("actions/checkout@")
    assert "fetch-depth" not in checkout["with"], "the call fetches the history that it needs"
    assert checkout["with"]["persist-credentials"] is False
    assert call["run"].count("bin/doit") == 1


def test_the_ordinary_legs() -> None:
    legs = JOBS["ordinary"]["strategy"]["matrix"]["include"]
    assert [leg["name"] for leg in legs] == ["Linux x86-64", "Linux arm64", "macOS arm64"]
    assert JOBS["ordinary"]["strategy"]["fail-fast"] is False


def test_a_dispatched_run_takes_what_was_reserved_and_checks_the_exact_commit() -> None:
    inputs = EVENTS["workflow_dispatch"]["inputs"]
    assert set(inputs) == {"reservation_id", "head_sha", "topology", "suite"}
    assert inputs["topology"]["options"] == ["single", "pair"]
    assert inputs["suite"]["options"] == ["smoke", "performance", "full"]
    checkout, call = JOBS["hardware"]["steps"]
    assert checkout["with"]["ref"] == "${{ inputs.head_sha }}"
    for option in ("--require-device", '--expect-head "$HEAD_SHA"', '--reservation "$RESERVATION"', '--topology "$TOPOLOGY"'):
        assert option in call["run"]
    assert call["env"]["TOUCHGATE_SUITE"] == "${{ inputs.suite }}"


def test_nothing_typed_into_a_form_is_script_text() -> None:
    scripts = [step["run"] for job in JOBS.values() for step in job["steps"] if "run" in step]
    assert [script for script in scripts if "${{" in script] == []


def test_a_pull_request_has_one_run_and_a_reservation_is_never_cancelled() -> None:
    concurrency = WORKFLOW["concurrency"]
    assert concurrency["cancel-in-progress"] == "${{ github.event_name == 'pull_request' }}"
    assert "format('touchgate-reservation-{0}', inputs.reservation_id)" in concurrency["group"]
    assert "github.ref" in concurrency["group"]


def test_no_secret_reaches_it_and_it_may_only_read() -> None:
    assert WORKFLOW["permissions"] == {"contents": "read"}
    assert re.findall(r"secrets\.|GITHUB_TOKEN|sleep|curl|pkill|kill ", FILE.read_text()) == []
