"""The JSON Schema says of each sample what the reader says."""

from __future__ import annotations

import json

import pytest
import yaml

from touchgate.gate.declarations import LANE_KEYS, read_lanes
from touchgate.gate.located import DeclarationError
from touchgate.gate.schema import json_schema

from .test_declarations import FULL, text

jsonschema = pytest.importorskip("jsonschema", reason="jsonschema is not installed: pip install '.[dev]'")

VALIDATOR = jsonschema.Draft202012Validator(json_schema())


def lane(**fields: object) -> dict[str, object]:
    return {"lanes": {"a": {"paths": ["x"], "checks": [{"command": "x"}], **fields}}}


GOOD = [
    yaml.safe_load(text(FULL)),
    lane(),
    lane(about=""),
    lane(paths=["!a", "b"]),
    lane(paths=["**", "!a"]),
    lane(suites=["full"]),
    lane(device="host"),
    lane(device={"hosts": 2}),
    lane(minutes=0.5, timeout=10080),
    lane(env=["A", "_b1"]),
    lane(needs=[]),
    lane(checks=[{"kernel": "x", "name": "n", "timeout": 1, "cases": [1]}]),
    lane(checks=[{"fuzz": "x", "runs": 3}]),
    {"x-defaults": {"anything": [1]}, **lane()},
    {"lanes": {"A.b_c-1": lane()["lanes"]["a"]}},
    lane(each="crates/*", paths=["{path}/**"]),
    lane(each=["crates/*", "!crates/**/old", "!crates/b"]),
    {"lanes": {"x-{name}": lane(each="crates/*")["lanes"]["a"]}},
    {"lanes": {"{name}": lane(each="crates/*")["lanes"]["a"]}},
    lane(closure="paths"),
    lane(closure="none"),
    lane(closure={"from": ["src/**/*.cu", "!src/x.cu"], "include": ["include", "."], "python": ["./src/"]}),
    lane(closure={"python": ["."]}),
]

BAD = [
    {},
    [],
    {"lanes": {}},
    {"lanes": {"a": {}}},
    {"lanes": {"a": {"paths": ["x"]}}},
    {"lanes": {"a": {"checks": [{"command": "x"}]}}},
    {"lanes": {"a b": lane()["lanes"]["a"]}},
    {"lanes": {"-a": lane()["lanes"]["a"]}},
    {"lane": {}, **lane()},
    lane(timout=3),
    lane(about=3),
    lane(each=3),
    lane(each=[]),
    lane(each={"folders": "crates/*"}),
    lane(each="crates/**"),
    lane(each="**"),
    lane(each="crates/"),
    lane(each="/crates/*"),
    lane(each=["!crates/*"]),
    lane(each=["crates/*", "./x"]),
    {"lanes": {"x-{nmae}": lane(each="crates/*")["lanes"]["a"]}},
    lane(about=["x"]),
    lane(closure="path"),
    lane(closure=[]),
    lane(closure={}),
    lane(closure={"form": ["x"]}),
    lane(closure={"from": "paths"}),
    lane(closure={"from": []}),
    lane(closure={"from": ["!x"]}),
    lane(closure={"from": ["/x"]}),
    lane(closure={"from": [["x"]]}),
    lane(closure={"include": "x"}),
    lane(closure={"include": []}),
    lane(closure={"include": [""]}),
    lane(closure={"include": ["/x"]}),
    lane(closure={"python": ["../x"]}),
    lane(closure={"python": [1]}),
    lane(paths=[]),
    lane(paths="x"),
    lane(paths=["!x"]),
    lane(paths=["/x"]),
    lane(paths=["a", "!./x"]),
    lane(paths=["x/"]),
    lane(paths=[""]),
    lane(paths=["a", "!"]),
    lane(paths=[1]),
    lane(paths=[["a"]]),
    lane(paths={"file": "x"}),
    lane(paths={"workflow": "x", "more": "y"}),
    lane(needs="b"),
    lane(needs={"full": []}),
    lane(needs={"lite": "b"}),
    lane(needs=[1]),
    lane(suites=[]),
    lane(suites="smoke"),
    lane(suites=["smok"]),
    lane(suites=["full", "full"]),
    lane(device="gpus"),
    lane(device={"gpus": 0}),
    lane(device={"gpus": 1.5}),
    lane(device={"gpus": 1, "hosts": 1}),
    lane(device={}),
    lane(minutes=0),
    lane(minutes="3"),
    lane(minutes=-1),
    lane(minutes=10081),
    lane(timeout=True),
    lane(env="A"),
    lane(env=["A-B"]),
    lane(env=["A", "A"]),
    lane(checks=[]),
    lane(checks={"command": "x"}),
    lane(checks=["x"]),
    lane(checks=[{}]),
    lane(checks=[{"name": "x"}]),
    lane(checks=[{"command": True}]),
    lane(checks=[{"command": ""}]),
    lane(checks=[{"command": " "}]),
    lane(checks=[{"command": "x", "name": "a/b"}]),
    lane(checks=[{"command": "x", "timeout": 0}]),
]


def accepted(sample: object) -> bool:
    """By the reader, from the sample as JSON: JSON is YAML."""
    try:
        read_lanes({"f.yml": json.dumps(sample).encode()}, folders=lambda _: ["a", "crates"])
    except DeclarationError:
        return False
    return True


def test_it_is_a_schema():
    jsonschema.Draft202012Validator.check_schema(json_schema())
    assert json_schema()["$schema"] == "https://json-schema.org/draft/2020-12/schema"


@pytest.mark.parametrize("sample", GOOD, ids=json.dumps)
def test_good(sample):
    assert [error.message for error in VALIDATOR.iter_errors(sample)] == []
    assert accepted(sample)


@pytest.mark.parametrize("sample", BAD, ids=json.dumps)
def test_bad(sample):
    assert not VALIDATOR.is_valid(sample)
    assert not accepted(sample)


def test_it_names_every_key_of_a_lane():
    assert set(json_schema()["$defs"]["lane"]["properties"]) == set(LANE_KEYS)


def test_nobody_else_can_change_it():
    json_schema()["title"] = "changed"
    assert json_schema()["title"] == "touchgate lanes"
