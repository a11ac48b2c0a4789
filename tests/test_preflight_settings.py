"""The host's settings: what they say, what is wrong with them, and who may have written them."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from touchgate.devices.preflight import settings
from touchgate.devices.preflight.settings import Settings, host_settings, parse, writable_by_others
from touchgate.gate.located import DeclarationError
from touchgate.gate.model import Refusal


def test_all_of_it():
    text = b"""
preflight:
  unknown: fit
  command: [/usr/local/bin/fit, --all]
  command_timeout: 5
  free_memory: 2 GiB
  ignore: [Xorg, gnome-shell]
  timeout: 12.5
"""
    assert parse(text, "host.yml") == Settings(
        unknown_is_fit=True,
        command=("/usr/local/bin/fit", "--all"),
        command_timeout=5.0,
        free_memory=2 << 30,
        ignore=frozenset({"Xorg", "gnome-shell"}),
        timeout=12.5,
        file="host.yml",
    )


def test_the_page_about_it_shows_every_key():
    page = (Path(__file__).parents[1] / "docs" / "preflight.md").read_text(encoding="utf-8")
    shown = page.partition("```yaml\n")[2].partition("```")[0]
    found = parse(shown.encode(), "docs/preflight.md")
    assert all(f"\n  {key}: " in shown for key in settings._KEYS)
    # What it shows of limits are the defaults.
    assert (found.timeout, found.command_timeout) == (Settings().timeout, Settings().command_timeout)


@pytest.mark.parametrize("text", [b"", b"# nothing\n", b"{}", b"preflight: {}", b"~\n"])
def test_nothing_set(text):
    assert parse(text, "host.yml") == Settings(file="host.yml")


@pytest.mark.parametrize(
    ("size", "count"), [("512 MiB", 512 << 20), ("1.5GiB", 3 << 29), ("1 KiB", 1024), ("2 TiB", 2 << 40), ('"2 GiB"', 2 << 30)]
)
def test_sizes(size, count):
    assert parse(f"preflight: {{free_memory: {size}}}".encode(), "h").free_memory == count


def test_every_mistake_with_its_place():
    text = b"""preflights: {}
preflight:
  unknown: maybe
  command: fit --now
  free_memory: 2
  ignore: [Xorg, 3]
  timeout: 0
  timeot: 3
"""
    with pytest.raises(DeclarationError) as caught:
        parse(text, "host.yml")
    assert (
        str(caught.value)
        == """\
host.yml:1:1: unknown key 'preflights' in the file; did you mean 'preflight'?
    preflights: {}
    ^
host.yml:3:12: 'unknown' is fit or unfit, not maybe
      unknown: maybe
               ^
host.yml:4:12: 'command' is a list, not text
      command: fit --now
               ^
host.yml:5:16: 'free_memory' is a size with its unit, above 0; such as 2 GiB or 512 MiB
      free_memory: 2
                   ^
host.yml:6:18: an entry of 'ignore' must be text; YAML takes 3 for a number; write "3"
      ignore: [Xorg, 3]
                     ^
host.yml:7:12: 'timeout' (seconds) must be above 0 and at most 600, not 0
      timeout: 0
               ^
host.yml:8:3: unknown key 'timeot' in 'preflight'; did you mean 'timeout'?
      timeot: 3
      ^"""
    )


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("[]", "h:1:1: the file must be a mapping, not a list"),
        ("preflight: on", "h:1:12: 'preflight' must be a mapping, not a boolean"),
        ("preflight: {command: []}", "h:1:22: 'command' begins with the program's whole path; command: [/usr/local/bin/fit]"),
        (
            "preflight: {command: [fit]}",
            "h:1:22: 'command' begins with the program's whole path; command: [/usr/local/bin/fit]",
        ),
        (
            "preflight: {free_memory: 0 GiB}",
            "h:1:26: 'free_memory' is a size with its unit, above 0; such as 2 GiB or 512 MiB",
        ),
        ("preflight: {free_memory: [1]}", "h:1:26: 'free_memory' is a size with its unit, above 0; such as 2 GiB or 512 MiB"),
        ("preflight: {unknown: fit, unknown: fit}", "h:1:27: duplicate key 'unknown'; the first is at column 13"),
        (
            "preflight: {command_timeout: soon}",
            "h:1:30: 'command_timeout' (seconds) must be a number in plain digits, not soon",
        ),
    ],
)
def test_single_mistakes(text, line):
    with pytest.raises(DeclarationError) as caught:
        parse(text.encode(), "h")
    assert str(caught.value).splitlines()[0] == line


@given(st.binary(max_size=60) | st.text(max_size=60).map(lambda text: f"preflight: {text}".encode()))
def test_any_bytes_are_settings_or_a_refusal(content):
    try:
        found = parse(content, "h")
    except DeclarationError as refusal:
        found = refusal
    assert isinstance(found, Settings) or str(found).startswith("h:")


# -- which file, and whose -----------------------------------------------------------------------------------------------


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A folder that nobody else can write to, as far as the test's own folders go."""
    os.chmod(tmp_path, 0o755)  # noqa: PTH101
    return tmp_path.resolve()


