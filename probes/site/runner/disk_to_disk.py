"""The two ends of a disk-to-disk slot, as far as the site's limits let them.

In: a slot's spec. Out: the run where this site sends, or `ProbeError`. The rules of throughput tests hold, since the
path is filled alike, and those of `[disk]`: the folder is named by this site alone. A receiver that may not write tells
the sender which rule forbids it, so that the measurement ends with that.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Protocol

import msgspec

from probes.contract import Deadline, NotPermitted, Outcome, Probe
from probes.disk_to_disk import probe as ends
from probes.disk_to_disk.scratch import free_bytes
from probes.disk_to_disk.spec import DiskToDiskRun, DiskToDiskSpec, PermittedSpec
from probes.site.limits.limits import Limits
from probes.site.limits.usage import Usage
from probes.site.runner.own_tests import OwnTests
from probes.throughput.address import resolve


class Receive(Protocol):
    """The receiver's end. Raises `ProbeError`."""

    def __call__(self, asked: PermittedSpec, deadline: Deadline) -> None: ...


class Decline(Protocol):
    """Tells the sender why there is no receiver."""

    def __call__(self, spec: DiskToDiskSpec, outcome: Outcome, detail: str, deadline: Deadline) -> None: ...


class DiskToDiskEnds:
    """Sends and receives for one site."""

    def __init__(
        self,
        limits: Limits,
        usage: Usage,
        *,
        probe: Probe[PermittedSpec, DiskToDiskRun] | None = None,
        receive: Receive = ends.receive,
        decline: Decline = ends.decline,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self._limits = limits
        self._usage = usage
        self._probe = ends.DiskToDiskProbe() if probe is None else probe
        self._receive = receive
        self._decline = decline
        self._now = now

    def send(self, spec: DiskToDiskSpec, deadline: Deadline, own_tests: OwnTests) -> DiskToDiskRun:
        """Measure, where this site may. Raises `ProbeError`."""
        address = resolve(spec.address, spec.family)
        _require_none(self._limits.forbids_address(address) or self._forbids_time(spec) or self._forbids_file(spec))
        with self._usage.testing(spec, address) as used, own_tests.running():
            permitted = msgspec.structs.replace(spec, address=address)
            run = self._probe.run(PermittedSpec(spec=permitted, folder=self._limits.disk.folder), deadline)
            used.bits = 8.0 * (run.carried_bytes or 0)
        return msgspec.structs.replace(run, target=spec.address)

    def receive(
        self, spec: DiskToDiskSpec, deadline: Deadline, own_tests: OwnTests, begins_at: datetime | None = None
    ) -> None:
        """Receive, where this site may; where the sender may be told why not, he is. Raises `ProbeError`.

        A receiver is asked before its slot `begins_at`, and maybe before its hours do; None is now.
        """
        source = resolve(spec.source, spec.family)
        _require_none(self._limits.forbids_peer(source) or self._limits.forbids_address(source))
        permitted = msgspec.structs.replace(spec, source=source)
        rule = self._forbids_time(spec, begins_at) or self._forbids_file(spec)
        if rule is not None:
            self._decline(permitted, Outcome.NOT_PERMITTED, rule, deadline)
            raise NotPermitted(rule)
        with self._usage.testing(spec, source), own_tests.running():
            self._receive(PermittedSpec(spec=permitted, folder=self._limits.disk.folder), deadline)

    def _forbids_time(self, spec: DiskToDiskSpec, begins_at: datetime | None = None) -> str | None:
        now = self._now()
        at = now if begins_at is None else max(now, begins_at)
        return self._limits.forbids_length(spec) or self._limits.forbids_time("throughput", at, spec.length_s)

    def _forbids_file(self, spec: DiskToDiskSpec) -> str | None:
        """Whether there is room is asked last, and only of a folder that may be used."""
        return self._limits.forbids_file(spec.file_bytes) or self._limits.forbids_room(
            spec.file_bytes, free_bytes(self._limits.disk.folder)
        )


def _require_none(rule: str | None) -> None:
    if rule is not None:
        raise NotPermitted(rule)
