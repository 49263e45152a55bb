"""Check the STAMP tests of mesh.toml, and warn of tests that need more than the file."""

from __future__ import annotations

from collections.abc import Mapping

from monitor.mesh.document import expansion
from monitor.mesh.document.entries import MeshDocument
from monitor.mesh.document.expansion import MeasurementEntry
from monitor.mesh.kinds.stamp import StampEntry
from probes.quantities import counted
from probes.stamp.limits import StampLimits
from probes.toml.tables import Table


def check_stamp(
    document: MeshDocument, wanted: Mapping[MeasurementEntry, str], entries: Mapping[str, Mapping[str, Table]]
) -> None:
    """Record violated rules; `wanted` maps measurements to groups."""
    tests = {test.name: test for test in document.tests if isinstance(test, StampEntry)}
    stamps = {measurement: group for measurement, group in wanted.items() if measurement.test in tests}
    _paths_have_one_test(stamps, entries)


def _paths_have_one_test(stamps: Mapping[MeasurementEntry, str], entries: Mapping[str, Mapping[str, Table]]) -> None:
    first: dict[tuple[str, str], str] = {}
    reported = set()
    for measurement, group in stamps.items():
        other = first.setdefault(measurement.hosts, measurement.test)
        if other != measurement.test and (other, measurement.test) not in reported:
            reported.add((other, measurement.test))
            entries["group"][group].problem(
                f'tests "{other}" and "{measurement.test}" both measure the directions from "{measurement.source}" to '
                f'"{measurement.destination}", so their results are ambiguous; remove one of them',
                "tests",
            )


def stamp_warnings(document: MeshDocument) -> list[str]:
    """Sentence for each STAMP test that needs other reflectors or limits."""
    tests = {test.name: test for test in document.tests if isinstance(test, StampEntry)}
    site_of = {host.name: site for site in document.sites for host in site.hosts}
    destinations: dict[str, dict[str, None]] = {name: {} for name in tests}
    for measurement in expansion.measurements(document) if tests else ():
        site = site_of[measurement.destination]
        if measurement.test in tests and not site.has_agent:
            destinations[measurement.test][site.name] = None
    least_s = StampLimits().min_spacing_s
    return [
        f'test "{name}": {counted(len(sites), "site")} without an agent ({", ".join(sites)}): a router or host there '
        f"has to answer STAMP or TWAMP Light on UDP port {tests[name].port}; answering pings is not enough"
        for name, sites in destinations.items()
        if sites
    ] + [
        f'test "{name}": spacing_s = {test.spacing_s:g} is below the usual limit of an agent: each cycle ends in '
        f"not_permitted unless limits.toml of the site has min_spacing_s = {test.spacing_s:g} in [stamp] (default "
        f"{least_s:g})"
        for name, test in tests.items()
        if test.spacing_s < least_s
    ]
