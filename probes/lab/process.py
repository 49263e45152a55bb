"""The lab's process: namespaces, relay, control socket and the way to the centre, from ready to the end.

In: a scenario and a run folder. Out: a running lab that ends on SIGTERM, SIGINT or `down`. Everything it made lives in
its descriptors, so that even kill -9 leaves nothing behind but two small files, which the next lab replaces.
"""

from __future__ import annotations

import ctypes
import fcntl
import gc
import os
import signal
import socket
import time
from collections.abc import Callable
from contextlib import ExitStack
from datetime import UTC, datetime
from pathlib import Path
from types import FrameType

import msgspec

from probes.lab import control
from probes.lab.centre import CentreForwarder
from probes.lab.mesh import namespace_addresses
from probes.lab.namespaces import WAN_INTERFACE, SiteNamespace, build_site, enter, leave_for_new_namespaces
from probes.lab.relay import Relay
from probes.lab.scenario import LabError, PathSettings, Scenario

PR_SET_TIMERSLACK = 29
TRANSMIT_DROPPED_COLUMN = 11
NICENESS = -10


def run_lab(
    scenario: Scenario,
    run_dir: Path,
    *,
    seed: int,
    centre_socket: str | None = None,
    centre_port: int = 8000,
    ready: Callable[[control.LabState], None],
) -> None:
    """Run the lab in this process, of one thread, until it is told to end; `ready` is called when packets flow.

    Raises `LabError` where it cannot start.
    """
    control.make_run_dir(run_dir)
    with ExitStack() as cleanup:
        _take_lock(run_dir, cleanup)
        user_fd = leave_for_new_namespaces()
        port = None if centre_socket is None else centre_port
        addresses = namespace_addresses(scenario, ipv6=True)
        sites = [build_site(name, addresses[name], centre_port=port) for name in scenario.site_names]
        listeners = [site.centre_listener for site in sites if site.centre_listener is not None]
        forwarder = None if centre_socket is None else CentreForwarder(listeners, centre_socket)
        relay = Relay(sites, scenario.paths, seed)
        state = control.LabState(
            pid=os.getpid(),
            scenario=scenario.name,
            title=scenario.title,
            seed=seed,
            started_at=datetime.now(UTC),
            user_fd=user_fd,
            scheduling=_keep_time(),
            control_socket=str(run_dir / control.CONTROL_SOCKET),
            centre_port=port,
            sites=_site_states(scenario, sites),
        )
        _attend(state, sites, relay, forwarder, run_dir, cleanup)
        ready(state)
        gc.freeze()
        relay.run()


def _attend(
    state: control.LabState,
    sites: list[SiteNamespace],
    relay: Relay,
    forwarder: CentreForwarder | None,
    run_dir: Path,
    cleanup: ExitStack,
) -> None:
    """Have the relay's loop look after requests, signals and the forwarding process as well."""
    lab = _Lab(state, sites, relay, forwarder)
    server = control.ControlServer(run_dir / control.CONTROL_SOCKET, relay, lab.answer)
    cleanup.callback(server.close)
    control.write_state(run_dir, state)
    cleanup.callback((run_dir / control.STATE_FILE).unlink, missing_ok=True)
    _stop_on_signals(relay, cleanup)
    if forwarder is not None:
        _mind(forwarder, relay)
        # Ends first: `down` takes whatever is left when the lab answers no more for a command at a site.
        cleanup.callback(forwarder.stop)


