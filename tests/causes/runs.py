"""Run a planted fault: its results are delivered as by agents, and evaluated as by the worker.

In: an empty database with all tables. `prepare` creates the mesh and its history once; `run` plants a fault in a
transaction, delivers and evaluates every four minutes, gathers the evidence, and rolls everything back.
"""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path as FilePath

import msgspec
import numpy as np
from django.db import transaction

from monitor.agents import health
from monitor.alerts.evaluate import evaluate
from monitor.alerts.evidence.evidence import Evidence, evidence
from monitor.alerts.evidence.gather import gather_due
from monitor.alerts.incidents import queries
from monitor.alerts.models import Incident
from monitor.archive.diagnosis.pending import diagnose_awaited
from monitor.archive.ingest.store_batch import receive
from monitor.mesh.models import Host, KindName, Measurement, MeasurementPeriod, Mesh, Path, Site, Test, Uplink
from probes.contract import Outcome
from probes.packets.spec import Burst
from probes.site.health import Health
from probes.site.wire import Batch, Delivered
from probes.transfers.spec import ReceivedIntervals, SentIntervals, ThroughputRun, Transfer
from tests.causes.faults import PlantedFault, Transfers
from tests.causes.network import (
    CYCLE_S,
    HOSTS,
    REGIONS,
    SIZES,
    AgentImpairment,
    Pair,
    base_rtt_ms,
    ping_pairs,
    pings,
    site_of,
    test_pairs,
)
from tests.deliveries import arrival_of
from tests.diagnosis import generated
from tests.diagnosis.reading import read

ONSET = datetime(2026, 11, 18, 17, 0, tzinfo=UTC)
MINUTE = timedelta(minutes=1)
HISTORY_MIN = 90
TESTS_EVERY_S = 1200
TESTS_BEFORE = 40
USUAL_BPS = 9e7
TEST_S = 10.0
STEP_MIN = 4
POLICED = FilePath(__file__).parents[1] / "fixtures" / "iperf3" / "policers"
POLICED_RTTS_MS = (60, 160)


@dataclass(slots=True)
class SimulatedMesh:
    """The paths by the hosts of their ends, and each site's spool."""

    path_ids: dict[Pair, int] = field(default_factory=dict)
    site_ids: dict[str, int] = field(default_factory=dict)
    counters: dict[str, Iterator[int]] = field(default_factory=dict)

    def pair_of(self, path_id: int) -> Pair:
        return next(pair for pair, number in self.path_ids.items() if number == path_id)


@dataclass(frozen=True, slots=True)
class StatedIncident:
    """An incident as it is at some time, with its evidence."""

    incident: Incident
    evidence: Evidence
    paths: frozenset[Pair]


def prepare(history_min: int = HISTORY_MIN) -> SimulatedMesh:
    """Create the mesh, with its history of pings and throughput tests before ONSET."""
    mesh = SimulatedMesh()
    Mesh.objects.create(name="Simulated", alerts={}, applied_at=ONSET)
    hosts: dict[str, Host] = {}
    for number, simulated_host in enumerate(HOSTS, start=1):
        site, _ = Site.objects.get_or_create(
            name=simulated_host.site,
            defaults={"title": simulated_host.site, "latitude_deg": 0.0, "longitude_deg": 0.0, "country": "US",
                      "region": REGIONS[simulated_host.site], "has_agent": True},
        )  # fmt: skip
        mesh.site_ids[simulated_host.site] = site.pk
        uplink = (
            None
            if simulated_host.uplink is None
            else Uplink.objects.get_or_create(site=site, name=simulated_host.uplink)[0]
        )
        hosts[simulated_host.name] = Host.objects.create(
            site=site, name=simulated_host.name, address=f"192.0.2.{number}", family=4, uplink=uplink
        )
    began = ONSET - timedelta(days=30)
    ping = Test.objects.create(
        name="pinger", kind=KindName.PING, every_s=CYCLE_S, parameters={"count": 10, "packet_bytes": list(SIZES)}
    )
    tcp = Test.objects.create(name="tcp", kind=KindName.THROUGHPUT, every_s=TESTS_EVERY_S, parameters={})
    for a, b in ping_pairs():
        path = Path.objects.create(source=hosts[a], destination=hosts[b], family=4)
        mesh.path_ids[a, b] = path.pk
        measurement = Measurement.objects.create(path=path, test=ping, started_at=began)
        MeasurementPeriod.objects.create(
            measurement=measurement, every_s=CYCLE_S, packet_bytes=list(SIZES), started_at=began
        )
        if (a, b) in test_pairs():
            Measurement.objects.create(path=path, test=tcp, started_at=began)
    random = np.random.default_rng(0)
    quiet = PlantedFault(())
    first_min = -TESTS_BEFORE * TESTS_EVERY_S // 60
    for minute in range(-history_min, 0, 30):
        _deliver(mesh, quiet, minute, minute + 30, random)
    for site in mesh.site_ids:
        runs = list(_tests_of(site, quiet, first_min, 0, random))
        _receive(mesh, site, [_result(mesh, pair, "tcp", run) for pair, run in runs], ONSET, AgentImpairment(site))
    return mesh


