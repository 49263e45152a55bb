"""The planted truth: impairments in time, and the state of each path that follows from them.

In: the recorded changes of a run, times in seconds since the epoch. Out: a `Truth`, which answers whether a path is
affected at a time, and its true loss, RTT and rate. Independent of the code that is scored.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

Pair = tuple[str, str]
Range = tuple[float, float]

JOINED_S = 60.0
"""Impairments of a path with a shorter gap between them are a single episode."""
LEVEL_S = 180.0
"""A level is of the last two minutes or three cycles, and a page shows it some seconds later."""
ARRIVED_S = 25.0
"""Packets of a cycle have been delivered and evaluated so long after its begin."""
FLAPS_FROM = 3
"""So many stretches make an episode a flapping path, which is not normal in the gaps either."""
FLAPS_S = 600.0
"""A path that had so many within this time flaps: docs/pages.md, conditions."""

TROUBLE = frozenset({"suspect", "bad", "flaps", "dead"})
"""Conditions of a path that has a problem: docs/prometheus.md, conditions."""


class Signal(StrEnum):
    """Measured quantity that an impairment changes."""

    LOSS = "loss"
    RTT = "rtt"
    JITTER = "jitter"
    RATE = "rate"


DELAYS = frozenset({Signal.RTT, Signal.JITTER})


class Phase(StrEnum):
    """State of a path against its impairments. `ENDING` is the time in which an ended one may still be told."""

    CLEAN = "clean"
    UNPROVED = "unproved"
    PROVED = "proved"
    ENDING = "ending"
    ENDED = "ended"


AFFECTED = frozenset({Phase.UNPROVED, Phase.PROVED, Phase.ENDING})
ACTIVE = frozenset({Phase.UNPROVED, Phase.PROVED})


@dataclass(frozen=True, slots=True)
class Impairment:
    """An impaired direction. `value` is a loss ratio, added ms, ± ms or bit/s; of a loss with `over_bytes` only larger
    packets are lost. `until` is None while it lasts."""

    signal: Signal
    source: str
    destination: str
    value: float
    since: float
    until: float | None = None
    over_bytes: int = 0

    @property
    def pairs(self) -> frozenset[Pair]:
        """The paths that measure it: a ping crosses both directions, a transfer one."""
        ends = self.source, self.destination
        return frozenset({ends} if self.signal is Signal.RATE else {ends, ends[::-1]})

    @property
    def end(self) -> float:
        return math.inf if self.until is None else self.until


@dataclass(frozen=True, slots=True)
class Stretch:
    """A time in which a path is impaired without a gap."""

    since: float
    until: float


@dataclass(frozen=True, slots=True)
class Truth:
    """The impairments of a run, the measured `pairs`, and their figures without impairments. The times are those that
    the fault allows for a proof, after the end, and beside the onset."""

    impairments: tuple[Impairment, ...]
    pairs: frozenset[Pair]
    proof_s: float
    end_s: float
    onset_s: float
    base_rtt_ms: Mapping[Pair, float] = field(default_factory=dict)
    base_loss: Mapping[Pair, float] = field(default_factory=dict)
    jitter_ms: float = 2.0

    def stretches(self, pair: Pair, signals: Collection[Signal] = tuple(Signal)) -> list[Stretch]:
        """The impaired times of a path, those that touch joined."""
        own = [each for each in self.impairments if pair in each.pairs and each.signal in signals]
        joined: list[Stretch] = []
        for each in sorted(own, key=lambda impairment: impairment.since):
            if joined and each.since - joined[-1].until < 1.0:
                joined[-1] = Stretch(joined[-1].since, max(joined[-1].until, each.end))
            else:
                joined.append(Stretch(each.since, each.end))
        return joined

    def episode(self, pair: Pair, at: float, signals: Collection[Signal] = tuple(Signal)) -> list[Stretch]:
        """The stretches around the newest one that has begun, with short gaps between them; later ones too."""
        episode: list[Stretch] = []
        for stretch in self.stretches(pair, signals):
            is_apart = bool(episode) and stretch.since - episode[-1].until > JOINED_S
            if is_apart and stretch.since > at:
                break
            episode = [stretch] if is_apart else [*episode, stretch]
        return episode if episode and episode[0].since <= at else []

    def phase(self, pair: Pair, at: float, signals: Collection[Signal] = tuple(Signal)) -> Phase:
        episode = self.episode(pair, at, signals)
        if not episode:
            return Phase.CLEAN
        is_within = at < episode[-1].until
        if is_within and len(episode) >= FLAPS_FROM and at >= episode[FLAPS_FROM - 1].since + self.proof_s:
            return Phase.PROVED
        begun = [stretch for stretch in episode if stretch.since <= at]
        if at < begun[-1].until:
            return Phase.PROVED if at - begun[-1].since >= self.proof_s else Phase.UNPROVED
        flaps_until = begun[-FLAPS_FROM].until + FLAPS_S if len(begun) >= FLAPS_FROM else -math.inf
        return Phase.ENDING if at <= max(begun[-1].until + self.end_s, flaps_until) else Phase.ENDED

    def is_impaired(self, pair: Pair, at: float) -> bool:
        return any(each.since <= at < each.until for each in self.stretches(pair))

    def level_since(self, pair: Pair, at: float, signals: Collection[Signal] = tuple(Signal)) -> float:
        """The begin of the time that a level at `at` is of: the newest onset whose packets have arrived, within
        `LEVEL_S`."""
        onsets = [each.since for each in self.stretches(pair, signals) if each.since <= at - ARRIVED_S]
        return max([at - LEVEL_S, *onsets])

    def impaired_since(self, since: float, at: float) -> frozenset[Pair]:
        """The paths with an impairment at some time from `since` to `at`."""
        return frozenset(
            pair
            for pair in self.pairs
            if any(each.since <= at and each.until >= since for each in self.stretches(pair))
        )

    def in_phase(self, at: float, phases: Collection[Phase]) -> frozenset[Pair]:
        return frozenset(pair for pair in self.pairs if self.phase(pair, at) in phases)

    def directions(self, pair: Pair, signals: Collection[Signal]) -> frozenset[Pair]:
        """The impaired directions between the ends of a path, at any time of the run."""
        ends = {pair, pair[::-1]}
        return frozenset(
            (each.source, each.destination)
            for each in self.impairments
            if each.signal in signals and (each.source, each.destination) in ends
        )

    def sizes_differ(self, pair: Pair) -> bool:
        return any(each.over_bytes and pair in each.pairs for each in self.impairments)

    def loss_range(self, pair: Pair, since: float, until: float, packet_bytes: int | None = None) -> Range:
        """Lowest and highest loss of the round trips at any time in it; of packets of all sizes alike without a size:
        those of a size-dependent loss are half of them."""
        return self._range(since, until, lambda at: self._loss(pair, at, packet_bytes))

    def rtt_range(self, pair: Pair, since: float, until: float) -> Range:
        """Lowest and highest median RTT at any time in it, in ms."""
        low, _ = self._range(since, until, lambda at: self._rtt(pair, at, -1.0))
        _, high = self._range(since, until, lambda at: self._rtt(pair, at, 1.0))
        return low, high

    def worst_rtt(self, pair: Pair, since: float, until: float) -> Range:
        """Lowest and highest that the longest median RTT of it may be, in ms."""
        return (
            self._range(since, until, lambda at: self._rtt(pair, at, -1.0))[1],
            self._range(since, until, lambda at: self._rtt(pair, at, 1.0))[1],
        )

    def rate_range(self, pair: Pair, since: float, until: float) -> Range:
        """Lowest and highest rate limit at any time in it, in bit/s; infinite without an impairment."""
        return self._range(since, until, lambda at: self._rate(pair, at))

    def _range(self, since: float, until: float, value: Any) -> Range:
        edges = {since, until}
        for each in self.impairments:
            edges |= {at for at in (each.since, each.end, each.end - 1e-3) if since < at < until}
        values = [value(at) for at in sorted(edges)]
        return min(values), max(values)

    def _active(self, pair: Pair, at: float, signal: Signal) -> Iterable[Impairment]:
        own = (each for each in self.impairments if each.signal is signal and pair in each.pairs)
        return (each for each in own if each.since <= at < each.end)

    def _loss(self, pair: Pair, at: float, packet_bytes: int | None) -> float:
        passed = 1.0 - self.base_loss.get(pair, 0.0)
        for each in self._active(pair, at, Signal.LOSS):
            share = 0.5 if packet_bytes is None else float(packet_bytes > each.over_bytes)
            passed *= 1.0 - each.value * (share if each.over_bytes else 1.0)
        return 1.0 - passed

    def _rtt(self, pair: Pair, at: float, sign: float) -> float:
        spread = sum(each.value for each in self._active(pair, at, Signal.JITTER))
        added = sum(each.value for each in self._active(pair, at, Signal.RTT))
        return self.base_rtt_ms.get(pair, 0.0) + added + sign * spread

    def _rate(self, pair: Pair, at: float) -> float:
        return min((each.value for each in self._active(pair, at, Signal.RATE)), default=math.inf)


def impairments_of(changes: Sequence[Mapping[str, Any]]) -> tuple[Impairment, ...]:
    """The impairments of recorded changes in their order: a change ends the one before of its direction and signal;
    without a value it begins none."""
    lasting: dict[tuple[str, str, str], Mapping[str, Any]] = {}
    ended: list[Impairment] = []
    for change in changes:
        key = change["signal"], change["source"], change["destination"]
        before = lasting.pop(key, None)
        if before is not None:
            ended.append(_impairment(before, float(change["at"])))
        if change["value"] is not None:
            lasting[key] = change
    return (*ended, *(_impairment(change, None) for change in lasting.values()))


def _impairment(change: Mapping[str, Any], until: float | None) -> Impairment:
    return Impairment(
        Signal(change["signal"]),
        str(change["source"]),
        str(change["destination"]),
        float(change["value"]),
        float(change["at"]),
        until,
        int(change.get("over_bytes", 0)),
    )
