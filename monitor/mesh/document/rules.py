"""Check relations between entries of mesh.toml; problems name the line to fix."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Mapping

from monitor.mesh.document import addresses, expansion
from monitor.mesh.document.alert_rules import FOR, PATH, RULES
from monitor.mesh.document.burst_sizes import burst_sizes
from monitor.mesh.document.entries import WITH_SLOTS, GroupEntry, HostEntry, MeshDocument, TestEntry
from monitor.mesh.document.service_levels import check_promised
from monitor.mesh.document.stamp_rules import check_stamp
from monitor.mesh.document.structure import selections
from monitor.mesh.kinds import MESH_KINDS, packet_sizes, slot_s
from monitor.mesh.kinds.aggregate_rules import check_aggregates
from monitor.mesh.kinds.server_rules import check_server_ports
from monitor.mesh.schedule.timetable import Job, Timetable, place
from probes.site.limits.networks import DEFAULT_ALLOWED, networks_around
from probes.toml.keys import keys_of, to_toml
from probes.toml.tables import Table

# Equal tests always fit up to here: 3/2 colours per edge at a vertex suffice (Shannon 1949).
ALWAYS_FITS_RATIO = 2 / 3

SHOWN_SITES = 3
SHOWN_TARGETS = 3

# Table of each entry by kind and name, so that a rule can name its line.
Entries = Mapping[str, Mapping[str, Table]]


def check(document: MeshDocument, top: Table, entries: Entries) -> None:
    """Record every violated rule; `top` is the file's table."""
    _home_has_an_agent(document, top)
    for test in document.tests:
        _fits_its_period(test, entries["test"][test.name])
    for group in document.groups:
        _measures_something(document, group, entries)
    wanted = expansion.measurements(document)
    _one_kind_of_bursts(document, wanted, entries)
    _packet_sizes_differ(document, wanted, entries)
    check_stamp(document, wanted, entries)
    check_server_ports(document, wanted, entries)
    check_aggregates(document, entries)
    _hosts_have_the_time(document, wanted, entries)
    _turns_fit(document, wanted, entries)
    _paths_are_measured(wanted, top, entries)
    check_promised(document, (measurement.hosts for measurement in wanted), top)
    _windows_hold_a_cycle(document, top)


def _home_has_an_agent(document: MeshDocument, top: Table) -> None:
    home = next((site for site in document.sites if site.name == document.home), None)
    for mesh in top.tables("mesh"):
        if home is not None and not home.has_agent:
            mesh.problem(
                f'home "{home.name}" has agent = false, so nothing can run there; name a site with an agent', "home"
            )


def _paths_are_measured(wanted: Collection[expansion.MeasurementEntry], top: Table, entries: Entries) -> None:
    tables = [table for table in selections(top) if PATH in table.elements]
    measured = {measurement.hosts for measurement in wanted} if tables else set()
    for table in tables:
        path = tuple(table.elements[PATH].values())
        if measured and len(path) == 2 and entries["host"].keys() >= set(path) and path not in measured:
            hint = "; it is measured in the reverse direction" if path[::-1] in measured else ""
            table.problem(f'no group measures the path from "{path[0]}" to "{path[1]}"{hint}', PATH)


def _fits_its_period(test: TestEntry, table: Table) -> None:
    length = MESH_KINDS[test.kind].length(test)
    if length is not None and length.seconds > test.every_s:
        table.problem(
            f"one cycle takes {length.seconds:g} s ({length.reason}), longer than every_s = {test.every_s}; "
            f"write at least {_whole(length.seconds)}, or measure less",
            "every_s",
        )


