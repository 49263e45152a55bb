"""`python -m probes lab …`: the lab's commands. Exit status: 0 done, 1 failed, 2 usage."""

from __future__ import annotations

import argparse
import math
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import msgspec

from probes.commands.own_command import probes_command
from probes.commands.subcommands import add_subcommand, ratio
from probes.lab import breaks, control
from probes.lab.mesh import loopback_addresses, mesh_toml, namespace_addresses
from probes.lab.namespaces import enter, repository_environment
from probes.lab.process import run_lab
from probes.lab.routing.command import add_route_arguments, route
from probes.lab.routing.topology import resolve_link
from probes.lab.scenario import (
    DEFAULT_SCENARIO,
    load_scenario,
    resolve_path,
    resolve_site,
    shipped_scenarios,
)
from probes.lab.settings import LabError
from probes.lab.sites import add_site_arguments, change_site
from probes.lab.status_table import status_text, summary

LOG_FILE = "lab.log"
START_TIMEOUT_S = 30.0
END_TIMEOUT_S = 10.0
POLL_S = 0.05
SEED_BITS = 32
UNLIMITED = "unlimited"
SETTING_OPTIONS = {
    "delay_ms": ("--delay-ms", "one-way delay, ms; of a path with routers, in addition to its links"),
    "jitter_ms": ("--jitter-ms", "delay variation, ± ms; keeps packet order"),
    "loss_ratio": ("--loss", "random loss, such as 0.2 or 20%%"),
    "rate_mbps": ("--rate-mbps", f'bottleneck rate, Mbit/s, or "{UNLIMITED}"'),
    "queue_ms": ("--queue-ms", "maximum delay of the bottleneck queue, ms"),
    "policer_mbps": ("--policer-mbps", f'policer rate, Mbit/s, or "{UNLIMITED}"'),
    "policer_bytes": ("--policer-bytes", "depth of the policer's token bucket, bytes"),
    "policer_cell_bytes": ("--policer-cell-bytes", "policed cell size, bytes; 0 polices whole packets"),
    "reorder_ratio": ("--reorder", "ratio of packets delayed so that later packets overtake them, such as 0.2 or 20%%"),
    "reorder_hold_ms": ("--reorder-hold-ms", "delay of reordered packets, ms"),
    "duplicate_ratio": ("--duplicate", "ratio of duplicated packets, such as 0.2 or 20%%"),
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    subparsers = parser.add_subparsers(dest="verb", metavar="VERB", required=True)
    for name, action, add, description in (
        ("up", up, _add_up_arguments, "start a lab"),
        ("status", status, _add_status_arguments, "show settings and counters of every path"),
        ("down", down, None, "stop the lab"),
        ("set", change, _add_set_arguments, "change path settings of a running lab, to break a path and mend it"),
        ("site", change_site, add_site_arguments, "take a site down: all its paths lose every packet; or up again"),
        ("route", route, add_route_arguments, "change the route of a path of a running lab, or show all routes"),
        ("undo", breaks.undo, _add_undo_arguments, "restore the scenario's settings and routes of a path, or all"),
        ("reset-counters", reset_counters, None, "reset the counters of every path"),
        ("exec", execute, _add_exec_arguments, "run a command at a site"),
        ("mesh", mesh, _add_mesh_arguments, "print the mesh.toml of a scenario"),
    ):
        verb = add_subcommand(subparsers, name, description)
        verb.set_defaults(act=action)
        if name != "mesh":
            verb.add_argument(
                "--run-dir",
                type=Path,
                default=control.default_run_dir() if name == "up" else control.find_run_dir(),
                help="run folder of the lab (default %(default)s)",
            )
        if add is not None:
            add(verb)


def run(arguments: argparse.Namespace) -> int:
    try:
        act: Callable[[argparse.Namespace], int] = arguments.act
        return act(arguments)
    except LabError as error:
        print(f"lab: {error}", file=sys.stderr)
        return 1


def up(arguments: argparse.Namespace) -> int:
    """Start a lab, with `--foreground` in this process."""
    scenario = load_scenario(arguments.scenario)
    if not arguments.foreground:
        return _start_in_background(arguments)
    seeds = (arguments.seed, scenario.seed, random.SystemRandom().getrandbits(SEED_BITS))
    seed = next(candidate for candidate in seeds if candidate is not None)
    run_lab(
        scenario,
        arguments.run_dir.absolute(),
        seed=seed,
        centre_socket=None if arguments.centre_socket is None else str(arguments.centre_socket.absolute()),
        centre_port=arguments.centre_port,
        families=(6,) if arguments.ipv6_only else (4, 6),
        ready=lambda state: print(f"lab ready: {summary(state)}", flush=True),
    )
    return 0


def status(arguments: argparse.Namespace) -> int:
    now = control.ask_status(arguments.run_dir)
    print(msgspec.json.format(msgspec.json.encode(now)).decode() if arguments.json else status_text(now))
    return 0


def down(arguments: argparse.Namespace) -> int:
    state = control.read_state(arguments.run_dir)
    inside = _processes_inside(state)
    control.ask(arguments.run_dir, control.DownRequest())
    deadline = time.monotonic() + END_TIMEOUT_S
    while Path(f"/proc/{state.pid}").exists() and _runs(arguments.run_dir):
        if time.monotonic() > deadline:
            raise LabError(f"the lab did not stop within {END_TIMEOUT_S:.0f} s: run `kill {state.pid}`")
        time.sleep(POLL_S)
    print(f"lab {state.scenario} stopped")
    for pid, site in inside:
        if Path(f"/proc/{pid}").exists():
            print(f"  pid {pid} at {site} is still running, without a network")
    return 0


def change(arguments: argparse.Namespace) -> int:
    changes = {name: getattr(arguments, name) for name in SETTING_OPTIONS if getattr(arguments, name) is not None}
    changes = {name: None if value == UNLIMITED else value for name, value in changes.items()}
    if arguments.link is not None:
        breaks.check_link_options(arguments)
    if not arguments.path and arguments.link is None and (changes or arguments.rtt_ms is not None or arguments.watch):
        raise LabError("give the path to change: SRC-DST")
    if not changes and arguments.rtt_ms is None and arguments.centre is None:
        raise LabError(f"nothing to set: see `{probes_command()} lab set --help`")
    if arguments.link is not None and changes:
        link = resolve_link(arguments.link, control.ask_status(arguments.run_dir).link_names)
        for request in _set_requests(*link, changes, arguments):
            control.ask(arguments.run_dir, request)
            print(f"{request.source} → {request.destination}: {breaks.settings_text(request.changes)}")
        option = breaks.run_dir_option(arguments.run_dir)
        print(f"undo: {probes_command()} lab undo{option} --link {arguments.link}")
    if arguments.path:
        state = control.read_state(arguments.run_dir)
        pair = resolve_path(":".join(arguments.path), state.sites)
        began = datetime.now(UTC)
        requests = _set_requests(*pair, changes, arguments)
        for request in requests:
            control.ask(arguments.run_dir, request)
        now = control.ask_status(arguments.run_dir)
        routed = {(path.source, path.destination) for path in now.routes}
        for request in requests:
            text = breaks.change_text(request.changes, is_routed=(request.source, request.destination) in routed)
            print(f"{request.source} → {request.destination}: {text}")
        broken = [path for path in breaks.broken_paths(now) if path.joins(pair)]
        effect, wait_s = breaks.expected_effect(state, path=":".join(pair))
        if broken:
            print("\n".join(breaks.expectation(arguments.run_dir, effect, pair, is_watched=arguments.watch)))
        if arguments.watch:
            # The same value again keeps the time of the first.
            began = min((path.changed_at or began for path in broken), default=began)
            return breaks.watch(state, pair, began, wait_s)
    if arguments.centre is not None:
        control.ask(arguments.run_dir, control.CentreRequest(up=arguments.centre == "up"))
        print(f"centre: {arguments.centre}")
    return 0


def reset_counters(arguments: argparse.Namespace) -> int:
    control.ask(arguments.run_dir, control.ResetCountersRequest())
    return 0


def execute(arguments: argparse.Namespace) -> int:
    """Execute the command in the site's namespace, in this process."""
    if not arguments.argv:
        raise LabError(f"give a command: {probes_command()} lab exec SITE CMD…")
    state = control.read_state(arguments.run_dir)
    site = state.sites[resolve_site(arguments.site, state.sites)]
    if arguments.end_with_lab:
        control.signal_when_lab_ends(arguments.run_dir, signal.SIGTERM)
    user_fd = None if state.user_fd is None else _open_namespace(state, state.user_fd)
    enter(_open_namespace(state, site.net_fd), user_fd)
    for number in (signal.SIGPIPE, signal.SIGXFSZ):
        # Python ignores these signals; the command would inherit this.
        signal.signal(number, signal.SIG_DFL)
    try:
        os.execvp(arguments.argv[0], arguments.argv)
    except OSError as error:
        raise LabError(f"{arguments.argv[0]}: {error.strerror}") from error


def mesh(arguments: argparse.Namespace) -> int:
    scenario = load_scenario(arguments.scenario)
    families = (6,) if arguments.ipv6_only else (4, 6) if arguments.ipv6 else (4,)
    addresses = loopback_addresses(scenario) if arguments.loopback else namespace_addresses(scenario, families)
    print(mesh_toml(scenario, addresses), end="")
    return 0


def _add_scenario(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "scenario",
        nargs="?",
        default=DEFAULT_SCENARIO,
        metavar="SCENARIO",
        help=f"{', '.join(shipped_scenarios())}, or the path of a file (default %(default)s)",
    )


def _add_up_arguments(parser: argparse.ArgumentParser) -> None:
    _add_scenario(parser)
    parser.add_argument("--foreground", action="store_true", help="run in the foreground until SIGTERM or Ctrl-C")
    parser.add_argument("--centre-socket", type=Path, metavar="PATH", help="Unix socket of the centre's web server")
    parser.add_argument(
        "--centre-port",
        type=int,
        default=8000,
        metavar="N",
        help="port on 127.0.0.1, or on ::1 with --ipv6-only, at each site for the centre (default %(default)s)",
    )
    parser.add_argument("--ipv6-only", action="store_true", help="give the sites no IPv4 address")
    parser.add_argument("--seed", type=int, metavar="N", help="random seed, for reproducible runs")


def _add_status_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--json", action="store_true", help="print JSON")


def _add_set_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("path", nargs="*", metavar="SRC DST", help="path to change (or SRC-DST, SRC:DST)")
    parser.add_argument("--link", metavar="A-B", help="change a link between routers instead (or A:B)")
    delay = parser.add_mutually_exclusive_group()
    delay.add_argument(
        "--rtt-ms", type=_number, metavar="N", help="RTT, ms: sets the delay of both directions to half of it"
    )
    for name, (option, meaning) in SETTING_OPTIONS.items():
        group = delay if name == "delay_ms" else parser
        group.add_argument(option, dest=name, type=_reader(name), metavar="N", help=meaning)
    parser.add_argument("--both", action="store_true", help="change the reverse direction too")
    parser.add_argument("--watch", action="store_true", help="wait for the incident, and print how long it took")
    parser.add_argument("--centre", choices=["up", "down"], help="connect the sites to the centre, or disconnect them")


def _add_undo_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("path", nargs="*", metavar="SRC DST", help="path, both directions (default: everything)")
    parser.add_argument("--link", metavar="A-B", help="a link instead, both directions")
    parser.add_argument("--watch", action="store_true", help="wait until the open incidents are resolved")


def _add_exec_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--end-with-lab", action="store_true", help="send the command SIGTERM when the lab ends")
    parser.add_argument("site", metavar="SITE", help="site of the lab")
    parser.add_argument("argv", nargs=argparse.REMAINDER, metavar="CMD…", help="the command and its arguments")


def _add_mesh_arguments(parser: argparse.ArgumentParser) -> None:
    _add_scenario(parser)
    hosts = parser.add_mutually_exclusive_group()
    hosts.add_argument("--loopback", action="store_true", help="use loopback addresses, without emulated paths")
    hosts.add_argument("--ipv6", action="store_true", help="add an IPv6 host for ping to each site")
    hosts.add_argument("--ipv6-only", action="store_true", help="IPv6 addresses alone, as of `lab up --ipv6-only`")


def _reader(setting: str) -> Callable[[str], float | str]:
    if setting.endswith("_mbps"):
        return _rate
    if setting.endswith("_ratio"):
        return ratio
    return int if setting.endswith("_bytes") else _number


def _rate(written: str) -> float | str:
    return UNLIMITED if written == UNLIMITED else _number(written)


def _number(written: str) -> float:
    try:
        number = float(written)
    except ValueError:
        number = math.nan
    if not math.isfinite(number):
        raise argparse.ArgumentTypeError(f'"{written}" is not a number')
    return number


def _start_in_background(arguments: argparse.Namespace) -> int:
    run_dir: Path = arguments.run_dir.absolute()
    control.make_run_dir(run_dir)
    if _runs(run_dir):
        raise LabError(
            f"a lab is already running in {run_dir}: stop it with `{probes_command()} lab down`, "
            "or use another --run-dir"
        )
    log = run_dir / LOG_FILE
    with log.open("wb") as output:
        process = subprocess.Popen(
            [sys.executable, "-m", "probes", "lab", "up", "--foreground", *_up_options(arguments, run_dir)],
            env=repository_environment(),
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    deadline = time.monotonic() + START_TIMEOUT_S
    while not _runs(run_dir):
        if process.poll() is not None:
            raise LabError(
                log.read_text().strip().removeprefix("lab: ") or f"the lab exited with status {process.returncode}"
            )
        if time.monotonic() > deadline:
            process.terminate()
            raise LabError(f"the lab was not ready within {START_TIMEOUT_S:.0f} s: see {log}")
        time.sleep(POLL_S)
    state = control.read_state(run_dir)
    print(f"lab ready: {summary(state)}")
    for name, site in state.sites.items():
        print(f"  {name:<{max(map(len, state.sites))}}  {'  '.join(site.addresses)}  {site.title}")
    return 0


def _up_options(arguments: argparse.Namespace, run_dir: Path) -> list[str]:
    options = [arguments.scenario, "--run-dir", str(run_dir), "--centre-port", str(arguments.centre_port)]
    if arguments.centre_socket is not None:
        options += ["--centre-socket", str(arguments.centre_socket.absolute())]
    if arguments.seed is not None:
        options += ["--seed", str(arguments.seed)]
    return options


def _runs(run_dir: Path) -> bool:
    try:
        control.read_state(run_dir)
    except LabError:
        return False
    return True


def _set_requests(
    source: str, destination: str, changes: dict[str, float | int | None], arguments: argparse.Namespace
) -> list[control.SetRequest]:
    half = {} if arguments.rtt_ms is None else {"delay_ms": arguments.rtt_ms / 2}
    there = {**changes, **half}
    back = there if arguments.both else half
    is_link = arguments.link is not None
    requests = [control.SetRequest(source=source, destination=destination, changes=there, is_link=is_link)]
    if back:
        requests.append(control.SetRequest(source=destination, destination=source, changes=back, is_link=is_link))
    return requests


def _open_namespace(state: control.LabState, fd: int) -> int:
    path = f"/proc/{state.pid}/fd/{fd}"
    try:
        return os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError as error:
        raise LabError(f"{path}: {error.strerror}; run as the user who started the lab") from error


def _processes_inside(state: control.LabState) -> list[tuple[int, str]]:
    """Pid and site; may include the lab's forwarding process."""
    namespaces = {}
    for name, site in state.sites.items():
        namespaces[os.stat(_open_namespace(state, site.net_fd)).st_ino] = name
    processes = []
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit() or int(entry.name) == state.pid:
            continue
        try:
            inode = (entry / "ns" / "net").stat().st_ino
        except OSError:
            # The process has ended, or belongs to another user and so not to this lab.
            continue
        if inode in namespaces:
            processes.append((int(entry.name), namespaces[inode]))
    return processes
