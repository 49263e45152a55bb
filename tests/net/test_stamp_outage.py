"""An outage in one direction of the lab: the agents' cycles tell whose packets still arrive."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from monitor.alerts.evidence.facts import ArrivalCycles
from monitor.alerts.evidence.one_way.outage import cut_direction
from tests.lab import RunningLab
from tests.net.test_stamp import SCENARIO
from tests.outage_facts import outage_facts

LOSSLESS = (
    SCENARIO.replace("loss_ratio = 0.08", "").replace("loss_ratio = 0.02", "").replace("duplicate_ratio = 0.06", "")
)
ENDS = (("near", "far"), ("far", "near"))
CYCLES = 2


@contextmanager
def running_ends(lab: RunningLab) -> Iterator[dict[str, subprocess.Popen[str]]]:
    ends: dict[str, subprocess.Popen[str]] = {}
    try:
        for site, peer in ENDS:
            ends[site] = lab.popen(
                site, sys.executable, "-m", "tests.net.stamp_ends", lab.address(peer), stdin=subprocess.PIPE
            )
        for process in ends.values():
            assert process.stdout is not None
            assert process.stdout.readline() == "ready\n"
        yield ends
    finally:
        for process in ends.values():
            process.communicate(timeout=30)


def cycle(ends: dict[str, subprocess.Popen[str]]) -> dict[str, dict[str, int | None]]:
    """A cycle from each end in turn, by the source: each has the packets of the other's cycle before it."""
    told = {}
    for site, process in ends.items():
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write("\n")
        process.stdin.flush()
        told[site] = json.loads(process.stdout.readline())
    return told


def arrival_cycles(told: list[dict[str, dict[str, int | None]]], site: str) -> ArrivalCycles:
    counts = [each[site]["peer_packets"] for each in told]
    assert None not in counts
    return ArrivalCycles(len(counts), sum(bool(count) for count in counts))


def test_the_cut_direction_is_told_by_both_ends(start_lab: Callable[..., RunningLab], tmp_path: Path) -> None:
    scenario = tmp_path / "scenario.toml"
    scenario.write_text(LOSSLESS)
    lab = start_lab(str(scenario))
    with running_ends(lab) as ends:
        cycle(ends)
        before = [cycle(ends)]
        for cut in ([("near", "far")], [("far", "near")], list(ENDS)):
            for source, destination in cut:
                lab.set(f"{source}-{destination}", "--loss", "1")
            cycle(ends)
            after = [cycle(ends) for _ in range(CYCLES)]
            for source, destination in cut:
                lab.set(f"{source}-{destination}", "--loss", "0")

            assert all(burst["received"] == 0 and burst["undecided"] == 5 for each in after for burst in each.values())
            arrivals = {site: (arrival_cycles(before, site), arrival_cycles(after, site)) for site, _ in ENDS}
            told = cut_direction(outage_facts(*ENDS[0], there=arrivals["near"], back=arrivals["far"]))
            assert told is not None
            assert told.toward == (cut[0] if len(cut) == 1 else None)


@pytest.mark.parametrize(
    ("near", "far"), [(None, (2, 0)), ((2, 2), None), ((2, 2), (2, 2)), ((2, 0), (2, 1)), ((1, 0), (1, 0))],
    ids=["no agent near", "no agent far", "both arrive", "some arrive", "too few"],
)  # fmt: skip
def test_without_both_ends_or_enough_cycles_it_cannot_be_told(near, far) -> None:
    there, back = (None if told is None else (ArrivalCycles(5, 5), ArrivalCycles(*told)) for told in (near, far))

    assert cut_direction(outage_facts("near", "far", there=there, back=back)) is None