class _Lab:
    """Answers the requests of the control socket."""

    def __init__(
        self,
        state: control.LabState,
        sites: list[SiteNamespace],
        relay: Relay,
        forwarder: CentreForwarder | None,
    ) -> None:
        self._state = state
        self._sites = sites
        self._relay = relay
        self._forwarder = forwarder
        self._started_s = time.monotonic()

    def answer(self, request: control.Request) -> control.Reply:
        """Do what is asked. Raises `LabError` for the one who asked."""
        match request:
            case control.StatusRequest():
                return control.Reply(status=self._status())
            case control.SetRequest():
                self._set(request)
            case control.CentreRequest():
                self._set_centre(request.up)
            case control.ResetCountersRequest():
                self._relay.reset_counters()
            case control.DownRequest():
                self._relay.stop()
        return control.Reply()

    def _set(self, request: control.SetRequest) -> None:
        path = self._relay.paths.get((request.source, request.destination))
        if path is None:
            raise LabError(f"there is no path from {request.source} to {request.destination}")
        values = {**msgspec.structs.asdict(path.settings), **request.changes}
        try:
            path.change(msgspec.convert(values, PathSettings))
        except msgspec.ValidationError as error:
            raise LabError(str(error).replace("`$.", "`")) from error

    def _set_centre(self, up: bool) -> None:
        if self._forwarder is None:
            raise LabError("this lab has no way to a centre: start it with --centre-socket")
        self._forwarder.set_up(up)

    def _status(self) -> control.Status:
        held, unroutable = self._relay.held(), self._relay.unroutable()
        return control.Status(
            lab=self._state,
            uptime_s=time.monotonic() - self._started_s,
            centre=None if self._forwarder is None else "up" if self._forwarder.up else "down",
            timing=control.Timing(
                late_over_1ms=self._relay.late_over_1ms,
                latest_ms=self._relay.latest_s * 1e3,
                late_s=self._relay.late_s,
                cpu_s=time.process_time(),
                waited_s=_waited_s(),
            ),
            sites=tuple(
                control.SiteStatus(
                    name=site.name,
                    addresses=site.addresses,
                    unroutable=unroutable[site.name],
                    overrun=_overrun(site.net_fd),
                )
                for site in self._sites
            ),
            paths=tuple(
                control.PathStatus(
                    source=path.source,
                    destination=path.destination,
                    settings=path.settings,
                    counts=path.counts,
                    held=held[pair],
                )
                for pair, path in self._relay.paths.items()
            ),
        )


def _take_lock(run_dir: Path, cleanup: ExitStack) -> None:
    lock = cleanup.enter_context((run_dir / control.LOCK_FILE).open("w"))
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise LabError(
            f"a lab runs in {run_dir} already: end it with `python -m probes lab down`, or use another --run-dir"
        ) from None


def _site_states(scenario: Scenario, sites: list[SiteNamespace]) -> dict[str, control.SiteState]:
    return {
        place.name: control.SiteState(title=place.title, addresses=site.addresses, net_fd=site.net_fd)
        for place, site in zip(scenario.sites, sites, strict=True)
    }


def _keep_time() -> str:
    """Have this process woken on time, as far as it may ask for that. Returns what it got."""
    ctypes.CDLL(None).prctl(PR_SET_TIMERSLACK, 1, 0, 0, 0)
    try:
        os.sched_setscheduler(0, os.SCHED_RR | os.SCHED_RESET_ON_FORK, os.sched_param(1))
        return "real-time"
    except OSError:
        return _be_favoured()


def _waited_s() -> float | None:
    """How long this process was ready to run and had no processor (/proc/PID/schedstat, second field)."""
    try:
        return int(Path("/proc/self/schedstat").read_text().split()[1]) / 1e9
    except FileNotFoundError:
        return None


def _be_favoured() -> str:
    try:
        os.setpriority(os.PRIO_PROCESS, 0, NICENESS)
        return f"nice {NICENESS}"
    except OSError:
        return "normal"


def _mind(forwarder: CentreForwarder, relay: Relay) -> None:
    """Start the forwarding process again whenever it ends."""

    def restart() -> None:
        del relay.readers[forwarder.channel_fd]
        forwarder.restart()
        relay.readers[forwarder.channel_fd] = restart

    relay.readers[forwarder.channel_fd] = restart


def _stop_on_signals(relay: Relay, cleanup: ExitStack) -> None:
    """Let SIGTERM and SIGINT end the loop, even while it waits."""
    woken, waker = socket.socketpair()
    for end in (woken, waker):
        end.setblocking(False)
        cleanup.callback(end.close)

    def stop(number: int, frame: FrameType | None) -> None:
        relay.stop()

    for number in (signal.SIGTERM, signal.SIGINT):
        cleanup.callback(signal.signal, number, signal.signal(number, stop))
    cleanup.callback(signal.set_wakeup_fd, signal.set_wakeup_fd(waker.fileno()))

    def drain() -> None:
        woken.recv(64)

    relay.readers[woken.fileno()] = drain


def _overrun(net_fd: int) -> int:
    """Packets that a site's `wan0` dropped because nobody read them in time. Moves this process into that namespace."""
    enter(net_fd)
    for line in Path("/proc/self/net/dev").read_text().splitlines():
        name, _, columns = line.partition(":")
        if name.strip() == WAN_INTERFACE:
            return int(columns.split()[TRANSMIT_DROPPED_COLUMN])
    raise LabError(f"{WAN_INTERFACE} is gone from a site")
