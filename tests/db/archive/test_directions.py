"""Loss and delay by direction, from the agents' results to their summaries."""

from __future__ import annotations

import csv
import re
from dataclasses import fields
from datetime import timedelta
from statistics import fmean

import pytest
from django.utils import timezone
from msgspec.structs import replace

from monitor.analysis.directions import DirectionLosses
from monitor.analysis.tcp import LimitName
from monitor.analysis.tcp.wording import ground, notes
from monitor.archive.models import (
    Burst,
    BurstHour,
    DirectionBurst,
    DirectionDay,
    DirectionHour,
    DirectionMonth,
    DirectionYear,
    DirtyHour,
    RefusedResult,
)
from monitor.archive.queries.directions import (
    PathStretch,
    RawDirection,
    direction_counters,
    direction_counts,
    direction_series,
    direction_totals,
    one_way_delays,
)
from monitor.archive.queries.for_alerts import LeftOutHours, baseline_directions
from monitor.archive.queries.path_estimates import path_estimate
from monitor.archive.queries.paths import path_summaries
from monitor.archive.rollup.recompute import recompute, roll_up
from monitor.archive.upkeep import retention
from probes.contract import Deadline, Outcome
from probes.stamp.spec import StampBurst
from tests.db.merging import merge_all
from tests.db.mesh_of_three import HOUR, NOW, batch, burst, delivered, make_mesh
from tests.db.stamp_rows import delivered_stamp, direction, stamp_burst
from tests.deliveries import store
from tests.facts import lacks

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.timescale]

MINUTE = timedelta(minutes=1)
SUMMARIES = (DirectionHour, DirectionDay, DirectionMonth, DirectionYear)


@pytest.fixture
def mesh():
    return make_mesh()


def store_all(mesh, results, *, first=1, number=1, **fields):
    rows = [delivered_stamp(mesh.slac_cern, result, first + place, **fields) for place, result in enumerate(results)]
    return store(mesh.slac.pk, batch(*rows, number=number), NOW)


def summarise():
    while roll_up(NOW):
        pass
    merge_all(NOW)


def test_each_field_of_a_result_is_stored_under_its_name(mesh):
    receipt = store_all(mesh, [stamp_burst(forward_lost=2, reverse_lost=1, undecided=1, dscp=46)])

    assert (receipt.accepted, receipt.refused) == (1, ())
    row = DirectionBurst.objects.get()
    assert (row.sent, row.received, row.undecided, row.forward_lost, row.reverse_lost) == (10, 6, 1, 2, 1)
    assert (row.forward_min_ms, row.forward_median_ms, row.forward_p95_ms, row.forward_max_ms) == (21, 22, 25, 29)
    assert (row.reverse_min_ms, row.reverse_ttl, row.forward_ttl, row.dscp) == (19, 57, None, 46)
    assert (row.offset_lo_ms, row.offset_hi_ms, row.are_clocks_synchronised) == (-1, 3, True)
    assert (row.test, row.outcome, row.is_stateful, row.during_test) == ("oneway", "measured", True, False)


def test_delivered_again_nothing_changes(mesh):
    results = [stamp_burst(at=HOUR + MINUTE * minute, is_path_series=True) for minute in range(3)]
    store_all(mesh, results)
    roll_up(NOW)
    store_all(mesh, results)
    store_all(mesh, results, number=2)
    roll_up(NOW)

    assert (DirectionBurst.objects.count(), Burst.objects.count()) == (3, 3)
    assert DirectionHour.objects.get().sent == BurstHour.objects.get().sent == 30


def test_the_round_trips_of_a_path_without_pings_are_its_bursts(mesh):
    store_all(mesh, [stamp_burst(reverse_lost=1, is_path_series=True)])
    row = Burst.objects.get()

    assert (row.path_id, row.measured_at, row.packet_bytes) == (mesh.slac_cern.pk, HOUR, 200)
    assert (row.sent, row.received, row.ttl, row.rtts_ms) == (10, 9, 57, [40.0] * 9 + [None])


def test_beside_pings_the_bursts_stay_those_of_the_pings(mesh):
    store_all(mesh, [stamp_burst(is_path_series=False)])
    store(mesh.slac.pk, batch(delivered(mesh.slac_cern, burst(20.0), 9), number=2), NOW)

    assert [(row.packet_bytes, row.rtts_ms) for row in Burst.objects.all()] == [(100, [20.0])]


