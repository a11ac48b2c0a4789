"""`doit lease status` in its three forms, from one status."""

import json
from datetime import datetime, timezone

import pytest

from touchgate.edge.commands import lease_status
from touchgate.leases.engine import Holder, HostState, Queued, Status

FULL = Status(
    "files in /var/lib/touchgate/leases (the host's shared folder)",
    hosts=(HostState("spark-1", ("GPU-a", "GPU-b")), HostState("spark-2", drained="memory test")),
    holders=(
        Holder("spark-1/GPU-a", "alice", 4121, "2026-12-01T05:00:00Z", "gemm", "https://forge/7", 17, id=3),
        Holder("spark-2", "bob", None, "2026-12-01T04:00:00Z", "debug \x1b[31m", until="2026-12-01T06:00:00Z", id=4),
        Holder("spark-1/GPU-b", "carol", 99, "2026-11-30T05:00:00Z", "old", token=9, alive=False, note="killed", id=1),
    ),
    queue=(
        Queued(5, 1, "dave", 7, "1 host", "2026-12-01T05:10:00Z", "development", None, "try", reserves=True),
        Queued(6, 2, "erin", 8, "2 GPUs of one host", "2026-12-01T05:20:00Z", "ci", 754.0, "", "https://forge/8"),
    ),
    notes=("the record is torn",),
)
EMPTY = Status("files in /x")


@pytest.fixture
def utc(monkeypatch):
    """Times as in UTC."""
    import time

    monkeypatch.setenv("TZ", "UTC")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


def test_in_words(utc):
    assert lease_status.in_words(FULL) == [
        "leases: files in /var/lib/touchgate/leases (the host's shared folder)",
        "spark-2 is drained: memory test; nothing new is granted there",
        "spark-1/GPU-a: alice, pid 4121, since 2026-12-01 05:00 (gemm); https://forge/7; token 17",
        "spark-2: reserved, 4, bob, since 2026-12-01 04:00, until 2026-12-01 06:00 (debug \x1b[31m)",
        "spark-1/GPU-b: ended without saying so: carol, pid 99, since 2026-11-30 05:00 (old); killed",
        "queue:",
        "  1. dave, pid 7, wants 1 host (a reservation), since 2026-12-01 05:10 (try); 5 to cancel",
        "  2. erin, pid 8, wants 2 GPUs of one host, since 2026-12-01 05:20, about 13 min to go; 6 to cancel; https://forge/8",
        "note: the record is torn",
    ]
    assert lease_status.in_words(EMPTY) == ["leases: files in /x", "nobody holds anything"]


def test_as_json():
    told = json.loads(json.dumps(lease_status.to_json(FULL)))
    assert told["schema"] == 1
    needed = {"resource", "user", "pid", "since", "what", "url", "token"}
    assert [needed - one.keys() for one in told["holders"]] == [set(), set()]
    assert told["holders"][0] == {
        "resource": "spark-1/GPU-a",
        "user": "alice",
        "pid": 4121,
        "since": "2026-12-01T05:00:00Z",
        "what": "gemm",
        "url": "https://forge/7",
        "token": 17,
        "until": None,
        "note": "",
        "id": 3,
    }
    assert [one["user"] for one in told["gone"]] == ["carol"]
    assert told["queue"][1] == {
        "position": 2,
        "user": "erin",
        "pid": 8,
        "wants": "2 GPUs of one host",
        "since": "2026-12-01T05:20:00Z",
        "priority": "ci",
        "estimate": 754.0,
        "id": 6,
        "what": "",
        "url": "https://forge/8",
        "reserves": False,
    }
    assert told["hosts"] == [
        {"name": "spark-1", "gpus": ["GPU-a", "GPU-b"], "drained": None},
        {"name": "spark-2", "gpus": [], "drained": "memory test"},
    ]
    assert lease_status.to_json(EMPTY) == {
        "schema": 1,
        "where": "files in /x",
        "hosts": [],
        "holders": [],
        "gone": [],
        "queue": [],
        "notes": [],
    }


METRICS = """\
# HELP touchgate_lease_held 1 for everything that is held
# TYPE touchgate_lease_held gauge
touchgate_lease_held{resource="spark-1/GPU-a",user="alice"} 1
touchgate_lease_held{resource="spark-2",user="bob"} 1
# HELP touchgate_lease_held_seconds how long it has been held
# TYPE touchgate_lease_held_seconds gauge
touchgate_lease_held_seconds{resource="spark-1/GPU-a"} 1800
touchgate_lease_held_seconds{resource="spark-2"} 5400
# HELP touchgate_lease_drained 1 where nothing new is granted
# TYPE touchgate_lease_drained gauge
touchgate_lease_drained{host="spark-1"} 0
touchgate_lease_drained{host="spark-2"} 1
# HELP touchgate_lease_queue requests that wait
# TYPE touchgate_lease_queue gauge
touchgate_lease_queue{priority="ci"} 1
touchgate_lease_queue{priority="development"} 1
# HELP touchgate_lease_oldest_wait_seconds how long the oldest request waits
# TYPE touchgate_lease_oldest_wait_seconds gauge
touchgate_lease_oldest_wait_seconds 1200
# HELP touchgate_lease_token the newest token that is held
# TYPE touchgate_lease_token gauge
touchgate_lease_token 17
"""


def test_as_metrics():
    assert lease_status.to_metrics(FULL, datetime(2026, 12, 1, 5, 30, tzinfo=timezone.utc)) == METRICS


def test_metrics_quote_what_others_wrote_and_know_no_times():
    odd = Holder('a"b\\c\nd', "x", 1, "yesterday", "", token=1796108400000000)
    text = lease_status.to_metrics(Status("", holders=(odd,)), datetime(2026, 12, 1, tzinfo=timezone.utc))
    assert 'touchgate_lease_held{resource="a\\"b\\\\c\\nd",user="x"} 1\n' in text
    assert "touchgate_lease_held_seconds{" not in text
    assert "touchgate_lease_token 1796108400000000\n" in text
    assert "touchgate_lease_queue{" in text


def test_without_holders_there_is_no_token():
    text = lease_status.to_metrics(EMPTY, datetime(2026, 12, 1, tzinfo=timezone.utc))
    assert "\ntouchgate_lease_token " not in text
    assert "touchgate_lease_oldest_wait_seconds 0\n" in text
