"""A host's limit is named with the setting to change, and only where its present value explains it."""

import pytest

from monitor.analysis.transfer import CoreUse, HostState, TcpInfo, Verdict, diagnose
from monitor.archive.diagnosis.findings import Background, HostPair, diagnose_run
from probes.transfers.hosts.spec import HostInventory
from tests.db.archive.test_transfers import HOUR, real
from tests.diagnosis.generated import Moment, recorded, steady
from tests.facts import lacks

SMALL = {"net.ipv4.tcp_rmem": "4096 65536 131072", "net.ipv4.tcp_wmem": "4096 65536 131072"}
"""As the lab had them when the fixtures were recorded."""


def said_of(name, *, sender=None, receiver=None, **background):
    hosts = HostPair(*(None if sysctls is None else HostInventory(sysctls=sysctls) for sysctls in (sender, receiver)))
    return diagnose_run(real(name), Background(1, HOUR, **background), hosts)


def test_a_small_receive_buffer_has_the_exact_setting():
    said = said_of("small_window", sender={}, receiver=SMALL, capacity_bps=100e6, idle_rtt_ms=40.0)

    assert said.verdict is Verdict.WINDOW_LIMITED
    assert lacks(said.sentence, 'set net.ipv4.tcp_rmem to "4096 65536 1000000" at the receiver') == []


def test_a_small_send_buffer_has_the_exact_setting():
    said = said_of("small_send_buffer", sender=SMALL, receiver={}, capacity_bps=100e6, idle_rtt_ms=40.0)

    assert said.verdict is Verdict.WINDOW_LIMITED
    assert lacks(said.sentence, 'set net.ipv4.tcp_wmem to "4096 65536 1000000" at the sender') == []


@pytest.mark.parametrize(
    ("sysctls", "text"),
    [
        ({"net.ipv4.tcp_window_scaling": "0"}, "set net.ipv4.tcp_window_scaling to 1 at the receiver"),
        ({"net.ipv4.tcp_moderate_rcvbuf": "0"}, "set net.ipv4.tcp_moderate_rcvbuf to 1 at the receiver"),
        ({"net.ipv4.tcp_rmem": "4096 131072 33554432"}, "so that it is not the reason"),
        ({"net.core.rmem_max": "212992"}, "net.core.rmem_max to 1000000 for programs that set their buffer"),
        ({"net.core.rmem_max": "4194304"}, 'set net.ipv4.tcp_rmem to "4096 65536 1000000" at the receiver'),
    ],
)
def test_the_setting_that_explains_a_small_window_is_named(sysctls, text):
    said = said_of("small_window", sender={}, receiver={**SMALL, **sysctls}, capacity_bps=100e6, idle_rtt_ms=40.0)

    assert text in said.sentence


def test_without_an_inventory_the_advice_is_general():
    assert "raise tcp_rmem to 1 MB" in said_of("small_window", capacity_bps=100e6, idle_rtt_ms=40.0).sentence


def test_a_buffer_that_the_test_set_is_its_own_limit():
    now = Moment(rate_bps=96e6, cwnd_bytes=4e6, window_bytes=1.5e6, rtt_ms=125.0)
    host = HostState(sysctls={"net.core.rmem_max": "212992", "net.ipv4.tcp_rmem": "4096 131072 33554432"})

    diagnosis = diagnose(recorded(lambda _: now, 10, capacity_bps=249.6e6, receiver_host=host, window_bytes=3_000_000))

    wanted = "raise its window_bytes to 8000000, and net.core.rmem_max to 8000000 at the receiver"
    assert lacks(diagnosis.sentence, "the test set a buffer of 3.0 MB", wanted) == []


def test_a_buffer_full_of_its_window_is_raised_without_a_capacity():
    """Twice the bytes in flight can be less than a buffer that binds: half of 16 kB is offered as window."""
    now = Moment(rate_bps=468e6, cwnd_bytes=4e5, window_bytes=8.6e3, rtt_ms=0.05)
    small = HostState(sysctls={"net.ipv4.tcp_rmem": "4096 8192 16384"})

    diagnosis = diagnose(recorded(lambda _: now, 10, receiver_host=small))

    assert diagnosis.verdict is Verdict.WINDOW_LIMITED
    assert 'set net.ipv4.tcp_rmem to "4096 8192 65536" at the receiver' in diagnosis.sentence


def core(busy_ratio, softirq_ratio=0.0, number=3):
    return CoreUse(number, busy_ratio, softirq_ratio)


def host(*cores, tool_ratio=0.2, **fields):
    return HostState(cores=cores, tool_core=3, tool_ratio=tool_ratio, **fields)


def test_the_core_of_a_process_without_cpu_is_named():
    diagnosis = diagnose(
        recorded(steady(1e9), 5, receiver_cpu_ratio=0.99, receiver_host=host(core(0.3, number=1), core(0.98)))
    )

    assert diagnosis.verdict is Verdict.CPU_BOUND
    assert lacks(diagnosis.sentence, "the receiver's process", "core 3 at 98%", "other processes used 78%") == []


