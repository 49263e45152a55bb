"""Faults in different places at different times: each has an incident of its own, with its own paths, begin and end."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from monitor.alerts.evidence import words
from monitor.alerts.evidence.evidence import evidence
from monitor.alerts.evidence.stated import Fault
from monitor.alerts.incidents import queries
from monitor.alerts.models import Incident
from monitor.mesh.models import Mesh
from tests.db.finding_levels import level_of
from tests.db.planted_faults import Planted, at, between, look_at, names_of, plant, site
from tests.db.route_mesh import trace_path
from tests.facts import lacks

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("as_worker")]
RULES = {"loss": {"above_ratio": 0.01, "window_s": 120}, "unreachable": {}, "rtt": {}}
NETWORKS = {f"198.18.{number}.0/24": {"name": f"AS {asn}", "asn": asn}
            for number, asn in enumerate((293, 20965, 174, 50, 513, 3671, 2200), 1)}  # fmt: skip
GATEWAYS = {"ornl": "198.18.4.1", "cern": "198.18.5.1", "slac": "198.18.6.1", "desy": "198.18.7.1"}
CORES = {
    ("slac", "cern"): ("198.18.3.1", "198.18.3.2"),
    ("slac", "ornl"): ("198.18.1.1", "198.18.1.3"),
    ("slac", "desy"): ("198.18.1.1", "198.18.1.2", "198.18.1.4", "198.18.2.3"),
    ("ornl", "cern"): ("198.18.1.4", "198.18.2.1", "198.18.2.2"),
    ("ornl", "desy"): ("198.18.1.4", "198.18.2.3"),
    ("cern", "desy"): ("198.18.2.2", "198.18.2.3"),
}
"""Between the gateways: all paths of ornl, and slac with desy, across one network, which no other path crosses."""


def store_routes(paths, seconds: Sequence[int]) -> None:
    Mesh.objects.update(networks=NETWORKS)
    for (a, b), core in CORES.items():
        for source, destination, hops in ((a, b, core), (b, a, core[::-1])):
            path = paths[f"{source} → {destination}"]
            for at_s in seconds:
                ends = GATEWAYS[destination], path.destination.address
                trace_path(path, at(at_s), [GATEWAYS[source], *hops, *ends])


def test_an_outage_elsewhere_has_an_incident_of_its_own():
    faults = [Planted(site("ornl"), 0, lost_ratio=0.15), Planted(between("desy", "slac"), 260, 27, lost_ratio=1.0)]
    paths, rows = plant(faults, 340, **RULES)
    store_routes(paths, range(-600, 260, 120))
    seen = list(look_at(rows, (60, 90, 120, 180, 240, 290, 300, 310, 330)))

    lasting = seen[-1][2]
    assert {cause: names_of(incident.path_ids, paths) for cause, incident in lasting.items()} == {
        "ornl": {name for name in paths if "ornl" in name},
        "desy ↔ slac": {"desy → slac", "slac → desy"},
    }


def test_an_incident_keeps_its_place_while_its_paths_come_back():
    """A site is down, then two of its six paths lose 10%: the others have come back long before."""
    end_s, later_s, lasts_s = 177, 253, 300
    faults = [
        Planted(site("desy"), 0, end_s, lost_ratio=1.0),
        Planted(between("desy", "ornl"), later_s, lasts_s, lost_ratio=0.1),
    ]
    paths, rows = plant(faults, 800, **RULES)
    looks_s = (20, 30, 50, 120, 190, 210, 260, *range(290, 800, 60))
    seen = [look for look in look_at(rows, looks_s) if look[2] and look[0] >= 120]

    assert max(at_s for at_s, _, _ in seen) > later_s + lasts_s
    assert any(row.is_over for _, _, lasting in seen for row in lasting["desy"].paths.all())
    for _, now, lasting in seen:
        assert lasting.keys() == {"desy"}, now
        stated = evidence(lasting["desy"], now)
        assert stated.cause.fault is Fault.INTERRUPTED, stated.likely
        assert names_of(lasting["desy"].path_ids, paths) == {name for name in paths if "desy" in name}
    (ended,) = map(queries.incident_with_paths, Incident.objects.values_list("pk", flat=True))
    assert ended.closed_at is not None
    last_reply, first_reply = (f"15:0{minute}:0{second}" for minute, second in ((6, 5), (9, 3)))
    assert lacks(words.headline(ended), "desy", "from 2026-11-21 15:06", "to 15:1") == [], words.headline(ended)
    outages = {(level.last_reply, level.first_reply) for level in map(level_of, ended.paths.all())}
    assert {f"{last:%H:%M:%S}"[:7] for last, _ in outages} == {last_reply[:7]}, outages
    assert {f"{first:%H:%M:%S}"[:7] for _, first in outages} == {first_reply[:7]}, outages
