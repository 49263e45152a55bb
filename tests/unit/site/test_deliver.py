"""Delivery to a real HTTP server on loopback that fails in each way."""

import contextlib
import gzip
import json
import math
import random
import socket
import struct
import threading
from collections.abc import Callable
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from unittest import mock

import msgspec
import pytest
import zstandard

from probes.site import plan as plan_module
from probes.site.delivery import centre as centre_module
from probes.site.delivery.backoff import MAX_PAUSE_S, MAX_RETRY_AFTER_S, BackOff
from probes.site.delivery.centre import Centre, CentreError, CentreUnreachable, retry_after_s
from probes.site.delivery.deliver import FIRST_RESULTS, MAX_RESULTS, QUICK_S, SLOW_S, SPREAD_S, DeliveryLoop
from probes.site.plan import PlanCache, PlanPuller
from probes.site.runner.schedule import spread
from probes.site.settings import SettingsError
from probes.site.spool.blocks import without_blocks
from probes.site.spool.spool import NoRoom, Spool
from probes.site.wire import (
    IDENTITY_HEADER,
    PLAN_HEADER,
    PROTOCOL_HEADER,
    PROTOCOLS_HEADER,
    Batch,
    OnDemandPingReport,
    Plan,
    Receipt,
    Refusal,
)
from tests.facts import lacks
from tests.spools import count_queued
from tests.unit.site.test_spool import block, result

NOW = datetime(2026, 11, 21, 12, 0, tzinfo=UTC)
TOKEN = "s3cret-token"


class FakeCentre(ThreadingHTTPServer):
    """Answers from the list `answers`, in turn, then normally: stores each result once by its sequence."""

    daemon_threads = True

    def __init__(self, port=0):
        super().__init__(("127.0.0.1", port), Handler)
        self.answers = []
        self.batches: list[Batch] = []
        self.requests: list[tuple[str, dict]] = []
        self.ping_reports: list[OnDemandPingReport] = []
        self.stored: dict[int, int] = {}
        self.refuse: dict[int, str] = {}
        self.poison: set[int] = set()
        self.said = b"<h1>Server Error</h1>"
        self.fails: Callable[[Batch], int | None] = lambda batch: None
        self.released = threading.Event()
        self.max_results = 10**9
        self.plan: Plan | None = None
        self.plan_told: str | None = None
        self.highest: int | None = None
        self.blocks = 0

    def injected_failure(self, batch):
        """The answer to a batch on which the centre fails."""
        if any(delivered.path_id in self.poison for delivered in batch.results):
            return 400, b'{"error": "boom: it spoils the batch"}'
        status = self.fails(batch)
        return None if status is None else (status, self.said)

    @property
    def url(self):
        return f"http://127.0.0.1:{self.server_port}"


