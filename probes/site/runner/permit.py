"""Permission to measure, for every kind: resolve names, check the site's limits, count usage."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import msgspec

from probes.contract import CycleKind, CycleTask, Deadline, Load, NotPermitted, ProbeError, Slot, SlotKind, Target
from probes.packets.addresses import packed
from probes.packets.resolve import RESOLVE_S, Resolution, resolve
from probes.site.limits.limits import Limits
from probes.site.limits.usage import Usage, UsageEntry
from probes.transfers.address import resolve_address

# A target with its literal address, or the reason why it may not or cannot be measured.
Verdict = Target | ProbeError


class Declined(NotPermitted):
    """A limit forbids serving the test; the message is sent to the client."""


class Permit:
    """Checks measurements against the limits of the site. Thread-safe."""

    def __init__(
        self,
        limits: Limits,
        usage: Usage | None = None,
        *,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self._limits = limits
        self._usage = Usage(limits, now=now) if usage is None else usage
        self._now = now
        self._lock = threading.Lock()
        self._running: dict[str, dict[str, tuple[CycleTask, tuple[Target, ...]]]] = {}

    @contextmanager
    def targets(
        self, kind: CycleKind, task: CycleTask, targets: Sequence[Target], beside: Sequence[CycleTask] = ()
    ) -> Iterator[list[Verdict]]:
        """The verdict on each target; permitted targets and the tests of `beside` count as load during the context."""
        answers = resolve([(target.address, target.family) for target in targets], Deadline(RESOLVE_S))
        resolved = [_with_address(target, answers[target.address, target.family]) for target in targets]
        with self._lock:
            running = self._running.setdefault(kind.name, {})
            planned = {other.test: (other, _resolved_alike(kind.targets(other), targets, resolved)) for other in beside}
            verdicts = self._verdicts(kind, task, resolved, planned)
            entry = task, tuple(verdict for verdict in verdicts if isinstance(verdict, Target))
            running[task.test] = entry
        try:
            yield verdicts
        finally:
            with self._lock:
                # The next cycle of a test whose cycles fill their period may have taken this place.
                if running.get(task.test) is entry:
                    del running[task.test]

    def _verdicts(
        self,
        kind: CycleKind,
        task: CycleTask,
        resolved: Sequence[Verdict],
        planned: dict[str, tuple[CycleTask, tuple[Target, ...]]],
    ) -> list[Verdict]:
        closed = self._limits.forbids_time(kind.hours, self._now(), kind.length_s(task))
        verdicts = [
            target if isinstance(target, ProbeError) else self._at_this_time(target, closed) for target in resolved
        ]
        open_targets = [target for target in verdicts if isinstance(target, Target)]
        # The cycle before of the same test, if any, only awaits its last replies.
        others = {test: entry for test, entry in self._running[kind.name].items() if test != task.test}
        load = Load(planned | others, self._usage.packets_within_hour)
        rules = iter(kind.forbids(self._limits, task, open_targets, load))
        return [
            target if isinstance(target, ProbeError) or (rule := next(rules)) is None else NotPermitted(rule)
            for target in verdicts
        ]

    def _at_this_time(self, target: Target, closed: str | None) -> Verdict:
        rule = self._limits.forbids_address(target.address) or closed
        return target if rule is None else NotPermitted(rule)

    def spec(self, kind: CycleKind, task: CycleTask, permitted: Sequence[Target]) -> Any:
        return kind.spec(task, permitted, self._limits)

    def note_sent(self, kind: CycleKind, target: Target, results: Iterable[Any]) -> None:
        """Count the packets sent to a target, where the limits count them."""
        if kind.packets_sent is not None:
            self._usage.note_packets(target.address, sum(map(kind.packets_sent, results)))

    @contextmanager
    def client(self, kind: SlotKind, slot: Slot) -> Iterator[tuple[Any, UsageEntry]]:
        """The measuring end's spec and usage entry. Raises `ProbeError`."""
        address = resolve_address(slot.spec.address, slot.spec.family)
        _require_none(self._limits.forbids_address(address) or self._forbids(kind, slot))
        with self._usage.testing(slot.spec, address) as used:
            yield kind.permitted(msgspec.structs.replace(slot.spec, address=address), self._limits), used

    @contextmanager
    def server(self, kind: SlotKind, slot: Slot) -> Iterator[tuple[Any, UsageEntry]]:
        """As `client`, for the far end. Raises `Declined` where the client may be told of the limit."""
        source = slot.spec.source
        peer = None if source is None else resolve_address(source, slot.spec.family)
        _require_none(self._limits.forbids_peer(peer))
        if peer is not None and "client" in kind.listening_roles:
            # This end connects to the peer.
            _require_none(self._limits.forbids_address(peer))
        rule = self._forbids(kind, slot)
        if rule is not None:
            raise Declined(rule)
        with self._usage.testing(slot.spec, peer or "") as used:
            yield kind.permitted(msgspec.structs.replace(slot.spec, source=peer), self._limits), used

    def _forbids(self, kind: SlotKind, slot: Slot) -> str | None:
        # Hours are checked at the slot's start, as servers start before.
        begins_at, spec = max(self._now(), slot.starts_at), slot.spec
        return (
            self._limits.forbids_length(spec)
            or self._limits.forbids_time(kind.hours, begins_at, spec.length_s)
            or kind.forbids(self._limits, spec)
        )


def _with_address(target: Target, answer: Resolution) -> Verdict:
    if isinstance(answer, ProbeError):
        return answer
    is_literal = packed(target.address, target.family) is not None
    return target if is_literal else replace(target, address=str(answer[0]))


def _resolved_alike(
    planned: Iterable[Target], targets: Sequence[Target], resolved: Sequence[Verdict]
) -> tuple[Target, ...]:
    literal = {
        (target.address, target.family): verdict.address
        for target, verdict in zip(targets, resolved, strict=True)
        if isinstance(verdict, Target)
    }
    return tuple(
        replace(target, address=literal.get((target.address, target.family), target.address)) for target in planned
    )


def _require_none(rule: str | None) -> None:
    """Raises `NotPermitted`."""
    if rule is not None:
        raise NotPermitted(rule)
