"""`doit lease` and `touchgate lease-hold` with a file of hosts, as people use them."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from tests.conftest import clean_environment
from tests.ssh_server import SOURCES, Server, required
from touchgate.leases.ssh import protocol


@pytest.fixture
def server(tmp_path):
    required()
    server = Server(tmp_path / "s")
    server.start()
    yield server
    server.stop()


@pytest.fixture
def environ(tmp_path):
    (tmp_path / "home").mkdir()
    return clean_environment(tmp_path / "home") | {"PYTHONPATH": SOURCES}


def doit(environ, cwd, *arguments):
    done = subprocess.run(
        [sys.executable, "-m", "doit", "lease", *arguments], env=environ, cwd=cwd, capture_output=True, text=True, check=False
    )
    return done.returncode, done.stdout, done.stderr


def test_a_command_under_a_lease_of_two_hosts(server, environ, tmp_path):
    environ["TOUCHGATE_HOSTS"] = server.settings("ab", "a").file
    # What runs below works inside that lease, and what asks for one of the hosts from outside does not get it.
    inner = (
        f"echo $TOUCHGATE_LEASE_HALVES; {sys.executable} -m doit lease run --hosts 2 -- echo inside;"
        f"{sys.executable} -m doit lease status --json; env -u TOUCHGATE_LEASE_TOKEN -u TOUCHGATE_LEASE_HALVES"
        f" {sys.executable} -m doit lease run --timeout 0 -- echo outside; echo $?"
    )
    code, out, err = doit(environ, tmp_path, "run", "--hosts", "2", "--what", "both", "--", "sh", "-c", inner)
    halves, inside, *status, outside = out.splitlines()
    assert (code, inside, outside) == (0, "inside", "75"), err
    holders = json.loads("\n".join(status))["holders"]
    assert [f"{one['resource']}={one['token']}" for one in holders] == halves.split(",")
    assert [one["what"].partition(";")[0] for one in holders] == ["both", "both"]
    assert "a is held by" in err
    code, out, err = doit(environ, tmp_path, "status", "--json")
    assert json.loads(out)["holders"] == []


def test_a_host_that_is_not_fit_ends_with_69(server, environ, tmp_path):
    program = server.program(
        "unfit", code="from touchgate.edge.lease_hold import ThisHost\nThisHost.unfit = lambda *_: 'not fit: GPU 0 is used'"
    )
    environ["TOUCHGATE_HOSTS"] = server.settings("ab", "a", b=program).file
    code, out, err = doit(environ, tmp_path, "run", "--hosts", "2", "--", "echo", "run")
    assert (code, out) == (69, "")
    assert "b: not fit: GPU 0 is used" in err


def test_a_host_that_cannot_be_reached_ends_with_75_and_is_a_note(server, environ, tmp_path):
    environ["TOUCHGATE_HOSTS"] = server.settings("ab", "a", config=server.config("other", UserKnownHostsFile="/dev/null")).file
    code, out, err = doit(environ, tmp_path, "run", "--hosts", "2", "--", "echo", "run")
    assert (code, out) == (75, "")
    assert "b: `ssh b` failed: Host key verification failed.; run `ssh b` once by hand" in err
    code, out, err = doit(environ, tmp_path, "status")
    assert (code, err) == (0, "")
    assert "note: not seen: b: `ssh b` failed: Host key verification failed." in out
    assert doit(environ, tmp_path, "run", "--", "echo", "alone") == (0, "alone\n", "")
    assert doit(environ, tmp_path, "log", "1")[1].strip() != ""


def test_a_mistake_in_the_file_ends_with_3_and_its_place(environ, tmp_path):
    file = tmp_path / "hosts.yml"
    file.write_text("hosts:\n  a: {port: 7}\n")
    environ["TOUCHGATE_HOSTS"] = str(file)
    for arguments in (("status",), ("run", "--", "true"), ("drain", "a", "--why", "x"), ("log",)):
        code, out, err = doit(environ, tmp_path, *arguments)
        assert (code, out) == (3, ""), arguments
        assert f"{file}:2:7: unknown key 'port' in host 'a'" in err, arguments


# ---- the far side, without ssh


def hold(environ, *requests: dict):
    lines = b"\n".join(json.dumps({protocol.MARK: 1, **one}).encode() for one in requests) + b"\n"
    done = subprocess.run(
        [sys.executable, "-c", "import sys; from touchgate.console import main; sys.exit(main())", "lease-hold"],
        env=environ,
        input=lines,
        capture_output=True,
        check=False,
    )
    said = [one for line in done.stdout.splitlines() if (one := protocol.read(line)) is not None]
    assert [one[protocol.MARK] for one in said] == [1] * len(said)
    return done.returncode, [{key: value for key, value in one.items() if key != protocol.MARK} for one in said], done.stderr


def test_what_the_far_side_says(environ, tmp_path):
    folder = str(tmp_path / "leases")
    code, said, err = hold(
        environ,
        {"do": "status", "host": "b", "directory": folder},
        {"do": "dance", "host": "b", "directory": folder},
        {"do": "cancel", "number": -1, "host": "b", "directory": folder},
        {"do": "acquire", "hosts": 1, "gpus": 1, "directory": folder},
    )
    assert (code, err) == (0, b"")
    assert [one["event"] for one in said] == ["hello", "status", "refused", "refused", "refused"]
    assert said[2]["why"].endswith("can't 'dance'")
    assert said[3]["why"] == "'number' is no number"
    assert said[4]["why"] == "a lease is of hosts or of GPUs, at least one"


def test_a_lease_is_given_back_when_the_input_ends(environ, tmp_path):
    folder = str(tmp_path / "leases")
    request = {"do": "acquire", "hosts": 1, "what": "x", "timeout": 0, "host": "b", "directory": folder}
    code, said, err = hold(environ, request, {"do": "check", "number": 3})
    assert (code, err) == (0, b"")
    assert [one["event"] for one in said] == ["hello", "looking", "granted", "held"]
    assert said[3]["number"] == 3
    again = hold(environ, request)[1]
    assert again[2]["token"] > said[2]["token"]


def test_two_folders_for_one_host_are_refused(environ, tmp_path):
    request = {"do": "acquire", "hosts": 1, "host": "b", "directory": str(tmp_path / "one")}
    environ["TOUCHGATE_LEASE_DIR"] = str(tmp_path / "other")
    assert hold(environ, request)[1][1]["why"] == (
        f"its own settings keep leases in {tmp_path}/other (TOUCHGATE_LEASE_DIR), "
        f"and those of the host that asks in {tmp_path}/one"
    )
    del environ["TOUCHGATE_LEASE_DIR"]
    file = tmp_path / "hosts.yml"
    file.write_text(f"local: b\nhosts: {{b: {{lease_dir: {tmp_path}/third}}}}\n")
    environ["TOUCHGATE_HOSTS"] = str(file)
    assert "its own settings keep leases in" in hold(environ, request)[1][1]["why"]
    assert hold(environ, {**request, "directory": str(tmp_path / "third"), "timeout": 0})[1][2]["event"] == "granted"
