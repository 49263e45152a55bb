"""Warn of alert rules that cannot fire at the ping intervals of a mesh.toml."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from functools import cache

from monitor.analysis import figures
from monitor.mesh.document import expansion
from monitor.mesh.document.alert_rules import RULES, LeastSchedule, Place, settings_for
from monitor.mesh.document.burst_sizes import burst_sizes
from monitor.mesh.document.entries import MeshDocument, TestEntry
from monitor.mesh.kinds import packet_sizes
from probes.quantities import counted


@dataclass(frozen=True, slots=True)
class _PingSchedule:
    """The shortest interval of the pings of a path, and the group and the number of sizes of that test."""

    every_s: int
    group: str
    sizes: int


# Group, interval, the schedule that rules need, and number of packet sizes.
_Need = tuple[str, int, LeastSchedule, int]


def rules_without_effect(document: MeshDocument) -> list[str]:
    """Sentence for each group, interval and need of rules that cannot fire."""
    if not any(map(_is_too_slow, document.tests)):
        return []
    paths_of: dict[_PingSchedule, list[tuple[str, str]]] = defaultdict(list)
    for hosts, pings in _schedules(document).items():
        paths_of[pings].append(hosts)
    of_document = PathPlaces(document)

    @cache
    def places(pings: _PingSchedule) -> dict[int, Place]:
        return {number: of_document.between(hosts) for number, hosts in enumerate(paths_of[pings])}

    names: dict[_Need, dict[str, None]] = defaultdict(dict)
    paths: dict[_Need, set[tuple[str, str]]] = defaultdict(set)
    for name, rule in RULES.items():
        if rule.schedule is None:
            continue
        for pings, of_schedule in paths_of.items():
            if pings.every_s <= rule.schedule.longest_every_s(pings.sizes):
                continue
            key = (pings.group, pings.every_s, rule.schedule, pings.sizes)
            for number in settings_for(document.alerts, name, places(pings)):
                names[key][name] = None
                paths[key].add(of_schedule[number])
    return [_sentence(*key, list(names[key]), len(paths[key])) for key in names]


def _is_too_slow(test: TestEntry) -> bool:
    """Whether a rule could not fire with this test's bursts alone."""
    sizes, schedules = len(packet_sizes(test)), [rule.schedule for rule in RULES.values() if rule.schedule is not None]
    return sizes > 0 and any(test.every_s > schedule.longest_every_s(sizes) for schedule in schedules)


def _sentence(group: str, every_s: int, needed: LeastSchedule, sizes: int, names: list[str], paths: int) -> str:
    rules = " and ".join([", ".join(names[:-1]), names[-1]] if len(names) > 1 else names)
    longest_s = needed.longest_every_s(sizes)
    return (
        f'group "{group}": {rules} cannot fire on {counted(paths, "path")}, pinged every {figures.duration(every_s)}: '
        f"{'they need' if len(names) > 1 else 'it needs'} {needed.words}, every_s = {longest_s} "
        f"({figures.duration(longest_s)}) at most"
    )


def _schedules(document: MeshDocument) -> dict[tuple[str, str], _PingSchedule]:
    tests = {test.name: test for test in document.tests}
    schedules: dict[tuple[str, str], _PingSchedule] = {}
    groups = expansion.measurements(document)
    for wanted, sizes in burst_sizes(document, groups).items():
        if not sizes:
            continue
        test, group = tests[wanted.test], groups[wanted]
        present = schedules.get(wanted.hosts)
        if present is None or test.every_s < present.every_s:
            schedules[wanted.hosts] = _PingSchedule(test.every_s, group, len(sizes))
    return schedules


class PathPlaces:
    def __init__(self, document: MeshDocument) -> None:
        self._site_of = {host.name: site.name for site in document.sites for host in site.hosts}
        groups: dict[str, set[str]] = {site.name: set() for site in document.sites}
        for group in document.groups:
            for site in group.site_names:
                groups.setdefault(site, set()).add(group.name)
        self._groups_of = {site: frozenset(names) for site, names in groups.items()}

    def between(self, hosts: tuple[str, str]) -> Place:
        source, destination = self._site_of[hosts[0]], self._site_of[hosts[1]]
        return Place(source, destination, self._groups_of[source] & self._groups_of[destination], hosts)