def _whole(seconds: float) -> int:
    return -int(-seconds // 1)


def _measures_something(document: MeshDocument, group: GroupEntry, entries: Entries) -> None:
    table = entries["group"][group.name]
    sites = {site.name for site in document.sites}
    if not sites.issuperset(group.site_names):
        return
    for test in document.tests:
        is_of_group = test.name in group.tests and not test.host_pairs
        if is_of_group and next(expansion.of_group(document, group, test), None) is None:
            needs = "agents at both ends" if test.kind in WITH_SLOTS else "an agent at its source"
            members = [host for site in document.sites if site.name in group.site_names for host in site.hosts]
            listens = ", and no NAT before the end that listens" if any(host.behind_nat for host in members) else ""
            table.problem(
                f'test "{test.name}" has no path to measure here; it needs two sites with hosts of one family '
                f"that measure {'throughput' if test.kind in WITH_SLOTS else 'ping'}, and {needs}{listens}",
                "tests",
            )


def _one_kind_of_bursts(
    document: MeshDocument, wanted: dict[expansion.MeasurementEntry, str], entries: Entries
) -> None:
    # Pings and TCP handshakes are no single series.
    tests = {
        test.name: test
        for test in document.tests
        if packet_sizes(test) and not MESH_KINDS[test.kind].stands_in_for_pings
    }
    if len({test.kind for test in tests.values()}) < 2:
        return
    taken: dict[tuple[str, str], str] = {}
    reported = set()
    for measurement, group in wanted.items():
        if measurement.test not in tests:
            continue
        other = taken.setdefault(measurement.hosts, measurement.test)
        kinds = tests[other].kind, tests[measurement.test].kind
        if kinds[0] != kinds[1] and (other, measurement.test) not in reported:
            reported.add((other, measurement.test))
            entries["group"][group].problem(
                f'the path from "{measurement.source}" to "{measurement.destination}" has the test "{other}" of kind '
                f'{kinds[0]} and "{measurement.test}" of kind {kinds[1]}, but its loss and RTT can be of one kind '
                "only; remove one of the tests",
                "tests",
            )


def _packet_sizes_differ(
    document: MeshDocument, wanted: dict[expansion.MeasurementEntry, str], entries: Entries
) -> None:
    # Bursts are identified by path and size, so sizes must differ.
    standing_in = {test.name for test in document.tests if MESH_KINDS[test.kind].stands_in_for_pings}
    if len([test for test in document.tests if packet_sizes(test) and test.name not in standing_in]) < 2:
        return
    sizes, kinds = burst_sizes(document, wanted), {test.name: test.kind for test in document.tests}
    taken: dict[tuple[str, str, int], str] = {}
    reported = set()
    for measurement, group in wanted.items():
        for size in () if measurement.test in standing_in else sizes[measurement]:
            other = taken.setdefault((measurement.source, measurement.destination, size), measurement.test)
            is_other = other != measurement.test and kinds[other] == kinds[measurement.test]
            if is_other and (other, measurement.test, size) not in reported:
                reported.add((other, measurement.test, size))
                entries["group"][group].problem(
                    f'tests "{other}" and "{measurement.test}" both ping from "{measurement.source}" to '
                    f'"{measurement.destination}" with '
                    f"{size} bytes, so their results are ambiguous; remove a test or a size",
                    "tests",
                )


def _hosts_have_the_time(
    document: MeshDocument, wanted: dict[expansion.MeasurementEntry, str], entries: Entries
) -> None:
    fitting = (test for test in document.tests if test.kind in WITH_SLOTS and _slot_ratio(test) <= 1)
    tests = {test.name: test for test in fitting}
    runs: list[expansion.MeasurementEntry | expansion.SimultaneousRun] = [
        *(run for run in wanted if run.test in tests and not tests[run.test].host_pairs),
        *(run for run in expansion.runs_of_pairs(document) if run.test in tests),
    ]
    takes = _takes(document)
    counts: dict[str, Counter[str]] = defaultdict(Counter)
    for run in runs:
        for taken in dict.fromkeys(name for host in run.hosts for name in takes[host]):
            counts[taken][run.test] += 1
    busiest = max(counts, key=lambda taken: _busy_ratio(tests, counts[taken]), default="")
    busy_ratio = _busy_ratio(tests, counts[busiest])
    name = max(counts[busiest], key=lambda test: counts[busiest][test] * _slot_ratio(tests[test]), default="")
    if busy_ratio > 1:
        every_s = _whole(tests[name].every_s * busy_ratio)
        message = "one at a time, and would be busy"
    elif busy_ratio > ALWAYS_FITS_RATIO and not _all_find_room(runs, tests, takes):
        every_s = _whole(tests[name].every_s * busy_ratio / ALWAYS_FITS_RATIO)
        message = "and some of them find no time at which both their hosts are free, as each is busy up to"
    else:
        return
    test, count = tests[name], counts[busiest][name]
    entries["test"][name].problem(
        f"{busiest} takes part in {count} tests of {slot_s(test.kind, test.parameters)} s every "
        f"{test.every_s} s, {message} {busy_ratio:.0%} of the time; write every_s = {every_s} or more, or test fewer "
        "pairs",
        "every_s",
    )


def _takes(document: MeshDocument) -> dict[str, tuple[str, ...]]:
    return {
        host.name: (
            f'host "{host.name}"',
            *(() if host.uplink is None else (f'uplink "{host.uplink}" of site "{site.name}"',)),
        )
        for site in document.sites
        for host in site.hosts
    }


def _all_find_room(
    runs: list[expansion.MeasurementEntry | expansion.SimultaneousRun],
    tests: dict[str, TestEntry],
    takes: dict[str, tuple[str, ...]],
) -> bool:
    numbers = {name: number for number, name in enumerate(sorted({name for names in takes.values() for name in names}))}
    jobs = [
        Job(
            measurement_id=number,
            source_id=numbers[takes[run.hosts[0]][0]],
            destination_id=numbers[takes[run.hosts[1]][0]],
            other_host_ids=tuple(numbers[takes[host][0]] for host in run.hosts[2:]),
            every_s=tests[run.test].every_s,
            length_s=slot_s(tests[run.test].kind, tests[run.test].parameters),
            uplink_ids=tuple(dict.fromkeys(numbers[name] for host in run.hosts for name in takes[host][1:])),
        )
        for number, run in enumerate(runs)
    ]
    longest_s = max(job.every_s for job in jobs)
    return all(placement.fits for placement in place(jobs, Timetable(), 0, longest_s))


def _slot_ratio(test: TestEntry) -> float:
    return slot_s(test.kind, test.parameters) / test.every_s


def _busy_ratio(tests: dict[str, TestEntry], counts: Counter[str]) -> float:
    return sum(count * _slot_ratio(tests[name]) for name, count in counts.items())


def _turns_fit(document: MeshDocument, wanted: dict[expansion.MeasurementEntry, str], entries: Entries) -> None:
    # An agent measures capacities in sequence; they must fit the period.
    site_of = {host.name: site.name for site in document.sites for host in site.hosts}
    for test in document.tests:
        turn_s = MESH_KINDS[test.kind].turn_s
        if turn_s is None:
            continue
        counts = Counter(site_of[measurement.source] for measurement in wanted if measurement.test == test.name)
        site, count = max(counts.items(), key=lambda item: item[1], default=("", 0))
        if count * turn_s > test.every_s:
            entries["test"][test.name].problem(
                f'site "{site}" measures {count} paths one after the other, {turn_s:g} s each, which takes longer '
                f"than every_s = {test.every_s}; write at least {_whole(count * turn_s)}, or test fewer pairs",
                "every_s",
            )


def _windows_hold_a_cycle(document: MeshDocument, top: Table) -> None:
    least_s = min((test.every_s for test in document.tests if packet_sizes(test)), default=0)
    tables = [table for alerts in top.tables("alerts") for table in (alerts, *alerts.tables(FOR))]
    for name, rule in RULES.items():
        keys = [key.name for key in keys_of(rule).values() if key.meta.get("holds_a_cycle")]
        for table in (settings for above in tables for settings in above.tables(name) if settings.is_valid):
            for key in keys:
                if key in table.values and table.values[key] < least_s:
                    table.problem(
                        f"{key} = {table.values[key]} is shorter than the {least_s} s from one ping cycle to the next; "
                        f"write at least {least_s}",
                        key,
                    )


def private_address_warnings(document: MeshDocument) -> list[str]:
    """Sentence for each private address that public hosts are to reach."""
    places = {host.name: (site.name, host) for site in document.sites for host in site.hosts}
    private = {name for name, (_, host) in places.items() if addresses.is_private(host.address)}
    peers: dict[str, dict[str, None]] = defaultdict(dict)
    public = {name for name, (_, host) in places.items() if addresses.guarded_network(host.address) is None}
    if public:
        for measurement in expansion.measurements(document):
            for name, other in (measurement.hosts, measurement.hosts[::-1]):
                site = places[other][0]
                if name in private and other in public and not _has_address_for(places[name][1], site):
                    peers[name][site] = None
    return [_sentence(places[name][1], list(sites)) for name, sites in peers.items()]


def refused_address_warnings(document: MeshDocument) -> list[str]:
    """Sentence on targets that agents measure only if limits.toml allows them."""
    places = {host.name: (site.name, host) for site in document.sites for host in site.hosts}
    refused: dict[str, None] = {}
    for measurement in expansion.measurements(document):
        host = places[measurement.destination][1]
        address = _address_for(host, places[measurement.source][0]) or host.address
        if addresses.guarded_network(address) is not None:
            refused[address] = None
    return [_refusal(list(refused))] if refused else []


def _refusal(targets: list[str]) -> str:
    shown = ", ".join(targets[:SHOWN_TARGETS]) + (" …" if len(targets) > SHOWN_TARGETS else "")
    allowed = ", ".join(map(to_toml, (*DEFAULT_ALLOWED, *networks_around(targets))))
    return (
        f"an agent measures private, loopback and link-local addresses ({shown}) only if its limits.toml allows them: "
        f"at each site that is to measure them, write allowed = [{allowed}] into [networks], or narrower networks; "
        "until then they are not permitted, and nothing is measured"
    )


def _has_address_for(host: HostEntry, site: str) -> bool:
    return _address_for(host, site) is not None


def _address_for(host: HostEntry, site: str) -> str | None:
    return next((peer.address for peer in host.peers if site in peer.sites and peer.address is not None), None)


def _sentence(host: HostEntry, sites: list[str]) -> str:
    others = ", ".join(sites[:SHOWN_SITES]) + (" …" if len(sites) > SHOWN_SITES else "")
    nat = "" if host.behind_nat else "; where the router lets nothing in, write behind_nat = true too"
    return (
        f'host "{host.name}": {host.address} is a private address, which sites with public addresses ({others}) cannot '
        f"reach or see over the Internet: paths to it have 100% loss; write the public address of its router{nat}"
    )
