"""Start the services of a single machine for `manage.py up`, all children of a `Supervisor`."""

from __future__ import annotations

import errno
import os
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from dataclasses import dataclass
from http import HTTPStatus
from pathlib import Path

import psycopg

from monitor import environment
from monitor.stack import broker, health, postgres
from probes.commands.own_command import MANAGE
from probes.private_files import UMASK, close_to_others, is_open_to_others, replace_privately
from probes.supervision.liveness import FileHeartbeat, LivenessCheck
from probes.supervision.processes import machine_load
from probes.supervision.socket_folders import make_socket_dir, socket_dir
from probes.supervision.supervise import REPORT_WAIT_EVERY_S, Child, StartError, Supervisor

PYTHON = [sys.executable]
WORKER_THREADS = 4
LOOPBACK = "127.0.0.1"
LOOPBACK_IPV6 = "::1"
EVERY_LOOPBACK = (LOOPBACK, LOOPBACK_IPV6)
EVERY_ADDRESS = ("0.0.0.0", "::")
READY_TIMEOUT_S = 60.0
# Limit for web, worker and beat, with heartbeats every few seconds, on a busy machine too.
SILENCE_LIMIT_S = 120.0

# libpq variable: pg_stat_activity shows the process of each connection.
APPLICATION_NAME = "PGAPPNAME"

# Entries of the data folder; PostgreSQL's is separate, since another user may own it.
WRITTEN = (
    "celerybeat-schedule*", "lab", "log", "secret_key", "sites", "socket", "trouble", "up.lock", "web", "web_url"
)  # fmt: skip


