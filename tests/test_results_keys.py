"""A key holds everything that can change a result, and nothing that can't."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from datetime import date

import pytest
from hypothesis import given
from hypothesis import strategies as st

from touchgate.checks import CheckSpec
from touchgate.results.keys import Key, differences, digest_of, key_environment, result_key, visible_environment

SPEC = CheckSpec(
    name="gemv:kernel",
    lane="gemv",
    kind="kernel",
    about="matrix-vector products",
    target="kernels/gemv/gemv.py",
    options={"seed": 7},
    places=("gpu", "emulated"),
    suites=("smoke",),
    timeout=60.0,
    env=("HF_HOME",),
    where="tasks/kernels.yml:3:9",
)


def key(**changes) -> Key:
    return result_key(
        **{
            "spec": SPEC,
            "lane_files": {"kernels/gemv/gemv.cu": "100644:aa", "b": "100644:bb"},
            "input_files": {"vectors/x": "absent"},
            "tools": {"numpy": "2.4.6"},
            "place": "emulated",
            "device_facts": {"driver": None, "capability": "9.0", "count": 1},
            "environment": {"HF_HOME": None, "TZ": "UTC"},
            "code": "c" * 64,
            "extra": {"architectures": "87,90"},
            **changes,
        }
    )


PLAIN = key()


def test_a_key_is_sha_256_of_its_parts():
    assert re.fullmatch(r"[0-9a-f]{64}", PLAIN.digest)
    assert set(PLAIN.parts) == {
        "schema",
        "declaration",
        "place",
        "lane_files",
        "input_files",
        "tools",
        "device",
        "environment",
        "code",
        "extra",
    }
    assert digest_of(json.loads(json.dumps(PLAIN.parts))) == PLAIN.digest


def test_the_order_of_anything_does_not_matter():
    assert key(lane_files={"b": "100644:bb", "kernels/gemv/gemv.cu": "100644:aa"}) == PLAIN


@pytest.mark.parametrize(
    "spec",
    [
        replace(SPEC, where="tasks/kernels.yml:99:1"),
        replace(SPEC, about="other words"),
        replace(SPEC, suites=("full",)),
        replace(SPEC, places=("emulated",)),
    ],
)
def test_what_can_not_change_a_result_is_not_in_the_key(spec):
    assert key(spec=spec) == PLAIN


@pytest.mark.parametrize(
    "changes",
    [
        {"spec": replace(SPEC, target="kernels/gemv/other.py")},
        {"spec": replace(SPEC, options={"seed": 8})},
        {"spec": replace(SPEC, options={"seed": "7"})},
        {"spec": replace(SPEC, options={"seed": 7.0})},
        {"spec": replace(SPEC, options={"seed": True})},
        {"spec": replace(SPEC, options={})},
        {"spec": replace(SPEC, timeout=30.0)},
        {"spec": replace(SPEC, kind="pytest")},
        {"lane_files": {"kernels/gemv/gemv.cu": "100644:aa"}},
        {"lane_files": {"kernels/gemv/gemv.cu": "100755:aa", "b": "100644:bb"}},
        {"lane_files": {"kernels/gemv/GEMV.cu": "100644:aa", "b": "100644:bb"}},
        {
            "lane_files": {},
            "input_files": {"kernels/gemv/gemv.cu": "100644:aa", "b": "100644:bb", "vectors/x": "absent"},
        },
        {"input_files": {"vectors/x": "100644:e6"}},
        {"tools": {"numpy": "2.4.7"}},
        {"tools": {"numpy": "absent"}},
        {"tools": {}},
        {"place": "gpu"},
        {"device_facts": {"driver": 0, "capability": "9.0", "count": 1}},
        {"device_facts": {"capability": "9.0", "count": 1}},
        {"environment": {"HF_HOME": "", "TZ": "UTC"}},
        {"environment": {"TZ": "UTC"}},
        {"code": "d" * 64},
        {"extra": {}},
    ],
)
def test_whatever_can_change_a_result_changes_the_key(changes):
    assert key(**changes).digest != PLAIN.digest


plain = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.dates() | st.binary(),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.text() | st.integers() | st.booleans() | st.none() | st.dates(), inner, max_size=3)
    ),
    max_leaves=8,
)


@given(plain, plain)
def test_different_options_have_different_keys_and_survive_json(one, other):
    first, second = key(spec=replace(SPEC, options={"o": one})), key(spec=replace(SPEC, options={"o": other}))
    assert (first.digest == second.digest) == (repr_of(one) == repr_of(other))
    assert digest_of(json.loads(json.dumps(first.parts))) == first.digest


def repr_of(value: object) -> object:
    """The value as something that is equal exactly where type and value are; dicts without their order."""
    if isinstance(value, dict):
        return ("dict", frozenset((repr_of(name), repr_of(item)) for name, item in value.items()))
    if isinstance(value, list):
        return ("list", tuple(repr_of(item) for item in value))
    return (type(value).__name__, repr(value))


def test_paths_that_are_no_text_can_be_in_a_key():
    odd = key(lane_files={"kern/caf\udce9.cu": "100644:aa"})
    assert digest_of(json.loads(json.dumps(odd.parts))) == odd.digest


def test_what_is_not_plain_data_is_named():
    with pytest.raises(TypeError, match=r"declaration\.options\.seed is a object, which can't be part of a result's key"):
        key(spec=replace(SPEC, options={"seed": object()}))


def test_dates_and_the_text_that_looks_like_one_differ():
    day = key(spec=replace(SPEC, options={"when": date(2026, 11, 30)}))
    text = key(spec=replace(SPEC, options={"when": "<date>2026-11-30"}))
    assert day.parts["declaration"]["options"] == {"when": "<date>2026-11-30"}
    assert text.parts["declaration"]["options"] == {"when": "<text><date>2026-11-30"}


def test_the_differing_part_is_named():
    other = key(tools={"numpy": "2.5", "g++": "12"}, lane_files={"b": "100644:bb", "new": "100644:cc"})
    assert differences(PLAIN.parts, other.parts) == [
        ("lane_files.kernels/gemv/gemv.cu", "100644:aa", None),
        ("lane_files.new", None, "100644:cc"),
        ("tools.g++", None, "12"),
        ("tools.numpy", "2.4.6", "2.5"),
    ]
    assert differences(PLAIN.parts, PLAIN.parts) == []
    assert differences({"a": 1}, {"a": True}) == [("a", 1, True)]


# ---- the environment

ENVIRON = {
    "PATH": "/usr/bin",
    "HOME": "/home/a",
    "LANG": "C.UTF-8",
    "LC_ALL": "C",
    "TMPDIR": "/tmp",
    "TZ": "UTC",
    "CUDA_HOME": "/usr/local/cuda",
    "CUDA_VISIBLE_DEVICES": "3",
    "NVCC_APPEND_FLAGS": "-G",
    "LD_LIBRARY_PATH": "/repo/lib:/opt/lib",
    "CXX": "clang++",
    "CARGO_HOME": "/c",
    "https_proxy": "http://p",
    "PYTHONPATH": "/repo/src:/repository/src",
    "XDG_CACHE_HOME": "/x",
    "GITHUB_TOKEN": "secret",
    "AWS_SECRET_ACCESS_KEY": "secret",
    "MY_FLAG": "1",
    "HF_HOME": "/hf",
    "LANGX": "no",
    "XPATH": "no",
}


def test_checks_see_the_fixed_list_and_what_is_declared():
    seen, withheld = visible_environment(ENVIRON, ["HF_HOME", "NOT_SET"])
    assert withheld == ["AWS_SECRET_ACCESS_KEY", "GITHUB_TOKEN", "LANGX", "MY_FLAG", "XPATH"]
    assert seen == {name: value for name, value in ENVIRON.items() if name not in withheld}


def test_the_key_holds_what_changes_results_and_what_is_declared():
    assert key_environment(ENVIRON, ["HF_HOME", "NOT_SET", "PATH"], root="/repo") == {
        "HF_HOME": "/hf",
        "NOT_SET": None,
        "PATH": "/usr/bin",  # declared, so it counts
        "LANG": "C.UTF-8",
        "LC_ALL": "C",
        "TZ": "UTC",
        "CUDA_HOME": "/usr/local/cuda",
        "NVCC_APPEND_FLAGS": "-G",
        "LD_LIBRARY_PATH": "$ROOT/lib:/opt/lib",
        "CXX": "clang++",
        "PYTHONPATH": "$ROOT/src:/repository/src",
    }


@given(st.dictionaries(st.sampled_from([*ENVIRON, "OTHER"]), st.text(max_size=3)), st.sets(st.sampled_from([*ENVIRON])))
def test_nothing_undeclared_outside_the_list_is_seen_and_the_key_holds_only_what_is_seen(environ, declared):
    seen, withheld = visible_environment(environ, declared)
    assert set(seen) | set(withheld) == set(environ)
    assert not set(seen) & set(withheld)
    assert declared & set(environ) <= set(seen)
    assert set(key_environment(environ, declared)) <= set(seen) | declared
