"""An agent with several URLs of its centre: which URL gets its requests when fronts fail and come back."""

import contextlib
import json
import socket
import ssl
import subprocess
import threading
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import msgspec
import pytest

import probes
from probes.site.delivery.centre import Centre, CentreError
from probes.site.delivery.centre_urls import RETURN_EVERY_S, CentreUrls
from probes.site.join import JoinError, join
from probes.site.settings import SettingsError, read_joined, split_urls
from probes.site.wire import Batch, Receipt

NOW = datetime(2026, 11, 26, tzinfo=UTC)
BATCH = Batch(spool="s", number=1, agent_version="0.1.0", sent_at=NOW, results=())


class Front(ThreadingHTTPServer):
    """A web server of the centre. It answers with `status` where that is set."""

    daemon_threads = True

    def __init__(self):
        super().__init__(("127.0.0.1", 0), FrontHandler)
        self.status = None
        self.drops = False
        self.paths = []

    def handle_error(self, *_):  # a handshake that the agent ended
        pass

    @property
    def url(self):
        return f"http://127.0.0.1:{self.server_port}"

    @property
    def batches(self):
        return self.paths.count("/api/agent/results")


class FrontHandler(BaseHTTPRequestHandler):
    def do_POST(self):
        self.rfile.read(int(self.headers["Content-Length"]))
        if self.path == "/api/agent/enrol":
            self.answer({"site": "cern", "token": "t0ken"})
        else:
            self.answer(msgspec.to_builtins(Receipt(number=BATCH.number, accepted=0)))

    def do_GET(self):
        self.answer({"oldest_agent_version": probes.__version__, "centre_version": probes.__version__})

    def answer(self, content):
        self.server.paths.append(self.path)
        if self.server.drops:
            self.close_connection = True
            return
        body = json.dumps(content if self.server.status is None else {"error": "no"}).encode()
        self.send_response(self.server.status or 200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


@contextlib.contextmanager
def running(front):
    thread = threading.Thread(target=front.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield front
    finally:
        front.shutdown()
        front.server_close()
        thread.join()


@pytest.fixture
def fronts():
    with running(Front()) as first, running(Front()) as second:
        yield first, second


@pytest.fixture
def token_file(tmp_path):
    (tmp_path / "token").write_text("t0ken\n")
    return tmp_path / "token"


@pytest.fixture
def centre(fronts, token_file):
    return Centre(fronts[0].url, token_file, further_urls=[fronts[1].url], timeout_s=5)


def closed_url():
    with socket.create_server(("127.0.0.1", 0)) as server:
        return f"http://127.0.0.1:{server.getsockname()[1]}"


def test_all_requests_go_to_the_first_url_while_it_answers(centre, fronts):
    for _ in range(3):
        centre.deliver(BATCH)

    assert [front.batches for front in fronts] == [3, 0]


@pytest.mark.parametrize("status", [502, 503, 504])
def test_a_front_that_fails_hands_over_within_the_request(centre, fronts, status):
    fronts[0].status = status

    centre.deliver(BATCH)
    centre.deliver(BATCH)

    assert [front.batches for front in fronts] == [1, 2]
    assert centre.url == fronts[1].url


def test_a_front_that_is_gone_hands_over_within_the_request(fronts, token_file):
    centre = Centre(closed_url(), token_file, further_urls=[fronts[1].url], timeout_s=5)

    centre.deliver(BATCH)

    assert fronts[1].batches == 1


def test_a_request_cut_off_before_its_answer_is_repeated(centre, fronts):
    fronts[0].drops = True

    centre.deliver(BATCH)

    assert [front.batches for front in fronts] == [1, 1]


@pytest.mark.parametrize("status", [400, 401, 409, 413, 426, 429, 500])
def test_an_answer_about_the_request_is_final(centre, fronts, status):
    fronts[0].status = status

    with pytest.raises(CentreError) as error:
        centre.deliver(BATCH)

    assert error.value.status == status
    assert [front.batches for front in fronts] == [1, 0]


def test_without_a_healthy_url_an_answer_counts_more_than_silence(fronts, token_file):
    fronts[0].status = 503
    centre = Centre(fronts[0].url, token_file, further_urls=[closed_url()], timeout_s=5)

    with pytest.raises(CentreError) as error:
        centre.deliver(BATCH)

    assert error.value.status == 503


def test_the_first_url_is_used_again_once_it_is_healthy(centre, fronts):
    now_s = [1000.0]
    centre.urls = CentreUrls([front.url for front in fronts], now_s=lambda: now_s[0])
    fronts[0].status = 503
    centre.deliver(BATCH)
    now_s[0] += RETURN_EVERY_S
    centre.deliver(BATCH)  # not healthy yet
    fronts[0].status = None
    centre.deliver(BATCH)  # checked a moment ago
    now_s[0] += RETURN_EVERY_S

    centre.deliver(BATCH)

    assert fronts[0].paths == ["/api/agent/results", "/health", "/health", "/api/agent/results"]
    assert fronts[1].batches == 3


def test_a_front_with_a_foreign_certificate_gets_no_token(fronts, token_file, tmp_path):
    certificate, key = tmp_path / "certificate.pem", tmp_path / "key.pem"
    request = "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2 -subj /CN=other"
    subprocess.run([*request.split(), "-keyout", key, "-out", certificate], check=True, capture_output=True)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    other = Front()
    other.socket = context.wrap_socket(other.socket, server_side=True, do_handshake_on_connect=False)
    with running(other):
        url = f"https://127.0.0.1:{other.server_port}"
        Centre(url, token_file, further_urls=[fronts[0].url], timeout_s=5).deliver(BATCH)

    assert other.paths == []
    assert fronts[0].batches == 1


def test_every_url_must_keep_the_token_from_the_network(token_file):
    with pytest.raises(SettingsError, match="plain HTTP"):
        Centre("https://a.example.org", token_file, further_urls=["http://b.example.org"])


def test_a_site_joins_at_the_url_that_answers_and_keeps_all(fronts, tmp_path):
    fronts[0].status = 503
    data = tmp_path / "agent"

    join(f"{fronts[0].url},{fronts[1].url}", "CODE", data)

    joined = read_joined(data)
    assert (joined.centre, joined.further_urls) == (fronts[0].url, (fronts[1].url,))
    assert (data / "token").read_text() == "t0ken\n"
    assert fronts[1].paths[-1] == "/api/agent/enrol"


def test_a_code_is_never_redeemed_twice(fronts, tmp_path, monkeypatch):
    def lose_the_answer(handler):
        handler.server.paths.append("redeemed")
        handler.close_connection = True

    monkeypatch.setattr(FrontHandler, "do_POST", lose_the_answer)

    with pytest.raises(JoinError):
        join(f"{fronts[0].url},{fronts[1].url}", "CODE", tmp_path / "agent")

    assert [front.paths.count("redeemed") for front in fronts] == [1, 0]


def test_a_list_of_urls_has_no_empty_and_no_double_entry():
    assert split_urls("https://a, https://b,https://a") == ("https://a", "https://b")
    with pytest.raises(SettingsError):
        split_urls("https://a,")