def run(mesh: SimulatedMesh, fault: PlantedFault, step_min: int = STEP_MIN) -> list[list[StatedIncident]]:
    """Plant a fault; the incidents that are open after each step, oldest first. Nothing remains in the database."""
    stated = []
    random = np.random.default_rng([fault.seed, len(fault.kind)])
    undone = transaction.atomic()
    undone._from_testcase = True  # deliveries are stored durably, which Django allows within tests only
    with undone:
        for minute in range(0, fault.lasts_min, step_min):
            _deliver(mesh, fault, minute, minute + step_min, random)
            now = ONSET + (minute + step_min) * MINUTE
            while diagnose_awaited(now):
                pass
            evaluate(now)
            gather_due(now)
            stated.append(_stated(mesh, now))
        transaction.set_rollback(True)
    return stated


def _stated(mesh: SimulatedMesh, now: datetime) -> list[StatedIncident]:
    return [
        StatedIncident(
            incident, evidence(incident, now), frozenset(mesh.pair_of(row.path_id) for row in incident.paths.all())
        )
        for incident in reversed(queries.open_incidents())
    ]


def _deliver(
    mesh: SimulatedMesh, fault: PlantedFault, since_min: int, until_min: int, random: np.random.Generator
) -> None:
    """Deliver the results of [since, until) of all sites."""
    results: dict[str, list[Delivered]] = defaultdict(list)
    agents = {agent.site: agent for agent in fault.agents}
    minutes = np.arange(since_min, until_min) + 0.1
    for pair in mesh.path_ids:
        agent = agents.get(site_of(pair[0]))
        if agent is not None and agent.is_dead:
            continue
        for size in SIZES:
            rtts, ttl = pings(pair, size, minutes, fault.impairments, agent, random)
            clock_s = agent.clock_s if agent is not None else 0.0
            for minute, row, reply_ttl in zip(minutes.tolist(), rtts.tolist(), ttl.tolist(), strict=True):
                at = ONSET + minute * MINUTE + timedelta(seconds=clock_s + 12.0 * SIZES.index(size))
                results[site_of(pair[0])].append(_result(mesh, pair, "pinger", _burst(pair, size, at, row, reply_ttl)))
    for site in mesh.site_ids:
        agent = agents.get(site, AgentImpairment(site))
        if agent.is_dead:
            continue
        if since_min >= 0:
            runs = _tests_of(site, fault, since_min, until_min, random)
            results[site] += [_result(mesh, pair, "tcp", test) for pair, test in runs]
        _receive(mesh, site, results[site], ONSET + until_min * MINUTE, agent)


def _receive(
    mesh: SimulatedMesh, site: str, results: Sequence[Delivered], now: datetime, agent: AgentImpairment
) -> None:
    counter = mesh.counters.setdefault(site, itertools.count(1))
    batch = Batch(
        spool=f"spool of {site}",
        number=next(counter),
        agent_version="0.1.0",
        sent_at=now,
        results=tuple(results),
        health=Health(
            load_1min=agent.load, cpus=2, stamp="kernel", clock_offset_s=agent.clock_s, clock_uncertainty_s=0.01
        ),
    )
    arrival = arrival_of(batch)
    receive(mesh.site_ids[site], arrival, now)
    health.record(mesh.site_ids[site], arrival, now)


_sequence = itertools.count(1)


def _result(mesh: SimulatedMesh, pair: Pair, test: str, result: Burst | ThroughputRun) -> Delivered:
    return Delivered(sequence=next(_sequence), path_id=mesh.path_ids[pair], test=test, result=result)


def _burst(pair: Pair, size: int, at: datetime, rtts_ms: list[float], ttl: int) -> Burst:
    rtts = tuple(None if np.isnan(rtt) else round(rtt, 3) for rtt in rtts_ms)
    received = len(rtts) - rtts.count(None)
    return Burst(
        target=pair[1],
        address="192.0.2.1",
        family=4,
        packet_bytes=size,
        started_at=at,
        outcome=Outcome.MEASURED,
        sent=len(rtts),
        received=received,
        rtts_ms=rtts,
        ttl=ttl if received else None,
        stamp="kernel" if received else None,
    )


