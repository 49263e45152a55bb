"""Ingest: which results of a batch are stored, which are refused, and that a repeated delivery changes nothing."""

from datetime import UTC, datetime, timedelta

import msgspec
import pytest

from monitor.archive.ingest.arrivals import BatchRejected
from monitor.archive.models import Burst, DirtyHour, ReceivedBatch, RefusedResult, ThroughputTest
from monitor.archive.upkeep import retention
from probes.contract import Outcome
from probes.packets.spec import IcmpError
from probes.site.wire import Receipt
from probes.transfers.spec import SentIntervals, Transfer
from tests.db.mesh_of_three import HOUR, NOW, SPOOL, batch, burst, delivered, make_mesh, throughput
from tests.deliveries import store

pytestmark = [pytest.mark.django_db, pytest.mark.timescale]


@pytest.fixture
def mesh():
    return make_mesh()


def icmp_error(router="192.0.2.9", **fields):
    values = {"name": "time_exceeded", "icmp_type": 11, "icmp_code": 0, "router": router, "count": 1}
    return IcmpError(**{**values, **fields})


def reasons(receipt):
    return {refusal.sequence: refusal.reason for refusal in receipt.refused}


def test_a_burst_is_stored_as_measured(mesh):
    sent = burst(10.5, None, 11.25, at=HOUR + timedelta(seconds=1, microseconds=234567), duplicates=1, reordered=2)

    receipt = store(mesh.slac.pk, batch(delivered(mesh.slac_cern, sent, during_test=True)), NOW)

    row = Burst.objects.get()
    assert receipt == Receipt(number=1, accepted=1)
    assert row.path_id == mesh.slac_cern.pk
    assert row.measured_at == sent.started_at
    assert (row.packet_bytes, row.sent, row.received, row.duplicates, row.reordered) == (100, 3, 2, 1, 2)
    assert row.rtts_ms == [10.5, None, 11.25]
    assert (row.outcome, row.ttl, row.stamp, row.address, row.detail) == ("measured", 57, "kernel", "192.0.2.2", None)
    assert row.during_test


def test_an_rtt_keeps_seven_digits(mesh):
    store(mesh.slac.pk, batch(delivered(mesh.slac_cern, burst(0.001234567, 175.12345))), NOW)

    assert Burst.objects.get().rtts_ms == pytest.approx([0.001234567, 175.12345], rel=1e-7)


def test_total_loss_and_failed_tests_are_stored_differently(mesh):
    results = (
        delivered(mesh.slac_cern, burst(None, None), 1),
        delivered(mesh.slac_anl, burst(address=None), 2),
    )

    receipt = store(mesh.slac.pk, batch(*results), NOW)

    lost, unmeasured = Burst.objects.order_by("path_id")
    assert receipt.accepted == 2
    assert (lost.outcome, lost.sent, lost.received, lost.rtts_ms) == ("measured", 2, 0, [None, None])
    assert (unmeasured.outcome, unmeasured.sent, unmeasured.rtts_ms) == ("no_route", 0, [])
    assert (unmeasured.ttl, unmeasured.stamp, unmeasured.address) == (None, None, None)
    assert unmeasured.detail == "network is unreachable"


def test_the_hours_of_stored_bursts_are_marked_dirty(mesh):
    results = [
        delivered(mesh.slac_cern, burst(1.0, at=HOUR - timedelta(microseconds=1)), 1),
        delivered(mesh.slac_cern, burst(1.0, at=HOUR), 2),
        delivered(mesh.slac_cern, burst(1.0, at=HOUR + timedelta(minutes=29)), 3),
        delivered(mesh.slac_anl, burst(at=HOUR), 4),
    ]

    store(mesh.slac.pk, batch(*results), NOW)

    assert set(DirtyHour.objects.values_list("path_id", "hour", "marked_at")) == {
        (mesh.slac_cern.pk, HOUR - timedelta(hours=1), NOW),
        (mesh.slac_cern.pk, HOUR, NOW),
        (mesh.slac_anl.pk, HOUR, NOW),
    }


def test_a_mark_has_the_time_since_when_the_hour_is_dirty(mesh):
    later = NOW + timedelta(minutes=1)

    store(mesh.slac.pk, batch(delivered(mesh.slac_cern, burst(1.0), 1)), NOW)
    store(mesh.slac.pk, batch(delivered(mesh.slac_cern, burst(1.0, packet_bytes=1000), 2), number=2), later)

    assert DirtyHour.objects.get().marked_at == NOW


