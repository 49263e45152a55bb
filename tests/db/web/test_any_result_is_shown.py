"""Any accepted result can be shown: on its path's page, in its charts, by the API and as CSV."""

from __future__ import annotations

from datetime import timedelta
from urllib.parse import quote

import pytest
from django.db import transaction
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from monitor.archive.diagnosis.pending import diagnose_awaited
from monitor.archive.ingest.store_batch import receive
from monitor.archive.models import ThroughputTest
from monitor.archive.rollup.recompute import roll_up
from probes.capacity.spec import CapacityVerdict
from probes.contract import Outcome
from probes.policer.spec import WITH_RATE
from probes.transfers.spec import CpuUse, KernelCounts, ReceivedIntervals, SentIntervals, Transfer, UdpCounts
from tests.db.any_batch import capacity, disk_to_disk, policer
from tests.db.mesh_of_three import NOW, batch, burst, delivered, make_mesh, throughput
from tests.deliveries import arrival_of

SOME = settings(
    max_examples=12,
    deadline=None,
    derandomize=True,
    phases=(Phase.explicit, Phase.generate),
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow, HealthCheck.data_too_large],
)
AT_ONCE = 4
BEGAN = NOW - timedelta(hours=2)
amounts = st.sampled_from([0.0, 5e-324, 1e-300, 1e-50, 1e-6, 0.02, 0.5, 1.0, 1000.0, 1e9, 1e18])
rates = st.sampled_from([5e-324, 1e-300, 1e-50, 0.02, 1.0, 9e8, 1e18])
sizes = st.sampled_from([0, 1, 1500, 10**7, 2**31 - 1, 2**31, 2**53, 2**63 - 1])
seconds = st.sampled_from([0.0, 5e-324, 1e-300, 1e-9, 0.0004, 0.0009, 0.001, 0.5, 1.0, 2.0, 10.0, 86_400.0])
round_trips = st.sampled_from([0.0, 5e-324, 1e-50, 0.001, 10.0, 60_000.0])
texts = st.sampled_from([None, "", "<b>&", "x" * 5000, "\u202e", "=1+1"])


def column(values, length):
    return st.none() | st.lists(values, min_size=length, max_size=length).map(tuple)


@st.composite
def sent(draw):
    end_s = tuple(sorted(draw(st.lists(seconds, min_size=1, max_size=5))))
    names = ("retransmits", "cwnd_bytes", "peer_window_bytes", "path_mtu_bytes", "packets")
    columns = {name: draw(column(sizes, len(end_s))) for name in names}
    columns |= {name: draw(column(round_trips, len(end_s))) for name in ("rtt_ms", "rtt_variation_ms")}
    moved = tuple(draw(st.lists(sizes, min_size=len(end_s), max_size=len(end_s))))
    return SentIntervals(end_s=end_s, sent_bytes=moved, **columns)


@st.composite
def received(draw):
    end_s = tuple(sorted(draw(st.lists(seconds, min_size=1, max_size=5))))
    moved = tuple(draw(st.lists(sizes, min_size=len(end_s), max_size=len(end_s))))
    lost = draw(column(st.integers(-(2**63), 2**63 - 1), len(end_s)))
    return ReceivedIntervals(
        end_s=end_s, received_bytes=moved, lost_packets=lost, jitter_ms=draw(column(amounts, len(end_s)))
    )


