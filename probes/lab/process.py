"""The lab's process: namespaces, relay, control socket, connection to the centre.

All resources are file descriptors: even kill -9 leaves only two small files.
"""

from __future__ import annotations

import ctypes
import fcntl
import gc
import os
import signal
import socket
import time
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import ExitStack
from datetime import UTC, datetime
from pathlib import Path
from types import FrameType

from probes.commands.own_command import probes_command
from probes.lab import control
from probes.lab.centre import CentreForwarder
from probes.lab.changes import changed_settings
from probes.lab.direct_link import join_sites
from probes.lab.emulated_path import EmulatedPath
from probes.lab.mesh import namespace_addresses
from probes.lab.namespaces import WAN_INTERFACE, SiteNamespace, build_site, enter, gain_namespace_rights
from probes.lab.relay import Relay
from probes.lab.routing.control import RoutingControl
from probes.lab.routing.protocol import RouteRequest
from probes.lab.scenario import Scenario
from probes.lab.settings import LabError

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
    families: Sequence[int] = (4, 6),
    ready: Callable[[control.LabState], None],
) -> None:
    """Run the lab in this single-threaded process; calls `ready` when packets flow. Raises `LabError`."""
    control.make_run_dir(run_dir)
    with ExitStack() as cleanup:
        _take_lock(run_dir, cleanup)
        user_fd = gain_namespace_rights()
        port = None if centre_socket is None else centre_port
        addresses = namespace_addresses(scenario, families)
        routers = [address for router in scenario.topology.routers for address in router.addresses]
        sites = [build_site(name, addresses[name], routers=routers, centre_port=port) for name in scenario.site_names]
        of_name = {site.name: site for site in sites}
        for number, (ends, mtu_bytes) in enumerate(scenario.direct.items()):
            join_sites(number, [of_name[name] for name in ends], mtu_bytes)
        listeners = [site.centre_listener for site in sites if site.centre_listener is not None]
        forwarder = None if centre_socket is None else CentreForwarder(listeners, centre_socket)
        relay = Relay(sites, scenario.paths, seed, scenario.topology)
        state = control.LabState(
            pid=os.getpid(),
            scenario=scenario.name,
            title=scenario.title,
            seed=seed,
            started_at=datetime.now(UTC),
            user_fd=user_fd,
            scheduling=_raise_scheduling_class(),
            control_socket=str(run_dir / control.CONTROL_SOCKET),
            centre_port=port,
            sites=_site_states(scenario, sites),
        )
        _register_handlers(state, sites, relay, forwarder, run_dir, cleanup, scenario.direct)
        ready(state)
        gc.freeze()
        relay.run()


def _register_handlers(
    state: control.LabState,
    sites: list[SiteNamespace],
    relay: Relay,
    forwarder: CentreForwarder | None,
    run_dir: Path,
    cleanup: ExitStack,
    direct: Collection[tuple[str, str]],
) -> None:
    lab = _Lab(state, sites, relay, forwarder, direct)
    server = control.ControlServer(run_dir / control.CONTROL_SOCKET, relay, lab.answer)
    cleanup.callback(server.close)
    control.write_state(run_dir, state)
    cleanup.callback((run_dir / control.STATE_FILE).unlink, missing_ok=True)
    _stop_on_signals(relay, cleanup)
    if forwarder is not None:
        _restart_on_exit(forwarder, relay)
        # Ends first: otherwise `down` would list it as a command still running at a site.
        cleanup.callback(forwarder.stop)


