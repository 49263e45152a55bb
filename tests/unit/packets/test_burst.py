import json
import math
import time
from datetime import UTC, datetime

import msgspec
import pytest

from probes.__main__ import main
from probes.contract import Deadline, NotPermitted, Outcome, ProbeError
from probes.packets import cycle as cycle_module
from probes.packets.burst import IcmpProbe, measure, measure_each, problems, summary
from probes.packets.spec import Burst, PingSpec, PingTarget
from probes.packets.table import PingTable, as_json, loss_text
from tests.facts import lacks

LOOPBACK = PingTarget(address="127.0.0.1")


def burst(*rtts_ms: float | None) -> Burst:
    return Burst(
        target="cern",
        address="192.0.2.1",
        family=4,
        packet_bytes=100,
        started_at=datetime(2026, 11, 21, tzinfo=UTC),
        outcome=Outcome.MEASURED if rtts_ms else Outcome.NO_ROUTE,
        sent=len(rtts_ms),
        received=sum(rtt is not None for rtt in rtts_ms),
        rtts_ms=rtts_ms,
    )


def test_the_summary_of_the_reference_set():
    numbers = summary(burst(100.0, 102.0, 103.0, 100.0, 99.0))

    # PingER's own example for min, max and mean; the differences 2, 1, -3, -1 have quartiles -1.5 and 1.25.
    assert numbers == {
        "loss_ratio": 0.0,
        "rtt_min_ms": 99.0,
        "rtt_median_ms": 100.0,
        "rtt_avg_ms": pytest.approx(100.8),
        "rtt_max_ms": 103.0,
        "ipdv_ms": pytest.approx(2.75),
    }


def test_an_rtt_of_zero_is_a_number():
    assert summary(burst(0.0, 0.0))["rtt_max_ms"] == 0.0


def test_a_lost_probe_interrupts_the_pairs_of_ipdv():
    assert summary(burst(10.0, None, 50.0))["ipdv_ms"] is None
    assert summary(burst(10.0, 11.0, None, 50.0, 51.0))["ipdv_ms"] == 0.0


def test_total_loss_has_a_loss_and_no_rtts():
    numbers = summary(burst(None, None))

    assert numbers.pop("loss_ratio") == 1.0
    assert set(numbers.values()) == {None}


def test_without_sent_packets_there_is_no_loss():
    assert set(summary(burst()).values()) == {None}


@pytest.mark.parametrize(
    ("rtts_ms", "text"),
    [
        ((1.0,) * 10, "0 of 10 (< 30%)"),
        ((1.0, None), "1 of 2 (50%)"),
        ((1.0,), "0 of 1 (< 100%)"),
        ((), "not measured"),
    ],
)
def test_no_loss_in_n_is_shown_as_less_than_3_of_n(rtts_ms, text):
    assert loss_text(burst(*rtts_ms)) == text


@pytest.mark.parametrize(
    ("change", "facts"),
    [
        ({"packet_bytes": (15,)}, ("packet_bytes 15:", " 16 to 65000")),
        ({"packet_bytes": (65_001,)}, ("packet_bytes 65001",)),
        ({"packet_bytes": ()}, ("at least one size",)),
        ({"count": 0}, ("count 0",)),
        ({"spacing_s": 0.001}, ("spacing_s 0.001",)),
        ({"spacing_s": math.nan}, ("spacing_s nan",)),
        ({"timeout_s": 0.0}, ("timeout_s 0.0",)),
        ({"late_s": -1.0}, ("late_s -1.0:", " 0 to 60")),
        ({"priming_bytes": 8}, ("packet_bytes 8:", " 16 ")),
    ],
)
def test_an_invalid_spec_is_not_run(change, facts):
    spec = PingSpec(targets=(LOOPBACK,), **change)

    assert lacks(problems(spec)[0], *facts) == []
    assert lacks(IcmpProbe().can_run(spec)[0], *facts) == []
    with pytest.raises(ProbeError, match=facts[0]):
        measure(spec, Deadline(1.0))


def test_sizes_at_the_limits_are_accepted():
    assert problems(PingSpec(targets=(LOOPBACK,), packet_bytes=(16, 65_000))) == []


