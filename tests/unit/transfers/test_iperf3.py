"""iperf3's reports, real reports between two namespaces, compared with values extracted by jq (expected.jq).

Those of version 3.12 are beside it; those in `versions` were made by the packages of Debian 11 (3.9), 13 (3.18) and
unstable (3.22), both ends of the same version, over 20 Mbit/s, with iperf3's standard error. Those of 3.1, 3.14 and
3.20 are derived here from those of 3.12, by the release notes and public reports: they are not real.
"""

import copy
import json
from datetime import UTC, datetime
from pathlib import Path

import msgspec
import pytest

from probes.contract import Deadline, NameNotResolved, Outcome, ProbeError
from probes.throughput.probe import Iperf3Probe
from probes.transfers.iperf3 import report
from probes.transfers.iperf3 import transfer as iperf3
from probes.transfers.iperf3.process import MISSING
from probes.transfers.spec import ThroughputSpec
from tests.iperf3_runs import measure

FIXTURES = Path(__file__).parents[2] / "fixtures" / "iperf3"
SPEC = ThroughputSpec(address="lab.example", duration_s=2)
STARTED_AT = datetime(2026, 11, 21, tzinfo=UTC)
MEASURED = ["tcp", "tcp_streams", "tcp_ipv6", "reno", "both_ends", "reverse", "udp", "udp_reverse"]
FAILED = [
    "refused", "no_route", "busy", "server_killed", "client_terminated", "wrong_key", "unreachable", "udp_strangers",
]  # fmt: skip
"""`udp_strangers` is a test with two streams that received datagrams of six other addresses, without a filter."""
OF_TRANSFER = ("sent", "received", "omitted_s", "mss_bytes", "sender_cpu", "receiver_cpu", "udp")


def read(output: bytes):
    return report.read_report(output, SPEC, "10.77.2.1", STARTED_AT)


def fixture(name):
    return json.loads((FIXTURES / f"{name}.json").read_text())


def read_json(report_json):
    return read(json.dumps(report_json).encode())


def test_every_report_has_a_test():
    reports = {path.stem for path in FIXTURES.glob("*.json") if not path.stem.endswith(".expected")}

    assert reports == {*MEASURED, *FAILED}


def same(actual, expected):
    """Whether a part of a run has all values extracted by jq, and no others."""
    if isinstance(expected, dict):
        return all(same(actual.get(name), value) for name, value in expected.items())
    if expected is None or isinstance(expected, (str, bool)):
        return actual == expected
    return (list(actual) if isinstance(actual, tuple) else actual) == pytest.approx(expected, rel=1e-5, abs=1e-4)


@pytest.mark.parametrize("name", MEASURED)
def test_a_report_is_parsed_completely(name):
    expected = json.loads((FIXTURES / f"{name}.expected.json").read_text())

    run = read((FIXTURES / f"{name}.json").read_bytes())

    assert (run.target, run.address, run.started_at, run.detail) == ("lab.example", "10.77.2.1", STARTED_AT, None)
    fields_of = msgspec.to_builtins(run)
    for field, value in expected.items():
        there = (fields_of["transfer"] if field in OF_TRANSFER else fields_of).get(field)
        assert same(0.0 if (field, there) == ("omitted_s", None) else there, value), field


