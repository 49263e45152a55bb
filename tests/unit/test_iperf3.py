"""iperf3's reports, real ones of version 3.12 made between two namespaces, against what jq reads out of them."""

import json
from datetime import UTC, datetime
from pathlib import Path

import pytest

from probes.contract import Deadline, NameNotResolved, Outcome, ProbeError
from probes.throughput import iperf3
from probes.throughput.spec import ThroughputSpec

FIXTURES = Path(__file__).parents[1] / "fixtures" / "iperf3"
SPEC = ThroughputSpec(address="lab.example", duration_s=2)
STARTED_AT = datetime(2026, 11, 21, tzinfo=UTC)
MEASURED = ["tcp", "tcp_streams", "tcp_ipv6", "reno"]
FAILED = ["refused", "no_route", "busy", "server_killed", "client_terminated"]


def read(output: bytes):
    return iperf3.read_report(output, SPEC, "10.77.2.1", STARTED_AT)


def test_every_report_has_a_test():
    reports = {path.stem for path in FIXTURES.glob("*.json") if not path.stem.endswith(".expected")}

    assert reports == {*MEASURED, *FAILED}


@pytest.mark.parametrize("name", MEASURED)
def test_a_report_is_read_whole(name):
    expected = json.loads((FIXTURES / f"{name}.expected.json").read_text())

    run = read((FIXTURES / f"{name}.json").read_bytes())

    assert (run.target, run.address, run.started_at, run.detail) == ("lab.example", "10.77.2.1", STARTED_AT, None)
    for field, value in expected.items():
        if field != "intervals":
            assert getattr(run, field) == pytest.approx(value), field
    assert len(run.intervals) == len(expected["intervals"])
    for interval, values in zip(run.intervals, expected["intervals"], strict=True):
        for field, value in values.items():
            assert getattr(interval, field) == pytest.approx(value), field


def test_the_rate_is_the_receivers_and_leaves_the_omitted_start_out():
    run = read((FIXTURES / "tcp_streams.json").read_bytes())

    assert run.throughput_bps == pytest.approx(run.received_bytes * 8 / run.duration_s)
    assert [interval.omitted for interval in run.intervals] == [True, False, False]
    assert [round(interval.start_s) for interval in run.intervals] == [0, 1, 2]


@pytest.mark.parametrize("name", FAILED)
def test_a_failure_is_an_outcome_with_its_reason(name):
    expected = json.loads((FIXTURES / f"{name}.expected.json").read_text())

    with pytest.raises(ProbeError) as failure:
        read((FIXTURES / f"{name}.json").read_bytes())

    assert (failure.value.outcome, str(failure.value)) == (expected["outcome"], expected["detail"])


@pytest.mark.parametrize("share", [0.0, 0.1, 0.5, 0.9, 0.99])
def test_a_report_that_is_cut_off_is_a_tool_failure(share):
    whole = (FIXTURES / "tcp.json").read_bytes()

    with pytest.raises(iperf3.ToolFailure, match="cut off or not JSON"):
        read(whole[: int(len(whole) * share)])


@pytest.mark.parametrize("missing", ["end", "start", "intervals"])
def test_a_report_without_a_part_is_a_tool_failure(missing):
    report = json.loads((FIXTURES / "tcp.json").read_text())
    del report[missing]

    with pytest.raises(iperf3.ToolFailure, match=f"not complete: KeyError\\('{missing}'\\)"):
        read(json.dumps(report).encode())


def test_a_test_that_moved_nothing_is_not_0_bit_per_second():
    report = json.loads((FIXTURES / "tcp.json").read_text())
    report["end"]["sum_received"] |= {"bytes": 0, "bits_per_second": 0}

    with pytest.raises(iperf3.ToolFailure, match="no data arrived"):
        read(json.dumps(report).encode())


