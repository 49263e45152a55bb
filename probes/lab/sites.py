"""`python -m probes lab site NAME down|up`: a site that is down loses all packets of its paths."""

from __future__ import annotations

import argparse

from probes.commands.own_command import probes_command
from probes.lab import breaks, control
from probes.lab.control import LabStatus, PathStatus, SetRequest
from probes.lab.scenario import resolve_site
from probes.lab.settings import LabError

ALL_LOST = 1.0


def add_site_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("site", metavar="SITE", help="site of the lab")
    parser.add_argument("state", choices=["down", "up"], help="down: all its paths lose every packet")


def change_site(arguments: argparse.Namespace) -> int:
    status = control.ask_status(arguments.run_dir)
    name = resolve_site(arguments.site, {path.source for path in status.paths})
    requests = site_requests(status, name, is_down=arguments.state == "down")
    for request in requests:
        control.ask(arguments.run_dir, request)
    print(f"{name}: {arguments.state}, {len(requests)} paths changed")
    if arguments.state == "down":
        effect, _ = breaks.expected_effect(status.lab, site=name)
        option = breaks.run_dir_option(arguments.run_dir)
        print("\n".join([*effect, f"undo: {probes_command()} lab site{option} {name} up"]))
    return 0


def site_requests(status: LabStatus, name: str, *, is_down: bool) -> list[SetRequest]:
    """Requests that take a site down or restore its loss."""
    paths = [path for path in paths_of(status, name) if _loses_all(path) != is_down]
    if not is_down:
        # Paths to another site that is down stay so, unless all are: then this site is up without any.
        alive = [path for path in paths if not _is_down_without(status, _other(path, name), name)]
        paths = alive or paths
    return [_loss_request(path, is_down=is_down) for path in paths]


def _loss_request(path: PathStatus, *, is_down: bool) -> SetRequest:
    if path.original is None:
        raise LabError("this lab is of an earlier version and does not know its scenario's settings; restart it")
    changes: dict[str, float | int | None] = {"loss_ratio": ALL_LOST if is_down else path.original.loss_ratio}
    return SetRequest(source=path.source, destination=path.destination, changes=changes)


def _is_down_without(status: LabStatus, name: str, other: str) -> bool:
    paths = [path for path in paths_of(status, name) if other not in (path.source, path.destination)]
    return bool(paths) and all(_loses_all(path) for path in paths)


def _other(path: PathStatus, name: str) -> str:
    return path.destination if path.source == name else path.source


def sites_down(status: LabStatus) -> list[str]:
    """Sites that lose everything on all paths."""
    names = sorted({path.source for path in status.paths})
    return [name for name in names if all(_loses_all(path) for path in paths_of(status, name))]


def paths_of(status: LabStatus, name: str) -> list[PathStatus]:
    return [path for path in status.paths if name in (path.source, path.destination)]


def _loses_all(path: PathStatus) -> bool:
    return path.settings.loss_ratio == ALL_LOST