def test_a_repeated_batch_is_stored_once_with_the_same_receipt(mesh):
    slot = mesh.slot(mesh.slac_cern)
    again = batch(
        delivered(mesh.slac_cern, burst(1.0, None), 1),
        delivered(99999, burst(1.0), 2),
        delivered(mesh.slac_cern, throughput(1e8), 3, slot_id=slot.pk),
    )
    first = store(mesh.slac.pk, again, NOW)
    DirtyHour.objects.all().delete()

    second = store(mesh.slac.pk, again, NOW + timedelta(hours=3))

    assert second == first
    assert (first.accepted, len(first.refused)) == (2, 1)
    assert Burst.objects.count() == ThroughputTest.objects.count() == RefusedResult.objects.count() == 1
    assert ReceivedBatch.objects.get().received_at == NOW
    assert not DirtyHour.objects.exists()


def test_a_refused_result_stays_refused_when_delivered_later(mesh):
    early = batch(delivered(mesh.slac_cern, burst(1.0, at=NOW + timedelta(minutes=6))))
    first = store(mesh.slac.pk, early, NOW)

    second = store(mesh.slac.pk, early, NOW + timedelta(minutes=10))

    assert "in the future" in reasons(first)[1]
    assert second == first
    assert not Burst.objects.exists()


def test_half_of_a_batch_under_another_number_is_stored_once(mesh):
    delivery = delivered(mesh.slac_cern, burst(1.0, at=HOUR), 1)
    two = delivered(mesh.slac_cern, burst(2.0, at=HOUR + timedelta(minutes=1)), 2)

    store(mesh.slac.pk, batch(delivery, number=1), NOW)
    store(mesh.slac.pk, batch(delivery, two, number=2), NOW)

    assert [row.rtts_ms for row in Burst.objects.order_by("measured_at")] == [[1.0], [2.0]]


def test_a_batch_without_results_is_a_heartbeat(mesh):
    receipt = store(mesh.slac.pk, batch(queued=7, dropped=3), NOW)

    row = ReceivedBatch.objects.get()
    assert receipt == Receipt(number=1, accepted=0)
    assert (row.site_id, row.spool, row.queued, row.dropped) == (mesh.slac.pk, SPOOL, 7, 3)


RESULT = " - at `$.result`"
BAD_BURSTS = {
    f"received 2 is more than sent 1{RESULT}": burst(1.0, received=2),
    f"2 RTTs for 3 sent{RESULT}": burst(1.0, 2.0, sent=3),
    f"received 1, but 2 RTTs{RESULT}": burst(1.0, 2.0, received=1),
    f"received 1, but 0 RTTs{RESULT}": burst(None, received=1),
    f"late 2 is more than the 1 lost{RESULT}": burst(1.0, None, late=2),
    f"measured, but nothing was sent{RESULT}": burst(outcome=Outcome.MEASURED),
    f"no_route, but 1 were sent{RESULT}": burst(1.0, outcome=Outcome.NO_ROUTE),
    "Expected `float` >= 0.0 - at `$.result.rtts_ms[1]`": burst(1.0, -0.5),
    "Expected `float` >= 0.0 - at `$.result.rtts_ms[0]`": burst(float("nan")),
    "Expected `float` <= 60000.0 - at `$.result.rtts_ms[0]`": burst(float("inf")),
    "Expected `float` <= 60000.0 - at `$.result.rtts_ms[2]`": burst(1.0, None, 60000.1),
    "Expected `int` <= 65527 - at `$.result.packet_bytes`": burst(1.0, packet_bytes=65528),
    "Expected `int` >= 0 - at `$.result.packet_bytes`": burst(1.0, packet_bytes=-1),
    "Expected `int` <= 32767 - at `$.result.sent`": burst(1.0, sent=40000),
    "Expected `int` >= 0 - at `$.result.duplicates`": burst(1.0, duplicates=-1),
    "Expected `int` <= 255 - at `$.result.ttl`": burst(1.0, ttl=256),
    "Expected `int` >= 1 - at `$.result.path_mtu_bytes`": burst(1.0, path_mtu_bytes=0),
    f"2 times the ICMP error 'time_exceeded' for 1 sent{RESULT}": burst(None, errors=(icmp_error(count=2),)),
    f"an ICMP error came from 'gw', which is not an IP address{RESULT}": burst(None, errors=(icmp_error("gw"),)),
    f"address 'cern.ch' is not an IP address{RESULT}": burst(1.0, address="cern.ch"),
    f"address 'fe80::1%eth0' is not an IP address{RESULT}": burst(1.0, address="fe80::1%eth0"),
    "IPv6 was measured, path {path} is IPv4": burst(1.0, family=6),
    "Expected `datetime` with a timezone component - at `$.result.started_at`": burst(
        1.0,
        at=datetime(2026, 3, 14),  # noqa: DTZ001
    ),
    "started_at 2026-03-14T12:35:00.000001+00:00 is in the future; is the clock of the site right?": burst(
        1.0, at=NOW + timedelta(minutes=5, microseconds=1)
    ),
    "started_at 1999-12-31T23:59:59+00:00 is before 2000; is the clock of the site right?": burst(
        1.0, at=datetime(1999, 12, 31, 23, 59, 59, tzinfo=UTC)
    ),
    "started_at 2023-03-14T12:30:00+00:00 is before 2024-03-14T12:30:00+00:00, the oldest that is kept": burst(
        1.0, at=datetime(2023, 3, 14, 12, 30, tzinfo=UTC)
    ),
}


