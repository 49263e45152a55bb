"""The capacity probe around its estimator: its requests to a host, and its report."""

from __future__ import annotations

import json
from collections import Counter
from datetime import UTC, datetime

import msgspec
import pytest

from probes.__main__ import main
from probes.capacity.command import as_text
from probes.capacity.echo_trains import LONG, PACKETS, shapes
from probes.capacity.probe import MAX_PACKETS, problems
from probes.capacity.spec import CapacityRun, CapacitySpec, CapacityVerdict
from probes.commands.run_fields import run_fields
from probes.contract import Outcome
from probes.kinds import KINDS
from tests.facts import lacks

RUN = CapacityRun(
    target="far.example",
    address="10.9.2.2",
    family=4,
    started_at=datetime(2026, 11, 21, 15, 0, tzinfo=UTC),
    outcome=Outcome.MEASURED,
    verdict=CapacityVerdict.MEASURED,
    capacity_bps=49_900_000.0,
    capacity_low_bps=48_000_000.0,
    capacity_high_bps=51_260_000.0,
    packet_bytes=1472,
    sent=184,
    received=183,
    method="pairs and trains",
)


def test_it_sends_at_most_200_packets_and_ten_at_once():
    sent = shapes(4, 1472)

    assert sum(shape.count for shape in sent) == PACKETS
    assert MAX_PACKETS <= 200
    assert max(shape.count for shape in sent) == LONG == 10


@pytest.mark.parametrize(("family", "largest", "small_ip_bytes"), [(4, 1472, 375), (6, 1452, 375)])
def test_trains_are_of_full_and_of_quarter_size_packets(family, largest, small_ip_bytes):
    headers = {4: 28, 6: 48}[family]

    kinds = Counter((shape.count, shape.packet_bytes + headers) for shape in shapes(family, largest))

    assert kinds == {(2, 1500): 30, (10, 1500): 8, (10, small_ip_bytes): 4}


def test_kinds_of_trains_are_mixed():
    orders = {tuple(shape.count for shape in shapes(4, 1472)) for _ in range(5)}

    assert len(orders) > 1


@pytest.mark.parametrize(
    ("family", "packet_bytes", "facts"),
    [
        (4, None, ()),
        (4, 1472, ()),
        (4, 1473, ("packet_bytes 1473:", " 200 to 1472 ", "IPv4")),
        (6, 1473, ("packet_bytes 1473:", " 200 to 1452 ", "IPv6")),
        (4, 199, ("packet_bytes 199:", " 200 to 1472 ", "IPv4")),
    ],
)
def test_invalid_sizes_are_refused(family, packet_bytes, facts):
    spec = CapacitySpec(address="127.0.0.1", family=family, packet_bytes=packet_bytes)

    wrong = problems(spec)

    assert [lacks(problem, *facts) for problem in wrong] == ([[]] if facts else [])
    assert KINDS["capacity"].probe().can_run(spec)[: len(wrong)] == wrong


def test_an_invalid_size_is_a_usage_error(capsys):
    status = main(["capacity", "127.0.0.1", "--packet-bytes", "5"])

    assert status == 2
    message = capsys.readouterr().err
    assert lacks(message, "capacity: --packet-bytes 5:", " 200 to 1472 ", "IPv4") == []
    assert message.count("\n") == 1


def test_the_text_of_an_estimate():
    estimate, counts = as_text(RUN)

    assert estimate.startswith("far.example (10.9.2.2): ")
    assert lacks(estimate, " 49.9 Mbit/s ", "(48 Mbit/s to 51.3 Mbit/s", "pairs and trains") == []
    assert counts.startswith("183 of 184 ")
    assert lacks(counts, "echo requests", " 1472 bytes", "answered") == []


def test_an_undetermined_capacity_has_the_reason_and_bounds():
    unknown = msgspec.structs.replace(
        RUN,
        address="far.example",
        verdict=CapacityVerdict.OWN_LIMIT,
        capacity_bps=None,
        capacity_low_bps=1_470_000_000.0,
        capacity_high_bps=None,
        method=None,
        detail="this host is the limit",
    )

    verdict, detail = as_text(unknown)[:2]
    assert lacks(verdict, "far.example: ", "no estimate", "own_limit", "at least 1.47 Gbit/s") == []
    assert detail == "this host is the limit"


def test_a_failed_measurement_has_its_outcome():
    refused = CapacityRun(
        target="nonesuch.invalid",
        address=None,
        family=4,
        started_at=RUN.started_at,
        outcome=Outcome.DNS_FAILURE,
        detail="no IPv4 address",
    )

    assert as_text(refused) == ["nonesuch.invalid: dns_failure: no IPv4 address"]


def test_json_has_every_field_and_null_for_missing_values():
    printed = json.loads(json.dumps(run_fields(msgspec.structs.replace(RUN, capacity_bps=None))))

    assert set(printed) == set(CapacityRun.__struct_fields__)
    assert (printed["capacity_bps"], printed["verdict"], printed["outcome"]) == (None, "measured", "measured")
    assert printed["started_at"] == "2026-11-21T15:00:00Z"
