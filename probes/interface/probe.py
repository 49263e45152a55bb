"""Reads the counters of interfaces, and gives their use since the reading before."""

from __future__ import annotations

from dataclasses import asdict
from datetime import UTC, datetime, timedelta

from probes.contract import Deadline, LoadedPeriods, LoadPeriods, Outcome, ProbeError
from probes.interface import kernel
from probes.interface.counters import Reading, Readings, Use, use_between
from probes.interface.polled import PolledSpec
from probes.interface.spec import InterfaceRun, InterfaceTarget, not_measured

FIRST = "first reading: the use follows with the next"
# Of this process: the use over a restart of the agent is not known.
_LAST = Readings()


class InterfaceProbe:
    """Keeps the last readings in `readings`."""

    def __init__(self, readings: Readings = _LAST) -> None:
        self._readings = readings

    def can_run(self, spec: PolledSpec) -> list[str]:
        return []

    def run(
        self, spec: PolledSpec, deadline: Deadline, load_periods: LoadPeriods = LoadedPeriods
    ) -> tuple[InterfaceRun, ...]:
        """Measure all targets; failures are outcomes."""
        return tuple(
            self._run(spec, target, index, deadline, load_periods) for index, target in enumerate(spec.targets)
        )

    def _run(
        self, spec: PolledSpec, target: InterfaceTarget, index: int, deadline: Deadline, load_periods: LoadPeriods
    ) -> InterfaceRun:
        at = datetime.now(UTC)
        try:
            reading = self._read(spec, target, deadline)
        except ProbeError as error:
            return not_measured(spec, target, at, error.outcome, str(error))
        # Paths that share an interface are read moments apart: each has a reading before of its own.
        key = (spec.router, reading.name, target.path_id, target.address)
        before = self._readings.exchange(key, reading)
        use = FIRST if before is None else use_between(before, reading)
        return InterfaceRun(
            target=target.address,
            family=target.family,
            started_at=at,
            outcome=Outcome.MEASURED,
            router=spec.router,
            interface=reading.name,
            alias=reading.alias,
            speed_bps=reading.speed_bps,
            **(asdict(use) if isinstance(use, Use) else {"detail": use}),
            beside_tests=isinstance(use, Use) and _had_tests(at, use.interval_s, index, load_periods),
        )

    def _read(self, spec: PolledSpec, target: InterfaceTarget, deadline: Deadline) -> Reading:
        if spec.router is None:
            return kernel.read(target.address, target.family, target.leaves_by)
        from probes.interface.snmp import read

        if spec.credentials is None or spec.interface is None:
            raise ProbeError("a router needs credentials and an interface", permanent=True)
        return read(target.address, spec.interface, spec.credentials, deadline)


def _had_tests(at: datetime, interval_s: float, index: int, load_periods: LoadPeriods) -> bool:
    since = at - timedelta(seconds=interval_s)
    return any(begin <= at and end >= since for begin, end in load_periods().of_target(index))
