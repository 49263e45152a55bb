"""`manage.py throughput aggregate`: request a test; `--wait` prints its result."""

from __future__ import annotations

import getpass
import json
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.utils import timezone

from monitor.analysis.aggregate import AggregateState
from monitor.api.limited_requests import ask_aggregate
from monitor.api.throughput.aggregates import AggregateOut
from monitor.api.throughput_commands.aggregates import result_lines
from monitor.archive.queries.throughput.on_demand import OnDemandAggregate, on_demand_aggregate, wait
from monitor.mesh.kinds.throughput import ThroughputSettings, bits
from monitor.mesh.schedule.endings import GRACE_S
from monitor.mesh.schedule.on_demand import FIRST_PORT, AggregateSettings, settings_of
from probes.contract import Deadline

SUMMARY = "run an aggregate test as soon as all its hosts are free"
EXIT_STATUS = "0 requested, with --wait all members measured; 1 not possible, or a member did not measure; 2 usage"

# To wait for the result after a test: agents deliver every few seconds, the centre adds up each minute.
REPORTED_S = 120


def add_arguments(parser: CommandParser) -> None:
    parser.add_argument("test", nargs="?", help="an aggregate test of mesh.toml, with its hosts and settings")
    parser.add_argument("--senders", nargs="+", default=[], metavar="HOST", help="hosts that send, without a test")
    parser.add_argument("--receivers", nargs="+", default=[], metavar="HOST", help="hosts that receive")
    parser.add_argument(
        "--pairs", action="store_true", help="the first sender to the first receiver, and so on (default: each to each)"
    )
    parser.add_argument("--duration-s", type=int, default=10, help="duration, s (default 10)")
    parser.add_argument("--streams", type=int, default=1, help="parallel streams of each member (default 1)")
    parser.add_argument("--udp", action="store_true", help="UDP instead of TCP; needs --rate-mbps")
    parser.add_argument("--rate-mbps", type=float, help="target rate of each member, Mbit/s")
    parser.add_argument("--port", type=int, help=f"port of the first server (default: free ports, from {FIRST_PORT})")
    parser.add_argument("--wait", action="store_true", help="wait for the end of the test and print its result")
    parser.add_argument("--json", action="store_true", dest="as_json", help="print one JSON object at the end")


def run(command: BaseCommand, options: dict[str, Any]) -> None:
    """Raises `CommandError` and `OnDemandError`."""
    now = timezone.now()
    if (options["test"] is None) == (not options["senders"] and not options["receivers"]):
        raise CommandError("give the name of a test of mesh.toml, or --senders and --receivers")
    settings = _settings(options) if options["test"] is None else settings_of(options["test"])
    slot = ask_aggregate(settings, f"{getpass.getuser()}, manage.py", now)
    if not options["as_json"]:
        begins_s = (slot.starts_at - now).total_seconds()
        members = len(settings.host_pairs)
        command.stdout.write(
            f"aggregate test {slot.pk}, {members} members, begins at {slot.starts_at:%H:%M:%S} UTC, in {begins_s:.0f} s"
        )
        if not options["wait"]:
            command.stdout.write("its result will be on the page Aggregate; --wait waits for it and prints it")
    test = on_demand_aggregate(slot.pk, now)
    if options["wait"]:
        test = wait(on_demand_aggregate, slot.pk, Deadline((slot.ends_at - now).total_seconds() + REPORTED_S))
    assert test is not None
    if options["as_json"]:
        command.stdout.write(json.dumps(_plain(test), default=str))
    elif options["wait"] and test.result is not None:
        command.stdout.write("\n".join(result_lines(test.result)))
    if options["wait"] and (not test.is_over or test.result is None):
        raise CommandError(
            f"test {test.id} is {test.state}, {test.reported} of {len(test.members)} members reported; a silent member "
            f"counts as not completed {GRACE_S // 60} minutes after the end"
        )
    if options["wait"] and test.result is not None and test.result.state is not AggregateState.COMPLETE:
        raise CommandError(test.result.sentence)


def _settings(options: dict[str, Any]) -> AggregateSettings:
    senders, receivers = tuple(options["senders"]), tuple(options["receivers"])
    port = options["port"]
    return AggregateSettings(
        shape="pairs" if options["pairs"] else "many-to-one" if len(receivers) == 1 else "one-to-many",
        senders=senders,
        receivers=receivers,
        settings=ThroughputSettings(
            duration_s=options["duration_s"],
            streams=options["streams"],
            protocol="udp" if options["udp"] else "tcp",
            rate_bps=bits(options["rate_mbps"]),
            port=FIRST_PORT if port is None else port,
        ),
        has_port=port is not None,
    )


def _plain(test: OnDemandAggregate) -> dict[str, Any]:
    return {
        "id": test.id,
        "asked_at": test.asked_at,
        "asked_by": test.asked_by,
        "starts_at": test.starts_at,
        "ends_at": test.ends_at,
        "settings": test.parameters,
        "state": test.state,
        "members": [{name: getattr(member, name) for name in member.__slots__} for member in test.members],
        "result": None if test.result is None else AggregateOut.from_orm(test.result).dict(),
    }
