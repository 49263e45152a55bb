"""The direction of a fault by throughput tests: transfers slow down where their data, not acknowledgements, are
lost."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from statistics import median

from monitor.alerts.evidence.facts import Facts, PathTests
from monitor.analysis import figures as shown
from monitor.archive.outcomes import outcome_words
from monitor.mesh.models import KindName
from probes.contract import Outcome
from probes.quantities import with_unit

# A direction is slow if its tests since the beginning are below this share of those before.
FELL = 0.5
# Without tests before, a direction is slow if the other is this many times as fast.
APART = 5.0

# A direction loses from this share of segments retransmitted, in tests that filled no queue: BBRv2's limit.
LOSES = 0.02
# Required multiple of the other direction's share, queues included, and of the path's share before.
MORE = 3.0

# Tests before, to compare the share retransmitted with: a single test may show its own slow start.
LEAST_BEFORE = 2

Ends = tuple[str, str]


@dataclass(frozen=True, slots=True)
class TestedDirection:
    """The direction of a fault by throughput tests, as part of a sentence."""

    text: str
    toward: Ends | None = None  # if the tests tell it; a site's other end is empty
    wanted: str = "throughput tests in both directions"  # tests that could still tell it, or empty


NOT_KNOWN = "direction not known from pings"


@dataclass(frozen=True, slots=True)
class _OtherTest:
    """A test since the beginning that measured no rate."""

    path: str
    at: datetime
    outcome: str | None  # None while it has no result
    transferred_bytes: int | None = None
    duration_s: float | None = None

    @property
    def text(self) -> str:
        test = f"the test of {self.path} at {self.at:%H:%M:%S} UTC"
        if self.outcome is None:
            return f"{test} has no result yet"
        if self.transferred_bytes and self.duration_s:
            transferred = with_unit(float(self.transferred_bytes), "B")
            return f"{test} did not finish: {transferred} in {shown.duration(self.duration_s)}"
        return f"{test} failed: {outcome_words(self.outcome)}"


@dataclass(frozen=True, slots=True)
class _SideRates:
    """Medians of the tests in one direction."""

    label: str
    ends: Ends
    goal: str
    before_bps: float | None
    after_bps: float | None
    is_most: bool  # `after_bps` is an upper bound
    other: _OtherTest | None  # newest test without a rate
    before_loss_ratio: float | None = None  # of tests that filled no queue themselves
    after_loss_ratio: float | None = None  # of tests that filled no queue themselves
    after_resent_ratio: float | None = None
    before_resent_ratio: float | None = None

    @property
    def share(self) -> float | None:
        if self.before_bps is None or self.after_bps is None or not self.before_bps:
            return None
        return self.after_bps / self.before_bps

    @property
    def rate_text(self) -> str:
        was = "" if self.before_bps is None else f" (was {shown.bit_rate(self.before_bps)})"
        most = "at most " if self.is_most else ""
        return f"{self.label} {most}{shown.bit_rate(self.after_bps)}{was}"

    @property
    def of_label(self) -> str:
        """`of slac → cern`, `from slac`."""
        return self.label if self.label.startswith(("from ", "to ")) else f"of {self.label}"

    @property
    def text(self) -> str:
        """Rate and retransmissions; the earlier only if fewer: a slow transfer overflows no queue."""
        resent = ""
        if self.after_resent_ratio is not None:
            resent = f", {shown.percent(self.after_resent_ratio)} retransmitted"
            if self.before_resent_ratio is not None and self.before_resent_ratio <= self.after_resent_ratio:
                resent += f" (was {shown.percent(self.before_resent_ratio)})"
            if self.after_loss_ratio is None:
                resent += ", from a queue of the tests"
        return f"{self.rate_text}{resent}"


def tested_direction(facts: Facts) -> TestedDirection:
    sides = _sides(facts)
    if sides is None:
        return TestedDirection(NOT_KNOWN)
    there, back = sides
    when = "since the onset" if facts.ended_at is None else "while it lasted"
    wanted = _wanted(sides)
    measured = [side for side in sides if side.after_bps is not None]
    if not measured and there.other is None and back.other is None:
        return TestedDirection(f"{NOT_KNOWN}; no throughput test {when}")
    others = _other_tests(when, sides)
    if not measured:
        return TestedDirection(f"{NOT_KNOWN}{others}", wanted=wanted)
    tests = f"TCP tests: {'; '.join(side.text for side in measured)}{others}"
    both = ((there, back), (back, there))
    slow = [side for side, other in both if _is_slow(side, other)]
    lossy = [side for side, other in both if _loses(side, other)]
    if len(slow) == 1 and lossy and lossy != slow:
        return TestedDirection(f"{NOT_KNOWN}; {tests}: rates and retransmissions disagree", wanted=wanted)
    slow = slow or lossy
    if len(slow) == 1:
        other = back if slow[0] is there else there
        if other.after_bps is None or other.is_most:
            return TestedDirection(f"{NOT_KNOWN}; {tests}", wanted=wanted)
        if not lossy:
            # Retransmissions that do not tell the direction may seem to tell the other.
            tests = f"TCP tests: {'; '.join(side.rate_text for side in measured)}{others}"
        return TestedDirection(f"{NOT_KNOWN}; {tests}, so {slow[0].goal}", slow[0].ends)
    if len(slow) == 2:
        return TestedDirection(f"{NOT_KNOWN}; {tests}: both directions", wanted=wanted)
    if len(measured) == 1 or any(side.is_most for side in measured):
        return TestedDirection(f"{NOT_KNOWN}; {tests}", wanted=wanted)
    return TestedDirection(f"{NOT_KNOWN}; {tests}: no direction is clearly slower or loses more", wanted=wanted)


def _other_tests(when: str, sides: Sequence[_SideRates]) -> str:
    failed = [f"; {side.other.text}" for side in sides if side.other is not None]
    missing = [f"; no test {side.of_label} {when}" for side in sides if side.after_bps is None and side.other is None]
    return "".join(failed + missing)


def _wanted(sides: Sequence[_SideRates]) -> str:
    wanted = [
        f"{side.of_label}{'' if side.other is None else ' again'}"
        for side in sides
        if side.after_bps is None and (side.other is None or side.other.outcome is not None)
    ]
    return f"a throughput test {' and '.join(wanted)}" if wanted else ""


def _is_slow(side: _SideRates, other: _SideRates) -> bool:
    if side.share is not None:
        return side.share < FELL
    if side.after_bps is None or other.after_bps is None or other.share is not None or other.is_most:
        return False
    return side.after_bps * APART < other.after_bps


def _loses(side: _SideRates, other: _SideRates) -> bool:
    """Whether far more is lost in this direction than in the other, and than before."""
    loss_ratio = side.after_loss_ratio
    if loss_ratio is None or other.after_resent_ratio is None:
        return False
    usual_ratio = max(other.after_resent_ratio, side.before_loss_ratio or 0.0)
    return loss_ratio >= max(LOSES, MORE * usual_ratio)


def _sides(facts: Facts) -> tuple[_SideRates, _SideRates] | None:
    """Both directions: between two hosts, or from and to the shared site or host."""
    pairs = {frozenset((path.source_site, path.destination_site)) for path in facts.paths}
    if not facts.tests or not all(all(pair) for pair in pairs):
        return None
    hosts = {tuple(path.name.split(" → ")) for path in facts.paths}
    if len({frozenset(ends) for ends in hosts}) == 1:
        source, destination = next(iter(sorted(hosts)))
        return (
            _rates(facts, f"{source} → {destination}", (source, destination), f"toward {destination}",
                   lambda test: (test.source, test.destination) == (source, destination)),
            _rates(facts, f"{destination} → {source}", (destination, source), f"toward {source}",
                   lambda test: (test.source, test.destination) == (destination, source)),
        )  # fmt: skip
    shared = frozenset.intersection(*(frozenset(ends) for ends in hosts)) or frozenset.intersection(*pairs)
    if len(shared) != 1:
        return None
    (name,) = shared
    return (
        _rates(facts, f"from {name}", (name, ""), f"out of {name}",
               lambda test: name in (test.source, test.source_site)),
        _rates(facts, f"to {name}", ("", name), f"into {name}",
               lambda test: name in (test.destination, test.destination_site)),
    )  # fmt: skip


def _rates(facts: Facts, label: str, ends: Ends, goal: str, holds: Callable[[PathTests], bool]) -> _SideRates:
    own = [test for test in facts.tests if holds(test)]
    most_bps = [test.after_bps if test.after_most_bps is None else test.after_most_bps for test in own]
    after_bps, is_most = _median(most_bps), any(test.after_most_bps is not None for test in own)
    measured_at = max((test.after_at for test in own if test.after_at is not None), default=None)
    other = _newest_other(facts, own, label)
    has_tests_since = [test for test in own if test.after or test.after_most_bps is not None]
    return _SideRates(
        label,
        ends,
        goal,
        _median([test.before_bps for test in has_tests_since]),
        after_bps,
        is_most,
        other if is_most or measured_at is None or (other is not None and other.at > measured_at) else None,
        _median([test.before_loss_ratio for test in own if test.after]),
        _median([test.after_loss_ratio for test in own]),
        _median([test.after_resent_ratio for test in own]),
        _median([test.before_resent_ratio for test in own if test.after and test.before >= LEAST_BEFORE]),
    )


def _newest_other(facts: Facts, own: Sequence[PathTests], label: str) -> _OtherTest | None:
    failed = [
        _OtherTest(f"{test.source} → {test.destination}", of.at, of.outcome, of.transferred_bytes, of.duration_s)
        for test in own
        if (of := test.failed) is not None
    ]
    names = {label, *(f"{test.source} → {test.destination}" for test in own)}
    slots = [
        _OtherTest(test.path, test.starts_at, test.outcome)
        for test in facts.own_tests
        if test.kind == KindName.THROUGHPUT and test.path in names
    ]
    awaited = [test for test in slots if test.outcome is None]
    # One without a result of its agents has the outcome of its slot alone.
    unreported = [test for test in slots if test.outcome not in (None, Outcome.MEASURED) and not failed]
    return max([*failed, *awaited, *unreported], key=lambda test: test.at, default=None)


def _median(values: Sequence[float | None]) -> float | None:
    measured = [value for value in values if value is not None]
    return median(measured) if measured else None