def test_a_stateless_reflector_tells_no_direction(mesh):
    store_all(mesh, [stamp_burst(forward_lost=None, reverse_lost=None, undecided=3)])
    roll_up(NOW)

    row, hour = DirectionBurst.objects.get(), DirectionHour.objects.get()
    assert (row.forward_lost, row.reverse_lost, row.undecided) == (None, None, 3)
    assert (hour.bursts, hour.bursts_counted, hour.counted, hour.forward_lost) == (1, 0, 0, 0)


def _not_measured() -> StampBurst:
    return StampBurst(
        target="cern",
        address=None,
        family=4,
        packet_bytes=200,
        started_at=HOUR,
        outcome=Outcome.NO_ROUTE,
        detail="network is unreachable",
        is_path_series=True,
    )


def test_a_failed_cycle_is_stored_with_its_reason_and_counts_nothing(mesh):
    assert store_all(mesh, [_not_measured()]).accepted == 1
    roll_up(NOW)

    assert (DirectionBurst.objects.get().detail, Burst.objects.get().detail) == ("network is unreachable",) * 2
    assert not DirectionHour.objects.exists()
    assert BurstHour.objects.get().bursts_not_measured == 1


GOOD = stamp_burst(forward_lost=2, reverse_lost=1, undecided=1)
CONTRADICTIONS = {
    "counts": (replace(GOOD, undecided=0), "forward 2, reverse 1, undecided 0 and late 0 are not the 4 lost"),
    "late": (replace(GOOD, late=1), "forward 2, reverse 1, undecided 1 and late 1 are not the 4 lost"),
    "single": (replace(GOOD, reverse=direction(None, 19.0)), "loss of one direction only"),
    "received": (replace(GOOD, received=9), "received 9, but 6 RTTs"),
    "stateless": (
        replace(GOOD, forward=direction(None, 21.0), reverse=direction(None, 19.0), undecided=5),
        "undecided 5 is more than the 4 lost",
    ),
    "offset": (replace(GOOD, offset_lo_ms=4.0), "offset_lo_ms 4.0 is more than offset_hi_ms 3.0"),
    "bound": (replace(GOOD, offset_lo_ms=None), "one bound of the clocks' offset only"),
    "order": (
        replace(GOOD, forward=direction(2, 21.0, median_ms=20.0)),
        "forward: min_ms, median_ms, p95_ms and max_ms are not in order",
    ),
    "some": (replace(GOOD, reverse=direction(1, 19.0, p95_ms=None)), "reverse: 3 of the 4 delays only"),
    "one way": (replace(GOOD, reverse=direction(1)), "delays of one direction only"),
    "no reply": (
        replace(stamp_burst(undecided=10), forward=direction(0, 21.0)),
        "forward: delays without a reply",
    ),
}


@pytest.mark.parametrize("name", CONTRADICTIONS)
def test_a_contradiction_is_refused_with_its_reason(mesh, name):
    result, reason = CONTRADICTIONS[name]
    receipt = store_all(mesh, [result, stamp_burst(at=HOUR + MINUTE)])

    assert (receipt.accepted, [refusal.reason for refusal in receipt.refused]) == (1, [f"{reason} - at `$.result`"])
    assert RefusedResult.objects.count() == DirectionBurst.objects.count() == 1


def expected_of(results, measured):
    """A brute-force summary of bursts outside throughput tests."""
    of = [result for result, is_loaded in zip(results, measured, strict=True) if not is_loaded]
    told = [result for result in of if result.forward.lost is not None]
    timed = [result for result in of if result.forward.median_ms is not None]

    def mean(values):
        return fmean(values) if values else None

    return {
        "bursts": len(of),
        "bursts_counted": len(told),
        "bursts_delayed": len(timed),
        "sent": sum(result.sent for result in of),
        "received": sum(result.received for result in of),
        "counted": sum(result.sent - result.undecided for result in told),
        "forward_lost": sum(result.forward.lost for result in told),
        "reverse_lost": sum(result.reverse.lost for result in told),
        "forward_lossy": sum(result.forward.lost > 0 for result in told),
        "reverse_lossy": sum(result.reverse.lost > 0 for result in told),
        "forward_min_ms": min(result.forward.min_ms for result in timed),
        "forward_avg_ms": mean([result.forward.median_ms for result in timed]),
        "forward_variation_ms": mean([result.forward.p95_ms - result.forward.min_ms for result in timed]),
        "reverse_avg_ms": mean([result.reverse.median_ms for result in timed]),
        "reverse_ipdv_ms": mean([result.reverse.ipdv_ms for result in timed]),
        "offset_lo_ms": mean([result.offset_lo_ms for result in timed]),
        "offset_hi_ms": mean([result.offset_hi_ms for result in timed]),
    }