class _Lab:
    def __init__(
        self,
        state: control.LabState,
        sites: list[SiteNamespace],
        relay: Relay,
        forwarder: CentreForwarder | None,
        direct: Collection[tuple[str, str]] = (),
    ) -> None:
        self._direct = frozenset(direct) | {(destination, source) for source, destination in direct}
        self._state = state
        self._sites = sites
        self._relay = relay
        self._forwarder = forwarder
        self._started_s = time.monotonic()
        self._cut_off_at: datetime | None = None
        self._original = {pair: path.settings for pair, path in self._paths_and_links().items()}
        self._changed_at: dict[tuple[str, str], datetime] = {}
        self._routing = RoutingControl(relay.network)

    def answer(self, request: control.Request) -> control.Reply:
        """Execute a request. Raises `LabError` with a message for the client."""
        match request:
            case control.StatusRequest():
                return control.Reply(status=self._status())
            case control.SetRequest():
                self._set(request)
            case RouteRequest():
                self._routing.change(request, datetime.now(UTC))
            case control.CentreRequest():
                self._set_centre(request.up)
            case control.ResetCountersRequest():
                self._relay.reset_counters()
            case control.DownRequest():
                self._relay.stop()
        return control.Reply()

    def _set(self, request: control.SetRequest) -> None:
        paths = self._relay.network.links if request.is_link else self._relay.paths
        path = paths.get((request.source, request.destination))
        if path is None:
            kind = "link" if request.is_link else "path"
            raise LabError(f"no {kind} from {request.source} to {request.destination}")
        if (request.source, request.destination) in self._direct and not request.is_link:
            raise LabError(f"{request.source} and {request.destination} have a direct link, which cannot be changed")
        settings = changed_settings(path.settings, request.changes)
        if settings == path.settings:
            return  # changed_at stays: the time until an incident counts from the first request
        path.change(settings)
        pair = (request.source, request.destination)
        if path.settings == self._original[pair]:
            self._changed_at.pop(pair, None)
        else:
            self._changed_at[pair] = datetime.now(UTC)

    def _paths_and_links(self) -> dict[tuple[str, str], EmulatedPath]:
        # No link joins two sites, so that a pair names either a path or a link.
        return {**self._relay.paths, **self._relay.network.links}

    def _set_centre(self, up: bool) -> None:
        if self._forwarder is None:
            raise LabError("this lab has no connection to a centre: start it with --centre-socket")
        self._forwarder.set_up(up)
        self._cut_off_at = None if up else self._cut_off_at or datetime.now(UTC)

    def _status(self) -> control.LabStatus:
        in_transit, unroutable = self._relay.in_transit(), self._relay.unroutable()
        return control.LabStatus(
            lab=self._state,
            uptime_s=time.monotonic() - self._started_s,
            centre=None if self._forwarder is None else "up" if self._forwarder.up else "down",
            cut_off_at=self._cut_off_at,
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
            paths=self._path_statuses(self._relay.paths, in_transit),
            links=self._path_statuses(self._relay.network.links, in_transit),
            routes=self._routing.routes(),
            routers=self._routing.routers(),
        )

    def _path_statuses(
        self, paths: Mapping[tuple[str, str], EmulatedPath], in_transit: Counter[tuple[str, str]]
    ) -> tuple[control.PathStatus, ...]:
        return tuple(
            control.PathStatus(
                source=path.source,
                destination=path.destination,
                settings=path.settings,
                counts=path.counts,
                held=in_transit[pair],
                original=self._original[pair],
                changed_at=self._changed_at.get(pair),
            )
            for pair, path in paths.items()
        )


def _take_lock(run_dir: Path, cleanup: ExitStack) -> None:
    lock = cleanup.enter_context((run_dir / control.LOCK_FILE).open("w"))
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise LabError(
            f"a lab is already running in {run_dir}: stop it with `{probes_command()} lab down`, "
            "or use another --run-dir"
        ) from None


def _site_states(scenario: Scenario, sites: list[SiteNamespace]) -> dict[str, control.SiteState]:
    return {
        planned.name: control.SiteState(title=planned.title, addresses=site.addresses, net_fd=site.net_fd)
        for planned, site in zip(scenario.sites, sites, strict=True)
    }


def _raise_scheduling_class() -> str:
    ctypes.CDLL(None).prctl(PR_SET_TIMERSLACK, 1, 0, 0, 0)
    try:
        os.sched_setscheduler(0, os.SCHED_RR | os.SCHED_RESET_ON_FORK, os.sched_param(1))
        return "real-time"
    except OSError:
        return _raise_priority()


def _waited_s() -> float | None:
    """Time runnable but not scheduled (/proc/PID/schedstat, second field)."""
    try:
        return int(Path("/proc/self/schedstat").read_text().split()[1]) / 1e9
    except FileNotFoundError:
        return None


def _raise_priority() -> str:
    try:
        os.setpriority(os.PRIO_PROCESS, 0, NICENESS)
        return f"nice {NICENESS}"
    except OSError:
        return "normal"


def _restart_on_exit(forwarder: CentreForwarder, relay: Relay) -> None:
    def restart() -> None:
        del relay.readers[forwarder.channel_fd]
        forwarder.restart()
        relay.readers[forwarder.channel_fd] = restart

    relay.readers[forwarder.channel_fd] = restart


def _stop_on_signals(relay: Relay, cleanup: ExitStack) -> None:
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
    """Packets that `wan0` dropped unread. Enters the site's namespace."""
    enter(net_fd)
    for line in Path("/proc/self/net/dev").read_text().splitlines():
        name, _, columns = line.partition(":")
        if name.strip() == WAN_INTERFACE:
            return int(columns.split()[TRANSMIT_DROPPED_COLUMN])
    raise LabError(f"{WAN_INTERFACE} missing at a site")
