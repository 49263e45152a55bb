"""Rows of every kind that a dashboard queries, in a mesh of slac, cern and anl, of which slac and cern have agents.

They are measured for the two hours before noon, a day and a month ago. Figures are chosen so that each answer can be
computed mentally. For the tests of the dashboards' queries, and for Grafana's plugin in `tests.grafana`.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from django.db import connection

from dashboards.reader import grant
from monitor.agents.models import AgentHealth
from monitor.alerts.models import Incident, IncidentPath
from monitor.archive.models import (
    Burst,
    BurstDay,
    BurstHour,
    BurstMonth,
    CapacityResult,
    CentreSample,
    DeliveredDay,
    DirectionBurst,
    DirectionDay,
    DirectionHour,
    DirectionMonth,
    DirtyHour,
    InterfaceResult,
    PathRoute,
    ReceivedBatch,
    RefusedResult,
    RequestResponseResult,
    Route,
    ThroughputDay,
    ThroughputHour,
    ThroughputMonth,
    ThroughputTest,
)
from monitor.mesh import models
from monitor.mesh.models import Group, Measurement, MeasurementPeriod
from tests.db.aggregate_rows import aggregate_run
from tests.db.mesh_of_three import MeshOfThree, make_mesh

NOON = datetime.now(UTC).replace(hour=12, minute=0, second=0, microsecond=0) - timedelta(days=1)
"""Yesterday's, since some queries are about the current time."""
SINCE, UNTIL = NOON - timedelta(hours=2), NOON
HOURS = (SINCE, SINCE + timedelta(hours=1))
DAY = NOON.replace(hour=0)
MONTH = DAY.replace(day=1)

PINGED = {"bursts": 60, "bursts_all_lost": 0, "bursts_none_lost": 60, "bursts_during_test": 0, "bursts_not_measured": 0}
COUNTS = {"duplicates": 0, "reordered": 0}
HEALTH = {
    "clock_offset_s": 0.25,
    "kernel_clock": {"is_synchronised": True},
    "load_1min": 1.5,
    "cpus": 2,
    "lost_ticks": 3,
    "set_aside": 1,
}


def make_rows(password: str = "of the test") -> MeshOfThree:
    """Create the mesh and its rows, and the role that reads them."""
    three = make_mesh()
    plan(three)
    pings(three)
    routes(three)
    directions(three)
    throughput(three)
    incidents(three)
    deliveries(three)
    centre()
    with connection.cursor() as cursor:
        grant(cursor, password)
    return three


def plan(three: MeshOfThree) -> None:
    group = Group.objects.create(name="labs", shape="mesh")
    group.sites.set([three.slac, three.cern])
    ping = models.Test.objects.create(name="pinger", kind="ping", every_s=60)
    for path in (three.slac_cern, three.slac_anl, three.cern_slac):
        measurement = Measurement.objects.create(path=path, test=ping, started_at=SINCE)
        for started_at, ended_at in ((SINCE, UNTIL), (NOON + timedelta(days=2), None)):
            MeasurementPeriod.objects.create(
                measurement=measurement, every_s=60, packet_bytes=[100], started_at=started_at, ended_at=ended_at
            )


def pings(three: MeshOfThree) -> None:
    """In each hour: slac to cern loses 6 of 600 at 10 ms, cern to slac none of 600 at 20 ms, slac to anl all of 300 and
    half of the plan; a day and a month have the same two hours."""
    of_path = {
        three.slac_cern: {"sent": 600, "received": 594, "rtt_min_ms": 8.0, "rtt_avg_ms": 10.0, "bursts_planned": 60},
        three.cern_slac: {"sent": 600, "received": 600, "rtt_min_ms": 18.0, "rtt_avg_ms": 20.0, "bursts_planned": 60},
        three.slac_anl: {"sent": 300, "received": 0, "bursts": 30, "bursts_all_lost": 30, "bursts_planned": 60},
    }
    for path, values in of_path.items():
        row = {"path_id": path.pk, "packet_bytes": 100, **PINGED, **COUNTS, **values}
        counted = {name: value * 2 if isinstance(value, int) else value for name, value in row.items()}
        whole = {**counted, "path_id": path.pk, "packet_bytes": 100}
        for hour in HOURS:
            BurstHour.objects.create(hour=hour, **row)
        BurstDay.objects.create(day=DAY, **whole)
        BurstMonth.objects.create(month=MONTH, **whole)
    bursts(three)


