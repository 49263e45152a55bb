"""`python -m probes trace` without a network."""

from __future__ import annotations

import json
from datetime import UTC, datetime

import msgspec
import pytest

from probes.__main__ import main
from probes.contract import Outcome
from probes.packets.flow import flows_of
from probes.trace import command
from probes.trace.engine.session import flows_to
from probes.trace.memory import RouteMemory
from probes.trace.search import EarlierRoute
from probes.trace.spec import Hop, MplsLabel, TraceRun, not_measured
from probes.trace.table import end_text

NOW = datetime(2026, 11, 23, 12, 0, tzinfo=UTC)
RUN = TraceRun(
    target="www.example.org",
    address="192.0.2.9",
    family=4,
    started_at=NOW,
    outcome=Outcome.MEASURED,
    flow=0x1234,
    reached=True,
    hops=(
        Hop(
            ttl=1, address="192.0.2.1", rtts_ms=(1.0, 2.0, 3.0), mpls=(MplsLabel(label=16001, traffic_class=5, ttl=1),)
        ),
        Hop(ttl=2, rtts_ms=(None, None)),
        Hop(ttl=3, address="192.0.2.9", rtts_ms=(4.0, None, None, 8.0), others=("192.0.2.8",)),
    ),
)


@pytest.fixture
def specs(monkeypatch):
    """The specs that the command runs; each run ends with `RUN`."""
    taken = []
    monkeypatch.setattr(command.TRACE, "run", lambda spec, deadline, progress=None: taken.append(spec) or (RUN,))
    return taken


def test_the_table_has_the_figures_of_each_hop(specs, capsys):
    assert main(["trace", "www.example.org"]) == 0

    rows = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert ["1", "192.0.2.1", "0%", "3", "3.00", "2.00", "1.00", "3.00", "0.82"] in rows
    assert ["2", "(no", "reply)", "100%", "2", "–", "–", "–", "–", "–"] in rows
    assert ["3", "192.0.2.9", "50%", "4", "8.00", "6.00", "4.00", "8.00", "2.00"] in rows
    assert ["192.0.2.8"] in rows
    assert ["MPLS", "label", "16001", "TC", "5", "TTL", "1"] in rows


def test_a_single_hop_is_singular():
    assert end_text(msgspec.structs.replace(RUN, hops=RUN.hops[:1])).endswith(": 1 hop")


def test_json_has_an_object_a_line_with_all_fields_of_each_hop(specs, capsys):
    assert main(["trace", "www.example.org", "--json"]) == 0

    [traced] = map(json.loads, capsys.readouterr().out.splitlines())
    assert (traced["flow"], traced["reached"], traced["reason"]) == (0x1234, True, "on_demand")
    assert [hop["address"] for hop in traced["hops"]] == ["192.0.2.1", None, "192.0.2.9"]
    assert len({tuple(hop) for hop in traced["hops"]}) == 1


def test_the_options_are_those_of_the_spec(specs):
    main(["trace", "a.example", "::1", "--udp", "--flows", "16", "-c", "5", "--max-hops", "12"])

    [spec] = specs
    assert [(target.address, target.family) for target in spec.targets] == [("a.example", 4), ("::1", 6)]
    assert (spec.protocol, spec.flows, spec.attempts, spec.max_hops) == ("udp", 16, 5, 12)


@pytest.mark.parametrize("wrong", [["-c", "0"], ["--max-hops", "65"], ["--flows", "65"], ["--timeout-s", "0"]])
def test_values_out_of_range_are_usage_errors(wrong, capsys):
    assert main(["trace", "192.0.2.1", *wrong]) == 2
    assert "must be from" in capsys.readouterr().err


def test_a_host_that_cannot_be_traced_gives_status_1(monkeypatch, capsys):
    failed = not_measured("nowhere.example", 4, NOW, Outcome.DNS_FAILURE, "no IPv4 address")
    monkeypatch.setattr(command.TRACE, "run", lambda spec, deadline, progress=None: (failed,))

    assert main(["trace", "nowhere.example"]) == 1
    assert "dns_failure" in capsys.readouterr().out


def test_a_trace_has_the_flow_of_the_pings_to_the_same_address():
    addresses = [("192.0.2.1", 0), ("192.0.2.2", 0)]

    assert flows_to(4, addresses, 1).tolist() == flows_of(4, addresses).tolist()
    many = flows_to(4, addresses, 64)
    assert many[::64].tolist() == flows_of(4, addresses).tolist()
    assert len(set(many[:64].tolist())) == 64
    assert 0 < many.min() <= many.max() < 0xFFFF


def test_a_silent_hop_is_remembered_from_the_round_before():
    memory = RouteMemory()
    memory.learn({"host": EarlierRoute(("a", "b", "host"), reached=True)})
    memory.learn({"host": EarlierRoute(("a", None, "host"), reached=True)})
    assert memory.route("host") == EarlierRoute(("a", "b", "host"), reached=True)

    memory.learn({"host": EarlierRoute(("c", None, "host"), reached=True)})
    assert memory.route("host") == EarlierRoute(("c", None, "host"), reached=True)