@dataclass(slots=True)
class Stack:
    """Processes of a machine, all under `data`."""

    data: Path
    port: int
    supervisor: Supervisor
    report: Callable[[str], None]
    environment: dict[str, str]
    bind: str = LOOPBACK
    ipv6_only: bool = False

    @classmethod
    def in_folder(
        cls,
        data: Path,
        port: int,
        report: Callable[[str], None],
        stop: threading.Event | None = None,
        bind: str = LOOPBACK,
        *,
        ipv6_only: bool = False,
    ) -> Stack:
        """Create a stack in `data`, with the environment shared by its processes; `stop` ends its start."""
        environment = {
            "SOUNDINGS_DATA": str(data),
            "DJANGO_SETTINGS_MODULE": "monitor.settings",
            "SOUNDINGS_SECRET_KEY_FILE": str(_secret_key_file(data)),
            # On loopback readers are local, and cookies use plain HTTP; elsewhere a proxy with TLS is in front.
            "SOUNDINGS_LOCAL_READ": os.environ.get("SOUNDINGS_LOCAL_READ", "1"),
            "SOUNDINGS_ALLOW_PLAIN_HTTP": os.environ.get(
                "SOUNDINGS_ALLOW_PLAIN_HTTP", str(int(bind in EVERY_LOOPBACK))
            ),
        }
        return cls(data, port, Supervisor(data / "log", report, stop=stop), report, environment, bind, ipv6_only)

    def close(self) -> None:
        """Close the data folder to other users, including data of earlier releases."""
        close_to_others(self.data, WRITTEN)
        if is_open_to_others(self.data):
            raise StartError(
                f"{self.data} belongs to another user, and others can enter it; use another --data, or chmod 700 it"
            )

    def keep_url(self) -> None:
        """Store the address of the pages for links in mails, notifications and tickets."""
        path = self.data / "web_url"
        with replace_privately(path, path.with_suffix(".new")) as file:
            file.write(self.url.encode())

    @property
    def has_lab(self) -> bool:
        return "SOUNDINGS_LAB_DIR" in self.environment

    @property
    def web_socket(self) -> Path:
        return socket_dir(self.data) / "web.sock"

    def token_file(self, site: str) -> Path:
        return self.data / "sites" / site / "token"

    def keep_limits(self, site: str, limits: str) -> None:
        folder = self.token_file(site).parent
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        (folder / "limits.toml").write_text(limits)

    def start_database(self) -> None:
        """Start PostgreSQL, unless SOUNDINGS_DATABASE_URL names a server; migrate the schema."""
        if environment.read("SOUNDINGS_DATABASE_URL"):
            self._step("postgres", "as set in SOUNDINGS_DATABASE_URL")
        else:
            cluster = postgres.Cluster(self.data / "postgres", postgres.find())
            if not cluster.exists:
                self._step("postgres", "create the database cluster (once, usually 3 to 10 s)")
            cluster.initialise()
            self._step("postgres", f"start {cluster.distribution.name}")
            # SIGINT is PostgreSQL's fast shutdown; SIGTERM would wait for its clients to leave.
            child = self.supervisor.add(
                "postgres", cluster.argv, stop_signal=signal.SIGINT, liveness=cluster.liveness_check()
            )
            self.supervisor.wait_ready(child, cluster.answers, READY_TIMEOUT_S)
            cluster.create_database()
            cluster.create_extension()
            self.environment["SOUNDINGS_DATABASE_URL"] = cluster.url
        self._step("schema", "apply database migrations (usually 2 s, the first time 10 to 20 s)")
        # Django's checks load all pages, as the web server does next.
        self.manage("migrate", "--verbosity", "0", "--skip-checks", shows_output=True)

    def start_broker(self) -> None:
        """Start Redis without persistence, unless SOUNDINGS_REDIS_URL names a server."""
        if environment.read("SOUNDINGS_REDIS_URL"):
            self._step("redis", "as set in SOUNDINGS_REDIS_URL")
            return
        self._step("redis", "start the broker of the centre")
        make_socket_dir(self.data)
        path = broker.socket_path(self.data)
        child = self.supervisor.add(
            "redis", broker.command(path), stop_signal=broker.STOP_SIGNAL, liveness=broker.liveness_check(path)
        )
        self.supervisor.wait_ready(child, lambda: broker.answers(path), READY_TIMEOUT_S)
        self.environment["SOUNDINGS_REDIS_URL"] = f"redis+socket://{path}"

    def start_centre(self) -> None:
        """Start web, worker and beat, and wait until the web server answers."""
        make_socket_dir(self.data)
        self._step("web", f"start the web server at {self.url} (ready in 5 to 15 s, usually)")
        web = self.supervisor.add(
            "web",
            self._gunicorn(),
            env={**self.environment, APPLICATION_NAME: "soundings web"},
            liveness=LivenessCheck(lambda: health.web_answers(self.web_socket, SILENCE_LIMIT_S), SILENCE_LIMIT_S),
        )
        self._step("worker", "start the worker: rollups, alerts, slots, reports")
        self._add_celery("worker", f"--concurrency={WORKER_THREADS}", "--loglevel=INFO")
        self._step("beat", "start the scheduler of the worker")
        self._add_celery("beat", "--schedule", str(self.data / "celerybeat-schedule"))
        self.supervisor.wait_ready(web, self._page_answers, READY_TIMEOUT_S)

    def start_agent(self, site: str, *, in_lab: bool = False) -> None:
        """Start the agent of `site`, on this machine or in its namespace of the lab."""
        token = self.token_file(site)
        argv = [*PYTHON, "-m", "probes", "site", "--centre", self.url]
        argv += ["--token-file", str(token), "--data", str(token.parent)]
        prefix = [*self.lab_command("exec"), "--end-with-lab", site] if in_lab else []
        self._step(f"site-{site}", f"start the agent of {site}")
        self.supervisor.add(f"site-{site}", [*prefix, *argv])

    def start_lab(self, scenario: str) -> None:
        """Start the lab's relay and wait for its namespaces."""
        argv = [*self.lab_command("up"), scenario, "--foreground"]
        argv += ["--centre-socket", str(self.web_socket), "--centre-port", str(self.port)]
        argv += ["--ipv6-only"] if self.ipv6_only else []
        self._step("lab", f"create the namespaces of {scenario} and the relay between them")
        child = self.supervisor.add("lab", argv)
        self.supervisor.wait_ready(child, self._lab_answers, READY_TIMEOUT_S)

    def lab_command(self, verb: str) -> list[str]:
        return [*PYTHON, "-m", "probes", "lab", verb, "--run-dir", str(self.data / "lab")]

    def manage(self, *arguments: str, shows_output: bool = False) -> None:
        """Run a management command; `shows_output` passes its output on. Raises `StartError` with the errors of a
        failed command."""
        started = time.monotonic()
        with subprocess.Popen(
            [*PYTHON, "-m", "monitor", *arguments],
            env={**os.environ, **self.environment},
            stdout=None if shows_output else subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        ) as process:
            while True:
                try:
                    output, errors = process.communicate(timeout=REPORT_WAIT_EVERY_S)
                    break
                except subprocess.TimeoutExpired:
                    elapsed_s = time.monotonic() - started
                    self.report(f"{MANAGE} {arguments[0]} runs for {elapsed_s:.0f} s; {machine_load()}; waiting")
        if process.returncode != 0:
            raise StartError(f"{MANAGE} {' '.join(arguments)}: {errors.strip() or (output or '').strip()}")

    def issue_tokens(self, sites: list[str]) -> None:
        """Ensure that each site's agent has a valid token in its `token_file`."""
        self._step("tokens", "issue the tokens of the agents")
        self.manage("site", "token", *sites, "--out-dir", str(self.data / "sites"))

    def home_site(self) -> str | None:
        """Home site of the applied mesh, None where missing; renames its folder after the site was renamed."""
        url = self.environment.get("SOUNDINGS_DATABASE_URL") or environment.read("SOUNDINGS_DATABASE_URL")
        with psycopg.connect(url) as connection:
            row = connection.execute(
                "SELECT home_site, coalesce(site.former_names, '{}') FROM mesh LEFT JOIN site ON site.name = home_site"
            ).fetchone()
        if row is None or not row[0]:
            return None
        self._keep_folder(str(row[0]), row[1])
        return str(row[0])

    def _keep_folder(self, site: str, former_names: list[str]) -> None:
        """Rename the folder of a renamed site's agent, with token and spool."""
        folder = self.token_file(site).parent
        earlier = [self.token_file(name).parent for name in former_names]
        if not folder.exists():
            for place in [place for place in earlier if place.exists()][-1:]:
                place.rename(folder)

    def stop(self) -> None:
        self.supervisor.stop()
        outside = {socket_dir(self.data), socket_dir(self.data / "postgres")}
        for folder in (folder for folder in outside if not folder.is_relative_to(self.data)):
            shutil.rmtree(folder.parent, ignore_errors=True)

    @property
    def url(self) -> str:
        return f"http://[{LOOPBACK_IPV6}]:{self.port}" if self.ipv6_only else f"http://{LOOPBACK}:{self.port}"

    @property
    def loopback(self) -> str:
        """Address on which the web server always listens."""
        return LOOPBACK_IPV6 if self.ipv6_only else LOOPBACK

    def _gunicorn(self) -> list[str]:
        # Every address includes that of loopback.
        addresses = [self.bind] if self.bind in EVERY_ADDRESS else sorted({self.loopback, self.bind})
        places = [f"[{address}]:{self.port}" if ":" in address else f"{address}:{self.port}" for address in addresses]
        return [
            *PYTHON, "-m", "gunicorn", "--config", "python:monitor.stack.serving", "--umask", oct(UMASK),
            *(word for place in (*places, f"unix:{self.web_socket}") for word in ("--bind", place)),
        ]  # fmt: skip

    def _celery(self, name: str, *options: str) -> list[str]:
        return [*PYTHON, "-m", "celery", "-A", "monitor", name, *options]

    def _add_celery(self, name: str, *options: str) -> Child:
        heartbeat_file = self.data / "pulse" / name
        heartbeat_file.parent.mkdir(mode=0o700, exist_ok=True)
        heartbeat_file.touch(mode=0o600)  # now: a full disk prevents creating it, not touching it
        return self.supervisor.add(
            name,
            self._celery(name, *options),
            env={
                **self.environment,
                "SOUNDINGS_PULSE_FILE": str(heartbeat_file),
                APPLICATION_NAME: f"soundings {name}",
            },
            liveness=LivenessCheck(self._with_redis(FileHeartbeat(heartbeat_file)), SILENCE_LIMIT_S),
        )

    def _with_redis(self, has_heartbeat: Callable[[], bool]) -> Callable[[], bool]:
        # Treat the process as alive while Redis is down, which it waits for.
        url = self.environment.get("SOUNDINGS_REDIS_URL") or os.environ["SOUNDINGS_REDIS_URL"]
        return lambda: has_heartbeat() or not health.redis_answers(url)

    def apply_mesh(self, path: Path) -> None:
        self._step("mesh", f"apply {_shown(path)}")
        self.manage("mesh", "apply", str(path))

    def _step(self, name: str, action: str) -> None:
        self.report(f"{name:<12} {action}")

    def _page_answers(self) -> bool:
        """Whether the first page is returned. Raises `StartError` when it fails."""
        try:
            with urllib.request.urlopen(f"{self.url}/", timeout=10) as answer:
                return answer.status == 200
        except urllib.error.HTTPError as error:
            if error.code == HTTPStatus.INTERNAL_SERVER_ERROR:
                raise StartError(f"web: {self.url}/ answers {error}; see {self.supervisor.log_dir}/web.log") from error
            return False
        except (urllib.error.URLError, TimeoutError, ConnectionError):
            return False

    def _lab_answers(self) -> bool:
        return subprocess.run(self.lab_command("status"), capture_output=True, check=False).returncode == 0


def require_free_port(port: int, *addresses: str) -> None:
    """Raise `StartError` when `port` is in use, or an address is not of this machine."""
    for address in set(addresses):
        with socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind((address, port))
            except OSError as error:
                other = "--bind" if error.errno == errno.EADDRNOTAVAIL else "--port"
                raise StartError(f"{address} port {port}: {error.strerror}; choose another with {other}") from error


def _secret_key_file(data: Path) -> Path:
    path = data / "secret_key"
    if not path.exists():
        data.mkdir(mode=0o700, parents=True, exist_ok=True)
        path.touch(mode=0o600)
        path.write_text(secrets.token_urlsafe(50))
    return path


def _shown(path: Path) -> str:
    try:
        return str(path.relative_to(Path.cwd()))
    except ValueError:
        return str(path)
