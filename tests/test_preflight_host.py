"""What a host's files tell, on a host made of files."""

from __future__ import annotations

import os
import sys

import pytest

from tests.fake_host import FakeHost
from touchgate.devices.preflight import host
from touchgate.devices.preflight.host import Driver

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="needs /proc")


@pytest.mark.parametrize(
    ("file", "driver"),
    [
        ("", None),
        ("dev/null", None),
        ("usr/bin/nvidia-smi", None),
        ("dev/nvidiactl", Driver.NVIDIA),
        ("dev/nvidia0", Driver.NVIDIA),
        ("proc/driver/nvidia/version", Driver.NVIDIA),
        ("dev/nvmap", Driver.TEGRA),
        ("dev/nvhost-gpu", Driver.TEGRA),
        ("dev/nvgpu/igpu0/ctrl", Driver.TEGRA),
        ("dev/dxg", Driver.WSL),
    ],
)
def test_which_driver_is_loaded(tmp_path, file, driver):
    FakeHost(tmp_path, driver=file)
    assert host.driver(tmp_path) is driver


def test_no_driver_elsewhere(monkeypatch):
    monkeypatch.setattr(sys, "platform", "darwin")
    assert host.driver() is None


def test_namespaces(tmp_path):
    first, other = FakeHost(tmp_path / "a"), FakeHost(tmp_path / "b", namespace="pid:[4026532281]")
    first.file("proc/sys/kernel/pid_max", "32768\n")
    other.file("proc/sys/kernel/pid_max", "32768\n")
    assert (host.in_first_namespace(first.root), host.largest_pid(first.root)) == (True, 32768)
    # The driver may name the host's own ids, which a container's limit says nothing about.
    assert (host.in_first_namespace(other.root), host.largest_pid(other.root)) == (False, host.LARGEST_PID)
    assert not host.in_first_namespace(tmp_path / "nothing")


def test_memory_and_load(tmp_path):
    made = FakeHost(tmp_path)
    assert (host.available_memory(made.root), host.load(made.root), host.memory_pressure(made.root)) == (None, None, None)
    made.file("proc/meminfo", "MemTotal:       24683520 kB\nMemFree: 1 kB\nMemAvailable:   24105000 kB\n")
    made.file("proc/loadavg", f"{(os.cpu_count() or 1) * 0.25:.2f} 0.37 0.39 3/512 4121\n")
    made.file(
        "proc/pressure/memory", "some avg10=1.25 avg60=0.37 avg300=0.39 total=6\nfull avg10=9.00 avg60=0 avg300=0 total=0\n"
    )
    assert host.available_memory(made.root) == 24105000 * 1024
    assert host.load(made.root) == pytest.approx(0.25, abs=0.01)
    assert host.memory_pressure(made.root) == 1.25
    for name in ("meminfo", "loadavg", "pressure/memory"):
        made.file(f"proc/{name}", "\n")
    assert (host.available_memory(made.root), host.load(made.root), host.memory_pressure(made.root)) == (None, None, None)


def test_this_host():
    assert host.available_memory() > 0
    assert host.load() >= 0
    assert host.largest_pid() >= os.getpid()
