"""`python -m tests.timescale [NAME ARGUMENTS]`: tests on a real TimescaleDB. `make test-timescale`, without arguments,
runs those whose outcome can differ there, and `make test-whole-job` the whole job.

The first are marked `timescale`: tables in chunks, COPY and conflicts in them, plans, indexes, migrations, retention,
backup, the views of Grafana. Pages, API, alerts and reports use the same named queries and run on plain PostgreSQL
alone.

Debian 13 packages it as postgresql-17-timescaledb. A machine of another release gets it in a debootstrap folder and
runs it from there: in a mount namespace of its own, so that nothing stays mounted, as the folder's postgres user.
NAME and ARGUMENTS are those of `tests.repeat`. Needs root (mount, chroot); reports it otherwise.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg

from monitor.stack.postgres import TUNING
from probes.supervision.supervise import StartError, Supervisor
from tests.repeat import run

ROOT = Path(os.environ.get("SOUNDINGS_TIMESCALE_ROOT", Path(__file__).resolve().parents[1] / ".cache" / "timescale"))
MAKE_ROOT = Path(__file__).resolve().parents[1] / "scripts" / "timescale.sh"
BIN = "/usr/lib/postgresql/17/bin"
# A single process: the other tests run beside it.
OPTIONS = ("-m", "timescale and not long", "--durations=15")

# Runs in the new mount namespace: $1 the root folder, $2 the folder for cluster and socket.
SERVE = f"""
set -e
mount --rbind /dev "$1/dev"
mount -t tmpfs shm "$1/dev/shm"
mount -t proc proc "$1/proc"
mount --bind "$2" "$1/mnt"
chroot "$1" chown postgres:postgres /mnt
if [ ! -e "$2/cluster/PG_VERSION" ]; then
    chroot --userspec=postgres:postgres "$1" {BIN}/initdb --auth=trust --encoding=UTF8 --locale=C.UTF-8 \\
        --username=postgres --pgdata=/mnt/cluster
fi
exec chroot --userspec=postgres:postgres "$1" {BIN}/postgres -D /mnt/cluster \\
    -c listen_addresses= -c unix_socket_directories=/mnt -c timezone=UTC -c max_connections=100 -c fsync=off \\
    -c shared_preload_libraries=timescaledb -c timescaledb.telemetry_level=off \\
    -c work_mem={TUNING["work_mem"]} -c shared_buffers={TUNING["shared_buffers"]}
"""


def marked_files() -> list[str]:
    """The files with marked tests of the database: those of the others would be read in vain."""
    folder = Path(__file__).parent / "db"
    return [str(path) for path in sorted(folder.rglob("test_*.py")) if "mark.timescale" in path.read_text()]


def answers(url: str) -> bool:
    try:
        psycopg.connect(url, connect_timeout=2).close()
    except psycopg.OperationalError:
        return False
    return True


@contextmanager
def serving() -> Iterator[str]:
    """The URL of a private TimescaleDB while it runs. Raises StartError."""
    subprocess.run(["bash", str(MAKE_ROOT), str(ROOT)], check=True)
    folder = Path(tempfile.mkdtemp(prefix="soundings-timescale-"))
    supervisor = Supervisor(folder / "log", print)
    url = f"postgresql://postgres@/postgres?host={folder / 'pg'}"
    (folder / "pg").mkdir()
    folder.chmod(0o755)
    try:
        server = supervisor.add(
            "timescale",
            ["unshare", "--mount", "--propagation=private", "sh", "-c", SERVE, "sh", str(ROOT), str(folder / "pg")],
        )
        supervisor.wait_ready(server, lambda: answers(url), timeout_s=120)
        yield url
    finally:
        supervisor.stop()
        shutil.rmtree(folder, ignore_errors=True)


def main(arguments: list[str]) -> int:
    if os.geteuid() != 0:
        print("timescale: needs root, to mount and chroot into a Debian 13 folder; run: sudo make test-timescale")
        return 1
    try:
        with serving() as url:
            environment = {"SOUNDINGS_DATABASE_URL": url, "SOUNDINGS_EXPECT_TIMESCALE": "1"}
            name, *rest = arguments or ("timescale", *OPTIONS, *marked_files())
            return run(name, rest, environment)
    except StartError as error:
        print(f"timescale: {error}")
        return 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
