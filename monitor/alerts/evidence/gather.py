"""Gather and store the evidence of incidents in a task of its own, before raw bursts expire.

Figures before the beginning are kept as first gathered.
"""

from __future__ import annotations

import logging
from dataclasses import replace
from datetime import datetime, timedelta

from django.db import Error, transaction

from monitor.alerts.evidence import ending
from monitor.alerts.evidence.collect import collect_facts
from monitor.alerts.evidence.facts import (
    VERSION,
    Beginning,
    Facts,
    as_json,
    from_json,
    with_before_of,
)
from monitor.alerts.evidence.likely_cause import cause_place, flapping, likely_cause
from monitor.alerts.evidence.one_way.outage import with_proven_cut
from monitor.alerts.evidence.path_tests import with_newer_tests
from monitor.alerts.evidence.routes.returns import with_returns
from monitor.alerts.evidence.stated import Fault, LikelyCause
from monitor.alerts.incidents import queries
from monitor.alerts.incidents.gravest import gravest_first, outages_in_a_row, with_turned_outage
from monitor.alerts.models import Incident, IncidentEvidence, IncidentPath
from monitor.present.conditions import FLAPS

log = logging.getLogger("monitor.alerts")

INCIDENTS_PER_RUN = 20
LOOK_BACK = timedelta(days=30)


def gather_due(now: datetime) -> int:
    """Gather evidence where it is missing or the incident changed; returns for how many."""
    done = 0
    due = {incident.pk: incident for incident in queries.without_evidence(now - LOOK_BACK, now, INCIDENTS_PER_RUN)}
    others = [incident for incident in queries.open_incidents() if incident.pk not in due]
    for incident in [*with_turned_outage(others), *with_newer_tests(others)]:
        due[incident.pk] = incident
    for incident in list(due.values())[:INCIDENTS_PER_RUN]:
        try:
            store_facts(incident, now)
            done += 1
        except (Error, ValueError, KeyError):  # a failure must not keep the others from their evidence
            log.exception("evidence of incident %d: gathering failed, will be retried", incident.pk)
    return done


def store_facts(incident: Incident, now: datetime) -> Facts:
    """Gather and store the facts of an incident; figures before its beginning are kept from the first time."""
    earlier = stored_facts(incident)
    facts = collect_facts(incident, now, _kept_beginning(incident, earlier))
    if earlier is not None:
        facts = with_before_of(facts, earlier)
    if earlier is not None and not incident.reopenings:
        if not facts.routes:
            facts = replace(facts, routes=earlier.routes)  # the traces may have expired by now
        if not facts.one_way:
            facts = replace(facts, one_way=earlier.one_way)
        facts = with_proven_cut(facts, earlier)
    if earlier is not None and incident.closed_at is not None:
        # After its end all agents deliver again.
        facts = replace(facts, deliveries=earlier.deliveries)
    if earlier is not None and facts.ended_at is not None:
        facts = replace(facts, agents=earlier.agents, agents_at=earlier.agents_at or earlier.gathered_at)
    if earlier is not None and _says_less(facts, earlier, incident):
        agents_at = earlier.agents_at or earlier.gathered_at
        facts = replace(
            earlier, gathered_at=now, tests_seen=facts.tests_seen, ended_at=facts.ended_at, agents_at=agents_at
        )
    facts = replace(facts, routes=with_returns(facts.routes, incident, now))
    with transaction.atomic():
        IncidentEvidence.objects.update_or_create(
            incident_id=incident.pk, defaults={"version": VERSION, "gathered_at": now, "facts": as_json(facts)}
        )
        cause = stated_cause(facts, incident)
        incident.toward, incident.toward_by = cause.direction_name, cause.toward_by if cause.direction_name else ""
        Incident.objects.filter(pk=incident.pk).update(
            toward=incident.toward,
            toward_by=incident.toward_by,
        )
        if incident.closed_at is not None and facts.ended_at is not None:
            # Only then: an evaluation may have resolved it meanwhile, with its end.
            incident.ended_at = facts.ended_at
            Incident.objects.filter(pk=incident.pk).update(ended_at=incident.ended_at)
    return facts


def stated_cause(facts: Facts | None, incident: Incident) -> LikelyCause:
    """The likely cause by these facts and the findings that lasted when they were gathered."""
    rows = gravest_first(incident.paths.all())
    if facts is not None and not ending.is_over(incident):
        facts = replace(facts, ended_at=None)  # good bursts after the last bad one prove no end yet
    lasting = [row.rule for row in rows if not row.is_over or (facts is not None and _is_in(facts, row))]
    rules = lasting or [row.rule for row in rows] or [incident.rule]
    stated = likely_cause(facts, rules, cause_place(incident.cause))
    # The title has the number of outages.
    is_flapping = max(map(outages_in_a_row, rows), default=0) >= FLAPS
    if not is_flapping or stated.fault not in (Fault.INTERRUPTED, Fault.LOSS):
        return stated
    return flapping(stated, cause_place(incident.cause), is_over=ending.is_over(incident))


def _is_in(facts: Facts, row: IncidentPath) -> bool:
    return facts.ended_at is not None or row.ended_at is None or row.ended_at > facts.gathered_at


def _says_less(facts: Facts, earlier: Facts, incident: Incident) -> bool:
    # Whether new facts name no cause any more: good bursts dilute an ending incident.
    if {path.path_id for path in facts.paths} != {path.path_id for path in earlier.paths}:
        return False
    rules = [row.rule for row in gravest_first(incident.paths.all())]
    return (
        not likely_cause(facts, rules, incident.cause).is_certain
        and likely_cause(earlier, rules, incident.cause).is_certain
    )


def stored_facts(incident: Incident) -> Facts | None:
    """The stored facts of an incident; None if there are none yet."""
    row = IncidentEvidence.objects.filter(incident_id=incident.pk).first()
    return None if row is None else from_json(row.facts, row.version)


def _kept_beginning(incident: Incident, earlier: Facts | None) -> Beginning | None:
    # The beginning as first seen: later bursts would blur it.
    if earlier is None or incident.reopenings or earlier.began is None or earlier.began.earliest is None:
        return None
    return earlier.began
