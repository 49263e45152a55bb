"""Aggregate tests from mesh.toml to their result over a bottleneck of the lab, by the agents' runner of slots."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path as FilePath

import msgspec
import pytest

from monitor.archive.aggregates.settle import settle
from monitor.archive.queries.throughput.aggregates import AggregateResult, aggregate_result
from monitor.mesh.apply import apply
from monitor.mesh.document.reader import parse
from monitor.mesh.models import Site, Slot
from monitor.mesh.plan import plan_for
from monitor.mesh.schedule.endings import GRACE_S, expire_slots
from monitor.mesh.schedule.slots import plan_slots
from probes.site.wire import Batch, Delivered
from tests.deliveries import store
from tests.lab import RunningLab

pytestmark = [
    pytest.mark.django_db,
    pytest.mark.skipif(shutil.which("iperf3") is None, reason="iperf3 is not installed"),
]
SHARED_LINK = str(FilePath(__file__).with_name("shared-link.toml"))
BOTTLENECK_BPS = 30e6
SENDERS = ("near", "mid", "far")
STARTS_IN_S = 4
"""The runners have started before."""
DURATION_S = 6


@pytest.fixture(scope="module")
def lab(namespaces_required: None):
    with RunningLab(SHARED_LINK) as lab:
        yield lab


def apply_mesh(lab: RunningLab) -> None:
    """The mesh of the lab, with an aggregate test."""
    sites = "".join(
        f'[[site]]\nname = "{name}"\nlatitude_deg = 0.0\nlongitude_deg = 0.0\ncountry = "CH"\n'
        f'[[site.host]]\naddress = "{lab.address(name)}"\n'
        for name in (*SENDERS, "dest")
    )
    text = (
        f'[mesh]\nname = "Lab"\n{sites}'
        '[[test]]\nname = "ping"\nkind = "ping"\nevery_s = 60\n'
        '[[group]]\nname = "all"\nshape = "mesh"\nsites = ["near", "dest"]\ntests = ["ping"]\n'
        '[[test]]\nname = "in"\nkind = "aggregate"\nshape = "many-to-one"\nevery_s = 3600\n'
        f'senders = ["near", "mid", "far"]\nreceivers = ["dest"]\nduration_s = {DURATION_S}\nomit_s = 1\n'
    )
    apply(parse(text.encode(), "mesh.toml"), datetime.now(UTC))


def plan_soon() -> list[Slot]:
    """The first slots of the test, moved to a few seconds from now; the others are deleted."""
    now = datetime.now(UTC)
    plan_slots(now)
    slots = Slot.objects.filter(measurement__test__name="in")
    first = slots.order_by("starts_at", "pk").first()
    slots.exclude(starts_at=first.starts_at).delete()
    starts_at = now.replace(microsecond=0) + timedelta(seconds=STARTS_IN_S)
    slots.update(starts_at=starts_at, ends_at=starts_at + (first.ends_at - first.starts_at))
    return list(slots.order_by("pk"))


@contextmanager
def agents(lab: RunningLab, names: Sequence[str]) -> Iterator[dict[str, subprocess.Popen[str]]]:
    """The runners of these sites, which wait for their plans."""
    processes: dict[str, subprocess.Popen[str]] = {}
    try:
        for name in names:
            processes[name] = lab.popen(name, sys.executable, "-m", "tests.net.aggregate_end", stdin=subprocess.PIPE)
        for process in processes.values():
            assert process.stdout.readline() == "ready\n"
        yield processes
    finally:
        for process in processes.values():
            process.kill()
            process.communicate()


def run_slots(processes: dict[str, subprocess.Popen[str]]) -> list[tuple[str, Delivered]]:
    """Give each runner its plan; returns what each agent would deliver."""
    for name, process in processes.items():
        plan = plan_for(Site.objects.get(name=name), datetime.now(UTC))
        process.stdin.write(msgspec.json.encode(plan).decode())
        process.stdin.close()
        process.stdin = None
    outputs = {name: process.communicate(timeout=60)[0] for name, process in processes.items()}
    lines = [(name, line) for name, output in outputs.items() for line in output.splitlines() if line.startswith("{")]
    assert lines, outputs
    return [(name, msgspec.json.decode(line, type=Delivered)) for name, line in lines]


def settled(slots: list[Slot], results: list[tuple[str, Delivered]]) -> AggregateResult:
    for number, (name, delivered) in enumerate(results):
        site_id = Site.objects.get(name=name).pk
        batch = Batch(spool=f"s{number}", number=1, agent_version="1", sent_at=datetime.now(UTC), results=(delivered,))
        assert store(site_id, batch, datetime.now(UTC)).refused == ()
    over = slots[0].ends_at + timedelta(seconds=GRACE_S + 1)
    expire_slots(over)
    settle(over)
    result = aggregate_result(slots[0].pk)
    assert result is not None
    return result


def rtts_ms(lab: RunningLab, count: int) -> list[float]:
    """RTTs of pings from a site that has no part in the test, over the shared link."""
    done = lab.exec("other", "ping", "-n", "-i", "0.2", "-c", str(count), lab.address("dest"))
    return sorted(float(rtt) for rtt in re.findall(r"time=([\d.]+) ms", done.stdout))


def test_three_senders_share_a_bottleneck_and_delay_another_path(lab):
    apply_mesh(lab)
    rest = rtts_ms(lab, 10)
    with agents(lab, (*SENDERS, "dest")) as processes:
        slots = plan_soon()
        with ThreadPoolExecutor() as pool:
            pings = pool.submit(rtts_ms, lab, 5 * (STARTS_IN_S + DURATION_S))
            run = settled(slots, run_slots(processes))
            loaded = pings.result()

    assert (run.state, run.measured, run.is_final) == ("complete", 3, True), run.members
    # TCP's share of a packet of 1,500 bytes is 1,448.
    assert run.sum_bps == pytest.approx(BOTTLENECK_BPS * 1448 / 1500, rel=0.1)
    assert 1 / 3 < run.fairness <= 1.0
    assert sum(member.common_bps for member in run.members) == pytest.approx(run.sum_bps)
    assert run.common_s > DURATION_S - 3
    assert run.start_spread_s < 3
    # The queue holds 60 ms; it is empty at rest.
    assert loaded[len(loaded) * 9 // 10] > rest[len(rest) // 2] + 20


def test_a_dead_member_leaves_a_part(lab):
    """The agent of `far` is dead: the others share the bottleneck, and no sum is given."""
    apply_mesh(lab)
    with agents(lab, ("near", "mid", "dest")) as processes:
        slots = plan_soon()
        run = settled(slots, run_slots(processes))

    outcomes = {member.source: member.outcome for member in run.members}
    assert outcomes == {"near": "measured", "mid": "measured", "far": "missed"}, run.members
    assert (run.state, run.member_count, run.measured, run.sum_bps) == ("partial", 3, 2, None)
    assert run.partial_sum_bps == pytest.approx(BOTTLENECK_BPS * 1448 / 1500, rel=0.1)
    assert "far → dest" in run.sentence
