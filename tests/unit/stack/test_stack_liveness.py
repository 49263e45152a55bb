"""Liveness checks of web, PostgreSQL, worker and beat of a single machine."""

import socket
import struct
import threading
from types import SimpleNamespace

import pytest

from monitor.stack import health, heartbeat, postgres
from monitor.stack.heartbeat import LONGEST_STALL_S, WorkerHeartbeat
from monitor.stack.task_pool import ALERT_THREADS
from monitor.wsgi import application
from probes.supervision.liveness import FileHeartbeat


@pytest.fixture
def serve(tmp_path):
    """Answers each connection to a Unix socket with the given bytes; with None, never."""
    servers = []

    def start(name, answer):
        server = socket.create_server(str(tmp_path / name), family=socket.AF_UNIX)
        servers.append(server)

        def run():
            clients = []
            while True:
                try:
                    client, _ = server.accept()
                except OSError:
                    return
                clients.append(client)
                client.recv(4096)
                if answer is not None:
                    client.sendall(answer)
                    client.close()

        threading.Thread(target=run, daemon=True).start()
        return tmp_path / name

    yield start
    for server in servers:
        server.shutdown(socket.SHUT_RDWR)
        server.close()


class TestWeb:
    def test_health_needs_neither_host_name_nor_database(self):
        started = []

        body = application({"PATH_INFO": "/health"}, lambda status, headers: started.append(status))

        assert (started, b"".join(body)) == (["200 OK"], b"ok\n")

    @pytest.mark.parametrize(
        ("answer", "is_alive"), [(b"HTTP/1.1 200 OK\r\n\r\n", True), (b"HTTP/1.1 503 No\r\n\r\n", True), (b"", False)]
    )
    def test_any_answer_is_a_heartbeat(self, serve, answer, is_alive):
        assert health.web_answers(serve("web.sock", answer), 5.0) is is_alive

    def test_silence_is_no_heartbeat(self, serve, tmp_path):
        assert not health.web_answers(serve("web.sock", None), 0.2)
        assert not health.web_answers(tmp_path / "nowhere.sock", 0.2)


class TestPostgres:
    def fatal(self, text, sqlstate):
        fields = f"SFATAL\0VFATAL\0C{sqlstate}\0M{text}\0\0".encode()
        return b"E" + struct.pack("!i", 4 + len(fields)) + fields

    @pytest.mark.parametrize(
        ("text", "sqlstate"),
        [
            ("the database system is starting up", "57P03"),
            ("the database system is in recovery mode", "57P03"),
            ("sorry, too many clients already", "53300"),
        ],
    )
    def test_a_server_that_recovers_or_is_full_is_alive(self, serve, tmp_path, monkeypatch, text, sqlstate):
        serve(".s.PGSQL.5432", self.fatal(text, sqlstate))
        monkeypatch.setattr(postgres, "socket_dir", lambda directory: tmp_path)

        assert postgres.Cluster(tmp_path, None).liveness_check().is_alive()

    def test_a_server_that_does_not_answer_is_not_alive(self, serve, tmp_path, monkeypatch):
        serve(".s.PGSQL.5432", None)
        monkeypatch.setattr(postgres, "socket_dir", lambda directory: tmp_path)
        monkeypatch.setattr(postgres, "SILENCE_LIMIT_S", 2.0)

        assert not postgres.Cluster(tmp_path, None).liveness_check().is_alive()


class TestWorker:
    @pytest.fixture
    def worker(self, tmp_path):
        now, busy = [0.0], []
        worker = WorkerHeartbeat(tmp_path / "heartbeat", lambda: busy, clock=lambda: now[0])
        worker.begin(SimpleNamespace(concurrency=4))
        return SimpleNamespace(heartbeat=worker, now=now, busy=busy, shows=self.shows(worker, tmp_path / "heartbeat"))

    def shows(self, worker, path):
        def shows():
            path.unlink(missing_ok=True)
            worker.on_heartbeat()
            return path.exists()

        return shows

    def test_the_worker_has_a_heartbeat_with_busy_threads(self, worker):
        worker.busy += ["archive.roll_up"] * 3
        worker.now[0] = 10 * LONGEST_STALL_S

        assert worker.shows()

    def test_the_worker_has_a_heartbeat_with_all_threads_busy(self, worker):
        worker.busy += ["archive.roll_up"] * 4
        for _ in range(5):
            worker.now[0] += LONGEST_STALL_S - 1
            assert worker.shows()
            worker.heartbeat.task_ended(SimpleNamespace(name="archive.roll_up"))

    def test_the_worker_has_no_heartbeat_with_all_threads_hanging(self, worker):
        worker.busy += ["archive.roll_up"] * 4
        worker.now[0] = LONGEST_STALL_S + 1
        worker.heartbeat.task_ended(SimpleNamespace(name="alerts.evaluate"))

        assert not worker.shows()

    def test_the_worker_has_no_heartbeat_with_alerts_hanging(self, worker):
        worker.busy += ["alerts.evaluate"] * ALERT_THREADS
        worker.now[0] = LONGEST_STALL_S + 1
        worker.heartbeat.task_ended(SimpleNamespace(name="archive.roll_up"))

        assert not worker.shows()

    def test_a_heartbeat_that_cannot_be_written_is_a_warning(self, tmp_path, caplog):
        heartbeat.touch(tmp_path / "nowhere" / "heartbeat")

        assert "cannot be touched: No such file or directory" in caplog.text


def test_a_heartbeat_is_seen_once_per_touch(tmp_path):
    has_beaten = FileHeartbeat(tmp_path / "heartbeat")
    assert not has_beaten()
    (tmp_path / "heartbeat").touch()
    assert has_beaten()
    assert not has_beaten()
