"""Request and response over loopback: figures, outcomes, limits of the server, and whatever a stranger sends to it."""

from __future__ import annotations

import random
import socket
import statistics
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from probes.__main__ import main
from probes.contract import Deadline, Load, Outcome, ProbeError
from probes.peers import Peers
from probes.request_response.kind import KIND
from probes.request_response.limits import RequestResponseLimits
from probes.request_response.percentiles import latency_figures
from probes.request_response.probe import RequestResponseProbe, problems
from probes.request_response.protocol import (
    GREETING_BYTES,
    ORDER_BYTES,
    Order,
    OrderAnswer,
    decode_order,
    encode_order,
    make_greeting,
)
from probes.request_response.server import BlockServer, VolumeCap, open_listener
from probes.request_response.service import AnsweringService
from probes.request_response.spec import (
    LARGEST_RUN_BYTES,
    AnsweredPeer,
    AnsweringPlan,
    RequestResponseSpec,
    RequestResponseTarget,
    RequestResponseTask,
)
from probes.site.limits.limits import Limits
from tests.lab import wait_until

KEY, OTHER_KEY = "QUFBQUFBQUFBQUFBQUFBQQ==", "QkJCQkJCQkJCQkJCQkJCQg=="


@contextmanager
def serving(peers: Peers, **limits: object) -> Iterator[int]:
    """A server of these peers; yields its port."""
    stop, listener = threading.Event(), open_listener(0)
    thread = threading.Thread(
        target=BlockServer(peers, RequestResponseLimits(**limits)).run,  # type: ignore[arg-type]
        args=(listener, stop),
    )
    port = listener.getsockname()[1]
    thread.start()
    try:
        yield port
    finally:
        stop.set()
        thread.join()


def spec_of(port: int, key: str | None = None, **fields: object) -> RequestResponseSpec:
    target = RequestResponseTarget(address="127.0.0.1", path_id=1, key=key)
    values = {"port": port, "count": 20, "idle_s": 0.05, "timeout_s": 5.0, **fields}
    return RequestResponseSpec(targets=(target,), **values)  # type: ignore[arg-type]


def measured(spec: RequestResponseSpec):
    [run] = RequestResponseProbe().run(spec, Deadline(60))
    return run


def test_a_run_has_all_its_transactions_and_times():
    with serving(Peers({"127.0.0.1": KEY})) as port:
        run = measured(spec_of(port, KEY, request_bytes=3000, response_bytes=300_000, count=12))

    assert (run.outcome, len(run.latencies_ms), run.errors) == (Outcome.MEASURED, 12, 0)
    assert all(time_ms is not None for time_ms in (run.connect_ms, run.setup_ms, run.first_ms, run.after_idle_ms))
    assert (run.retransmits, run.far_retransmits) == (0, 0)


def test_the_figures_are_those_of_the_statistics_module():
    latencies_ms = [random.Random(4).expovariate(0.1) + 1 for _ in range(101)]
    figures = latency_figures(latencies_ms, 1000)

    hundredths = statistics.quantiles(latencies_ms, n=100, method="inclusive")
    assert figures is not None
    assert figures.median_ms == pytest.approx(statistics.median(latencies_ms))
    assert (figures.p95_ms, figures.p99_ms) == pytest.approx((hundredths[94], hundredths[98]))
    assert figures.transactions_per_s == pytest.approx(1000 / statistics.fmean(latencies_ms))
    assert figures.payload_bytes_per_s == pytest.approx(figures.transactions_per_s * 1000)
    assert latency_figures([], 1000) is None


@pytest.mark.parametrize(
    ("peers", "limits", "outcome", "words"),
    [
        ({"127.0.0.1": OTHER_KEY}, {}, Outcome.NOT_PERMITTED, "another key"),
        ({"127.0.0.2": KEY}, {}, Outcome.NOT_PERMITTED, "not among its peers"),
        ({"127.0.0.1": KEY}, {"max_run_bytes": 1000}, Outcome.NOT_PERMITTED, "limits of the server"),
        ({"127.0.0.1": KEY}, {"max_bytes_per_peer_per_hour": 1000}, Outcome.BUSY, "as its limits permit"),
    ],
)
def test_a_server_declines_with_the_reason(peers, limits, outcome, words):
    with serving(Peers(peers), **limits) as port:
        run = measured(spec_of(port, KEY))

    assert run.outcome is outcome
    assert words in run.detail
    assert run.latencies_ms == ()


def test_a_closed_port_is_refused():
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]

    assert measured(spec_of(port)).outcome is Outcome.REFUSED


