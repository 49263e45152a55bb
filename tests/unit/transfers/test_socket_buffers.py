"""Socket buffers that a host does not grant: said before the test, with the sysctl to set."""

from datetime import UTC, datetime

import msgspec
import pytest

from probes.contract import Deadline
from probes.throughput.check import check_socket_buffers
from probes.throughput.probe import Iperf3Probe, Iperf3Server
from probes.throughput.spec import ThroughputSlot
from probes.transfers import socket_buffers
from probes.transfers.iperf3.report import ToolFailure
from probes.transfers.spec import ThroughputSpec

MIB = 2**20
SYSCTLS = {"net.core.rmem_max": str(4 * MIB), "net.core.wmem_max": str(MIB)}


def slot(window_bytes):
    spec = ThroughputSpec(address="192.0.2.1", window_bytes=window_bytes)
    at = datetime(2026, 11, 24, tzinfo=UTC)
    return ThroughputSlot(slot_id=1, path_id=1, test="t", role="client", starts_at=at, ends_at=at, spec=spec)


@pytest.mark.parametrize(
    ("window_bytes", "fixes"),
    [
        (None, []),
        (MIB, []),
        (2 * MIB, [f"sysctl -w net.core.wmem_max={2 * MIB}"]),
        (8 * MIB, [f"sysctl -w net.core.rmem_max={8 * MIB}", f"sysctl -w net.core.wmem_max={8 * MIB}"]),
    ],
)
def test_the_doctor_names_each_sysctl_below_the_largest_window(window_bytes, fixes):
    results = list(check_socket_buffers([slot(65_536), slot(window_bytes)], SYSCTLS))

    if not fixes:
        assert all(result.is_good for result in results)
    else:
        [result] = results
        assert [fix for fix in fixes if fix not in result.fix] == []
        assert result.fix.count("sysctl -w") == len(fixes)


def test_without_windows_the_doctor_says_nothing():
    assert list(check_socket_buffers([slot(None)], SYSCTLS)) == []


def test_iperf3_gives_up_only_beyond_twice_the_limit():
    """The kernel doubles what it grants (socket(7)), and iperf3 compares that with the request."""
    assert socket_buffers.refusal(2 * MIB, SYSCTLS) is None
    assert "net.core.wmem_max = 1048576" in socket_buffers.refusal(2 * MIB + 1, SYSCTLS)
    assert socket_buffers.refusal(2**30, {}) is None


@pytest.mark.parametrize("end", ["client", "server"])
def test_both_ends_refuse_before_they_start_iperf3(monkeypatch, end):
    monkeypatch.setattr(socket_buffers, "read_sysctls", lambda names: SYSCTLS)
    monkeypatch.setenv("PATH", "/nonexistent")
    spec = ThroughputSpec(address="127.0.0.1", source="127.0.0.1", window_bytes=16 * MIB)
    run = Iperf3Probe().run if end == "client" else Iperf3Server().serve

    with pytest.raises(ToolFailure, match=f"sysctl -w net.core.rmem_max={16 * MIB}"):
        run(spec, Deadline(5.0))

    assert any("sysctl" in reason for reason in Iperf3Probe().can_run(msgspec.structs.replace(spec)))
