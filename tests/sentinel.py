"""Two Redis servers on loopback, and three Sentinels that make the replica the master when that is gone."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import redis

from monitor.stack.broker import find_server
from tests.e2e.centre import answers, free_port
from tests.e2e.stack import wait_for

MASTER = "soundings"
SENTINEL = """
port {port}
bind 127.0.0.1
dir {folder}
sentinel monitor {master} 127.0.0.1 {redis_port} 2
sentinel down-after-milliseconds {master} 1000
sentinel failover-timeout {master} 5000
"""


class RedisWithSentinels:
    """Any of its processes can be killed and started again, by name."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.processes: dict[str, subprocess.Popen[bytes]] = {}
        self.redis_ports = {name: free_port() for name in ("redis-1", "redis-2")}
        self.sentinel_ports = {name: free_port() for name in ("sentinel-1", "sentinel-2", "sentinel-3")}

    @property
    def url(self) -> str:
        places = ",".join(f"127.0.0.1:{port}" for port in self.sentinel_ports.values())
        return f"sentinel://{places}/0?master={MASTER}"

    def start_all(self) -> None:
        self._start_redis("redis-1", None)
        self._start_redis("redis-2", self.redis_ports["redis-1"])
        for name, port in self.sentinel_ports.items():
            folder = self.folder / name
            folder.mkdir()
            text = SENTINEL.format(port=port, folder=folder, master=MASTER, redis_port=self.redis_ports["redis-1"])
            (folder / "sentinel.conf").write_text(text)
            self.start(name)
        wait_for(self._is_complete, 60, "the Sentinels know each other and the replica")

    def stop(self) -> None:
        for process in self.processes.values():
            process.kill()
            process.wait()

    def start(self, name: str) -> None:
        """Start a process that was killed; a Redis comes back as the replica of the present master."""
        if name in self.redis_ports:
            self._start_redis(name, self.master_port())
            return
        port, file = self.sentinel_ports[name], self.folder / name / "sentinel.conf"
        self._run(name, port, [str(file), "--sentinel"])

    def master_port(self) -> int:
        """Port of the Redis that is the master by the word of a Sentinel."""
        for port in self.sentinel_ports.values():
            try:
                with redis.Redis(port=port, socket_timeout=2) as client:
                    return int(client.sentinel_get_master_addr_by_name(MASTER)[1])
            except redis.RedisError:
                continue
        raise AssertionError("no Sentinel answers")

    def _start_redis(self, name: str, master_port: int | None) -> None:
        port = self.redis_ports[name]
        replica = [] if master_port in (None, port) else ["--replicaof", f"127.0.0.1 {master_port}"]
        options = ["--port", str(port), "--bind", "127.0.0.1", "--save", "", "--appendonly", "no", *replica]
        self._run(name, port, [*options, "--dir", str(self.folder)])

    def _run(self, name: str, port: int, arguments: list[str]) -> None:
        with (self.folder / f"{name}.log").open("ab") as log:
            process = subprocess.Popen([find_server(), *arguments], stdout=log, stderr=subprocess.STDOUT)
        self.processes[name] = process
        wait_for(lambda: answers(port), 30, f"{name} answers")

    def _is_complete(self) -> bool:
        def state(port: int) -> tuple[int, int]:
            with redis.Redis(port=port, socket_timeout=2) as client:
                (master,) = client.sentinel_masters().values()
                return master["num-other-sentinels"], master["num-slaves"]

        return all(state(port) == (2, 1) for port in self.sentinel_ports.values())


@contextmanager
def redis_with_sentinels(folder: Path) -> Iterator[RedisWithSentinels]:
    servers = RedisWithSentinels(folder)
    try:
        servers.start_all()
        yield servers
    finally:
        servers.stop()
