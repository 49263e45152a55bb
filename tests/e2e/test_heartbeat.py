"""Running worker and beat: each has a heartbeat, the worker also while all of its threads compute."""

import signal
import sys

import pytest

from monitor.stack import broker
from probes.supervision.liveness import FileHeartbeat
from probes.supervision.supervise import Supervisor
from tests.e2e import busy_app
from tests.e2e.stack import wait_for

THREADS = 4
CELERY = [sys.executable, "-m", "celery", "-A", "tests.e2e.busy_app"]


@pytest.fixture
def celery(tmp_path, monkeypatch):
    """Starts worker or beat, and returns its heartbeat file."""
    monkeypatch.delenv("DJANGO_SETTINGS_MODULE", raising=False)
    supervisor = Supervisor(tmp_path / "log", print)
    path = tmp_path / "redis.sock"
    redis = supervisor.add("redis", broker.command(path), stop_signal=broker.STOP_SIGNAL)
    supervisor.wait_ready(redis, lambda: broker.answers(path), 30)
    busy_app.app.conf.broker_url = f"redis+socket://{path}"

    def start(name, *options):
        heartbeat = tmp_path / f"{name}.heartbeat"
        environment = {"SOUNDINGS_REDIS_URL": f"redis+socket://{path}", "SOUNDINGS_PULSE_FILE": str(heartbeat)}
        supervisor.add(name, [*CELERY, name, *options], env=environment, stop_signal=signal.SIGKILL)
        return heartbeat

    yield start
    supervisor.stop()


def beats(file, count):
    """Wait for `count` heartbeats."""
    has_beaten = FileHeartbeat(file)
    for _ in range(count):
        wait_for(has_beaten, 30, f"a beat of {file.name}")


def test_worker_and_beat_have_heartbeats_while_threads_compute(celery, tmp_path):
    of_worker = celery("worker", "--pool=threads", f"--concurrency={THREADS}")
    of_beat = celery("beat", "--schedule", str(tmp_path / "schedule"))
    beats(of_worker, 1)

    for _ in range(THREADS):
        busy_app.compute.delay(60.0)

    beats(of_worker, 4)
    beats(of_beat, 2)
