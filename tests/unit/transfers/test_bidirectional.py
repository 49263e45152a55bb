"""Reports of `iperf3 --bidir`, as recorded in the lab: each direction is read as a test of its own."""

from datetime import UTC, datetime

import msgspec
import pytest

from probes.transfers.iperf3.bidirectional import one_direction
from probes.transfers.iperf3.report import read_report
from probes.transfers.spec import ThroughputSpec
from tests.diagnosis.reports import recorded

AT = datetime(2026, 11, 28, tzinfo=UTC)
BOTH_WAYS = [(setting, report) for setting, report in recorded() if setting.bidir]


def run_of(report, **fields):
    return read_report(msgspec.json.encode(report), ThroughputSpec(address="192.0.2.2", **fields), "192.0.2.2", AT)


@pytest.mark.parametrize("reverse", [False, True], ids=["sent", "received"])
def test_each_direction_has_its_own_figures(reverse):
    for setting, report in BOTH_WAYS:
        run = run_of(report, reverse=reverse)

        name = "_bidir_reverse" if reverse else ""
        assert run.reverse is reverse
        assert run.received_bytes == report["end"][f"sum_received{name}"]["bytes"], setting.name
        assert run.retransmits == report["end"][f"sum_sent{name}"]["retransmits"]
        assert sum(run.transfer.sent.retransmits) == run.retransmits
        assert len(run.transfer.streams) == 1
        sent, received = sum(run.transfer.sent.sent_bytes), sum(run.transfer.received.received_bytes)
        assert received == pytest.approx(run.received_bytes, rel=0.05)
        assert sent >= 0.95 * received


def test_windows_and_rtts_of_the_sender_are_read():
    _, report = BOTH_WAYS[0]
    for reverse in (False, True):
        sent = run_of(report, reverse=reverse).transfer.sent
        assert len(sent.end_s) == len(sent.cwnd_bytes) == len(sent.rtt_ms) == len(sent.peer_window_bytes)
        assert min(sent.rtt_ms) > 1.0


def test_the_clients_part_alone_is_its_own_direction():
    _, report = BOTH_WAYS[0]
    alone = {name: part for name, part in report.items() if name != "server_output_json"}

    sent, received = run_of(alone), run_of(alone, reverse=True)

    assert (sent.transfer.sent is None, sent.transfer.received) == (False, None)
    assert (received.transfer.sent, received.transfer.received is None) == (None, False)


def test_a_report_of_one_direction_stays_as_it_is():
    report = next(report for setting, report in recorded() if not setting.bidir)

    assert one_direction(report, reverse=True) is report


@pytest.mark.parametrize("streams", [1, 4])
def test_the_rate_that_was_asked_for_is_in_the_report(streams):
    setting, report = next(row for row in recorded() if row[0].truth == "application" and not row[0].reverse)
    started = {**report["start"]["test_start"], "num_streams": streams}
    asked = {**report, "start": {**report["start"], "test_start": started}}

    run = run_of(asked)

    assert setting.client == ("-b", "4M")
    assert run.asked_bps == 4e6 * streams
    assert run_of(asked, rate_bps=7_000_000).asked_bps == 7e6
    assert (
        run_of({**asked, "start": {**report["start"], "test_start": {**started, "target_bitrate": 0}}}).asked_bps
        is None
    )
