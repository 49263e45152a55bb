"""The twelve planted faults: their changes in time, and the times that each allows for a proof and after its end."""

from __future__ import annotations

from dataclasses import dataclass, field

from tests.lab_truth.truth import Signal

SITES = ("slac", "nersc", "ornl", "cern", "in2p3")
TOTAL = 1.0


@dataclass(frozen=True, slots=True)
class PlannedChange:
    """A change `at_s` after the begin, of a direction; without a value it restores it. `value` and `over_bytes` are
    those of `tests.lab_truth.truth.Impairment`."""

    at_s: float
    signal: Signal
    source: str
    destination: str
    value: float | None
    over_bytes: int = 0


@dataclass(frozen=True, slots=True)
class LabFault:
    """A fault that ends by itself after `lasts_s`. `proof_s` is the time until its packets prove it, with delivery and
    evaluation; `end_s` the time after its end in which it may still be told; `onset_s` the half-width of the 95% set of
    its onset. `needs_tests` is the number of throughput tests of the path before it."""

    name: str
    title: str
    lasts_s: float
    proof_s: float
    end_s: float
    onset_s: float
    changes: tuple[PlannedChange, ...] = field(default=())
    needs_tests: int = 0
    has_new_path: bool = False


def _direction(
    signal: Signal, source: str, destination: str, value: float, since_s: float, until_s: float, over_bytes: int = 0
) -> tuple[PlannedChange, ...]:
    return (
        PlannedChange(since_s, signal, source, destination, value, over_bytes),
        PlannedChange(until_s, signal, source, destination, None),
    )


def _dead(a: str, b: str, since_s: float, until_s: float) -> tuple[PlannedChange, ...]:
    """No packet between two sites, in either direction."""
    there = _direction(Signal.LOSS, a, b, TOTAL, since_s, until_s)
    return *there, *_direction(Signal.LOSS, b, a, TOTAL, since_s, until_s)


def _creep(source: str, destination: str, step_ms: float, every_s: float, steps: int) -> tuple[PlannedChange, ...]:
    rises = (
        PlannedChange(number * every_s, Signal.RTT, source, destination, (number + 1) * step_ms)
        for number in range(steps)
    )
    return *rises, PlannedChange(steps * every_s + 120.0, Signal.RTT, source, destination, None)


def _outages(a: str, b: str, on_s: float, off_s: float, number: int) -> tuple[PlannedChange, ...]:
    begins = [turn * (on_s + off_s) for turn in range(number)]
    return tuple(change for begin in begins for change in _dead(a, b, begin, begin + on_s))


def _others(site: str, besides: tuple[str, ...] = ()) -> list[str]:
    return [name for name in SITES if name not in (site, *besides)]


# A path sends 20 pings in 10 s, delivered after the cycle, for an evaluation each 10 s: 25 s until they are told.
# 300 packets prove 3% above a limit of 1% in 19 of 20 cases, 25 prove 25%, and 150 and 12 without a loss its end.
# Two whole cycles prove an outage, a reply its end; three bursts prove an RTT, two its end.
# Pings during throughput tests do not count, about a fifth of them.
FAULTS = (
    LabFault("loss-3", "3% one way", 480, 240, 100, 60, _direction(Signal.LOSS, "ornl", "slac", 0.03, 0, 480)),
    LabFault("loss-25", "25% one way", 180, 60, 40, 15, _direction(Signal.LOSS, "cern", "ornl", 0.25, 0, 180)),
    LabFault("rtt-60", "+60 ms", 360, 75, 45, 15, _direction(Signal.RTT, "ornl", "nersc", 60, 0, 360)),
    # A rise of 10 ms, which is the least that matters, takes 150 s here, and its onset has no edge.
    LabFault("rtt-creep", "+2 ms each 30 s up to 48", 840, 300, 90, 240, _creep("slac", "cern", 2, 30, 24)),
    LabFault(
        "site-down", "a site down 3 min", 180, 45, 30, 10,
        tuple(change for other in _others("cern") for change in _dead("cern", other, 0, 180)),
    ),
    LabFault(
        "site-part", "a site without six of its eight paths, one returns early", 240, 45, 30, 10,
        tuple(
            change
            for other in _others("in2p3", ("cern",))
            for change in _dead("in2p3", other, 0, 120 if other == "ornl" else 240)
        ),
    ),
    # Two tests, a minute apart, and then the next one that is fast again.
    LabFault(
        "rate-3", "50 → 3 Mbit/s", 300, 180, 160, 70,
        _direction(Signal.RATE, "cern", "in2p3", 3e6, 0, 300), needs_tests=8,
    ),
    LabFault(
        "two", "two faults at once on different paths", 300, 75, 45, 20,
        (
            *_direction(Signal.LOSS, "nersc", "cern", 0.12, 0, 300),
            *_direction(Signal.RTT, "slac", "in2p3", 40, 0, 300),
        ),
    ),
    LabFault(
        "large", "only packets over 600 B", 240, 60, 40, 10,
        _direction(Signal.LOSS, "ornl", "cern", TOTAL, 0, 240, 600),
    ),
    LabFault("flap", "20 s on and off, seven times", 260, 45, 30, 10, _outages("cern", "ornl", 20, 20, 7)),
    LabFault("jitter", "jitter ±30 ms", 390, 200, 90, 60, _direction(Signal.JITTER, "slac", "ornl", 30, 0, 390)),
    LabFault(
        "new-path", "a new path whose host answers from the second burst on", 240, 45, 30, 10, has_new_path=True
    ),
)  # fmt: skip
BY_NAME = {fault.name: fault for fault in FAULTS}
