"""Bursts of handshakes: limits, load periods and ranges. tests/net/test_tcp_ping.py has the packets."""

from __future__ import annotations

import socket
from datetime import UTC, datetime, timedelta

import pytest

from probes.__main__ import main
from probes.contract import Deadline, Load, LoadedPeriods, Outcome, ProbeError
from probes.site.limits.limits import Limits
from probes.tcp_ping.kind import KIND
from probes.tcp_ping.limits import TcpPingLimits
from probes.tcp_ping.probe import TcpPingProbe, problems
from probes.tcp_ping.spec import TcpPingSpec, TcpPingTarget, TcpPingTask


def spec_of(**fields: object) -> TcpPingSpec:
    target = TcpPingTarget(address="127.0.0.1", path_id=1)
    return TcpPingSpec(**{"targets": (target,), "port": 443, "count": 3, "spacing_s": 0.05, **fields})


def task_of(**fields: object) -> TcpPingTask:
    return TcpPingTask(test="https", every_s=60, spec=spec_of(**fields))


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"port": 0}, "port 0"),
        ({"count": 0}, "count 0"),
        ({"spacing_s": 0.01}, "spacing_s 0.01"),
        ({"timeout_s": 1.0}, "a SYN is sent again after 1 s"),
    ],
)
def test_values_out_of_range_have_reasons(fields, words):
    [reason] = problems(spec_of(**fields))

    assert words in reason
    with pytest.raises(ProbeError, match=words):
        TcpPingProbe().run(spec_of(**fields), Deadline(1))


def verdict(limits: TcpPingLimits, task: TcpPingTask) -> str | None:
    [rule] = KIND.forbids(Limits(tcp_ping=limits), task, KIND.targets(task), Load({}, lambda address: 0))
    return rule


def test_limits_name_the_port_the_spacing_or_the_rate():
    assert verdict(TcpPingLimits(), task_of(spacing_s=1.0)) is None
    assert "tcp_ping.ports: 443" in str(verdict(TcpPingLimits(ports=(80, 8443)), task_of(spacing_s=1.0)))
    assert "tcp_ping.min_spacing_s" in str(verdict(TcpPingLimits(), task_of(spacing_s=0.1)))
    assert "tcp_ping.max_packets_per_s" in str(verdict(TcpPingLimits(max_packets_per_s=0.5), task_of(spacing_s=1.0)))


def test_handshakes_under_load_are_told_apart():
    with socket.create_server(("127.0.0.1", 0)) as server:
        spec = spec_of(port=server.getsockname()[1], count=4, spacing_s=0.2)
        began = datetime.now(UTC)
        loads = [(began + timedelta(seconds=0.3), began + timedelta(seconds=10))]
        [burst] = TcpPingProbe().run(spec, Deadline(10), lambda: LoadedPeriods(loads))
        at_destination = LoadedPeriods(there={0: [(began, began + timedelta(seconds=60))]})
        [whole] = TcpPingProbe().run(spec, Deadline(10), lambda: at_destination)

    assert burst.outcome is Outcome.MEASURED
    assert burst.loaded_rtts_ms is not None
    assert 1 <= burst.sent == burst.received < 4
    assert burst.sent + len(burst.loaded_rtts_ms) == 4
    assert (whole.sent, whole.loaded_rtts_ms, whole.is_under_load) == (4, (), True)


def test_the_command_refuses_what_it_cannot_measure(capsys):
    assert main(["tcp-ping", "127.0.0.1", "--port", "443", "--timeout-s", "2"]) == 2
    assert "--timeout-s 2.0" in capsys.readouterr().err
