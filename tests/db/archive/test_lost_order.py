"""Bursts with the order of their lost packets, and the batches that have not been seen yet."""

from datetime import timedelta

import numpy as np
import pytest

from monitor.analysis.segments.chain_sums import gone_on, sums_in_order
from monitor.archive.queries.present.lost_order import arrivals, lost_order
from tests.db.mesh_of_three import HOUR, NOW, batch, burst, delivered, make_mesh
from tests.deliveries import store

pytestmark = pytest.mark.django_db
MINUTE = timedelta(minutes=1)
SINCE_S = (HOUR - MINUTE).timestamp()


def stored(mesh, *every):
    """A delivery of these bursts of a path, a minute apart."""
    results = [
        delivered(mesh.slac_cern, burst(*rtts_ms, at=HOUR + number * MINUTE), number + 1)
        for number, rtts_ms in enumerate(every)
    ]
    store(mesh.slac.pk, batch(*results), NOW)


def test_the_sums_of_bursts_follow_the_order_of_their_packets():
    mesh = make_mesh()
    every = [(1.0, 1.0, 1.0), (1.0, None, None, 1.0), (None, None), (None, 1.0)]
    stored(mesh, *every)

    bursts = lost_order([mesh.slac_cern.pk], [SINCE_S], NOW)

    lost = [[rtt_ms is None for rtt_ms in rtts_ms] for rtts_ms in every]
    assert bursts.sums.T.tolist() == [sums_in_order(packets).tolist() for packets in lost]
    assert bursts.first_lost.tolist() == [packets[0] for packets in lost]
    assert bursts.last_lost.tolist() == [packets[-1] for packets in lost]
    assert np.diff(bursts.at_s).tolist() == [60.0] * 3


def test_a_chain_that_goes_on_is_the_order_of_all_its_packets():
    mesh = make_mesh()
    every = [(1.0, None), (None, None, None), (None, 1.0), (1.0, 1.0)]
    stored(mesh, *every)

    bursts = lost_order([mesh.slac_cern.pk], [SINCE_S], NOW)

    whole = sums_in_order([rtt_ms is None for rtts_ms in every for rtt_ms in rtts_ms])
    was_lost = np.append(False, bursts.last_lost[:-1])
    assert gone_on(bursts.sums, bursts.first_lost, was_lost).sum(axis=1).tolist() == whole.tolist()


def test_each_path_is_read_from_its_own_time():
    mesh = make_mesh()
    stored(mesh, (1.0,), (1.0,), (1.0,))
    store(mesh.cern.pk, batch(delivered(mesh.cern_slac, burst(1.0, at=HOUR), 1)), NOW)
    second_s = (HOUR + MINUTE).timestamp()

    bursts = lost_order([mesh.cern_slac.pk, mesh.slac_cern.pk], [second_s, second_s], NOW)

    assert bursts.path_id.tolist() == [mesh.slac_cern.pk] * 2
    assert bursts.at_s.tolist() == [second_s, second_s + 60.0]
    assert len(lost_order([], [], NOW).at_s) == 0


def test_batches_that_were_not_seen_are_told_once():
    mesh = make_mesh()
    stored(mesh, (1.0,), (1.0,))
    [first] = arrivals({}, NOW - MINUTE)
    seen = {(first.site_id, first.spool): first.number}

    assert (first.site_id, first.measured_from) == (mesh.slac.pk, HOUR)
    assert arrivals(seen, NOW - MINUTE) == []


def test_a_late_batch_tells_from_when_it_is():
    mesh = make_mesh()
    stored(mesh, (1.0,), (1.0,))
    [first] = arrivals({}, NOW - MINUTE)
    late = delivered(mesh.slac_cern, burst(1.0, at=HOUR - 30 * MINUTE), 3)
    store(mesh.slac.pk, batch(late, number=first.number + 1), NOW)

    [second] = arrivals({(first.site_id, first.spool): first.number}, NOW - MINUTE)

    assert (second.number, second.measured_from) == (first.number + 1, HOUR - 30 * MINUTE)


def test_a_batch_without_measurements_has_no_time():
    mesh = make_mesh()
    store(mesh.slac.pk, batch(), NOW)

    assert [arrival.measured_from for arrival in arrivals({}, NOW - MINUTE)] == [None]