VERSIONS = ("3.9", "3.18", "3.22")
CANNOT_CONNECT = (
    "unable to connect to server - server may have stopped running or use a different port, firewall issue, etc."
)
CLOSED = "control socket has closed unexpectedly"
ENDS = {
    "refused": (Outcome.REFUSED, f"{CANNOT_CONNECT}: Connection refused"),
    "unreachable": (Outcome.REFUSED, f"{CANNOT_CONNECT}: Connection timed out"),
    "no_route": (Outcome.NO_ROUTE, f"{CANNOT_CONNECT}: Network is unreachable"),
    "busy": (Outcome.BUSY, "the server is busy running a test. try again later"),
    "wrong_key": (Outcome.NOT_PERMITTED, "test authorization failed"),
    "no_key": (Outcome.NOT_PERMITTED, "test authorization failed"),
    "server_killed": (Outcome.TOOL_FAILURE, CLOSED),
    "server_terminated": (Outcome.TOOL_FAILURE, "the server has terminated"),
    "client_terminated": (Outcome.TOOL_FAILURE, "interrupt - the client has terminated"),
}
NO_CONNECTION = (Outcome.REFUSED, "unable to send control message: Bad file descriptor")
"""The whole message of 3.9 when it was refused, with a connect timeout."""
ENDS_OF = {
    "3.9": {
        **dict.fromkeys(("refused", "unreachable", "no_route"), NO_CONNECTION),
        "server_killed": (Outcome.TOOL_FAILURE, "unable to write to stream socket: Connection reset by peer"),
    },
    "3.18": {},
    "3.22": {
        **dict.fromkeys(("wrong_key", "no_key"), (Outcome.NOT_PERMITTED, f"{CLOSED} {report.WRONG_KEY}")),
        "client_terminated": (
            Outcome.TOOL_FAILURE,
            "interrupt - the client has terminated by signal Terminated(15)",
        ),
    },
}


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("name", ["tcp", "tcp_streams", "tcp_ipv6", "reverse", "udp", "udp_reverse"])
def test_a_report_of_another_version_is_parsed_completely(version, name):
    folder = FIXTURES / "versions" / version
    expected = json.loads((folder / f"{name}.expected.json").read_text())

    run = read((folder / f"{name}.json").read_bytes())

    assert run.tool == f"iperf {version}"
    fields_of = msgspec.to_builtins(run)
    for field, value in expected.items():
        there = (fields_of["transfer"] if field in OF_TRANSFER else fields_of).get(field)
        assert same(0.0 if (field, there) == ("omitted_s", None) else there, value), field


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("name", ENDS)
def test_a_failure_of_another_version_is_an_outcome_with_reason(version, name):
    outcome, message = {**ENDS, **ENDS_OF[version]}[name]
    spec = msgspec.structs.replace(SPEC, one_time_key="of this slot")

    with pytest.raises(ProbeError) as failure:
        report.read_report(
            (FIXTURES / "versions" / version / f"{name}.json").read_bytes(), spec, "10.77.2.1", STARTED_AT
        )

    assert (failure.value.outcome, str(failure.value)) == (outcome, f"iperf3 to 10.77.2.1 port 5201: {message}")


def test_an_early_end_mentions_no_key_where_none_was_used():
    with pytest.raises(report.ToolFailure, match=f"{CLOSED}$"):
        read((FIXTURES / "versions" / "3.22" / "no_key.json").read_bytes())


def test_iperf3s_error_about_its_options_is_the_reason():
    message = (
        b"iperf3: parameter error - some option you are trying to set is server only\n\nUsage: iperf3 [-s|-c host]\n"
    )

    with pytest.raises(report.ToolFailure, match="some option you are trying to set is server only"):
        read(message)


def test_the_rate_is_the_receivers_without_the_omitted_start():
    run = read((FIXTURES / "tcp_streams.json").read_bytes())

    assert run.throughput_bps == pytest.approx(run.received_bytes * 8 / run.duration_s)
    assert run.transfer.omitted_s == pytest.approx(1.0, abs=0.01)
    assert [round(end_s) for end_s in run.transfer.sent.end_s] == [1, 2, 3]


def test_reordered_datagrams_are_known_from_the_receiver_only():
    report_json = fixture("udp")
    assert read_json(report_json).transfer.udp.out_of_order == 42

    del report_json["server_output_json"]

    counts = read_json(report_json).transfer.udp
    assert (counts.out_of_order, counts.lost_packets) == (None, 239)


def without(report_json, *fields):
    """A report whose streams lack these fields, in every place."""
    if isinstance(report_json, dict):
        return {name: without(value, *fields) for name, value in report_json.items() if name not in fields}
    return [without(entry, *fields) for entry in report_json] if isinstance(report_json, list) else report_json


def of_3_1(report_json):
    """As written by 3.1: of TCP_INFO only window and RTT, without the other end's window and the path's MTU."""
    return without(report_json, "snd_wnd", "rttvar", "pmtu", "max_snd_wnd", "sender_tcp_congestion", "tcp_mss_default")


def of_3_14_without_tcp_info(report_json):
    """As written by 3.14 on a system without TCP_INFO."""
    fields = ("retransmits", "snd_cwnd", "snd_wnd", "rtt", "rttvar", "pmtu", "mean_rtt", "sender_tcp_congestion")
    return without(report_json, *fields)


def of_3_20(report_json):
    """As written by 3.20: times in milliseconds, and reordering beside the other counts."""
    report_json = copy.deepcopy(report_json)
    report_json["start"]["timestamp"]["timemillisecs"] = 1795256575123
    for interval in report_json["intervals"]:
        for stream in interval["streams"]:
            stream["reorder"] = 0
    return report_json


