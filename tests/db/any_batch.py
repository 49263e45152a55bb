"""Batches of every kind of result as sent by an agent, and odd values that replace parts of them: for tests of
ingest."""

from __future__ import annotations

import json
from copy import deepcopy
from datetime import datetime
from typing import Any

import msgspec
from hypothesis import strategies as st

from probes.capacity.spec import CapacityRun, CapacityVerdict
from probes.contract import Outcome
from probes.disk_to_disk.spec import DiskToDiskRun
from probes.idle_restart.spec import IdleRestartRun
from probes.packets.spec import IcmpError
from probes.policer.spec import PolicerRun, PolicerVerdict
from probes.request_response.spec import RequestResponseRun
from probes.site.health import ClockOff, Dropped, Health, InterfaceDrops, KernelClock
from probes.site.wire import Account, Gap, GapReason
from probes.trace.spec import MplsLabel, TraceReason, TraceRun
from probes.transfers.spec import (
    CpuUse,
    KernelCounts,
    ReceivedIntervals,
    SentIntervals,
    ServerReport,
    Transfer,
    UdpCounts,
)
from tests.db.mesh_of_three import HOUR, MeshOfThree, batch, burst, delivered, throughput
from tests.db.trace_rows import address, hop, trace
from tests.db.trace_rows import delivered as delivered_trace

KERNEL = KernelCounts(
    age_s=10.0,
    busy_s=9.0,
    peer_window_limited_s=1.0,
    send_buffer_limited_s=0.0,
    resent_bytes=3000,
    duplicates=1,
    reordering_seen=0,
    delivery_rate_bps=1e8,
    rtt_min_ms=10.0,
)
TRANSFER = Transfer(
    sent=SentIntervals(
        end_s=(1.0, 2.0),
        sent_bytes=(10_000_000, 12_000_000),
        retransmits=(0, 2),
        cwnd_bytes=(100_000, 120_000),
        peer_window_bytes=(3_000_000, 3_000_000),
        rtt_ms=(10.0, 11.0),
        rtt_variation_ms=(1.0, 1.0),
        path_mtu_bytes=(1500, 1500),
    ),
    received=ReceivedIntervals(end_s=(1.0, 2.0), received_bytes=(10_000_000, 12_000_000)),
    mss_bytes=1448,
    sender_cpu=CpuUse(total_ratio=0.2, user_ratio=0.1, system_ratio=0.1, wanted_ratio=0.3),
    receiver_cpu=CpuUse(total_ratio=0.2, user_ratio=0.1, system_ratio=0.1),
    kernel=KERNEL,
    udp=UdpCounts(packets=1000, lost_packets=1, out_of_order=0, jitter_ms=0.1),
)
HEALTH = Health(
    clock_offset_s=0.003,
    clock_uncertainty_s=0.001,
    kernel_clock=KernelClock(
        state="ok", is_synchronised=True, offset_s=1e-6, frequency_ppm=-3.5, max_error_s=0.002, estimated_error_s=1e-5
    ),
    load_1min=0.25,
    cpus=4,
    stamp="kernel",
    drops=(InterfaceDrops(interface="eth0", received=5, sent=0),),
    clock_off=ClockOff(since=HOUR, until=HOUR, offset_s=3.0),
    dropped=(Dropped(kind="ping", reason="too_old", count=3),),
    iperf3="3.12",
)
ACCOUNT = Account(
    until=HOUR, gaps=(Gap(since=HOUR, until=HOUR.replace(minute=5), reason=GapReason.LATE, test="pinger", every_s=60),)
)