def test_without_permission_every_burst_names_the_setting(monkeypatch):
    def refuse(*_: object, **__: object) -> None:
        raise NotPermitted("run sysctl")

    monkeypatch.setattr(cycle_module, "Channel", refuse)

    bursts = measure(PingSpec(targets=(LOOPBACK,), count=1), Deadline(5.0))

    assert [(b.outcome, b.packet_bytes, b.address) for b in bursts] == [
        (Outcome.NOT_PERMITTED, 100, "127.0.0.1"),
        (Outcome.NOT_PERMITTED, 1000, "127.0.0.1"),
    ]
    assert {b.detail for b in bursts} == {"run sysctl"}


def test_the_json_line_has_exactly_the_documented_keys():
    line = json.loads(json.dumps(as_json(burst(1.0, None))))

    assert list(line) == [
        *("target", "address", "family", "packet_bytes", "started_at", "outcome", "sent", "received", "late"),
        *("duplicates", "reordered", "loss_ratio", "rtts_ms", "rtt_min_ms", "rtt_median_ms", "rtt_avg_ms"),
        *(
            "rtt_max_ms",
            "ipdv_ms",
            "ttl",
            "ttl_changes",
            "errors",
            "path_mtu_bytes",
            "rate_limited",
            "flow",
            "source_address",
        ),
        *("stamp", "stamps_lost", "clock_source", "waited", "detail"),
    ]
    assert line["started_at"] == "2026-11-21T00:00:00Z"
    assert line["rtts_ms"] == [1.0, None]


@pytest.mark.parametrize("options", [["--sizes", "8"], ["--sizes", "70000"], ["--count", "0"], ["--spacing-s", "0"]])
def test_invalid_numbers_are_a_usage_error(options, capsys):
    assert main(["ping", "127.0.0.1", *options]) == 2
    assert "must be from" in capsys.readouterr().err


def test_a_size_that_is_no_number_is_a_usage_error(capsys):
    with pytest.raises(SystemExit) as stopped:
        main(["ping", "127.0.0.1", "--sizes", "big"])

    assert stopped.value.code == 2
    assert "100,1000" in capsys.readouterr().err


def test_a_host_is_printed_before_slower_hosts_are_done(capsys):
    assert main(["ping", "127.0.0.1", "224.0.0.1", "-c", "5", "--spacing-s", "0.1", "--sizes", "100", "--json"]) == 1

    targets = [json.loads(line)["target"] for line in capsys.readouterr().out.splitlines()]
    assert targets == ["224.0.0.1", "127.0.0.1"]


def test_results_arrive_as_soon_as_they_are_complete():
    targets = (PingTarget(address="127.0.0.1"), PingTarget(address="224.0.0.1"), PingTarget(address="127.0.0.1"))
    spec = PingSpec(targets=targets, packet_bytes=(100,), count=5, spacing_s=0.1)
    began = time.monotonic()
    arrived = [
        (time.monotonic() - began, [each.target for each in bursts]) for bursts in measure_each(spec, Deadline(30))
    ]

    assert [names for _, names in arrived] == [["224.0.0.1"], ["127.0.0.1"] * 2]
    assert arrived[1][0] - arrived[0][0] > 0.3


def test_a_table_on_a_terminal_of_80_columns_fits():
    long = "a-host-with-a-rather-long-name.example.org"
    table = PingTable([long, "::1"], 80)
    lines = list(table.lines([msgspec.structs.replace(burst(1.0, 2.0), target=long)] * 2))

    assert max(map(len, lines)) <= 80
    assert [line.split()[0] for line in lines] == ["host", long, "100", "100"]


def test_the_command_first_prints_how_long_it_takes(capsys):
    assert main(
        ["ping", "127.0.0.1", "--count", "2", "--sizes", "100,200", "--spacing-s", "0.01", "--late-s", "0"]
    ) in (0, 1)

    output = capsys.readouterr()
    assert output.err.startswith("pinging 127.0.0.1: 2 requests each ")
    assert lacks(output.err, " 100 and 200 bytes", " 0.01 s apart", "about 2 s") == []
    assert output.out.startswith("host")