def test_a_report_of_3_1_is_parsed_without_its_missing_fields():
    run = read_json(of_3_1(fixture("tcp")))

    sent = run.transfer.sent
    assert (run.outcome, run.throughput_bps) == (Outcome.MEASURED, 95687982.7296714)
    assert (sent.cwnd_bytes, sent.rtt_ms) == ((124528, 83984), (8.621, 4.108))
    assert (sent.peer_window_bytes, sent.path_mtu_bytes, run.transfer.mss_bytes) == (None, None, None)


def test_a_system_without_tcp_info_reports_bytes_only():
    run = read_json(of_3_14_without_tcp_info(fixture("both_ends")))

    sent = run.transfer.sent
    assert (run.retransmits, run.rtt_mean_ms) == (None, None)
    assert (sent.retransmits, sent.cwnd_bytes, sent.rtt_ms) == (None, None, None)
    assert sum(sent.sent_bytes) > run.sent_bytes > 0


def test_a_report_of_3_20_has_the_same_values():
    assert read_json(of_3_20(fixture("both_ends"))) == read_json(fixture("both_ends"))


def test_udp_of_3_1_has_one_sum_and_counts_received_datagrams():
    report_json = without(fixture("udp"), "sum_sent", "sum_received", "server_output_json")

    run = read_json(report_json)

    # 4165 datagrams of 1200 bytes were sent, 239 did not arrive; the sender reports 2.022032 s.
    assert run.received_bytes == (4165 - 239) * 1200
    assert run.throughput_bps == pytest.approx((4165 - 239) * 1200 * 8 / 2.022032)


def test_a_server_that_writes_text_has_no_intervals():
    report_json = without(fixture("both_ends"), "server_output_json") | {
        "server_output_text": "Server listening on 5201"
    }

    run = read_json(report_json)

    assert run.transfer.received is None
    assert run.outcome is Outcome.MEASURED


@pytest.mark.parametrize("name", FAILED)
def test_a_failure_is_an_outcome_with_its_reason(name):
    expected = json.loads((FIXTURES / f"{name}.expected.json").read_text())

    with pytest.raises(ProbeError) as failure:
        read((FIXTURES / f"{name}.json").read_bytes())

    assert (failure.value.outcome, str(failure.value)) == (expected["outcome"], expected["detail"])


@pytest.mark.parametrize("share", [0.0, 0.1, 0.5, 0.9, 0.99])
def test_a_truncated_report_is_a_tool_failure(share):
    whole = (FIXTURES / "tcp.json").read_bytes()

    with pytest.raises(report.ToolFailure, match="cut off or not JSON"):
        read(whole[: int(len(whole) * share)])


@pytest.mark.parametrize("missing", ["end", "start", "intervals"])
def test_a_report_without_a_part_is_a_tool_failure(missing):
    report_json = fixture("tcp")
    del report_json[missing]

    with pytest.raises(report.ToolFailure, match=f"incomplete: KeyError\\('{missing}'\\)$"):
        read_json(report_json)


@pytest.mark.parametrize("packets", [-1, 2 * 4165 + 1, 2**60])
def test_counts_beyond_those_sent_are_another_hosts(packets):
    """This test sent 4165 datagrams."""
    report_json = fixture("udp")
    report_json["server_output_json"]["end"]["sum"]["packets"] = packets

    with pytest.raises(report.ServerBusy, match=r"another host .*port"):
        read_json(report_json)


def test_a_test_without_data_is_not_0_bit_per_second():
    report_json = fixture("tcp")
    report_json["end"]["sum_received"] |= {"bytes": 0, "bits_per_second": 0}

    with pytest.raises(report.ToolFailure, match="no data arrived"):
        read_json(report_json)


@pytest.mark.parametrize(
    ("name", "reason", "sent_bytes"),
    [("client_terminated", "19,204,776 bytes transferred", 19_204_776), ("refused", "no data transferred", None)],
)
def test_a_terminated_client_reports_its_progress(name, reason, sent_bytes):
    output = (FIXTURES / f"{name}.json").read_bytes()

    failure = report.not_finished(output)

    assert str(failure).endswith(f": {reason}")
    assert failure.figures.get("sent_bytes") == sent_bytes
    assert failure.figures.get("duration_s") == (None if sent_bytes is None else pytest.approx(1.4976, abs=1e-4))
    assert str(report.not_finished(b"")).endswith(": no data transferred")


def test_a_receiver_that_was_terminated_reports_what_arrived():
    report_json = fixture("client_terminated")
    report_json["start"]["test_start"]["reverse"] = 1

    failure = report.not_finished(json.dumps(report_json).encode())

    assert failure.figures.keys() == {"received_bytes", "duration_s"}


def test_lines_before_the_report_are_skipped():
    whole = (FIXTURES / "tcp.json").read_bytes()

    assert read(b"warning: this system does not have all CPUs online\n" + whole).outcome is Outcome.MEASURED


