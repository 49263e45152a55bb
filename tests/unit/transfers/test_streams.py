"""Results of each stream, and the options of fast transfers."""

import json
import tomllib
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import pytest

from monitor.mesh.kinds.throughput import ThroughputSettings
from monitor.web.pages.path.transfer import stream_rows
from probes.contract import ProbeError
from probes.site.spool.spool import Spool
from probes.site.wire import Delivered
from probes.throughput.kind import KIND
from probes.throughput.limits import ThroughputLimits
from probes.transfers.capture.of_test import ThroughputCapture
from probes.transfers.iperf3.authentication import has_thread_per_stream
from probes.transfers.iperf3.report import _steps_of_streams
from probes.transfers.iperf3.transfer import client_arguments
from probes.transfers.spec import CapturedHeaders, StreamResult, ThroughputRun, ThroughputSpec, Transfer
from tests.unit.transfers.test_iperf3 import FIXTURES, read

VERSIONS = sorted((FIXTURES / "versions").glob("3.*"))


@dataclass
class Stored:
    transfer: Transfer | None


def test_each_stream_has_the_figures_of_both_its_ends():
    report = json.loads((FIXTURES / "both_ends.json").read_text())

    streams = read((FIXTURES / "both_ends.json").read_bytes()).transfer.streams

    ends = [stream["sender"] for stream in report["end"]["streams"]]
    far = [stream["receiver"] for stream in report["server_output_json"]["end"]["streams"]]
    assert [stream.sent_bytes for stream in streams] == [end["bytes"] for end in ends]
    assert [stream.retransmits for stream in streams] == [end["retransmits"] for end in ends]
    assert [stream.rtt_mean_ms for stream in streams] == pytest.approx([end["mean_rtt"] / 1000 for end in ends])
    assert [stream.cwnd_max_bytes for stream in streams] == [end["max_snd_cwnd"] for end in ends]
    assert [stream.received_bytes for stream in streams] == [end["bytes"] for end in far]
    assert [stream.throughput_bps for stream in streams] == [end["bits_per_second"] for end in far]


def test_in_reverse_the_senders_figures_are_the_servers():
    report = json.loads((FIXTURES / "reverse.json").read_text())

    [stream] = read((FIXTURES / "reverse.json").read_bytes()).transfer.streams

    sender = report["server_output_json"]["end"]["streams"][0]["sender"]
    assert (stream.retransmits, stream.sent_bytes) == (sender["retransmits"], sender["bytes"])
    assert stream.received_bytes == report["end"]["streams"][0]["receiver"]["bytes"]


@pytest.mark.parametrize("version", VERSIONS, ids=lambda path: path.name)
def test_the_streams_of_all_versions_add_up(version):
    """3.18 and 3.22 have a thread for each stream."""
    for path in (path for path in version.glob("*.json") if not path.stem.endswith(".expected")):
        try:
            run = read(path.read_bytes())
        except ProbeError:
            continue
        if run.protocol == "tcp":
            assert len(run.transfer.streams) == run.streams
            assert sum(stream.throughput_bps for stream in run.transfer.streams) == pytest.approx(
                run.throughput_bps, rel=0.02
            )


@pytest.mark.parametrize(
    ("tool", "expected"), [("iperf 3.12", False), ("iperf 3.15", False), ("iperf 3.16", True), ("iperf 3.18+", True)]
)
def test_a_thread_for_each_stream_came_with_a_version(tool, expected):
    assert has_thread_per_stream(tool) is expected
    assert has_thread_per_stream(None) is None


def test_a_slow_stream_is_marked():
    streams = tuple(
        StreamResult(throughput_bps=rate, duration_s=10.0, received_bytes=10**9) for rate in (9e8, 8.9e8, 9.1e8, 1.2e8)
    )

    rows = stream_rows(Stored(Transfer(streams=streams)))

    assert [row.number for row in rows if row.remark] == [4]
    assert "13.4%" in rows[3].remark
    assert rows[3].throughput == "120 Mbit/s"
    assert stream_rows(Stored(Transfer(streams=streams[:1]))) == ()
    assert stream_rows(Stored(None)) == ()


@pytest.mark.parametrize("name", ["both_ends.json", "tcp_streams.json", "reverse.json"])
def test_the_rates_over_time_of_each_stream_sum_up_to_its_bytes(name):
    report = json.loads((FIXTURES / name).read_text())
    reverse = bool(report["start"]["test_start"]["reverse"])
    far = report.get("server_output_json", {}).get("intervals", [])
    intervals = [
        interval
        for interval in (report["intervals"] if reverse else far) or report["intervals"]
        if not interval["sum"]["omitted"]
    ]

    streams = read((FIXTURES / name).read_bytes()).transfer.streams

    for place, stream in enumerate(streams):
        if len(streams) == 1:
            assert stream.steps_bps == ()
            continue
        sent_bytes = sum(interval["streams"][place]["bytes"] for interval in intervals)
        length_s = sum(interval["sum"]["seconds"] for interval in intervals)
        mean_bps = sum(stream.steps_bps) / len(stream.steps_bps)
        assert mean_bps == pytest.approx(8 * sent_bytes / length_s, rel=0.05)


@pytest.mark.parametrize(("streams", "steps"), [(2, 40), (16, 40), (40, 16), (128, 8)])
def test_the_rates_over_time_are_bounded(streams, steps):
    one = {"sum": {"seconds": 0.1, "omitted": False}, "streams": [{"bytes": 1250}] * streams}

    kept = _steps_of_streams({"intervals": [one] * 100}, False, streams)

    assert {len(rates) for rates in kept} == {steps}
    assert {rate for rates in kept for rate in rates} == {100_000}


