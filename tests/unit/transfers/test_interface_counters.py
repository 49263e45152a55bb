"""Differences of counters: wraps, reboots, and paths that share an interface."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from probes.contract import Deadline, LoadedPeriods
from probes.interface import kernel
from probes.interface.counters import Reading, Readings, Use, use_between
from probes.interface.polled import PolledSpec
from probes.interface.probe import InterfaceProbe
from probes.interface.spec import InterfaceTarget

START = Reading(
    at_s=1000.0,
    epoch=3,
    name="eth0",
    alias=None,
    speed_bps=1e9,
    in_octets=1_000,
    out_octets=2_000,
    in_errors=5,
    out_errors=None,
    in_drops=0,
    out_drops=7,
)


def later(**changed):
    return replace(START, at_s=1060.0, **changed)


def test_use_is_the_difference_over_the_time_between():
    use = use_between(START, later(in_octets=1_000 + 750_000_000, out_octets=2_000 + 75, in_errors=8, out_drops=7))

    assert use == Use(60.0, 1e8, 10.0, 3, None, 0, 0)


def test_a_counter_that_passes_its_largest_value_goes_on():
    before = replace(START, in_octets=2**64 - 500, in_errors=2**32 - 2, error_bits=32)
    use = use_between(before, later(in_octets=250, in_errors=1, error_bits=32))

    assert (use.in_bps, use.in_errors) == (pytest.approx(100.0), 3)


@pytest.mark.parametrize(
    "after",
    [
        later(epoch=4, in_octets=5_000, out_octets=5_000),
        later(in_octets=10, out_octets=2_000),
        replace(START, at_s=30.0, in_octets=5_000),
        replace(START, in_octets=5_000),
    ],
    ids=["another epoch", "a lower counter", "a router that restarted", "no time between"],
)
def test_counters_that_began_anew_give_no_use(after):
    assert use_between(START, after) == "the counters began anew"


def test_errors_counted_from_zero_again_are_those_since():
    assert use_between(replace(START, in_errors=1000), later(in_errors=4)).in_errors == 4


def test_paths_that_share_an_interface_each_have_the_whole_interval(monkeypatch):
    octets = iter(range(0, 10**9, 7_500_000))
    clock = iter([0.0, 0.1, 60.0, 60.1])
    monkeypatch.setattr(
        kernel, "read", lambda *_: replace(START, at_s=next(clock), in_octets=next(octets), out_octets=0)
    )
    probe = InterfaceProbe(Readings())
    spec = PolledSpec(
        targets=(InterfaceTarget(address="192.0.2.1", path_id=1), InterfaceTarget(address="192.0.2.2", path_id=2))
    )
    tests = LoadedPeriods(there={1: [(datetime.now(UTC) - timedelta(seconds=30), datetime.now(UTC))]})
    first = probe.run(spec, Deadline(9), lambda: tests)
    second = probe.run(spec, Deadline(9), lambda: tests)

    assert [(run.in_bps, run.detail is None, run.beside_tests) for run in first] == [(None, False, False)] * 2
    assert [(run.target, run.interval_s, run.in_bps) for run in second] == [
        ("192.0.2.1", 60.0, 2e6),
        ("192.0.2.2", 60.0, 2e6),
    ]
    assert [run.beside_tests for run in second] == [False, True]