def test_without_tcp_info_there_is_no_rtt():
    report_json = fixture("tcp")
    report_json["end"]["streams"][0]["sender"]["mean_rtt"] = 0

    assert read_json(report_json).rtt_mean_ms is None


@pytest.mark.parametrize(("name", "received"), [("server_served", 23935392), ("server_in_use", 0)])
def test_the_server_knows_whether_it_was_used(name, received):
    assert report.received_bytes(fixture(f"server/{name}")) == received


def test_the_server_reports_its_clients_address():
    assert report.peer_of(fixture("server/server_served")) == "10.77.1.1"
    assert report.peer_of(fixture("server/server_in_use")) is None


def test_a_server_that_cannot_listen_reports_it():
    in_use, served = fixture("server/server_in_use"), fixture("server/server_served")

    assert "Address already in use" in str(report.listening_failed(in_use))
    assert report.listening_failed(served) is None


def test_the_command_carries_the_whole_spec():
    spec = ThroughputSpec(
        address="127.0.0.2",
        source="127.0.0.3",
        port=5300,
        duration_s=7,
        omit_s=2,
        streams=4,
        rate_bps=40_000_000,
        window_bytes=250_000,
        congestion_control="reno",
        mss_bytes=1200,
        reverse=True,
    )

    command = " ".join(iperf3.client_arguments(spec, "127.0.0.2"))

    assert command == (
        "iperf3 -4 -J --get-server-output -i 0.1 -c 127.0.0.2 -p 5300 --connect-timeout 3000 -t 7 -O 2 -P 4"
        " -B 127.0.0.3 -b 10000000 -w 250000 -C reno -M 1200 -R"
    )


def test_udp_is_requested_with_its_rate():
    spec = ThroughputSpec(address="127.0.0.2", protocol="udp", rate_bps=5_000_000)

    assert " ".join(iperf3.client_arguments(spec, "127.0.0.2")).endswith("-b 5000000 -u")


@pytest.mark.parametrize(("seconds", "every"), [(1, "0.1"), (100, "0.1"), (101, "0.2"), (3600, "3.6")])
def test_intervals_are_as_fine_as_a_thousand_of_them_allow(seconds, every):
    assert iperf3.interval(ThroughputSpec(address="127.0.0.2", duration_s=seconds)) == every


def test_an_address_that_is_not_local_is_not_bound():
    spec = ThroughputSpec(address="127.0.0.2", source="192.0.2.77")

    assert "-B" not in iperf3.client_arguments(spec, "127.0.0.2")
    assert "-B" not in iperf3.server_arguments(spec, "192.0.2.77")


def test_without_iperf3_the_outcome_names_the_package(monkeypatch):
    monkeypatch.setenv("PATH", "/nonexistent")
    spec = ThroughputSpec(address="127.0.0.1")

    run = measure(spec, Deadline(5))

    assert (run.outcome, run.throughput_bps) == (Outcome.TOOL_FAILURE, None)
    assert "apt-get install iperf3" in run.detail
    assert Iperf3Probe().can_run(spec) == [MISSING]


def test_a_name_that_does_not_resolve_is_a_dns_failure():
    with pytest.raises(NameNotResolved, match="no IPv4 address"):
        Iperf3Probe().run(ThroughputSpec(address="nowhere.invalid"), Deadline(5))


def test_an_address_of_the_other_family_is_a_dns_failure():
    assert measure(ThroughputSpec(address="::1", family=4), Deadline(5)).outcome is Outcome.DNS_FAILURE


def _pretend_iperf3(tmp_path, monkeypatch, script):
    tool = tmp_path / "iperf3"
    tool.write_text(f"#!/bin/sh\n{script}\n")
    tool.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")


def test_a_tool_that_does_not_end_is_stopped_at_the_deadline(tmp_path, monkeypatch):
    _pretend_iperf3(tmp_path, monkeypatch, "exec sleep 60")

    run = measure(ThroughputSpec(address="127.0.0.1"), Deadline(0.2))

    assert (run.outcome, run.throughput_bps) == (Outcome.TOOL_FAILURE, None)
    assert "did not finish" in run.detail


def test_a_tool_that_is_killed_is_a_tool_failure(tmp_path, monkeypatch):
    _pretend_iperf3(tmp_path, monkeypatch, "kill -9 $$")

    run = measure(ThroughputSpec(address="127.0.0.1"), Deadline(5))

    assert (run.outcome, run.detail) == (Outcome.TOOL_FAILURE, "iperf3 was killed by SIGKILL")