def written(folder: Path, text: str, mode: int = 0o644) -> dict[str, str]:
    file = folder / "host.yml"
    file.write_text(text)
    file.chmod(mode)
    return {settings.VARIABLE: str(file)}


def test_no_file_says_nothing(folder, monkeypatch):
    monkeypatch.setattr(settings, "FILE", folder / "none.yml")
    assert host_settings({}) == Settings()
    monkeypatch.setattr(settings, "FILE", Path(written(folder, "preflight: {unknown: fit}")[settings.VARIABLE]))
    assert host_settings({}).unknown_is_fit


def test_a_file_that_was_named_must_be_there(folder):
    with pytest.raises(Refusal, match=r"TOUCHGATE_HOST_SETTINGS names .*none.yml, which is not there"):
        host_settings({settings.VARIABLE: str(folder / "none.yml")})


def test_what_is_no_file(folder):
    with pytest.raises(Refusal, match=r"can't be read: Is a directory"):
        host_settings({settings.VARIABLE: str(folder)})


def test_a_file_without_end(folder):
    with pytest.raises(Refusal, match="longer than"):
        host_settings(written(folder, "#" * (settings.LARGEST + 1)))


def program(folder: Path, mode: int = 0o755) -> Path:
    path = folder / "fit"
    path.write_text("#!/bin/sh\n")
    path.chmod(mode)
    return path


def test_a_command_in_a_file_of_ones_own(folder):
    text = f"preflight: {{command: [{program(folder)}]}}"
    assert host_settings(written(folder, text)).command == (str(folder / "fit"),)


@pytest.mark.parametrize("mode", [0o664, 0o646, 0o666])
def test_a_command_that_others_could_have_named(folder, mode):
    text = f"preflight: {{command: [{program(folder)}]}}"
    with pytest.raises(Refusal) as caught:
        host_settings(written(folder, text, mode))
    file = folder / "host.yml"
    assert str(caught.value) == (
        f"{file} names a preflight command, but {file} can be written by others (mode {mode:04o}); take that right away"
    )
    assert host_settings(written(folder, "preflight: {unknown: fit}", mode)).unknown_is_fit


def test_a_program_that_others_could_have_written(folder):
    text = f"preflight: {{command: [{program(folder, 0o775)}]}}"
    with pytest.raises(Refusal, match=r"fit can be written by others \(mode 0775\)"):
        host_settings(written(folder, text))


def test_a_program_that_is_not_there(folder):
    with pytest.raises(Refusal, match=r"gone can't be looked at \(No such file or directory\)"):
        host_settings(written(folder, f"preflight: {{command: [{folder / 'gone'}]}}"))


def test_a_folder_that_others_could_turn_elsewhere(folder):
    open_to_all = folder / "open"
    open_to_all.mkdir()
    open_to_all.chmod(0o777)
    path = program(open_to_all)
    assert writable_by_others(path) == f"{open_to_all} can be written by others (mode 0777)"
    open_to_all.chmod(0o1777)
    assert writable_by_others(path) is None
    link = folder / "link"
    link.symlink_to(path)
    assert writable_by_others(link) is None
    open_to_all.chmod(0o777)
    assert writable_by_others(link) == f"{open_to_all} can be written by others (mode 0777)"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file away")
def test_another_users_file(folder):
    path = program(folder)
    os.chown(path, 65534, -1)
    assert writable_by_others(path) == f"{path} belongs to another user (uid 65534)"
