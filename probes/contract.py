"""The interface of every kind of measurement: takes a spec, returns a result with exactly one outcome.

A probe measures and nothing else. It raises `ProbeError` when it cannot; the runner turns that into a result.
Deadline, storage, delivery and schedule belong to the runner (`probes.site`), not to the probe.
"""

from __future__ import annotations

import time
from enum import StrEnum
from typing import Protocol, TypeVar


class Outcome(StrEnum):
    """The outcome of a planned measurement. Total loss is `MEASURED`: it is a result, not a failure."""

    MEASURED = "measured"
    DNS_FAILURE = "dns_failure"
    NOT_PERMITTED = "not_permitted"
    NO_ROUTE = "no_route"
    TOOL_FAILURE = "tool_failure"
    BUSY = "busy"
    REFUSED = "refused"
    MISSED = "missed"


class ProbeError(Exception):
    """A measurement that failed: its outcome, and whether the failure is permanent, so that a retry cannot help."""

    outcome: Outcome = Outcome.TOOL_FAILURE
    permanent: bool = False

    def __init__(self, message: str, *, outcome: Outcome | None = None, permanent: bool | None = None) -> None:
        super().__init__(message)
        if outcome is not None:
            self.outcome = outcome
        if permanent is not None:
            self.permanent = permanent


class NameNotResolved(ProbeError):
    outcome = Outcome.DNS_FAILURE


class NotPermitted(ProbeError):
    outcome = Outcome.NOT_PERMITTED
    permanent = True


class NoRoute(ProbeError):
    outcome = Outcome.NO_ROUTE


class Deadline:
    """The time on the monotonic clock by which a measurement must have ended."""

    __slots__ = ("_at",)

    def __init__(self, seconds: float) -> None:
        self._at = time.monotonic() + seconds

    @property
    def remaining_s(self) -> float:
        """Seconds left, never below zero."""
        return max(0.0, self._at - time.monotonic())

    @property
    def passed(self) -> bool:
        return time.monotonic() >= self._at


SpecT = TypeVar("SpecT", contravariant=True)
ResultT = TypeVar("ResultT", covariant=True)


class Probe(Protocol[SpecT, ResultT]):
    """A kind of measurement; `probes.registry` lists all kinds."""

    def can_run(self, spec: SpecT) -> list[str]:
        """Reasons why this host cannot measure `spec`, each with a fix; empty if it can."""

    def run(self, spec: SpecT, deadline: Deadline) -> ResultT:
        """Measure. Raises `ProbeError`; any other exception is a bug."""