def test_a_stream_that_stalls_at_the_end_is_drawn_at_the_foot():
    steady, stalled = (
        StreamResult(throughput_bps=1e8, duration_s=10.0, steps_bps=steps)
        for steps in ((10**8, 10**8, 10**8), (10**8, 10**8, 0))
    )

    rows = stream_rows(Stored(Transfer(streams=(steady, stalled))))

    assert 'd="M0.0 0.0L48.0 0.0L96.0 0.0"' in rows[0].chart
    assert 'd="M0.0 0.0L48.0 0.0L96.0 18.0"' in rows[1].chart
    assert "0 bit/s at the end" in rows[1].chart


def test_the_block_size_reaches_iperf3_and_the_result():
    spec = ThroughputSpec(address="192.0.2.1", **ThroughputSettings(block_bytes=65_536).parameters)

    arguments = client_arguments(spec, "192.0.2.1")

    assert arguments[arguments.index("-l") + 1] == "65536"
    assert "-l" not in client_arguments(ThroughputSpec(address="192.0.2.1"), "192.0.2.1")
    assert "block_bytes" not in ThroughputSettings().parameters
    report = (FIXTURES / "tcp_streams.json").read_bytes()
    assert read(report).transfer.block_bytes == json.loads(report)["start"]["test_start"]["blksize"]


def test_pacing_and_zero_copy_reach_iperf3():
    settings = ThroughputSettings(streams=4, pacing_bps=8_000_000_000, zero_copy=True, window_bytes=2**28)
    spec = ThroughputSpec(address="192.0.2.1", **settings.parameters)

    arguments = client_arguments(spec, "192.0.2.1")

    assert arguments[arguments.index("--fq-rate") + 1] == "2000000000"
    assert arguments[arguments.index("-w") + 1] == str(2**28)
    assert "-Z" in arguments
    usual = client_arguments(ThroughputSpec(address="192.0.2.1"), "192.0.2.1")
    assert {"-Z", "--fq-rate"}.isdisjoint(usual)
    assert {"zero_copy", "pacing_bps"}.isdisjoint(ThroughputSettings().parameters)


@pytest.mark.parametrize(
    ("streams", "window_bytes", "rule"),
    [(16, None, None), (17, None, "max_streams"), (1, 2**28, None), (1, 2**28 + 1, "max_window_bytes")],
)
def test_limits_bound_streams_and_windows(streams, window_bytes, rule):
    class Limits:
        def section(self, name):
            assert name == "throughput"
            return ThroughputLimits(max_streams=16, max_window_bytes=2**28)

    forbidden = KIND.forbids(Limits(), ThroughputSpec(address="x", streams=streams, window_bytes=window_bytes))

    assert forbidden is None if rule is None else f"throughput.{rule}" in forbidden


@pytest.mark.parametrize(("allowed", "captured"), [(0, 0), (500, 500), (20_000, 8000)])
def test_a_site_keeps_no_more_headers_than_its_limits_allow(allowed, captured):
    """The test runs all the same; a plan that asks for none gets none."""

    class Limits:
        def section(self, name):
            assert name == "throughput"
            return ThroughputLimits(max_capture_packets=allowed)

    spec = ThroughputSpec(address="x", **ThroughputSettings(capture_packets=8000).parameters)

    assert KIND.permitted(spec, Limits()).capture_packets == captured
    assert KIND.forbids(Limits(), spec) is None
    usual = ThroughputSpec(address="x", **ThroughputSettings().parameters)
    assert KIND.permitted(usual, Limits()) == usual
    assert ThroughputLimits().max_capture_packets == 0


@pytest.mark.parametrize(
    ("fields", "peer", "reason"),
    [
        ({}, None, None),
        ({"capture_packets": 0}, "192.0.2.1", "limits.toml"),
        ({"capture_packets": 10, "protocol": "udp"}, "192.0.2.1", "TCP"),
        ({"capture_packets": 10}, None, "address"),
    ],
)
def test_an_end_without_a_capture_reports_the_reason(fields, peer, reason):
    with ThroughputCapture(ThroughputSpec(address="192.0.2.2", **fields), peer) as capture:
        pass

    assert (capture.result is None) if reason is None else (reason in capture.result.reason)


def test_a_filling_spool_gets_results_without_their_captures(tmp_path):
    capture = CapturedHeaders(pcap_zlib=bytes(3000), packets=9)
    run = ThroughputRun(
        target="x", address=None, family=4, started_at=datetime(2026, 1, 2, tzinfo=UTC), outcome="busy", capture=capture
    )
    spool = Spool(tmp_path / "spool.sqlite3", max_bytes=10_000)
    assert not spool.is_filling

    spool.put([Delivered(sequence=0, path_id=1, test="tcp", result=run)])

    assert spool.is_filling
    assert (KIND.lightened(run).capture.packets, KIND.lightened(run).outcome) == (0, "busy")
    assert "left out" in KIND.lightened(run).capture.reason


def test_the_example_limits_have_the_new_keys():
    table = tomllib.loads((Path(__file__).parents[3] / "limits.example.toml").read_text())["throughput"]

    assert {"max_streams", "max_window_bytes", "max_capture_packets"} <= table.keys()