class Handler(BaseHTTPRequestHandler):
    def do_POST(self):
        self.server.requests.append((self.path, dict(self.headers)))
        body = self.rfile.read(int(self.headers["Content-Length"]))
        if self.path.endswith("/on-demand-pings"):
            self.server.ping_reports.append(msgspec.json.decode(body, type=OnDemandPingReport))
            self.reply(200, b"{}")
        else:
            self.take_batch(body)

    def take_batch(self, body):
        unpack = {"gzip": gzip.decompress, "zstd": zstandard.decompress}[self.headers["Content-Encoding"]]
        batch = msgspec.msgpack.decode(unpack(body), type=Batch)
        self.server.blocks += len(batch.all_blocks)
        batch = without_blocks(batch)
        answer = self.server.answers.pop(0) if self.server.answers else "store"
        if answer == "hang up":
            self.connection.close()
            return
        if answer == "reset":
            self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            self.connection.close()
            return
        if answer == "silent":
            self.server.released.wait(60)
            return
        if answer == "trickle":
            self.trickle()
            return
        if (failure := self.server.injected_failure(batch)) is not None:
            self.reply(*failure)
            return
        if isinstance(answer, tuple):
            self.reply(*answer)
            return
        if len(batch.results) > self.server.max_results:
            self.reply(413, b'{"error": "too many"}')
            return
        self.server.batches.append(batch)
        refused = []
        for delivered in batch.results:
            if delivered.path_id in self.server.refuse:
                refused.append(Refusal(sequence=delivered.sequence, reason=self.server.refuse[delivered.path_id]))
            else:
                self.server.stored[delivered.sequence] = delivered.path_id
        if answer == "store and hang up":
            self.connection.close()
            return
        receipt = Receipt(number=batch.number, accepted=len(batch.results) - len(refused), refused=tuple(refused))
        if answer == "store and cut":
            self.reply(200, msgspec.json.encode(receipt), cut=5)
            return
        told = [(PLAN_HEADER, self.server.plan_told)] if self.server.plan_told else []
        self.reply(200, msgspec.json.encode(receipt), told)

    def trickle(self):
        """An endless answer, sent a byte at a time."""
        self.send_response(200)
        self.send_header("Content-Length", "1000000")
        self.end_headers()
        with contextlib.suppress(OSError):
            while not self.server.released.wait(0.05):
                self.wfile.write(b" ")
                self.wfile.flush()

    def do_GET(self):
        self.server.requests.append((self.path, dict(self.headers)))
        if self.server.answers:
            self.reply(*self.server.answers.pop(0))
        elif self.headers.get("If-None-Match") == f'"{self.server.plan.version}"':
            self.reply(304, b"")
        else:
            self.reply(200, msgspec.json.encode(self.server.plan))

    def reply(self, status, body, headers=(), cut=0):
        self.send_response(status)
        if self.server.highest is not None:
            self.send_header(PROTOCOLS_HEADER, f"lowest=1, highest={self.server.highest}, lowest-until=2028-12-31")
        for name, value in headers:
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body[: len(body) - cut])

    def log_message(self, *_):
        """Log nothing: the tests assert the received requests."""


