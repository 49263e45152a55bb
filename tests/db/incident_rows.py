"""Incidents created by the rules themselves, for the tests of their pages and API; and people with and without
roles."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from django.contrib.auth.models import Group as Role
from django.contrib.auth.models import User

from monitor.alerts.evaluate import evaluate
from monitor.alerts.evidence import gather
from monitor.alerts.incidents import lifecycle
from monitor.alerts.models import Incident
from monitor.mesh.models import Group, Path, Site
from tests.db.alert_rows import make_bursts, make_mesh

NOW = datetime(2026, 11, 21, 12, 30, tzinfo=UTC)
HOUR = timedelta(hours=1)
MINUTE = timedelta(minutes=1)
RULE = {"above_ratio": 0.01, "window_s": 600}
PASSWORD = "long and winding"


def watched() -> dict[str, Path]:
    """Three sites, a group of two of them, and the loss rule enabled everywhere."""
    paths = make_mesh(["slac", "cern", "fnal"], NOW - timedelta(days=30), loss=RULE)
    group = Group.objects.create(name="coast", shape="mesh")
    group.sites.set(Site.objects.filter(name__in=["slac", "cern"]))
    return paths


def lossy(path: Path, now: datetime = NOW) -> Incident:
    """An open and confirmed incident of loss on the path, with its evidence: after two clean hours each burst of ten
    minutes loses 2 of 10 packets, in this direction only."""
    before = lifecycle.CONFIRM_S
    make_bursts(path, [0] * 120, now - 130 * MINUTE)
    make_bursts(path, [2] * 10, now - 10 * MINUTE)
    back = Path.objects.get(source=path.destination_id, destination=path.source_id)
    make_bursts(back, [0] * 130, now - 130 * MINUTE)
    lifecycle.CONFIRM_S = 0
    try:
        evaluate(now)
    finally:
        lifecycle.CONFIRM_S = before
    incident = Incident.objects.get(paths__path=path, closed_at=None)
    gather.store_facts(incident, now)
    return incident


def person(name: str, *roles: str) -> User:
    user = User.objects.create_user(name, password=PASSWORD)
    user.groups.add(*Role.objects.filter(name__in=roles))
    return user
