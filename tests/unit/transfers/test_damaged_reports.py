"""iperf3 reports with damaged figures: what is damaged is unknown, and no measurement contradicts itself."""

import copy
import json
from datetime import UTC, datetime
from pathlib import Path

import msgspec
import pytest

from probes.contract import Outcome
from probes.transfers.iperf3 import report
from probes.transfers.spec import ThroughputRun, ThroughputSpec

FIXTURES = Path(__file__).parents[2] / "fixtures" / "iperf3"
SPEC = ThroughputSpec(address="lab.example", duration_s=2)
STARTED_AT = datetime(2026, 11, 21, tzinfo=UTC)


def read(output):
    return report.read_report(output, SPEC, "10.77.2.1", STARTED_AT)


def changed(name, *changes):
    """The bytes of a report in which the values at these places are others."""
    whole = json.loads((FIXTURES / f"{name}.json").read_text())
    for *way, last, value in copy.deepcopy(changes):
        at = whole
        for key in way:
            at = at[key]
        at[last] = value
    return json.dumps(whole).encode()


def delivered(run):
    return msgspec.msgpack.decode(msgspec.msgpack.encode(run), type=ThroughputRun)


@pytest.mark.parametrize("retransmits", [-2, 2**32 - 3, 2**64 - 3, 10**30, 1.5, "x", None, [], True])
def test_damaged_retransmits_are_unknown_the_rate_is_kept(retransmits):
    run = read(
        changed(
            "both_ends",
            ("end", "sum_sent", "retransmits", retransmits),
            ("intervals", 0, "streams", 0, "retransmits", retransmits),
            ("end", "streams", 0, "sender", "retransmits", retransmits),
        )
    )

    whole = read((FIXTURES / "both_ends.json").read_bytes())
    assert run.retransmits is None
    assert run.transfer.sent.retransmits is None
    assert run.transfer.sent.sent_bytes == whole.transfer.sent.sent_bytes
    assert run.throughput_bps == whole.throughput_bps
    assert delivered(run) == run


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ([("end", "sum_received", "bytes", 2**62), ("end", "sum_received", "bits_per_second", 9e17)], "rate of"),
        ([("end", "sum_received", "bits_per_second", 9e17)], "a rate of 9e\\+17"),
        ([("end", "sum_received", "seconds", 1e-9)], "bytes in 1e-09 s"),
        ([("end", "sum_received", "seconds", 0.02), ("end", "sum_received", "bits_per_second", 9.6e9)], "than sent"),
        ([("end", "sum_sent", "bytes", 20_000_000), ("end", "sum_sent", "bits_per_second", 8e7)], "than sent"),
    ],
)
def test_more_received_than_sent_is_no_measurement(changes, reason):
    with pytest.raises(report.ToolFailure, match=reason):
        read(changed("tcp", *changes))


def test_a_byte_that_is_not_utf_8_costs_no_rate():
    whole = (FIXTURES / "both_ends.json").read_bytes()
    text = b'"server_output_text": "caf\xe9",'

    runs = [
        read(whole.replace(b'"iperf 3.12"', b'"iperf\xff3.12"')),
        read(whole.replace(b'"intervals":', text + b'"intervals":', 1)),
    ]

    assert [run.throughput_bps for run in runs] == [read(whole).throughput_bps] * 2


def test_a_report_nested_without_end_is_a_tool_failure():
    with pytest.raises(report.ToolFailure, match="not JSON"):
        report.decode(b'{"a":' + b"[" * 10**5 + b"}")


@pytest.mark.parametrize("part", [None, "x", [], [None], {"end": []}, 10**400, {"intervals": [[]], "end": {}}])
def test_a_damaged_part_of_the_server_leaves_the_clients(part):
    run = read(changed("both_ends", ("server_output_json", part)))

    assert (run.outcome, run.transfer.received) == (Outcome.MEASURED, None)
    assert run.transfer.sent is not None


def test_what_the_server_counted_beyond_the_sent_is_left_out():
    run = read(changed("both_ends", ("server_output_json", "intervals", 0, "sum", "bytes", 2**61)))

    assert run.transfer.received is None
    assert run.throughput_bps == read((FIXTURES / "both_ends.json").read_bytes()).throughput_bps


@pytest.mark.parametrize("values", [b"[" + b"[]," * 2_000_000 + b"[]]", b"[" + b"1," * 2_000_000 + b"1]"])
def test_a_part_of_too_many_values_is_not_decoded(values):
    assert report.decode(b'{"server_output_json": {"a": ' + values + b"}}") == {}
