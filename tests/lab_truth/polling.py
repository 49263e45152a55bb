"""Polls the surfaces of a running centre: the state, the grid of loss and RTT as the API and the page have it, the
incidents, the status page, and in turn the page of a path and the gauges for Prometheus.

Out: plain dictionaries, to be stored as JSON, with times in seconds since the epoch.
"""

from __future__ import annotations

import itertools
import json
import re
import time
import urllib.request
from collections.abc import Collection, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from tests.e2e.stack import RunningStack
from tests.lab_truth.pages import gauges, grid_cell, path_page, text_of
from tests.lab_truth.stored import COUNTS
from tests.lab_truth.truth import TROUBLE, Pair

CELL = (
    "path_id", "source", "destination", "state", "value", "value_measured", "value_sent", "sent", "received",
    "incident_id", "is_since_end", "condition",
)  # fmt: skip
SIZES = (100, 1000)
"""Packet sizes of the lab, the default of the page first."""
METRICS = {"loss": "loss_ratio", "rtt": "rtt_median_ms"}
SECTION = re.compile(r'<section[^>]* id="(mesh-state|open)"[^>]*>(.*?)</section>', re.DOTALL)
ROW = re.compile(r'<span class="what">(.*?)</span> <span class="when">(.*?)</span></li>', re.DOTALL)
STRONG = re.compile(r"<strong>(.*?)</strong>", re.DOTALL)


class Poller:
    """Polls a centre. Of the path pages those of `pairs` are read, and of paths in trouble."""

    def __init__(self, stack: RunningStack, pairs: Collection[Pair] = ()) -> None:
        self._stack, self._pairs = stack, pairs
        self._since = datetime.now(UTC)
        self._turns = itertools.count()
        self._axes = dict.fromkeys(SIZES, "")

    def poll(self) -> dict[str, Any]:
        """All surfaces now. `sentence_after` is from a second request after all others."""
        stack, state = self._stack, self._stack.get("state")
        grids = {name: _grid(stack, metric) for name, metric in METRICS.items()}
        taken = {
            "type": "poll",
            "at": time.time(),
            "state": {"sentence": state["sentence"], **{name: state[name] for name in COUNTS}},
            "evaluated": _epoch(state["evaluated_at"]),
            **grids,
            "incidents": [_incident(row) for row in stack.get("incidents")],
            "closed": self._closed(),
            "status": _status(stack),
            "hovers": {str(size): self._cells(size) for size in SIZES},
            **self._in_turn(grids["loss"]["cells"]),
        }
        after = stack.get("state")
        return {**taken, "sentence_after": after["sentence"], "evaluated_after": _epoch(after["evaluated_at"])}

    def _closed(self) -> list[dict[str, Any]]:
        rows = self._stack.get(f"incidents?state=resolved&since={self._since:%Y-%m-%dT%H:%M:%SZ}")
        return [{**_incident(row), "ended": _epoch(row["ended_at"])} for row in rows]

    def _cells(self, packet_bytes: int) -> list[dict[str, Any]]:
        """The cells that a page has after its refresh; without the digest of its axes the answer has that alone."""
        path = f"/grid/changes?size={packet_bytes}&since="
        answer = json.loads(_read(self._stack, f"{path}{self._axes[packet_bytes]}-"))
        if "cells" not in answer:
            self._axes[packet_bytes] = answer["version"].partition("-")[0]
            answer = json.loads(_read(self._stack, f"{path}{self._axes[packet_bytes]}-"))
        found = map(grid_cell, answer["cells"].values())
        return [cell for cell in found if cell is not None]

    def _in_turn(self, cells: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
        """The gauges each third time, at any distance from an evaluation; else the next path and size."""
        turn = next(self._turns)
        if turn % 3 == 0:
            return {"prometheus": gauges(_read(self._stack, "/metrics/paths"))}
        shown = [cell["path_id"] for cell in cells if self._is_shown(cell)]
        if not shown:
            return {}
        number, which = divmod(turn - turn // 3 - 1, len(SIZES))
        path_id, size = shown[number % len(shown)], SIZES[which]
        page = path_page(_read(self._stack, f"/paths/{path_id}/?period=hour&size={size}"))
        return {"path_page": {"path_id": path_id, "packet_bytes": size, **page}}

    def _is_shown(self, cell: Mapping[str, Any]) -> bool:
        is_told = cell["incident_id"] is not None or cell["condition"] in TROUBLE
        return is_told or (cell["source"], cell["destination"]) in self._pairs


def _grid(stack: RunningStack, metric: str) -> dict[str, Any]:
    grid = stack.get(f"grid?metric={metric}&period=now")
    cells = [{**{name: cell[name] for name in CELL}, "ended": _epoch(cell["ended_at"])} for cell in grid["cells"]]
    times = {name: _epoch(grid[name]) for name in ("since", "until")}
    return {**times, "packet_bytes": grid["packet_bytes"], "cells": cells}


def _incident(row: dict[str, Any]) -> dict[str, Any]:
    kept = {name: row[name] for name in ("id", "title", "state", "rule", "path_ids")}
    return {**kept, "began": _epoch(row["began_at"])}


def _status(stack: RunningStack) -> dict[str, Any]:
    sections = dict(SECTION.findall(_read(stack, "/status/")))
    sentence = STRONG.search(sections["mesh-state"])
    rows = [{"what": text_of(what), "when": text_of(when)} for what, when in ROW.findall(sections["open"])]
    return {"sentence": "" if sentence is None else text_of(sentence[1]), "open": rows}


def _read(stack: RunningStack, path: str) -> str:
    with urllib.request.urlopen(f"http://127.0.0.1:{stack.port}{path}", timeout=30) as answer:
        return str(answer.read().decode())


def _epoch(written: str | None) -> float | None:
    return None if written is None else datetime.fromisoformat(written).timestamp()