def test_summaries_of_all_tiers_are_those_of_the_raw_results(mesh):
    """Two hours of two days, in one month: with loss, without counters, without replies, and under load."""
    results = [
        stamp_burst(
            at=HOUR - timedelta(hours=24 * (minute % 2)) + MINUTE * minute,
            forward_lost=None if minute % 7 == 3 else minute % 3,
            reverse_lost=None if minute % 7 == 3 else minute % 2,
            undecided=minute % 4 if minute % 7 == 3 else 0,
            forward_ms=21.0 + minute,
            reverse_ms=19.0 - minute,
            offset_ms=(minute - 1.0, minute + 3.0),
        )
        for minute in range(20)
    ]
    results.append(stamp_burst(at=HOUR + MINUTE * 30, undecided=10))
    loaded = [place % 5 == 4 for place in range(len(results))]
    rows = [
        delivered_stamp(mesh.slac_cern, result, place + 1, during_test=is_loaded)
        for place, (result, is_loaded) in enumerate(zip(results, loaded, strict=True))
    ]
    store(mesh.slac.pk, batch(*rows), NOW)
    summarise()

    month, year = DirectionMonth.objects.get(), DirectionYear.objects.get()
    assert (DirectionHour.objects.count(), DirectionDay.objects.count()) == (2, 2)
    for name, value in expected_of(results, loaded).items():
        assert getattr(month, name) == pytest.approx(value), name
        assert getattr(year, name) == getattr(month, name), name


def test_recomputed_summaries_are_the_same(mesh):
    store_all(mesh, [stamp_burst(at=HOUR + MINUTE * minute, forward_lost=minute % 3) for minute in range(9)])
    summarise()
    before = [list(model.objects.values_list()) for model in SUMMARIES]
    DirectionHour.objects.update(sent=1)
    DirectionDay.objects.update(forward_lost=1)
    for _ in recompute(HOUR, HOUR + timedelta(hours=1), NOW):
        pass

    assert [list(model.objects.values_list()) for model in SUMMARIES] == before
    assert not DirtyHour.objects.exists()


def test_raw_results_are_deleted_after_their_retention_and_summaries_stay(mesh, settings):
    store_all(mesh, [stamp_burst()])
    summarise()
    settings.RETENTION_DAYS = {**settings.RETENTION_DAYS, "directions": 30}
    deleted = retention.delete_old(NOW + timedelta(days=40), Deadline(60))

    assert deleted["direction_burst"] >= 1
    assert (DirectionBurst.objects.count(), DirectionHour.objects.count()) == (0, 1)


def test_a_series_has_the_loss_and_the_delay_of_each_direction(mesh):
    results = [stamp_burst(at=HOUR + MINUTE * minute, forward_lost=minute, reverse_lost=1) for minute in range(3)]
    results.append(stamp_burst(at=HOUR + MINUTE * 5, forward_lost=None, reverse_lost=None, undecided=1))
    store_all(mesh, results)
    summarise()
    raw = direction_series(mesh.slac_cern.pk, HOUR, HOUR + timedelta(hours=1))
    hourly = direction_series(mesh.slac_cern.pk, HOUR - timedelta(days=2), HOUR + timedelta(hours=1))

    assert (raw.step_s, hourly.step_s) == (60, 3600)
    third, unknown, (hour,) = raw.points[2], raw.points[3], hourly.points
    assert (third.forward_lost, third.reverse_lost, third.counted) == (2, 1, 10)
    assert (third.forward_loss_ratio, third.reverse_loss_ratio) == (2 / 10, 1 / 8)
    # Raw 22 forward and 20 reverse, the far clock 1 behind to 3 ahead.
    assert (third.forward_delay_lo_ms, third.forward_delay_hi_ms) == (19, 23)
    assert (third.reverse_delay_lo_ms, third.reverse_delay_hi_ms) == (19, 23)
    assert (unknown.forward_loss_ratio, unknown.reverse_loss_ratio) == (None, None)
    assert (hour.forward_loss_ratio, hour.reverse_loss_ratio) == (3 / 30, 3 / 27)
    assert (hour.forward_avg_ms, hour.forward_variation_ms) == (22, 4)


