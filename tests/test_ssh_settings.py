"""The file of hosts: what it may say, and where each mistake is."""

from __future__ import annotations

import pytest

from touchgate.gate.model import Refusal
from touchgate.leases import choose
from touchgate.leases.engine import LeaseRefused
from touchgate.leases.files import FilesEngine
from touchgate.leases.ssh import hosts_file
from touchgate.leases.ssh.engine import SshEngine
from touchgate.leases.ssh.settings import FarHost, Hosts, hosts_settings, parse

BOTH = b"""\
local: spark-1
ssh_config: /etc/touchgate/ssh_config
hosts:
  spark-2: {ssh: gpu@10.0.0.2, touchgate: /opt/tg/touchgate, lease_dir: /run/lock/touchgate}
  spark-1:
"""


def test_the_hosts_are_in_the_order_of_their_names():
    assert parse(BOTH, "hosts.yml") == Hosts(
        "hosts.yml",
        (FarHost("spark-1", "spark-1"), FarHost("spark-2", "gpu@10.0.0.2", "/opt/tg/touchgate", "/run/lock/touchgate")),
        "spark-1",
        "/etc/touchgate/ssh_config",
    )


@pytest.mark.parametrize(
    ("said", "hostname", "local"),
    [
        ("", "spark-1", "spark-1"),
        ("", "spark-1.lab.example.org", "spark-1"),
        ("", "laptop", ""),
        ("spark-2", "spark-1", "spark-2"),
        ("laptop", "spark-1", ""),
    ],
)
def test_which_host_is_this_one(said, hostname, local):
    assert parse(b"hosts: {spark-1: {}, spark-2: {}}", "hosts.yml", said, hostname).local == local


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (
            "hosts: [a, b]",
            "hosts.yml:1:8: 'hosts' is a mapping of names, not a list; hosts: {spark-1: {}}\n    hosts: [a, b]\n",
        ),
        ("hots: {}", "hosts.yml:1:1: unknown key 'hots' in the file; did you mean 'hosts'?\n"),
        ("hosts:\n  a: {port: 22}", "hosts.yml:2:7: unknown key 'port' in host 'a'; known: ssh, touchgate, lease_dir\n"),
        ("hosts:\n  a: b", "hosts.yml:2:6: host 'a' must be a mapping, not text\n"),
        ("hosts:\n  a: {ssh: -oProxyCommand=x}", "hosts.yml:2:12: 'ssh' is a destination as ssh takes it; user@host,"),
        ("hosts:\n  a: {ssh: 'a b'}", "hosts.yml:2:12: 'ssh' is a destination as ssh takes it; user@host,"),
        ("hosts:\n  a: {ssh: 7}", "hosts.yml:2:12: 'ssh' must be text; YAML takes 7 for a number; write \"7\"\n"),
        ("hosts:\n  a/b: {}", "hosts.yml:2:3: 'a/b' is no name of a host; letters, digits, '.', '_' and '-'\n"),
        ("hosts:\n  a: {lease_dir: x}", "hosts.yml:2:18: 'lease_dir' is a whole path; such as /var/lib/touchgate/leases\n"),
        ("local: c\nhosts: {a: {}}", "hosts.yml:1:8: 'local' names no host of this file: c; 'hosts' has a\n"),
        ("ssh_config: x\nhosts: {a: {}}", "hosts.yml:1:13: 'ssh_config' is a whole path; such as /etc/touchgate/ssh_config\n"),
        ("hosts: {a: {}, a: {}}", "hosts.yml:1:16: duplicate key 'a'; the first is at column 9\n"),
        ("hosts: {a: {}", "hosts.yml:2:1: not valid YAML"),
    ],
)
def test_mistakes_are_told_with_their_places(content, said):
    with pytest.raises(Refusal) as fault:
        parse(f"{content}\n".encode(), "hosts.yml")
    assert str(fault.value).startswith(said)


def test_too_many_hosts_are_told():
    content = "hosts: {" + ", ".join(f"h{number}: {{}}" for number in range(100)) + "}"
    with pytest.raises(Refusal, match="100 hosts; at most 99"):
        parse(content.encode(), "hosts.yml")


def test_where_the_file_is(tmp_path):
    assert hosts_file({"TOUCHGATE_HOSTS": "/x/y.yml", "HOME": str(tmp_path)}) is not None
    home = {"HOME": str(tmp_path)}
    assert hosts_file(home) is None
    assert hosts_settings(home) is None
    own = tmp_path / ".config" / "touchgate" / "hosts.yml"
    own.parent.mkdir(parents=True)
    own.write_bytes(BOTH)
    assert hosts_file(home) == own
    assert hosts_settings(home | {"TOUCHGATE_HOST": "spark-2"}) == parse(BOTH, str(own), "spark-2")
    other = tmp_path / "xdg" / "touchgate" / "hosts.yml"
    other.parent.mkdir(parents=True)
    other.write_text("")
    assert hosts_settings(home | {"XDG_CONFIG_HOME": str(tmp_path / "xdg")}) is None


def test_a_file_that_is_not_there_is_said():
    with pytest.raises(Refusal, match=r"TOUCHGATE_HOSTS names /nowhere/hosts\.yml, which is not there"):
        hosts_settings({"TOUCHGATE_HOSTS": "/nowhere/hosts.yml"})


def test_the_engine_is_chosen_by_the_file(tmp_path):
    file = tmp_path / "hosts.yml"
    file.write_text(f"hosts: {{a: {{lease_dir: {tmp_path}/leases}}, b: {{}}}}\nlocal: a\n")
    environ = {"TOUCHGATE_HOSTS": str(file), "HOME": str(tmp_path)}
    choice = choose.chosen(environ)
    assert (choice.kind, choice.host) == ("ssh", "a")
    chosen = choose.engine(environ)
    assert isinstance(chosen, SshEngine)
    assert isinstance(chosen._files, FilesEngine)
    assert chosen._files.directory.path == tmp_path / "leases"
    assert isinstance(choose.engine({"HOME": str(tmp_path), "TOUCHGATE_LEASE_DIR": str(tmp_path / "x")}), FilesEngine)
    file.write_text("hosts: 1\n")
    with pytest.raises(LeaseRefused, match=r"hosts\.yml:1:8: 'hosts' is a mapping of names"):
        choose.engine(environ)