@pytest.mark.parametrize("reason", BAD_BURSTS)
def test_an_impossible_burst_is_refused_alone(mesh, reason):
    bad = delivered(mesh.slac_cern, BAD_BURSTS[reason], 41)
    good = delivered(mesh.slac_anl, burst(1.0), 42)

    receipt = store(mesh.slac.pk, batch(bad, good), NOW)

    expected = reason.format(path=mesh.slac_cern.pk)
    refused = RefusedResult.objects.get()
    assert receipt.accepted == 1
    assert reasons(receipt) == {41: expected}
    assert (refused.site_id, refused.spool, refused.sequence, refused.refused_at) == (mesh.slac.pk, SPOOL, 41, NOW)
    assert refused.reason == expected
    assert refused.result["result"]["target"] == "cern"
    assert Burst.objects.get().path_id == mesh.slac_anl.pk


BAD_RUNS = {
    f"measured, but without throughput_bps{RESULT}": throughput(outcome=Outcome.MEASURED),
    f"busy, but with throughput_bps 1000000.0{RESULT}": throughput(1e6, outcome=Outcome.BUSY),
    "Expected `float` >= 0.0 - at `$.result.throughput_bps`": throughput(float("nan")),
    "Expected `float` <= 1e+18 - at `$.result.duration_s`": throughput(1e6, duration_s=float("inf")),
    "Expected `float` >= 0.0 - at `$.result.rtt_mean_ms`": throughput(1e6, rtt_mean_ms=-2.0),
    "Expected `int` >= 1 - at `$.result.streams`": throughput(1e6, streams=0),
    "Expected `int` <= 2147483647 - at `$.result.retransmits`": throughput(1e6, retransmits=2**31),
    "Expected `int` <= 9223372036854775807 - at `$.result.sent_bytes`": throughput(1e6, sent_bytes=2**63),
    "Expected `float` <= 86400.0 - at `$.result.transfer.sent.end_s[0]`": throughput(
        1e6, transfer=Transfer(sent=SentIntervals(end_s=(float("inf"),), sent_bytes=(1,)))
    ),
    "2 values of sent_bytes for 1 intervals - at `$.result.transfer.sent`": throughput(
        1e6, transfer=Transfer(sent=SentIntervals(end_s=(1.0,), sent_bytes=(1, 2)))
    ),
    "end_s runs backwards - at `$.result.transfer.sent`": throughput(
        1e6, transfer=Transfer(sent=SentIntervals(end_s=(1.0, 0.5), sent_bytes=(1, 2)))
    ),
}


@pytest.mark.parametrize("reason", BAD_RUNS)
def test_an_impossible_throughput_test_is_refused(mesh, reason):
    receipt = store(mesh.slac.pk, batch(delivered(mesh.slac_cern, BAD_RUNS[reason], 41)), NOW)

    assert reasons(receipt) == {41: reason}
    assert RefusedResult.objects.get().reason == reason
    assert not ThroughputTest.objects.exists()


def test_a_test_with_an_invalid_name_is_refused(mesh):
    receipt = store(mesh.slac.pk, batch(delivered(mesh.slac_cern, throughput(1e6), test="a\0")), NOW)

    assert reasons(receipt) == {1: "test holds a NUL character"}


def test_paths_and_slots_must_exist_and_belong_to_the_site(mesh):
    slot = mesh.slot(mesh.slac_cern)
    results = (
        delivered(2**63, burst(1.0), 1),
        delivered(mesh.cern_slac, burst(1.0), 2),
        delivered(mesh.slac_anl, throughput(1e6), 3, slot_id=slot.pk),
    )

    receipt = store(mesh.slac.pk, batch(*results), NOW)

    assert reasons(receipt) == {
        1: f"path {2**63} is unknown",
        2: f"path {mesh.cern_slac.pk} does not start at this site",
        3: f"slot {slot.pk} is not of path {mesh.slac_anl.pk}",
    }


