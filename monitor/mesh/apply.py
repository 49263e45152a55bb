"""Apply mesh.toml to the database: add, change and retire rows, idempotently.

Only slots that have not begun are deleted; other rows get `retired_at` and are reused.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from django.db import connection, models, transaction
from django.db.models import F, Q
from django.dispatch import Signal

from monitor.mesh.changes import Action, MeshChange, MeshChanges, differences
from monitor.mesh.document.entries import MeshDocument
from monitor.mesh.measured_paths import apply_measurements
from monitor.mesh.models import Group, Host, Measurement, MeasurementPeriod, Mesh, Path, Site, Slot, Test, Uplink
from monitor.mesh.renaming import rename_sites
from monitor.mesh.schedule import lock
from monitor.mesh.schedule.slots import IN_HAND_S
from probes.contract import Outcome

# With fewer new or changed rows the planner does well enough without new statistics.
MANY_ROWS = 5_000

# Signal sent after an apply, for code that depends on the schedule.
applied = Signal()


def apply(document: MeshDocument, now: datetime) -> MeshChanges:
    """Apply `document` in a transaction. Concurrent applies wait for each other."""
    with transaction.atomic():
        lock.hold_until_commit()
        changes = _Application(document, now).run()
        if len(changes.items) >= MANY_ROWS:
            _analyze()
    applied.send(sender=None)
    return changes


def _analyze() -> None:
    # Update statistics: without them large meshes take minutes until autovacuum.
    tables = ", ".join(model._meta.db_table for model in (Site, Host, Path, Measurement, MeasurementPeriod))
    with connection.cursor() as cursor:
        cursor.execute(f"ANALYZE {tables}")


@dataclass(frozen=True, slots=True)
class _Kind:
    model: type[models.Model]
    word: str
    key: Callable[[Any], object]
    related: tuple[str, ...] = ()

    def rows(self) -> dict[object, Any]:
        rows = self.model._default_manager.all()
        return {self.key(row): row for row in (rows.select_related(*self.related) if self.related else rows)}


_SITES = _Kind(Site, "site", lambda row: row.name)
_UPLINKS = _Kind(Uplink, "uplink", lambda row: (row.site.name, row.name), ("site",))
_HOSTS = _Kind(Host, "host", lambda row: row.name, ("site", "uplink__site"))
_TESTS = _Kind(Test, "test", lambda row: row.name)
_GROUPS = _Kind(Group, "group", lambda row: row.name)


class _Application:
    """Run of apply; later steps use the rows of earlier steps."""

    def __init__(self, document: MeshDocument, now: datetime) -> None:
        self.document = document
        self.now = now
        self.changes = MeshChanges()

    def run(self) -> MeshChanges:
        sites = self._sites()
        hosts = self._hosts(sites, self._uplinks(sites))
        tests = self._tests()
        self._groups(sites)
        host_ids, test_ids = ({row.name: row.pk for row in rows.values()} for rows in (hosts, tests))
        self.changes.items += apply_measurements(self.document, host_ids, test_ids, self.now)
        self._mesh()
        self._slots()
        return self.changes

    def _sites(self) -> dict[object, Any]:
        for name, earlier in rename_sites(self.document.sites).items():
            self._note("changed", "site", name, f"name {earlier} → {name}")
        return self._reconcile(
            _SITES,
            {
                site.name: {
                    "name": site.name,
                    "former_names": list(site.formerly),
                    "title": site.title,
                    "latitude_deg": site.latitude_deg,
                    "longitude_deg": site.longitude_deg,
                    "country": site.country,
                    "region": site.region,
                    "contact": site.contact,
                    "has_agent": site.has_agent,
                }
                for site in self.document.sites
            },
        )

    def _uplinks(self, sites: Mapping[object, Any]) -> dict[object, Any]:
        names = {(site.name, host.uplink) for site in self.document.sites for host in site.hosts if host.uplink}
        return self._reconcile(
            _UPLINKS, {(site, name): {"site": sites[site], "name": name} for site, name in sorted(names)}
        )

    def _hosts(self, sites: Mapping[object, Any], uplinks: Mapping[object, Any]) -> dict[object, Any]:
        return self._reconcile(
            _HOSTS,
            {
                host.name: {
                    "name": host.name,
                    "site": sites[site.name],
                    "address": host.address,
                    "family": host.family,
                    "for_ping": host.for_ping,
                    "for_throughput": host.for_throughput,
                    "interface": host.interface,
                    "namespace": host.namespace,
                    "iperf3_ports": None if host.iperf3_ports is None else list(host.iperf3_ports),
                    "behind_nat": host.behind_nat,
                    "peers": host.peer_addresses,
                    "uplink": uplinks[site.name, host.uplink] if host.uplink else None,
                }
                for site in self.document.sites
                for host in site.hosts
            },
        )

    def _tests(self) -> dict[object, Any]:
        return self._reconcile(
            _TESTS,
            {
                test.name: {
                    "name": test.name,
                    "kind": test.kind,
                    "every_s": test.every_s,
                    "parameters": test.parameters,
                    "priority": getattr(test, "priority", 0),
                    "slip_s": getattr(test, "slip_s", None),
                }
                for test in self.document.tests
            },
        )

    def _groups(self, sites: Mapping[object, Any]) -> None:
        rows = self._reconcile(
            _GROUPS, {group.name: {"name": group.name, "shape": group.shape} for group in self.document.groups}
        )
        members = _members()
        for group in self.document.groups:
            row, wanted = rows[group.name], set(group.site_names)
            present = members.get(group.name, set())
            if present == wanted:
                continue
            row.sites.set([sites[name] for name in group.site_names])
            if not any(change.kind == "group" and change.name == group.name for change in self.changes.items):
                self._note("changed", "group", group.name, f"sites {_listed(present)} → {_listed(wanted)}")

    def _slots(self) -> None:
        """Delete outdated future slots, except slots already in agents' plans."""
        if self.changes.is_empty:
            return
        changed = [change.name for change in self.changes.select("changed", "test")]
        hosts = [change.name for change in self.changes.select("changed", "host")]
        # On-demand slots stay unless their path is retired; the outcomes are records of slots without budget or room.
        planned = Q(request=None) & (
            Q(measurement__retired_at__isnull=False)
            | Q(measurement__test__name__in=changed)
            | Q(measurement__path__source__name__in=hosts)
            | Q(measurement__path__destination__name__in=hosts)
            | Q(outcome__in=[Outcome.BUSY, Outcome.NOT_PERMITTED])
        )
        unwanted = Slot.objects.filter(
            planned | Q(measurement__path__retired_at__isnull=False),
            starts_at__gt=self.now + timedelta(seconds=IN_HAND_S),
        )
        # The slots of an aggregate test's members are deleted together.
        leads = list(unwanted.exclude(lead=None).values_list("lead", flat=True).distinct())
        every = Slot.objects.filter(Q(pk__in=unwanted.values("pk")) | Q(pk__in=leads) | Q(lead__in=leads))
        self.changes.slots_deleted = every.count()
        every.delete()

    def _mesh(self) -> None:
        fields = {
            "name": self.document.name,
            "home_site": self.document.home or "",
            "alerts": dict(self.document.alerts),
            "service_levels": dict(self.document.service_levels),
            "budgets": dict(self.document.budgets),
            "networks": dict(self.document.networks),
            "sweeps": dict(self.document.sweeps),
        }
        row = Mesh.objects.first()
        different = [] if row is None else list(differences(row, fields))
        if row is None:
            self._note("added", "mesh", f'"{self.document.name}"')
        elif different:
            self._note("changed", "mesh", f'"{self.document.name}"', ", ".join(different))
        if not self.changes.is_empty:
            Mesh.objects.update_or_create(pk=1, defaults={**fields, "applied_at": self.now})

    def _reconcile(
        self,
        kind: _Kind,
        wanted: Mapping[Any, Mapping[str, Any]],
    ) -> dict[object, Any]:
        rows = kind.rows()
        added = [kind.model(**fields) for key, fields in wanted.items() if key not in rows]
        returning = [row.pk for key, row in rows.items() if key in wanted and row.retired_at is not None]
        changed = [row for key, row in rows.items() if key in wanted and self._update(kind, row, wanted[key])]
        retired = [row for key, row in rows.items() if key not in wanted and row.retired_at is None]
        for row in added:
            self._note("added", kind.word, str(row))
        for row in retired:
            self._note("retired", kind.word, str(row))
        manager = kind.model._default_manager
        manager.bulk_create(added, batch_size=2000)
        if changed:
            manager.bulk_update(changed, list(next(iter(wanted.values()))), batch_size=500)
        manager.filter(pk__in=returning).update(retired_at=None)
        manager.filter(pk__in=[row.pk for row in retired]).update(retired_at=self.now)
        return {key: row for key, row in (rows | {kind.key(row): row for row in added}).items() if key in wanted}

    def _update(self, kind: _Kind, row: Any, fields: Mapping[str, Any]) -> bool:
        different = list(differences(row, fields))
        for name, value in fields.items():
            setattr(row, name, value)
        if row.retired_at is not None:
            self._note("added", kind.word, str(row), ", ".join(["in use again, with its history", *different]))
        elif different:
            self._note("changed", kind.word, str(row), ", ".join(different))
        row.retired_at = None
        return bool(different)

    def _note(self, action: Action, kind: str, name: str, detail: str = "") -> None:
        self.changes.items.append(MeshChange(action, kind, name, detail))


def _members() -> dict[str, set[str]]:
    members: dict[str, set[str]] = {}
    for group, site in Group.sites.through.objects.values_list(F("group__name"), F("site__name")):
        members.setdefault(group, set()).add(site)
    return members


def _listed(names: set[str]) -> str:
    return ", ".join(sorted(names)) or "none"