def test_a_lost_connection_is_an_error_and_the_run_goes_on():
    """The far end drops the connection in the fourth transaction, once."""
    listener = open_listener(0)
    port, dropped = listener.getsockname()[1], []
    server = BlockServer(Peers({}, ["127.0.0.0/8"]), RequestResponseLimits())

    def serve() -> None:
        connection, address = listener.accept()
        connection.settimeout(10)
        greeting = make_greeting()
        connection.sendall(greeting)
        order = decode_order(connection.recv(ORDER_BYTES, socket.MSG_WAITALL), greeting, None)
        assert order is not None
        connection.sendall(bytes([OrderAnswer.GO]))
        for _ in range(3):
            connection.recv(order.request_bytes, socket.MSG_WAITALL)
            connection.sendall(bytes(order.response_bytes))
        connection.recv(order.request_bytes, socket.MSG_WAITALL)
        connection.close()
        dropped.append(address)
        server.serve(*listener.accept()[:1], "127.0.0.1", threading.Event())

    thread = threading.Thread(target=serve)
    thread.start()
    run = measured(spec_of(port, count=10, response_bytes=1000))
    thread.join(10)
    listener.close()

    assert dropped
    assert (run.outcome, run.errors, len(run.latencies_ms)) == (Outcome.MEASURED, 1, 10)
    assert "connection lost" in run.detail


def test_a_server_survives_whatever_strangers_send():
    chance = random.Random(11)
    with serving(Peers({"127.0.0.1": KEY})) as port:
        for _ in range(60):
            with socket.create_connection(("127.0.0.1", port), timeout=5) as stranger:
                greeting = stranger.recv(GREETING_BYTES, socket.MSG_WAITALL)
                order = bytearray(
                    encode_order(Order(request_bytes=10, response_bytes=10, transactions=2), greeting, KEY)
                )
                for _ in range(chance.randrange(1, 5)):
                    order[chance.randrange(len(order))] ^= 1 << chance.randrange(8)
                stranger.sendall(bytes(order[: chance.randrange(1, len(order) + 1)]))
                stranger.shutdown(socket.SHUT_WR)
                assert stranger.recv(100) in (b"", bytes([OrderAnswer.WRONG_KEY]))
        assert measured(spec_of(port, KEY)).outcome is Outcome.MEASURED


def test_a_stranger_gets_no_byte():
    with serving(Peers({"127.0.0.9": None})) as port, socket.create_connection(("127.0.0.1", port), 5) as stranger:
        assert stranger.recv(1) == b""


def test_no_more_connections_are_answered_than_permitted():
    order = Order(request_bytes=10, response_bytes=10, transactions=2)
    with serving(Peers({}, ["127.0.0.0/8"]), max_connections=1) as port:
        with socket.create_connection(("127.0.0.1", port), 5) as first:
            first.sendall(encode_order(order, first.recv(GREETING_BYTES, socket.MSG_WAITALL), None))
            assert first.recv(1) == bytes([OrderAnswer.GO])
            assert measured(spec_of(port)).outcome is Outcome.BUSY
        wait_until(lambda: measured(spec_of(port)).outcome is Outcome.MEASURED, "a free place")


def test_the_volume_of_an_hour_fills_evenly():
    volumes = VolumeCap(3600.0)

    assert volumes.take("a", 3000, now_s=0.0)
    assert not volumes.take("a", 1000, now_s=0.0)
    assert volumes.take("b", 3600, now_s=0.0)
    assert volumes.take("a", 1000, now_s=401.0)


def test_values_out_of_range_have_reasons():
    assert problems(spec_of(4821)) == []
    [reason] = problems(spec_of(4821, count=1001))
    assert "count 1001" in reason
    [reason] = problems(spec_of(4821, response_bytes=1 << 20, count=100))
    assert str(LARGEST_RUN_BYTES) in reason
    with pytest.raises(ProbeError, match="count 0"):
        measured(spec_of(4821, count=0))


def test_a_limit_of_the_site_forbids_a_run():
    task = RequestResponseTask(test="blocks", every_s=300, spec=spec_of(4821))
    limits = Limits(request_response=RequestResponseLimits(max_run_bytes=1000))
    [rule] = KIND.forbids(limits, task, KIND.targets(task), Load({}, lambda address: 0))

    assert rule is not None
    assert rule.startswith("request_response.max_run_bytes")


def test_an_agent_serves_the_peers_of_its_plan():
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    plans = [AnsweringPlan(peers=(AnsweredPeer(address="127.0.0.1", key=KEY),), port=port)]
    service = AnsweringService(lambda: plans[-1], RequestResponseLimits(), lambda address: None)
    stop = threading.Event()
    service.refresh()
    try:
        assert measured(spec_of(port, KEY)).outcome is Outcome.MEASURED
        plans.append(AnsweringPlan(peers=(), port=port))
        service.refresh()
        assert measured(spec_of(port, KEY)).outcome is Outcome.REFUSED
    finally:
        plans.append(AnsweringPlan(peers=(), port=port))
        stop.set()
        service.run(stop)


def test_the_command_prints_figures_and_fails_without_a_server(capsys):
    with serving(Peers({}, ["127.0.0.0/8"])) as port:
        options = ["--port", str(port), "--count", "5", "--idle-s", "0.05"]
        assert main(["request-response", "127.0.0.1", *options]) == 0
    printed = capsys.readouterr().out
    assert "5 transactions, 0 errors" in printed
    assert "transactions/s" in printed

    assert main(["request-response", "127.0.0.1", *options]) == 1
    assert "refused" in capsys.readouterr().out
    assert main(["request-response"]) == 2