def test_a_test_whose_slot_was_deleted_is_still_accepted(mesh):
    run = throughput(1e6)

    receipt = store(mesh.slac.pk, batch(delivered(mesh.slac_cern, run, slot_id=12345)), NOW)

    assert receipt.accepted == 1
    assert ThroughputTest.objects.get().throughput_bps == 1e6


def test_results_of_a_retired_path_are_still_accepted(mesh):
    mesh.slac_cern.retired_at = HOUR - timedelta(days=400)
    mesh.slac_cern.save()

    receipt = store(mesh.slac.pk, batch(delivered(mesh.slac_cern, burst(1.0))), NOW)

    assert receipt.accepted == 1


def test_a_throughput_test_is_stored_and_closes_its_slot(mesh):
    slot = mesh.slot(mesh.slac_cern)
    transfer = Transfer(sent=SentIntervals(end_s=(1.0,), sent_bytes=(12_500_000,), retransmits=(2,)))
    run = throughput(
        94.1e6,
        streams=4,
        duration_s=10.01,
        sent_bytes=118_000_000,
        received_bytes=117_700_000,
        retransmits=33,
        rtt_mean_ms=175.5,
        congestion_control="cubic",
        tool="iperf 3.16",
        transfer=transfer,
    )

    store(mesh.slac.pk, batch(delivered(mesh.slac_cern, run, slot_id=slot.pk)), NOW)

    row = ThroughputTest.objects.get()
    slot.refresh_from_db()
    assert (row.path_id, row.measured_at, row.test, row.slot_id) == (mesh.slac_cern.pk, HOUR, "tcp", slot.pk)
    assert (row.outcome, row.throughput_bps, row.duration_s, row.streams) == ("measured", 94.1e6, 10.01, 4)
    assert (row.sent_bytes, row.received_bytes, row.retransmits) == (118_000_000, 117_700_000, 33)
    assert (row.rtt_mean_ms, row.congestion_control, row.tool) == (175.5, "cubic", "iperf 3.16")
    assert row.transfer == {"sent": {"end_s": [1.0], "sent_bytes": [12_500_000], "retransmits": [2]}}
    assert slot.outcome == "measured"


def test_a_failed_throughput_test_has_no_figures(mesh):
    slot = mesh.slot(mesh.slac_cern)

    store(mesh.slac.pk, batch(delivered(mesh.slac_cern, throughput(), slot_id=slot.pk)), NOW)

    row = ThroughputTest.objects.get()
    slot.refresh_from_db()
    assert (row.outcome, row.throughput_bps, row.detail) == ("tool_failure", None, "connection refused")
    assert (slot.outcome, slot.detail) == ("tool_failure", "connection refused")


def test_a_late_result_replaces_missed(mesh):
    slot = mesh.slot(mesh.slac_cern)
    slot.outcome = "missed"
    slot.save()

    store(mesh.slac.pk, batch(delivered(mesh.slac_cern, throughput(1e6), slot_id=slot.pk)), NOW)

    slot.refresh_from_db()
    assert slot.outcome == "measured"


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"number": 2**63}, "Expected `int` <= 281474976710656 - at `$.number`"),
        ({"queued": -1}, "Expected `int` >= 0 - at `$.queued`"),
        (
            {"sent_at": datetime(2026, 3, 14)},  # noqa: DTZ001
            "Expected `datetime` with a timezone component - at `$.sent_at`",
        ),
        ({"spool": "a\0"}, "A text holds a NUL character - at `$.spool`"),
    ],
)
def test_a_batch_with_invalid_fields_of_its_own_is_rejected(mesh, fields, message):
    with pytest.raises(BatchRejected) as rejected:
        store(mesh.slac.pk, batch(**fields), NOW)

    assert str(rejected.value) == f"not a batch: {message}"


