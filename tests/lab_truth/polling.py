"""A poll of the surfaces of a running centre: the state, the grid of loss and RTT, the incidents and the status page.

Out: plain dictionaries, to be stored as JSON, with times in seconds since the epoch.
"""

from __future__ import annotations

import html
import re
import time
import urllib.request
from datetime import datetime
from typing import Any

from tests.e2e.stack import RunningStack
from tests.lab_truth.stored import COUNTS

CELL = (
    "path_id", "source", "destination", "state", "value", "value_measured", "value_sent", "sent", "received",
    "incident_id", "is_since_end",
)  # fmt: skip
METRICS = {"loss": "loss_ratio", "rtt": "rtt_median_ms"}
SECTION = re.compile(r'<section[^>]* id="(mesh-state|open)"[^>]*>(.*?)</section>', re.DOTALL)
ROW = re.compile(r'<span class="what">(.*?)</span> <span class="when">(.*?)</span></li>', re.DOTALL)
STRONG = re.compile(r"<strong>(.*?)</strong>", re.DOTALL)


def poll(stack: RunningStack) -> dict[str, Any]:
    """All surfaces now. `sentence_after` is that of a second request after all others."""
    state = stack.get("state")
    taken = {
        "type": "poll",
        "at": time.time(),
        "state": {"sentence": state["sentence"], **{name: state[name] for name in COUNTS}},
        **{name: _grid(stack, metric) for name, metric in METRICS.items()},
        "incidents": [_incident(row) for row in stack.get("incidents")],
        "status": _status(stack),
    }
    return {**taken, "sentence_after": stack.get("state")["sentence"]}


def _grid(stack: RunningStack, metric: str) -> dict[str, Any]:
    grid = stack.get(f"grid?metric={metric}&period=now")
    cells = [{**{name: cell[name] for name in CELL}, "ended": _epoch(cell["ended_at"])} for cell in grid["cells"]]
    times = {name: _epoch(grid[name]) for name in ("since", "until")}
    return {**times, "packet_bytes": grid["packet_bytes"], "cells": cells}


def _incident(row: dict[str, Any]) -> dict[str, Any]:
    kept = {name: row[name] for name in ("id", "title", "state", "rule", "path_ids")}
    return {**kept, "began": _epoch(row["began_at"])}


def _status(stack: RunningStack) -> dict[str, Any]:
    with urllib.request.urlopen(f"http://127.0.0.1:{stack.port}/status/", timeout=30) as answer:
        page = answer.read().decode()
    sections = dict(SECTION.findall(page))
    sentence = STRONG.search(sections["mesh-state"])
    rows = [{"what": _text(what), "when": _text(when)} for what, when in ROW.findall(sections["open"])]
    return {"sentence": "" if sentence is None else _text(sentence[1]), "open": rows}


def _text(markup: str) -> str:
    return " ".join(html.unescape(re.sub(r"<[^>]+>", "", markup)).split())


def _epoch(written: str | None) -> float | None:
    return None if written is None else datetime.fromisoformat(written).timestamp()
