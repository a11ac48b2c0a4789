"""The JSON Schema of lane files, for editors, as data beside this module. The reader is `touchgate.gate.declarations`.

It knows the shape only. What takes two places at once (unknown needs, circles, equal names), the reader alone reports.
"""

from __future__ import annotations

import json
from importlib.resources import files
from typing import Any, cast


def json_schema() -> dict[str, Any]:
    """The schema (draft 2020-12) as a fresh dict."""
    text = files("touchgate.gate").joinpath("lanes.schema.json").read_text(encoding="utf-8")
    return cast("dict[str, Any]", json.loads(text))
