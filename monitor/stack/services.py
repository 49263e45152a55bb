"""What runs on a single machine, and how each part is started: the list behind `manage.py up`.

PostgreSQL and Redis (unless the environment names others), the web server, the Celery worker and beat, and the sites'
agents: the home site's own, or with a lab one for each of its sites. Every process is a child of one
`probes.supervise.Supervisor`; nothing here decides what is measured.
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
from probes.private_files import UMASK, close_to_others, is_open_to_others
from probes.signs_of_life import Pulse, SignOfLife
from probes.supervise import Child, StartError, Supervisor, make_socket_dir, socket_dir

PYTHON = [sys.executable]
MANAGE = [*PYTHON, str(Path(__file__).resolve().parents[2] / "manage.py")]
WORKER_THREADS = 4
SILENCE_LIMIT_S = 120.0
"""Of web, worker and beat. Their signs come every few seconds on a quiet machine, and on a busy one still."""

WRITTEN = ("celerybeat-schedule*", "lab", "log", "secret_key", "sites", "socket", "trouble", "up.lock", "web")
"""What is written into the data folder, but for PostgreSQL's, which may belong to a user of its own."""


@dataclass(slots=True)
class Stack:
    """The processes of one machine, all under `data`."""

    data: Path
    port: int
    supervisor: Supervisor
    report: Callable[[str], None]
    environment: dict[str, str]

    @classmethod
    def in_folder(cls, data: Path, port: int, report: Callable[[str], None]) -> Stack:
        """A stack that keeps everything in `data`, with the environment that its processes share."""
        environment = {
            "SOUNDINGS_DATA": str(data),
            "DJANGO_SETTINGS_MODULE": "monitor.settings",
            "SOUNDINGS_SECRET_KEY_FILE": str(_secret_key_file(data)),
            # It serves on loopback, so whoever reads is on this machine; cookies go over plain HTTP there.
            "SOUNDINGS_LOCAL_READ": os.environ.get("SOUNDINGS_LOCAL_READ", "1"),
            "SOUNDINGS_ALLOW_PLAIN_HTTP": os.environ.get("SOUNDINGS_ALLOW_PLAIN_HTTP", "1"),
        }
        return cls(data, port, Supervisor(data / "log", report), report, environment)

    def close(self) -> None:
        """Close the data folder and what is in it to other users, also what an earlier release left open."""
        close_to_others(self.data, WRITTEN)
        if is_open_to_others(self.data):
            raise StartError(
                f"{self.data} belongs to another user, and others can enter it; use another --data, or chmod 700 it"
            )

    @property
    def web_socket(self) -> Path:
        """Where the web server listens besides its port: the lab's namespaces reach it by this file."""
        return socket_dir(self.data) / "web.sock"

    def token_file(self, site: str) -> Path:
        """Where the agent of `site` finds its token."""
        return self.data / "sites" / site / "token"

    def keep_limits(self, site: str, limits: str) -> None:
        """Make this the limits.toml of the agent of `site`, from now on."""
        folder = self.token_file(site).parent
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        (folder / "limits.toml").write_text(limits)

    def start_database(self) -> None:
        """Start PostgreSQL, unless SOUNDINGS_DATABASE_URL names one, and bring its schema up to date."""
        if environment.read("SOUNDINGS_DATABASE_URL"):
            self.report("postgres: the one that SOUNDINGS_DATABASE_URL names")
        else:
            cluster = postgres.Cluster(self.data / "postgres", postgres.find())
            cluster.initialise()
            # SIGINT is PostgreSQL's fast shutdown; SIGTERM would wait for its clients to leave.
            child = self.supervisor.add(
                "postgres", cluster.argv, stop_signal=signal.SIGINT, sign_of_life=cluster.sign_of_life()
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
            self.report("redis: the one that SOUNDINGS_REDIS_URL names")
            return
        path = make_socket_dir(self.data) / "redis.sock"
        child = self.supervisor.add(
            "redis", broker.command(path), stop_signal=broker.STOP_SIGNAL, sign_of_life=broker.sign_of_life(path)
        )
        self.supervisor.wait_ready(child, lambda: broker.answers(path), timeout_s=30)
        self.environment["SOUNDINGS_REDIS_URL"] = f"redis+socket://{path}"
        self._running(child, "broker of the centre")

    def start_centre(self) -> None:
        """Start web, worker and beat, and wait until the page answers."""
        make_socket_dir(self.data)
        web = self.supervisor.add(
            "web",
            self._gunicorn(),
            env=self.environment,
            sign_of_life=SignOfLife(lambda: health.web_answers(self.web_socket, SILENCE_LIMIT_S), SILENCE_LIMIT_S),
        )
        worker = self._add_celery("worker", "--pool=threads", f"--concurrency={WORKER_THREADS}", "--loglevel=INFO")
        beat = self._add_celery("beat", "--schedule", str(self.data / "celerybeat-schedule"))
        self.supervisor.wait_ready(web, self._page_answers, timeout_s=60)
        self._running(web, self.url)
        self._running(worker, "rollups, alerts, slots, reports")
        self._running(beat, "what the worker does when")

    def start_agent(self, site: str, *, in_lab: bool = False) -> None:
        """Start the agent of `site`, on this machine or in its namespace of the lab."""
        token = self.token_file(site)
        argv = [*PYTHON, "-m", "probes", "site", "--centre", self.url]
        argv += ["--token-file", str(token), "--data", str(token.parent)]
        prefix = [*self.lab_command("exec"), "--end-with-lab", site] if in_lab else []
        child = self.supervisor.add(f"site-{site}", [*prefix, *argv])
        self._running(child, f"agent of {site}")

    def start_lab(self, scenario: str) -> None:
        """Start the lab's relay and wait until its namespaces are there."""
        argv = [*self.lab_command("up"), scenario, "--foreground"]
        argv += ["--centre-socket", str(self.web_socket), "--centre-port", str(self.port)]
        child = self.supervisor.add("lab", argv)
        self.supervisor.wait_ready(child, self._lab_answers, timeout_s=30)
        self._running(child, f"lab {scenario}: namespaces and the relay between them")

    def lab_command(self, verb: str) -> list[str]:
        """The command line of the lab of this stack."""
        return [*PYTHON, "-m", "probes", "lab", verb, "--run-dir", str(self.data / "lab")]

    def manage(self, *arguments: str) -> None:
        """Run one of our management commands to its end. Raises `StartError` with what it said."""
        done = subprocess.run(
            [*MANAGE, *arguments], env={**os.environ, **self.environment}, capture_output=True, text=True, check=False
        )
        if done.returncode != 0:
            raise StartError(f"manage.py {' '.join(arguments)}: {done.stderr.strip() or done.stdout.strip()}")

    def issue_tokens(self, sites: list[str]) -> None:
        """See to it that each site's agent has a valid token in its `token_file`."""
        self.manage("site", "token", *sites, "--out-dir", str(self.data / "sites"))

    def home_site(self) -> str | None:
        """The site that the applied mesh names as home; None where there is no mesh, or none is named."""
        url = self.environment.get("SOUNDINGS_DATABASE_URL") or environment.read("SOUNDINGS_DATABASE_URL")
        with psycopg.connect(url) as connection:
            row = connection.execute("SELECT home_site FROM mesh").fetchone()
        return None if row is None or not row[0] else str(row[0])

    def stop(self) -> None:
        """Stop every process; only the data folder stays."""
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
        """Start worker or beat, each with a pulse of its own."""
        pulse_file = self.data / "pulse" / name
        pulse_file.parent.mkdir(mode=0o700, exist_ok=True)
        pulse_file.touch(mode=0o600)  # now: on a full disk none could be made, but one that is there can be touched
        return self.supervisor.add(
            name,
            [*PYTHON, "-m", "celery", "-A", "monitor", name, *options],
            env={**self.environment, "SOUNDINGS_PULSE_FILE": str(pulse_file)},
            sign_of_life=SignOfLife(self._with_redis(Pulse(pulse_file)), SILENCE_LIMIT_S),
        )

    def _with_redis(self, has_pulse: Callable[[], bool]) -> Callable[[], bool]:
        """A sign of life also while Redis does not answer: worker and beat then wait for it, and are not wedged."""
        url = self.environment.get("SOUNDINGS_REDIS_URL") or os.environ["SOUNDINGS_REDIS_URL"]
        return lambda: has_pulse() or not health.redis_answers(url)

    def _running(self, child: Child, what: str) -> None:
        self.report(f"{child.name:<12} {what}; log {_shown(child.log)}")

    def _page_answers(self) -> bool:
        try:
            with urllib.request.urlopen(f"{self.url}/", timeout=10) as answer:
                return answer.status == 200
        except (urllib.error.URLError, TimeoutError, ConnectionError):
            return False

    def _lab_answers(self) -> bool:
        return subprocess.run(self.lab_command("status"), capture_output=True, check=False).returncode == 0


def require_free_port(port: int) -> None:
    """Raises `StartError` when somebody else listens on `port` already."""
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
    """A path as short as it can be written from here."""
    try:
        return str(path.relative_to(Path.cwd()))
    except ValueError:
        return str(path)