@pytest.fixture
def server():
    with FakeCentre() as fake:
        thread = threading.Thread(target=fake.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        yield fake
        fake.released.set()
        fake.shutdown()
        thread.join()


class Clock:
    now = 1000.0

    def __call__(self):
        return self.now


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def spool(tmp_path):
    return Spool(tmp_path / "spool.sqlite3")


@pytest.fixture
def centre(tmp_path, server):
    (tmp_path / "token").write_text(TOKEN + "\n")
    return Centre(server.url, tmp_path / "token", timeout_s=5)


@pytest.fixture
def delivery(spool, centre, clock):
    return DeliveryLoop(spool, centre, back_off=BackOff(clock=clock, uniform=lambda _, high: high))


def test_the_queue_is_delivered_compressed_and_with_the_token(spool, delivery, server):
    spool.put([result(label) for label in range(2500)])

    assert delivery.run() == 2500

    path, headers = server.requests[0]
    assert path == "/api/agent/results"
    assert headers["Authorization"] == f"Bearer {TOKEN}"
    assert (headers["Content-Type"], headers["Content-Encoding"]) == ("application/msgpack", "zstd")
    assert sorted(server.stored.values()) == list(range(2500))
    assert [len(batch.results) for batch in server.batches] == [250, 500, 1000, 750]
    assert [batch.number for batch in server.batches] == [1, 2, 3, 4]
    assert count_queued(spool) == 0


def test_blocks_are_sent_once_the_centre_has_told_that_it_knows_them(spool, server, delivery):
    server.highest = 9
    for first in (0, 200, 400):
        spool.put([block(range(first, first + 200))])

    assert delivery.run() == 600

    assert [headers[PROTOCOL_HEADER] for _, headers in server.requests] == ["1", "2"]
    assert server.blocks == 2
    assert sorted(server.stored.values()) == list(range(600))
    assert count_queued(spool) == 0


def test_an_earlier_centre_gets_each_result_alone(spool, server, delivery):
    server.highest = 1
    spool.put([block(range(200)), block(range(200, 400))])

    assert delivery.run() == 400

    assert ({headers[PROTOCOL_HEADER] for _, headers in server.requests}, server.blocks) == ({"1"}, 0)
    assert sorted(server.stored.values()) == list(range(400))


def test_after_a_downgrade_of_the_centre_results_are_sent_alone_again(spool, server, centre, delivery, clock):
    server.highest, centre.protocol = 1, 2
    server.answers = [(426, b'{"error": "the agent speaks protocol 2, the centre 1"}')]
    spool.put([block(range(20))])

    assert delivery.run() == 0
    clock.now += 3600
    assert delivery.run() == 20

    assert [headers[PROTOCOL_HEADER] for _, headers in server.requests] == ["2", "1"]
    assert sorted(server.stored.values()) == list(range(20))


def test_a_burst_that_spoils_its_block_is_quarantined_alone(spool, server, centre, delivery):
    server.highest, centre.protocol = 2, 2
    server.poison = {17}
    spool.put([block(range(40)), result(40)])

    assert delivery.run() == 40

    assert sorted(server.stored.values()) == [label for label in range(41) if label != 17]
    assert [refusal.reason for refusal in spool.quarantined()] == ["the centre answered 400: boom: it spoils the batch"]


def test_a_refused_burst_of_a_block_is_quarantined_alone(spool, server, centre, delivery):
    server.highest, centre.protocol = 2, 2
    server.refuse = {5: "path 5 is unknown"}
    spool.put([block(range(20))])

    assert delivery.run() == 20

    assert [refusal.reason for refusal in spool.quarantined()] == ["path 5 is unknown"]
    assert count_queued(spool) == 0


def test_an_agent_without_zstandard_sends_gzip(spool, server, delivery, monkeypatch):
    monkeypatch.setattr("probes.site.delivery.centre.zstandard", None)
    spool.put([result(n) for n in range(3)])

    assert delivery.run() == 3
    assert server.requests[0][1]["Content-Encoding"] == "gzip"


@pytest.mark.parametrize(
    ("answer", "facts"),
    [
        ((400, b"bad"), ("cannot parse the request",)),
        ((401, b"no"), ("does not know", "site's token", "token file")),
        ((403, b"no"), ("not permitted",)),
        ((404, b""), ("check --centre",)),
        ((500, b"<html>oops</html>"), ("answered 500",)),
        ((503, b"", [("Retry-After", "7")]), ("cannot store now",)),
        ((503, b"", [("Retry-After", "\u00b2")]), ("cannot store now",)),
        ((301, b"", [("Location", "http://127.0.0.1:9/elsewhere")]), ("answered 301",)),
        ((200, b"not json"), ("answer is not a Receipt",)),
        ((200, b'{"number": 77, "accepted": 1}'), ("receipt is for batch 77",)),
        ("hang up", ("cannot be reached",)),
        ("store and hang up", ("cannot be reached",)),
        ("store and cut", ("answer is not a Receipt",)),
        ("reset", ("Connection reset by peer",)),
    ],
    ids=str,
)
def test_a_failed_batch_is_retried_after_the_pause(spool, delivery, server, clock, caplog, answer, facts):
    spool.put([result(1), result(2)])
    server.answers.append(answer)

    assert delivery.run() == 0
    assert lacks(caplog.text, *facts) == []
    assert TOKEN not in caplog.text
    assert count_queued(spool) == 2
    spool.put([result(3)])
    sent = len(server.requests)
    assert delivery.run() == 0
    assert len(server.requests) == sent
    clock.now += MAX_PAUSE_S
    assert delivery.run() == 3

    assert sorted(server.stored.values()) == [1, 2, 3]
    assert [(batch.number, len(batch.results)) for batch in server.batches][-2:] == [(1, 2), (2, 1)]


@pytest.mark.parametrize(
    ("header", "seconds"),
    [
        (None, None),
        ("7", 7.0),
        (" 120 ", 120.0),
        ("9" * 400, math.inf),
        ("\u00b2", None),
        ("\u0663", None),
        ("-1", None),
        ("1.5", None),
        ("", None),
        ("soon", None),
        ("Sun, 06 Nov 1994 08:49:37 GMT", 0.0),
        ("Sun, 06 Nov 1994 08:49:37 -0000", 0.0),
        ("Sun, 06 Nov 1994 08:49:37 +9999999999", None),
    ],
)
def test_retry_after_is_seconds_or_a_date_or_is_ignored(header, seconds):
    assert retry_after_s(header) == seconds


def test_an_agent_sends_its_identity_and_stores_refusals(tmp_path, spool, server, clock):
    (tmp_path / "token").write_text(TOKEN)
    centre = Centre(server.url, tmp_path / "token", identity="00aa.7")
    delivery = DeliveryLoop(spool, centre, back_off=BackOff(clock=clock))
    server.answers = [(409, b'{"error": "another agent works for cern; stop one of the two"}'), (503, b"")]
    spool.put([result(1)])

    for _ in range(2):  # an unrelated answer leaves the refusal unchanged
        assert delivery.run() == 0
        assert centre.refusal.message == "409 Conflict: another agent works for cern; stop one of the two"
        clock.now += MAX_PAUSE_S
    assert delivery.run() == 1

    assert server.requests[0][1][IDENTITY_HEADER] == "00aa.7"
    assert centre.refusal is None


def test_a_protocol_mismatch_drops_nothing_and_asks_to_upgrade(spool, delivery, centre, server, clock):
    message = "the agent speaks protocol 1, the centre 2 to 3: upgrade the agent"
    server.fails = lambda batch: 426
    server.said = json.dumps({"error": message}).encode()
    spool.put([result(label) for label in range(50)])

    run_for_an_hour(delivery, clock)

    assert {headers["Soundings-Protocol"] for _, headers in server.requests} == {"1"}
    assert (count_queued(spool), spool.quarantined()) == (50, [])
    assert centre.refusal.message == f"426 Upgrade Required: {message}"


def test_an_unreachable_centre_is_named_and_retried(tmp_path, spool, clock, caplog):
    (tmp_path / "token").write_text(TOKEN)
    away = Centre("http://127.0.0.1:9", tmp_path / "token")
    spool.put([result(1)])

    assert DeliveryLoop(spool, away, back_off=BackOff(clock=clock)).run() == 0

    assert lacks(caplog.text, "http://127.0.0.1:9 ", "cannot be reached", "[Errno 111] Connection refused") == []
    assert count_queued(spool) == 1


def test_batches_that_are_too_large_are_halved_until_accepted(spool, delivery, server):
    server.max_results = 3
    spool.put([result(label) for label in range(20)])

    assert delivery.run() == 20

    assert list(server.stored.values()) == list(range(20))
    assert all(len(batch.results) <= 3 for batch in server.batches)
    assert [batch.number for batch in server.batches] == list(range(1, len(server.batches) + 1))


def test_a_result_that_is_too_large_is_quarantined_alone(spool, delivery, server):
    server.max_results = 0
    spool.put([result(1)])

    assert delivery.run() == 0
    server.max_results = 10
    spool.put([result(2)])
    assert delivery.run() == 1

    assert "413" in spool.quarantined()[0].reason
    assert server.batches[0].number == 1


def test_a_result_that_the_centre_refuses_is_quarantined(spool, delivery, server):
    server.refuse = {2: "path 2 is unknown"}
    spool.put([result(1), result(2), result(3)])

    delivery.run()

    assert sorted(server.stored.values()) == [1, 3]
    assert [refusal.reason for refusal in spool.quarantined()] == ["path 2 is unknown"]
    assert count_queued(spool) == 0


def test_a_bad_result_is_quarantined_with_the_centres_reason(spool, delivery, server):
    server.poison = {17, 180}
    spool.put([result(label) for label in range(600)])

    assert delivery.run() == 598

    assert sorted(server.stored.values()) == [label for label in range(600) if label not in (17, 180)]
    assert [lacks(refusal.reason, " 400:", "boom: it spoils the batch") for refusal in spool.quarantined()] == [[]] * 2
    assert count_queued(spool) == 0


def test_nothing_is_lost_if_the_centre_rejects_an_empty_batch(spool, delivery, server, clock):
    server.answers = [(400, b'{"error": "not a batch"}')] * 2
    spool.put([result(label) for label in range(50)])

    assert delivery.run() == 0

    assert (len(server.requests), count_queued(spool), spool.quarantined()) == (2, 50, [])
    clock.now += MAX_PAUSE_S
    assert delivery.run() == 50


def run_for_an_hour(delivery, clock, *, until=lambda: False, put=lambda minute: None):
    """Deliver once a minute, which is the maximum pause."""
    for minute in range(60):
        put(minute)
        delivery.run()
        clock.now += MAX_PAUSE_S
        if until():
            return


def has(*labels):
    """Whether a batch holds results of these paths."""
    return lambda batch: any(result.path_id in labels for result in batch.results)


def test_a_result_that_fails_the_centre_is_quarantined_alone(spool, delivery, server, clock):
    server.fails = lambda batch: 500 if has(17, 18, 180)(batch) else None
    spool.put([result(label) for label in range(600)])

    run_for_an_hour(delivery, clock, until=lambda: count_queued(spool) == 0)

    assert sorted(server.stored.values()) == [label for label in range(600) if label not in (17, 18, 180)]
    assert [lacks(refusal.reason, " 500 ", "took others") for refusal in spool.quarantined()] == [[]] * 3
    assert count_queued(spool) == 0


@pytest.mark.parametrize("status", [500, 502, 503, 504])
@pytest.mark.parametrize("takes_nothing", [False, True], ids=["every batch", "every batch with results"])
def test_nothing_is_lost_while_the_centre_fails_every_batch(spool, delivery, server, clock, status, takes_nothing):
    server.fails = lambda batch: status if batch.results or not takes_nothing else None
    spool.put([result(label) for label in range(40)])

    run_for_an_hour(delivery, clock)
    assert (count_queued(spool), spool.quarantined()) == (40, [])
    server.fails = lambda batch: None
    run_for_an_hour(delivery, clock, until=lambda: count_queued(spool) == 0)

    assert sorted(server.stored.values()) == list(range(40))
    assert spool.quarantined() == []


def test_a_lone_result_is_quarantined_only_if_others_pass(spool, delivery, server, clock):
    server.fails = lambda batch: 500 if has(1)(batch) else None
    spool.put([result(1)])
    run_for_an_hour(delivery, clock)
    assert (count_queued(spool), spool.quarantined()) == (1, [])

    run_for_an_hour(delivery, clock, put=lambda minute: spool.put([result(100 + minute)]))

    assert len(spool.quarantined()) == 1
    assert sorted(server.stored.values()) == [100 + minute for minute in range(60)]


def test_a_batch_too_slow_to_store_is_halved_not_quarantined(spool, delivery, server, clock):
    server.fails = lambda batch: 503 if len(batch.results) > 10 or has(3)(batch) else None
    spool.put([result(label) for label in range(100)])

    run_for_an_hour(delivery, clock)
    server.fails = lambda batch: None
    run_for_an_hour(delivery, clock, until=lambda: count_queued(spool) == 0)

    assert sorted(server.stored.values()) == list(range(100))
    assert spool.quarantined() == []


def test_a_centre_that_fails_sometimes_costs_no_result(spool, delivery, server, clock):
    chance = random.Random(7)
    server.fails = lambda batch: 500 if chance.random() < 0.5 else None

    run_for_an_hour(delivery, clock, put=lambda minute: spool.put([result(10 * minute + n) for n in range(10)]))
    server.fails = lambda batch: None
    run_for_an_hour(delivery, clock, until=lambda: count_queued(spool) == 0)

    assert sorted(server.stored.values()) == list(range(600))
    assert spool.quarantined() == []


def test_a_batch_received_incompletely_is_halved_at_once(spool, delivery, server, clock):
    server.answers = [(408, b'{"error": "70 of 100 bytes came in time"}')]
    spool.put([result(label) for label in range(100)])

    assert delivery.run() == 0
    clock.now += MAX_PAUSE_S
    assert delivery.run() == 100

    assert len(server.batches[0].results) == 50
    assert sorted(server.stored.values()) == list(range(100))


def test_a_single_result_received_too_late_is_not_quarantined(spool, delivery, server, clock):
    server.answers = [(408, b'{"error": "too slow"}')] * 3
    spool.put([result(1)])

    for _ in range(3):
        assert delivery.run() == 0
        clock.now += MAX_PAUSE_S

    assert delivery.run() == 1
    assert spool.quarantined() == []


@pytest.mark.parametrize("answer", ["silent", "trickle"])
def test_a_batch_that_is_too_slow_twice_is_halved(tmp_path, spool, server, clock, answer):
    (tmp_path / "token").write_text(TOKEN)
    centre = Centre(server.url, tmp_path / "token", timeout_s=0.3)
    delivery = DeliveryLoop(spool, centre, back_off=BackOff(clock=clock))
    server.answers = [answer, answer]
    spool.put([result(label) for label in range(100)])

    for _ in range(2):
        assert delivery.run() == 0
        clock.now += MAX_PAUSE_S
    server.released.set()
    assert delivery.run() == 100

    assert len(server.batches[0].results) == 50
    assert sorted(server.stored.values()) == list(range(100))


class TimedCentre:
    """Accepts everything, each batch after `takes_s` seconds; records when each arrived and its size."""

    def __init__(self, clock, takes_s=lambda batch: 0.1):
        self.clock = clock
        self.takes_s = takes_s
        self.sizes = []
        self.came = []
        self.is_away = False

    def deliver(self, batch):
        if self.is_away:
            raise CentreUnreachable("away")
        self.came.append((self.clock.now, len(batch.results)))
        self.clock.now += self.takes_s(batch)
        return Receipt(number=batch.number, accepted=len(batch.results))


def test_batch_size_grows_with_fast_and_falls_with_slow_answers(spool, clock):
    spool.put([result(label) for label in range(20_000)])
    centre = TimedCentre(clock, lambda batch: len(batch.results) * 2 * SLOW_S / 1000)
    quick = TimedCentre(clock, lambda batch: QUICK_S / 2)

    DeliveryLoop(spool, quick, clock=clock).run()
    spool.put([result(label) for label in range(3000)])
    DeliveryLoop(spool, centre, clock=clock).run()

    sizes = [size for _, size in quick.came]
    assert sizes[:4] == [FIRST_RESULTS, 2 * FIRST_RESULTS, 4 * FIRST_RESULTS, 8 * FIRST_RESULTS]
    assert max(sizes) <= MAX_RESULTS
    assert [size for _, size in centre.came][:2] == [FIRST_RESULTS, FIRST_RESULTS]


def test_sites_start_small_and_staggered_after_an_outage(tmp_path, clock, monkeypatch):
    """200 sites with a long queue: each sends a small batch first; the others begin spread over SPREAD_S seconds."""
    monkeypatch.setattr("probes.site.delivery.deliver.FIRST_RESULTS", 5)
    began = []
    for number in range(200):
        site = Plan(version="v1", site=f"site{number}", mesh="test")
        clock.now = 1000.0
        spool = Spool(tmp_path / f"{number}.sqlite3")
        spool.put([result(label) for label in range(12)])
        centre = TimedCentre(clock, lambda batch: 0.0)
        delivery = DeliveryLoop(spool, centre, spread=lambda site=site: spread(site), clock=clock)
        while count_queued(spool):
            delivery.run()
            clock.now += 0.5
        (_, first), (second_at, _) = centre.came
        assert first == 5
        began.append(second_at - 1000.0)
        spool.close()

    # 200 sites in 60 intervals of half a second are 3.3 per interval; Poisson with that mean is above 12 once in 40,000
    # times.
    most = max(sum(step <= at < step + 0.5 for at in began) for step in (0.5 * n for n in range(62)))
    assert most <= 12
    assert max(began) > 0.9 * SPREAD_S


def test_a_short_queue_after_an_outage_is_delivered_at_once(spool, clock):
    centre = TimedCentre(clock)
    delivery = DeliveryLoop(spool, centre, spread=lambda: 1.0, clock=clock, back_off=BackOff(clock=clock))
    centre.is_away = True
    spool.put([result(1), result(2)])
    assert delivery.run() == 0
    centre.is_away = False
    clock.now += MAX_PAUSE_S

    assert delivery.run() == 2


def test_an_unwritable_spool_is_retried_and_ends_no_thread(spool, centre, clock, caplog):
    delivery = DeliveryLoop(spool, centre, back_off=BackOff(clock=clock))
    spool.put([result(1)])
    with mock.patch.object(spool, "next_batch", side_effect=NoRoom("spool: the disk is full")):
        assert delivery.run() == 0
    clock.now += MAX_PAUSE_S

    assert delivery.run() == 1
    assert lacks(caplog.text, "spool", "the disk is full", "retry in ") == []


def test_pauses_double_up_to_a_cap_and_have_jitter(clock):
    ceilings = BackOff(clock=clock, uniform=lambda _, high: high)
    floors = BackOff(clock=clock, uniform=lambda low, _: low)

    assert [ceilings.failed() for _ in range(9)] == [1, 2, 4, 8, 16, 32, 60, 60, 60]
    assert [floors.failed() for _ in range(3)] == [0.5, 1, 2]


def test_the_centre_may_request_a_longer_pause_within_a_limit(clock):
    back_off = BackOff(clock=clock, uniform=lambda _, high: high)

    assert back_off.failed(retry_after_s=7.0) == 7.0 + 1
    assert back_off.failed(retry_after_s=86400.0) == MAX_RETRY_AFTER_S + 2


def test_plain_http_is_accepted_for_loopback_only(tmp_path):
    for url in ("http://127.0.0.1:8000", "http://[::1]:8000", "http://localhost", "https://centre.example"):
        Centre(url, tmp_path / "token")
    for url in ("http://centre.example", "http://192.0.2.1:8000"):
        with pytest.raises(SettingsError, match="would show the token"):
            Centre(url, tmp_path / "token")
        Centre(url, tmp_path / "token", allow_plain_http=True)
    for url in ("ftp://127.0.0.1", "centre.example", "https://"):
        with pytest.raises(SettingsError, match="not a web address"):
            Centre(url, tmp_path / "token")


def test_an_untrusted_certificate_is_refused(tmp_path, server):
    """The server's self-signed certificate: the handshake must fail before the token is sent."""
    import ssl
    import subprocess

    key, certificate = tmp_path / "key.pem", tmp_path / "certificate.pem"
    request = "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2 -subj /CN=localhost"
    subprocess.run([*request.split(), "-keyout", key, "-out", certificate], check=True, capture_output=True)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    server.socket = context.wrap_socket(server.socket, server_side=True)
    (tmp_path / "token").write_text(TOKEN)

    with pytest.raises(CentreError, match="certificate is invalid"):
        Centre(f"https://localhost:{server.server_port}", tmp_path / "token").plan(None)
    assert server.requests == []


@pytest.mark.parametrize("content", ["", "two words", "with\x00nul in"])
def test_a_bad_token_file_is_an_error_with_its_name(tmp_path, server, content):
    (tmp_path / "token").write_text(content)

    with pytest.raises(CentreError, match=r"--token-file .*token"):
        Centre(server.url, tmp_path / "token").plan(None)


def plan(version, **parts):
    return Plan(version=version, site="slac", mesh="test", **parts)


@pytest.fixture
def cache(tmp_path):
    return PlanCache(tmp_path / "plan.json")


def test_a_plan_is_fetched_once_and_stored_on_disk(tmp_path, server, centre, cache):
    server.plan = plan("v1")
    puller = PlanPuller(cache, centre)

    assert puller.run()
    assert not puller.run()

    assert server.requests[1][1]["If-None-Match"] == '"v1"'
    assert PlanCache(tmp_path / "plan.json").current() == server.plan
    assert [path.name for path in tmp_path.iterdir() if "plan" in path.name] == ["plan.json"]


def test_a_new_plan_replaces_the_old_plan_for_every_reader(tmp_path, server, centre, cache):
    reader = PlanCache(tmp_path / "plan.json")
    server.plan = plan("v1")
    puller = PlanPuller(cache, centre)
    puller.run()
    assert reader.current().version == "v1"
    server.plan = plan("v2")

    assert puller.run()

    assert reader.current().version == "v2"


def test_without_the_centre_the_stored_plan_is_used(tmp_path, cache, clock, caplog):
    cache.store(plan("v1"))
    (tmp_path / "token").write_text(TOKEN)
    puller = PlanPuller(cache, Centre("http://127.0.0.1:9", tmp_path / "token"), back_off=BackOff(clock=clock))

    assert not puller.run()

    assert cache.current().version == "v1"
    assert "going on with plan v1" in caplog.text


PACKED = ("Content-Encoding", "gzip")


def test_a_compressed_plan_is_asked_for_and_read(server, centre, cache):
    server.plan = plan("v1")
    server.answers = [(200, gzip.compress(msgspec.json.encode(server.plan)), [PACKED])]

    assert PlanPuller(cache, centre).run()

    assert cache.current() == plan("v1")
    assert server.requests[-1][1]["Accept-Encoding"] == "gzip"


@pytest.mark.parametrize(
    ("content", "encoding", "reason"),
    [
        (gzip.compress(b" " * 5001), "gzip", "more than 5000 bytes when decompressed"),
        (gzip.compress(b"{}" * 100)[:-9], "gzip", "ends too early"),
        (b"{}", "gzip", "is not gzip"),
        (b"{}", "br", "'br'"),
    ],
    ids=["long", "cut", "plain", "brotli"],
)
def test_a_plan_that_cannot_be_unpacked_changes_nothing(
    server, centre, cache, caplog, monkeypatch, content, encoding, reason
):
    monkeypatch.setattr(centre_module, "MAX_ANSWER_BYTES", 5000)
    server.answers = [(200, content, [("Content-Encoding", encoding)])]

    assert not PlanPuller(cache, centre).run()

    assert cache.current() is None
    assert lacks(caplog.text, reason, "no plan yet") == []


def test_an_answer_that_is_not_a_plan_changes_nothing(server, centre, cache, caplog):
    cache.store(plan("v1"))
    server.answers.append((200, json.dumps({"version": "v2"}).encode()))

    assert not PlanPuller(cache, centre).run()

    assert cache.current().version == "v1"
    assert "is not a Plan" in caplog.text


def test_a_plan_that_cannot_be_stored_is_fetched_again(server, centre, cache, clock, caplog):
    cache.store(plan("v1"))
    server.plan = plan("v2")
    puller = PlanPuller(cache, centre, back_off=BackOff(clock=clock))

    with mock.patch("probes.private_files.os.fsync", side_effect=OSError(28, "No space left on device")):
        assert not puller.run()

    assert cache.current().version == "v1"
    assert "version v2 cannot be stored" in caplog.text
    clock.now += MAX_PAUSE_S
    assert puller.run()
    assert cache.current().version == "v2"


def test_an_unreadable_plan_file_is_fetched_again(tmp_path, server, centre, cache, caplog):
    (tmp_path / "plan.json").write_text('{"version": "v1", "si')
    server.plan = plan("v1")

    assert cache.current() is None
    assert "cannot be read" in caplog.text
    assert PlanPuller(cache, centre).run()
    assert cache.current() == server.plan


def test_a_delivery_that_tells_the_version_replaces_a_request_for_the_plan(server, centre, cache):
    cache.store(plan("v1"))
    server.plan = plan("v2")
    puller = PlanPuller(cache, centre)
    server.plan_told = "v1"
    centre.deliver(empty_batch())
    asked = len(server.requests)

    assert not puller.is_told_to_fetch()
    assert not puller.run()
    assert len(server.requests) == asked

    server.plan_told = "v2"
    centre.deliver(empty_batch())
    assert puller.is_told_to_fetch()
    assert puller.run()
    assert cache.current().version == "v2"
    assert not puller.is_told_to_fetch()


@pytest.mark.parametrize("age_s", [None, plan_module.TOLD_FOR_S])
def test_without_news_of_late_the_plan_is_asked_for(server, centre, cache, monkeypatch, age_s):
    """Of an older centre, or one that does not know, or long ago."""
    cache.store(plan("v1"))
    server.plan = plan("v2")
    server.plan_told = None if age_s is None else "v1"
    centre.deliver(empty_batch())
    now_s = centre.clock.now_s() + (age_s or 0)
    monkeypatch.setattr(centre.clock, "now_s", lambda: now_s)

    assert PlanPuller(cache, centre).run()


def empty_batch():
    return Batch(spool="a", number=1, agent_version="1", sent_at=NOW, results=())
