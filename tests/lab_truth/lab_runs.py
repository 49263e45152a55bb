"""Runs a lab with a centre of its own, plants faults one after the other, and stores the polls of each.

In: the faults, how often each is planted, and a folder. Out: a file for each, as `tests.lab_truth.stored` reads it. The
lab is in a temporary folder, and is ended in any case.
"""

from __future__ import annotations

import json
import signal
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tests.e2e.stack import RunningStack, running_stack
from tests.lab_truth.faults import LabFault
from tests.lab_truth.new_path import NEW_SITES, NewPathPlanting, allow_new_path
from tests.lab_truth.planting import LabPlanting, Planting, Record
from tests.lab_truth.polling import Poller
from tests.lab_truth.stored import SCENARIO

POLL_EVERY_S = 5.0
STEP_S = 0.1
QUIET_PACKETS = 300
"""Packets of a size on every path of the grid, at one a second: a loss is judged from half of its ten minutes on, and
14 bursts are the baseline of an RTT."""
WARM_UP_S = 1500.0
CALM_S = 900.0
"""The longest wait for the end of all statements; the next fault is planted then all the same."""
CALM_POLLS = 6
FREQUENT = """
[[test]]
name = "frequent"
kind = "throughput"
every_s = 60
duration_s = 3

[[group]]
name = "compared"
shape = "between"
from = ["{source}"]
to = ["{destination}"]
tests = ["frequent"]
"""


def run_faults(faults: Sequence[LabFault], times: int, folder: Path) -> None:
    """Plant the faults in a fresh lab, all of them as often as asked; their polls are in the folder as they come."""
    if times > len(NEW_SITES) and any(fault.has_new_path for fault in faults):
        raise SystemExit(f"a new path can be planted {len(NEW_SITES)} times in a lab: use a smaller --times")
    # Ended from outside, it ends its lab too.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    with running_stack("--lab", SCENARIO) as stack:
        began = time.monotonic()
        _prepare(stack, faults)
        _say(f"the baseline took {time.monotonic() - began:.0f} s")
        earlier: list[dict[str, Any]] = []
        for number, (turn, fault) in enumerate((turn, fault) for turn in range(times) for fault in faults):
            file = folder / f"{number:03}-{fault.name}-{turn + 1}.jsonl"
            earlier = _run_fault(stack, fault, turn, file, earlier)


def _prepare(stack: RunningStack, faults: Sequence[LabFault]) -> None:
    """Wait until every path has a baseline and nothing is told."""
    if any(fault.has_new_path for fault in faults):
        allow_new_path(stack)
    tested = [fault for fault in faults if fault.needs_tests]
    for fault in tested:
        mesh, change = stack.data / "lab" / "mesh.toml", fault.changes[0]
        mesh.write_text(mesh.read_text() + FREQUENT.format(source=change.source, destination=change.destination))
        stack.manage("mesh", "apply", str(mesh))
    until, poller = time.monotonic() + WARM_UP_S, Poller(stack)
    while not (_is_measured(stack) and _is_calm(poller.poll()) and all(_has_tests(stack, each) for each in tested)):
        if time.monotonic() > until:
            raise SystemExit(f"no baseline within {WARM_UP_S:.0f} s: {stack.get('state')['sentence']}")
        time.sleep(POLL_EVERY_S)


def _is_measured(stack: RunningStack) -> bool:
    cells = stack.get("grid?metric=loss_ratio&period=now")["cells"]
    counts = [int(cell["sent"] or 0) for cell in cells]
    return min(counts, default=0) >= QUIET_PACKETS


def _has_tests(stack: RunningStack, fault: LabFault) -> bool:
    ends = fault.changes[0].source, fault.changes[0].destination
    [path] = [row["id"] for row in stack.get("paths") if (row["source"]["site"], row["destination"]["site"]) == ends]
    tests = stack.get(f"paths/{path}/throughput")
    measured = [test for test in tests if test["outcome"] == "measured"]
    return len(measured) >= fault.needs_tests


def _is_calm(taken: dict[str, Any]) -> bool:
    """Whether nothing is told: no incident, and no path with a problem, being checked or without data."""
    counts = taken["state"]
    said = (counts[name] for name in ("with_problems", "being_checked", "awaited", "without_data"))
    return not taken["incidents"] and sum(said) == 0


def _run_fault(
    stack: RunningStack, fault: LabFault, turn: int, file: Path, earlier: list[dict[str, Any]]
) -> list[dict[str, Any]]:
    """Plant a fault and poll until it is over and nothing is told any more. Returns its changes where something still
    is, for the truth of the next one."""
    changes: list[dict[str, Any]] = []
    with file.open("w", buffering=1) as stored:

        def record(line: dict[str, Any]) -> None:
            stored.write(json.dumps(line, ensure_ascii=False) + "\n")
            changes.extend([line] if line["type"] == "change" else [])

        record({"type": "fault", "name": fault.name, "at": time.time()})
        for line in earlier:
            stored.write(json.dumps(line) + "\n")
        planting: Planting = LabPlanting(stack, fault, record)
        if fault.has_new_path:
            planting = NewPathPlanting(stack, fault.lasts_s, turn, record)
        _say(f"{fault.title}: planted")
        try:
            is_calm = _poll_until_calm(stack, fault, planting, record)
        finally:
            planting.restore()
        record({"type": "end", "at": time.time(), "is_calm": is_calm})
    _say(f"{fault.title}: {'calm' if is_calm else 'still told'}")
    return [] if is_calm else changes


def _poll_until_calm(stack: RunningStack, fault: LabFault, planting: Planting, record: Record) -> bool:
    ends = [(change.source, change.destination) for change in fault.changes]
    poller = Poller(stack, {*ends, *(pair[::-1] for pair in ends)})
    began, next_poll_s, calm = time.monotonic(), 0.0, 0
    while True:
        passed_s = time.monotonic() - began
        planting.step(passed_s)
        if passed_s >= next_poll_s:
            taken = poller.poll()
            record(taken)
            next_poll_s = max(next_poll_s + POLL_EVERY_S, passed_s)
            calm = calm + 1 if passed_s > fault.lasts_s + fault.end_s and _is_calm(taken) else 0
            if calm >= CALM_POLLS or passed_s > fault.lasts_s + CALM_S:
                return calm >= CALM_POLLS
        time.sleep(STEP_S)


def _say(line: str) -> None:
    print(f"{time.strftime('%H:%M:%S', time.gmtime())} {line}", file=sys.stderr, flush=True)
