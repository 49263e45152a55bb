"""`manage.py up`: run everything on this machine until Ctrl-C."""

from __future__ import annotations

import fcntl
import ipaddress
import os
import signal
import threading
import time
from argparse import ArgumentParser, ArgumentTypeError
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError

from monitor.mesh.document import reader
from monitor.stack.broker import BrokerError
from monitor.stack.postgres import PostgresError
from monitor.stack.services import LOOPBACK, LOOPBACK_IPV6, Stack, require_free_port
from probes.commands.ending import read_text
from probes.commands.own_command import probes_command
from probes.data_folder import default_data
from probes.lab import breaks, control
from probes.lab.mesh import limits_toml, loopback_addresses, mesh_toml, namespace_addresses
from probes.lab.namespaces import namespaces_available
from probes.lab.scenario import DEFAULT_SCENARIO, load_scenario
from probes.lab.settings import LabError
from probes.private_files import UMASK
from probes.site.limits.read import LimitsError, read_limits
from probes.supervision.supervise import StartError


class Command(BaseCommand):
    help = (
        "Run everything on this machine until Ctrl-C. Starts PostgreSQL, Redis, web, worker, beat and the home site's "
        "agent; with --lab, an agent in each of the lab's namespaces. Restarts processes that die."
    )
    requires_system_checks: list[str] = []

    def add_arguments(self, parser: ArgumentParser) -> None:
        what = parser.add_mutually_exclusive_group()
        what.add_argument(
            "--lab",
            nargs="?",
            const=DEFAULT_SCENARIO,
            metavar="SCENARIO",
            help=f"run a lab of emulated sites; without a name {DEFAULT_SCENARIO}",
        )
        what.add_argument("--mesh", type=Path, metavar="FILE", help="apply this mesh.toml first")
        parser.add_argument(
            "--limits", type=Path, metavar="FILE", help="limits.toml of the home site's agent, kept for later runs"
        )
        parser.add_argument("--data", type=Path, metavar="DIR", help="data folder (default: SOUNDINGS_DATA, or data)")
        parser.add_argument(
            "--port", type=int, default=8000, metavar="N", help="port of the web interface (default 8000)"
        )
        parser.add_argument(
            "--bind",
            type=_address,
            metavar="ADDRESS",
            help="serve on this address too, for a proxy with TLS on another machine (default: loopback only)",
        )
        parser.add_argument(
            "--ipv6-only",
            action="store_true",
            help="serve on ::1 instead of 127.0.0.1, and give the sites of a lab IPv6 addresses alone",
        )

    def handle(
        self,
        *,
        lab: str | None,
        mesh: Path | None,
        limits: Path | None,
        data: Path | None,
        port: int,
        bind: str | None = None,
        ipv6_only: bool = False,
        **_: Any,
    ) -> None:
        folder = (data or settings.DATA_DIR).resolve()
        os.umask(UMASK)
        stop = threading.Event()
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, lambda *_: stop.set())
        try:
            with _only_one(folder):
                loopback = LOOPBACK_IPV6 if ipv6_only else LOOPBACK
                require_free_port(port, loopback, bind or loopback)
                if mesh is not None:
                    reader.read(mesh)
                read_limits(limits)
                stack = Stack.in_folder(folder, port, self._say, stop, bind or loopback, ipv6_only=ipv6_only)
                self._run(stack, lab, mesh, limits, stop)
        except (StartError, PostgresError, LabError, BrokerError, LimitsError, reader.MeshError) as error:
            if not stop.is_set():
                raise CommandError(str(error)) from error

    def _run(
        self, stack: Stack, lab: str | None, mesh: Path | None, limits: Path | None, stop: threading.Event
    ) -> None:
        started = time.monotonic()
        took = (
            "usually half a minute" if (stack.data / "postgres").exists() else "the first start usually takes a minute"
        )
        self._say(f"starting Soundings ({took}); data: {stack.data}, logs: {stack.data / 'log'}")
        steps: tuple[Callable[[], None], ...] = (
            stack.close,
            stack.keep_url,
            stack.start_database,
            stack.start_broker,
            lambda: self._start_sites(stack, lab, mesh, limits),
        )
        try:
            for step in steps:
                if stop.is_set():
                    return
                step()
            self._say(
                f"web interface: {stack.url}/   (ready after {time.monotonic() - started:.0f} s; Ctrl-C stops all)"
            )
            if stack.has_lab:
                self._say(break_hint(stack))
            stack.supervisor.run_until(stop)
        finally:
            self._say("stopping")
            stack.stop()
            self._say(f"stopped; data kept in {stack.data}")

    def _start_sites(self, stack: Stack, lab: str | None, mesh: Path | None, limits: Path | None) -> None:
        if lab is not None:
            self._start_lab(stack, lab)
            return
        if mesh is not None:
            stack.apply_mesh(mesh)
        stack.start_centre()
        home = stack.home_site()
        if home is None:
            self._say('no agent here: write [mesh] home = "SITE" into your mesh.toml and start with --mesh FILE')
            return
        stack.issue_tokens([home])
        if limits is not None:
            stack.keep_limits(home, read_text(limits))
        stack.start_agent(home)

    def _start_lab(self, stack: Stack, scenario: str) -> None:
        lab = load_scenario(scenario)
        reason = namespaces_available()
        if reason is not None:
            self._say(f"no namespaces here ({reason}): the same sites on loopback addresses, without emulated delays")
        mesh = stack.data / "lab" / "mesh.toml"
        mesh.parent.mkdir(parents=True, exist_ok=True)
        families = (6,) if stack.ipv6_only else (4,)
        addresses = namespace_addresses(lab, families) if reason is None else loopback_addresses(lab)
        mesh.write_text(mesh_toml(lab, addresses))
        stack.apply_mesh(mesh)
        if reason is None:
            stack.environment["SOUNDINGS_LAB_DIR"] = str(stack.data / "lab")
        stack.start_centre()
        stack.issue_tokens(list(lab.site_names))
        if reason is None:
            stack.start_lab(scenario)
        for site in lab.site_names:
            stack.keep_limits(site, limits_toml(addresses))
            stack.start_agent(site, in_lab=reason is None)

    def _say(self, line: str) -> None:
        # A closed terminal must not prevent the shutdown.
        with suppress(OSError):
            self.stdout.write(line)
            self.stdout.flush()


def break_hint(stack: Stack) -> str:
    """The command that breaks a lab path, with the folder if unusual."""
    run_dir = stack.data / "lab"
    # Not by SOUNDINGS_DATA: this process sets it for others, and the user's terminal has it not.
    option = breaks.run_dir_option(run_dir, default_data())
    source, destination = sorted(control.read_state(run_dir).sites)[:2]
    return (
        f"Break something: {probes_command()} lab set {source} {destination} --loss 0.2 --watch{option}   "
        f"(or at {stack.url}/lab/)"
    )


@contextmanager
def _only_one(folder: Path) -> Iterator[None]:
    """Lock the data folder. Raises `StartError` when another `up` holds it."""
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "up.lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise StartError(f"{folder}: Soundings runs there already; stop it, or use another --data") from error
        lock.write(str(os.getpid()))
        lock.flush()
        yield


def _address(text: str) -> str:
    try:
        return str(ipaddress.ip_address(text))
    except ValueError as error:
        raise ArgumentTypeError(f"{error}; write for example 192.0.2.7") from error
