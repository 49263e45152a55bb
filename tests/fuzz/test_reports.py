"""Reports of iperf3, broken at random: the reader gives a run that the centre takes, or its own error."""

import json
from datetime import UTC, datetime
from functools import cache
from pathlib import Path

import msgspec

from probes.contract import Outcome, ProbeError
from probes.transfers.iperf3.report import (
    decode,
    listening_failed,
    not_finished,
    peer_of,
    read_report,
    received_bytes,
)
from probes.transfers.spec import ThroughputRun, ThroughputSpec
from tests.fuzz.cases import cases, mutated, odd

FIXTURES = Path(__file__).parents[1] / "fixtures" / "iperf3"
SPEC = ThroughputSpec(address="192.0.2.1", one_time_key="of this slot")
STARTED_AT = datetime(2026, 11, 21, tzinfo=UTC)


@cache
def reports():
    return [path.read_bytes() for path in sorted(FIXTURES.rglob("*.json")) if is_report(path)]


def is_report(path):
    return not path.stem.endswith(".expected") and (path.parent == FIXTURES or path.parent.parent.name == "versions")


def read(output):
    """Read a report, and what it measured as the centre reads it."""
    try:
        run = read_report(output, SPEC, "192.0.2.1", STARTED_AT)
    except ProbeError:
        return
    assert run.outcome is Outcome.MEASURED
    assert run.throughput_bps > 0
    msgspec.msgpack.decode(msgspec.msgpack.encode(run), type=ThroughputRun)


def read_as_server(output):
    """What the listening end reads from its own report."""
    try:
        report = decode(output)
    except ProbeError:
        return
    assert received_bytes(report) >= 0
    assert peer_of(report) is None or peer_of(report)
    listening_failed(report)


def outputs(name):
    """Each case with the bytes of a broken report."""
    for label, chance in cases(name):
        output = chance.choice(reports())
        if chance.random() < 0.7:
            output = json.dumps(odd(json.loads(output[output.find(b"{") : output.rfind(b"}") + 1]), chance)).encode()
        if chance.random() < 0.3:
            output = mutated(output, chance)
        yield label, output


def test_a_broken_report_is_a_valid_run_or_a_failure():
    for label, output in outputs("reports"):
        try:
            read(output)
            read_as_server(output)
            failure = not_finished(output)
            msgspec.msgpack.encode(dict(failure.figures))
        except Exception as error:
            error.add_note(label)
            raise