def test_a_delay_is_never_negative_nor_known_without_timestamps(mesh):
    store_all(
        mesh,
        [
            stamp_burst(forward_ms=-500.0, reverse_ms=540.0, offset_ms=(-540.0, -500.0)),
            stamp_burst(at=HOUR + MINUTE, forward_ms=None, reverse_ms=None, offset_ms=None),
        ],
    )
    first, second = direction_series(mesh.slac_cern.pk, HOUR, NOW).points

    assert (first.forward_delay_lo_ms, first.forward_delay_hi_ms) == (1, 41)
    assert (first.reverse_delay_lo_ms, first.reverse_delay_hi_ms) == (1, 41)
    assert (second.forward_delay_lo_ms, second.reverse_delay_hi_ms, second.forward_avg_ms) == (None, None, None)


def test_counts_of_a_period_are_the_same_from_cycles_and_from_summaries(mesh):
    results = [
        stamp_burst(at=HOUR + MINUTE * minute, forward_lost=minute % 3, reverse_lost=minute % 2, undecided=1)
        for minute in range(12)
    ]
    store_all(mesh, results)
    summarise()
    expected = {mesh.slac_cern.pk: DirectionLosses(108, 12, 6, 12, 8, 6, 12)}
    hour = HOUR + timedelta(hours=1)

    assert direction_counts(HOUR, hour, [mesh.slac_cern.pk, mesh.cern_slac.pk]) == expected
    assert direction_totals(HOUR, hour, [mesh.slac_cern.pk, mesh.cern_slac.pk]) == expected
    assert one_way_delays(HOUR, hour, [mesh.slac_cern.pk])[mesh.slac_cern.pk].forward_ms == [22.0] * 12
    assert direction_counters(NOW, [mesh.slac_cern.pk])[mesh.slac_cern.pk].forward_lost == 12


@pytest.mark.parametrize("is_hour", [True, False])
def test_a_baseline_is_without_the_hours_left_out(mesh, is_hour):
    """An hour with loss and an hour without, as hours or in the days before them."""
    path_id, earlier, later = mesh.slac_cern.pk, HOUR - timedelta(hours=1), HOUR
    lossy = [stamp_burst(at=earlier + MINUTE * minute, forward_lost=minute % 3, reverse_lost=1) for minute in range(12)]
    usual = [stamp_burst(at=later + MINUTE * minute) for minute in range(10)]
    store_all(mesh, [*lossy, *usual])
    summarise()
    midnight = HOUR.replace(hour=0)
    hours_since = midnight if is_hour else midnight + timedelta(days=1)
    first = round(earlier.timestamp()) // 3600
    periods = midnight - timedelta(days=28), hours_since, midnight + timedelta(days=1), [earlier, later]

    every = baseline_directions(*periods)
    clean = baseline_directions(*periods, LeftOutHours((path_id,), (first,), (first + 1,), most=0.6))
    kept = baseline_directions(*periods, LeftOutHours((path_id,), (first,), (first + 1,), most=0.5))

    expected = direction_counts(later, later + timedelta(hours=1), [path_id])[path_id]
    assert (clean["bursts"][0], clean["forward_sent"][0]) == (10, expected.sent)
    assert (clean["forward_lost"][0], clean["reverse_lost"][0], clean["forward_lossy"][0]) == (0, 0, 0)
    assert (clean["season_bursts"][0], clean["forward_season_lossy"][0]) == (10, 0)
    assert (clean["hours"][0], clean["forward_lossy_squares"][0]) == (1 if is_hour else 0, 0)
    assert every["bursts"][0] == kept["bursts"][0] == 22
    assert kept["reverse_lost"][0] == every["reverse_lost"][0] == 12
    stretch = PathStretch(path_id, earlier, later)
    assert direction_counts(earlier, later + timedelta(hours=1), [path_id], [stretch]) == {path_id: expected}


def test_directions_are_downloaded_as_json_csv_and_metrics(mesh, client, monkeypatch):
    monkeypatch.setattr(timezone, "now", lambda: NOW)
    store_all(mesh, [stamp_burst(at=NOW - MINUTE * 9, forward_lost=2, reverse_lost=1, is_path_series=True)])
    summarise()
    path, host = f"/paths/{mesh.slac_cern.pk}", {"host": "localhost"}
    series = client.get(f"/api/v1{path}/directions", headers=host).json()
    intervals = client.get(f"{path}/directions.csv?period=day", headers=host).content.decode().splitlines()
    cycles = client.get(f"{path}/stamp.csv?period=day", headers=host).content.decode().splitlines()
    metrics = client.get("/metrics/paths", headers=host).content.decode()

    (point,) = series["points"]
    assert (point["forward_lost"], point["reverse_lost"], point["forward_loss_ratio"]) == (2, 1, 0.2)
    assert [len(lines) for lines in (intervals, cycles)] == [2, 2]
    assert dict(zip(*(line.split(",") for line in cycles), strict=True))["reverse_lost"] == "1"
    assert re.search(r'soundings_path_direction_lost_total\{.*direction="forward".*\} 2\.0', metrics)
    assert re.search(r'soundings_path_direction_packets_total\{.*direction="reverse".*\} 8\.0', metrics)


