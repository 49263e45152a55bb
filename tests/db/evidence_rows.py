"""Incidents with planted bursts, for the tests of their evidence, likely causes and tickets."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from monitor.alerts.detect.rules.finding import RuleFinding
from monitor.alerts.evidence import gather
from monitor.alerts.evidence.evidence import evidence
from monitor.alerts.incidents import lifecycle, queries
from monitor.alerts.models import Incident
from monitor.archive.models import Burst
from tests.db.copied_rows import copy_rows

NOW = datetime(2026, 11, 21, 10, 5, tzinfo=UTC)
BEGAN = NOW - timedelta(minutes=20)
MINUTE = timedelta(minutes=1)


def bursts(path, since, until, rtts_ms, *, size=100, lost=0, every=MINUTE, **fields):
    """Bursts with these RTTs, plus this number of lost packets."""
    count = round((until - since) / every)
    copy_rows(
        Burst(
            path_id=path.pk,
            packet_bytes=size,
            measured_at=since + number * every,
            sent=len(rtts_ms) + lost,
            received=len(rtts_ms),
            duplicates=0,
            reordered=0,
            **{"outcome": "measured", "during_test": False, "ttl": 54} | fields,
            rtts_ms=[None] * lost + list(rtts_ms),
        )
        for number in range(count)
    )


def incident(*findings, cause="cern ↔ slac", shares=()) -> Incident:
    lifecycle.add_findings(cause, findings, NOW - timedelta(seconds=20), shares=shares)
    (row,) = Incident.objects.filter(cause=cause)
    lifecycle.open_if_confirmed(row.pk, NOW)
    return queries.incident_with_paths(row.pk)


def finding(path, rule="loss", since=NOW - timedelta(minutes=10), **fields):
    return RuleFinding(rule, path.pk, str(path), f"{rule} is high", since, **fields)


def lossy(path, back):
    """A path with loss from BEGAN on, and a normal reverse path."""
    bursts(path, NOW - timedelta(hours=6), BEGAN, [20.0, 20.2, 20.1, 20.4])
    bursts(path, BEGAN, NOW, [20.0, 20.2, 20.1], lost=1)
    bursts(back, NOW - timedelta(hours=6), NOW, [21.0, 21.5])


def gathered(row, now=NOW):
    gather.store_facts(row, now)
    return evidence(row, now)
