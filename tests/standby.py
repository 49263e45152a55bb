"""A streaming standby of the tests' PostgreSQL, in a folder of its own, made by `manage.py database standby`."""

from __future__ import annotations

import shutil
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from monitor.stack import access
from monitor.stack.postgres import Cluster
from monitor.stack.standby import make_standby
from probes.supervision.socket_folders import make_socket_dir
from tests.e2e.stack import wait_for


class StandbyServer:
    """The server of `cluster`, which can be killed and started again. Its passwords are those of the primary."""

    def __init__(self, primary: Cluster, folder: Path) -> None:
        self.cluster = Cluster(folder, primary.distribution)
        self.process: subprocess.Popen[bytes] | None = None
        folder.mkdir(mode=0o700)
        make_socket_dir(folder)
        for role in (access.SUPERUSER, access.APPLICATION):
            shutil.copy(access.passfile(primary.directory, role), access.passfile(folder, role))

    def start(self) -> None:
        with (self.cluster.directory / "postgres.log").open("ab") as log:
            self.process = subprocess.Popen(self.cluster.argv, cwd="/", stdout=log, stderr=subprocess.STDOUT)
        wait_for(self.cluster.answers, 60, "the standby answers")

    def stop(self, number: int = signal.SIGQUIT) -> None:
        """Stop it at once, as by a crash."""
        if self.process is not None:
            self.process.send_signal(number)
            self.process.wait(timeout=60)


@contextmanager
def standby_of(primary: Cluster, database: str, folder: Path) -> Iterator[StandbyServer]:
    """Make and run a standby; yields it."""
    standby = StandbyServer(primary, folder)
    try:
        make_standby(primary.superuser_url(database), folder / "cluster")
        standby.start()
        yield standby
    finally:
        standby.stop()
