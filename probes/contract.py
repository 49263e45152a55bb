"""The interface of every kind of measurement.

A probe only measures; deadline, storage, delivery and schedule belong to `probes.site.runner`.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from types import MappingProxyType
from typing import Any, ClassVar, Literal, Protocol, TypeVar

import msgspec

from probes.free_text import cleaned


class Outcome(StrEnum):
    """The outcome of a planned measurement. Total loss is `MEASURED`: a result, not a failure."""

    MEASURED = "measured"
    DNS_FAILURE = "dns_failure"
    NOT_PERMITTED = "not_permitted"
    NO_ROUTE = "no_route"
    TOOL_FAILURE = "tool_failure"
    BUSY = "busy"
    REFUSED = "refused"
    MISSED = "missed"


class ProbeError(Exception):
    """A failed measurement, with its outcome and the figures known all the same."""

    outcome: Outcome = Outcome.TOOL_FAILURE
    permanent: bool = False  # a retry cannot help

    def __init__(
        self,
        message: str,
        *,
        outcome: Outcome | None = None,
        permanent: bool | None = None,
        figures: Mapping[str, Any] = MappingProxyType({}),
    ) -> None:
        # Texts of other programs and machines are in it, and it goes into results, logs and mails.
        super().__init__(cleaned(message))
        self.figures = figures
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
    """The monotonic time by which a measurement must have ended."""

    __slots__ = ("_at",)

    def __init__(self, seconds: float) -> None:
        self._at = time.monotonic() + seconds

    @property
    def remaining_s(self) -> float:
        return max(0.0, self._at - time.monotonic())

    @property
    def passed(self) -> bool:
        return time.monotonic() >= self._at


SpecT = TypeVar("SpecT", contravariant=True)
ResultT = TypeVar("ResultT", covariant=True)


class Probe(Protocol[SpecT, ResultT]):
    """Measures for a kind."""

    def can_run(self, spec: SpecT) -> list[str]:
        """Reasons why this host cannot measure `spec`, each with a fix."""

    def run(self, spec: SpecT, deadline: Deadline) -> ResultT:
        """Measure. Raises `ProbeError`; any other exception is a bug."""


class Result(Protocol):
    """Fields of every result."""

    @property
    def family(self) -> Literal[4, 6]: ...
    @property
    def started_at(self) -> datetime: ...
    @property
    def outcome(self) -> Outcome: ...
    @property
    def detail(self) -> str | None: ...


class CycleTask(Protocol):
    """A test that a plan repeats."""

    @property
    def test(self) -> str: ...
    @property
    def every_s(self) -> int: ...


class Slot(Protocol):
    """A scheduled execution of a test, as sent to each of its two ends."""

    @property
    def slot_id(self) -> int: ...
    @property
    def path_id(self) -> int: ...
    @property
    def test(self) -> str: ...
    @property
    def role(self) -> Literal["client", "server"]: ...
    @property
    def starts_at(self) -> datetime: ...
    @property
    def ends_at(self) -> datetime: ...
    @property
    def spec(self) -> Any: ...


# Begin and end of a throughput test, both included.
LoadPeriod = tuple[datetime, datetime]


@dataclass(frozen=True, slots=True)
class LoadedPeriods:
    """Periods of our own throughput tests."""

    here: Sequence[LoadPeriod] = ()  # on this host, which load all paths; a running test's end is now
    # between a target and others, by the target's index in the spec
    there: Mapping[int, Sequence[LoadPeriod]] = field(default_factory=dict)

    def of_target(self, index: int) -> list[LoadPeriod]:
        return [*self.here, *self.there.get(index, ())]


# Returns the periods until now.
LoadPeriods = Callable[[], LoadedPeriods]


class FarEnd(Protocol):
    """The listening end of a slot."""

    def serve(self, spec: Any, deadline: Deadline) -> object | None:
        """Serve a test; return its statistics, None if no client connected. Raises `ProbeError`."""

    def decline(self, spec: Any, outcome: Outcome, detail: str, deadline: Deadline) -> None:
        """Tell the client why, if the kind can."""


class CheckResult(msgspec.Struct, frozen=True, kw_only=True):
    """Result of a check of `site doctor`."""

    check: str
    detail: str = msgspec.field(name="found")
    fix: str | None = msgspec.field(name="mend", default=None)  # advice for people; None if the check passed

    @property
    def is_good(self) -> bool:
        return self.fix is None


@dataclass(frozen=True, slots=True)
class Command:
    """Module and help summary of the command `python -m probes NAME`."""

    module: str
    summary: str


@dataclass(frozen=True, slots=True)
class Target:
    """A path of a cycle."""

    path_id: int | None
    address: str  # name or address; literal once resolved
    family: Literal[4, 6]
    planned: Any  # its entry in the plan


@dataclass(frozen=True, slots=True)
class Load:
    """Measurements that a site already makes."""

    running: Mapping[str, tuple[CycleTask, tuple[Target, ...]]]  # this kind's running cycles and their targets, by test
    packets_within_hour: Callable[[str], int]  # packets sent to an address within the hour


def targets_of_spec(task: Any) -> tuple[Target, ...]:
    return tuple(Target(target.path_id, target.address, target.family, target) for target in task.spec.targets)


def nothing_forbidden(limits: Any, task: Any, targets: Sequence[Target], load: Load) -> list[str | None]:
    return [None] * len(targets)


def nothing_to_check(limits: Any, tasks: Sequence[Any]) -> Iterable[CheckResult]:
    return ()


def run_probe(probe: Probe[SpecT, ResultT], spec: SpecT, deadline: Deadline, load_periods: LoadPeriods) -> ResultT:
    return probe.run(spec, deadline)


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """A kind of measurement, as the agent runs it."""

    schedule: ClassVar[Literal["cycle", "slot"]]

    name: str
    task: type[msgspec.Struct]  # its part of a plan
    results: tuple[type[msgspec.Struct], ...]  # structs of results: measuring end first, then a far end that reports
    hours: str  # section of limits.toml with its hours
    limits: Mapping[str, type[msgspec.Struct]] = field(default_factory=dict)  # its own sections of limits.toml
    probe: Callable[[], Probe[Any, Any]]  # loads the measuring part, which may need far more memory than the rest
    command: Command | None = None
    # whether this host can measure these tasks, which may be empty
    check: Callable[[Any, Sequence[Any]], Iterable[CheckResult]] = nothing_to_check

    @property
    def field(self) -> str:
        """Its name in a plan and in Celery tasks."""
        return self.name.replace("-", "_")


@dataclass(frozen=True, slots=True, kw_only=True)
class CycleKind(Kind):
    """A kind that runs in repeated cycles over many paths.

    A run gives equally many results for each target, in order. Without `is_under_load`, any throughput test of ours
    during the run counts.
    """

    schedule: ClassVar[Literal["cycle", "slot"]] = "cycle"

    one_at_a_time: bool = False  # paths one by one in random order, else all at the interval's begin
    targets: Callable[[Any], tuple[Target, ...]]  # paths of a task's cycle
    spec: Callable[[Any, Sequence[Target], Any], Any]  # spec of a run to the permitted targets, within the limits
    length_s: Callable[[Any], float]  # usual length of a task's run
    longest_s: Callable[[Any], float]  # deadline of a run
    # whether a cycle may begin while the one before awaits replies
    overlaps: Callable[[Any], bool] = lambda task: False
    # results of a target without figures
    not_measured: Callable[[Any, Target, datetime, Outcome, str], tuple[Result, ...]]
    # the kind's own rule against each target, or None
    forbids: Callable[[Any, Any, Sequence[Target], Load], list[str | None]] = nothing_forbidden
    # runs the probe, which may tell packets under load apart
    run: Callable[[Any, Any, Deadline, LoadPeriods], Any] = run_probe
    is_under_load: Callable[[Any], bool] | None = None  # whether all packets of a result were under load
    packets_sent: Callable[[Any], int] | None = None  # packets of a result, where limits count them


@dataclass(frozen=True, slots=True, kw_only=True)
class SlotKind(Kind):
    """A kind of tests that fill their path, each in a slot with both hosts to itself."""

    schedule: ClassVar[Literal["cycle", "slot"]] = "slot"

    far_end: Callable[[], FarEnd]  # loads the listening end
    not_measured: Callable[[Any, datetime, Outcome, str], Any]  # run without figures
    carried_bits: Callable[[Any, float], float | None]  # bits of a run of these seconds; None without figures
    listening_roles: tuple[Literal["client", "server"], ...] = ("server",)  # roles whose end accepts connections
    calls_again: bool = False  # the client retries where nobody listens yet
    prepare: Callable[[Any], None] | None = None  # called ahead of the slot
    permitted: Callable[[Any, Any], Any] = lambda spec, limits: spec  # spec for the probe
    forbids: Callable[[Any, Any], str | None] = lambda limits, spec: None  # the kind's own rule against a spec, or None
    # the listening end's result; None if it has none
    report: Callable[[Any, datetime, Outcome, str, Any], Result] | None = None
    lightened: Callable[[Any], Any] = lambda result: result  # result without its dispensable parts, for a full spool
