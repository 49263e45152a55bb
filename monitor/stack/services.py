"""Services of a single machine and how they are started, for `manage.py up`.

PostgreSQL and Redis (unless the environment names others), the web server, the Celery worker and beat, and the sites'
agents: the home site's, or with a lab those of all its sites. Every process is a child of a
`probes.supervise.Supervisor`.
"""

from __future__ import annotations

import os
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import psycopg

from monitor import environment
from monitor.stack import health, postgres
from probes import broker
from probes.liveness import FileHeartbeat, LivenessCheck
from probes.private_files import UMASK, close_to_others, is_open_to_others
from probes.supervise import Child, StartError, Supervisor, make_socket_dir, socket_dir

PYTHON = [sys.executable]
MANAGE = [*PYTHON, str(Path(__file__).resolve().parents[2] / "manage.py")]
WORKER_THREADS = 4
SILENCE_LIMIT_S = 120.0
"""Limit for web, worker and beat, whose heartbeats come every few seconds, on a busy machine too."""

WRITTEN = ("celerybeat-schedule*", "lab", "log", "secret_key", "sites", "socket", "trouble", "up.lock", "web")
"""Entries of the data folder; PostgreSQL's is separate, since another user may own it."""


@dataclass(slots=True)
class Stack:
    """Processes of a machine, all under `data`."""

    data: Path
    port: int
    supervisor: Supervisor
    report: Callable[[str], None]
    environment: dict[str, str]

    @classmethod
    def in_folder(cls, data: Path, port: int, report: Callable[[str], None]) -> Stack:
        """Create a stack in `data`, with the environment shared by its processes."""
        environment = {
            "SOUNDINGS_DATA": str(data),
            "DJANGO_SETTINGS_MODULE": "monitor.settings",
            "SOUNDINGS_SECRET_KEY_FILE": str(_secret_key_file(data)),
            # It serves on loopback only, so readers are local; cookies use plain HTTP there.
            "SOUNDINGS_LOCAL_READ": os.environ.get("SOUNDINGS_LOCAL_READ", "1"),
            "SOUNDINGS_ALLOW_PLAIN_HTTP": os.environ.get("SOUNDINGS_ALLOW_PLAIN_HTTP", "1"),
        }
        return cls(data, port, Supervisor(data / "log", report), report, environment)

    def close(self) -> None:
        """Close the data folder and its contents to other users, including data of earlier releases."""
        close_to_others(self.data, WRITTEN)
        if is_open_to_others(self.data):
            raise StartError(
                f"{self.data} belongs to another user, and others can enter it; use another --data, or chmod 700 it"
            )

    @property
    def web_socket(self) -> Path:
        """Unix socket of the web server, used from the lab's namespaces."""
        return socket_dir(self.data) / "web.sock"

    def token_file(self, site: str) -> Path:
        """Token file of the agent of `site`."""
        return self.data / "sites" / site / "token"

    def keep_limits(self, site: str, limits: str) -> None:
        """Store the limits.toml of the agent of `site`."""
        folder = self.token_file(site).parent
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        (folder / "limits.toml").write_text(limits)

    def start_database(self) -> None:
        """Start PostgreSQL, unless SOUNDINGS_DATABASE_URL names one, and bring its schema up to date."""
        if environment.read("SOUNDINGS_DATABASE_URL"):
            self.report("postgres: as set in SOUNDINGS_DATABASE_URL")
        else:
            cluster = postgres.Cluster(self.data / "postgres", postgres.find())
            cluster.initialise()
            # SIGINT is PostgreSQL's fast shutdown; SIGTERM would wait for its clients to leave.
            child = self.supervisor.add(
                "postgres", cluster.argv, stop_signal=signal.SIGINT, liveness=cluster.liveness_check()
            )
            self.supervisor.wait_ready(child, cluster.answers, timeout_s=60)
            cluster.create_database()
            cluster.create_extension()
            self.environment["SOUNDINGS_DATABASE_URL"] = cluster.url
            self._running(child, cluster.distribution.name)
        self.manage("migrate", "--verbosity", "0")

    def start_broker(self) -> None:
        """Start the centre's Redis, unless SOUNDINGS_REDIS_URL names one. It keeps nothing on disk."""
        if environment.read("SOUNDINGS_REDIS_URL"):
            self.report("redis: as set in SOUNDINGS_REDIS_URL")
            return
        path = make_socket_dir(self.data) / "redis.sock"
        child = self.supervisor.add(
            "redis", broker.command(path), stop_signal=broker.STOP_SIGNAL, liveness=broker.liveness_check(path)
        )
        self.supervisor.wait_ready(child, lambda: broker.answers(path), timeout_s=30)
        self.environment["SOUNDINGS_REDIS_URL"] = f"redis+socket://{path}"
        self._running(child, "broker of the centre")

    def start_centre(self) -> None:
        """Start web, worker and beat, and wait until the web server answers."""
        make_socket_dir(self.data)
        web = self.supervisor.add(
            "web",
            self._gunicorn(),
            env=self.environment,
            liveness=LivenessCheck(lambda: health.web_answers(self.web_socket, SILENCE_LIMIT_S), SILENCE_LIMIT_S),
        )
        worker = self._add_celery("worker", "--pool=threads", f"--concurrency={WORKER_THREADS}", "--loglevel=INFO")
        beat = self._add_celery("beat", "--schedule", str(self.data / "celerybeat-schedule"))
        self.supervisor.wait_ready(web, self._page_answers, timeout_s=60)
        self._running(web, self.url)
        self._running(worker, "rollups, alerts, slots, reports")
        self._running(beat, "schedule of the worker")

    def start_agent(self, site: str, *, in_lab: bool = False) -> None:
        """Start the agent of `site`, on this machine or in its namespace of the lab."""
        token = self.token_file(site)
        argv = [*PYTHON, "-m", "probes", "site", "--centre", self.url]
        argv += ["--token-file", str(token), "--data", str(token.parent)]
        prefix = [*self.lab_command("exec"), "--end-with-lab", site] if in_lab else []
        child = self.supervisor.add(f"site-{site}", [*prefix, *argv])
        self._running(child, f"agent of {site}")

    def start_lab(self, scenario: str) -> None:
        """Start the lab's relay and wait for its namespaces."""
        argv = [*self.lab_command("up"), scenario, "--foreground"]
        argv += ["--centre-socket", str(self.web_socket), "--centre-port", str(self.port)]
        child = self.supervisor.add("lab", argv)
        self.supervisor.wait_ready(child, self._lab_answers, timeout_s=30)
        self._running(child, f"lab {scenario}: namespaces and the relay between them")

    def lab_command(self, verb: str) -> list[str]:
        """Command line of the lab of this stack."""
        return [*PYTHON, "-m", "probes", "lab", verb, "--run-dir", str(self.data / "lab")]

    def manage(self, *arguments: str) -> None:
        """Run a management command. Raises `StartError` with its output."""
        done = subprocess.run(
            [*MANAGE, *arguments], env={**os.environ, **self.environment}, capture_output=True, text=True, check=False
        )
        if done.returncode != 0:
            raise StartError(f"manage.py {' '.join(arguments)}: {done.stderr.strip() or done.stdout.strip()}")

    def issue_tokens(self, sites: list[str]) -> None:
        """Ensure that each site's agent has a valid token in its `token_file`."""
        self.manage("site", "token", *sites, "--out-dir", str(self.data / "sites"))

    def home_site(self) -> str | None:
        """Home site of the applied mesh; None where missing."""
        url = self.environment.get("SOUNDINGS_DATABASE_URL") or environment.read("SOUNDINGS_DATABASE_URL")
        with psycopg.connect(url) as connection:
            row = connection.execute("SELECT home_site FROM mesh").fetchone()
        return None if row is None or not row[0] else str(row[0])

    def stop(self) -> None:
        """Stop every process; the data folder stays."""
        self.supervisor.stop()
        outside = {socket_dir(self.data), socket_dir(self.data / "postgres")}
        for folder in (folder for folder in outside if not folder.is_relative_to(self.data)):
            shutil.rmtree(folder.parent, ignore_errors=True)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def _gunicorn(self) -> list[str]:
        return [
            *PYTHON, "-m", "gunicorn", "--config", "python:monitor.stack.serving", "--umask", oct(UMASK),
            "--bind", f"127.0.0.1:{self.port}", "--bind", f"unix:{self.web_socket}",
        ]  # fmt: skip

    def _add_celery(self, name: str, *options: str) -> Child:
        """Start worker or beat with its own heartbeat file."""
        heartbeat_file = self.data / "pulse" / name
        heartbeat_file.parent.mkdir(mode=0o700, exist_ok=True)
        heartbeat_file.touch(mode=0o600)  # now: a full disk prevents creating it, not touching it
        return self.supervisor.add(
            name,
            [*PYTHON, "-m", "celery", "-A", "monitor", name, *options],
            env={**self.environment, "SOUNDINGS_PULSE_FILE": str(heartbeat_file)},
            liveness=LivenessCheck(self._with_redis(FileHeartbeat(heartbeat_file)), SILENCE_LIMIT_S),
        )

    def _with_redis(self, has_heartbeat: Callable[[], bool]) -> Callable[[], bool]:
        """Treat the process as alive while Redis is down: worker and beat then wait for it."""
        url = self.environment.get("SOUNDINGS_REDIS_URL") or os.environ["SOUNDINGS_REDIS_URL"]
        return lambda: has_heartbeat() or not health.redis_answers(url)

    def _running(self, child: Child, description: str) -> None:
        self.report(f"{child.name:<12} {description}; log {_shown(child.log)}")

    def _page_answers(self) -> bool:
        try:
            with urllib.request.urlopen(f"{self.url}/", timeout=10) as answer:
                return answer.status == 200
        except (urllib.error.URLError, TimeoutError, ConnectionError):
            return False

    def _lab_answers(self) -> bool:
        return subprocess.run(self.lab_command("status"), capture_output=True, check=False).returncode == 0


def require_free_port(port: int) -> None:
    """Raises `StartError` when `port` is already in use."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError as error:
            raise StartError(f"port {port}: {error.strerror}; choose another with --port") from error


def _secret_key_file(data: Path) -> Path:
    path = data / "secret_key"
    if not path.exists():
        data.mkdir(mode=0o700, parents=True, exist_ok=True)
        path.touch(mode=0o600)
        path.write_text(secrets.token_urlsafe(50))
    return path


def _shown(path: Path) -> str:
    """Shortest form of a path from here."""
    try:
        return str(path.relative_to(Path.cwd()))
    except ValueError:
        return str(path)
