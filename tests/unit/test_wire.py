"""The wire format: agents and centres of other versions can read this version's messages, byte for byte as before."""

from datetime import UTC, datetime
from pathlib import Path

import msgspec
import pytest

from probes.aggregate.spec import AggregateSlot
from probes.capacity.spec import CapacityRun, CapacitySpec, CapacityTarget, CapacityTask
from probes.contract import CycleKind, Outcome, SlotKind
from probes.disk_to_disk.spec import DiskToDiskRun, DiskToDiskSlot, DiskToDiskSpec
from probes.idle_restart.spec import IdleRestartRun, IdleRestartSlot, IdleRestartSpec
from probes.interface.spec import InterfaceRun, InterfaceSpec, InterfaceTarget, InterfaceTask
from probes.kinds import CYCLE_KINDS, KINDS, SLOT_KINDS
from probes.packets.spec import Burst, PingSpec, PingTarget
from probes.ping.spec import PingTask
from probes.policer.spec import PolicerRun, PolicerSlot, PolicerSpec
from probes.request_response.spec import (
    AnsweredPeer,
    AnsweringPlan,
    RequestResponseRun,
    RequestResponseSpec,
    RequestResponseTarget,
    RequestResponseTask,
)
from probes.site.wire import Batch, Delivered, Plan, read_slot
from probes.stamp.spec import (
    ClockBound,
    ReflectorPlan,
    StampBurst,
    StampDirection,
    StampSpec,
    StampTarget,
    StampTask,
)
from probes.tcp_ping.spec import TcpPingSpec, TcpPingTarget, TcpPingTask
from probes.throughput.spec import ThroughputSlot
from probes.trace.spec import Hop, MplsLabel, TraceRun, TraceSpec, TraceTarget, TraceTask
from probes.transfers.spec import ServerReport, ThroughputRun, ThroughputSpec

WIRE = Path(__file__).parents[1] / "fixtures" / "wire"
AT = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
WINDOW = {"starts_at": AT, "ends_at": AT, "slot_id": 1, "path_id": 2, "test": "t"}
PLAN = Plan(
    version="v",
    site="s",
    mesh="m",
    ping=(PingTask(test="p", every_s=60, spec=PingSpec(targets=(PingTarget(address="a", path_id=1),))),),
    throughput=(ThroughputSlot(role="client", spec=ThroughputSpec(address="x"), **WINDOW),),
    capacity=(
        CapacityTask(test="c", every_s=600, targets=(CapacityTarget(path_id=1, spec=CapacitySpec(address="y")),)),
    ),
    disk_to_disk=(DiskToDiskSlot(role="server", spec=DiskToDiskSpec(address="x", source="y"), **WINDOW),),
    trace=(TraceTask(test="r", every_s=600, spec=TraceSpec(targets=(TraceTarget(address="a", path_id=1),))),),
    stamp=(StampTask(test="w", every_s=60, spec=StampSpec(targets=(StampTarget(address="a", path_id=1),))),),
    tcp_ping=(TcpPingTask(test="h", every_s=60, spec=TcpPingSpec(targets=(TcpPingTarget(address="a"),), port=443)),),
    policer=(PolicerSlot(role="client", spec=PolicerSpec(address="x"), **WINDOW),),
    request_response=(
        RequestResponseTask(
            test="b", every_s=300, spec=RequestResponseSpec(targets=(RequestResponseTarget(address="a", path_id=1),))
        ),
    ),
    request_response_server=AnsweringPlan(peers=(AnsweredPeer(address="b", key="QUFBQUFBQUFBQUFBQUFBQQ=="),)),
    aggregate=(AggregateSlot(role="server", spec=ThroughputSpec(address="x", port=5202), **WINDOW),),
    idle_restart=(IdleRestartSlot(role="client", spec=IdleRestartSpec(address="x"), **WINDOW),),
    interface=(
        InterfaceTask(
            test="i",
            every_s=60,
            spec=InterfaceSpec(targets=(InterfaceTarget(address="a", path_id=1),), router="r", interface="#1"),
        ),
    ),
    stamp_reflector=ReflectorPlan(peers=(AnsweredPeer(address="b", key="QUFBQUFBQUFBQUFBQUFBQQ=="),)),
)
MISSED = {"target": "a", "address": None, "family": 4, "started_at": AT, "outcome": Outcome.MISSED}
RESULTS = (
    Burst(packet_bytes=100, **MISSED),
    ThroughputRun(**MISSED),
    CapacityRun(**MISSED),
    DiskToDiskRun(**MISSED),
    ServerReport(family=4, started_at=AT, outcome=Outcome.MISSED, detail="d"),
    TraceRun(
        flow=1,
        reached=True,
        hops=(Hop(ttl=1, address="r", rtts_ms=(1.5, None), mpls=(MplsLabel(label=1, traffic_class=0, ttl=9),)),),
        **MISSED,
    ),
    StampBurst(
        packet_bytes=200,
        rtts_ms=(1.5, None),
        forward=StampDirection(lost=1, median_ms=-2.5),
        offset_lo_ms=-3.5,
        far_clock=ClockBound(is_synchronised=True, error_ms=0.5),
        **MISSED,
    ),
    PolicerRun(**MISSED),
    RequestResponseRun(request_bytes=100, response_bytes=65_536, latencies_ms=(1.5, 2.5), retransmits=1, **MISSED),
    IdleRestartRun(**MISSED),
    InterfaceRun(router="192.0.2.1", interface="xe-0/0/1", speed_bps=1e10, **MISSED),
)
BATCH = Batch(
    spool="s",
    number=1,
    agent_version="1",
    sent_at=AT,
    results=tuple(
        Delivered(sequence=number, path_id=1, test="t", result=result) for number, result in enumerate(RESULTS)
    ),
)