cpus = st.none() | st.builds(
    CpuUse, total_ratio=amounts, user_ratio=amounts, system_ratio=amounts, wanted_ratio=st.none() | amounts
)
kernels = st.none() | st.builds(
    KernelCounts,
    **dict.fromkeys(("age_s", "busy_s", "peer_window_limited_s", "send_buffer_limited_s"), amounts),
    **dict.fromkeys(("resent_bytes", "duplicates", "reordering_seen"), sizes),
    **dict.fromkeys(("delivery_rate_bps", "rtt_min_ms"), st.none() | amounts),
)
udps = st.none() | st.builds(
    UdpCounts, packets=sizes, lost_packets=sizes, out_of_order=st.none() | sizes, jitter_ms=amounts
)
transfers = st.none() | st.builds(
    Transfer,
    sent=st.none() | sent(),
    received=st.none() | received(),
    omitted_s=seconds,
    mss_bytes=st.none() | st.sampled_from([1, 1448, 2**31 - 1]),
    sender_cpu=cpus,
    receiver_cpu=cpus,
    kernel=kernels,
    udp=udps,
)
tests_ = st.fixed_dictionaries(
    {
        "throughput_bps": amounts,
        "transfer": transfers,
        "streams": st.sampled_from([1, 2, 2**15 - 1]),
        "protocol": st.sampled_from(["tcp", "tcp", "udp"]),
        "retransmits": st.none() | st.sampled_from([0, 2**31 - 1]),
        "congestion_control": texts,
        "tool": texts,
        "detail": texts,
        "rtt_mean_ms": st.none() | st.sampled_from([0.0, 10.0, 1e18]),
        **dict.fromkeys(("asked_bps", "duration_s"), st.none() | amounts),
        **dict.fromkeys(("sent_bytes", "received_bytes"), st.none() | sizes),
    }
)
files = st.fixed_dictionaries(
    {
        "disk_to_disk_bps": rates,
        "file_bytes": st.none() | st.just(2**63 - 1),
        "moved_bytes": st.none() | st.just(0),
        "read_cached_ratio": st.none() | st.sampled_from([0.0, 5e-324, 0.04, 1.0]),
        "is_verified": st.none() | st.booleans(),
        "detail": texts,
        **dict.fromkeys(("moving_s", "syncing_s"), st.none() | seconds),
        **dict.fromkeys(("memory_to_memory_bps", "read_bps", "write_bps"), st.none() | rates),
    }
)
links = st.fixed_dictionaries(
    {
        "verdict": st.sampled_from(CapacityVerdict),
        "method": texts,
        "detail": texts,
        "packet_bytes": st.none() | st.sampled_from([0, 65_527]),
        **dict.fromkeys(("capacity_bps", "capacity_low_bps", "capacity_high_bps"), st.none() | rates),
    }
)
policers = st.fixed_dictionaries(
    {
        "verdict": st.sampled_from(WITH_RATE),
        "detail": texts,
        "packet_bytes": st.none() | st.sampled_from([0, 65_527]),
        "sustained_bps": rates,
        **dict.fromkeys(("sustained_low_bps", "sustained_high_bps", "peak_bps"), st.none() | rates),
        **dict.fromkeys(("burst_bytes", "burst_low_bytes", "burst_high_bytes", "delay_rise_ms"), st.none() | amounts),
    }
)
pings = st.fixed_dictionaries(
    {
        "rtts_ms": st.lists(st.none() | round_trips, min_size=1, max_size=4).map(tuple),
        "packet_bytes": st.sampled_from([0, 100, 65_527]),
        "ttl": st.none() | st.sampled_from([0, 255]),
        "detail": texts,
        "address": st.sampled_from([None, "::1", "0.0.0.0"]),
        "rate_limited": st.none() | st.booleans(),
        "path_mtu_bytes": st.none() | st.sampled_from([1, 2**31 - 1]),
        **dict.fromkeys(("duplicates", "reordered", "ttl_changes", "waited"), st.sampled_from([0, 2**15 - 1])),
    }
)


def of_ping(at, fields):
    return burst(*fields.pop("rtts_ms"), at=at, **fields)


def of_throughput(at, fields):
    return throughput(at=at, outcome=Outcome.MEASURED, **fields)


def of_disk_to_disk(at, fields):
    return disk_to_disk(at, **fields)


def of_policer(at, fields):
    return policer(at, **fields)


def of_capacity(at, fields):
    return capacity(at, **fields)


KINDS = {of_ping: pings, of_throughput: tests_, of_disk_to_disk: files, of_capacity: links, of_policer: policers}


@pytest.fixture
def mesh(db, settings):
    settings.LOCAL_READ = True
    settings.ALLOW_PLAIN_HTTP = True
    return make_mesh()


@pytest.fixture
def fetch(client, mesh):
    def fetch(address):
        answer = client.get(address, headers={"host": "localhost"})
        assert answer.status_code == 200, f"{address}: {answer.content[:300]!r}"
        assert b"Infinity" not in answer.content, f"{address}: no JSON"

    return fetch


def addresses(path_id):
    """All addresses with results of a path, over the hours in which they began."""
    between = f"since={quote(BEGAN.isoformat())}&until={quote(NOW.isoformat())}"
    page = f"/paths/{path_id}/"
    yield f"{page}?{between}"
    for test in ThroughputTest.objects.filter(path_id=path_id):
        yield f"{page}?{between}&test={quote(test.measured_at.isoformat())}"
        yield f"/api/v1/paths/{path_id}/throughput/{quote(test.measured_at.isoformat())}"
    for table in ("series", "bursts", "tests", "changes"):
        yield f"{page}{table}.csv?{between}"
    for listing in (
        "throughput",
        "disk-to-disk",
        "policer",
        "request-response",
        "capacity",
        "spread",
        "series",
        "ledger",
    ):
        yield f"/api/v1/paths/{path_id}/{listing}?{between}"
    yield f"/api/v1/records?{between}"
    yield f"/throughput/?{between}"
    yield f"/records/?{between}"


@pytest.mark.parametrize("make", KINDS, ids=lambda make: make.__name__)
def test_every_accepted_result_can_be_shown(mesh, fetch, make):
    accepted = 0

    @SOME
    @given(st.lists(KINDS[make], min_size=AT_ONCE, max_size=AT_ONCE))
    def check(many):
        nonlocal accepted
        before = transaction.savepoint()
        results = [
            delivered(mesh.slac_cern, make(BEGAN + timedelta(minutes=number), dict(fields)), number)
            for number, fields in enumerate(many, 1)
        ]
        accepted += receive(mesh.slac.pk, arrival_of(batch(*results)), NOW).accepted
        diagnose_awaited(NOW)
        roll_up(NOW)
        for address in addresses(mesh.slac_cern.pk):
            fetch(address)
        transaction.savepoint_rollback(before)

    check()
    assert accepted > 0
