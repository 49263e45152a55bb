"""The Redis of a centre: its program, its address, and what remains of it after its supervisor was killed."""

import os
import re
import signal
import subprocess
import sys
import time

from monitor.redis_client import connect
from monitor.stack import broker
from probes.supervision.supervise import Supervisor

STARTS = """
import sys, time
from pathlib import Path
from monitor.stack import broker
from probes.supervision.supervise import Supervisor

path = Path(sys.argv[1])
supervisor = Supervisor(path.parent / "log", lambda line: None)
child = supervisor.add("redis", broker.command(path), stop_signal=broker.STOP_SIGNAL)
supervisor.wait_ready(child, lambda: broker.answers(path), 30)
print(child.process.pid, flush=True)
time.sleep(600)
"""


def test_the_bundled_redis_is_used_where_the_system_has_none(monkeypatch):
    monkeypatch.setenv("PATH", "/nonexistent")

    program = broker.find_server()
    version = subprocess.run([program, "--version"], capture_output=True, text=True, check=True).stdout

    assert program.endswith("/valkey-server")
    assert int(re.search(r"Valkey server v=(\d+)\.", version).group(1)) >= 9


def test_a_valkey_of_the_system_is_used_as_its_redis(monkeypatch, tmp_path):
    (tmp_path / "valkey-server").touch(mode=0o755)
    monkeypatch.setenv("PATH", str(tmp_path))

    assert broker.find_server() == str(tmp_path / "valkey-server")


def test_the_client_reads_celerys_addresses():
    assert (
        connect("redis+socket:///data/redis.sock", 1.0).connection_pool.connection_kwargs["path"] == "/data/redis.sock"
    )
    assert connect("redis://localhost:6379/3", 1.0).connection_pool.connection_kwargs["db"] == 3


def test_commands_read_the_redis_of_a_stack_in_the_same_data_folder(tmp_path):
    assert broker.local_url(tmp_path) == broker.ELSEWHERE_URL
    path = broker.socket_path(tmp_path)
    path.parent.mkdir()
    path.touch()

    assert broker.local_url(tmp_path) == f"redis+socket://{tmp_path}/socket/redis.sock"
    assert connect(broker.local_url(tmp_path), 1.0).connection_pool.connection_kwargs["path"] == str(path)


def test_an_orphaned_redis_does_not_remove_the_next_ones_socket(tmp_path):
    path = tmp_path / "redis.sock"
    killed = subprocess.Popen([sys.executable, "-c", STARTS, str(path)], stdout=subprocess.PIPE, text=True)
    first = int(killed.stdout.readline())
    # Its shutdown takes long, as on a busy machine.
    os.kill(first, signal.SIGSTOP)
    killed.kill()
    killed.wait()
    supervisor = Supervisor(tmp_path / "log", lambda line: None)
    try:
        second = supervisor.add("redis", broker.command(path), stop_signal=broker.STOP_SIGNAL)
        supervisor.wait_ready(second, lambda: broker.answers(path) and second.running, 30)
        wait_until_gone(first)

        assert broker.answers(path)
    finally:
        supervisor.stop()


def wait_until_gone(pid):
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline:
        try:
            os.kill(pid, signal.SIGCONT)
        except ProcessLookupError:
            return
        time.sleep(0.05)
    raise AssertionError(f"process {pid} is still there")
