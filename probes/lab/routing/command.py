from __future__ import annotations

import argparse
from datetime import UTC, datetime

from probes.commands.own_command import probes_command
from probes.lab import breaks, control
from probes.lab.routing.protocol import RouteRequest, RouteStatus
from probes.lab.routing.topology import Route, Routes
from probes.lab.scenario import resolve_path
from probes.lab.settings import LabError

VIA = "via"
USAGE = "lab route SRC DST via A,B,C [via A,D,C] [--one-way] [--watch], or lab route SRC DST --original"


def add_route_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "words",
        nargs="*",
        metavar="SRC DST via A,B,C",
        help="path, and its routers in order; flows are balanced over several routes, each after its own `via`. "
        "Without routers, print the present routes",
    )
    parser.add_argument("--one-way", action="store_true", help="leave the reverse direction as it is")
    parser.add_argument("--watch", action="store_true", help="wait for the incident, and print how long it took")
    parser.add_argument("--original", action="store_true", help="restore the routes of the scenario")


def route(arguments: argparse.Namespace) -> int:
    """Change a path's routes, in both directions unless `--one-way`, and print them."""
    ends, routes = _parse(arguments.words)
    pair = resolve_path(":".join(ends), control.read_state(arguments.run_dir).sites) if ends else None
    if routes and arguments.original:
        raise LabError("give either routers or --original")
    if arguments.watch and not routes:
        raise LabError("--watch is for a change of the route: give its routers")
    if (routes or arguments.original) and pair is None:
        raise LabError(f"give the path: {USAGE}")
    if pair is not None and (routes or arguments.original):
        request = RouteRequest(source=pair[0], destination=pair[1], routes=routes or None, is_one_way=arguments.one_way)
        control.ask(arguments.run_dir, request)
    status = control.ask_status(arguments.run_dir)
    if not status.routes:
        raise LabError("this lab has no routers: start a scenario with routers, such as four-sites-routed")
    for path in status.routes:
        if pair is None or {path.source, path.destination} == set(pair):
            print(route_text(path))
    if pair is not None and routes:
        option = breaks.run_dir_option(arguments.run_dir)
        effect, wait_s = breaks.expected_effect(status.lab, path=":".join(pair))
        hint = ["--watch waits for the incident"] if wait_s is not None and not arguments.watch else []
        undo = f"undo: {probes_command()} lab route{option} {pair[0]} {pair[1]} --original"
        print("\n".join([*effect, *hint, undo]))
        if arguments.watch:
            began = [path.changed_at for path in status.routes if (path.source, path.destination) == pair]
            return breaks.watch(status.lab, pair, next(filter(None, began), datetime.now(UTC)), wait_s)
    return 0


def route_text(path: RouteStatus) -> str:
    changed = "" if path.changed_at is None else f"  (changed {path.changed_at:%H:%M:%S} UTC)"
    return f"{path.source} → {path.destination}: via {' | '.join(map(','.join, path.routes))}{changed}"


def _parse(words: list[str]) -> tuple[list[str], Routes]:
    groups: list[list[str]] = [[]]
    for word in words:
        if word == VIA:
            groups.append([])
        else:
            groups[-1].append(word)
    ends, *ways = groups
    routes: list[Route] = [tuple(name for word in way for name in word.split(",") if name) for way in ways]
    if not all(routes):
        raise LabError(f"`via` needs routers: {USAGE}")
    return ends, tuple(routes)