@pytest.mark.parametrize(("message", "file"), [(PLAN, "plan.json"), (BATCH, "batch.json")])
def test_json_of_plans_and_batches_stays_as_released(message, file):
    written = (WIRE / file).read_bytes().rstrip(b"\n")

    assert msgspec.json.encode(message) == written
    assert msgspec.json.decode(written, type=type(message)) == message


def test_results_without_fields_added_later_are_read():
    written = (WIRE / "batch_before_loaded_rtts.json").read_bytes()
    before_stamp = msgspec.structs.replace(BATCH, results=BATCH.results[:-5])

    assert b"loaded_rtts_ms" not in written
    assert msgspec.json.decode(written, type=Batch) == before_stamp


def test_slots_are_distinguished_by_their_tag():
    assert [read_slot(msgspec.json.encode(slot)) for slot in PLAN.slots] == list(PLAN.slots)
    with pytest.raises(msgspec.ValidationError, match="telepathy"):
        read_slot(b'{"kind": "telepathy"}')


def test_a_plan_with_kinds_of_a_later_version_is_read():
    later = msgspec.json.decode((WIRE / "plan.json").read_bytes()) | {"telepathy": [{"test": "x"}]}

    assert msgspec.json.decode(msgspec.json.encode(later), type=Plan) == PLAN


def test_every_kind_is_registered_once_and_loads_its_probe():
    names = (
        "ping throughput capacity disk-to-disk trace stamp tcp-ping policer request-response aggregate idle-restart "
        "interface"
    )
    assert list(KINDS) == names.split()
    assert [*CYCLE_KINDS, *SLOT_KINDS] == sorted(KINDS.values(), key=lambda kind: kind.schedule)
    for name, kind in KINDS.items():
        assert (kind.name, callable(kind.probe().run)) == (name, True)
        assert isinstance(kind, SlotKind if kind.schedule == "slot" else CycleKind)
    tags = [result.__struct_config__.tag for result in {result for kind in KINDS.values() for result in kind.results}]
    assert len(set(tags)) == len(tags)
