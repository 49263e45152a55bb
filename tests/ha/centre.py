"""A whole centre on one machine, with two of every process: PostgreSQL with a standby, Redis with Sentinels, web
servers behind haproxy, workers, beats. Each can be killed. It is started again after `RESTART_S`, as an init system
does. A primary that was killed is replaced by its standby, and gets a new standby.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import psycopg
from psycopg.conninfo import make_conninfo

from monitor.stack import access
from monitor.stack.postgres import DATABASE, Cluster, find
from monitor.stack.standby import make_standby, promote
from probes.supervision.socket_folders import make_socket_dir
from tests.e2e.centre import GUNICORN, answers, free_port
from tests.e2e.stack import TOP, wait_for
from tests.haproxy import configuration, haproxy_program
from tests.sentinel import RedisWithSentinels

RESTART_S = 2.0
CELERY = [sys.executable, "-m", "celery", "-A", "monitor"]
SERVER = "postgres"


class Centre:
    """All processes, by name."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.processes: dict[str, subprocess.Popen[bytes]] = {}
        self.redis = RedisWithSentinels(folder)
        self.clusters = [Cluster(folder / f"{SERVER}-{number}", find()) for number in (1, 2)]
        self.primary = 0
        self.fronts = [free_port(), free_port()]
        self.proxies = [free_port(), free_port()]
        self.commands: dict[str, list[str]] = {}
        self.ports: dict[str, int] = {}

    @property
    def urls(self) -> list[str]:
        """Where agents deliver."""
        return [f"http://127.0.0.1:{port}" for port in self.proxies]

    @property
    def database_url(self) -> str:
        """Leads to the server that takes writes."""
        hosts = ",".join(str(cluster.socket_dir) for cluster in self.clusters)
        passfile = access.passfile(self.folder, access.APPLICATION)
        return make_conninfo(
            "",
            dbname=DATABASE,
            user=access.APPLICATION,
            host=hosts,
            passfile=passfile,
            target_session_attrs="read-write",
        )

    @property
    def environment(self) -> dict[str, str]:
        return {
            **os.environ,
            "DJANGO_SETTINGS_MODULE": "monitor.settings",
            "SOUNDINGS_DATABASE_URL": self.database_url,
            "SOUNDINGS_REDIS_URL": self.redis.url,
            "SOUNDINGS_SECRET_KEY": "the same for all",
            "SOUNDINGS_TRUSTED_PROXIES": "127.0.0.1",
            "SOUNDINGS_ACKNOWLEDGE": "standby",
        }

    def manage(self, *arguments: str) -> None:
        command = [sys.executable, "-m", "monitor", *arguments]
        done = subprocess.run(command, cwd=TOP, env=self.environment, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr

    def query(self, text: str) -> list[tuple[object, ...]]:
        with psycopg.connect(self.database_url, connect_timeout=5) as connection:
            return connection.execute(text).fetchall()

    def start_servers(self) -> None:
        """Start PostgreSQL with its standby, and Redis."""
        cluster = self.clusters[0]
        cluster.initialise()
        self._start_postgres(0)
        cluster.create_database()
        for role in (access.APPLICATION, access.SUPERUSER):
            shutil.copy(access.passfile(cluster.directory, role), access.passfile(self.folder, role))
        self.manage("migrate", "--verbosity", "0", "--skip-checks")
        self._make_standby()
        self.redis.start_all()

    def start_centre(self) -> None:
        for place, port in enumerate(self.fronts):
            bind = ["--bind", f"127.0.0.1:{port}", "--workers", "1"]
            self.commands[f"front-{place + 1}"] = [*GUNICORN, *bind]
            self.ports[f"front-{place + 1}"] = port
        for place, port in enumerate(self.proxies):
            file = self.folder / f"haproxy-{place + 1}.cfg"
            file.write_text(configuration(port, self.fronts))
            self.commands[f"haproxy-{place + 1}"] = [str(haproxy_program()), "-f", str(file)]
            self.ports[f"haproxy-{place + 1}"] = port
        for place in (1, 2):
            schedule = str(self.folder / f"beat-{place}")
            self.commands[f"worker-{place}"] = [*CELERY, "worker", "--concurrency=2", "-n", f"worker-{place}@%h"]
            self.commands[f"beat-{place}"] = [*CELERY, "beat", "--schedule", schedule]
        for name in self.commands:
            self._start(name)
        for port in self.ports.values():
            wait_for(lambda port=port: answers(port), 120, f"port {port} answers")

    @property
    def names(self) -> list[str]:
        """All that can be killed."""
        return [*self.commands, *self.redis.processes, "primary", "standby"]

    def kill(self, name: str) -> None:
        """Kill a process, and bring the centre back to its full strength."""
        if name == "primary":
            self._lose_primary()
        elif name == "standby":
            standby = 1 - self.primary
            self._kill(self.processes[f"{SERVER}-{standby}"])
            time.sleep(RESTART_S)
            self._start_postgres(standby)
        elif name in self.redis.processes:
            self.redis.processes[name].kill()
            self.redis.processes[name].wait()
            time.sleep(RESTART_S)
            wait_for(lambda: name not in self.redis.redis_ports or self._is_master_there(), 60, "a master is there")
            self.redis.start(name)
        else:
            self._kill(self.processes[name])
            time.sleep(RESTART_S)
            self._start(name)
            port = self.ports.get(name)
            wait_for(lambda: port is None or answers(port), 120, f"{name} answers")

    def stop(self) -> None:
        for process in self.processes.values():
            self._kill(process)
        self.redis.stop()

    def _is_master_there(self) -> bool:
        master = self.redis.master_port()
        return answers(master)

    def _lose_primary(self) -> None:
        """The disk of the primary is lost; the standby takes its place, and gets a standby."""
        lost = self.primary
        self._kill(self.processes[f"{SERVER}-{lost}"])
        promote(self._superuser_url(1 - lost))
        self.primary = 1 - lost
        shutil.rmtree(self.clusters[lost].directory)
        self._make_standby()

    def _make_standby(self) -> None:
        place = 1 - self.primary
        directory = self.clusters[place].directory
        directory.mkdir(mode=0o700)
        make_socket_dir(directory)
        for role in (access.SUPERUSER, access.APPLICATION):
            shutil.copy(access.passfile(self.folder, role), access.passfile(directory, role))
        make_standby(self._superuser_url(self.primary), directory / "cluster")
        self._start_postgres(place)

    def _superuser_url(self, place: int) -> str:
        # A standby keeps the path of its passfile, which must outlive the primary's folder.
        passfile = access.passfile(self.folder, access.SUPERUSER)
        return make_conninfo(self.clusters[place].superuser_url(DATABASE), passfile=passfile)

    def _start_postgres(self, place: int) -> None:
        cluster = self.clusters[place]
        self._run(f"{SERVER}-{place}", cluster.argv, "/")
        wait_for(cluster.answers, 60, f"{SERVER}-{place} answers")

    def _start(self, name: str) -> None:
        self._run(name, self.commands[name], str(TOP))

    def _run(self, name: str, command: Sequence[str], folder: str) -> None:
        data = self.folder / name
        environment = {**self.environment, "SOUNDINGS_DATA": str(data)}
        with (self.folder / f"{name}.log").open("ab") as log:
            self.processes[name] = subprocess.Popen(
                command, cwd=folder, env=environment, stdout=log, stderr=subprocess.STDOUT, start_new_session=True
            )

    @staticmethod
    def _kill(process: subprocess.Popen[bytes]) -> None:
        """SIGKILL to the process and those that it started."""
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
        process.wait(timeout=60)


@contextmanager
def whole_centre(folder: Path, prepare: Callable[[Centre], None]) -> Iterator[Centre]:
    """A centre that runs; `prepare` gets it before its web servers start."""
    centre = Centre(folder)
    try:
        centre.start_servers()
        prepare(centre)
        centre.start_centre()
        yield centre
    finally:
        centre.stop()
