"""What two touchgates say to each other, read whatever it is."""

from __future__ import annotations

import json
import os
from dataclasses import asdict

import pytest
from hypothesis import given
from hypothesis import strategies as st

from touchgate.leases.engine import Ask, Holder, HostState, Place, Queued, Status
from touchgate.leases.model import Priority, Want
from touchgate.leases.ssh import keeper, protocol
from touchgate.leases.ssh.protocol import MARK, PROTOCOL, Garbled, Lines

words = st.text(st.characters(categories=("L", "N", "P", "Zs"), exclude_characters="\xa0"), max_size=20).filter(
    str.isprintable
)
numbers = st.integers(min_value=0, max_value=2**62)
seconds = st.none() | st.floats(min_value=0, max_value=1e9)
holders = st.builds(
    Holder,
    words,
    words,
    st.none() | numbers,
    st.none() | words,
    words,
    st.none() | words,
    st.none() | numbers,
    st.none() | words,
    st.booleans(),
    words,
    st.none() | numbers,
)
queued = st.builds(
    Queued, numbers, numbers, words, st.none() | numbers, words, words, words, seconds, words, st.none() | words, st.booleans()
)
asks = st.builds(
    Ask,
    st.builds(Want, hosts=st.just(1)) | st.builds(Want, gpus=st.integers(1, 8), among=st.lists(words, max_size=3).map(tuple)),
    words,
    seconds,
    seconds,
    st.sampled_from(Priority),
    st.none() | words.filter(bool),
)
places = st.builds(Place, numbers, st.lists(holders, max_size=3).map(tuple), seconds)
statuses = st.builds(
    Status,
    words,
    st.lists(st.builds(HostState, words, st.lists(words, max_size=2).map(tuple), words), max_size=2).map(tuple),
    st.lists(holders, max_size=2).map(tuple),
    st.lists(queued, max_size=2).map(tuple),
    st.lists(words, max_size=2).map(tuple),
)


def through(content: dict) -> dict:
    (line,) = Lines().add(protocol.line(**content))
    read = protocol.read(line)
    assert read is not None
    assert read.pop(MARK) == PROTOCOL
    return read


@given(asks, places, statuses)
def test_what_is_said_is_understood(ask, place, status):
    assert protocol.ask_of(through(protocol.of_ask(ask))) == ask
    assert protocol.place_of(through(protocol.of_place(place))) == place
    assert protocol.status_of(through(protocol.of_status(status))) == status


anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(sorted(asdict(Ask(Want(hosts=1), "")))), inner)
    ),
    max_leaves=6,
)
KEYS = sorted({"position", "holders", "estimate", "hosts", "gpus", "among", "priority", "timeout", "queue", "where", "notes"})


@given(st.dictionaries(st.sampled_from(KEYS), anything | st.lists(st.dictionaries(st.sampled_from(["id", "user"]), anything))))
def test_nonsense_is_garbled_or_nothing(content):
    for reader in (protocol.ask_of, protocol.place_of, protocol.status_of):
        try:
            reader(json.loads(json.dumps(content)))
        except Garbled as fault:
            assert str(fault)  # noqa: PT017 - most of it is refused, and which is not the point


@given(st.binary(max_size=60) | st.text(max_size=40).map(lambda text: f'{{"{MARK}": {text}}}'.encode()))
def test_any_line_can_be_read(line):
    content = protocol.read(line)
    assert content is None or isinstance(content[MARK], int)


@pytest.mark.parametrize(
    "line", [b"", b"hello", b'{"event": "hello"}', b"touchgate-lease", b'["touchgate-lease"]', b"[" * 100_000]
)
def test_what_is_not_ours_is_passed_over(line):
    assert protocol.read(line) is None


@given(st.lists(st.binary(max_size=8).filter(lambda part: b"\n" not in part), min_size=1, max_size=5), st.data())
def test_lines_come_in_pieces(parts, data):
    whole = b"\n".join([*parts, b""])
    cut = data.draw(st.integers(0, len(whole)))
    lines = Lines()
    assert lines.add(whole[:cut]) + lines.add(whole[cut:]) == parts


def test_a_line_without_end_is_garbled(monkeypatch):
    monkeypatch.setattr(protocol, "LONGEST", 10)
    lines = Lines()
    lines.add(b"0123456789")
    with pytest.raises(Garbled, match="a line is longer than 10 bytes"):
        lines.add(b"0")


def test_texts_of_another_host_are_harmless_on_a_terminal():
    said = {"position": 1, "holders": [{**asdict(Holder("a", "\x1b[2J", 1, None, "x\ny")), "more": "of a later version"}]}
    assert protocol.place_of(said).holders == (Holder("a", "?[2J", 1, None, "x?y"),)


def test_the_keeper_hands_on_and_beats_until_its_source_ends():
    source, write = os.pipe()
    read, target = os.pipe()
    os.write(write, b"said\n")
    os.close(write)
    keeper.keep(source, target, 60)
    os.close(target)
    assert os.read(read, 100) == b"said\n"
    os.close(source)
    os.close(read)


def test_the_keeper_ends_when_nobody_reads():
    source, write = os.pipe()
    read, target = os.pipe()
    os.close(read)
    keeper.keep(source, target, 60)
    for one in (source, write, target):
        os.close(one)