def _tests_of(
    site: str, fault: PlantedFault, since_min: int, until_min: int, random: np.random.Generator
) -> Iterator[tuple[Pair, ThroughputRun]]:
    """The throughput tests from a site that are due in [since, until), each path at a different minute."""
    pairs = test_pairs()
    every_min = TESTS_EVERY_S // 60
    for place, pair in enumerate(pairs):
        if site_of(pair[0]) != site:
            continue
        for minute in range(since_min, until_min):
            if minute % every_min == place % every_min:
                yield pair, _throughput(pair, fault.transfers, minute, random)


def _throughput(pair: Pair, transfers: Sequence[Transfers], minute: int, random: np.random.Generator) -> ThroughputRun:
    at = ONSET + (minute + 0.5) * MINUTE
    hit = next((transfer for transfer in transfers if minute >= 0 and transfer.hits(*pair)), None)
    common = {"target": pair[1], "address": "192.0.2.1", "family": 4, "started_at": at}
    if hit is not None and hit.fails:
        return ThroughputRun(**common, outcome=Outcome.TOOL_FAILURE, detail="the transfer stalled")
    if hit is not None and hit.policed_mbps is not None:
        return msgspec.structs.replace(_policed(hit.policed_mbps, base_rtt_ms(pair)), **common)
    rtt_ms = base_rtt_ms(pair)
    usual_bps = USUAL_BPS * float(np.exp(random.normal(0.0, 0.06)))
    if minute < 0:
        return ThroughputRun(**common, outcome=Outcome.MEASURED, throughput_bps=usual_bps, duration_s=TEST_S)
    if hit is None:
        recording = generated.recorded(generated.steady(usual_bps, rtt_ms=rtt_ms), TEST_S)
    elif hit.rate_bps is not None:
        recording = generated.recorded(generated.steady(hit.rate_bps, rtt_ms=rtt_ms), TEST_S)
    else:
        dropped = generated.independent_loss(hit.loss_ratio, int(random.integers(2**31)))
        recording = generated.simulated(dropped, TEST_S, rtt_ms / 1e3, start_segments=10)
    return _run_of(recording, common)


def _policed(rate_mbps: int, rtt_ms: float) -> ThroughputRun:
    """The transfer of the lab at the nearest RTT, moved to the RTT of the path that pings see."""
    recorded_ms = min(POLICED_RTTS_MS, key=lambda recorded: abs(recorded - rtt_ms))
    run = read(POLICED / f"policer-{rate_mbps}mbps-{recorded_ms}ms.json")
    assert run.transfer is not None
    assert run.transfer.sent is not None
    rtts_ms = tuple(sample + rtt_ms - recorded_ms for sample in run.transfer.sent.rtt_ms)
    sent = msgspec.structs.replace(run.transfer.sent, rtt_ms=rtts_ms)
    return msgspec.structs.replace(run, transfer=msgspec.structs.replace(run.transfer, sent=sent))


def _run_of(recording: generated.Recording, common: dict[str, object]) -> ThroughputRun:
    samples, arrivals = recording.samples, recording.arrivals
    ends = tuple(round(sample.end_s, 4) for sample in samples)
    moved = sum(arrival.received_bytes for arrival in arrivals)
    transfer = Transfer(
        sent=SentIntervals(
            end_s=ends,
            sent_bytes=tuple(sample.sent_bytes for sample in samples),
            retransmits=tuple(sample.retransmits or 0 for sample in samples),
            cwnd_bytes=tuple(sample.cwnd_bytes or 0 for sample in samples),
            peer_window_bytes=tuple(sample.peer_window_bytes or 0 for sample in samples),
            rtt_ms=tuple(sample.rtt_ms or 0.0 for sample in samples),
        ),
        received=ReceivedIntervals(
            end_s=tuple(round(arrival.end_s, 4) for arrival in arrivals),
            received_bytes=tuple(arrival.received_bytes for arrival in arrivals),
        ),
        mss_bytes=generated.MSS_BYTES,
    )
    return ThroughputRun(
        **common,  # type: ignore[arg-type]
        outcome=Outcome.MEASURED,
        throughput_bps=8 * moved / ends[-1],
        duration_s=ends[-1],
        sent_bytes=sum(sample.sent_bytes for sample in samples),
        received_bytes=moved,
        retransmits=sum(sample.retransmits or 0 for sample in samples),
        congestion_control="reno",
        transfer=transfer,
    )