def bursts(three: MeshOfThree) -> None:
    """Every ten minutes a burst of ten packets; slac to cern loses a packet of each, and replies of the second hour
    have another route."""
    for path, lost, rtt_ms in ((three.slac_cern, 1, 10.0), (three.cern_slac, 0, 20.0)):
        for number in range(12):
            Burst.objects.create(
                path_id=path.pk,
                measured_at=SINCE + number * timedelta(minutes=10),
                packet_bytes=100,
                outcome="measured",
                sent=10,
                received=10 - lost,
                during_test=False,
                ttl=57 if number < 6 else 56,
                rtts_ms=[rtt_ms] * (10 - lost) + [None] * lost,
                **COUNTS,
            )


def directions(three: MeshOfThree) -> None:
    """slac to cern, every ten minutes: of 60 packets 3 are lost forward and none back; 20 to 22 ms there, 10 to 12 back
    by clocks 1 ms apart at most. An hour, a day and a month have the sums."""
    path_id = three.slac_cern.pk
    delays = {"offset_lo_ms": -1.0, "offset_hi_ms": 1.0}
    for number in range(12):
        DirectionBurst.objects.create(
            path_id=path_id,
            measured_at=SINCE + number * timedelta(minutes=10),
            packet_bytes=200,
            test="oneway",
            outcome="measured",
            during_test=False,
            dscp=0,
            sent=60,
            received=57,
            undecided=0,
            is_stateful=True,
            forward_lost=3,
            reverse_lost=0,
            forward_min_ms=20.0,
            forward_median_ms=21.0,
            forward_p95_ms=25.0,
            **{"reverse_min_ms": 10.0, "reverse_median_ms": 11.0, "reverse_p95_ms": 14.0, **delays},
        )
    tiers = (
        (DirectionHour, "hour", HOURS, 6),
        (DirectionDay, "day", [DAY], 12),
        (DirectionMonth, "month", [MONTH], 12),
    )
    for model, column, starts, cycles in tiers:
        for start in starts:
            model.objects.create(
                **{"path_id": path_id, column: start, "bursts": cycles, "bursts_counted": cycles},
                bursts_delayed=cycles,
                sent=60 * cycles,
                received=57 * cycles,
                counted=60 * cycles,
                forward_lost=3 * cycles,
                forward_lossy=cycles,
                reverse_lost=0,
                reverse_lossy=0,
                **{"forward_avg_ms": 21.0, "reverse_avg_ms": 11.0, **delays},
            )


def routes(three: MeshOfThree) -> None:
    """slac to cern has another router at the second hop from the second hour on."""
    path_id = three.slac_cern.pk
    for number, (at, until) in enumerate(((HOURS[0], HOURS[1]), (HOURS[1], None)), 1):
        hops = ["198.51.100.1", f"198.51.100.{1 + number}", "198.51.100.9"]
        route = Route.objects.create(
            path_id=path_id, number=number, hops=hops, learned_at=[at] * 3, reached_at=at, first_at=at
        )
        PathRoute.objects.create(
            path_id=path_id,
            protocol="icmp",
            flow=4711,
            route_id=route.pk,
            since=at,
            last_at=at + timedelta(minutes=50),
            until=until,
        )


def throughput(three: MeshOfThree) -> None:
    """slac to cern: 10 and 30 Mbit/s in the hours, of three slots; a capacity of 100 Mbit/s."""
    path_id = three.slac_cern.pk
    tcp = models.Test.objects.create(name="tcp", kind="throughput", every_s=1800, parameters={})
    planned = Measurement.objects.create(path_id=path_id, test=tcp, started_at=SINCE)
    for minutes in (10, 70, 100):
        at = HOURS[0] + timedelta(minutes=minutes)
        models.Slot.objects.create(measurement=planned, starts_at=at, ends_at=at + timedelta(minutes=1))
    for hour, bps, slots in zip(HOURS, (1e7, 3e7), (1, 2), strict=True):
        of_hour = {
            "tests": 1,
            "tests_measured": 1,
            "slots_planned": slots,
            **{f"throughput_{name}_bps": bps for name in ("min", "median", "max", "avg")},
        }
        ThroughputHour.objects.create(path_id=path_id, hour=hour, **of_hour)
        ThroughputTest.objects.create(
            path_id=path_id,
            measured_at=hour + timedelta(minutes=10),
            test="tcp",
            outcome="measured",
            streams=1,
            throughput_bps=bps,
            retransmits=3,
            verdict="window" if bps == 1e7 else "loss",
        )
        RequestResponseResult.objects.create(
            path_id=path_id, measured_at=hour + timedelta(minutes=20), test="blocks", outcome="measured",
            request_bytes=100, response_bytes=65_536, latencies_ms=[], median_ms=25.0, p95_ms=30.0,
            transactions_per_s=40.0, during_test=False,
        )  # fmt: skip
        aggregate_run([three.slac_cern, three.slac_anl], hour + timedelta(minutes=30))
        InterfaceResult.objects.create(
            path_id=path_id, measured_at=hour + timedelta(minutes=40), test="uplink", outcome="measured",
            interface="eth0", speed_bps=1e9, interval_s=60.0, in_bps=1e8, out_bps=2e8, in_errors=0, out_errors=0,
            in_drops=0, out_drops=0, during_test=False,
        )  # fmt: skip
    whole = {
        "tests": 2,
        "tests_measured": 2,
        "slots_planned": 3,
        "throughput_min_bps": 1e7,
        "throughput_median_bps": 2e7,
        "throughput_max_bps": 3e7,
        "throughput_avg_bps": 2e7,
    }
    ThroughputDay.objects.create(path_id=path_id, day=DAY, **whole)
    ThroughputMonth.objects.create(path_id=path_id, month=MONTH, **whole)
    CapacityResult.objects.create(
        path_id=path_id,
        measured_at=SINCE + timedelta(minutes=5),
        test="narrow",
        outcome="measured",
        verdict="measured",
        capacity_bps=1e8,
        sent=184,
        received=184,
        during_test=False,
    )


