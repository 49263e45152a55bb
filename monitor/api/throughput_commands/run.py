"""`manage.py throughput run SRC DST`: request a test; `--wait` prints its result."""

from __future__ import annotations

import getpass
import json
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.utils import timezone

from monitor.analysis import figures
from monitor.archive.outcomes import outcome_words
from monitor.archive.queries.throughput.on_demand import OnDemand, TestState, on_demand, wait
from monitor.mesh.kinds.throughput import bits
from monitor.mesh.schedule.endings import GRACE_S
from monitor.mesh.schedule.on_demand import Settings, ask, find_path
from probes.contract import Deadline, Outcome

SUMMARY = "run a throughput test as soon as the agents are free"
EXIT_STATUS = "0 requested, with --wait measured; 1 not possible, or not measured; 2 usage"

# To wait for the result after the end of a test: agents deliver every few seconds.
REPORTED_S = 60


def add_arguments(parser: CommandParser) -> None:
    parser.add_argument("source", help="site or host that sends")
    parser.add_argument("destination", help="site or host that receives")
    parser.add_argument("--family", type=int, choices=(4, 6), help="address family of the path")
    parser.add_argument("--duration-s", type=int, default=10, help="duration, s (default 10)")
    parser.add_argument("--omit-s", type=int, default=0, help="warm-up before it that is not counted, s (default 0)")
    parser.add_argument("--streams", type=int, default=1, help="parallel streams (default 1)")
    parser.add_argument("--window-bytes", type=int, help="socket buffer of both ends, bytes (default: the system's)")
    parser.add_argument("--cc", help="congestion control of the sender, e.g. cubic or bbr (default: the system's)")
    parser.add_argument("--mss-bytes", type=int, help="MSS, bytes (default: the system's)")
    parser.add_argument("--block-bytes", type=int, help="length of each write, bytes (default: iperf3's)")
    parser.add_argument("--udp", action="store_true", help="UDP instead of TCP; needs --rate-mbps")
    parser.add_argument("--rate-mbps", type=float, help="target rate of all streams together, Mbit/s")
    parser.add_argument("--port", type=int, default=5201, help="port of the listening end (default 5201)")
    parser.add_argument(
        "--reverse", action="store_true", help="reverse connection: the receiver connects; data flows the same way"
    )
    parser.add_argument(
        "--capture-packets",
        type=int,
        metavar="N",
        help="both ends keep the headers of so many packets, as far as limits.toml of their sites allows",
    )
    parser.add_argument("--wait", action="store_true", help="wait for the end of the test and print its result")
    parser.add_argument("--json", action="store_true", dest="as_json", help="print one JSON object at the end")


def run(command: BaseCommand, options: dict[str, Any]) -> None:
    """Raises `CommandError` and `OnDemandError`."""
    now = timezone.now()
    path = find_path(options["source"], options["destination"], options["family"])
    slot = ask(path, _settings(options), by=f"{getpass.getuser()}, manage.py", now=now)
    if not options["as_json"]:
        begins_s = (slot.starts_at - now).total_seconds()
        command.stdout.write(f"test {slot.pk} of {path} begins at {slot.starts_at:%H:%M:%S} UTC, in {begins_s:.0f} s")
        if not options["wait"]:
            command.stdout.write("its result will be on the page of the path; --wait waits for it and prints it")
    if options["wait"]:
        test = wait(on_demand, slot.pk, Deadline((slot.ends_at - now).total_seconds() + REPORTED_S))
    else:
        planned = on_demand(slot.pk, now)
        assert planned is not None
        test = planned
    if options["as_json"]:
        command.stdout.write(json.dumps(_plain(test), default=str))
    elif options["wait"] and test.outcome == Outcome.MEASURED:
        command.stdout.write(_measured(test))
    if options["wait"] and test.outcome != Outcome.MEASURED:
        raise CommandError(_not_measured(test))


def _settings(options: dict[str, Any]) -> Settings:
    return Settings(
        protocol="udp" if options["udp"] else "tcp",
        rate_bps=bits(options["rate_mbps"]),
        congestion_control=options["cc"],
        **{name: options[name] for name in Settings.__struct_fields__ if name in options},
    )


def _measured(test: OnDemand) -> str:
    said = f"measured: {figures.bit_rate(test.throughput_bps)}"
    return said if test.sentence is None else f"{said}\n{test.sentence}"


def _not_measured(test: OnDemand) -> str:
    if test.state is not TestState.ENDED:
        counts = f"it counts as not completed {GRACE_S // 60} minutes after its end"
        return f"test {test.id} is {test.state}: no result yet; {counts}"
    return f"{outcome_words(test.outcome or '')}: {test.detail or 'no reason given'}"


def _plain(test: OnDemand) -> dict[str, Any]:
    return {name: getattr(test, name) for name in OnDemand.__slots__}
