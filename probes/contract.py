"""The interface of every kind of measurement: takes a spec, returns a result with exactly one outcome.

A probe measures and nothing else. It raises `ProbeError` when it cannot; the runner turns that into a result.
The deadline, storage, delivery and schedule belong to the runner (`probes.site.runner`) and not to the probe. The
runner, the plan, the limits and the wire ask a `Kind` about its measurements; `probes.kinds` lists all kinds.
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
    """A measurement that failed: its outcome, whether the failure is permanent, so that a retry cannot help, and the
    figures of its result that are known all the same."""

    outcome: Outcome = Outcome.TOOL_FAILURE
    permanent: bool = False

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
    """Measures for one kind."""

    def can_run(self, spec: SpecT) -> list[str]:
        """Reasons why this host cannot measure `spec`, each with a fix; empty if it can."""

    def run(self, spec: SpecT, deadline: Deadline) -> ResultT:
        """Measure. Raises `ProbeError`; any other exception is a bug."""


class Result(Protocol):
    """The fields that every result has."""

    @property
    def family(self) -> Literal[4, 6]: ...
    @property
    def started_at(self) -> datetime: ...
    @property
    def outcome(self) -> Outcome: ...
    @property
    def detail(self) -> str | None: ...


class CycleTask(Protocol):
    """A test that a plan repeats: its name and the seconds from one cycle to the next."""

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


LoadPeriod = tuple[datetime, datetime]
"""Begin and end of a throughput test, both included."""


@dataclass(frozen=True, slots=True)
class LoadedPeriods:
    """Periods of throughput tests of ours: `here` on this host, which load all paths, a running test's up to now;
    `there` between a target and others, by the index of the target in the spec."""

    here: Sequence[LoadPeriod] = ()
    there: Mapping[int, Sequence[LoadPeriod]] = field(default_factory=dict)

    def of_target(self, index: int) -> list[LoadPeriod]:
        """All periods in which the path to a target was loaded."""
        return [*self.here, *self.there.get(index, ())]


LoadPeriods = Callable[[], LoadedPeriods]
"""Returns the periods until now."""


class FarEnd(Protocol):
    """The listening end of a slot."""

    def serve(self, spec: Any, deadline: Deadline) -> object | None:
        """Serve a test. Returns its statistics, or None if no client connected. Raises `ProbeError`."""

    def decline(self, spec: Any, outcome: Outcome, detail: str, deadline: Deadline) -> None:
        """Tell the client why the test is declined, if the kind can."""


class CheckResult(msgspec.Struct, frozen=True, kw_only=True):
    """The result of a check of `site doctor`. `fix` is the advice for people, None if the check passed."""

    check: str
    detail: str = msgspec.field(name="found")
    fix: str | None = msgspec.field(name="mend", default=None)

    @property
    def is_good(self) -> bool:
        return self.fix is None


@dataclass(frozen=True, slots=True)
class Command:
    """The command of a kind, `python -m probes NAME`: its module and a summary for the help."""

    module: str
    summary: str


@dataclass(frozen=True, slots=True)
class Target:
    """A path of a cycle: its name or address, and its entry in the plan. Once resolved, `address` is literal."""

    path_id: int | None
    address: str
    family: Literal[4, 6]
    planned: Any


@dataclass(frozen=True, slots=True)
class Load:
    """The measurements that a site makes already: the targets of this kind's running cycles with their tasks, by test,
    and the packets sent to an address within the hour."""

    running: Mapping[str, tuple[CycleTask, tuple[Target, ...]]]
    packets_within_hour: Callable[[str], int]


def targets_of_spec(task: Any) -> tuple[Target, ...]:
    """The targets of a kind whose task has them in its spec."""
    return tuple(Target(target.path_id, target.address, target.family, target) for target in task.spec.targets)


def nothing_forbidden(limits: Any, task: Any, targets: Sequence[Target], load: Load) -> list[str | None]:
    """The verdicts of a kind without rules of its own."""
    return [None] * len(targets)


def nothing_to_check(limits: Any, tasks: Sequence[Any]) -> Iterable[CheckResult]:
    """The checks of a kind without any of its own."""
    return ()


def run_probe(probe: Probe[SpecT, ResultT], spec: SpecT, deadline: Deadline, load_periods: LoadPeriods) -> ResultT:
    """Run a probe that does not know which packets are under load."""
    return probe.run(spec, deadline)


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """A kind of measurement, as the agent runs it.

    `task` is its part of a plan, `results` the structs of its results: first that of the end that measures, then that
    of the far end, if it reports. `hours` is the section of limits.toml whose hours it keeps, `limits` its own sections
    there. `probe` loads the part that measures, which may need far more memory than the rest. `check(limits, tasks)`
    tells `site doctor` whether this host can measure its part of the plan, which may be empty.
    """

    schedule: ClassVar[Literal["cycle", "slot"]]

    name: str
    task: type[msgspec.Struct]
    results: tuple[type[msgspec.Struct], ...]
    hours: str
    limits: Mapping[str, type[msgspec.Struct]] = field(default_factory=dict)
    probe: Callable[[], Probe[Any, Any]]
    command: Command | None = None
    check: Callable[[Any, Sequence[Any]], Iterable[CheckResult]] = nothing_to_check

    @property
    def field(self) -> str:
        """The name of its part of a plan, and in names of Celery tasks."""
        return self.name.replace("-", "_")


@dataclass(frozen=True, slots=True, kw_only=True)
class CycleKind(Kind):
    """A kind that runs in repeated cycles over many paths.

    `one_at_a_time`: an agent measures one path at a time, in an order of its own each cycle, beginning anywhere in the
    interval; else all paths of a cycle together, soon after the interval begins.

    `targets(task)` are the paths of a cycle. `spec(task, targets, limits)` is the spec of one run to those of them
    that are permitted, within the limits; the run gives the same number of results for each target, in their order.
    `length_s(task)` is the usual length of a run, `longest_s(spec)` its deadline. A task that `overlaps` may fill
    its period, so that a cycle begins while the one before still awaits its last replies.

    `forbids(limits, task, targets, load)` gives the kind's own rule against each target or None;
    `not_measured(task, target, at, outcome, detail)` the results of a target without figures. `packets_sent` counts a
    result's packets where the limits count them.

    `run(probe, spec, deadline, load_periods)` runs the probe, which may tell the packets sent during our own throughput
    tests apart; `is_under_load(result)` then says whether all packets of a result were. Without it a result is under
    load if such a test ran at any moment of the run.
    """

    schedule: ClassVar[Literal["cycle", "slot"]] = "cycle"

    one_at_a_time: bool = False
    targets: Callable[[Any], tuple[Target, ...]]
    spec: Callable[[Any, Sequence[Target], Any], Any]
    length_s: Callable[[Any], float]
    longest_s: Callable[[Any], float]
    overlaps: Callable[[Any], bool] = lambda task: False
    not_measured: Callable[[Any, Target, datetime, Outcome, str], tuple[Result, ...]]
    forbids: Callable[[Any, Any, Sequence[Target], Load], list[str | None]] = nothing_forbidden
    run: Callable[[Any, Any, Deadline, LoadPeriods], Any] = run_probe
    is_under_load: Callable[[Any], bool] | None = None
    packets_sent: Callable[[Any], int] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SlotKind(Kind):
    """A kind whose tests fill their path, each in a slot with both hosts to itself.

    `far_end` loads the listening end; `listening_roles` are the roles whose end accepts connections. A client
    `calls_again` where nobody listens yet. With `prepare(spec)` it begins ahead of its slot with that.

    `not_measured(spec, at, outcome, detail)` is a run without figures, `carried_bits(run, seconds)` the bits of one, or
    None where it has no figures. `permitted(spec, limits)` is the spec for the probe, `forbids(limits, spec)` the
    kind's own rule against it. `report(spec, at, outcome, detail, seen)` is the listening end's result; without it that
    end has none. `lightened(result)` is a result without its dispensable parts, for a spool that fills up.
    """

    schedule: ClassVar[Literal["cycle", "slot"]] = "slot"

    far_end: Callable[[], FarEnd]
    not_measured: Callable[[Any, datetime, Outcome, str], Any]
    carried_bits: Callable[[Any, float], float | None]
    listening_roles: tuple[Literal["client", "server"], ...] = ("server",)
    calls_again: bool = False
    prepare: Callable[[Any], None] | None = None
    permitted: Callable[[Any, Any], Any] = lambda spec, limits: spec
    forbids: Callable[[Any, Any], str | None] = lambda limits, spec: None
    report: Callable[[Any, datetime, Outcome, str, Any], Result] | None = None
    lightened: Callable[[Any], Any] = lambda result: result