def test_lines_before_the_report_are_passed_over():
    report = (FIXTURES / "tcp.json").read_bytes()

    assert read(b"warning: this system does not have all CPUs online\n" + report).outcome is Outcome.MEASURED


def test_without_tcp_info_there_is_no_round_trip_time():
    report = json.loads((FIXTURES / "tcp.json").read_text())
    report["end"]["streams"][0]["sender"]["mean_rtt"] = 0

    assert read(json.dumps(report).encode()).rtt_mean_ms is None


@pytest.mark.parametrize(("report", "received"), [("server_served", 23935392), ("server_in_use", 0)])
def test_the_server_knows_whether_it_was_used(report, received):
    output = (FIXTURES / "server" / f"{report}.json").read_bytes()

    assert iperf3._received_bytes(output) == received


def test_a_server_that_cannot_listen_says_so():
    in_use = (FIXTURES / "server" / "server_in_use.json").read_bytes()
    served = (FIXTURES / "server" / "server_served.json").read_bytes()

    assert "Address already in use" in str(iperf3._listening_failed(in_use))
    assert iperf3._listening_failed(served) is None


def test_the_command_carries_the_whole_spec():
    spec = ThroughputSpec(
        address="127.0.0.2", source="127.0.0.3", port=5300, duration_s=7, omit_s=2, streams=4, family=4
    )

    command = iperf3.client_arguments(spec, "127.0.0.2")

    assert command == (
        "iperf3 -4 -J -c 127.0.0.2 -p 5300 -t 7 -O 2 -P 4 -B 127.0.0.3".split()  # noqa: SIM905
    )


def test_an_address_that_is_not_ours_is_not_bound():
    spec = ThroughputSpec(address="127.0.0.2", source="192.0.2.77")

    assert "-B" not in iperf3.client_arguments(spec, "127.0.0.2")
    assert "-B" not in iperf3.server_arguments(spec, "192.0.2.77")


def test_without_iperf3_the_outcome_says_what_to_install(monkeypatch):
    monkeypatch.setenv("PATH", "/nonexistent")
    spec = ThroughputSpec(address="127.0.0.1")

    run = iperf3.measure(spec, Deadline(5))

    assert (run.outcome, run.throughput_bps) == (Outcome.TOOL_FAILURE, None)
    assert "apt-get install iperf3" in run.detail
    assert iperf3.Iperf3Probe().can_run(spec) == [iperf3.MISSING]


def test_a_name_that_does_not_resolve_is_a_dns_failure():
    with pytest.raises(NameNotResolved, match="does not resolve to an IPv4 address"):
        iperf3.Iperf3Probe().run(ThroughputSpec(address="nowhere.invalid"), Deadline(5))


def test_an_address_of_the_other_family_is_a_dns_failure():
    assert iperf3.measure(ThroughputSpec(address="::1", family=4), Deadline(5)).outcome is Outcome.DNS_FAILURE


def _pretend_iperf3(tmp_path, monkeypatch, script):
    tool = tmp_path / "iperf3"
    tool.write_text(f"#!/bin/sh\n{script}\n")
    tool.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")


def test_a_tool_that_does_not_end_is_stopped_at_the_deadline(tmp_path, monkeypatch):
    _pretend_iperf3(tmp_path, monkeypatch, "exec sleep 60")

    run = iperf3.measure(ThroughputSpec(address="127.0.0.1"), Deadline(0.2))

    assert (run.outcome, run.throughput_bps) == (Outcome.TOOL_FAILURE, None)
    assert "had not ended" in run.detail


def test_a_tool_that_is_killed_is_a_tool_failure(tmp_path, monkeypatch):
    _pretend_iperf3(tmp_path, monkeypatch, "kill -9 $$")

    run = iperf3.measure(ThroughputSpec(address="127.0.0.1"), Deadline(5))

    assert (run.outcome, run.detail) == (Outcome.TOOL_FAILURE, "iperf3 was ended by SIGKILL")
