"""Stored runs: a file of JSON lines for each planted fault, and the truth that follows from it.

The first line is the fault, the others are a `path` that is measured besides those of the lab, a `change` of the lab, a
`poll`, or the `end`. Times are seconds since the epoch.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from probes.lab.scenario import load_scenario
from tests.lab_truth.faults import BY_NAME, LabFault
from tests.lab_truth.truth import Pair, Truth, impairments_of

SCENARIO = "five-sites"
COUNTS = ("paths", "with_problems", "back_to_normal", "normal", "being_checked", "overdue", "awaited", "without_data")
"""Counts of the state of the mesh; they add up to the paths."""


@dataclass(frozen=True, slots=True)
class StoredRun:
    """A planted fault with its polls. `is_calm`: no statement of a problem was left at its end."""

    fault: LabFault
    truth: Truth
    polls: tuple[Mapping[str, Any], ...]
    is_calm: bool


def read_runs(folder: Path) -> Iterator[StoredRun]:
    """The runs of a folder in the order of their files' names. Raises `SystemExit` for a folder without any."""
    files = sorted(folder.glob("*.jsonl"))
    if not files:
        raise SystemExit(f"{folder} has no stored runs: write the folder of an earlier --keep")
    for file in files:
        yield stored_run([json.loads(line) for line in file.read_text().splitlines()])


def stored_run(lines: Sequence[Mapping[str, Any]]) -> StoredRun:
    """The run of these lines."""
    of_type: dict[str, list[Mapping[str, Any]]] = {}
    for line in lines:
        of_type.setdefault(line["type"], []).append(line)
    fault, ends = BY_NAME[of_type["fault"][0]["name"]], of_type.get("end", [])
    more = {(line["source"], line["destination"]): line["host_at"] for line in of_type.get("path", [])}
    truth = truth_of(fault, of_type.get("change", []), more)
    polls = tuple(map(_with_disjoint_counts, of_type.get("poll", [])))
    return StoredRun(fault, truth, polls, bool(ends) and bool(ends[-1]["is_calm"]))


def _with_disjoint_counts(poll: Mapping[str, Any]) -> Mapping[str, Any]:
    """In earlier runs the paths back to normal were among those with problems too, so the sum exceeded the paths."""
    state = poll["state"]
    by_state = (value for name, value in state.items() if name in COUNTS and name != "paths")
    if sum(by_state) <= state["paths"]:
        return poll
    return {**poll, "state": {**state, "with_problems": state["with_problems"] - state["back_to_normal"]}}


def truth_of(fault: LabFault, changes: Sequence[Mapping[str, Any]], more: Mapping[Pair, str]) -> Truth:
    """The truth of these changes of the lab, with `more` paths besides its own, each with the site that has the
    address of its destination."""
    paths = load_scenario(SCENARIO).paths
    crossed = {pair: (pair, pair[::-1]) for pair in paths}
    crossed |= {pair: ((pair[0], host_at), (host_at, pair[0])) for pair, host_at in more.items()}
    ends = {pair: (paths[there], paths[back]) for pair, (there, back) in crossed.items()}
    return Truth(
        impairments_of(changes),
        frozenset(ends),
        fault.proof_s,
        fault.end_s,
        fault.onset_s,
        {pair: there.delay_ms + back.delay_ms for pair, (there, back) in ends.items()},
        {pair: 1 - (1 - there.loss_ratio) * (1 - back.loss_ratio) for pair, (there, back) in ends.items()},
    )
