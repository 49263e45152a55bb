"""Daily usage of throughput tests, checked against the budgets of mesh.toml.

Future tests count with the bytes of their rate or their path's fastest recent test.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from datetime import UTC, datetime, time, timedelta
from typing import Any

from django.db.models import Q

from monitor.mesh.document.budgets import Account, Budgets, Cost
from monitor.mesh.kinds import filling_s
from monitor.mesh.models import Measurement, Mesh, Path, Slot
from monitor.mesh.schedule.timetable import Placement
from probes.contract import Outcome

DAY = timedelta(days=1)


class Spending:
    """Usage of the days in a time span."""

    def __init__(self, rules: Mapping[str, Mapping[str, float]]) -> None:
        self._budgets = Budgets(rules)
        self._bytes_per_s: dict[int, float] = {}
        self.is_bounded = bool(rules)

    @classmethod
    def between(cls, since: datetime, until: datetime) -> Spending:
        """Usage of UTC days that overlap this span."""
        mesh = Mesh.objects.first()
        spending = cls({} if mesh is None else mesh.budgets)
        if spending.is_bounded:
            spending._learn_rates(since)
            spending._count(_midnight(since), _midnight(until) + DAY)
        return spending

    def refusals(self, placements: Collection[Placement]) -> dict[Placement, str]:
        """Placements over a budget with the rule, by priority, then time."""
        if not self.is_bounded:
            return {}
        ids = {pk for placement in placements for pk in placement.job.measurement_ids}
        rows = Measurement.objects.filter(pk__in=ids)
        measurements = {row.pk: row for row in rows.select_related("test", *_ENDS)}
        refused = {}
        for placement in sorted(placements, key=lambda placement: (-placement.job.priority, placement.start_s)):
            members = [measurements[pk] for pk in placement.job.measurement_ids]
            rule = self._take_all(members, placement.start_s)
            if rule is not None:
                refused[placement] = rule
        return refused

    def _take_all(self, members: Collection[Measurement], start_s: int) -> str | None:
        counted = list[Measurement]()
        for row in members:
            rule = self.take(row.path, row.test.kind, row.test.parameters, start_s)
            if rule is not None:
                self._give_back(counted, start_s)
                return rule
            counted.append(row)
        return None

    def _give_back(self, members: Collection[Measurement], start_s: int) -> None:
        for row in members:
            cost = self._expected(row.path_id, row.test.kind, row.test.parameters)
            self._budgets.spend(_accounts(row.path), start_s, Cost(-cost.seconds, -cost.carried_bytes))

    def take(self, path: Path, kind: str, parameters: Mapping[str, Any], start_s: int) -> str | None:
        """Count a future test, or return the violated rule."""
        cost, accounts = self._expected(path.pk, kind, parameters), _accounts(path)
        rule = self._budgets.forbids(accounts, start_s, cost)
        if rule is None:
            self._budgets.spend(accounts, start_s, cost)
        return rule

    def _expected(self, path_id: int, kind: str, parameters: Mapping[str, Any]) -> Cost:
        length_s = float(filling_s(kind, parameters))
        rate_bps = parameters.get("rate_bps")
        bytes_per_s = self._bytes_per_s.get(path_id, 0.0) if rate_bps is None else rate_bps / 8
        return Cost(length_s, bytes_per_s * length_s)

    def _learn_rates(self, now: datetime) -> None:
        rows = Slot.objects.filter(starts_at__gt=now - DAY, carried_bytes__isnull=False)
        for slot in rows.select_related("measurement__test", "measurement__path", "request"):
            rate = (slot.carried_bytes or 0) / filling_s(slot.measurement.test.kind, slot.parameters)
            path_id = slot.measurement.path_id
            self._bytes_per_s[path_id] = max(rate, self._bytes_per_s.get(path_id, 0.0))

    def _count(self, since: datetime, until: datetime) -> None:
        ran = Q(outcome=None) | Q(outcome__in=[Outcome.MEASURED, Outcome.TOOL_FAILURE])
        rows = Slot.objects.filter(ran, starts_at__gte=since, starts_at__lt=until)
        ends = [f"measurement__{end}" for end in _ENDS]
        for slot in rows.select_related("measurement__test", "request", *ends):
            cost = self._expected(slot.measurement.path_id, slot.measurement.test.kind, slot.parameters)
            if slot.carried_bytes is not None:
                cost = Cost(cost.seconds, slot.carried_bytes)
            self._budgets.spend(_accounts(slot.measurement.path), slot.starts_at.timestamp(), cost)


_ENDS = ("path__source__uplink__site", "path__destination__uplink__site")


def _accounts(path: Path) -> list[Account]:
    hosts = (path.source, path.destination)
    uplinks = dict.fromkeys(str(host.uplink) for host in hosts if host.uplink is not None)
    return [
        ("path", str(path)),
        *(("host", host.name) for host in hosts),
        *(("uplink", name) for name in uplinks),
    ]


def _midnight(at: datetime) -> datetime:
    return datetime.combine(at.astimezone(UTC).date(), time(), UTC)