def whole_batch(mesh: MeshOfThree, at: datetime = HOUR) -> dict[str, Any]:
    """A batch of site slac that can be stored completely, with every kind of result and every field filled."""
    slot = mesh.slot(mesh.slac_cern)
    error = IcmpError(name="time_exceeded", icmp_type=11, icmp_code=0, router="192.0.2.9", count=1, mtu_bytes=1400)
    results = (
        delivered(
            mesh.slac_cern,
            burst(1.5, None, at=at, errors=(error,), path_mtu_bytes=1400, clock_source="tsc", rate_limited=False),
            1,
            clock_off_s=3.0,
            every_s=60,
            cycle=int(at.timestamp()) // 60,
        ),
        delivered(
            mesh.slac_cern,
            throughput(
                8.8e7,
                at=at,
                transfer=TRANSFER,
                asked_bps=1e8,
                sent_bytes=22_000_000,
                received_bytes=22_000_000,
                retransmits=2,
                rtt_mean_ms=10.5,
                congestion_control="cubic",
                tool="iperf 3.12",
                detail="as it was",
            ),
            2,
            slot_id=slot.pk,
        ),
        delivered(mesh.slac_anl, disk_to_disk(at), 3),
        delivered(mesh.slac_cern, capacity(at), 4),
        delivered(mesh.cern_slac, served(at), 5, slot_id=mesh.slot(mesh.cern_slac).pk),
        delivered(mesh.slac_anl, policer(at), 7),
        delivered_trace(mesh.slac_cern, whole_trace(at), 6, every_s=600, cycle=int(at.timestamp()) // 600),
    )
    body: dict[str, Any] = msgspec.to_builtins(batch(*results, health=HEALTH, account=ACCOUNT))
    return body


def whole_trace(at: datetime) -> TraceRun:
    """A trace that another router ended, with every field of a hop filled."""
    label = MplsLabel(label=24001, traffic_class=0, ttl=1)
    hops = (
        hop(1, "A", is_inferred=True, rtts_ms=()),
        hop(2, "B", mpls=(label,), others=(address("X"),)),
        hop(3, "*"),
        hop(4, "D", error="host_unreachable"),
    )
    return trace(at=at, hops=hops, reached=False, reason=TraceReason.RTT_STEP, detail="as it was")


def disk_to_disk(at: datetime, **fields: object) -> DiskToDiskRun:
    values: dict[str, object] = {
        "target": "anl",
        "address": "192.0.2.3",
        "family": 4,
        "started_at": at,
        "outcome": Outcome.MEASURED,
        "streams": 4,
        "file_bytes": 1_000_000,
        "moved_bytes": 1_000_000,
        "carried_bytes": 2_000_000,
        "moving_s": 1.0,
        "syncing_s": 0.5,
        "disk_to_disk_bps": 5e6,
        "memory_to_memory_bps": 9e6,
        "read_bps": 8e6,
        "read_cached_ratio": 0.01,
        "write_bps": 7e6,
        "is_verified": True,
        "detail": "as it was",
    }
    return DiskToDiskRun(**{**values, **fields})  # type: ignore[arg-type]


def policer(at: datetime, **fields: object) -> PolicerRun:
    values: dict[str, object] = {
        "target": "anl",
        "address": "192.0.2.3",
        "family": 4,
        "started_at": at,
        "outcome": Outcome.MEASURED,
        "verdict": PolicerVerdict.POLICER,
        "sustained_bps": 1e7,
        "sustained_low_bps": 9.9e6,
        "sustained_high_bps": 1.01e7,
        "burst_bytes": 50_000.0,
        "burst_low_bytes": 49_300.0,
        "burst_high_bytes": 50_700.0,
        "peak_bps": 1e8,
        "packet_bytes": 1400,
        "sent": 5000,
        "received": 1200,
        "sent_bytes": 7_000_000,
        "delay_rise_ms": 0.1,
        "detail": "as it was",
    }
    return PolicerRun(**{**values, **fields})  # type: ignore[arg-type]


def idle_restart(at: datetime, **fields: object) -> IdleRestartRun:
    values: dict[str, object] = {
        "target": "anl",
        "address": "192.0.2.3",
        "family": 4,
        "started_at": at,
        "outcome": Outcome.MEASURED,
        "before_bps": 1.93e7,
        "is_steady": True,
        "cwnd_before": 267,
        "cwnd_after": 10,
        "timeout_s": 0.35,
        "rtt_ms": 153.3,
        "pause_s": 5.0,
        "duration_s": 5.0,
        "rise_s": 0.5,
        "back_s": 0.48,
        "setting": "1",
        "sent_bytes": 24_000_000,
    }
    return IdleRestartRun(**{**values, **fields})  # type: ignore[arg-type]


def request_response(at: datetime, **fields: object) -> RequestResponseRun:
    values: dict[str, object] = {
        "target": "anl",
        "address": "192.0.2.3",
        "family": 4,
        "started_at": at,
        "outcome": Outcome.MEASURED,
        "request_bytes": 100,
        "response_bytes": 65_536,
        "errors": 1,
        "latencies_ms": (10.5, 12.25, 30.0),
        "connect_ms": 9.5,
        "setup_ms": 20.0,
        "first_ms": 31.0,
        "after_idle_ms": 29.0,
        "retransmits": 0,
        "far_retransmits": 2,
        "detail": "as it was",
    }
    return RequestResponseRun(**{**values, **fields})  # type: ignore[arg-type]


def capacity(at: datetime, **fields: object) -> CapacityRun:
    values: dict[str, object] = {
        "target": "cern",
        "address": "192.0.2.2",
        "family": 4,
        "started_at": at,
        "outcome": Outcome.MEASURED,
        "verdict": CapacityVerdict.MEASURED,
        "capacity_bps": 1e9,
        "capacity_low_bps": 9e8,
        "capacity_high_bps": 1.1e9,
        "packet_bytes": 1472,
        "sent": 100,
        "received": 99,
        "method": "trains",
        "detail": "as it was",
    }
    return CapacityRun(**{**values, **fields})  # type: ignore[arg-type]


def served(at: datetime, **fields: object) -> ServerReport:
    values: dict[str, object] = {
        "family": 4,
        "started_at": at,
        "outcome": Outcome.MEASURED,
        "detail": "served",
        "wanted_ratio": 0.3,
        "kernel": KERNEL,
    }
    return ServerReport(**{**values, **fields})  # type: ignore[arg-type]


NUMBERS: list[Any] = [
    *(0, 1, -1, 255, 256, 2**15, 2**31 - 1, 2**31, 2**48, 2**53, 2**62, 2**63 - 1, 2**63, 2**64 - 1, -(2**63)),
    *(0.0, -0.0, 1e-50, 5e-324, 1e-3, 0.999, 60_000.0, 86_400.0, 1e18, 1e39, 1e308, float("nan"), float("inf")),
]
TEXTS = [
    "",
    "\0",
    "nul\0within",
    "x" * 201,
    "x" * 5000,
    "\u202e",
    "𝛑",
    "measured",
    "no_route",
    "udp",
    "iperf3",
    "::1",
    "fe80::1%eth0",
]
MOMENTS = [
    *("0001-01-01T00:00:00Z", "0001-01-01T00:00:00+14:00", "1999-12-31T23:59:59Z", "2026-03-14T12:29:59.9999999Z"),
    *("9999-12-31T23:59:59Z", "9999-12-31T23:59:59.999999-14:00", "2026-03-14T12:00:00", "2026-02-30T00:00:00Z"),
]
OTHER: list[Any] = [None, True, False, [], {}, [None], [[]], {"kind": "ping"}, b"\xff\xfe".decode("latin-1")]
odd_values = st.sampled_from([*NUMBERS, *TEXTS, *MOMENTS, *OTHER])
any_values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**64 - 1) | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=12,
)


@st.composite
def changed(draw: st.DrawFn, whole: dict[str, Any]) -> dict[str, Any]:
    """The batch with up to three of its values replaced, removed or repeated."""
    body = deepcopy(whole)
    for _ in range(draw(st.integers(1, 3))):
        _change(draw, body)
    return body


def _change(draw: st.DrawFn, body: dict[str, Any]) -> None:
    holder: Any = body
    while True:
        keys = list(holder) if isinstance(holder, dict) else list(range(len(holder)))
        key = draw(st.sampled_from(keys))
        inner = holder[key]
        if not (isinstance(inner, dict | list) and inner) or draw(st.integers(0, 9)) == 0:
            break
        holder = inner
    change = draw(st.sampled_from(["odd"] * 6 + ["any", "removed", "twice"]))
    if change == "removed":
        del holder[key]
    elif change == "twice" and isinstance(holder, list):
        holder.append(deepcopy(inner))
    else:
        holder[key] = draw(odd_values if change == "odd" else any_values)


def as_json(value: Any) -> bytes:
    """Encoded by Python's own encoder: with NaN and Infinity, and half surrogates as escapes."""
    return json.dumps(value).encode()


def as_message_pack(value: Any) -> bytes:
    return msgspec.msgpack.encode(value)