def test_source_address_and_packets_of_the_far_end_are_shown(mesh, client, monkeypatch):
    monkeypatch.setattr(timezone, "now", lambda: NOW)
    old, new = NOW - MINUTE * 9, NOW - MINUTE * 8
    results = [
        stamp_burst(at=old, source_address="10.0.0.9", peer_packets=7, is_path_series=True),
        stamp_burst(at=new, source_address="10.0.0.10", peer_packets=0, is_path_series=True),
    ]
    store_all(mesh, results)
    summarise()
    path, host = f"/paths/{mesh.slac_cern.pk}", {"host": "localhost"}
    by_json = client.get(f"/api/v1{path}/stamp", headers=host).json()
    by_csv = list(
        csv.DictReader(client.get(f"{path}/stamp.csv?period=day", headers=host).content.decode().splitlines())
    )
    page = client.get(f"{path}/?period=day", headers=host).content.decode()
    too_long = {"since": "2025-01-01T00:00:00Z", "until": "2025-01-03T00:00:00Z"}

    assert [(cycle["source_address"], cycle["peer_packets"]) for cycle in by_json] == [
        ("10.0.0.9", 7),
        ("10.0.0.10", 0),
    ]
    assert [(row["source_address"], row["peer_packets"]) for row in by_csv] == [("10.0.0.9", "7"), ("10.0.0.10", "0")]
    assert set(by_json[0]) == set(by_csv[0]) == {field.name for field in fields(RawDirection)}
    (sent_from,) = re.findall(r'<span id="sent-from">(.*?)</span>', page)
    assert re.findall(r"<code>(.*?)</code>", sent_from) == ["10.0.0.10"]
    assert client.get(f"/api/v1{path}/stamp", too_long, headers=host).status_code == 422


def test_the_page_does_not_repeat_the_address_of_the_source(mesh, client, monkeypatch):
    monkeypatch.setattr(timezone, "now", lambda: NOW)
    store_all(mesh, [stamp_burst(at=NOW - MINUTE, source_address=mesh.slac_cern.source.address, is_path_series=True)])

    page = client.get(f"/paths/{mesh.slac_cern.pk}/?period=day", headers={"host": "localhost"}).content.decode()

    assert "sent-from" not in page


def test_a_source_that_is_no_address_is_refused(mesh):
    receipt = store_all(mesh, [stamp_burst(source_address="slac.example.org")])

    assert "source_address" in receipt.refused[0].reason


def test_an_estimate_uses_the_loss_of_the_direction_of_the_data(mesh):
    """30 of 300 round trips are lost; of the packets to the destination 3, of the others on the way back 27."""
    results = [
        stamp_burst(at=HOUR + MINUTE * minute, forward_lost=1, reverse_lost=9, sent=100, is_path_series=True)
        for minute in range(3)
    ]
    store_all(mesh, results)
    summarise()
    since, until = HOUR, HOUR + timedelta(hours=1)
    (summary,) = path_summaries(since, until)
    by_stamp = path_estimate(summary, [], since, until)
    DirectionHour.objects.all().delete()
    by_pings = path_estimate(summary, [], since, until)

    assert (by_stamp.loss.lost, by_stamp.loss.sent, by_stamp.loss.is_forward) == (3, 300, True)
    assert (by_pings.loss.lost, by_pings.loss.sent, by_pings.loss.is_forward) == (30, 300, False)
    assert by_stamp.estimate.throughput_bps > 2 * by_pings.estimate.throughput_bps
    said = ground(LimitName.LOSS, by_stamp.rtt, by_stamp.loss, by_stamp.transfer)
    assert lacks(said, "3 of 300 lost", "forward, by STAMP") == []
    assert any("forward direction" in note for note in notes(by_stamp.loss, by_stamp.estimate))
    assert "STAMP" not in ground(LimitName.LOSS, by_pings.rtt, by_pings.loss, by_pings.transfer)
