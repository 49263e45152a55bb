"""The Redis of docker-compose.yml, started here by the same command and with the same secrets."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path, PurePosixPath

import pytest
import redis

from monitor.redis_client import connect
from monitor.stack.broker import find_server
from tests.unit.test_compose import SERVICES


@pytest.fixture
def redis_port(secrets: Path, tmp_path: Path) -> Iterator[int]:
    """The port of a Redis started like the service `redis`, with the secrets of this test."""
    program, *arguments = [word.replace("/run/soundings/redis", f"{secrets}/redis") for word in redis_command()]
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port: int = free.getsockname()[1]
    settings = ["--bind", "127.0.0.1", "--port", str(port), "--dir", str(tmp_path)]
    server = subprocess.Popen([find_server(), *arguments, *settings], stdout=subprocess.DEVNULL)
    try:
        assert program == "redis-server"
        password = (secrets / "redis/password").read_text()
        assert password not in Path(f"/proc/{server.pid}/cmdline").read_text()
        deadline = time.monotonic() + 30
        while not answers_with_tcp(port):
            assert time.monotonic() < deadline
            time.sleep(0.02)
        yield port
    finally:
        server.kill()
        server.wait()


def redis_command() -> list[str]:
    command: list[str] = SERVICES["redis"]["command"]
    return command


def answers_with_tcp(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), timeout=1).close()
    except OSError:
        return False
    return True


def centre_redis(secrets: Path, port: int) -> redis.Redis:
    """A client of the URL that the centre reads, created as the centre creates it."""
    file = PurePosixPath(SERVICES["web"]["environment"]["SOUNDINGS_REDIS_URL_FILE"])
    url = (secrets / "centre" / file.name).read_text()
    assert "@redis:6379/" in url
    return connect(url.replace("@redis:6379/", f"@127.0.0.1:{port}/"), 5.0)


def test_redis_refuses_a_wrong_password_and_accepts_the_centre(redis_port: int, secrets: Path) -> None:
    for password in (None, "guessed"):
        with pytest.raises(redis.AuthenticationError):
            redis.Redis(port=redis_port, password=password).ping()

    assert centre_redis(secrets, redis_port).ping()


def test_redis_has_a_memory_limit_and_evicts_no_task(redis_port: int, secrets: Path) -> None:
    client = centre_redis(secrets, redis_port)

    assert client.config_get("maxmemory") == {"maxmemory": str(256 * 2**20)}
    assert client.config_get("maxmemory-policy") == {"maxmemory-policy": "noeviction"}
    assert client.config_get("save") == {"save": ""}


@pytest.mark.skipif(
    shutil.which("redis-cli") is None and not os.environ.get("CI"), reason="needs redis-cli, which the image has"
)
def test_the_health_check_of_redis_uses_the_password(redis_port: int, secrets: Path) -> None:
    kind, line = SERVICES["redis"]["healthcheck"]["test"]
    assert kind == "CMD-SHELL"
    here = line.replace("redis-cli", f"redis-cli -p {redis_port}")

    def status(folder: Path) -> int:
        command = here.replace("/run/soundings/redis", str(folder))
        return subprocess.run(["sh", "-c", command], check=False, stderr=subprocess.DEVNULL).returncode

    assert status(secrets / "redis") == 0
    assert status(secrets / "grafana") != 0