def test_advice_for_a_full_cpu_has_what_the_host_shows():
    sender = host(core(0.99), tool_ratio=0.95, cpu_governor="powersave", mtu_bytes=1500)

    diagnosis = diagnose(
        recorded(
            steady(1e9),
            5,
            streams=8,
            sender_cpu_ratio=0.99,
            sender_host=sender,
            receiver_host=HostState(mtu_bytes=9000),
            has_thread_per_stream=False,
        )
    )

    fixes = ("install 3.16 or later", "performance, now powersave", "MTU of the sender's interface is 1500")
    assert lacks(diagnosis.sentence, *fixes) == []
    assert "other processes" not in diagnosis.sentence


def test_network_interrupts_that_fill_a_core_are_the_limit():
    full = host(core(0.98, 0.8), interface="eth2")

    diagnosis = diagnose(recorded(steady(9e9), 5, receiver_cpu_ratio=0.4, receiver_host=full))

    assert diagnosis.verdict is Verdict.CPU_BOUND
    facts = ("the receiver's core 3 at 98%", "80% in network interrupts", "/sys/class/net/eth2/queues/rx-0/rps_cpus")
    assert lacks(diagnosis.sentence, *facts) == []


@pytest.mark.parametrize("full", [core(0.98, 0.3), core(0.90, 0.8)], ids=["other work", "not full"])
def test_a_core_that_does_not_limit_is_not_named(full):
    diagnosis = diagnose(recorded(steady(9e9), 5, receiver_cpu_ratio=0.4, receiver_host=host(full, tool_ratio=0.9)))

    assert diagnosis.verdict is Verdict.UNDETERMINED
    assert "core" not in diagnosis.sentence


def paused_sender(busy_ratio, wanted_ratio, tool_ratio=0.2, **fields):
    return diagnose(
        recorded(
            steady(10e6, cwnd_bytes=1e6),
            5,
            kernel=TcpInfo(age_s=5.0, busy_s=3.0),
            sender_cpu_ratio=wanted_ratio,
            sender_host=host(core(busy_ratio), tool_ratio=tool_ratio),
            **fields,
        )
    )


@pytest.mark.parametrize(
    ("busy_ratio", "wanted_ratio", "tool_ratio", "verdict"),
    [
        (1.0, 0.8, 0.2, Verdict.CPU_BOUND),
        (1.0, 0.3, 0.2, Verdict.UNDETERMINED),
        (1.0, 0.05, 0.02, Verdict.APPLICATION_LIMITED),
        (0.5, 0.8, 0.2, Verdict.APPLICATION_LIMITED),
        (1.0, 0.85, 0.85, Verdict.APPLICATION_LIMITED),
    ],
)
def test_a_sender_that_waits_for_its_core_is_no_idle_application(busy_ratio, wanted_ratio, tool_ratio, verdict):
    assert paused_sender(busy_ratio, wanted_ratio, tool_ratio).verdict is verdict


@pytest.mark.parametrize(("busy_ratio", "verdict"), [(1.0, Verdict.UNDETERMINED), (0.5, Verdict.BOTTLENECK_QUEUE)])
def test_the_steady_rate_of_bbr_on_a_full_host_is_no_bottleneck(busy_ratio, verdict):
    quiet = recorded(
        steady(4e9, cwnd_bytes=2e6, rtt_ms=1.0),
        10,
        congestion_control="bbr",
        sender_cpu_ratio=0.7,
        receiver_cpu_ratio=0.7,
        receiver_host=host(core(busy_ratio)),
        kernel=TcpInfo(age_s=10.0, busy_s=10.0, peer_window_limited_s=0.0, send_buffer_limited_s=0.0, duplicates=0),
    )

    assert diagnose(quiet).verdict is verdict


def dropping(drops, **fields):
    def moment(now_s):
        return Moment(rate_bps=1e9, cwnd_bytes=4e5, retransmits=10 if round(now_s * 10) % 5 == 0 else 0)

    sender = HostState(interface="eth0", queue_discipline="pfifo", tx_queue_packets=100, queue_drops=drops)
    return diagnose(recorded(moment, 5, sender_host=sender, **fields))


def test_drops_of_the_senders_own_queue_are_named():
    diagnosis = dropping(80)

    assert diagnosis.verdict is Verdict.HOST_QUEUE
    facts = ("pfifo of eth0", "dropped 80 packets", "raise the limit of pfifo", "tc qdisc replace dev eth0 root fq")
    assert lacks(diagnosis.sentence, *facts) == []


@pytest.mark.parametrize("drops", [0, 40, None])
def test_losses_elsewhere_are_not_the_senders_own(drops):
    """100 segments are retransmitted."""
    assert dropping(drops).verdict is not Verdict.HOST_QUEUE
