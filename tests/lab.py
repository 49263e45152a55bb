"""A lab for tests: starts `python -m probes lab up --foreground` as a child, and ends it in any case.

`tests/net/conftest.py` has the fixtures. Use `with RunningLab("three-sites") as lab:` elsewhere.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from probes.lab import control
from probes.lab.emulated_path import PathCounters
from probes.lab.namespaces import repository_environment

READY_TIMEOUT_S = 30.0
END_TIMEOUT_S = 20.0
NOBODY = 65534


def wait_until(condition: Callable[[], bool], description: str, timeout_s: float = 20.0) -> None:
    """Poll `condition` until it is true; fails the test after `timeout_s`."""
    deadline = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < deadline, f"not within {timeout_s:.0f} s: {description}"
        time.sleep(0.02)


def without_root() -> list[str]:
    """Command prefix that runs a command as an ordinary user. Reading files stays allowed, since the interpreter may be
    in root's home; there are no privileges for networks or namespaces."""
    if os.geteuid() != 0:
        return []
    return [
        "setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups",
        *(f"--{kind}=-all,+dac_read_search" for kind in ("inh-caps", "ambient-caps", "bounding-set")),
    ]  # fmt: skip


def with_open_tun() -> list[str]:
    """Prefix before `without_root()` that lets an ordinary user open the TUN device, as udev does.

    Without udev the device may be reserved for root, so the command has a device of its own, in its own mount
    namespace.
    """
    if os.geteuid() != 0:
        return []
    script = 'mount -t tmpfs tmpfs /dev/net && mknod -m 666 /dev/net/tun c 10 200 && exec "$@"'
    return ["unshare", "--mount", "sh", "-c", script, "sh"]


class RunningLab:
    """A lab in a run folder of its own. `prefix` comes before every command, e.g. `without_root()`."""

    def __init__(self, scenario: str = "three-sites", *options: str, prefix: Sequence[str] = ()) -> None:
        self.run_dir = Path(tempfile.mkdtemp(prefix="lab-"))
        self._scenario = scenario
        self._options = options
        self._prefix = list(prefix)
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> RunningLab:
        try:
            self.start()
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    @property
    def pid(self) -> int:
        return control.read_state(self.run_dir).pid

    @property
    def log(self) -> str:
        return (self.run_dir / "output").read_text()

    def start(self) -> None:
        """Start the lab and wait until it is ready."""
        if self._prefix:
            os.chown(self.run_dir, NOBODY, NOBODY)
        with (self.run_dir / "output").open("wb") as output:
            self._process = subprocess.Popen(
                self._argv("up", self._scenario, "--foreground", *self._options),
                env=repository_environment(),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        wait_until(self._ready_or_ended, "the lab is ready", READY_TIMEOUT_S)
        assert self._process.poll() is None, f"the lab did not start: {self.log}"

    def stop(self) -> int | None:
        """End the lab and remove its folder. Returns its exit status."""
        status = None
        if self._process is not None:
            if self._process.poll() is None:
                self._process.send_signal(signal.SIGTERM)
            try:
                status = self._process.wait(END_TIMEOUT_S)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
                raise
            finally:
                shutil.rmtree(self.run_dir, ignore_errors=True)
        return status

    def kill(self) -> None:
        """End the lab by SIGKILL, and keep its folder."""
        assert self._process is not None
        self._process.kill()
        self._process.wait()

    def command(self, *arguments: str, timeout_s: float = 60.0) -> subprocess.CompletedProcess[str]:
        """Run `python -m probes lab ARGUMENTS` for this lab."""
        return subprocess.run(
            self._argv(*arguments),
            env=repository_environment(),
            capture_output=True,
            text=True,
            timeout=timeout_s,
            check=False,
        )

    def set(self, *arguments: str) -> None:
        """Run `lab set ARGUMENTS`; fails the test if that does."""
        done = self.command("set", *arguments)
        assert done.returncode == 0, done.stderr

    def exec(self, site: str, *argv: str, timeout_s: float = 60.0) -> subprocess.CompletedProcess[str]:
        """Run a command at a site to its end."""
        return self.command("exec", site, *argv, timeout_s=timeout_s)

    def popen(self, site: str, *argv: str, stdin: int = subprocess.DEVNULL) -> subprocess.Popen[str]:
        """Start a command at a site. The caller ends it."""
        return subprocess.Popen(
            self._argv("exec", site, *argv),
            env=repository_environment(),
            stdin=stdin,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def address(self, site: str) -> str:
        """The site's IPv4 address."""
        return control.read_state(self.run_dir).sites[site].addresses[0]

    def status(self) -> control.LabStatus:
        return control.ask_status(self.run_dir)

    def path(self, source: str, destination: str) -> control.PathStatus:
        """Settings and counts of a directed path."""
        return next(path for path in self.status().paths if (path.source, path.destination) == (source, destination))

    def counts(self, source: str, destination: str) -> PathCounters:
        """The relay's counters of a directed path."""
        return self.path(source, destination).counts

    def _argv(self, verb: str, *arguments: str) -> list[str]:
        return [*self._prefix, sys.executable, "-m", "probes", "lab", verb, "--run-dir", str(self.run_dir), *arguments]

    def _ready_or_ended(self) -> bool:
        assert self._process is not None
        return "lab ready:" in self.log or self._process.poll() is not None
