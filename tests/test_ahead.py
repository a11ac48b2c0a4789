"""Imports in another thread: begun, harmless where they fail, and nothing is left changed."""

from __future__ import annotations

import _thread
import sys
import time

import pytest

from touchgate.gate.ahead import importing


def test_the_module_is_imported_meanwhile(tmp_path, monkeypatch):
    (tmp_path / "imported_ahead.py").write_text("VALUE = 7\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    before = sys.getswitchinterval()
    with importing("imported_ahead"):
        deadline = time.monotonic() + 60
        while "imported_ahead" not in sys.modules and time.monotonic() < deadline:
            time.sleep(0.001)
    assert __import__("imported_ahead").VALUE == 7
    assert sys.getswitchinterval() == before


def test_what_goes_wrong_is_told_where_the_module_is_needed(tmp_path, monkeypatch, capfd):
    (tmp_path / "broken_ahead.py").write_text("raise RuntimeError('broken')\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    with importing("broken_ahead"), pytest.raises(RuntimeError, match="broken"):
        __import__("broken_ahead")
    with importing("no_such_module_anywhere"):
        pass
    assert capfd.readouterr() == ("", "")


def test_without_a_further_thread_it_is_imported_where_it_is_needed(monkeypatch):
    def refuse(*_):
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(_thread, "start_new_thread", refuse)
    before = sys.getswitchinterval()
    with importing("touchgate.gate.answers"):
        from touchgate.gate import answers
    assert answers.Answer
    assert sys.getswitchinterval() == before
