"""Limits of hosts planted on a veth link without a relay: the verdict names them, or cannot tell.

CPU time is short here, since both ends share the cores of the test machine: where it is the limit, that is right too.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path

import msgspec
import pytest

from monitor.analysis.transfer import Verdict
from monitor.archive.diagnosis.findings import Background, HostPair, RunDiagnosis, diagnose_run
from probes.contract import Deadline
from probes.lab.direct_link import ADDRESSES, INTERFACES, DirectLink
from probes.throughput.kind import KIND
from probes.throughput.probe import Iperf3Probe, Iperf3Server
from probes.transfers.spec import ServerReport, ThroughputRun, ThroughputSpec, merge_server_report
from tests.facts import lacks

pytestmark = pytest.mark.skipif(
    any(shutil.which(tool) is None for tool in ("iperf3", "unshare", "tc")) and not os.environ.get("CI"),
    reason="needs iperf3, iproute2 and util-linux",
)

SENDER, RECEIVER = 0, 1
CANNOT_TELL = (Verdict.UNDETERMINED, Verdict.CPU_BOUND)


@pytest.fixture(scope="module")
def link(namespaces_required: None) -> Iterator[DirectLink]:
    with DirectLink() as joined:
        yield joined


def transfer(link: DirectLink, port: int, **fields: object) -> tuple[ThroughputRun, ServerReport, RunDiagnosis]:
    """A test over the link, as both agents report it, and its diagnosis."""
    spec = ThroughputSpec(
        address=ADDRESSES[RECEIVER], source=ADDRESSES[SENDER], port=port, **{"duration_s": 2, **fields}
    )
    serving = link.submit(RECEIVER, Iperf3Server().serve, spec, Deadline(40))
    run = link.submit(SENDER, measured_once_it_listens, spec).result()
    assert KIND.report is not None
    served = KIND.report(spec, run.started_at, run.outcome, "", serving.result())
    assert isinstance(served, ServerReport)
    assert run.transfer is not None
    run = msgspec.structs.replace(run, transfer=merge_server_report(run.transfer, served))
    assert run.inventory is not msgspec.UNSET
    assert served.inventory is not msgspec.UNSET
    hosts = HostPair(run.inventory, served.inventory)
    said = diagnose_run(run, Background(1, datetime.now(UTC)), hosts)
    assert said is not None
    return run, served, said


def told(
    link: DirectLink, port: int, accepted: Sequence[Verdict], **fields: object
) -> tuple[ThroughputRun, ServerReport, RunDiagnosis]:
    """A test with one of these verdicts; a wrong one is repeated twice, as both ends share their CPUs with others."""
    for _ in range(2):
        told_by = transfer(link, port, **fields)
        if told_by[-1].verdict in accepted:
            return told_by
    return transfer(link, port, **fields)


def measured_once_it_listens(spec: ThroughputSpec) -> ThroughputRun:
    deadline = Deadline(20)
    while True:
        try:
            return Iperf3Probe().run(spec, Deadline(spec.duration_s + 20))
        except Exception as error:
            if deadline.passed or "refused" not in str(error).lower():
                raise
            time.sleep(0.1)


def test_the_link_carries_a_test_with_the_state_of_both_hosts(link: DirectLink) -> None:
    run, served, said = told(link, 5401, CANNOT_TELL)

    assert run.throughput_bps > 20e6
    assert run.inventory.interface == INTERFACES[SENDER]
    assert (run.inventory.driver, run.inventory.mtu_bytes) == ("veth", 1500)
    assert run.inventory.speed_bps == 10e9, "a veth pair says 10 Gbit/s"
    assert served.inventory.interface == INTERFACES[RECEIVER]
    cores = {core.number for core in run.transfer.sender_load.cores}
    assert len(cores) == os.cpu_count()
    assert run.transfer.sender_load.tool_core in cores
    assert run.transfer.receiver_load.tool_core in cores
    assert run.transfer.sender_load.queue_drops == 0
    assert said.verdict in CANNOT_TELL


def test_a_small_receive_buffer_is_named_or_not_told(link: DirectLink) -> None:
    before = link.submit(RECEIVER, Path("/proc/sys/net/ipv4/tcp_rmem").read_text).result()
    link.set_sysctl(RECEIVER, "net.ipv4.tcp_rmem", "4096 8192 16384")
    try:
        _, served, said = told(link, 5402, (Verdict.WINDOW_LIMITED, *CANNOT_TELL))
    finally:
        link.set_sysctl(RECEIVER, "net.ipv4.tcp_rmem", before.strip())

    assert served.inventory.sysctls["net.ipv4.tcp_rmem"] == "4096 8192 16384"
    assert said.verdict in (Verdict.WINDOW_LIMITED, *CANNOT_TELL), said.sentence
    if said.verdict is Verdict.WINDOW_LIMITED:
        assert 'set net.ipv4.tcp_rmem to "4096 8192 ' in said.sentence


def test_a_busy_core_of_the_receiver_is_named(link: DirectLink) -> None:
    """The server is pinned to the core of a busy process, and gets half of it at most."""
    allowed = os.sched_getaffinity(0)
    number = max(allowed)
    link.submit(RECEIVER, os.sched_setaffinity, 0, {number}).result()
    busy = subprocess.Popen(["taskset", "-c", str(number), sys.executable, "-c", "while True: pass"])
    try:
        run, _, said = told(link, 5403, CANNOT_TELL)
    finally:
        busy.kill()
        busy.wait()
        link.submit(RECEIVER, os.sched_setaffinity, 0, allowed).result()

    load = run.transfer.receiver_load
    assert load.tool_core == number
    assert next(core.busy_ratio for core in load.cores if core.number == number) > 0.8
    assert said.verdict in CANNOT_TELL, said.sentence
    if said.verdict is Verdict.CPU_BOUND and "the receiver's" in said.sentence:
        assert lacks(said.sentence, f"core {number} at", "other processes") == []


def test_a_small_queue_of_the_sender_is_named_or_not_told(link: DirectLink) -> None:
    """A queue discipline that keeps 200 Mbit/s and drops what it cannot hold; its own counter is the proof."""
    device = INTERFACES[SENDER]
    small = f"tc qdisc add dev {device} root tbf rate 200mbit burst 32k limit 40k".split()
    done = link.submit(SENDER, subprocess.run, small).result()
    if done.returncode != 0:
        pytest.skip("this kernel has no tbf")
    try:
        run, _, said = told(link, 5404, (Verdict.HOST_QUEUE, *CANNOT_TELL), streams=2, duration_s=3)
    finally:
        link.submit(SENDER, subprocess.run, ["tc", "qdisc", "del", "dev", device, "root"]).result()

    assert run.inventory.queue_discipline == "tbf"
    assert run.transfer.sender_load.queue_drops > 0
    assert said.verdict in (Verdict.HOST_QUEUE, *CANNOT_TELL), said.sentence
    if said.verdict is Verdict.HOST_QUEUE:
        assert lacks(said.sentence, f"tbf of {device}", "dropped") == []


def test_a_small_mtu_is_named_where_it_costs_cpu_time(link: DirectLink) -> None:
    link.set_mtu(RECEIVER, 9000)
    try:
        _, _, said = told(link, 5405, CANNOT_TELL)
    finally:
        link.set_mtu(RECEIVER, 1500)

    assert said.verdict in CANNOT_TELL, said.sentence
    if "process used or waited" in said.sentence:
        assert "the MTU of the sender's interface is 1500, that of the other end 9000" in said.sentence
