"""The other paths of incidents, of random findings on a small mesh: compared with a plain look at each path."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import NamedTuple

import numpy as np
import pytest

from monitor.alerts.detect import silence
from monitor.alerts.detect.rules.catalogue import rule_of
from monitor.alerts.detect.rules.finding import Effect, RuleFinding, Trouble
from monitor.alerts.detect.suspects import EXCLUDED_NATS, PathSuspicion
from monitor.alerts.evaluate import snapshot_at
from monitor.alerts.incidents import queries
from monitor.alerts.incidents.own_track import is_bad_now, is_normal_again
from monitor.alerts.models import Incident, IncidentPath
from monitor.alerts.other_paths import OtherPaths
from monitor.alerts.scope import scope_now
from monitor.analysis.alarms.suspicion import loss_factors
from monitor.analysis.changes.present import LostPackets
from monitor.analysis.segments.delay_segments import DelaySegment
from monitor.analysis.segments.loss_segments import LossSegment
from monitor.analysis.segments.segment import Moment
from monitor.present.conditions import Condition
from monitor.present.models import copy_of
from monitor.present.track import Signal, Track
from tests.db.alert_rows import make_bursts, make_mesh

pytestmark = pytest.mark.django_db
NOW = datetime(2026, 11, 21, 12, 40, 30, tzinfo=UTC)
MINUTES = 25
RULES = ("loss", "unreachable", "rtt", "jitter", "throughput", "no_data")
FIGURES = {"rtt": {"before_ms": 20.0, "after_ms": 60.0}, "loss": {"sent": 100, "lost": 10, "threshold_ratio": 0.01}}


class Plain(NamedTuple):
    """A mesh with troubles, as the oracle reads it."""

    firing: list
    rows: dict
    snapshot: object
    suspected: set


def is_loss(rule):
    return rule_of(rule).effect in (Effect.LOSS, Effect.UNREACHABLE)


def plain_kinds(of, keys, earlier):
    """The kind of each path beside those of these findings: bad, normal, unclear, overdue, in others, silent."""
    trouble, losses = rule_of(keys[0][1]).trouble, {is_loss(rule) for _, rule in keys}
    paths, snapshot = trouble.paths_of(of.snapshot), of.snapshot
    present = {finding.key for finding in of.firing} | set(of.rows)
    present = {key for key in present if key not in of.rows or not is_normal_again(of.rows[key])}
    kinds = {}
    for path_id in paths:
        own = [rule for of_path, rule in present if of_path == path_id]
        bad = [
            rule
            for rule in own
            if rule_of(rule).trouble is trouble
            and is_loss(rule) in losses
            and ((path_id, rule) not in of.rows or is_bad_now(of.rows[path_id, rule]))
        ]
        has_bursts = snapshot.recent["bursts"][snapshot.rows[path_id]].sum() > 0
        is_silent = trouble is Trouble.ROUND_TRIPS and not has_bursts
        kinds[path_id] = "bad" if bad else "other" if own else "silent" if is_silent else "normal"
    inside = {path_id for path_id, _ in [*keys, *earlier]}
    if trouble is Trouble.ROUND_TRIPS and losses == {False}:
        names = {paths[path_id].name for path_id in inside if path_id in paths}
        reverse = {" → ".join(reversed(name.split(" → "))) for name in names}
        inside |= {path_id for path_id, path in paths.items() if path.name in reverse and kinds[path_id] == "normal"}
    normal = [path_id for path_id in paths if kinds[path_id] == "normal" and path_id not in inside]
    lossy = sorted({path_id for path_id, rule in [*keys, *earlier] if is_loss(rule) and path_id in snapshot.rows})
    unclear = set()
    if lossy:
        counts = PathSuspicion(of.firing, list(of.rows), snapshot)._counts
        rows = np.array([snapshot.rows[path_id] for path_id in normal], dtype=np.int64)
        factors = loss_factors(counts, np.array([snapshot.rows[path_id] for path_id in lossy]), rows)
        is_outage = any(rule == "unreachable" for _, rule in [*keys, *earlier])
        unclear = {key for key, nats in zip(normal, factors, strict=True) if nats > (0 if is_outage else EXCLUDED_NATS)}
    if trouble is Trouble.ROUND_TRIPS:
        told = {path_id for path_id, rule in {finding.key for finding in of.firing} | set(of.rows) if is_loss(rule)}
        unclear |= of.suspected - told
    overdue = silence.paths_without_newer_data(snapshot) if trouble.is_of_pings else frozenset()
    for path_id in normal:
        if path_id in unclear | overdue:
            kinds[path_id] = "overdue" if path_id in overdue else "unclear"
    return {path_id: kind for path_id, kind in kinds.items() if path_id not in inside}, inside & set(paths)


def plain_shares(of, keys, earlier):
    """Bad, known, unclear, in others, silent, overdue of each place."""
    kinds, inside = plain_kinds(of, keys, earlier)
    paths = rule_of(keys[0][1]).trouble.paths_of(of.snapshot)
    if not inside:
        return {}
    ends = [{paths[path_id].source, paths[path_id].destination} for path_id in inside]
    common = set.intersection(*ends)
    counts = {f"{way} {site}": Counter() for site in common for way in ("from", "to")}
    for path_id, kind in kinds.items():
        path = paths[path_id]
        places = [f"from {path.source}"] if path.source in common else []
        places += [f"to {path.destination}"] if path.destination in common else []
        for place in places or ["elsewhere"]:
            counts.setdefault(place, Counter())[kind] += 1
    shares = {}
    for place, of_kind in counts.items():
        known = sum(of_kind[kind] for kind in ("bad", "normal", "unclear", "overdue"))
        if known or place != "elsewhere":
            unclear = of_kind["unclear"] + of_kind["overdue"]
            shares[place] = (of_kind["bad"], known, unclear, of_kind["other"], of_kind["silent"], of_kind["overdue"])
    return shares if any(known for _, known, *_ in shares.values()) else {}


def level_of(chance, rule):
    """The stored track of a finding: bad, over, or without newer data."""
    if rule not in ("rtt", "loss") or chance.random() < 0.3:
        return None
    is_over = chance.random() < 0.3
    begun, ended = (Moment(at_s, at_s, at_s) for at_s in (NOW.timestamp() - 540.0, NOW.timestamp() - 120.0))
    if rule == "rtt":
        bad, normal = DelaySegment(1, begun, *[60.0] * 4), DelaySegment(0, ended, *[20.0] * 4)
    else:
        bad, normal = LossSegment(1, begun, LostPackets(100, 10)), LossSegment(0, ended, LostPackets(100, 0))
    known = Condition.NORMAL if is_over else Condition.BAD
    condition = Condition.OVERDUE if chance.random() < 0.2 else known
    signal = Signal.RTT if rule == "rtt" else Signal.LOSS
    return copy_of(Track(0, signal, "", 0, condition, NOW.timestamp(), (bad, normal) if is_over else (bad,)))


def lasting_incidents(chance, path_ids):
    keys = [(path_id, rule) for path_id in path_ids for rule in RULES if chance.random() < 0.06]
    for number, (path_id, rule) in enumerate(keys):
        incident = Incident.objects.create(
            cause=f"cause {number}",
            rule=rule,
            opened_at=NOW,
            is_pending=False,
            severity="warning",
            summary="",
            shares=[],
        )
        IncidentPath.objects.create(
            incident=incident, path_id=path_id, rule=rule, sentence="bad", since=NOW - timedelta(minutes=9),
            added_at=NOW, figures=FIGURES.get(rule, {}), level=level_of(chance, rule),
        )  # fmt: skip
    return queries.lasting_incidents()


@pytest.mark.parametrize("seed", range(8))
def test_shares_are_those_of_a_plain_look_at_each_path(seed):
    chance = random.Random(seed)
    paths = make_mesh(["cern", "desy", "fnal", "kek", "slac"], NOW - timedelta(days=1), loss={"above_ratio": 0.01})
    ids = [path.pk for path in paths.values()]
    for path in paths.values():
        ratio = chance.choice([0.0, 0.0, 0.0, 0.0, 0.01, 0.05, 0.2])
        bursts = chance.choice([MINUTES, MINUTES, MINUTES, MINUTES, MINUTES - 7, 0])
        lost = [sum(chance.random() < ratio for _ in range(10)) for _ in range(bursts)]
        make_bursts(path, lost, NOW - timedelta(minutes=MINUTES))
    scope = scope_now()
    snapshot = snapshot_at(NOW, scope, {})
    snapshot = replace(snapshot, tested_paths={key: snapshot.paths[key] for key in ids if chance.random() < 0.7})
    firing = [
        RuleFinding(rule, path_id, "", "bad", NOW, FIGURES.get(rule, {}))
        for path_id in ids for rule in RULES if chance.random() < 0.1
    ]  # fmt: skip
    lasting = lasting_incidents(chance, ids)
    rows = {(row.path_id, row.rule): row for incident in lasting for row in incident.paths.all()}
    suspected = {path_id for path_id in ids if chance.random() < 0.2}
    of = Plain(firing, rows, snapshot, suspected)
    others = OtherPaths(firing, lasting, snapshot, suspected)

    looks = 0
    for trouble in Trouble:
        rules = [rule for rule in RULES if rule_of(rule).trouble is trouble]
        every = [(path_id, rule) for path_id in ids for rule in rules]
        for _ in range(12 if rules else 0):
            keys = chance.sample(every, chance.choice([1, 1, 2, 4]))
            earlier = chance.sample([(path_id, rule) for path_id in ids for rule in RULES], chance.choice([0, 0, 1, 3]))
            expected = plain_shares(of, keys, earlier)
            found = {
                share.where.removeprefix("other ").removeprefix("paths "): share
                for share in others.shares(keys, earlier)
            }
            found = {("elsewhere" if where == "paths" else where): share for where, share in found.items()}
            assert {
                where: (
                    share.bad, share.known, share.unclear, share.in_other_incidents, share.without_data, share.overdue,
                )
                for where, share in found.items()
            } == expected  # fmt: skip
            looks += len(expected)
    assert looks > 50