def incidents(three: MeshOfThree) -> None:
    """An incident that is open since 11:00 with two paths, another resolved within ten minutes, and a pending one.
    The second began three minutes before its detection, and its last bad burst is two minutes before its end."""
    rows = [
        ("unreachable", "anl", HOURS[1], None, False, [three.slac_anl, three.slac_cern]),
        ("loss", "slac → cern", SINCE, SINCE + timedelta(minutes=10), False, [three.slac_cern]),
        ("rtt", "cern", SINCE, None, True, [three.cern_slac]),
    ]
    for rule, cause, opened_at, closed_at, is_pending, paths in rows:
        incident = Incident.objects.create(
            rule=rule,
            cause=cause,
            opened_at=opened_at,
            closed_at=closed_at,
            began_at=None if closed_at is None else opened_at - timedelta(minutes=3),
            ended_at=None if closed_at is None else closed_at - timedelta(minutes=2),
            is_pending=is_pending,
            summary=f"{cause} {rule}",
            closing="well again" if closed_at else "",
        )
        for path in paths:
            IncidentPath.objects.create(
                incident=incident,
                path=path,
                added_at=opened_at,
                rule=rule,
                sentence="x",
                since=opened_at,
                figures={},
                is_over=closed_at is not None,
            )


def deliveries(three: MeshOfThree) -> None:
    """slac delivered 90 of 100 results an hour before noon and was OK; cern has an agent that never delivered."""
    slac = three.slac
    at = NOON - timedelta(hours=1)
    batch = {"sent_at": at, "agent_version": "0.1.0", "accepted": 90, "refused": 1, "queued": 7, "dropped": 2}
    ReceivedBatch.objects.create(site=slac, spool="x", number=1, received_at=at, **batch)
    AgentHealth.objects.create(site=slac, accepted_at=at, agent_version="0.1.0", queued=7, dropped=2, health=HEALTH)
    DeliveredDay.objects.create(site=slac, spool="x", day=DAY.date(), sequences="{[1,81),[91,101)}")
    RefusedResult.objects.create(site=slac, spool="x", sequence=5, refused_at=at, reason="path 9 is unknown", result={})
    DirtyHour.objects.create(path_id=1, hour=HOURS[1], marked_at=at)


def centre() -> None:
    """At 11:59 and 12:00: 600 and 60 results in a minute, of which 6 and 0 refused."""
    for minutes, accepted, refused, waiting in ((1, 600, 6, 4), (0, 60, 0, None)):
        at = NOON - timedelta(minutes=minutes)
        CentreSample.objects.create(
            at=at,
            since=at - timedelta(minutes=1),
            accepted=accepted,
            refused=refused,
            newest_measured_at=at - timedelta(seconds=20),
            queued=7,
            queue_length=waiting,
            hours_waiting=1,
            waited_s=30.0 + 60 * minutes,
            database_bytes=10**9,
        )


def variables(three: MeshOfThree, **changed: str) -> dict[str, str]:
    return {
        "group": "*",
        "family": "4",
        "packet_bytes": "100",
        "site": "slac",
        "source": "slac",
        "destination": "cern",
        "path": str(three.slac_cern.pk),
        "soundings": "http://localhost:8000",
        **changed,
    }
