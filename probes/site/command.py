"""`python -m probes site`: check options, then become the agent's supervisor (`probes.site.supervisor`)."""

from __future__ import annotations

import argparse
import contextlib
import fcntl
import functools
import importlib
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import IO, NoReturn

import msgspec

from probes.commands.own_command import MANAGE, agent_command
from probes.commands.subcommands import add_subcommand
from probes.data_folder import default_agent_data
from probes.private_files import UMASK, close_to_others, is_open_to_others
from probes.site import identity
from probes.site.limits.read import LimitsError, read_limits
from probes.site.limits.usage import UsageError, read_usage
from probes.site.settings import (
    AgentSettings,
    SettingsError,
    check_centre,
    identity_file,
    keep_start_options,
    limits_file,
    lock_file,
    read_joined,
    read_token,
    readable_by_others,
    split_urls,
    token_file,
    usage_file,
)
from probes.site.supervisor import say

DATA = default_agent_data()

# Files that the agent writes into its data folder; a limits.toml there is its administrator's.
WRITTEN = (
    "centre.json",
    "identity.json",
    "plan.json",
    "start.json",
    "state.json",
    "usage.json",
    "spool*.sqlite3*",
    "token",
    "agent.lock",
    "pulse",
    "log",
    "socket",
)


class AlreadyRunning(Exception):
    """Another agent has this data folder."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_run_arguments(parser)
    add_verbs(parser.add_subparsers(metavar="VERB", title="besides running the agent"))


def add_run_arguments(parser: argparse.ArgumentParser) -> None:
    _add_options(parser)
    parser.set_defaults(data=DATA)
    parser.add_argument(
        "--metrics",
        metavar="ADDRESS:PORT",
        help="serve the agent's metrics for Prometheus over plain HTTP, e.g. 127.0.0.1:9375 (default: off)",
    )


def add_verbs(verbs: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the administrator's verbs, which have no default data folder here."""

    def add_verb(
        name: str, summary: str, module: str | None = None, exit_status: str | None = None
    ) -> argparse.ArgumentParser:
        # A default of the verb would override an option given before the verb.
        verb = add_subcommand(verbs, name, summary, exit_status=exit_status, argument_default=argparse.SUPPRESS)
        verb.set_defaults(run=functools.partial(_run_verb, f"probes.site.{module or name}"))
        return verb

    join = add_verb("join", "join a centre with a one-time code, and store the token of this site")
    join.add_argument(
        "url", metavar="URL[,URL…]", help="address of the centre, https://…; several are tried in this order"
    )
    join.add_argument(
        "code", metavar="CODE", help=f"one-time code from `{MANAGE} site enrol`; - reads it from standard input"
    )
    _add_data(join)
    _add_plain_http(join)
    status = add_verb(
        "status",
        "show running tests, backlog and last error of the agent",
        exit_status="0 the agent works and its results are accepted, 1 it does not, 2 usage",
    )
    _add_data(status)
    doctor = add_verb(
        "doctor",
        "check limits, permissions, tools, the centre, the clock, DNS, MTU and ports, and print a fix for each problem",
        module="doctor.run",
        exit_status="0 all checks pass, 1 something needs fixing, 2 usage",
    )
    _add_options(doctor)
    limits = add_verb(
        "limits",
        "show the limits of this site and their use today",
        module="limits.command",
        exit_status="0 the limits are valid, 1 they cannot be read, 2 usage",
    )
    _add_data(limits)
    _add_limits(limits)
    for verb in (status, doctor, limits):
        verb.add_argument("--json", action="store_true", default=False, help="print JSON")


def _add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--centre",
        metavar="URL[,URL…]",
        help="address of the centre, https://… or unix:///PATH; several are tried in this order (default: the joined "
        "centre)",
    )
    parser.add_argument(
        "--token-file", type=Path, metavar="FILE", help="file with the site's token (default: from join)"
    )
    _add_limits(parser)
    _add_data(parser)
    _add_plain_http(parser)


def _add_limits(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--limits",
        type=Path,
        metavar="FILE",
        help="limits.toml: limits on measurements (default: that in the data folder, else /etc/soundings/limits.toml)",
    )


def _add_data(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--data", type=Path, metavar="DIR", help=f"folder of the agent (default {DATA})")


def _add_plain_http(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--allow-plain-http",
        action="store_true",
        help="send the token over plain HTTP to a centre on another machine, on a network of your own",
    )


def _run_verb(module_name: str, args: argparse.Namespace) -> int:
    status: int = importlib.import_module(module_name).run(args)
    return status


def run(args: argparse.Namespace) -> int:
    """Check the options and run the agent in this process; 1 if it could not start. Raises PermissionError."""
    os.umask(UMASK)
    try:
        data = args.data.resolve()
        data.mkdir(parents=True, exist_ok=True)
        settings = _settings(args, data)
        close_to_others(data, WRITTEN)
        if is_open_to_others(data):
            say(f"{data} belongs to another user and can be entered by others: chmod 700 {data}")
        with _only_agent_of(data) as lock:
            begun = identity.begin(identity_file(data))
            settings = msgspec.structs.replace(settings, identity=str(begun))
            keep_start_options(settings)
            _become_supervisor(settings, lock, args.metrics)
    except PermissionError:
        raise
    except (SettingsError, LimitsError, UsageError, AlreadyRunning, OSError) as error:
        print(f"site: {error}", file=sys.stderr)
        return 1


def _settings(args: argparse.Namespace, data: Path) -> AgentSettings:
    joined = read_joined(data) if args.centre is None else None
    if joined is None and args.centre is None:
        raise SettingsError(
            f"{data} has joined no centre: run `{agent_command('join')} URL CODE`, or give --centre and --token-file"
        )
    allow_plain_http = args.allow_plain_http or (joined is not None and joined.allow_plain_http)
    token = args.token_file or token_file(data)
    urls = split_urls(args.centre) if joined is None else (joined.centre, *joined.further_urls)
    for url in urls:
        check_centre(url, allow_plain_http)
    read_token(token)
    if readable_by_others(token):
        say(f"--token-file {token} can be read by others: chmod 600 {token}")
    limits = limits_file(data, args.limits)
    read_limits(limits)
    read_usage(usage_file(data))
    return AgentSettings(
        centre=urls[0],
        further_urls=urls[1:],
        token_file=str(token.resolve()),
        data=str(data),
        limits_file=None if limits is None else str(limits.resolve()),
        allow_plain_http=allow_plain_http,
    )


@contextlib.contextmanager
def _only_agent_of(data: Path) -> Iterator[IO[str]]:
    """Hold the data folder's lock, which the kernel releases however we end."""
    with lock_file(data).open("a+") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            lock.seek(0)
            raise AlreadyRunning(
                f"another agent runs on {data} (process {lock.read().strip()}); stop it, or give another --data"
            ) from None
        lock.truncate(0)
        lock.write(f"{os.getpid()}\n")
        lock.flush()
        yield lock


def _become_supervisor(settings: AgentSettings, lock: IO[str], metrics: str | None) -> NoReturn:
    os.set_inheritable(lock.fileno(), True)
    centres = ", else ".join((settings.centre, *settings.further_urls))
    options = [settings.data, str(settings.heartbeat_file), centres, *([] if metrics is None else [metrics])]
    sys.stdout.flush()
    os.execve(
        sys.executable,
        [sys.executable, "-m", "probes.site.supervisor", *options],
        {**os.environ, **settings.environment()},
    )
