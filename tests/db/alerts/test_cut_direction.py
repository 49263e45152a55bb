"""The direction of an outage: planted cuts of one way and of both, and the statements about them."""

from __future__ import annotations

from datetime import timedelta

import pytest

from monitor.alerts.evidence import titles
from monitor.alerts.evidence.stated import Fault
from monitor.alerts.incidents import lifecycle, queries
from tests.db.alert_rows import make_mesh
from tests.db.evidence_rows import BEGAN, NOW, bursts, finding, gathered, incident
from tests.db.stamp_rows import store_cycles
from tests.facts import lacks

pytestmark = pytest.mark.django_db


@pytest.fixture
def pair():
    paths = make_mesh(["slac", "cern"], NOW - timedelta(days=2))
    there, back = paths["slac → cern"], paths["cern → slac"]
    for path in (there, back):
        bursts(path, NOW - timedelta(hours=6), BEGAN, [20.0, 20.2, 20.1, 20.4])
        bursts(path, BEGAN, NOW, [], lost=4)
    return there, back


def cycles(path, since, until, peer_packets, *, received=0):
    """STAMP cycles, without a reply unless given, whose agent received so many packets of the far end."""
    lost = 0 if received else None
    store_cycles(
        path, since, until, sent=10, received=received, undecided=10 - received,
        forward_lost=lost, reverse_lost=lost, peer_packets=peer_packets,
    )  # fmt: skip


def stated(pair, at_slac, at_cern):
    """The cause of an outage in which the agents receive these packets of each other a cycle."""
    for path, peer_packets in zip(pair, (at_slac, at_cern), strict=True):
        cycles(path, NOW - timedelta(hours=1), BEGAN, 11, received=10)
        cycles(path, BEGAN, NOW, peer_packets)
    row = incident(*(finding(path, "unreachable", since=BEGAN) for path in pair))
    cause = gathered(row).cause
    return queries.incident_with_paths(row.pk), cause


@pytest.mark.parametrize(
    ("at_slac", "at_cern", "ends"),
    [(11, 0, ("slac", "cern")), (0, 11, ("cern", "slac"))],
    ids=["forward", "reverse"],
)
def test_an_outage_one_way_names_the_way(pair, at_slac, at_cern, ends):
    row, cause = stated(pair, at_slac, at_cern)

    assert (cause.fault, cause.toward, cause.toward_by) == (Fault.INTERRUPTED, ends, "STAMP")
    source, destination = ends
    arrives = f"no packet arrives from {source} to {destination}, those from {destination} to {source} do"
    assert lacks(cause.sentence, "one direction", arrives, "STAMP") == []
    assert lacks(cause.next_step, f"from {source}", "that direction") == []
    assert row.toward == f"{source} → {destination}"
    assert titles.place_of(row) == f"{source} → {destination}"


def test_an_outage_both_ways_is_said_of_both(pair):
    row, cause = stated(pair, 0, 0)

    assert (cause.fault, cause.toward, row.toward) == (Fault.INTERRUPTED, None, "")
    assert lacks(cause.sentence, "both directions", "no packet arrives") == []


@pytest.mark.parametrize(
    ("at_slac", "at_cern", "proof"),
    [(0, 0, "both directions"), (11, 0, "no packet arrives from slac to cern, those from cern to slac do")],
    ids=["both", "forward"],
)
def test_a_proven_direction_stays_after_the_end(pair, at_slac, at_cern, proof):
    """The last cycles of the outage have packets that came after it."""
    row, cause = stated(pair, at_slac, at_cern)
    assert proof in cause.sentence
    later = NOW + timedelta(minutes=15)
    for path in pair:
        bursts(path, NOW, later, [20.0, 20.2, 20.1, 20.4])
        cycles(path, NOW - timedelta(seconds=90), later, 5, received=10)
    lifecycle.close(row.pk, [(path.pk, "unreachable") for path in pair], "over", later, ended_at=NOW)

    after = gathered(queries.incident_with_paths(row.pk), later + timedelta(minutes=1)).cause

    assert lacks(after.sentence, "Was interrupted", proof, "STAMP") == []
    assert (after.toward, after.toward_by) == (cause.toward, cause.toward_by)


@pytest.mark.parametrize(
    ("at_slac", "at_cern"),
    [(None, 0), (11, None), (11, 11)],
    ids=["slac tells nothing", "cern tells nothing", "arrive"],
)
def test_an_outage_without_both_ends_names_no_way(pair, at_slac, at_cern):
    row, cause = stated(pair, at_slac, at_cern)

    assert (cause.fault, cause.toward, row.toward) == (Fault.INTERRUPTED, None, "")
    assert "STAMP" not in cause.sentence
    assert lacks(cause.sentence, "one direction is enough") == []