def test_every_field_of_a_burst_is_stored(mesh):
    sent_burst = burst(
        10.5,
        None,
        None,
        at=HOUR + timedelta(microseconds=1),
        packet_bytes=1000,
        address="2001:db8::7",
        family=6,
        duplicates=1,
        reordered=2,
        late=1,
        ttl_changes=3,
        stamps_lost=4,
        clock_source="tsc",
        waited=5,
        errors=(icmp_error(mtu_bytes=1400),),
        path_mtu_bytes=1400,
        rate_limited=False,
        flow=0xFFFE,
        source_address="2001:db8::6",
        loaded_rtts_ms=(20.0, None),
        detail="näh \U0001f9ed",
    )
    mesh.slac_cern.family = 6
    mesh.slac_cern.save()

    store(mesh.slac.pk, batch(delivered(mesh.slac_cern, sent_burst, during_test=True)), NOW)

    row = Burst.objects.get()
    expected = {
        "path_id": mesh.slac_cern.pk,
        "measured_at": sent_burst.started_at,
        "outcome": "measured",
        "during_test": True,
        "errors": [msgspec.to_builtins(icmp_error(mtu_bytes=1400))],
        "rtts_ms": [10.5, None, None],
        "loaded_rtts_ms": [20.0, None],
    }
    same = {field.name for field in Burst._meta.concrete_fields} - expected.keys()
    assert {name: getattr(row, name) for name in expected} == expected
    assert {name: getattr(row, name) for name in same} == {name: getattr(sent_burst, name) for name in same}


def test_a_batch_with_known_bursts_adds_only_the_new_bursts(mesh):
    first, second = (delivered(mesh.slac_cern, burst(1.0, at=HOUR - timedelta(hours=n)), n + 1) for n in range(2))
    store(mesh.slac.pk, batch(first, number=1), NOW)
    DirtyHour.objects.all().delete()

    receipt = store(mesh.slac.pk, batch(first, second, number=2), NOW)

    assert receipt.accepted == 2
    assert Burst.objects.count() == 2
    assert list(DirtyHour.objects.values_list("hour", flat=True)) == [HOUR - timedelta(hours=1)]


def test_two_results_with_the_same_key_are_stored_once(mesh):
    both = [delivered(mesh.slac_cern, burst(float(n)), n) for n in (1, 2)]

    receipt = store(mesh.slac.pk, batch(*both), NOW)

    assert receipt.accepted == 2
    assert Burst.objects.count() == 1


def test_the_hour_of_a_throughput_test_is_marked_once(mesh):
    run = batch(delivered(mesh.slac_cern, throughput(1e6)))
    store(mesh.slac.pk, run, NOW)
    marked = list(DirtyHour.objects.values_list("path_id", "hour"))
    DirtyHour.objects.all().delete()

    store(mesh.slac.pk, run, NOW)

    assert marked == [(mesh.slac_cern.pk, HOUR)]
    assert not DirtyHour.objects.exists()


def test_stored_refused_results_are_limited(mesh, monkeypatch):
    monkeypatch.setattr(retention, "MOST_REFUSED", 5)
    store(mesh.cern.pk, batch(delivered(99999, burst(1.0), 1)), NOW)

    for first in (1, 11, 21):
        bad = [delivered(99999, burst(1.0), first + n) for n in range(4)]
        store(mesh.slac.pk, batch(*bad, number=first), NOW)

    stored = RefusedResult.objects.order_by("id").values_list("site_id", "sequence")
    assert list(stored) == [(mesh.cern.pk, 1), *((mesh.slac.pk, n) for n in (14, 21, 22, 23, 24))]


def test_the_number_of_queries_does_not_grow_with_the_batch(mesh, django_assert_max_num_queries):
    results = [delivered(mesh.slac_cern, burst(1.0, at=HOUR + timedelta(seconds=n)), n + 1) for n in range(500)]
    results += [delivered(99999, burst(1.0), n) for n in range(501, 600)]
    store(mesh.slac.pk, batch(number=1), NOW)

    with django_assert_max_num_queries(13):
        receipt = store(mesh.slac.pk, batch(*results, number=2), NOW)

    assert (receipt.accepted, len(receipt.refused)) == (500, 99)


ODD_TEXT, ON_ONE_LINE = "a\u2028b\n\u202ec\x7f", "a b \ufffdc\ufffd"


def test_texts_of_agents_are_stored_on_one_line(mesh):
    slot = mesh.slot(mesh.slac_cern)
    failed = throughput(detail=ODD_TEXT, tool=ODD_TEXT)
    store(
        mesh.slac.pk,
        batch(
            delivered(mesh.slac_cern, burst(detail=ODD_TEXT), 1),
            delivered(mesh.slac_cern, burst(None, 1.0, at=HOUR + timedelta(minutes=1), detail=ODD_TEXT), 2),
            delivered(mesh.slac_cern, failed, 3, slot_id=slot.pk),
        ),
        NOW,
    )

    assert {row.detail for row in Burst.objects.all()} == {ON_ONE_LINE}
    assert {(row.detail, row.tool) for row in ThroughputTest.objects.all()} == {(ON_ONE_LINE, ON_ONE_LINE)}
    slot.refresh_from_db()
    assert slot.detail == ON_ONE_LINE
