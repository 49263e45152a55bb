"""STAMP between two sites of the lab: loss and delay that are planted in one direction are told of that direction.

The lab's clocks are one clock that is not synchronised, as far as the hosts know: intervals come from the round trips.
"""

from __future__ import annotations

import json
import math
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from scipy.stats import binom

from tests.lab import RunningLab, wait_until

SCENARIO = """
title = "Two sites, each direction with its own delay and loss"
seed = 5

[[site]]
name = "near"
title = "Near"
latitude_deg = 46.2
longitude_deg = 6.1
country = "CH"
region = "Europe"

[[site]]
name = "far"
title = "Far"
latitude_deg = 52.4
longitude_deg = 13.4
country = "DE"
region = "Europe"

[[path]]
from = "near"
to = "far"
delay_ms = 12
loss_ratio = 0.08
duplicate_ratio = 0.06

[[path]]
from = "far"
to = "near"
delay_ms = 31
loss_ratio = 0.02
"""
COUNT = 300
SPACING_S = 0.02
LOSS = {("near", "far"): 0.08, ("far", "near"): 0.02}
DELAY_MS = {("near", "far"): 12.0, ("far", "near"): 31.0}
PORT = "862"
CONFIDENCE = 0.9999
"""Of each of four counts, which would miss their 99% intervals in a run of 25. The relay's own counts are exact."""
MOST_UNDECIDED = 10
"""The last packets of a burst, where closing packets were lost too."""
RELAY_MS = 5.0
"""What the relay, a program on a busy machine, may add to a delay at most as a rule."""


@contextmanager
def reflectors(lab: RunningLab, key_file: Path) -> Iterator[None]:
    """A reflector at each site, which answers the other with the key."""
    started = []
    try:
        for site, peer in (("near", "far"), ("far", "near")):
            peers = ("--peer", lab.address(peer), "--key-file", str(key_file))
            started.append(
                lab.popen(site, sys.executable, "-m", "probes", "stamp", "--reflect", "--port", PORT, *peers)
            )
        for process in started:
            assert process.stdout is not None
            assert "answering" in process.stdout.readline()
        yield
    finally:
        for process in started:
            process.terminate()
        for process in started:
            process.communicate(timeout=20)


def measure(lab: RunningLab, key_file: Path) -> dict[str, dict[str, Any]]:
    """A burst from each site to the other at once, by its source."""
    options = ["-c", str(COUNT), "--spacing-s", str(SPACING_S), "--timeout-s", "1", "--json"]
    options += ["--port", PORT, "--key-file", str(key_file)]
    running = {
        site: lab.popen(site, sys.executable, "-m", "probes", "stamp", lab.address(peer), *options)
        for site, peer in (("near", "far"), ("far", "near"))
    }
    lines = {site: process.communicate(timeout=60)[0] for site, process in running.items()}
    return {site: json.loads(text.splitlines()[-1]) for site, text in lines.items()}


@pytest.fixture
def bursts(start_lab: Callable[..., RunningLab], tmp_path: Path) -> tuple[RunningLab, dict[str, dict[str, Any]]]:
    scenario, key_file = tmp_path / "scenario.toml", tmp_path / "key"
    scenario.write_text(SCENARIO)
    key_file.write_text("a2tra2tra2tra2tra2tra2tra2tra2tr")
    lab = start_lab(str(scenario))
    with reflectors(lab, key_file):
        measured = measure(lab, key_file)
        wait_until(lambda: lab.counts("near", "far").received >= COUNT, "the relay counted the packets")
    return lab, measured


def test_planted_loss_and_delay_are_told_of_their_direction(bursts) -> None:
    lab, measured = bursts
    lost = dict.fromkeys(LOSS, 0)
    for source, destination in LOSS:
        burst = measured[source]
        ways = {"forward": (source, destination), "reverse": (destination, source)}
        decided = COUNT - burst["undecided"]
        arrived = {"forward": decided, "reverse": decided - burst["forward"]["lost"]}
        assert burst["sent"] == COUNT
        assert burst["undecided"] <= MOST_UNDECIDED
        for name, way in ways.items():
            told = burst[name]
            lost[way] += told["lost"]
            low, high = binom.interval(CONFIDENCE, arrived[name], LOSS[way])
            assert low <= told["lost"] <= high, f"{source}, {name}: {told['lost']} of {arrived[name]}"
            interval_ms = told["median_interval_ms"]
            assert 0 <= interval_ms[0] <= DELAY_MS[way] + RELAY_MS
            assert interval_ms[1] >= DELAY_MS[way]
            assert told["ttl"] == 64
        # Round trips have no part of the time in the reflector.
        assert burst["rtts_ms"].count(None) == COUNT - burst["received"]
        rtt_ms = min(rtt for rtt in burst["rtts_ms"] if rtt is not None)
        assert sum(DELAY_MS.values()) <= rtt_ms <= sum(DELAY_MS.values()) + RELAY_MS
        assert burst["is_authenticated"]
    assert measured["near"]["forward"]["duplicates"] > 0
    assert measured["far"]["reverse"]["duplicates"] > 0
    # The relay counts closing packets and lost copies too.
    undecided = sum(burst["undecided"] for burst in measured.values())
    for source, destination in LOSS:
        dropped = lab.counts(source, destination).dropped_loss
        assert math.isclose(lost[source, destination], dropped, abs_tol=10 + undecided)


@contextmanager
def stamp(lab: RunningLab, site: str, *options: str) -> Iterator[subprocess.Popen[str]]:
    """`python -m probes stamp` at a site, ended with the block."""
    with lab.popen(site, sys.executable, "-m", "probes", "stamp", "--port", PORT, *options) as process:
        try:
            yield process
        finally:
            process.terminate()


def test_a_reflector_that_starts_and_stops_within_a_cycle_is_no_loss(
    start_lab: Callable[..., RunningLab], tmp_path: Path
) -> None:
    scenario = tmp_path / "scenario.toml"
    scenario.write_text(re.sub(r"(loss|duplicate)_ratio = .*", "", SCENARIO))
    lab = start_lab(str(scenario))
    cycle = (lab.address("far"), "-c", "120", "--spacing-s", "0.05", "--timeout-s", "1", "--json")
    peer = ("--reflect", "--peer", lab.address("near"))

    def wait_for_more(packets: int, source: str, destination: str) -> None:
        since = lab.counts(source, destination).received
        wait_until(lambda: lab.counts(source, destination).received >= since + packets, f"{source} sent {packets}")

    with stamp(lab, "near", *cycle) as sender:
        wait_for_more(15, "near", "far")
        with stamp(lab, "far", *peer):
            wait_for_more(30, "far", "near")
        wait_for_more(15, "near", "far")
        with stamp(lab, "far", *peer):
            line = sender.communicate(timeout=60)[0].splitlines()[-1]

    burst = json.loads(line)
    assert burst["outcome"] == "refused"
    assert "started or stopped within the cycle" in burst["detail"]
