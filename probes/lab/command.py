"""`python -m probes lab …`: start, watch, change and end a lab, run commands at its sites, print its mesh.toml.

In: the command line. Out: text for people, or JSON with `--json`. Exit status 0 done, 1 could not, 2 usage. The lab
itself is `probes.lab.process`; what is said to it goes through `probes.lab.control`.
"""

from __future__ import annotations

import argparse
import math
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec

from probes.lab import control
from probes.lab.mesh import loopback_addresses, mesh_toml, namespace_addresses
from probes.lab.namespaces import enter, repository_environment
from probes.lab.process import run_lab
from probes.lab.scenario import (
    DEFAULT_SCENARIO,
    LabError,
    load_scenario,
    resolve_path,
    resolve_site,
    shipped_scenarios,
)

LOG_FILE = "lab.log"
START_TIMEOUT_S = 30.0
END_TIMEOUT_S = 10.0
POLL_S = 0.05
SEED_BITS = 32
UNLIMITED = "unlimited"
TABLE_HEADER = (
    "path", "delay_ms", "±", "loss", "Mbit/s", "queue_ms", "policer", "reorder", "dupl",
    "received", "forwarded", "lost", "queue drops", "policed", "duplicated", "reordered", "failed", "held",
)  # fmt: skip
SETTING_OPTIONS = {
    "delay_ms": ("--delay-ms", "one-way delay, ms"),
    "jitter_ms": ("--jitter-ms", "the delay wanders by up to ± this, ms; never reorders"),
    "loss_ratio": ("--loss", "share of packets dropped at random, 0 to 1"),
    "rate_mbps": ("--rate-mbps", f'bottleneck rate, Mbit/s, or "{UNLIMITED}"'),
    "queue_ms": ("--queue-ms", "longest wait in the queue before the bottleneck, ms"),
    "policer_mbps": ("--policer-mbps", f'rate above which packets are dropped, Mbit/s, or "{UNLIMITED}"'),
    "policer_bytes": ("--policer-bytes", "depth of the policer's bucket, bytes"),
    "policer_cell_bytes": ("--policer-cell-bytes", "size of the cells that it judges, bytes; 0 judges whole packets"),
    "reorder_ratio": ("--reorder", "share of packets held back so that later ones overtake them, 0 to 1"),
    "reorder_hold_ms": ("--reorder-hold-ms", "how long those are held back, ms"),
    "duplicate_ratio": ("--duplicate", "share of packets delivered twice, 0 to 1"),
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the lab's subcommands to `parser`."""
    subparsers = parser.add_subparsers(dest="verb", metavar="VERB", required=True)
    for name, action, add, summary in (
        ("up", up, _add_up_arguments, "start a lab"),
        ("status", status, _add_status_arguments, "every path's settings and what the relay counted"),
        ("down", down, None, "end the lab"),
        ("set", change, _add_set_arguments, "change paths while the lab runs"),
        ("reset-counters", reset_counters, None, "count from zero"),
        ("exec", execute, _add_exec_arguments, "run a command at a site"),
        ("mesh", mesh, _add_mesh_arguments, "print the mesh.toml of a scenario"),
    ):
        verb = subparsers.add_parser(name, help=summary, description=f"{summary.capitalize()}.")
        verb.set_defaults(act=action)
        if name != "mesh":
            verb.add_argument(
                "--run-dir",
                type=Path,
                default=control.default_run_dir(),
                help="folder of the lab (default %(default)s)",
            )
        if add is not None:
            add(verb)


def run(arguments: argparse.Namespace) -> int:
    """Do what the command line says; returns the exit status."""
    try:
        act: Callable[[argparse.Namespace], int] = arguments.act
        return act(arguments)
    except LabError as error:
        print(f"lab: {error}", file=sys.stderr)
        return 1


def up(arguments: argparse.Namespace) -> int:
    """Start a lab, in this process with `--foreground`, otherwise in one of its own."""
    scenario = load_scenario(arguments.scenario)
    if not arguments.foreground:
        return _start_in_background(arguments)
    seed = next(
        each
        for each in (arguments.seed, scenario.seed, random.SystemRandom().getrandbits(SEED_BITS))
        if each is not None
    )
    run_lab(
        scenario,
        arguments.run_dir.absolute(),
        seed=seed,
        centre_socket=None if arguments.centre_socket is None else str(arguments.centre_socket.absolute()),
        centre_port=arguments.centre_port,
        ready=lambda state: print(f"lab ready: {_summary(state)}", flush=True),
    )
    return 0


def status(arguments: argparse.Namespace) -> int:
    """Print the table of all ordered paths, or all there is as JSON."""
    now = control.ask_status(arguments.run_dir)
    print(msgspec.json.format(msgspec.json.encode(now)).decode() if arguments.json else _status_text(now))
    return 0


def down(arguments: argparse.Namespace) -> int:
    """End the lab and wait until it has ended."""
    state = control.read_state(arguments.run_dir)
    inside = _processes_inside(state)
    control.ask(arguments.run_dir, control.DownRequest())
    deadline = time.monotonic() + END_TIMEOUT_S
    while Path(f"/proc/{state.pid}").exists() and _runs(arguments.run_dir):
        if time.monotonic() > deadline:
            raise LabError(f"the lab (pid {state.pid}) has not ended after {END_TIMEOUT_S:.0f} s: kill {state.pid}")
        time.sleep(POLL_S)
    print(f"lab {state.scenario} has ended")
    for pid, site in inside:
        if Path(f"/proc/{pid}").exists():
            print(f"  still running where {site} was, without a network: pid {pid}")
    return 0


def change(arguments: argparse.Namespace) -> int:
    """Change settings of a path, or the way to the centre, while the lab runs."""
    changes = {name: getattr(arguments, name) for name in SETTING_OPTIONS if getattr(arguments, name) is not None}
    changes = {name: None if value == UNLIMITED else value for name, value in changes.items()}
    if arguments.path is None and (changes or arguments.rtt_ms is not None):
        raise LabError("say which path to change: SRC-DST")
    if not changes and arguments.rtt_ms is None and arguments.centre is None:
        raise LabError("nothing to set: see `python -m probes lab set --help`")
    if arguments.path is not None:
        source, destination = resolve_path(arguments.path, control.read_state(arguments.run_dir).sites)
        for request in _set_requests(source, destination, changes, arguments):
            control.ask(arguments.run_dir, request)
            print(f"{request.source} → {request.destination}: {_changes_text(request.changes)}")
    if arguments.centre is not None:
        control.ask(arguments.run_dir, control.CentreRequest(up=arguments.centre == "up"))
        print(f"centre: {arguments.centre}")
    return 0


def reset_counters(arguments: argparse.Namespace) -> int:
    """Count from zero."""
    control.ask(arguments.run_dir, control.ResetCountersRequest())
    return 0


def execute(arguments: argparse.Namespace) -> int:
    """Become the command, in the site's namespace. Returns only if it cannot."""
    if not arguments.argv:
        raise LabError("say what to run: python -m probes lab exec SITE CMD…")
    state = control.read_state(arguments.run_dir)
    site = state.sites[resolve_site(arguments.site, state.sites)]
    if arguments.end_with_lab:
        control.signal_at_the_end(arguments.run_dir, signal.SIGTERM)
    user_fd = None if state.user_fd is None else _open_namespace(state, state.user_fd)
    enter(_open_namespace(state, site.net_fd), user_fd)
    for number in (signal.SIGPIPE, signal.SIGXFSZ):
        # Python ignores these, and the command would inherit that.
        signal.signal(number, signal.SIG_DFL)
    try:
        os.execvp(arguments.argv[0], arguments.argv)
    except OSError as error:
        raise LabError(f"{arguments.argv[0]}: {error.strerror}") from error


def mesh(arguments: argparse.Namespace) -> int:
    """Print the mesh.toml of a scenario."""
    scenario = load_scenario(arguments.scenario)
    if arguments.loopback:
        addresses = loopback_addresses(scenario)
    else:
        addresses = namespace_addresses(scenario, ipv6=arguments.ipv6)
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
    parser.add_argument("--foreground", action="store_true", help="stay until SIGTERM or Ctrl-C")
    parser.add_argument("--centre-socket", type=Path, metavar="PATH", help="Unix socket of the centre's web server")
    parser.add_argument(
        "--centre-port",
        type=int,
        default=8000,
        metavar="N",
        help="port on 127.0.0.1 at each site that leads to it (default %(default)s)",
    )
    parser.add_argument("--seed", type=int, metavar="N", help="makes the random choices repeatable")


def _add_status_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--json", action="store_true", help="all there is, as JSON")


def _add_set_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("path", nargs="?", metavar="SRC-DST", help="the direction to change (SRC:DST is read too)")
    delay = parser.add_mutually_exclusive_group()
    delay.add_argument(
        "--rtt-ms", type=_number, metavar="N", help="round-trip delay, ms: half of it to each direction, always both"
    )
    for name, (option, meaning) in SETTING_OPTIONS.items():
        group = delay if name == "delay_ms" else parser
        group.add_argument(option, dest=name, type=_reader(name), metavar="N", help=meaning)
    parser.add_argument("--both", action="store_true", help="change DST→SRC likewise")
    parser.add_argument("--centre", choices=["up", "down"], help="let the sites reach the centre, or cut them off")


def _add_exec_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--end-with-lab", action="store_true", help="send the command SIGTERM when the lab ends")
    parser.add_argument("site", metavar="SITE")
    parser.add_argument("argv", nargs=argparse.REMAINDER, metavar="CMD…", help="the command and its arguments")


def _add_mesh_arguments(parser: argparse.ArgumentParser) -> None:
    _add_scenario(parser)
    which = parser.add_mutually_exclusive_group()
    which.add_argument("--loopback", action="store_true", help="127.77.N.1: the same sites without emulated paths")
    which.add_argument("--ipv6", action="store_true", help="add an IPv6 host to each site, for ping")


def _reader(setting: str) -> Callable[[str], float | str]:
    """How the value of a setting is written: a rate may be unlimited, a size is whole."""
    if setting.endswith("_mbps"):
        return _rate
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
    """Start the lab in a process of its own and wait until it answers."""
    run_dir: Path = arguments.run_dir.absolute()
    control.make_run_dir(run_dir)
    if _runs(run_dir):
        raise LabError(
            f"a lab runs in {run_dir} already: end it with `python -m probes lab down`, or use another --run-dir"
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
                log.read_text().strip().removeprefix("lab: ") or f"the lab ended with status {process.returncode}"
            )
        if time.monotonic() > deadline:
            process.terminate()
            raise LabError(f"the lab was not ready in {START_TIMEOUT_S:.0f} s: see {log}")
        time.sleep(POLL_S)
    state = control.read_state(run_dir)
    print(f"lab ready: {_summary(state)}")
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
    """What to ask for: a round trip is always split over both directions, the rest goes both ways with `--both`."""
    half = {} if arguments.rtt_ms is None else {"delay_ms": arguments.rtt_ms / 2}
    there = {**changes, **half}
    back = there if arguments.both else half
    requests = [control.SetRequest(source=source, destination=destination, changes=there)]
    if back:
        requests.append(control.SetRequest(source=destination, destination=source, changes=back))
    return requests


def _changes_text(changes: dict[str, float | int | None]) -> str:
    return ", ".join(f"{name} {UNLIMITED if value is None else f'{value:g}'}" for name, value in changes.items())


def _open_namespace(state: control.LabState, fd: int) -> int:
    path = f"/proc/{state.pid}/fd/{fd}"
    try:
        return os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError as error:
        raise LabError(f"{path}: {error.strerror}; run this as the user who started the lab") from error


def _processes_inside(state: control.LabState) -> list[tuple[int, str]]:
    """Pids of what runs in the sites' namespaces, with the site; the lab's way to the centre may be among them."""
    namespaces = {}
    for name, site in state.sites.items():
        namespaces[os.stat(_open_namespace(state, site.net_fd)).st_ino] = name
    found = []
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit() or int(entry.name) == state.pid:
            continue
        try:
            inode = (entry / "ns" / "net").stat().st_ino
        except OSError:
            # It has ended meanwhile, or is another user's, who has no place in this lab.
            continue
        if inode in namespaces:
            found.append((int(entry.name), namespaces[inode]))
    return found


def _summary(state: control.LabState) -> str:
    count = len(state.sites)
    right = "as root" if state.user_fd is None else "in a user namespace"
    centre = "" if state.centre_port is None else f", centre at 127.0.0.1:{state.centre_port}"
    return (
        f"{state.scenario} ({state.title}), {count} sites, {count * (count - 1)} paths, pid {state.pid}, {right}, "
        f"{state.scheduling} priority, seed {state.seed}{centre}; control {state.control_socket}"
    )


def _status_text(now: control.Status) -> str:
    """The table of `status`."""
    rows = [TABLE_HEADER, *(_row(path) for path in now.paths)]
    widths = [max(len(row[column]) for row in rows) for column in range(len(TABLE_HEADER))]
    waited = "" if now.timing.waited_s is None else f" and waited {now.timing.waited_s:.1f} s for it"
    lines = [
        f"lab {_summary(now.lab)}",
        f"up {now.uptime_s:.0f} s, relay used {now.timing.cpu_s:.1f} s of CPU{waited}; "
        f"{now.timing.late_over_1ms} packets left over 1 ms late, the latest {now.timing.latest_ms:.2f} ms",
    ]
    if now.centre is not None:
        lines.append(f"centre: {now.centre}")
    for site in now.sites:
        if site.overrun:
            lines.append(
                f"{site.name}: {site.overrun} packets dropped by the kernel because the relay was too slow for them"
            )
    lines.append("")
    lines += ["  ".join(_aligned(row, widths)) for row in rows]
    return "\n".join(lines)


def _row(path: control.PathStatus) -> tuple[str, ...]:
    settings, counts = path.settings, path.counts
    rate = "-" if settings.rate_mbps is None else f"{settings.rate_mbps:g}"
    queue = "-" if settings.rate_mbps is None else f"{settings.queue_limit_bytes * 8 / settings.rate_mbps / 1e3:g}"
    values = (settings.delay_ms, settings.jitter_ms, settings.loss_ratio)
    policer = "-" if settings.policer_mbps is None else f"{settings.policer_mbps:g}"
    dropped = (counts.dropped_loss, counts.dropped_queue, counts.dropped_policer)
    numbers = (counts.received, counts.forwarded, *dropped, counts.duplicated)
    return (
        f"{path.source} → {path.destination}",
        *(f"{value:g}" for value in values),
        rate,
        queue,
        policer,
        f"{settings.reorder_ratio:g}",
        f"{settings.duplicate_ratio:g}",
        *(str(number) for number in (*numbers, counts.reordered, counts.failed, path.held)),
    )


def _aligned(row: Sequence[str], widths: Sequence[int]) -> list[str]:
    return [row[0].ljust(widths[0]), *(cell.rjust(width) for cell, width in zip(row[1:], widths[1:], strict=True))]
